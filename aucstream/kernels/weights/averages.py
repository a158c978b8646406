"""Scaled weights and deferred averages: w = scale v, sum of weighted iterates = cum v - u.

A step along a sparse row touches v and u in its coordinates only; shrinking and projecting touch the
scale alone.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit

SCALE_RESET = 1e-3  # fold below this: keeps 13 digits of the average, thousands of rows apart


@jit
def fold(v, u, scale, cum):
    """Write w into v and -(sum of iterates) into u; the caller sets scale 1 and cum 0. O(d)."""
    for j in range(v.size):
        u[j] -= cum * v[j]
        v[j] *= scale
