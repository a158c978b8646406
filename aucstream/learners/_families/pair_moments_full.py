"""MBA on full and on diagonal moments: see `kernels.moments.class_sums`."""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.ledger import FIRST_RULES, RULES
from aucstream.kernels.moments import class_sums
from aucstream.kernels.moments.quadratic import diagonal_net, elastic_net, ridge
from aucstream.kernels.rows.arrival import count_example
from aucstream.kernels.rows.linear import dot, norm
from aucstream.learners._base.state import Fixed, Program, Scratch, Table, Unit, Vector
from aucstream.learners._families.pair_moments import (
    CENTRED,
    SIZE,
    N,
    admitted,
    count_event,
    due,
    mark_used,
    penalty,
    put,
)


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
    mu, v, solution = np.empty(columns.size), np.empty(columns.size), w[columns]
    class_sums.difference(
        columns, square_neg, square_pos, total_neg, total_pos, ref_neg, ref_pos, n_neg, n_pos, mu, v
    )  # fmt: skip
    trace = 0.0
    for a in range(columns.size):
        trace += v[a] + mu[a] * mu[a]
    lam2 = penalty(scalars, trace, lam2, rho, clock)
    if cross is None:
        diagonal_net(mu, v, lam1, lam2, solution)
    else:
        A = np.empty((columns.size, columns.size))
        class_sums.second_moments(columns, cross, total_neg, total_pos, n_neg, n_pos, mu, v, A)
        if lam1 > 0.0:
            elastic_net(A, mu, lam1, lam2, solution)
        else:
            solution = ridge(A, mu, lam2)
    put(columns, solution, w, scalars)


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
    count_example(ledger, score, y, weight)
    count_event(scalars, c, gain, factor)
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
    if solving and due(scalars, cross is None and ledger[RULES] != FIRST_RULES):
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


def solve_diag(*arguments: Any) -> None:
    """`solve_full` with the diagonal."""
    solve_full(None, *arguments)


def settle_diag(*state: Any) -> None:
    """`settle_full` with the diagonal."""
    settle_full(None, *state)


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


FULL = Program(FullState, step_full, score_full, settle_full)
DIAGONAL = Program(DiagState, step_diag, score_diag, settle_diag)
