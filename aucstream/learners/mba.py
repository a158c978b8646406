"""MBA: mini-batch AUC optimization, from the exact moments of all pairs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, Ints, signs_of
from aucstream.constraints import Ge, Gt
from aucstream.errors import CannotMerge, InvalidParams
from aucstream.features.intake import array_block
from aucstream.features.vocabulary import Vocabulary
from aucstream.kernels import buffers, class_sums, sketch
from aucstream.kernels.calibration import calibrate
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.linear import dot, norm
from aucstream.kernels.moments import add_mean, deviation
from aucstream.kernels.pairs import spread, wipe
from aucstream.kernels.quadratic import diagonal_net, elastic_net, elastic_net_of_product, ridge
from aucstream.kernels.random import below
from aucstream.learners.base import Learner, learner
from aucstream.learners.merging import Buffer, merge_pools
from aucstream.learners.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Table, Unit, Vector

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


@jit
def scores_of(indptr, idx, val, w, out):
    """Write w'x of each row to out (n,)."""
    for i in range(out.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = dot(None, val[a:b], w)
        else:
            out[i] = dot(idx[a:b], val[a:b], w)


# -- full and diagonal moments: see `kernels.class_sums` ----------------------------------------------


@jit
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
def learn_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, y, weights, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """One row after another; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step_full(
                cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars,
                generator, ledger, None, val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving,
            )  # fmt: skip
        else:
            out[i] = step_full(
                cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars,
                generator, ledger, idx[a:b], val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving,
            )  # fmt: skip


@jit
def score_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def score_block_full(
    cross, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Write the score of each row to out (n,); changes nothing else."""
    scores_of(indptr, idx, val, w, out)


@jit
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
def learn_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, y, weights, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """`learn_full` with the diagonal."""
    learn_full(
        None, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
        indptr, idx, val, y, weights, out, lam1, lam2, rho, clock, solving,
    )  # fmt: skip


@jit
def score_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def score_block_diag(
    square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Write the score of each row to out (n,); changes nothing else."""
    scores_of(indptr, idx, val, w, out)


@jit
def settle_diag(square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator):
    """`settle_full` with the diagonal."""
    settle_full(
        None, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, used, w, gap, scalars, generator
    )  # fmt: skip


class FullState(NamedTuple):
    """d^2 + 8 d floats."""

    cross: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED)]
    square_neg: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    square_pos: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    total_neg: Annotated[Floats, Vector(Unit.ROW_CHANGE)]
    total_pos: Annotated[Floats, Vector(Unit.ROW_CHANGE)]
    ref_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N))]
    ref_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N + 1))]
    used: Annotated[Floats, Vector()]  # 1 where a column has held a value that is not 0
    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    gap: Annotated[Floats, Scratch(np.float64)]
    scalars: Annotated[Floats, Fixed(SIZE)]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


class DiagState(NamedTuple):
    """8 d floats."""

    square_neg: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    square_pos: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    total_neg: Annotated[Floats, Vector(Unit.ROW_CHANGE)]
    total_pos: Annotated[Floats, Vector(Unit.ROW_CHANGE)]
    ref_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N))]
    ref_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N + 1))]
    used: Annotated[Floats, Vector()]
    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    gap: Annotated[Floats, Scratch(np.float64)]
    scalars: Annotated[Floats, Fixed(SIZE)]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


# -- sketched moments: see `kernels.sketch` ------------------------------------------------------------
# Of each class: n, mean, the diagonal of the scatter matrix, and its sketch; that of negatives comes first.


@jit
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
def learn_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, y, weights, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """One row after another; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step_sketch(
                table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
                None, val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving,
            )  # fmt: skip
        else:
            out[i] = step_sketch(
                table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
                idx[a:b], val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving,
            )  # fmt: skip


@jit
def score_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def score_block_sketch(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    indptr, idx, val, out, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Write the score of each row to out (n,); changes nothing else."""
    scores_of(indptr, idx, val, w, out)


@jit
def settle_sketch(table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator):
    """Nothing is owed."""


class SketchState(NamedTuple):
    """4 sketch_size d + 6 d floats."""

    table: Annotated[Floats, Table(None, "kept", Unit.ROW_CHANGE)]
    square_neg: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    square_pos: Annotated[Floats, Vector(Unit.ROW_SQUARED)]
    mean_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N))]
    mean_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N + 1))]
    used: Annotated[Floats, Vector()]
    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    gap: Annotated[Floats, Scratch(np.float64)]
    scalars: Annotated[Floats, Fixed(SIZE)]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


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


@jit
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
def learn_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    indptr, idx, val, y, weights, out, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """One row after another; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step_pairs(
                cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
                None, val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving, count,
            )  # fmt: skip
        else:
            out[i] = step_pairs(
                cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
                idx[a:b], val[a:b], y[i], weights[i], lam1, lam2, rho, clock, solving, count,
            )  # fmt: skip


@jit
def score_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def score_block_pairs(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    indptr, idx, val, out, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Write the score of each row to out (n,); changes nothing else."""
    scores_of(indptr, idx, val, w, out)


@jit
def settle_pairs(cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator):
    """Nothing is owed."""


@jit
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


class PairsState(NamedTuple):
    """d^2 + 6 d floats, one generator, and 2000 rows."""

    cross: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED)]
    total: Annotated[Floats, Vector(Unit.ROW_CHANGE)]
    used: Annotated[Floats, Vector()]
    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    dense: Annotated[Floats, Scratch(np.float64)]  # zero between rows
    zi: Annotated[Ints, Scratch(np.int64)]
    zv: Annotated[Floats, Scratch(np.float64)]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    scalars: Annotated[Floats, Fixed(SIZE)]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAMS = {
    "full": Program(FullState, step_full, learn_full, score_full, score_block_full, settle_full),
    "diag": Program(DiagState, step_diag, learn_diag, score_diag, score_block_diag, settle_diag),
    "sketch": Program(SketchState, step_sketch, learn_sketch, score_sketch, score_block_sketch, settle_sketch),
    "pairs": Program(PairsState, step_pairs, learn_pairs, score_pairs, score_block_pairs, settle_pairs),
}
_CLASSES = ("neg", "pos")
_SOLVERS: dict[str, Callable[..., None]] = {
    "full": solve_full,
    "diag": solve_diag,
    "sketch": solve_sketch,
    "pairs": solve_pairs,
}


@learner
class MBA(Learner):
    """Mini-batch AUC optimization: the pairwise squared loss of all pairs, solved exactly on a schedule.

    The count, mean and covariance of each class give the moments of all pairs of rows, so that nothing is
    sampled and nothing depends on the order of the rows. Two models of disjoint streams merge exactly. The
    choice where d is at most a few thousand, where streams are merged, or where old rows are to be forgotten.

    Parameters
    ----------
    lam1 : float, default=0.0
        In [0, inf). Penalty lam1 \\|w\\|_1: makes weights exactly 0. [1]_ eq. (10).
    lam2 : float or None, default=None
        In [0, inf). Penalty lam2/2 \\|w\\|^2. None: 0.3 tr(Sigma)/n_eff, n_eff = n+ n-/(n+ + n-), which
        falls as rows come in and needs no tuning. [1]_ eq. (10).
    half_life : float or None, default=None
        In (0, inf). Rows after which a row's weight in the moments has halved; None: rows are not forgotten.
    clock : {"class", "global"}, default="class"
        What ages a row: "class", rows of its own class, so that a rare class keeps its last rows however
        long the gaps; "global", all rows.
    moments : {"auto", "full", "diag", "sketch"}, default="auto"
        What is kept of the covariances. "full": all, O(d^2) memory, for at most 4096 features. "diag": the
        variances. "sketch": `sketch_size` directions a class. "auto": full, and diag, with a RuntimeWarning,
        from the first row on that has a feature beyond the 4096th.
    sketch_size : int, default=64
        >= 1. Rows of the sketch of each class that are kept; twice as many have room.
    sampled_pairs : int or None, default=None
        >= 1. Use sampled pairs in the place of all pairs, [1]_ Algorithm 1 with S = BT = `sampled_pairs`: see
        Notes. With full moments only, and without forgetting.
    seed : int or None, default=0
        Of the draws of pairs; None: drawn at construction.

    Notes
    -----
    With mu = m+ - m- and Sigma = S+ + S- + mu mu' (mean and second moment of x+ - x- over all pairs, [1]_
    eq. 9), w minimises ::

        w'Sigma w/2 - w'mu + lam1 |w|_1 + lam2/2 |w|^2

    lam1 = 0: by Cholesky; the ranking is that of regularised Fisher discriminant analysis with equally weighted
    classes. lam1 > 0: by coordinate descent from the last solution, until the optimality conditions hold to
    1e-6 max\\|mu\\|. diag: by bisection. sketch: by Woodbury's identity.

    A solve is due when the rows have grown by 1 % and by a quarter of the features in use since the last one,
    and at the powers of two below 64. Scoring never solves; `solve` does, at any time, and `fit` once at the
    end: it takes all rows as they are, so that further epochs change nothing.

    Moments are sums about a reference point of each class: 0 in every column that some row of the class
    lacked, near the mean in the others. A sparse row touches the products of its own entries only, O(nnz^2),
    and dense rows far from 0 lose no digits. A column far from 0 loses (mean/deviation)^2 eps of its variance
    where rows that lack it are mixed in; a scaler in front prevents that. The solve is O(d^3/3) over the columns
    in use, O(sketch_size^2 d) for sketches, O(60 d) for diag.

    Sampled pairs, in a stream: each row is paired with `sampled_pairs` rows drawn from a reservoir of 1000 rows
    of the other class, and z, zz' are averaged over all pairs so far. `fit`: each epoch draws `sampled_pairs`
    positive rows with replacement, then as many negative ones, paired by position. n_eff is at most the number
    of pairs. The exact version is better at equal memory; this one reproduces the paper.

    `merge` is exact for full and diag (with a half-life: of the moments, both brought to the same moment). For
    sketches (within the bounds of both) and sampled pairs it takes `approximate=True`. It ends with a solve.

    Deviations: all pairs by default; lam2 by a rule (the paper cross-validates); no `kappa`, since the problem
    is equivariant as it is; where Sigma + lam2 I is singular (lam2 = 0), columns that depend on those before
    them get weight 0.

    References
    ----------
    .. [1] Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization", 2018, eqs. 9-10, Algorithm 1.
    .. [2] Chan, Golub, LeVeque, "Algorithms for Computing the Sample Variance", The American Statistician, 1983.
    .. [3] Liberty, "Simple and Deterministic Matrix Sketching", KDD 2013.

    Examples
    --------
    >>> from aucstream import MBA
    >>> monday, tuesday = MBA(), MBA()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 10:
    ...     monday.learn_one({"a": a}, y)
    ...     tuesday.learn_one({"a": a, "b": a / 2}, y)
    >>> both = monday.merge(tuesday)
    >>> both.examples, both.score_one({"a": 1.0}) > both.score_one({"b": -1.0})
    (40, True)
    """

    lam1: Annotated[float, Ge(0)] = 0.0
    lam2: Annotated[float | None, Ge(0)] = None
    half_life: Annotated[float | None, Gt(0)] = None
    clock: Literal["class", "global"] = "class"
    moments: Literal["auto", "full", "diag", "sketch"] = "auto"
    sketch_size: Annotated[int, Ge(1)] = 64
    sampled_pairs: Annotated[int | None, Ge(1)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"lam1", "lam2"})
    _random = True

    def __post_init__(self) -> None:
        self._form = self._first_form()
        super().__post_init__()

    def _first_form(self) -> str:
        if self.sampled_pairs is not None:
            return "pairs"
        return "full" if self.moments == "auto" else self.moments

    def _chosen_program(self) -> Program:
        if self.sampled_pairs is not None:
            if self.moments in ("diag", "sketch"):
                raise InvalidParams("MBA.sampled_pairs", f"None with moments={self.moments!r}", self.sampled_pairs)
            if self.half_life is not None:
                raise InvalidParams("MBA.sampled_pairs", "None with a half_life", self.sampled_pairs)
        return _PROGRAMS[self._form]

    def _numbers(self) -> tuple[float, ...]:
        rho = 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)
        lam2 = AUTO if self.lam2 is None else self.lam2
        clock = GLOBAL if self.clock == "global" else CLASS
        numbers = (self.lam1, lam2, rho, clock, True)
        return numbers if self.sampled_pairs is None else (*numbers, self.sampled_pairs)

    def _slots(self) -> int:
        return 0 if self.sampled_pairs is None else 2 * CAPACITY

    def _buffers(self) -> tuple[Buffer, ...]:
        if self.sampled_pairs is None:
            return ()
        return (
            Buffer(0, CAPACITY, ("scalars", SEEN + 1), buffers.RESERVOIR),
            Buffer(CAPACITY, CAPACITY, ("scalars", SEEN), buffers.RESERVOIR),
        )

    def _sizes(self) -> dict[str, int]:
        return {"kept": 4 * self.sketch_size}

    def _begin(self) -> None:
        self._field("scalars")[GAIN : GAIN + 2] = 1.0

    # -- width ---------------------------------------------------------------------------------------

    def _widest(self) -> tuple[int, str] | None:
        if self.sampled_pairs is not None:
            return WIDEST, "use all pairs with moments='diag' or 'sketch'"
        return (WIDEST, "use moments='diag' or 'sketch'") if self.moments == "full" else None

    def _room(self, width: int) -> int:
        return min(width, WIDEST) if self._form == "full" else super()._room(width)

    def _become(self, form: str) -> None:
        self._form = form
        self._program = _PROGRAMS[form]

    def _narrow_moments(self) -> None:
        """Keep the diagonal alone from now on."""
        warnings.warn(
            f"MBA: more than {WIDEST} features: from here on the variances alone are kept. moments='diag' or 'sketch' "
            "chooses so from the start, a vocabulary of that capacity or Hashing(12) keeps all products",
            RuntimeWarning,
            stacklevel=2,
        )
        held = dict(zip(self._program.parts, self._arrays, strict=True))
        self._become("diag")
        self._arrays = tuple(held[name] for name in self._program.parts)

    def _outgrown(self, width: int) -> bool:
        return self._form == "full" and width > WIDEST

    def _refuses(self, val: Floats, sign: float, weight: float) -> bool:
        rho, clock = self._kernel_params[2:4]
        fits, _, _ = admitted(self._field("scalars"), int(sign > 0), norm(val), weight, rho, clock)
        return not fits

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        if self._outgrown(self._encoder.width) and (val.size > WIDEST if idx is None else idx.max(initial=0) >= WIDEST):
            if self._refuses(val, sign, weight):
                return math.nan
            self._narrow_moments()
        return super()._learn_row(idx, val, sign, weight)

    def _learn(self, block: Block) -> Floats:
        if not self._outgrown(max(block.width, self._encoder.width)):
            return super()._learn(block)
        # The first row with a feature too many ends the full moments, however the rows are cut.
        scores = np.empty(len(block))
        if block.indices is None:
            wide = np.arange(len(block) if block.width > WIDEST else 0)
        else:
            wide = np.unique(np.searchsorted(block.indptr, np.flatnonzero(block.indices >= WIDEST), side="right") - 1)
        start = 0
        for row in wide.tolist():
            scores[start:row] = super()._learn(block.rows(start, row))
            start = row
            one = block.rows(row, row + 1)
            if not self._refuses(one.values, one.y.item(), one.weights.item()):
                self._narrow_moments()
                break
            scores[row] = math.nan
            start = row + 1
        scores[start:] = super()._learn(block.rows(start, len(block)))
        return scores

    def _wide_weights(self, width: int) -> Floats:
        w = np.zeros(width)
        held = self._field("w")
        w[: held.size] = held
        return w

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        if self._outgrown(self._encoder.width):
            score: float = dot(idx, val, self._wide_weights(self._encoder.width))
            return score
        return super()._score_row(idx, val)

    def _score(self, block: Block) -> Floats:
        width = max(block.width, self._encoder.width)
        if not self._outgrown(width):
            return super()._score(block)
        out = np.empty(len(block))
        scores_of(block.indptr, block.indices, block.values, self._wide_weights(width), out)
        return out

    def _reset(self) -> None:
        self._become(self._first_form())
        super()._reset()

    def keep(self) -> tuple[Any, ...]:
        """Return a copy of all that learning changes but the names, for `put_back`."""
        return self._form, super().keep()

    def put_back(self, kept: tuple[Any, ...]) -> None:
        """Restore what `keep` returned."""
        form, rest = kept
        self._become(form)
        super().put_back(rest)

    def _program_of(self, arrays: snapshot.Arrays) -> Program:
        if self.moments == "auto" and self._form == "full" and "state.cross" not in arrays:
            self._become("diag")
        return self._program

    # -- solving -------------------------------------------------------------------------------------

    def solve(self) -> None:
        """Solve now, with all rows learned so far; nothing happens before both classes were seen."""
        scalars = self._field("scalars")
        if scalars[N] > 0.0 and scalars[N + 1] > 0.0 and (scalars[PAIRS] > 0.0 or self._form != "pairs"):
            _SOLVERS[self._form](*self._arrays, *self._kernel_params)

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew, take the moments of all rows (X, y) and solve once; calibrate on the final scores.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1. Rounds of `sampled_pairs` pairs; with the moments of all pairs there is nothing to repeat.

        Raises
        ------
        NonFiniteStep
            At the end, with the numbers of the rows that were too long to be taken.
        """
        if not isinstance(epochs, (int, np.integer)) or epochs < 1:
            raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
        n = len(array_block(Vocabulary(), X, learn=True))
        signs = signs_of(y, n)
        self._reset()
        block = array_block(self._encoder, X, signs, np.ones(n), learn=True)
        numbers = self._kernel_params
        self._kernel_params = (*numbers[:4], False) if self.sampled_pairs is None else (*numbers[:4], False, 0)
        try:
            taken = self._learn(block)
        finally:
            self._kernel_params = numbers
        if self.sampled_pairs is not None:
            self._draw(block, ~np.isnan(taken), int(epochs))
        self.solve()
        self._calibrate_on(self._score(block), signs)
        self._raise_skipped(taken)
        return self

    def _draw(self, block: Block, taken: np.ndarray, rounds: int) -> None:
        """Average over sampled pairs of the rows of a block."""
        positives, negatives = (np.flatnonzero(taken & (block.y == sign)) for sign in (1.0, -1.0))
        if not (positives.size and negatives.size):
            return
        idx = block.indices
        if idx is None:
            idx = np.tile(np.arange(block.width, dtype=np.int64), len(block))
        fields = [self._field(name) for name in ("cross", "total", "dense", "zi", "zv", "scalars", "generator")]
        for _ in range(rounds):
            draw_pairs(*fields, block.indptr, idx, block.values, positives, negatives, self.sampled_pairs)

    # -- merge ---------------------------------------------------------------------------------------

    def _check_merge(self, other: Self, approximate: bool) -> None:
        if self._form in ("sketch", "pairs") and not approximate:
            what = "sketches" if self._form == "sketch" else "sampled pairs"
            raise CannotMerge("MBA.merge", "approximate=True", f"the moments of {what}, which are not exact")

    def _take(self, other: Self, columns: Ints) -> None:
        if self._form == "full" and (other._form == "diag" or self._outgrown(self._encoder.width)):
            self._narrow_moments()
            self._ensure(self._encoder.width)
        known = columns >= 0

        def placed(vector: Floats) -> Floats:
            """Return a vector of the other model in the columns of this one."""
            row = np.zeros(self._capacity)
            n = min(columns.size, vector.size)
            row[columns[:n][known[:n]]] = vector[:n][known[:n]]
            return row

        scalars, theirs = self._field("scalars"), other._field("scalars")
        if theirs[EVENTS] == 0.0:
            return
        fresh = scalars[EVENTS] == 0.0
        if self._form == "pairs":
            self._take_pairs(other, columns, placed)
        else:
            for c in (0, 1):
                if theirs[N + c] == 0.0:
                    scalars[TOUCHED + c] += theirs[EVENTS]  # as old as it was
                elif self._form == "sketch":
                    self._take_sketch(other, columns, placed, c)
                else:
                    self._take_class(other, columns, placed, c)
        used = self._field("used")
        np.maximum(used, placed(other._field("used")), out=used)
        scalars[USED] = np.count_nonzero(used)
        scalars[EVENTS] += theirs[EVENTS]
        self._settle()
        if fresh:
            self._field("w")[:] = placed(other._field("w"))
            scalars[LAST] = theirs[LAST]
        else:
            self.solve()

    def _weight_now(self, c: int) -> float:
        rho, clock = self._kernel_params[2:4]
        n: float = weight_now(self._field("scalars"), c, rho, clock)
        return n

    def _class_moments(self, c: int) -> tuple[float, Floats, Floats, Floats | None]:
        """Return n, mean, squares and products (above the diagonal) about it of class c, decayed to now."""
        n = self._field("scalars")[N + c]
        total, square, ref = (self._field(f"{name}_{_CLASSES[c]}") for name in ("total", "square", "ref"))
        if n == 0.0:
            return 0.0, np.zeros(total.size), np.zeros(total.size), None
        now = self._weight_now(c)
        products = None
        if self._form == "full":
            cross = self._field("cross")
            products = now / n * np.triu((cross if c else cross.T) - np.outer(total, total / n), 1)
        return now, ref + total / n, now / n * np.maximum(square - total * total / n, 0.0), products

    def _take_class(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats], c: int) -> None:
        """Add the full or diagonal moments of one class, [2]."""
        mine, mean, square, products = self._class_moments(c)
        theirs, other_mean, other_square, other_products = other._class_moments(c)
        other_mean, other_square = placed(other_mean), placed(other_square)
        n = mine + theirs
        gap = other_mean - mean if mine > 0.0 else np.zeros(mean.size)
        moved = other_mean if mine == 0.0 else mean + theirs / n * gap
        share = mine * (theirs / n)
        if self._form == "full":
            cross = self._field("cross")
            summed = np.zeros_like(cross) if products is None else products
            assert other_products is not None
            summed += _upper(other_products, columns, len(cross)) + share * np.triu(np.outer(gap, gap), 1)
            cross[:] = np.tril(cross) + summed if c else np.triu(cross) + summed.T
        for name, value in (("ref", moved), ("square", square + other_square + share * gap * gap), ("total", 0.0)):
            self._field(f"{name}_{_CLASSES[c]}")[:] = value
        self._recounted(other, c, n)

    def _recounted(self, other: Self, c: int, n: float) -> None:
        scalars = self._field("scalars")
        scalars[N + c] = n
        scalars[GAIN + c] = 1.0
        scalars[TOUCHED + c] = scalars[EVENTS] + other._field("scalars")[EVENTS]

    def _take_sketch(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats], c: int) -> None:
        """Feed the other sketch of one class, and the difference of the means, to this one."""
        room = 2 * self.sketch_size
        table, scalars, theirs = self._field("table"), self._field("scalars"), other._field("scalars")
        mean, square = self._field(f"mean_{_CLASSES[c]}"), self._field(f"square_{_CLASSES[c]}")
        mine_now = self._weight_now(c) if scalars[N + c] > 0.0 else 0.0
        other_now = other._weight_now(c)
        faded = mine_now / scalars[N + c] if mine_now > 0.0 else 1.0
        other_faded = other_now / theirs[N + c]
        square *= faded
        table[:, c * room : (c + 1) * room] *= math.sqrt(faded)
        n = mine_now + other_now
        gap = placed(other._field(f"mean_{_CLASSES[c]}")) - (mean if mine_now > 0.0 else 0.0)
        share = mine_now * (other_now / n)
        mean[:] = gap if mine_now == 0.0 else mean + other_now / n * gap
        square += other_faded * placed(other._field(f"square_{_CLASSES[c]}")) + share * gap * gap
        fed = [(gap, share)]
        fed += [(placed(other._field("table")[:, c * room + k]), other_faded) for k in range(int(theirs[KEPT + c]))]
        for row, factor in fed:
            kept = int(scalars[KEPT + c])
            scalars[KEPT + c] = sketch.feed(table, c * room, room, kept, row, math.sqrt(factor))
        self._recounted(other, c, n)

    def _take_pairs(self, other: Self, columns: Ints, placed: Callable[[Floats], Floats]) -> None:
        """Add the sums over pairs; the reservoirs become uniform samples of both streams."""
        scalars, theirs = self._field("scalars"), other._field("scalars")
        self._field("cross")[:] += _upper(other._field("cross"), columns, self._capacity)
        self._field("total")[:] += placed(other._field("total"))
        at = self._pool_at
        seen = [(int(scalars[buffer.seen[1]]), int(theirs[buffer.seen[1]])) for buffer in self._buffers()]
        random = np.random.default_rng([self._seed, self.examples, other.examples])
        pool = merge_pools(
            self._arrays[at : at + 3], other._arrays[at : at + 3], columns, self._buffers(), seen, random, False
        )  # fmt: skip
        self._arrays = (*self._arrays[:at], *pool, *self._arrays[at + 3 :])
        for count in (N, N + 1, SEEN, SEEN + 1, PAIRS):
            scalars[count] += theirs[count]
        scalars[TOUCHED : TOUCHED + 2] = scalars[EVENTS] + theirs[EVENTS]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"moments": "diag", "lam1": 1e-3, "half_life": 200.0, "clock": "global"}
        yield {"moments": "sketch", "sketch_size": 4}


def _upper(products: Floats, columns: Ints, size: int) -> Floats:
    """Return products on and above the diagonal in other columns, (size, size); -1 is left out."""
    known = np.flatnonzero(columns[: len(products)] >= 0)
    symmetric = np.triu(products, 1) + np.triu(products).T
    moved = np.zeros((size, size))
    moved[np.ix_(columns[known], columns[known])] = symmetric[np.ix_(known, known)]
    return np.triu(moved)
