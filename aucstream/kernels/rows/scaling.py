"""Scaling of rows: estimates that move at every row, applied values that move on a schedule.

`columns` (d, WIDE) float64, one line a column: layout below. SETTLED is the number of sparse rows whose
absent entries (zeros) are already in the column's estimates. `kinds` (d,) uint8 says which columns are
indicators: those pass unchanged and are not estimated. `s` (SIZE,): layout below.

Scaling by the first rules has `columns` (d, FIRST_WIDE): what comes later, and what it is for, is not there. Scaling
that forgets has `columns` (d, FORGETFUL_WIDE) and `s` (FORGETFUL_SIZE,). Scaling that completes sparse rows has four more
at the end of each line: STORED, the sparse rows in which the column was stored and not 0; FIRST, the first such value; VARIED, 1
where another one was; and DENSE, 1 where the column was dense at the last change, see `mark_dense`. A dense column is
centred, and an absent entry of it is a 0 that is written out.
"""

from __future__ import annotations

import math

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.linear import norm

# APPLIED_COUNT: COUNT at the last change. APPLIED_REACH: standardised values are cut at it.
COUNT, MEAN, M2, LOW, HIGH, SETTLED, APPLIED_MEAN, APPLIED_INV, APPLIED_COUNT, APPLIED_REACH = range(10)
FIRST_WIDE = 8
WIDE = 10
# Of scaling that forgets: what learners remember, in raw units, of the values that they have had since the column was
# first standardised: how many rows, their mean, their variance. Not of a column that is emitted as its sign.
KEPT_ROWS, KEPT_MEAN, KEPT_VARIANCE = range(10, 13)
FORGETFUL_WIDE = 13
COMPLETING = 4  # more at the end of a line, in scaling that completes sparse rows
STORED, FIRST, VARIED, DENSE = -4, -3, -2, -1
DENSE_SHARE = 0.75  # of the sparse rows so far
DENSE_FROM = 30.0  # sparse rows: before, a column of any kind may have been there in all
FULL_SHARE = 0.5  # of all entries of the columns seen: from it on all of them are dense
ESTIMATES = 6  # the first of them; the rest is applied

ROWS, LAST, SPARSE_ROWS, NORM_ROWS, NORM_MEAN, APPLIED_K2 = range(6)
SIZE = 6
HALF_LIFE, KEEP = 6, 7  # values after which one counts half; what one counts for after the next one, 2^(-1 / half-life)
FORGETFUL_SIZE = 8

NO_NORM, BOUNDED, UNIT = 0, 1, 2  # what divides the row: nothing, sqrt(k^2 + |x|^2), |x|
ARCTAN = 4  # added to these: the arctan of each standardised value comes before the division
NORM_OF = 3  # mask of what divides
INDICATOR = 2

YOUNG = 20  # values after which outliers are cut
CUT = 10.0  # deviations
YOUNG_REACH = 100.0  # deviations at which a value of a younger column is cut where no norm bounds the row
NEAR = 0.99 * CUT * CUT  # squared: certainly not cut, however the products are rounded,
TINY, VAST = 1e-250, 1e300  # where they neither underflow nor overflow
HUGE = 1e6  # ratio of a value to those before that makes a young column start anew,
RESTARTS = 3.0  # this often: a column may hold values of two scales. Each leaves a mark in COUNT:
MARK = 2.0**-40
ALONE = 1.5  # squared ranges: with less spread one value alone is far from all others, and it makes the range;
FAR = 100.0  # the next one that differs from those others, but by 1 / FAR of that, tells that it was an outlier
HUGE_NORM = 1e3  # ratio of two row norms that belong to different scales
NORM_LIMIT, NORM_FLOOR = 1e150, 1e-150  # norms enter squared
PRIOR = 30.0  # values that the prior variance counts for
STEEPEST = 1.57  # an arctan is cut here before it is undone: 1,256 deviations
REMEMBERED = 2.0  # deviations, root mean square, beyond which what is remembered is drawn towards the mean
EVERY_ROW = 20.0  # rows below which the applied values change at every row
GROWTH = 10.0  # later when the rows seen have grown by 1 / GROWTH
EMITTED_LIMIT = 1e100  # a standardised value is cut here, so that its square stays finite


@jit
def completes(columns):
    """Return whether the scaling completes sparse rows."""
    wide = columns.shape[1]
    return wide == WIDE + COMPLETING or wide == FORGETFUL_WIDE + COMPLETING


