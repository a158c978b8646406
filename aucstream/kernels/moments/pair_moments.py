"""MBA's moments of all pairs, in four forms: full, diagonal, sketched, and those of sampled pairs."""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.auc.calibration import calibrate
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.moments import class_sums, sketch
from aucstream.kernels.moments.moments import add_mean, deviation
from aucstream.kernels.moments.quadratic import diagonal_net, elastic_net, elastic_net_of_product, ridge
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.pairs import spread, wipe
from aucstream.kernels.random import below
from aucstream.kernels.rows.linear import dot, norm

# layout of State.scalars; two entries mean negatives, positives. N: weight of the rows in the sums, where a
# row of weight c counts GAIN c: the gain grows by 1/rho at each decay, so that forgetting touches no sum.
N, GAIN, TOUCHED, CENTRED, EVENTS, LAST, USED, PAIRS, KEPT, SEEN = 0, 2, 4, 6, 8, 9, 10, 11, 12, 14
SIZE = 16
CLASS, GLOBAL = 0, 1
AUTO = -1.0  # lam2
SHARE = 0.3  # lam2 = SHARE tr(Sigma)/n_eff: regret 0.10 AUC point against the best of a grid over seven sets

WIDEST = 4096  # columns whose products are all kept: 128 MiB
CAPACITY = 1000  # buffered rows a class, for sampled pairs
# A row beyond these is refused: sums stay below 4 HEAVIEST LONGEST_ROW^2.
LONGEST_ROW = 1e120
HEAVIEST = 1e40
LARGEST_GAIN = 1e20  # the sums take it in: O(state) once in 66 half-lives


@jit
def admitted(scalars, c, length, weight, rho, clock):
    """Return (whether a row of class c may be taken, gain with it, factor that the sums take in before)."""
    faded = 1.0
    if rho < 1.0:
        faded = rho ** (scalars[EVENTS] + 1.0 - scalars[TOUCHED + c]) if clock == GLOBAL else rho
    gain, factor = scalars[GAIN + c], 1.0
    if gain <= LARGEST_GAIN * faded:
        gain /= faded
    else:
        gain, factor = 1.0, faded / gain
    fits = length < LONGEST_ROW and weight * gain + scalars[N + c] * factor < HEAVIEST
    return fits, gain, factor


@jit
def count_row(scalars, ledger, c, gain, factor):
    """Count a row of class c; writes scalars, ledger."""
    ledger[ROWS] += 1.0
    ledger[POSITIVES] += c
    scalars[EVENTS] += 1.0
    scalars[TOUCHED + c] = scalars[EVENTS]
    scalars[GAIN + c] = gain
    scalars[N + c] *= factor


@jit
def mark_used(idx, x, used, scalars):
    """Note the columns that hold a value that is not 0; writes used, scalars."""
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if x[k] != 0.0 and used[j] == 0.0:
            used[j] = 1.0
            scalars[USED] += 1.0


@jit
def due(scalars):
    """Return whether the schedule asks for a solve at this event, and both classes were seen."""
    events, last = scalars[EVENTS], scalars[LAST]
    if scalars[N] <= 0.0 or scalars[N + 1] <= 0.0:
        return False
    if events < 64.0 and np.int64(events) & (np.int64(events) - 1) == 0:
        return True
    return events - last >= max(scalars[USED] / 4.0, last / 100.0)


@jit
def weight_now(scalars, c, rho, clock):
    """Return the weight of the rows of class c, decayed to this event."""
    n = scalars[N + c] / scalars[GAIN + c]
    if clock == GLOBAL and rho < 1.0:
        n *= rho ** (scalars[EVENTS] - scalars[TOUCHED + c])
    return max(n, 1e-300)


@jit
def penalty(scalars, trace, lam2, rho, clock):
    """Return lam2, or 0.3 tr(Sigma)/n_eff in its place; n_eff is not more than the pairs that were sampled."""
    if lam2 != AUTO:
        return lam2
    inverse = 1.0 / weight_now(scalars, 0, rho, clock) + 1.0 / weight_now(scalars, 1, rho, clock)
    if scalars[PAIRS] > 0.0:
        inverse = max(inverse, 1.0 / scalars[PAIRS])
    return SHARE * trace * inverse


