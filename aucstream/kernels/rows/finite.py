"""Whether numbers are finite: each row of every array is asked, so this is written for speed."""

from __future__ import annotations

from aucstream.kernels.jit import jit


@jit
def all_finite(values):
    """Return whether no entry of `values` (n,) is NaN or infinite."""
    n = values.size
    most = n - n % 8
    # Eight sums, each 0 or NaN and then for good: one alone would wait for each addition before the next.
    a = b = c = d = e = f = g = h = 0.0
    for k in range(0, most, 8):
        a += values[k] * 0.0
        b += values[k + 1] * 0.0
        c += values[k + 2] * 0.0
        d += values[k + 3] * 0.0
        e += values[k + 4] * 0.0
        f += values[k + 5] * 0.0
        g += values[k + 6] * 0.0
        h += values[k + 7] * 0.0
    for k in range(most, n):
        a += values[k] * 0.0
    return a + b + c + d + e + f + g + h == 0.0