@jit
def is_dense(j, columns):
    """Return whether column j is centred, whatever the form of rows."""
    return completes(columns) and columns[j, DENSE] == 1.0


@jit
def keep_of(s):
    """Return what a value counts for after the next one of its column; 1 where nothing is forgotten."""
    return s[KEEP] if s.size > SIZE else 1.0


@jit
def fade(j, keep, columns):
    """Let the estimates of column j count for `keep` times what they did; writes columns.

    The range shrinks as the deviation of values that no longer vary does.
    """
    mean, root = columns[j, MEAN], math.sqrt(keep)
    columns[j, COUNT] *= keep
    columns[j, M2] *= keep
    columns[j, LOW] = mean + root * (columns[j, LOW] - mean)
    columns[j, HIGH] = mean + root * (columns[j, HIGH] - mean)


@jit
def lone(low, high, m2):
    """Return whether one value of a column that has varied makes nearly all its spread."""
    return m2 < ALONE * (high - low) * (high - low)


@jit
def enter(j, x, keep, columns):
    """Take one value of column j into its estimates (Welford); writes them, or nothing on overflow.

    A young column forgets values so large that what comes now would vanish beside them, and one that did not
    vary but for one outlier forgets that. Where all values fade (keep < 1) nothing more is forgotten.
    """
    if keep < 1.0:
        fade(j, keep, columns)
    young = keep == 1.0 and 0.0 < columns[j, COUNT] < 2.0 * YOUNG
    if young and x != 0.0 and abs(x) * HUGE < max(abs(columns[j, LOW]), abs(columns[j, HIGH])):
        marks = columns[j, COUNT] - math.floor(columns[j, COUNT])
        if marks < RESTARTS * MARK:
            columns[j, COUNT] = 1.0 + marks + MARK
            columns[j, MEAN] = columns[j, LOW] = columns[j, HIGH] = x
            columns[j, M2] = 0.0
            return
    n = columns[j, COUNT]
    mean = columns[j, MEAN]
    m2 = columns[j, M2]
    if columns.shape[1] > FIRST_WIDE and keep == 1.0 and n >= 2.0 * YOUNG:
        low, high = columns[j, LOW], columns[j, HIGH]
        if lone(low, high, m2):
            usual = low if mean - low < high - mean else high
            marks = n - math.floor(n)
            if x != usual and abs(x - usual) * FAR < high - low and marks < RESTARTS * MARK:
                columns[j, COUNT] = 1.0 + marks + MARK
                columns[j, MEAN] = columns[j, LOW] = columns[j, HIGH] = x
                columns[j, M2] = 0.0
                return
    delta = x - mean
    # Well within reach is told without a root and a division, which cost more than all the rest here.
    if n >= YOUNG and m2 > 0.0 and not (TINY < m2 < VAST and delta * delta * n < NEAR * m2):
        reach = CUT * math.sqrt(m2 / n)
        x = max(mean - reach, min(mean + reach, x))
        delta = x - mean
    centre = mean + delta / (n + 1.0)
    spread = m2 + delta * (x - centre)
    if not math.isfinite(spread):
        return
    columns[j, COUNT] = n + 1.0
    columns[j, MEAN] = centre
    columns[j, M2] = spread
    if n == 0.0:
        columns[j, LOW] = x
        columns[j, HIGH] = x
    else:
        columns[j, LOW] = min(columns[j, LOW], x)
        columns[j, HIGH] = max(columns[j, HIGH], x)


@jit
def enter_all(j, val, start, step, scores, keep, columns):
    """Take the values of column j, every `step`-th of val from `start` on, into its estimates, as `enter` each.

    Rows whose score is NaN are left out. Columns do not depend on each other: what is kept of one stays in registers.
    """
    if keep < 1.0:
        for i in range(scores.size):
            if not math.isnan(scores[i]):
                enter(j, val[start + i * step], keep, columns)
        return
    n = columns[j, COUNT]
    mean = columns[j, MEAN]
    m2 = columns[j, M2]
    low = columns[j, LOW]
    high = columns[j, HIGH]
    forgets = columns.shape[1] > FIRST_WIDE
    for i in range(scores.size):
        if math.isnan(scores[i]):
            continue
        x = val[start + i * step]
        delta = x - mean
        near = n >= 2.0 * YOUNG and TINY < m2 < VAST and delta * delta * n < NEAR * m2
        if near and not (forgets and lone(low, high, m2)):
            mean += delta / (n + 1.0)
            m2 += delta * (x - mean)  # no more than three times what it was
            n += 1.0
            low = min(low, x)
            high = max(high, x)
        else:
            columns[j, COUNT] = n
            columns[j, MEAN] = mean
            columns[j, M2] = m2
            columns[j, LOW] = low
            columns[j, HIGH] = high
            enter(j, x, keep, columns)
            n = columns[j, COUNT]
            mean = columns[j, MEAN]
            m2 = columns[j, M2]
            low = columns[j, LOW]
            high = columns[j, HIGH]
    columns[j, COUNT] = n
    columns[j, MEAN] = mean
    columns[j, M2] = m2
    columns[j, LOW] = low
    columns[j, HIGH] = high


