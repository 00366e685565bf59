"""Benchmarks of speed (steps per second) and of GPU work (kernels and bytes of a step).

Counting GPU work needs no GPU: XLA compiles a program from a description of the GPU alone.
"""
