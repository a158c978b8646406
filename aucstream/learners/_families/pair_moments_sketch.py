"""MBA on sketched moments: see `kernels.moments.sketch`.

Of each class: its weight, mean, the diagonal of the scatter matrix, and its sketch; that of negatives comes first.
"""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from aucstream.block import Floats
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.moments import sketch
from aucstream.kernels.moments.moments import add_mean, deviation
from aucstream.kernels.moments.quadratic import elastic_net_of_product, ridge
from aucstream.kernels.rows.arrival import count_example
from aucstream.kernels.rows.linear import dot, norm
from aucstream.learners._base.state import Fixed, Program, Scratch, Table, Unit, Vector
from aucstream.learners._families.pair_moments import (
    SIZE,
    SKETCHED,
    N,
    admitted,
    count_event,
    due,
    mark_used,
    penalty,
    put,
)


@jit_allocating
def solve(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, lam1, lam2, rho, clock, solving
):
    """Solve for w over the columns in use; writes w, scalars.

    With F = (the sketches' rows / sqrt(n), mu) as columns, Sigma = FF' and mu = F e, hence
    w = F (F'F + lam2 I)^-1 e: a system of the sketches' size (Woodbury).
    """
    room = table.shape[1] // 2
    kept_neg, kept_pos = np.int64(scalars[SKETCHED]), np.int64(scalars[SKETCHED + 1])
    size = kept_neg + kept_pos + 1
    root_neg, root_pos = math.sqrt(scalars[N]), math.sqrt(scalars[N + 1])
    columns = np.flatnonzero(used)
    F = np.empty((columns.size, size))
    mu, solution = np.empty(columns.size), w[columns]
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
        elastic_net_of_product(F, mu, lam1, lam2, solution)
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
            solution[a] = 0.0
            for k in range(size):
                solution[a] += F[a, k] * e[k]
    put(columns, solution, w, scalars)


@jit
def step(
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
    count_example(ledger, score, y, weight)
    count_event(scalars, c, gain, factor)
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
        size = np.int64(scalars[SKETCHED + c])
        scalars[SKETCHED + c] = sketch.feed(table, c * room, room, size, gap, math.sqrt(rest))
    if solving and due(scalars, False):
        solve(
            table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator,
            lam1, lam2, rho, clock, solving,
        )  # fmt: skip
    return score


@jit
def score(
    table, square_neg, square_pos, mean_neg, mean_pos, used, w, gap, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


class State(NamedTuple):
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


SKETCH = Program(State, step, score)
