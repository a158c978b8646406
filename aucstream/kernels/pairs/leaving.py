"""Columns that leave: buffered rows are from then on as if they had never had them."""

from __future__ import annotations

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.pairs.buffers import LENGTH, START, extent


@jit
def is_among(column, columns):
    """Return whether a column is among ascending ones (n,)."""
    low, high = 0, columns.size
    while low < high:
        middle = (low + high) // 2
        if columns[middle] < column:
            low = middle + 1
        else:
            high = middle
    return low < columns.size and columns[low] == column


@jit
def within(columns, shift, pool_idx, start, stop):
    """Return how many entries have columns from the first to the last of ascending ones (n,): a loop without branches."""
    low, high = columns[0], columns[columns.size - 1]
    count = 0
    for i in range(start, stop):
        column = pool_idx[i] >> shift
        count += np.int64((column >= low) & (column <= high))
    return count


@jit
def remove_columns(columns, shift, slots, pool_idx, pool_val):
    """Remove the values of ascending columns (n,) from all rows; returns how many. Writes slots, pool_idx, pool_val.

    `shift` : by how many bits a column stands above what else an entry of `pool_idx` has.
    """
    removed = 0
    last = slots.shape[0] - 1
    if within(columns, shift, pool_idx, 0, slots[last, START]) == 0:
        return removed
    for k in range(last):
        start, stop = extent(slots, k)
        if within(columns, shift, pool_idx, start, stop) == 0:
            continue
        end = start
        for i in range(start, stop):
            if not is_among(pool_idx[i] >> shift, columns):
                pool_idx[end] = pool_idx[i]
                pool_val[end] = pool_val[i]
                end += 1
        removed += stop - end
        slots[k, LENGTH] = end - start
    return removed