@jit
def enter_zeros(j, zeros, keep, columns):
    """Take `zeros` values 0 of column j into its estimates; writes them."""
    if keep < 1.0:
        faded = keep**zeros
        fade(j, faded, columns)
        zeros = (1.0 - faded) / (1.0 - keep)
    n = columns[j, COUNT]
    total = n + zeros
    if n == 0.0:
        columns[j, LOW] = 0.0
        columns[j, HIGH] = 0.0
    else:
        columns[j, M2] += columns[j, MEAN] * columns[j, MEAN] * (n * zeros / total)
        columns[j, MEAN] *= n / total
        columns[j, LOW] = min(columns[j, LOW], 0.0)
        columns[j, HIGH] = max(columns[j, HIGH], 0.0)
    columns[j, COUNT] = total


@jit
def observe_columns(idx, x, sparse, kinds, columns, s):
    """Take one row into the columns' estimates; writes columns, s."""
    keep = keep_of(s)
    if sparse:
        s[SPARSE_ROWS] += 1.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if kinds[j] == INDICATOR or (sparse and x[k] == 0.0 and not is_dense(j, columns)):
            continue  # a zero that is written out counts as the absent ones do
        if sparse:
            zeros = s[SPARSE_ROWS] - 1.0 - columns[j, SETTLED]
            if zeros > 0.0:
                enter_zeros(j, zeros, keep, columns)
            columns[j, SETTLED] = s[SPARSE_ROWS]
        enter(j, x[k], keep, columns)


@jit
def observe_norm(length, s):
    """Count a row, and take its norm into the mean square; writes s."""
    s[ROWS] += 1.0
    if length > 0.0:
        length = max(NORM_FLOOR, min(NORM_LIMIT, length))
        before = math.sqrt(s[NORM_MEAN])
        if s[NORM_ROWS] == 1.0 and (length * HUGE_NORM < before or length > before * HUGE_NORM):
            s[NORM_ROWS] = 0.0  # of two rows of other scales the third tells which is the outlier
            s[NORM_MEAN] = 0.0
        if s[NORM_ROWS] > 0.0:
            length = min(length, 2.0 * math.sqrt(s[NORM_MEAN]))
        s[NORM_ROWS] = keep_of(s) * s[NORM_ROWS] + 1.0
        s[NORM_MEAN] += (length * length - s[NORM_MEAN]) / s[NORM_ROWS]


@jit
def observe_row(idx, x, sparse, standard, length, kinds, columns, s):
    """Take one learned row, whose norm before division was `length`, into all estimates."""
    if standard:
        observe_columns(idx, x, sparse, kinds, columns, s)
    observe_norm(length, s)


@jit
def alike(indptr, idx):
    """Return how many of the first rows have the same columns in the same order; 0 where it is one."""
    n = indptr.size - 1
    if n < 2:
        return 0
    if idx is None:
        return n
    width = indptr[1]
    for i in range(1, n):
        a = indptr[i]
        if indptr[i + 1] - a != width:
            return i if i > 1 else 0
        for k in range(width):
            if idx[a + k] != idx[k]:
                return i if i > 1 else 0
    return n


@jit
def observe(indptr, idx, val, sparse, standard, norms, scores, kinds, columns, s):
    """Take learned rows (n,) into all estimates, but for those whose score is NaN (skipped)."""
    first = 0
    if standard and not sparse:
        first = alike(indptr, idx)
        for k in range(indptr[1] if first > 0 else 0):
            j = k if idx is None else idx[k]
            if kinds[j] != INDICATOR:
                enter_all(j, val, k, indptr[1], scores[:first], keep_of(s), columns)
        for i in range(first):
            if not math.isnan(scores[i]):
                observe_norm(norms[i], s)
    for i in range(first, scores.size):
        if math.isnan(scores[i]):
            continue
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            observe_row(None, val[a:b], sparse, standard, norms[i], kinds, columns, s)
        else:
            observe_row(idx[a:b], val[a:b], sparse, standard, norms[i], kinds, columns, s)


