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
    kept = 0
    turn = np.zeros((room, half))
    for a in range(half):
        if squares[a] - cut > ROUNDING * squares[0]:
            f = math.sqrt((squares[a] - cut) / squares[a])
            for b in range(room):
                turn[b, kept] = f * vectors[a, b]
            kept += 1
    turned = np.empty(kept)
    for j in range(table.shape[0]):
        row = table[j, first : first + room]
        turned[:] = 0.0
        for a in range(room):
            f = row[a]
            if f != 0.0:
                for b in range(kept):
                    turned[b] += f * turn[a, b]
        row[:] = 0.0
        row[:kept] = turned
    return kept


@jit
def feed(table, first, room, kept, e, factor):
    """Take `factor` e as a row of the sketch that holds `kept`; returns how many it holds then. Writes table.

    A row of zeros takes no place.
    """
    anything = False
    for j in range(e.size):
        table[j, first + kept] = factor * e[j]
        anything = anything or table[j, first + kept] != 0.0
    if not anything:
        return kept
    if kept + 1 < room:
        return kept + 1
    return shrink(table, first, room)


@jit
def decay(table, first, room, factor):
    """Multiply the sketch's Gram matrix by `factor`; writes table."""
    root = math.sqrt(factor)
    for j in range(table.shape[0]):
        for k in range(first, first + room):
            table[j, k] *= root
