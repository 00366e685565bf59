"""Code for XLA only: it decides what is computed once, and changes no value.

MEASURE
"""
