"""Kernels on one row: sums, norms, scaling, finite checks, feature maps.

Sums have fixed lanes (lane = position mod 8, or four strict accumulators), so that every layout of a row gives the
same bits. May import `kernels` only.
"""
