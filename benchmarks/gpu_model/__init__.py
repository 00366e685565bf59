"""Kernels, bytes and predicted time of a GPU program, read from the HLO that XLA compiled."""