@jit
def put(columns, found, w, scalars):
    """Make the solution the weights, unless it is not finite; writes w, scalars."""
    scalars[LAST] = scalars[EVENTS]
    total = 0.0
    for k in range(found.size):
        total += 0.0 * found[k]
    if total == 0.0:
        for k in range(found.size):
            w[columns[k]] = found[k]


# -- full and diagonal moments: see `kernels.moments.class_sums` ----------------------------------------------


@jit_allocating
def solve_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator,
    lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Solve for w over the columns in use; writes w, scalars, and reference points move to the means."""
    n_neg, n_pos = scalars[N], scalars[N + 1]
    scalars[CENTRED] = class_sums.recentre(cross, square_neg, total_neg, ref_neg, n_neg, False)
    scalars[CENTRED + 1] = class_sums.recentre(cross, square_pos, total_pos, ref_pos, n_pos, True)
    columns = np.flatnonzero(used)
    mu, v, found = np.empty(columns.size), np.empty(columns.size), w[columns]
    class_sums.difference(
        columns, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, n_neg, n_pos, mu, v
    )  # fmt: skip
    trace = 0.0
    for a in range(columns.size):
        trace += v[a] + mu[a] * mu[a]
    lam2 = penalty(scalars, trace, lam2, rho, clock)
    if cross is None:
        diagonal_net(mu, v, lam1, lam2, found)
    else:
        A = np.empty((columns.size, columns.size))
        class_sums.second_moments(columns, cross, total_neg, total_pos, n_neg, n_pos, mu, v, A)
        if lam1 > 0.0:
            elastic_net(A, mu, lam1, lam2, found)
        else:
            found = ridge(A, mu, lam2)
    put(columns, found, w, scalars)


@jit
def step_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, y, weight, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Take one row; solve if that is due. Writes all state.

    Returns the score before it; NaN where the row was skipped.
    """
    score = dot(idx, x, w)
    c = 1 if y > 0.0 else 0
    fits, gain, factor = admitted(scalars, c, norm(x), weight, rho, clock)
    if not (fits and math.isfinite(score)):
        return math.nan
    calibrate(ledger, score, y, weight)
    count_row(scalars, ledger, c, gain, factor)
    mark_used(idx, x, used, scalars)
    if c == 1:
        square, total, ref = square_pos, total_pos, ref_pos
    else:
        square, total, ref = square_neg, total_neg, ref_neg
    if factor != 1.0:
        class_sums.decay(cross, square, total, c == 1, factor)
    n = scalars[N + c]
    if n == 0.0:
        scalars[CENTRED + c] = class_sums.begin(idx, x, ref)
    elif class_sums.centred_in(idx, x, ref) < scalars[CENTRED + c]:
        scalars[CENTRED + c] -= class_sums.release(cross, square, total, ref, n, c == 1, idx, x, gap)
    class_sums.add_row(cross, square, total, ref, c == 1, idx, x, weight * gain, gap)
    scalars[N + c] += weight * gain
    if solving and due(scalars):
        solve_full(
            cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator,
            lam1, lam2, rho, clock, solving,
        )  # fmt: skip
    return score


@jit
def score_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit_allocating
def settle_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator
):  # fmt: skip
    """Recount the reference points, which a change of units may have moved from 0 or to it. O(d)."""
    scalars[CENTRED] = np.count_nonzero(ref_neg)
    scalars[CENTRED + 1] = np.count_nonzero(ref_pos)


@jit
def solve_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator,
    lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """`solve_full` with the diagonal."""
    solve_full(
        None, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator,
        lam1, lam2, rho, clock, solving,
    )  # fmt: skip


@jit
def step_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, y, weight, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """`step_full` with the diagonal."""
    return step_full(
        None, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator,
        ledger, idx, x, y, weight, lam1, lam2, rho, clock, solving,
    )  # fmt: skip


