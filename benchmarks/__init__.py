"""Benchmarks: they measure speed (steps per second) and count the GPU work of a step.

Some count the work of a GPU on a machine without one, by compiling for a described GPU.
"""
