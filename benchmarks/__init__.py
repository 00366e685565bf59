"""Measurements: steps per second, and the work of a step on a GPU that need not be there."""
