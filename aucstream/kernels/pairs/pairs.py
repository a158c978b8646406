"""Pairs of a row x at hand and a buffered row b, through z = x - b; O(nnz) each, nothing formed.

`dense` (>= d,) is zero between rows; `kernels.rows.linear.spread` writes `factor x` into it, `wipe` clears it again,
and the functions between them leave it as it was. b is `pool_idx[start:stop]`, `pool_val[start:stop]`.
"""

from __future__ import annotations

from aucstream.kernels.jit import jit

CANCELLED = 1e-3  # |x - b|^2 below this share of |x|^2 + |b|^2 is summed directly: keeps 13 digits


@jit
def products(start, stop, pool_idx, pool_val, dense, v):
    """Return (x'b, v'b, b'b) in one pass over b; four accumulators each, by position."""
    four = stop - (stop - start) % 4
    xb = xc = xd = xe = 0.0
    vb = vc = vd = ve = 0.0
    bb = bc = bd = be = 0.0
    for k in range(start, four, 4):
        i, j, m, n = pool_idx[k], pool_idx[k + 1], pool_idx[k + 2], pool_idx[k + 3]
        p, q, r, s = pool_val[k], pool_val[k + 1], pool_val[k + 2], pool_val[k + 3]
        xb += p * dense[i]
        xc += q * dense[j]
        xd += r * dense[m]
        xe += s * dense[n]
        vb += p * v[i]
        vc += q * v[j]
        vd += r * v[m]
        ve += s * v[n]
        bb += p * p
        bc += q * q
        bd += r * r
        be += s * s
    xb = (xb + xd) + (xc + xe)
    vb = (vb + vd) + (vc + ve)
    bb = (bb + bd) + (bc + be)
    for k in range(four, stop):
        p, j = pool_val[k], pool_idx[k]
        xb += p * dense[j]
        vb += p * v[j]
        bb += p * p
    return xb, vb, bb


@jit
def square_gap(idx, x, factor, xx, xb, bb, start, stop, pool_idx, pool_val, dense):
    """Return |x - b|^2; exactly 0 for equal rows."""
    square = xx - 2.0 * xb + bb
    if square > CANCELLED * (xx + bb):
        return square
    total = 0.0
    for k in range(start, stop):
        j = pool_idx[k]
        e = dense[j] - pool_val[k]
        total += e * e
        dense[j] = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        e = dense[j]
        total += e * e
        dense[j] = factor * x[k]
    return total


@jit
def move_along(idx, x, factor, h, g, start, stop, pool_idx, pool_val, dense, v, u):
    """Add h (x - b) to `v` and g (x - b) to `u` (both written), each coordinate once."""
    for k in range(start, stop):
        j = pool_idx[k]
        e = dense[j] - pool_val[k]
        v[j] += h * e
        u[j] += g * e
        dense[j] = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        e = dense[j]
        v[j] += h * e
        u[j] += g * e
        dense[j] = factor * x[k]
