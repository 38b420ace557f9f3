"""Triton kernels on the simulated chip: compiled by the vendor's own compilers, timed and evaluated as the
instructions that come out.
"""
