"""Shared code of the benchmarks: contestants, timing, the device lock and the command line."""
