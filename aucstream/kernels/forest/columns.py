"""Columns: what was seen of each, and a row in the form in which the sums of a forest take it.

Centred columns have a place in a table of at most `MOST_CENTRED`: their values are standardised by mean and deviation
over a running window, absent ones as 0. All others are divided by the running root mean square of their non-zeros,
and an absent value stays 0. A forest is PROVISIONAL at first, with all columns centred. It becomes DENSE or SPARSE at
its row `WARMUP`, or SPARSE as soon as it has more columns than places.

A column's history is a hash of the rows in which it was not zero and of its values there. A choice among columns by a
hash of their histories does not depend on their order, nor on how rows come. Columns of one history are equal so far.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.random import mixed

WINDOW = 1000.0  # rows of the running means
CLIP = 5.0  # a standardised value is at most this
MOST_CENTRED = 300  # columns; a row of a dense stream costs O(places)
WARMUP = 32  # rows after which the form is decided
LEAST_SHARE = 0.25  # of non-zero values: with fewer the stream is sparse
LEAST_SPREAD = 1e-26  # a variance below this times the squared mean is rounding
LARGEST_SCALE = 1e8  # of the decayed sums, before they are divided by it

PROVISIONAL, DENSE, SPARSE = 0.0, 1.0, 2.0

# rows of State.centred
COLUMN, MEAN, VARIANCE, KEY = range(4)

# layout of State.scalars: the form; centred columns; all columns seen; non-zeros seen; scale of the decayed sums;
# sum of the squared norms of standardised rows; weighted negatives and positives; log odds about which the sums are
# learned; Fourier features; what their draws depend on; nodes of the largest tree
FORM, PLACES, COLUMNS, NONZEROS, SCALE, NORMS, NEGATIVES, POSITIVES, BASE, FEATURES, SALT, LARGEST_TREE = range(12)
SCALARS = 12

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_S11, _S12, _ONE = np.uint64(11), np.uint64(12), np.uint64(1)


@jit
def clipped(u):
    """Return u within -CLIP..CLIP."""
    return min(max(u, -CLIP), CLIP)


@jit
def standardised(value, mean, variance):
    """Return a value of a centred column in deviations from its mean; 0 while it has been constant."""
    if variance > LEAST_SPREAD * mean * mean:
        return clipped((value - mean) / math.sqrt(variance))
    return 0.0


@jit
def scaled(value, squares, counts):
    """Return a value over the root mean square of its column's non-zeros; 0 before its first."""
    return clipped(value / math.sqrt(squares / counts)) if counts > 0.0 and squares > 0.0 else 0.0


@jit
def standard_of(j, value, squares, counts, place, centred, scalars):
    """Return a value of column j as the standardised trees see it."""
    if place[j] > 0.0 and scalars[FORM] != SPARSE:
        k = np.int64(place[j]) - 1
        return standardised(value, centred[MEAN, k], centred[VARIANCE, k])
    return scaled(value, squares[j], counts[j])


@jit
def spread_row(squares, counts, place, centred, scalars, dense, active, idx, x):
    """Scatter a row: its values to `dense` (3 d,), standardised ones from d on, their columns to `active`.

    Returns (number of active columns, squared norm of the standardised row). Writes dense, active.
    """
    d = squares.size
    n = 0
    square = 0.0
    sparse = scalars[FORM] == SPARSE
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if x[k] != 0.0:
            dense[j] = x[k]
            if sparse or place[j] <= 0.0:
                u = scaled(x[k], squares[j], counts[j])
                if u != 0.0:
                    dense[d + j] = u
                    active[n] = j
                    n += 1
                    square += u * u
    if not sparse:
        for k in range(np.int64(scalars[PLACES])):
            j = np.int64(centred[COLUMN, k])
            u = standardised(dense[j], centred[MEAN, k], centred[VARIANCE, k])
            if u != 0.0:
                dense[d + j] = u
                active[n] = j
                n += 1
                square += u * u
    return n, square


@jit
def wipe_row(dense, active, n, idx, x):
    """Clear what `spread_row` wrote to `dense`."""
    d = active.size
    for k in range(x.size):
        dense[k if idx is None else idx[k]] = 0.0
    for k in range(n):
        dense[d + active[k]] = 0.0


@jit
def longer_history(history, value, row):
    """Return the history of a column after a non-zero value in a row: an integer below 2^52, not 0."""
    bits = np.uint64(np.float64(value).view(np.int64))
    z = bits ^ (np.uint64(history) << _S11) ^ (np.uint64(row) * _GAMMA)
    return np.float64((mixed(z) >> _S12) | _ONE)


@jit
def lengthen_histories(history, idx, x, row):
    """Take a row, by its number from 1, into the histories of its columns; writes history."""
    for k in range(x.size):
        if x[k] != 0.0:
            j = k if idx is None else idx[k]
            history[j] = longer_history(history[j], x[k], row)


@jit
def count_values(squares, counts, place, centred, scalars, dense, idx, x, row):
    """Take a row into the statistics of its columns; returns the places before it. Writes all but dense.

    `row` is its number, from 1. New columns take the places that are left.
    """
    before = np.int64(scalars[PLACES])
    places = before
    scale = scalars[SCALE] / (1.0 - 1.0 / WINDOW)
    if scale > LARGEST_SCALE:
        for j in range(squares.size):
            squares[j] /= scale
            counts[j] /= scale
        scale = 1.0
    scalars[SCALE] = scale
    for k in range(x.size):
        if x[k] != 0.0:
            j = k if idx is None else idx[k]
            if place[j] == 0.0:
                scalars[COLUMNS] += 1.0
                place[j] = -1.0
                if scalars[FORM] != SPARSE and places < MOST_CENTRED:
                    centred[COLUMN, places] = j
                    centred[MEAN, places] = 0.0
                    centred[VARIANCE, places] = 0.0
                    places += 1
                    place[j] = places
            squares[j] += scale * x[k] * x[k]
            counts[j] += scale
            scalars[NONZEROS] += 1.0
    if scalars[FORM] != SPARSE:
        rate = max(1.0 / row, 1.0 / WINDOW)
        for k in range(places):
            step = dense[np.int64(centred[COLUMN, k])] - centred[MEAN, k]
            centred[MEAN, k] += rate * step
            centred[VARIANCE, k] = (1.0 - rate) * (centred[VARIANCE, k] + rate * step * step)
    scalars[PLACES] = places
    return before


@jit
def set_key(history, centred, k):
    """Give a place the number from which its Fourier frequencies are drawn: its history, or the next free number."""
    key = history[np.int64(centred[COLUMN, k])]
    i = 0
    while i < k:
        if centred[KEY, i] == key:
            key += 1.0
            i = 0
        else:
            i += 1
    centred[KEY, k] = key
