"""Kernels on class moments: means, covariances, sketches, eigenvectors, quadratic solvers.

Memory and time are O(d^2) or O(rank d). May import `kernels` only.
"""