@jit
def change_columns(kind, kinds, columns, s):
    """Make the estimates the applied values; writes columns. O(d).

    A value that is itself among the n values of its column's estimates is no more than sqrt(n) deviations
    from their mean. Where no norm bounds the row, a value is cut at that, with the prior's values counted, but
    not nearer than at CUT: no value weighs much more than all before it together.

    The prior variance of a column is its squared range times the mean, over columns, of variance over
    squared range: a column that was almost constant so far is not blown up, and nothing depends on
    the columns' own units.
    """
    relative = 0.0
    varied = 0.0
    width = min(columns.shape[0], kinds.size)
    for j in range(width):
        if kinds[j] == INDICATOR:
            continue
        zeros = s[SPARSE_ROWS] - columns[j, SETTLED]
        if zeros > 0.0 and columns[j, COUNT] > 0.0:
            enter_zeros(j, zeros, keep_of(s), columns)
            columns[j, SETTLED] = s[SPARSE_ROWS]
        reach = columns[j, HIGH] - columns[j, LOW]
        if columns[j, M2] > 0.0 and reach > 0.0:
            share = math.sqrt(columns[j, M2] / columns[j, COUNT]) / reach
            relative += share * share
            varied += 1.0
    if varied > 0.0:
        relative /= varied
    for j in range(width):
        if kinds[j] == INDICATOR or columns[j, COUNT] == 0.0:
            continue
        columns[j, APPLIED_MEAN] = columns[j, MEAN]
        columns[j, APPLIED_INV] = 0.0
        if columns.shape[1] > FIRST_WIDE:
            columns[j, APPLIED_COUNT] = columns[j, COUNT]
            reach = max(CUT, math.sqrt(columns[j, COUNT] + PRIOR)) if columns[j, COUNT] >= YOUNG else YOUNG_REACH
            columns[j, APPLIED_REACH] = reach if kind == NO_NORM else EMITTED_LIMIT
        reach = columns[j, HIGH] - columns[j, LOW]
        if columns[j, M2] > 0.0 and reach > 0.0:
            variance = (columns[j, M2] + PRIOR * relative * reach * reach) / (columns[j, COUNT] + PRIOR)
            if math.isfinite(variance) and variance > 0.0:
                inverse = 1.0 / math.sqrt(variance)
                if math.isfinite(inverse):
                    columns[j, APPLIED_INV] = inverse


@jit
def count_stored(indptr, idx, val, scores, columns):
    """Count in which of the learned rows (n,) each column is not 0, and whether its values vary; writes columns."""
    for i in range(scores.size):
        if not math.isnan(scores[i]):
            for k in range(indptr[i], indptr[i + 1]):
                j = idx[k]
                if val[k] == 0.0:
                    continue  # written out or not
                if columns[j, STORED] == 0.0:
                    columns[j, FIRST] = val[k]
                elif val[k] != columns[j, FIRST]:
                    columns[j, VARIED] = 1.0
                columns[j, STORED] += 1.0


@jit
def mark_dense(columns, s):
    """Say anew which columns are dense; return how many. Writes columns.

    None is where all values stored so far are the same: the columns are indicators. All are, where FULL_SHARE of the
    entries of the columns seen were stored. Else, from DENSE_FROM rows on, those that were stored in DENSE_SHARE of the
    rows, with values that vary.
    """
    seen, total, first, alike = 0, 0.0, 0.0, True
    for j in range(columns.shape[0]):
        if columns[j, STORED] > 0.0:
            first = columns[j, FIRST] if seen == 0 else first
            alike = alike and columns[j, FIRST] == first and columns[j, VARIED] == 0.0
            total += columns[j, STORED]
            seen += 1
    least = math.inf
    if not alike and total >= FULL_SHARE * seen * s[SPARSE_ROWS]:
        least = 1.0
    elif s[SPARSE_ROWS] >= DENSE_FROM:
        least = DENSE_SHARE * s[SPARSE_ROWS]
    count = 0
    for j in range(columns.shape[0]):
        is_one = columns[j, STORED] >= least and (least == 1.0 or columns[j, VARIED] == 1.0)
        columns[j, DENSE] = 1.0 if is_one else 0.0
        count += is_one
    return count


@jit
def completed_size(indptr, idx, dense):
    """Return how many entries the rows have with all dense columns (m,), ascending, written out."""
    size = idx.size
    for i in range(indptr.size - 1):
        at = indptr[i]
        for j in dense:
            while at < indptr[i + 1] and idx[at] < j:
                at += 1
            size += at == indptr[i + 1] or idx[at] != j
    return size


