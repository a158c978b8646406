"""The definitions, as plainly as they can be written."""

from __future__ import annotations

import numpy as np


def pair_matrix(labels, scores):
    """Return (m, n): 1 where the positive is above the negative, 1/2 for a tie, else 0."""
    labels, scores = np.asarray(labels) == 1, np.asarray(scores, dtype=float)
    pos, neg = scores[labels], scores[~labels]
    return (pos[:, None] > neg[None, :]) + 0.5 * (pos[:, None] == neg[None, :])


def auc(labels, scores):
    return pair_matrix(labels, scores).mean()


def delong(labels, scores):
    """Return DeLong's standard error, O(mn)."""
    pairs = pair_matrix(labels, scores)
    m, n = pairs.shape
    return np.sqrt(pairs.mean(axis=1).var(ddof=1) / m + pairs.mean(axis=0).var(ddof=1) / n)


def paired_delong(labels, a, b):
    pairs = pair_matrix(labels, a) - pair_matrix(labels, b)
    m, n = pairs.shape
    return np.sqrt(pairs.mean(axis=1).var(ddof=1) / m + pairs.mean(axis=0).var(ddof=1) / n)


def fading(labels, scores, decay):
    labels, scores = np.asarray(labels) == 1, np.asarray(scores, dtype=float)
    weights = decay ** np.arange(labels.size - 1, -1, -1.0)
    products = np.outer(weights[labels], weights[~labels])
    return (products * pair_matrix(labels, scores)).sum() / products.sum()


def ranked_auc(labels, scores):
    """Return the AUC by ranks, O(n log n), for long streams."""
    from scipy.stats import rankdata

    labels = np.asarray(labels) == 1
    m = int(labels.sum())
    n = labels.size - m
    return (rankdata(scores)[labels].sum() - m * (m + 1) / 2) / (m * n)
