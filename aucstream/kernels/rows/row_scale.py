"""The scale of the rows: `kappa`, a running root mean square of the row norm.

With `kappa` given the papers' literal form holds. With none (0 in kernels) a learner behaves as
on x / kappa_t, and a row longer than 2 kappa_t is shortened to that for learning.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import KAPPA2, KAPPA_ROWS, POSITIVES, ROWS
from aucstream.kernels.rows.linear import norm

HUGE = 1000.0  # ratio of two norms that belong to different scales
NORM_LIMIT = 1e150  # norms enter squared
NORM_FLOOR = 1e-150


@jit
def next_scale(ledger, length, kappa):
    """Return (kappa_t, factor, mean square, rows) for a row of norm `length`; writes nothing.

    `factor` shortens the row for learning. The caller stores mean square and rows with
    `store_scale` once its step is known to be finite.

    While there is one row alone, a next one of another scale takes its place: of two such rows nobody knows
    which is the outlier, and a third decides. From two rows of one scale on no row moves the mean by much.
    """
    mean = ledger[KAPPA2]
    rows = ledger[KAPPA_ROWS]
    if length > 0.0:
        before = math.sqrt(mean)
        if rows == 1.0 and (length * HUGE < before or length > before * HUGE):
            entering = max(NORM_FLOOR, min(length, NORM_LIMIT))
            mean = entering * entering
        else:
            entering = length
            if rows > 0.0:
                entering = min(entering, 2.0 * before)
            entering = max(NORM_FLOOR, min(entering, NORM_LIMIT))
            rows += 1.0
            mean += (entering * entering - mean) / rows
    if kappa > 0.0:
        return kappa, 1.0, mean, rows
    scale = math.sqrt(mean)
    factor = 1.0
    if length > 2.0 * scale:
        factor = 2.0 * scale / length
    return scale, factor, mean, rows


@jit
def store_scale(ledger, mean, rows):
    """Keep what `next_scale` returned; writes ledger."""
    ledger[KAPPA2] = mean
    ledger[KAPPA_ROWS] = rows


@jit
def count_label(ledger, y):
    """Count a row by its label; writes ledger."""
    ledger[ROWS] += 1.0
    if y > 0.0:
        ledger[POSITIVES] += 1.0


@jit
def restart_ratio(ledger, scale, rows, kappa):
    """Return kappa_t over the one before where `next_scale` starts anew, else 1; reads the old ledger.

    Rows kept from before are multiplied by it, so that they go on to count as x / kappa.
    """
    if kappa > 0.0 or rows != 1.0 or ledger[KAPPA_ROWS] == 0.0:
        return 1.0
    return scale / math.sqrt(ledger[KAPPA2])


@jit
def scale_rows(indptr, val, y, factors, scaled, ledger, longest, kappa):
    """Take all rows into the scale in order, as arrivals do; returns the last kappa_t.

    Writes scaled (nnz,), factors (n,) (that of each row; -1: refused, as it would stay longer than
    `longest`) and ledger.
    """
    unit = 1.0
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        length = norm(val[a:b])
        scale, factor, mean, rows = next_scale(ledger, length, kappa)
        if not factor * length < longest:
            factors[i] = -1.0
            continue
        ratio = restart_ratio(ledger, scale, rows, kappa)
        if ratio != 1.0:
            for k in range(a):
                scaled[k] *= ratio
        store_scale(ledger, mean, rows)
        factors[i] = factor
        for k in range(a, b):
            scaled[k] = factor * val[k]
        if kappa == 0.0 and scale > 0.0:
            unit = scale
        count_label(ledger, y[i])
    return unit
