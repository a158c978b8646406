"""Frequent Directions: a few rows whose Gram matrix B'B stays near that of all rows fed.

A sketch is the columns first..first + room - 1 of `table`, which has one feature a row: 0 <= M - B'B <= (tr M / l) I
with l = room/2. Sums run over the features in order, so that spare ones, all zero, change no bit.

Liberty, "Simple and Deterministic Matrix Sketching", KDD 2013.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.moments.eigen import largest

ROUNDING = 1e-15  # share of the largest square below which a direction is rounding


@jit_allocating
def shrink(table, first, room):
    """Leave at most half of the sketch's rows; returns how many. Writes table.

    The squares of the singular values lose that of the (room/2 + 1)-th.
    """
    half = room // 2
    gram = np.zeros((room, room))
    for j in range(table.shape[0]):
        row = table[j, first : first + room]
        for a in range(room):
            f = row[a]
            if f != 0.0:
                for b in range(room):
                    gram[a, b] += f * row[b]
    squares, vectors = largest(gram, half)
    cut = max(0.0, squares[half])
    count = 0
    turn = np.zeros((room, half))
    for a in range(half):
        if squares[a] - cut > ROUNDING * squares[0]:
            f = math.sqrt((squares[a] - cut) / squares[a])
            for b in range(room):
                turn[b, count] = f * vectors[a, b]
            count += 1
    product = np.empty(count)
    for j in range(table.shape[0]):
        row = table[j, first : first + room]
        product[:] = 0.0
        for a in range(room):
            f = row[a]
            if f != 0.0:
                for b in range(count):
                    product[b] += f * turn[a, b]
        row[:] = 0.0
        row[:count] = product
    return count


@jit
def feed(table, first, room, count, e, factor):
    """Take `factor` e as a row of the sketch that holds `count`; returns the new count. Writes table.

    A row of zeros takes no place.
    """
    anything = False
    for j in range(e.size):
        table[j, first + count] = factor * e[j]
        anything = anything or table[j, first + count] != 0.0
    if not anything:
        return count
    if count + 1 < room:
        return count + 1
    return shrink(table, first, room)


@jit
def decay(table, first, room, factor):
    """Multiply the sketch's Gram matrix by `factor`; writes table."""
    root = math.sqrt(factor)
    for j in range(table.shape[0]):
        for k in range(first, first + room):
            table[j, k] *= root
