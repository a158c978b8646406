"""Scaling of rows: estimates that move at every row, applied values that move on a schedule.

Columns: count, mean, m2, low, high, settled, applied_mean, applied_inv (d,) float64. `settled` is the
number of sparse rows whose absent entries (zeros) are already in count, mean and m2. `kinds` (d,) uint8
says which columns are indicators: those pass unchanged and are not estimated.
`s` (SIZE,): layout below.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.linear import norm

ROWS, LAST, SPARSE_ROWS, NORM_ROWS, NORM_MEAN, APPLIED_K2 = range(6)
SIZE = 6

NO_NORM, BOUNDED, UNIT = 0, 1, 2  # what divides the row: nothing, sqrt(k^2 + |x|^2), |x|
INDICATOR = 2

YOUNG = 20  # values after which outliers are cut
CUT = 10.0  # deviations
PRIOR = 30.0  # values that the prior variance counts for
EMITTED_LIMIT = 1e100  # a standardised value is cut here, so that its square stays finite


@jit
def enter(j, x, count, mean, m2, low, high):
    """Take one value of column j into its estimates (Welford); writes them, or nothing on overflow."""
    n = count[j]
    if n >= YOUNG and m2[j] > 0.0:
        reach = CUT * math.sqrt(m2[j] / n)
        x = max(mean[j] - reach, min(mean[j] + reach, x))
    delta = x - mean[j]
    centre = mean[j] + delta / (n + 1.0)
    spread = m2[j] + delta * (x - centre)
    if not math.isfinite(spread):
        return
    count[j] = n + 1.0
    mean[j] = centre
    m2[j] = spread
    if n == 0.0:
        low[j] = x
        high[j] = x
    else:
        low[j] = min(low[j], x)
        high[j] = max(high[j], x)


@jit
def enter_zeros(j, zeros, count, mean, m2, low, high):
    """Take `zeros` values 0 of column j into its estimates; writes them."""
    n = count[j]
    total = n + zeros
    if n == 0.0:
        low[j] = 0.0
        high[j] = 0.0
    else:
        m2[j] += mean[j] * mean[j] * (n * zeros / total)
        mean[j] *= n / total
        low[j] = min(low[j], 0.0)
        high[j] = max(high[j], 0.0)
    count[j] = total


@jit
def observe_columns(indptr, idx, val, sparse, scores, kinds, count, mean, m2, low, high, settled, s):
    """Take rows (n,) into the columns' estimates, but for those whose score is NaN (skipped)."""
    for i in range(scores.size):
        if math.isnan(scores[i]):
            continue
        if sparse:
            s[SPARSE_ROWS] += 1.0
        for k in range(indptr[i], indptr[i + 1]):
            if idx is None:
                j = k - indptr[i]
            else:
                j = idx[k]
            if kinds[j] == INDICATOR:
                continue
            if sparse:
                zeros = s[SPARSE_ROWS] - 1.0 - settled[j]
                if zeros > 0.0:
                    enter_zeros(j, zeros, count, mean, m2, low, high)
                settled[j] = s[SPARSE_ROWS]
            enter(j, val[k], count, mean, m2, low, high)


@jit
def observe_norms(norms, scores, s):
    """Count rows, and take their norms (n,) into the mean square, but for skipped ones; writes s."""
    for i in range(scores.size):
        if math.isnan(scores[i]):
            continue
        s[ROWS] += 1.0
        length = norms[i]
        if length > 0.0:
            if s[NORM_ROWS] > 0.0:
                length = min(length, 2.0 * math.sqrt(s[NORM_MEAN]))
            s[NORM_ROWS] += 1.0
            s[NORM_MEAN] += (length * length - s[NORM_MEAN]) / s[NORM_ROWS]


@jit
def observe(indptr, idx, val, sparse, standard, norms, scores, kinds, count, mean, m2, low, high, settled, s):
    """Both of the above: what a learned block leaves in the estimates."""
    if standard:
        observe_columns(indptr, idx, val, sparse, scores, kinds, count, mean, m2, low, high, settled, s)
    observe_norms(norms, scores, s)


