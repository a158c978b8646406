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
    """Return sum_k x[k]^2; zeros at the end change no bit (the spare room of a growing vector)."""
    n = x.size
    four = n - n % 4
    a = b = c = e = 0.0
    for k in range(0, four, 4):
        a += x[k] * x[k]
        b += x[k + 1] * x[k + 1]
        c += x[k + 2] * x[k + 2]
        e += x[k + 3] * x[k + 3]
    if n > four:
        a += x[four] * x[four]
    if n > four + 1:
        b += x[four + 1] * x[four + 1]
    if n > four + 2:
        c += x[four + 2] * x[four + 2]
    return (a + c) + (b + e)


@jit
def inner(v, w):
    """Return v'w for two vectors (d,); zeros at the end change no bit (the spare room of growing vectors)."""
    n = v.size
    four = n - n % 4
    a = b = c = e = 0.0
    for k in range(0, four, 4):
        a += v[k] * w[k]
        b += v[k + 1] * w[k + 1]
        c += v[k + 2] * w[k + 2]
        e += v[k + 3] * w[k + 3]
    if n > four:
        a += v[four] * w[four]
    if n > four + 1:
        b += v[four + 1] * w[four + 1]
    if n > four + 2:
        c += v[four + 2] * w[four + 2]
    return (a + c) + (b + e)


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
def dot2(idx, x, v, u):
    """Return (x'v, x'u) in one pass, each summed exactly as `dot` does."""
    n = x.size
    four = n - n % 4
    a = b = c = e = 0.0
    p = q = r = s = 0.0
    if idx is None:
        for k in range(0, four, 4):
            a += x[k] * v[k]
            b += x[k + 1] * v[k + 1]
            c += x[k + 2] * v[k + 2]
            e += x[k + 3] * v[k + 3]
            p += x[k] * u[k]
            q += x[k + 1] * u[k + 1]
            r += x[k + 2] * u[k + 2]
            s += x[k + 3] * u[k + 3]
        first = (a + c) + (b + e)
        second = (p + r) + (q + s)
        for k in range(four, n):
            first += x[k] * v[k]
            second += x[k] * u[k]
    else:
        for k in range(0, four, 4):
            a += x[k] * v[idx[k]]
            b += x[k + 1] * v[idx[k + 1]]
            c += x[k + 2] * v[idx[k + 2]]
            e += x[k + 3] * v[idx[k + 3]]
            p += x[k] * u[idx[k]]
            q += x[k + 1] * u[idx[k + 1]]
            r += x[k + 2] * u[idx[k + 2]]
            s += x[k + 3] * u[idx[k + 3]]
        first = (a + c) + (b + e)
        second = (p + r) + (q + s)
        for k in range(four, n):
            first += x[k] * v[idx[k]]
            second += x[k] * u[idx[k]]
    return first, second


@jit
def axpy2(idx, x, c, v, e, u):
    """Add c x to `v` and e x to `u` (both written) in one pass."""
    if idx is None:
        for k in range(x.size):
            v[k] += c * x[k]
            u[k] += e * x[k]
    else:
        for k in range(x.size):
            v[idx[k]] += c * x[k]
            u[idx[k]] += e * x[k]


@jit
def spread(idx, x, factor, dense):
    """Write factor x into `dense`."""
    for k in range(x.size):
        dense[k if idx is None else idx[k]] = factor * x[k]


@jit
def wipe(idx, x, dense):
    """Clear the coordinates of x in `dense` (written)."""
    for k in range(x.size):
        dense[k if idx is None else idx[k]] = 0.0