@jit
def score_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def settle_diag(square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator):
    """`settle_full` with the diagonal."""
    settle_full(
        None, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator
    )  # fmt: skip


# -- sketched moments: see `kernels.moments.sketch` ------------------------------------------------------------
# Of each class: n, mean, the diagonal of the scatter matrix, and its sketch; that of negatives comes first.


@jit_allocating
def solve_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, lam1, lam2, rho, clock, solving
):
    """Solve for w over the columns in use; writes w, scalars.

    With F = (the sketches' rows / sqrt(n), mu) as columns, Sigma = FF' and mu = F e, hence
    w = F (F'F + lam2 I)^-1 e: a system of the sketches' size (Woodbury).
    """
    room = table.shape[1] // 2
    kept_neg, kept_pos = np.int64(scalars[KEPT]), np.int64(scalars[KEPT + 1])
    size = kept_neg + kept_pos + 1
    root_neg, root_pos = math.sqrt(scalars[N]), math.sqrt(scalars[N + 1])
    columns = np.flatnonzero(used)
    F = np.empty((columns.size, size))
    mu, found = np.empty(columns.size), w[columns]
    trace = 0.0
    for a in range(columns.size):
        j = columns[a]
        row = F[a]
        for k in range(kept_neg):
            row[k] = table[j, k] / root_neg
        for k in range(kept_pos):
            row[kept_neg + k] = table[j, room + k] / root_pos
        mu[a] = row[size - 1] = mean_pos[j] - mean_neg[j]
        trace += square_neg[j] / scalars[N] + square_pos[j] / scalars[N + 1] + mu[a] * mu[a]
    lam2 = penalty(scalars, trace, lam2, rho, clock)
    if lam1 > 0.0:
        elastic_net_of_product(F, mu, lam1, lam2, found)
    else:
        gram = np.zeros((size, size))
        e = np.zeros(size)
        e[size - 1] = 1.0
        for a in range(columns.size):
            row = F[a]
            for k in range(size):
                f = row[k]
                for m in range(k, size):
                    gram[k, m] += f * row[m]
        e = ridge(gram, e, lam2)
        for a in range(columns.size):
            found[a] = 0.0
            for k in range(size):
                found[a] += F[a, k] * e[k]
    put(columns, found, w, scalars)


@jit
def step_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    idx, x, y, weight, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Take one row; solve if that is due. Writes all state.

    Returns the score before it; NaN where the row was skipped.
    """
    score = dot(idx, x, w)
    c = 1 if y > 0.0 else 0
    fits, gain, factor = admitted(scalars, c, norm(x), weight, rho, clock)
    if not (fits and math.isfinite(score)):
        return math.nan
    calibrate(ledger, score, y, weight)
    count_row(scalars, ledger, c, gain, factor)
    mark_used(idx, x, used, scalars)
    if c == 1:
        square, mean = square_pos, mean_pos
    else:
        square, mean = square_neg, mean_neg
    room = table.shape[1] // 2
    if factor != 1.0:
        sketch.decay(table, c * room, room, factor)
        for j in range(square.size):
            square[j] *= factor
    mass = weight * gain
    deviation(idx, x, 1.0, 1.0, mean, gap)
    share = add_mean(gap, mass, scalars[N + c], mean)
    scalars[N + c] += mass
    rest = mass * (1.0 - share)
    if rest > 0.0:
        for j in range(gap.size):
            square[j] += rest * gap[j] * gap[j]
        kept = np.int64(scalars[KEPT + c])
        scalars[KEPT + c] = sketch.feed(table, c * room, room, kept, gap, math.sqrt(rest))
    if solving and due(scalars):
        solve_sketch(
            table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator,
            lam1, lam2, rho, clock, solving,
        )  # fmt: skip
    return score


@jit
def score_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


# -- moments of sampled pairs ------------------------------------------------------------------------
# z = x+ - x-: total = sum c z, and cross = sum c zz' on and above the diagonal.


@jit
def take_pair(cross, total, zi, zv, dense, idx, x, sign, start, stop, pool_idx, pool_val, weight):
    """Add z = sign (x - b), b at start..stop of the pool, `dense` holding x; writes cross, total. O(nnz^2)."""
    n = 0
    for k in range(start, stop):
        j = pool_idx[k]
        zi[n], zv[n] = j, sign * (dense[j] - pool_val[k])
        dense[j] = 0.0
        n += 1
    for k in range(x.size):
        j = k if idx is None else idx[k]
        if dense[j] != 0.0:
            zi[n], zv[n] = j, sign * dense[j]
            n += 1
        dense[j] = x[k]
    for a in range(n):
        i, f = zi[a], weight * zv[a]
        total[i] += f
        for b in range(a, n):
            j = zi[b]
            if i <= j:
                cross[i, j] += f * zv[b]
            else:
                cross[j, i] += f * zv[b]


@jit_allocating
def solve_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator,
    lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Solve for w over the columns in use; writes w, scalars."""
    columns = np.flatnonzero(used)
    size = columns.size
    A = np.empty((size, size))
    mu, found = np.empty(size), w[columns]
    trace = 0.0
    for a in range(size):
        i = columns[a]
        mu[a] = total[i] / scalars[PAIRS]
        for b in range(a, size):
            A[a, b] = A[b, a] = cross[i, columns[b]] / scalars[PAIRS]
        trace += A[a, a]
    lam2 = penalty(scalars, trace, lam2, rho, clock)
    if lam1 > 0.0:
        elastic_net(A, mu, lam1, lam2, found)
    else:
        found = ridge(A, mu, lam2)
    put(columns, found, w, scalars)


