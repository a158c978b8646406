"""A row and two vectors in one pass, over eight lanes: see `kernels.rows.simd`."""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.linear import norm
from aucstream.kernels.rows.simd import products


@jit
def sums(idx, x, v, u):
    """Return (x'v, x'u, norm of x); what the lanes leave over is added after them, in order."""
    n = x.size
    most = n - n % 8
    if idx is None:
        first, second, square = products(x, v, u, most)
        for k in range(most, n):
            first += x[k] * v[k]
            second += x[k] * u[k]
    else:
        a = b = c = d = e = f = g = h = 0.0
        p = q = r = s = i = j = o = m = 0.0
        for k in range(0, most, 8):
            a += x[k] * v[idx[k]]
            b += x[k + 1] * v[idx[k + 1]]
            c += x[k + 2] * v[idx[k + 2]]
            d += x[k + 3] * v[idx[k + 3]]
            e += x[k + 4] * v[idx[k + 4]]
            f += x[k + 5] * v[idx[k + 5]]
            g += x[k + 6] * v[idx[k + 6]]
            h += x[k + 7] * v[idx[k + 7]]
            p += x[k] * u[idx[k]]
            q += x[k + 1] * u[idx[k + 1]]
            r += x[k + 2] * u[idx[k + 2]]
            s += x[k + 3] * u[idx[k + 3]]
            i += x[k + 4] * u[idx[k + 4]]
            j += x[k + 5] * u[idx[k + 5]]
            o += x[k + 6] * u[idx[k + 6]]
            m += x[k + 7] * u[idx[k + 7]]
        first = ((a + e) + (c + g)) + ((b + f) + (d + h))
        second = ((p + i) + (r + o)) + ((q + j) + (s + m))
        for k in range(most, n):
            first += x[k] * v[idx[k]]
            second += x[k] * u[idx[k]]
        _, _, square = products(x, x, x, most)
    for k in range(most, n):
        square += x[k] * x[k]
    if 1e-290 < square < 1e290:
        return first, second, math.sqrt(square)
    return first, second, norm(x)
