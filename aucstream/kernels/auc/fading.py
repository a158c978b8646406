"""A window whose rows lose weight with age: the counted tree with float64 masses.

Masses are kept in a growing unit, so that nothing has to be multiplied at each row: a row that
came k rows after the base has mass decay^-k, and the newest row always counts as 1 unit.
All rows are put in again, from a new base, once in every `window` rows: masses stay finite and
rounding does not pile up.
"""

from __future__ import annotations

from aucstream.kernels.auc.order import insert, remove
from aucstream.kernels.jit import jit

HEAD, FILLED, AGE, ROWS_POS = range(4)  # integer scalars; AGE: rows since the base
PAIRS, MASS_POS, MASS_NEG = range(3)  # float scalars, in units of the base; pairs in half units


@jit
def _put(links, sums, totals, key, positive, mass):
    """Insert one row and its pairs; writes links, sums, totals."""
    totals[PAIRS] += mass * insert(links, sums, key, positive, mass)
    totals[MASS_POS if positive else MASS_NEG] += mass


@jit
def _again(links, sums, ring_keys, ring_labels, scalars, totals, decay):
    """Build the tree anew with the oldest row at mass 1; writes links, sums, scalars, totals."""
    room = ring_keys.size
    filled = scalars[FILLED]
    for k in range(filled):
        at = scalars[HEAD] + k
        at -= room if at >= room else 0
        # Which mass is taken away is of no importance: sums of freed nodes are set to 0.
        remove(links, sums, ring_keys[at], ring_labels[at] == 1, 0.0)
    for k in range(3):
        totals[k] = 0.0
    for k in range(filled):
        at = scalars[HEAD] + k
        at -= room if at >= room else 0
        _put(links, sums, totals, ring_keys[at], ring_labels[at] == 1, decay ** float(-k))
    scalars[AGE] = filled


@jit
def fade(links, sums, ring_keys, ring_labels, scalars, totals, window, decay, keys, labels):
    """Put rows in, each multiplying the weight of all earlier ones by `decay`.

    links, sums (float64), ring_keys, ring_labels, scalars, totals : written, as in `order.slide`.
    Rows older than `window` are dropped.
    """
    room = ring_keys.size
    for i in range(keys.size):
        if scalars[FILLED] == window:
            head = scalars[HEAD]
            old = ring_labels[head] == 1
            mass = decay ** float(scalars[FILLED] - scalars[AGE])
            totals[PAIRS] -= mass * remove(links, sums, ring_keys[head], old, mass)
            totals[MASS_POS if old else MASS_NEG] -= mass
            scalars[ROWS_POS] -= 1 if old else 0
            scalars[HEAD] = head + 1 if head + 1 < room else 0
            scalars[FILLED] -= 1
            if scalars[ROWS_POS] == 0:
                totals[MASS_POS] = totals[PAIRS] = 0.0
            if scalars[ROWS_POS] == scalars[FILLED]:
                totals[MASS_NEG] = totals[PAIRS] = 0.0
        if scalars[AGE] >= 2 * window:
            _again(links, sums, ring_keys, ring_labels, scalars, totals, decay)
        tail = scalars[HEAD] + scalars[FILLED]
        tail -= room if tail >= room else 0
        positive = labels[i] == 1
        ring_keys[tail] = keys[i]
        ring_labels[tail] = labels[i]
        _put(links, sums, totals, keys[i], positive, decay ** float(-scalars[AGE]))
        scalars[AGE] += 1
        scalars[FILLED] += 1
        scalars[ROWS_POS] += 1 if positive else 0
