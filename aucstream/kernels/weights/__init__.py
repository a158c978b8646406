"""Kernels on weight vectors: scaled weights, averages, balls, proximal steps, example weights.

A vector is stored times a scalar, and its average is deferred, so that a sparse step costs O(nnz). May import
`kernels` only.
"""
