"""Benchmarks of speed (steps per second), GPU work (kernels and bytes of a step), and learning.

Counting GPU work needs no GPU: XLA compiles a program from a description of the GPU alone.
"""
