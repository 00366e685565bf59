"""Environments and learners of other packages, run as their authors ship them."""
