"""Steps on sampled pairs: an arrival with buffered rows of the other class, or two buffered rows.

Weights, average and schedules are those of Algorithm 1 of [PSAM] (Khalid, Ray, Chitsaz, Proximal Stochastic
AUC Maximization); a code says what one step on a pair is, so that all losses share one compiled program.
"""

from __future__ import annotations

import math

import numpy as np

from aucstream.kernels.jit import jit
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.pairs.pairs import CANCELLED, move_along, products, square_gap
from aucstream.kernels.random import below
from aucstream.kernels.rows.arrival import LARGEST, LONGEST_ROW, admit_row, count_row
from aucstream.kernels.rows.linear import dot, dot2, norm, spread, wipe
from aucstream.kernels.weights.averages import SCALE_RESET, fold

# layout of State.scalars: q, r-count, a-count of Algorithm 1; rows offered to each buffer; upper
# bounds of |w| and of a buffered row's norm, which show beforehand that a step stays finite
SCALE, CUM, STEPS, AVERAGED, RCOUNT, ACOUNT, SEEN_POS, SEEN_NEG, REACH, LONGEST = range(10)
# of a learner that fades: what the newest iterate counts for in CUM, u and AVERAGED, where the first counted for 1;
# rows offered to each buffer, faded
GROWTH, FADED_POS, FADED_NEG = range(10, 13)
FADING_SIZE = 13
GROWTH_RESET = 1e30  # fold beyond this: keeps all in range
PROX, HINGE, SQUARED = 0, 1, 2  # proximal step of the hinge; gradient steps of the hinge, of its square


@jit
def growth_of(scalars):
    """Return what the newest iterate counts for; 1 where nothing fades."""
    return scalars[GROWTH] if scalars.size == FADING_SIZE else 1.0


@jit
def fade(v, u, scalars, keep):
    """Let steps, average and offers count for `keep` times what they did; writes v, u, scalars.

    Returns what v was multiplied by.
    """
    scalars[STEPS] *= keep
    scalars[FADED_POS] *= keep
    scalars[FADED_NEG] *= keep
    scalars[GROWTH] /= keep
    if scalars[GROWTH] <= GROWTH_RESET:
        return 1.0
    scale = scalars[SCALE]
    _fold(v, u, scalars)
    return scale


@jit
def step_pair(
    v, u, scalars, dense, pool_idx, pool_val,
    idx, x, factor, xx, vx, sign, start, stop, weight, lam, t0, rskip, askip, loss, unit,
):  # fmt: skip
    """One step on z = sign (x - b), b at start..stop of the pool; `dense` holds x; [PSAM] Alg. 1.

    `loss` is PROX, HINGE or SQUARED.

    Writes v, u, scalars; returns v'x after it. `vx` = v'x before it, `xx` = |x|^2, both with `factor`.
    """
    xb, vb, bb = products(start, stop, pool_idx, pool_val, dense, v)
    zz = square_gap(idx, x, factor, xx, xb, bb, start, stop, pool_idx, pool_val, dense)
    t = scalars[STEPS] + 1.0
    eta = weight / (lam * (t + t0)) / unit / unit
    short = 1.0 - scalars[SCALE] * sign * (vx - vb)
    if short > 0.0 and zz > 0.0:
        if loss == SQUARED:
            a = eta * short if eta * zz < 1.0 else short / zz
        elif loss == HINGE or short >= eta * zz:
            a = eta
        else:
            a = short / zz  # lands on margin 1: where the prox of eta (1 - w'z)_+ stops
        h = sign * a / scalars[SCALE]
        move_along(idx, x, factor, h, scalars[CUM] * h, start, stop, pool_idx, pool_val, dense, v, u)
        if zz > CANCELLED * (xx + bb):
            vx += h * (xx - xb)
        else:
            vx = factor * dot(idx, x, v)
        scalars[REACH] += a * math.sqrt(zz)
    scalars[STEPS] = t
    scalars[RCOUNT] -= 1.0
    if scalars[RCOUNT] <= 0.0:
        scalars[SCALE] *= max(0.0, 1.0 - rskip / (t + t0))  # t may be less than rskip where it fades
        scalars[RCOUNT] = rskip
    scalars[ACOUNT] -= 1.0
    if scalars[ACOUNT] <= 0.0:
        counts = growth_of(scalars)
        scalars[CUM] += scalars[SCALE] * counts
        scalars[AVERAGED] += counts
        scalars[ACOUNT] = askip
    if scalars[SCALE] < SCALE_RESET:
        vx *= scalars[SCALE]
        _fold(v, u, scalars)
    return vx


