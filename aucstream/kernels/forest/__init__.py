"""Kernels of `JointForest`: columns and their running statistics, trees, Fourier features, the mixture of its sums.

It is a room of its own because the four share one layout of a row: scattered raw, scattered standardised, and the
list of its active columns.
"""
