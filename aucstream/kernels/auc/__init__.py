"""Kernels on scores and labels: counted trees, quantile summaries, calibration, losses.

They know nothing of features. May import `kernels` only.
"""