@jit
def replay_pairs(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, count, lam, t0, rskip, askip, capacity, loss, unit
):
    """`count` steps on pairs of buffered rows, i (positive) drawn before j (negative); writes all state."""
    positives = min(np.int64(scalars[SEEN_POS]), capacity)
    negatives = min(np.int64(scalars[SEEN_NEG]), capacity)
    if positives == 0 or negatives == 0:
        return
    for _ in range(count):
        i = below(generator, positives)
        j = capacity + below(generator, negatives)
        a, b = extent(slots, i)
        idx, x = pool_idx[a:b], pool_val[a:b]
        length = norm(x)
        spread(idx, x, 1.0, dense)
        start = slots[j, buffers.START]
        step_pair(
            v, u, scalars, dense, pool_idx, pool_val,
            idx, x, 1.0, length * length, dot(idx, x, v), 1.0, start, start + slots[j, buffers.LENGTH],
            1.0, lam, t0, rskip, askip, loss, unit,
        )  # fmt: skip
        wipe(idx, x, dense)


@jit
def output(vx, ux, scalars):
    """Return the score from x'v and x'u."""
    if scalars[AVERAGED] > 0.0:
        return (scalars[CUM] * vx - ux) / scalars[AVERAGED]
    return scalars[SCALE] * vx


@jit
def step(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, lam, t0, rskip, askip, fresh, replay, capacity, policy, keep, loss, kappa,
):  # fmt: skip
    """All steps of one arrival; writes all state.

    Returns the score of the output weights before them; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    score = output(vx, ux, scalars)
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    top = max(scalars[LONGEST] * ratio, factor * length)
    # no step lengthens w by more than eta |z|: that of the squared hinge ends between w and margin 1
    farthest = (fresh * weight + replay) / (lam * (keep * scalars[STEPS] + 1.0 + t0)) / unit / unit * 2.0 * top
    farthest += scalars[REACH]
    sums = scalars[CUM] + (fresh + replay) * growth_of(scalars) / keep
    if not (
        math.isfinite(vx)
        and math.isfinite(score)
        and top < LONGEST_ROW
        and farthest / SCALE_RESET * max(1.0, sums) * max(1.0, top) < LARGEST
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    scalars[LONGEST] = top
    if keep < 1.0:
        vx *= fade(v, u, scalars, keep)
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    if y > 0.0:
        own, seen, first, sign = SEEN_POS, SEEN_NEG, capacity, 1.0
    else:
        own, seen, first, sign = SEEN_NEG, SEEN_POS, 0, -1.0
    others = min(np.int64(scalars[seen]), capacity)
    if others > 0 and fresh > 0:
        spread(idx, x, factor, dense)
        xx = (factor * length) * (factor * length)
        vx *= factor
        for _ in range(fresh):
            j = first + below(generator, others)
            start = slots[j, buffers.START]
            vx = step_pair(
                v, u, scalars, dense, pool_idx, pool_val,
                idx, x, factor, xx, vx, sign, start, start + slots[j, buffers.LENGTH],
                weight, lam, t0, rskip, askip, loss, unit,
            )  # fmt: skip
        wipe(idx, x, dense)
    scalars[own] += 1.0
    offered = np.int64(scalars[own])
    if keep < 1.0:
        faded = FADED_POS if y > 0.0 else FADED_NEG
        scalars[faded] += 1.0
        if policy == buffers.RESERVOIR and offered > capacity:
            offered = max(capacity + 1, np.int64(math.ceil(scalars[faded])))
    buffers.offer(
        generator, idx, x, factor, capacity - first, offered, capacity, policy, slots, pool_idx, pool_val
    )  # fmt: skip
    replay_pairs(
        v, u, scalars, dense, slots, pool_idx, pool_val, generator, replay, lam, t0, rskip, askip, capacity, loss, unit
    )  # fmt: skip
    return score


@jit
def score_row(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, idx, x,
    lam, t0, rskip, askip, fresh, replay, capacity, policy, keep, loss, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    return output(vx, ux, scalars)


@jit
def _fold(v, u, scalars):
    fold(v, u, scalars[SCALE], scalars[CUM])
    growth = growth_of(scalars)
    if growth != 1.0:
        for j in range(u.size):
            u[j] /= growth
        scalars[AVERAGED] /= growth
        scalars[GROWTH] = 1.0
    scalars[SCALE] = 1.0
    scalars[CUM] = 0.0


@jit
def settle(v, u, scalars, dense, slots, pool_idx, pool_val, generator):
    """Fold the scale: v = w, u = -(sum of iterates), scale 1; recount both bounds. O(d + buffers)."""
    _fold(v, u, scalars)
    scalars[REACH] = norm(v)
    scalars[LONGEST] = buffers.longest(slots, pool_val)


@jit
def fill_buffers(scalars, slots, pool_idx, pool_val, generator, indptr, idx, scaled, y, factors, capacity, policy):
    """Offer all rows to the buffers in order; writes scalars, slots, pool_idx, pool_val, generator."""
    for i in range(y.size):
        if factors[i] < 0.0:
            continue
        own, first = (SEEN_POS, 0) if y[i] > 0.0 else (SEEN_NEG, capacity)
        a, b = indptr[i], indptr[i + 1]
        scalars[own] += 1.0
        buffers.offer(
            generator, idx[a:b], scaled[a:b], 1.0, first, np.int64(scalars[own]), capacity, policy,
            slots, pool_idx, pool_val,
        )  # fmt: skip