@jit
def complete(indptr, idx, val, dense, starts, columns, values):
    """Write the rows with a 0 for each dense column (m,), ascending, that they lack.

    **Written**: starts (n + 1,), columns and values (completed_size,).
    """
    end = 0
    starts[0] = 0
    for i in range(indptr.size - 1):
        m = 0
        for k in range(indptr[i], indptr[i + 1]):
            while m < dense.size and dense[m] < idx[k]:
                columns[end], values[end] = dense[m], 0.0
                end += 1
                m += 1
            if m < dense.size and dense[m] == idx[k]:
                m += 1
            columns[end], values[end] = idx[k], val[k]
            end += 1
        while m < dense.size:
            columns[end], values[end] = dense[m], 0.0
            end += 1
            m += 1
        starts[i + 1] = end


@jit
def scaled(x, j, centred, kinds, columns):
    """Return the emitted value of x in column j: standardised, its sign where j never varied, or x itself.

    What is not finite becomes NaN, by which the learner skips the row.
    """
    if not math.isfinite(x):
        return math.nan
    if kinds[j] == INDICATOR:
        return x
    inverse = columns[j, APPLIED_INV]
    if inverse == 0.0:
        if x > 0.0:
            return 1.0
        if x < 0.0:
            return -1.0
        return 0.0
    centred = centred or is_dense(j, columns)
    z = ((x - columns[j, APPLIED_MEAN]) if centred else x) * inverse
    if columns.shape[1] > FIRST_WIDE and columns[j, APPLIED_REACH] < EMITTED_LIMIT:
        reach = columns[j, APPLIED_REACH]
        origin = 0.0 if centred else columns[j, APPLIED_MEAN] * inverse
        if abs(z - origin) > reach:
            z = origin + math.copysign(reach, z - origin)
    return max(-EMITTED_LIMIT, min(EMITTED_LIMIT, z))


@jit
def started_anew(columns, out):
    """Write to out (d,) which columns forgot their values since the applied values changed; 1 or 0.

    Each time leaves a mark in COUNT, see `enter`.
    """
    for j in range(out.size):
        before, now = columns[j, APPLIED_COUNT], columns[j, COUNT]
        out[j] = before - math.floor(before) != now - math.floor(now)


@jit
def remember(centred, rows, old_mean, old_inv, columns, shrink):
    """Count `rows` more of the old applied values to what is remembered, and draw that towards the new mean.

    Values of a column whose deviation shrinks are ever more deviations from its mean, without bound where the
    estimates forget them and a learner does not. Writes columns and, where more than REMEMBERED, to shrink (d,) how
    many times. `centred` (d,): which columns are.
    """
    for j in range(shrink.size):
        shrink[j] = 1.0
        inverse = columns[j, APPLIED_INV]
        if old_inv[j] == 0.0 or inverse == 0.0:
            columns[j, KEPT_ROWS] = columns[j, KEPT_MEAN] = columns[j, KEPT_VARIANCE] = 0.0
            continue
        n = columns[j, KEPT_ROWS]
        share = rows / (n + rows)
        apart = old_mean[j] - columns[j, KEPT_MEAN]
        if n == 0.0:
            apart = 0.0
            columns[j, KEPT_MEAN] = old_mean[j]
        variance = columns[j, KEPT_VARIANCE]
        variance += share * (1.0 / old_inv[j] / old_inv[j] - variance + (1.0 - share) * apart * apart)
        mean = columns[j, KEPT_MEAN] + share * apart
        centre = columns[j, APPLIED_MEAN] if centred[j] else 0.0
        reach = REMEMBERED / inverse
        if not centred[j]:
            reach = math.sqrt(reach * reach + columns[j, APPLIED_MEAN] * columns[j, APPLIED_MEAN])
        far = math.sqrt(variance + (mean - centre) * (mean - centre))
        if far > reach:
            shrink[j] = far / reach
            mean = centre + (mean - centre) / shrink[j]
            variance /= shrink[j] * shrink[j]
        columns[j, KEPT_ROWS] = n + rows
        columns[j, KEPT_MEAN] = mean
        columns[j, KEPT_VARIANCE] = variance


@jit
def within(indptr, idx, z, forgetful, columns):
    """Cut raw values of columns that started anew at those they had since; writes z."""
    for k in range(indptr[indptr.size - 1]):
        j = idx[k]
        if forgetful[j]:
            z[k] = max(columns[j, LOW], min(columns[j, HIGH], z[k]))


