"""Benchmarks of speed (steps per second) and of GPU work (kernels and bytes of a step).

GPU work can be counted without a GPU: XLA compiles for a GPU that exists only as a description.
"""
