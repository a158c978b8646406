"""Feature maps: one row `(idx, x)` of d columns to a dense row of features, and k-means for the landmarks.

Tables stand column by column, (d, features): an entry of the row adds its multiple of one line to the sums of
all features. Each sum runs over the row's entries in order, so its bits depend on the row alone, and an entry
of 0 changes none of them.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.loops import map_loop
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.rows.linear import spread, wipe


@jit_allocating
def pick(idx, x, place, idx_out, x_out):
    """Write what of a row has a place (>= 0) in place (columns,), ascending; writes idx_out, x_out.

    Returns the number of entries; -1 where the row is not finite.
    """
    if not all_finite(x):
        return -1
    n = 0
    ascending = True
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if j < place.size and place[j] >= 0:
            idx_out[n] = place[j]
            x_out[n] = x[k]
            if n > 0 and idx_out[n] < idx_out[n - 1]:
                ascending = False
            n += 1
    if not ascending:
        order = np.argsort(idx_out[:n])
        columns = idx_out[:n].copy()
        values = x_out[:n].copy()
        for k in range(n):
            idx_out[k] = columns[order[k]]
            x_out[k] = values[order[k]]
    return n


@jit
def pick_block(indptr, idx, val, place, indptr_out, idx_out, val_out):
    """`pick` of each row of a block whose values are finite; writes indptr_out, idx_out, val_out."""
    indptr_out[0] = 0
    for i in range(indptr.size - 1):
        a, b, at = indptr[i], indptr[i + 1], indptr_out[i]
        if idx is None:
            n = pick(None, val[a:b], place, idx_out[at:], val_out[at:])
        else:
            n = pick(idx[a:b], val[a:b], place, idx_out[at:], val_out[at:])
        indptr_out[i + 1] = at + n


@jit
def distances(idx, x, centres, squares, out):
    """Write |x - c|^2 of each centre, a column of centres (d, m), to out (m,); squares (m,) are |c|^2.

    Of a row with all d entries by its differences. Of another by the difference to |c|^2, O(entries).
    """
    complete = x.size == centres.shape[0]
    for i in range(out.size):
        out[i] = 0.0 if complete else squares[i]
    for k in range(x.size):
        line = centres[k if idx is None else idx[k]]
        v = x[k]
        if complete:
            for i in range(out.size):
                out[i] += (v - line[i]) * (v - line[i])
        else:
            for i in range(out.size):
                out[i] += v * (v - 2.0 * line[i])
    for i in range(out.size):
        out[i] = max(0.0, out[i])


@jit
def kernel_row(idx, x, centres, squares, root, near, bandwidth, out):
    """Write phi(x) = root' k(x) to out (r,), k_i = exp(-|x - c_i|^2 / bandwidth), root (m, r); writes near (m,)."""
    if not all_finite(x):
        out[:] = math.nan
        return
    distances(idx, x, centres, squares, near)
    out[:] = 0.0
    for i in range(near.size):
        near[i] = math.exp(-near[i] / bandwidth)
        line = root[i]
        for f in range(out.size):
            out[f] += near[i] * line[f]


kernel_block = map_loop(kernel_row)


@jit
def projected(idx, x, table, offsets, out):
    """Write offsets + table'x to out (features,), table (d, features)."""
    for f in range(out.size):
        out[f] = offsets[f]
    for k in range(x.size):
        if x[k] == 0.0:
            continue
        line = table[k if idx is None else idx[k]]
        v = x[k]
        for f in range(out.size):
            out[f] += v * line[f]


@jit
def cosine_row(idx, x, table, offsets, size, out):
    """Write size cos(table'x + offsets) to out (features,)."""
    if not all_finite(x):
        out[:] = math.nan
        return
    projected(idx, x, table, offsets, out)
    for f in range(out.size):
        out[f] = size * math.cos(out[f])


cosine_block = map_loop(cosine_row)


@jit
def tanh_row(idx, x, table, offsets, out):
    """Write tanh(table'x + offsets) to out (features,)."""
    if not all_finite(x):
        out[:] = math.nan
        return
    projected(idx, x, table, offsets, out)
    for f in range(out.size):
        out[f] = math.tanh(out[f])


tanh_block = map_loop(tanh_row)


@jit
def threshold_row(idx, x, columns, thresholds, dense, out):
    """Write [x_j > threshold] to out (features,), j from columns (features,); dense (d,) is 0 before and after."""
    if not all_finite(x):
        out[:] = math.nan
        return
    spread(idx, x, 1.0, dense)
    for f in range(out.size):
        out[f] = 1.0 if dense[columns[f]] > thresholds[f] else 0.0
    wipe(idx, x, dense)


threshold_block = map_loop(threshold_row)


@jit
def assign(indptr, idx, val, centres, squares, near, nearest):
    """Write each row's nearest centre to nearest (n,), the first of equals; return how many moved; writes near."""
    moved = 0
    for i in range(nearest.size):
        a, b = indptr[i], indptr[i + 1]
        distances(idx[a:b], val[a:b], centres, squares, near)
        best = 0
        for c in range(1, near.size):
            if near[c] < near[best]:
                best = c
        if best != nearest[i]:
            nearest[i] = best
            moved += 1
    return moved


@jit
def recentre(indptr, idx, val, nearest, centres, counts):
    """Move each centre to the mean of its rows; one without rows stays; writes centres (d, m), counts (m,)."""
    counts[:] = 0.0
    for i in range(nearest.size):
        counts[nearest[i]] += 1.0
    for j in range(centres.shape[0]):
        for c in range(counts.size):
            if counts[c] > 0.0:
                centres[j, c] = 0.0
    for i in range(nearest.size):
        for k in range(indptr[i], indptr[i + 1]):
            centres[idx[k], nearest[i]] += val[k]
    for j in range(centres.shape[0]):
        for c in range(counts.size):
            if counts[c] > 0.0:
                centres[j, c] /= counts[c]
