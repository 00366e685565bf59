"""Model of a GPU: computes kernels, bytes and time of a program from its compiled HLO.

HLO is XLA's intermediate representation, read here in its text form. The model needs no GPU.
"""
