"""Columns that leave a forest: it goes on as if no row had ever had them.

A row without the column scores as before, but for the Fourier block. The linear block's intercepts take up what its
absent value counted for. A node that splits on it sends all rows where those without it went, by a threshold that no
value crosses; the other side is not visited any more, and is given up like all that the stream no longer visits.
"""

from __future__ import annotations

import numpy as np

from aucstream.kernels.forest.columns import COLUMN, COLUMNS, FEATURES, FORM, PLACES, SPARSE, standard_of
from aucstream.kernels.forest.mixture import RATES
from aucstream.kernels.forest.trees import CANDIDATE, CANDIDATES, HELD, LEAF, room_of
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.pairs.leaving import is_among

ONE_SIDED = np.finfo(np.float64).max  # or its negative: the threshold of a node that splits no more


@jit
def remove_place(columns_of, frequencies, features, place, centred, scalars, j):
    """Let column j have no place; the last place moves to where it was. Writes all but columns_of."""
    k = np.int64(place[j]) - 1
    last = np.int64(scalars[PLACES]) - 1
    for row in range(columns_of):
        centred[row, k] = centred[row, last]
        centred[row, last] = 0.0
    if k < last:
        place[np.int64(centred[COLUMN, k])] = k + 1.0
        if frequencies.size > 0:
            for i in range(features):
                frequencies[(1 + k) * features + i] = frequencies[(1 + last) * features + i]
    scalars[PLACES] = last
    place[j] = 0.0


@jit
def leave_trees(columns, absent, used, links, thresholds, leaves, candidates, trees):
    """Let no node and no candidate depend on ascending columns (n,); writes thresholds, leaves, candidates.

    `absent` (n, 2) : the value of a row without the column, raw and standardised.
    """
    room = room_of(links, trees)
    for t in range(trees):
        side = 0 if t < trees // 2 else 1
        for node in range(t * room, t * room + np.int64(used[t])):
            if links[2 * node] > 0 and is_among(links[2 * node + 1], columns):
                at = np.searchsorted(columns, links[2 * node + 1])
                if abs(thresholds[node]) != ONE_SIDED:
                    thresholds[node] = ONE_SIDED if absent[at, side] <= thresholds[node] else -ONE_SIDED
        first = t * ((room + 1) // 2)
        for leaf in range(first, first + (np.int64(used[t]) + 1) // 2):
            held = np.int64(leaves[leaf * LEAF + HELD])
            kept = 0
            for k in range(held):
                source = (leaf * CANDIDATES + k) * CANDIDATE
                if not is_among(np.int64(candidates[source]), columns):
                    to = (leaf * CANDIDATES + kept) * CANDIDATE
                    if to != source:
                        for i in range(CANDIDATE):
                            candidates[to + i] = candidates[source + i]
                    kept += 1
            for i in range((leaf * CANDIDATES + kept) * CANDIDATE, (leaf * CANDIDATES + held) * CANDIDATE):
                candidates[i] = 0.0
            leaves[leaf * LEAF + HELD] = kept


@jit_allocating
def leave_forest(
    columns, squares, counts, place, linear, centred, fourier, scalars, used, links, thresholds, leaves, candidates, frequencies,
    intercept, trees,
):  # fmt: skip
    """Take ascending columns (n,) out of trees, places and intercepts, before they are cleared; writes all but columns.

    `intercept` : the column of the linear block's in `fourier`.
    """
    absent = np.zeros((columns.size, 2))
    for a in range(columns.size):
        absent[a, 1] = standard_of(columns[a], 0.0, squares, counts, place, centred, scalars)
    leave_trees(columns, absent, used, links, thresholds, leaves, candidates, trees)
    features = np.int64(scalars[FEATURES])
    for a in range(columns.size):
        j = columns[a]
        if scalars[FORM] != SPARSE:
            for q in range(RATES):
                fourier[q, intercept] += linear[j, q] * absent[a, 1]
        if place[j] != 0.0:
            scalars[COLUMNS] -= 1.0
        if place[j] > 0.0 and scalars[FORM] != SPARSE:
            remove_place(centred.shape[0], frequencies, features, place, centred, scalars, j)
