"""Kernels on pairs of rows: buffers of rows, sampled pairs, sums over all pairs, windows.

Buffered rows are slots in one pool of columns and values. May import `kernels` only.
"""
