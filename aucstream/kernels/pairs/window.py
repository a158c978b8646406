"""The window of the most recent rows: slots of one pool (`kernels.pairs.buffers`) filled in turn, with their labels.

`labels` (n_buffer,) has +1, -1, or 0 where a slot is still empty. The first three entries of a learner's
scalars are the layout below; an arrival takes slot ARRIVALS mod n_buffer, so that the oldest row goes.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.pairs.buffers import LENGTH, START, store

ARRIVALS, SINCE, WINDOW_POS = range(3)  # rows taken; those since the last solve; positives in the window
SMALLEST_STEP = 16  # arrivals between two solves at least


@jit
def window_size(scalars, labels):
    """Return the number of rows in the window."""
    return min(np.int64(scalars[ARRIVALS]), labels.size)


@jit
def take(idx, x, factor, y, scalars, slots, pool_idx, pool_val, labels):
    """Put `factor x` in the oldest slot and return it; writes all from scalars on."""
    slot = np.int64(scalars[ARRIVALS]) % labels.size
    if labels[slot] > 0.0:
        scalars[WINDOW_POS] -= 1.0
    if y > 0.0:
        scalars[WINDOW_POS] += 1.0
    labels[slot] = y
    store(slot, idx, x, factor, slots, pool_idx, pool_val)
    scalars[ARRIVALS] += 1.0
    scalars[SINCE] += 1.0
    return slot


@jit
def due(scalars, labels, refresh_frac):
    """Return whether enough has arrived since the last solve and both classes are in the window."""
    rows = window_size(scalars, labels)
    enough = scalars[SINCE] >= max(SMALLEST_STEP, math.floor(refresh_frac * rows))
    return enough and 0.0 < scalars[WINDOW_POS] < rows


@jit
def take_last(scalars, slots, pool_idx, pool_val, labels, fixed_slots, idx, val, signs):
    """Put the last rows of a fixed set in an empty window, nothing due; writes scalars to labels."""
    for i in range(max(0, signs.size - labels.size), signs.size):
        a = fixed_slots[i, START]
        b = a + fixed_slots[i, LENGTH]
        take(idx[a:b], val[a:b], 1.0, signs[i], scalars, slots, pool_idx, pool_val, labels)
    scalars[SINCE] = 0.0
