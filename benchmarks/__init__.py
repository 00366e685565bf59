"""Benchmarks of speed (steps per second) and of GPU work (kernels and bytes of a step).

Those that count GPU work need no GPU: they compile for a GPU that exists only as a description.
"""
