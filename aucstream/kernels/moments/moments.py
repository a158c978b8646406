"""Weighted moments of one class: n (weight of its rows), m (their mean), M = sum c (x - m)(x - m)'.

M is (d, d). A row enters as its deviation e = x - m from
the mean before it (Welford), so that M gains one positive matrix of rank one and nothing cancels. m, M
and the vectors may have room for more columns than the first d, which are in use; the rest is zero, and how
much of it d takes in changes no bit. Forgetting: the caller multiplies n and M; the mean stays.

[GJZZ13] Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013;
Welford, Technometrics 1962.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.linear import inner


@jit
def columns_in_use(idx, x, d):
    """Return the larger of d and what the row needs."""
    if idx is None:
        return max(d, x.size)
    for k in range(x.size):
        d = max(d, idx[k] + 1)
    return d


@jit
def deviation(idx, x, factor, ratio, m, e):
    """Write factor x - ratio m to e (d,); m at least as wide."""
    for j in range(e.size):
        e[j] = -ratio * m[j]
    for k in range(x.size):
        e[k if idx is None else idx[k]] += factor * x[k]


@jit
def add_mean(e, c, n, m):
    """Take a row of weight c, e (d,) its deviation, n the weight before it; writes m. Returns c / (n + c)."""
    share = c / (n + c)
    for j in range(e.size):
        m[j] += share * e[j]
    return share


@jit
def add_full(e, c, n, m, M):
    """Take a row of weight c, e (d,) its deviation, n the weight before it; writes m, M. O(d^2).

    e is overwritten.
    """
    d = e.size
    root = math.sqrt(c * (1.0 - add_mean(e, c, n, m)))
    if root == 0.0:
        return
    for j in range(d):
        e[j] *= root  # a product of two entries does not depend on their order: M stays symmetric
    for j in range(d):
        gain = e[j]
        if gain != 0.0:
            row = M[j, :d]
            for k in range(d):
                row[k] += gain * e[k]


@jit
def times_full(M, w, out):
    """Write M w to out (d,); w at least as wide. O(d^2), row after row, since that is compiled to vectors."""
    d = out.size
    for k in range(d):
        out[k] = 0.0
    four = d - d % 4
    for j in range(0, four, 4):
        p, q, r, s = w[j], w[j + 1], w[j + 2], w[j + 3]
        a, b, c, e = M[j, :d], M[j + 1, :d], M[j + 2, :d], M[j + 3, :d]
        for k in range(d):
            out[k] += (p * a[k] + q * b[k]) + (r * c[k] + s * e[k])
    # the last few, summed as if rows of zeros followed
    if d == four + 1:
        p, a = w[four], M[four, :d]
        for k in range(d):
            out[k] += p * a[k]
    elif d == four + 2:
        p, q, a, b = w[four], w[four + 1], M[four, :d], M[four + 1, :d]
        for k in range(d):
            out[k] += p * a[k] + q * b[k]
    elif d == four + 3:
        p, q, r, a, b, c = w[four], w[four + 1], w[four + 2], M[four, :d], M[four + 1, :d], M[four + 2, :d]
        for k in range(d):
            out[k] += (p * a[k] + q * b[k]) + r * c[k]


@jit
def pair_slope(e, sign, w, g):
    """Turn S w in `g` (d,) into the gradient of mean_{x'} (1 - sign w'(x - x'))^2 / 2; [GJZZ13, (5), (7)].

    The mean is over all rows x' with mean m and covariance S; e = x - m.
    """
    d = g.size
    miss = inner(e, w[:d]) - sign
    for j in range(d):
        g[j] += miss * e[j]


@jit
def slope_full(idx, x, factor, ratio, sign, n, m, M, w, e, g):
    """Write to g (d,) the slope of `pair_slope` for factor x against rows that are to be taken `ratio` times.

    e (d,) is written.
    """
    deviation(idx, x, factor, ratio, m, e)
    times_full(M, w, g)
    share = ratio * ratio / n
    for j in range(g.size):
        g[j] *= share
    pair_slope(e, sign, w, g)


@jit
def last_in_use(m_pos, m_neg, d):
    """Return the larger of d and the number of columns up to the last one with a mean: a shift may add some."""
    for j in range(m_pos.size - 1, d - 1, -1):
        if m_pos[j] != 0.0 or m_neg[j] != 0.0:
            return j + 1
    return d


@jit
def rescale_mean(ratio, m):
    """Multiply the rows behind m (d,) by `ratio`; writes m."""
    for j in range(m.size):
        m[j] *= ratio


@jit
def rescale_full(ratio, m, M):
    """Multiply the rows behind m (d,) and M by `ratio`; writes both. O(d^2)."""
    d = m.size
    square = ratio * ratio
    for j in range(d):
        m[j] *= ratio
        row = M[j, :d]
        for k in range(d):
            row[k] *= square
