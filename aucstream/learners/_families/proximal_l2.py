"""SPAM with the l2 penalty: weights v times a scale, so that shrinking costs O(1)."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

from aucstream.block import Floats
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, RECOUNT, admit_row, count_row
from aucstream.kernels.rows.linear import axpy, axpy2, dot, dot2, norm
from aucstream.kernels.weights.averages import SCALE_RESET, fold
from aucstream.learners._base.state import Fixed, Program, Unit, Vector
from aucstream.learners._families.proximal import (
    AVERAGED,
    CUM,
    DOT_NEG,
    DOT_POS,
    FADING_SIZE,
    GROWTH,
    GROWTH_RESET,
    N_NEG,
    N_POS,
    SCALE,
    STEPS,
    averaged,
    growth_of,
    rate,
    row_weight,
    slope,
    stretch,
    visit_loop,
)


@jit
def descend(
    v, u, sums_pos, sums_neg, scalars, idx, x, y, vx, length, weight, entering, factor, unit, ratio,
    C, cap, beta, schedule, keep,
):  # fmt: skip
    """Take factor x into its class sum with weight `entering`, then one step; w = scale v, sum of w = cum v - u.

    Returns whether all stays finite; writes v, u, sums_pos, sums_neg, scalars, and only then.
    """
    positive, negative = scalars[N_POS], scalars[N_NEG]
    dot_pos, dot_neg = ratio * scalars[DOT_POS], ratio * scalars[DOT_NEG]
    counts = growth_of(scalars) / keep
    entering *= counts
    share = entering * factor
    if y > 0.0:
        positive += entering
        dot_pos += share * vx
    else:
        negative += entering
        dot_neg += share * vx
    h = 0.0
    eta = 0.0
    t = keep * scalars[STEPS]
    stepping = positive > 0.0 and negative > 0.0
    if stepping:
        t += 1.0
        eta = weight * rate(t, C, cap, beta, schedule)
        scale = scalars[SCALE]
        c = slope(y, positive / (positive + negative), scale * vx * factor, scale * dot_pos / positive,
                  scale * dot_neg / negative)  # fmt: skip
        if length > 0.0:
            h = -eta * c * factor / unit / unit / scale
        along_pos, along_neg = dot2(idx, x, sums_pos, sums_neg)
        along_pos *= ratio
        along_neg *= ratio
        if y > 0.0:
            along_pos += share * length * length
        else:
            along_neg += share * length * length
        dot_pos += h * along_pos
        dot_neg += h * along_neg
    finite = positive < LARGEST and negative < LARGEST and share * length < LARGEST and eta * (1.0 + beta) < LARGEST
    finite = finite and abs(dot_pos) < LARGEST and abs(dot_neg) < LARGEST
    if not (finite and abs(h) * length * max(1.0, scalars[CUM]) < LARGEST):
        return False
    stretch(ratio, sums_pos, sums_neg)
    if entering > 0.0:
        axpy(idx, x, share, sums_pos if y > 0.0 else sums_neg)
    scalars[N_POS], scalars[N_NEG] = positive, negative
    scalars[DOT_POS], scalars[DOT_NEG] = dot_pos, dot_neg
    if scalars.size == FADING_SIZE:
        scalars[GROWTH] = counts
    if stepping:
        axpy2(idx, x, h, v, scalars[CUM] * h, u)
        scalars[SCALE] /= 1.0 + eta * beta
        scalars[CUM] += scalars[SCALE] * counts
        scalars[STEPS] = t
        if scalars.size == FADING_SIZE:
            scalars[AVERAGED] += counts
        if scalars[SCALE] < SCALE_RESET or (keep == 1.0 and t % RECOUNT == 0.0):
            settle(v, u, sums_pos, sums_neg, scalars)
    if counts > GROWTH_RESET:
        settle(v, u, sums_pos, sums_neg, scalars)
    return True


@jit
def step(
    v, u, sums_pos, sums_neg, scalars, ledger, idx, x, y, weight, C, cap, beta, beta1, schedule, keep, kappa
):  # fmt: skip
    """One update with the l2 penalty; writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    number = averaged(scalars)
    score = (scalars[CUM] * vx - ux) / number if number > 0.0 else 0.0
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if not math.isfinite(score) or not descend(
        v, u, sums_pos, sums_neg, scalars, idx, x, y, vx, length, row_weight(ledger, y, weight, scalars, cap), weight, factor, unit, ratio,
        C, cap, beta, schedule, keep,
    ):  # fmt: skip
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    return score


@jit
def score(v, u, sums_pos, sums_neg, scalars, ledger, idx, x, C, cap, beta, beta1, schedule, keep, kappa):
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    number = averaged(scalars)
    return (scalars[CUM] * vx - ux) / number if number > 0.0 else 0.0


@jit
def settle(v, u, sums_pos, sums_neg, scalars):
    """Fold the scale: v = w, u = -(sum of iterates), scale 1; recount the dots. O(d)."""
    fold(v, u, scalars[SCALE], scalars[CUM])
    scalars[SCALE] = 1.0
    scalars[CUM] = 0.0
    growth = growth_of(scalars)
    if growth != 1.0:
        for j in range(v.size):
            u[j] /= growth
            sums_pos[j] /= growth
            sums_neg[j] /= growth
        scalars[AVERAGED] /= growth
        scalars[N_POS] /= growth
        scalars[N_NEG] /= growth
        scalars[GROWTH] = 1.0
    dot_pos = 0.0
    dot_neg = 0.0
    for j in range(v.size):  # strictly in order: the spare room of a growing vector changes no bit
        dot_pos += sums_pos[j] * v[j]
        dot_neg += sums_neg[j] * v[j]
    scalars[DOT_POS] = dot_pos
    scalars[DOT_NEG] = dot_neg


@jit
def revisit(v, u, sums_pos, sums_neg, scalars, idx, x, y, factor, unit, C, cap, beta, beta1, schedule, keep):
    """One step on a row of a fixed set, whose class sums have it already; returns whether all stays finite."""
    return descend(
        v, u, sums_pos, sums_neg, scalars, idx, x, y, dot(idx, x, v), norm(x), 1.0, 0.0, factor, unit, 1.0,
        C, cap, beta, schedule, keep,
    )  # fmt: skip


class State(NamedTuple):
    """State with the l2 penalty: 4 d + 7 floats."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS), -1.0)]  # deferred average
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]
    scalars: Annotated[Floats, Fixed(7)]


class FadingState(NamedTuple):
    """That with a half-life: 2 floats more."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", AVERAGED), -1.0)]
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]
    scalars: Annotated[Floats, Fixed(FADING_SIZE)]


L2, FADING_L2 = (Program(state, step, score, settle) for state in (State, FadingState))
visit = visit_loop(revisit, len(L2.parts))