@jit
def step_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    idx, x, y, weight, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Pair one row with `count` buffered rows of the other class; solve if that is due. Writes all state.

    Returns the score before it; NaN where the row was skipped.
    """
    score = dot(idx, x, w)
    c = 1 if y > 0.0 else 0
    fits, gain, factor = admitted(scalars, c, norm(x), weight, rho, clock)
    if not (fits and math.isfinite(score)):
        return math.nan
    calibrate(ledger, score, y, weight)
    count_row(scalars, ledger, c, gain, factor)
    mark_used(idx, x, used, scalars)
    first, other, sign = (CAPACITY, SEEN, 1.0) if c == 1 else (0, SEEN + 1, -1.0)
    held = min(np.int64(scalars[other]), CAPACITY)
    if held > 0:
        spread(idx, x, 1.0, dense)
        for _ in range(count):
            slot = first + below(generator, held)
            start = slots[slot, buffers.START]
            stop = start + slots[slot, buffers.LENGTH]
            take_pair(cross, total, zi, zv, dense, idx, x, sign, start, stop, pool_idx, pool_val, weight)
            scalars[PAIRS] += weight
        wipe(idx, x, dense)
    scalars[N + c] += weight
    scalars[SEEN + c] += 1.0
    buffers.offer(
        generator, idx, x, 1.0, CAPACITY - first, np.int64(scalars[SEEN + c]), CAPACITY, buffers.RESERVOIR,
        slots, pool_idx, pool_val,
    )  # fmt: skip
    if solving and due(scalars):
        solve_pairs(
            cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator,
            lam1, lam2, rho, clock, solving, count,
        )  # fmt: skip
    return score


@jit
def score_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit_allocating
def draw_pairs(cross, total, dense, zi, zv, scalars, generator, indptr, idx, val, positives, negatives, count):
    """One round of [1] Algorithm 1: `count` positive rows, then as many negative ones, paired by position.

    Writes cross, total, scalars, generator; dense, zi, zv are working space.
    """
    left = np.empty(count, dtype=np.int64)
    for k in range(count):
        left[k] = positives[below(generator, positives.size)]
    for k in range(count):
        i, j = left[k], negatives[below(generator, negatives.size)]
        x, columns = val[indptr[i] : indptr[i + 1]], idx[indptr[i] : indptr[i + 1]]
        spread(columns, x, 1.0, dense)
        take_pair(cross, total, zi, zv, dense, columns, x, 1.0, indptr[j], indptr[j + 1], idx, val, 1.0)
        wipe(columns, x, dense)
        scalars[PAIRS] += 1.0
