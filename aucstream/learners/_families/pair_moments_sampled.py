"""MBA on the moments of sampled pairs z = x+ - x-: total = sum c z, and cross = sum c zz' on and above the diagonal."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.moments.quadratic import elastic_net, ridge
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.random import below
from aucstream.kernels.rows.arrival import count_example
from aucstream.kernels.rows.linear import dot, norm, spread, wipe
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Table, Unit, Vector
from aucstream.learners._families.pair_moments import (
    CAPACITY,
    PAIRS,
    SEEN,
    SIZE,
    N,
    admitted,
    count_event,
    due,
    mark_used,
    penalty,
    put,
)


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
def solve(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator,
    lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Solve for w over the columns in use; writes w, scalars."""
    columns = np.flatnonzero(used)
    size = columns.size
    A = np.empty((size, size))
    mu, solution = np.empty(size), w[columns]
    trace = 0.0
    for a in range(size):
        i = columns[a]
        mu[a] = total[i] / scalars[PAIRS]
        for b in range(a, size):
            A[a, b] = A[b, a] = cross[i, columns[b]] / scalars[PAIRS]
        trace += A[a, a]
    lam2 = penalty(scalars, trace, lam2, rho, clock)
    if lam1 > 0.0:
        elastic_net(A, mu, lam1, lam2, solution)
    else:
        solution = ridge(A, mu, lam2)
    put(columns, solution, w, scalars)


@jit
def step(
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
    count_example(ledger, score, y, weight)
    count_event(scalars, c, gain, factor)
    mark_used(idx, x, used, scalars)
    first, other, sign = (CAPACITY, SEEN, 1.0) if c == 1 else (0, SEEN + 1, -1.0)
    others = min(np.int64(scalars[other]), CAPACITY)
    if others > 0:
        spread(idx, x, 1.0, dense)
        for _ in range(count):
            slot = first + below(generator, others)
            start, stop = extent(slots, slot)
            take_pair(cross, total, zi, zv, dense, idx, x, sign, start, stop, pool_idx, pool_val, weight)
            scalars[PAIRS] += weight
        wipe(idx, x, dense)
    scalars[N + c] += weight
    scalars[SEEN + c] += 1.0
    buffers.offer(
        generator, idx, x, 1.0, CAPACITY - first, np.int64(scalars[SEEN + c]), CAPACITY, buffers.RESERVOIR,
        slots, pool_idx, pool_val,
    )  # fmt: skip
    if solving and due(scalars, False):
        solve(
            cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator,
            lam1, lam2, rho, clock, solving, count,
        )  # fmt: skip
    return score


@jit
def score(
    cross, total, used, w, dense, zi, zv, slots, pool_idx, pool_val, scalars, generator, ledger,
    idx, x, lam1, lam2, rho, clock, solving, count,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit_allocating
def draw(cross, total, dense, zi, zv, scalars, generator, indptr, idx, val, positives, negatives, count):
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


class State(NamedTuple):
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


SAMPLED = Program(State, step, score)
