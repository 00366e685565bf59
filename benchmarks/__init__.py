"""Benchmarks of speed (steps per second) and of GPU work (kernels and bytes of a step).

Counting GPU work needs no GPU: XLA compiles for a GPU that exists only as a description.
"""
