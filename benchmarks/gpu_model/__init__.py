"""Model of a GPU: computes kernels, bytes and time of a program from its compiled HLO.

HLO is the text form of XLA's programs. The model needs no GPU.
"""