@jit
def divide(x, k2, kind, length):
    """Divide the row x (n,) in place by what `kind` says; `length` is its norm."""
    norm_kind = kind & NORM_OF
    if length == 0.0 or norm_kind == NO_NORM:
        return
    if norm_kind == UNIT or k2 == 0.0 or length > 1e150:
        by = length
    else:
        by = math.sqrt(k2 + length * length)
    for k in range(x.size):
        x[k] /= by


@jit
def forward_row(idx, x, standard, centred, kind, kinds, columns, s, out):
    """Write the scaled row to out (n,); return its norm before division."""
    if standard:
        for k in range(x.size):
            j = k if idx is None else idx[k]
            out[k] = scaled(x[k], j, centred, kinds, columns)
    else:
        for k in range(x.size):
            out[k] = x[k]
    if kind & ARCTAN:
        for k in range(x.size):
            j = k if idx is None else idx[k]
            if kinds[j] != INDICATOR and not (standard and columns[j, APPLIED_INV] == 0.0):  # a sign stays one
                out[k] = math.atan(out[k])
    length = norm(out)
    divide(out, s[APPLIED_K2], kind, length)
    return length


@jit
def rows_until_change(s):
    """Return after how many more rows the applied values change (1: at the next row)."""
    last = s[LAST]
    step = 1.0 if last < EVERY_ROW else math.ceil(last / GROWTH)
    if s.size > SIZE:
        step = min(step, max(1.0, math.floor(s[HALF_LIFE] / GROWTH)))
    return last + step - s[ROWS]


@jit
def take_row(idx, x, standard, centred, kind, kinds, columns, s, out, backup):
    """Write the scaled row to out (n,) and take the row into the estimates; `give_back` undoes that.

    Returns False, and writes nothing, where the applied values change before this row. Writes columns, s,
    out and what the estimates were to backup (SIZE + ESTIMATES n,).
    """
    if rows_until_change(s) == 1.0:
        return False
    for m in range(SIZE):
        backup[m] = s[m]
    if standard:
        for k in range(x.size):
            j = k if idx is None else idx[k]
            for m in range(ESTIMATES):
                backup[SIZE + ESTIMATES * k + m] = columns[j, m]
    length = forward_row(idx, x, standard, centred, kind, kinds, columns, s, out)
    observe_row(idx, x, False, standard, length, kinds, columns, s)
    return True


@jit
def give_back(idx, n, standard, columns, s, backup):
    """Restore the estimates as they were before `take_row` of a row of n values; writes columns, s."""
    for m in range(SIZE):
        s[m] = backup[m]
    if standard:
        for k in range(n - 1, -1, -1):
            j = k if idx is None else idx[k]
            for m in range(ESTIMATES):
                columns[j, m] = backup[SIZE + ESTIMATES * k + m]


@jit
def forward(indptr, idx, val, standard, centred, kind, kinds, columns, s, out, norms):
    """Write scaled values to out (nnz,) and each row's norm before division to norms (n,)."""
    for i in range(norms.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            norms[i] = forward_row(None, val[a:b], standard, centred, kind, kinds, columns, s, out[a:b])
        else:
            norms[i] = forward_row(idx[a:b], val[a:b], standard, centred, kind, kinds, columns, s, out[a:b])


@jit
def backward(indptr, idx, z, standard, centred, kind, kinds, old_mean, old_inv, k2):
    """Undo `forward` on buffered rows in place, as far as it can be undone; writes z. `centred` (d,): which columns were."""
    for i in range(indptr.size - 1):
        a, b = indptr[i], indptr[i + 1]
        length = norm(z[a:b])
        by = 1.0
        if length > 0.0 and k2 > 0.0:
            if kind & NORM_OF == BOUNDED:
                by = math.sqrt(k2) / math.sqrt(max(1e-12, 1.0 - length * length))
            elif kind & NORM_OF == UNIT:
                by = math.sqrt(k2)
        for k in range(a, b):
            x = z[k] * by
            j = idx[k]
            if kind & ARCTAN and kinds[j] != INDICATOR:
                x = math.tan(max(-STEEPEST, min(STEEPEST, x)))
            if standard and kinds[j] != INDICATOR:
                if old_inv[j] == 0.0:
                    x = old_mean[j]
                else:
                    x = x / old_inv[j]
                    if centred[j]:
                        x += old_mean[j]
            z[k] = x
