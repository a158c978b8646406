"""Sums over one row: a row is `(idx, x)`; `idx` None means dense, column j at `x[j]`.

Sums run over four strict accumulators by position, so that their bits depend on the
source alone, not on what the compiler fuses around them.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit


@jit
def dot(idx, x, w):
    """Return sum_k x[k] w[idx[k]]; `w` is (d,) and at least as wide as the row."""
    n = x.size
    four = n - n % 4
    a = b = c = e = 0.0
    if idx is None:
        for k in range(0, four, 4):
            a += x[k] * w[k]
            b += x[k + 1] * w[k + 1]
            c += x[k + 2] * w[k + 2]
            e += x[k + 3] * w[k + 3]
        total = (a + c) + (b + e)
        for k in range(four, n):
            total += x[k] * w[k]
    else:
        for k in range(0, four, 4):
            a += x[k] * w[idx[k]]
            b += x[k + 1] * w[idx[k + 1]]
            c += x[k + 2] * w[idx[k + 2]]
            e += x[k + 3] * w[idx[k + 3]]
        total = (a + c) + (b + e)
        for k in range(four, n):
            total += x[k] * w[idx[k]]
    return total


@jit
def sqnorm(x):
    """Return sum_k x[k]^2."""
    n = x.size
    four = n - n % 4
    a = b = c = e = 0.0
    for k in range(0, four, 4):
        a += x[k] * x[k]
        b += x[k + 1] * x[k + 1]
        c += x[k + 2] * x[k + 2]
        e += x[k + 3] * x[k + 3]
    total = (a + c) + (b + e)
    for k in range(four, n):
        total += x[k] * x[k]
    return total


@jit
def norm(x):
    """Return the l2 norm of x without overflow or underflow in between."""
    square = sqnorm(x)
    if 1e-290 < square < 1e290:
        return math.sqrt(square)
    top = 0.0
    for k in range(x.size):
        top = max(top, abs(x[k]))
    if top == 0.0:
        return 0.0
    total = 0.0
    for k in range(x.size):
        total += (x[k] / top) * (x[k] / top)
    return top * math.sqrt(total)


@jit
def axpy(idx, x, c, w):
    """Add c x to `w` (written)."""
    if idx is None:
        for k in range(x.size):
            w[k] += c * x[k]
    else:
        for k in range(x.size):
            w[idx[k]] += c * x[k]


@jit
def all_finite(values):
    """Return whether no entry of `values` (n,) is NaN or infinite."""
    total = 0.0
    for k in range(values.size):
        total += values[k] * 0.0
    return total == 0.0
