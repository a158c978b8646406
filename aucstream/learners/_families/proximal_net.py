"""SPAM with the elastic net: weights as `kernels.weights.elasticnet` keeps them."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, RECOUNT, admit_row, count_row
from aucstream.kernels.rows.linear import axpy, norm
from aucstream.kernels.weights import elasticnet, l1ball
from aucstream.kernels.weights.averages import SCALE_RESET
from aucstream.kernels.weights.elasticnet import PI, SIGN_NEG, SIGN_POS, ZSUM_NEG, ZSUM_POS
from aucstream.learners._base.state import Fixed, Program, Scratch, Unit, Vector
from aucstream.learners._families.proximal import (
    N_NEG,
    N_POS,
    STEPS,
    rate,
    row_weight,
    slope,
    stretch,
    visit_loop,
)


@jit
def descend(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
    idx, x, y, vx, length, weight, entering, factor, unit, ratio, C, cap, beta, beta1, schedule,
):  # fmt: skip
    """Take factor x into its class sum with weight `entering`, then one step; see `kernels.weights.elasticnet`.

    Returns whether all stays finite; writes all state, and only then.
    """
    positive, negative = scalars[N_POS], scalars[N_NEG]
    zsum_pos, zsum_neg = ratio * ball[ZSUM_POS], ratio * ball[ZSUM_NEG]
    sign_pos, sign_neg = ratio * ball[SIGN_POS], ratio * ball[SIGN_NEG]
    share = entering * factor
    zx, gx = elasticnet.signed_sums(idx, x, z)
    if y > 0.0:
        positive += entering
        zsum_pos += share * zx
        sign_pos += share * gx
    else:
        negative += entering
        zsum_neg += share * zx
        sign_neg += share * gx
    h = 0.0
    eta = 0.0
    pi, th = ball[PI], ball[l1ball.TH]
    t = scalars[STEPS]
    if positive > 0.0 and negative > 0.0:
        t += 1.0
        eta = weight * rate(t, C, cap, beta, schedule)
        c = slope(y, positive / (positive + negative), pi * vx * factor, pi * (zsum_pos - th * sign_pos) / positive,
                  pi * (zsum_neg - th * sign_neg) / negative)  # fmt: skip
        if length > 0.0:
            h = -eta * c * factor / unit / unit / pi
    rise = eta * beta1 / unit / pi
    finite = positive < LARGEST and negative < LARGEST and share * length < LARGEST and eta * (1.0 + beta) < LARGEST
    largest = elasticnet.largest(idx, x, ratio, sums_pos, sums_neg) + share * length
    farthest = abs(h) * length + th + rise
    if not (finite and farthest * max(1.0, ball[l1ball.GAM] + pi, largest) < LARGEST):
        return False
    stretch(ratio, sums_pos, sums_neg)
    if entering > 0.0:
        axpy(idx, x, share, sums_pos if y > 0.0 else sums_neg)
    scalars[N_POS], scalars[N_NEG] = positive, negative
    ball[ZSUM_POS], ball[ZSUM_NEG] = zsum_pos, zsum_neg
    ball[SIGN_POS], ball[SIGN_NEG] = sign_pos, sign_neg
    if t > scalars[STEPS]:
        elasticnet.move(idx, x, h, z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball)
        elasticnet.shrink(
            rise, pi / (1.0 + eta * beta), x.size, z, total, gam_at, psi_at, sums_pos, sums_neg,
            heap_key, heap_idx, ball,
        )  # fmt: skip
        scalars[STEPS] = t
        if elasticnet.worn(ball) or ball[PI] < SCALE_RESET or t % RECOUNT == 0.0:
            elasticnet.settle(z, total, gam_at, psi_at, sums_pos, sums_neg, ball)
    return True


@jit
def step(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, y, weight, C, cap, beta, beta1, schedule, keep, kappa,
):  # fmt: skip
    """One update with the elastic net, which never fades (`keep` is 1); writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    score = summed / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if not math.isfinite(score) or not descend(
        z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
        idx, x, y, vx, length, row_weight(ledger, y, weight, scalars, cap), weight, factor, unit, ratio, C, cap, beta, beta1, schedule,
    ):  # fmt: skip
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    return score


@jit
def score(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars, ledger,
    idx, x, C, cap, beta, beta1, schedule, keep, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    _, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return summed / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0


@jit
def settle(z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars):
    """Fold scale, threshold and all owed sums; recount the tracked ones. O(d)."""
    elasticnet.settle(z, total, gam_at, psi_at, sums_pos, sums_neg, ball)


@jit
def revisit(
    z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
    idx, x, y, factor, unit, C, cap, beta, beta1, schedule, keep,
):  # fmt: skip
    """One step on a row of a fixed set, whose class sums have it already; returns whether all stays finite."""
    vx, _ = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return descend(
        z, total, gam_at, psi_at, sums_pos, sums_neg, heap_key, heap_idx, ball, scalars,
        idx, x, y, vx, norm(x), 1.0, 0.0, factor, unit, 1.0, C, cap, beta, beta1, schedule,
    )  # fmt: skip


class State(NamedTuple):
    """State with the elastic net: 6 d + 15 floats, and 4 d of scratch."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]  # the iterate; see `kernels.weights.elasticnet`
    total: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS))]  # sum of iterates
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(elasticnet.SIZE)]
    scalars: Annotated[Floats, Fixed(7)]


NET = Program(State, step, score, settle)
visit = visit_loop(revisit, len(NET.parts))