@jit
def change_columns(kinds, count, mean, m2, low, high, settled, applied_mean, applied_inv, s):
    """Make the estimates the applied values; writes applied_mean, applied_inv. O(d).

    The prior variance of a column is its squared range times the mean, over columns, of variance over
    squared range: a column that was almost constant so far is not blown up, and nothing depends on
    the columns' own units.
    """
    relative = 0.0
    varied = 0.0
    width = min(count.size, kinds.size)
    for j in range(width):
        if kinds[j] == INDICATOR:
            continue
        zeros = s[SPARSE_ROWS] - settled[j]
        if zeros > 0.0 and (count[j] > 0.0 or settled[j] > 0.0):
            enter_zeros(j, zeros, count, mean, m2, low, high)
            settled[j] = s[SPARSE_ROWS]
        if m2[j] > 0.0 and high[j] > low[j]:
            share = math.sqrt(m2[j] / count[j]) / (high[j] - low[j])
            relative += share * share
            varied += 1.0
    if varied > 0.0:
        relative /= varied
    for j in range(width):
        if kinds[j] == INDICATOR or count[j] == 0.0:
            continue
        applied_mean[j] = mean[j]
        applied_inv[j] = 0.0
        if m2[j] > 0.0 and high[j] > low[j]:
            reach = high[j] - low[j]
            variance = (m2[j] + PRIOR * relative * reach * reach) / (count[j] + PRIOR)
            if math.isfinite(variance) and variance > 0.0:
                inverse = 1.0 / math.sqrt(variance)
                if math.isfinite(inverse):
                    applied_inv[j] = inverse


@jit
def scaled(x, j, centred, kinds, applied_mean, applied_inv):
    """Return the emitted value of x in column j: standardised, its sign where j never varied, or x itself."""
    if kinds[j] == INDICATOR:
        return x
    if applied_inv[j] == 0.0:
        if x > 0.0:
            return 1.0
        if x < 0.0:
            return -1.0
        return 0.0
    z = ((x - applied_mean[j]) if centred else x) * applied_inv[j]
    return max(-EMITTED_LIMIT, min(EMITTED_LIMIT, z))


@jit
def divide(x, k2, kind, length):
    """Divide the row x (n,) in place by what `kind` says; `length` is its norm."""
    if length == 0.0 or kind == NO_NORM:
        return
    if kind == UNIT or k2 == 0.0:
        by = length
    elif length < 1e150:
        by = math.sqrt(k2 + length * length)
    else:
        by = length
    for k in range(x.size):
        x[k] /= by


@jit
def forward(
    indptr, idx, val, standard, centred, kind, kinds, applied_mean, applied_inv, s, out, norms
):  # fmt: skip
    """Write scaled values to out (nnz,) and each row's norm before division to norms (n,)."""
    for i in range(norms.size):
        a, b = indptr[i], indptr[i + 1]
        if standard:
            for k in range(a, b):
                if idx is None:
                    j = k - a
                else:
                    j = idx[k]
                out[k] = scaled(val[k], j, centred, kinds, applied_mean, applied_inv)
        else:
            for k in range(a, b):
                out[k] = val[k]
        norms[i] = norm(out[a:b])
        divide(out[a:b], s[APPLIED_K2], kind, norms[i])


@jit
def backward_rows(indptr, idx, z, standard, centred, kind, kinds, applied_mean, applied_inv, k2):
    """Undo `forward` on buffered rows in place, as far as it can be undone; writes z."""
    for i in range(indptr.size - 1):
        a, b = indptr[i], indptr[i + 1]
        length = norm(z[a:b])
        by = 1.0
        if length > 0.0 and k2 > 0.0:
            if kind == BOUNDED:
                by = math.sqrt(k2) / math.sqrt(max(1e-12, 1.0 - length * length))
            elif kind == UNIT:
                by = math.sqrt(k2)
        for k in range(a, b):
            x = z[k] * by
            j = idx[k]
            if standard and kinds[j] != INDICATOR:
                if applied_inv[j] == 0.0:
                    x = applied_mean[j]
                else:
                    x = x / applied_inv[j]
                    if centred:
                        x += applied_mean[j]
            z[k] = x


def empty_columns(width: int) -> tuple[np.ndarray, ...]:
    """Return count, mean, m2, low, high, settled, applied_mean, applied_inv, all zero."""
    return tuple(np.zeros(width) for _ in range(8))
