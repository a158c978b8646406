"""SOLAM: stochastic online AUC maximization as a saddle-point problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Gt, InfinityAllowed
from aucstream.kernels import l1ball
from aucstream.kernels.averages import SCALE_RESET, fold
from aucstream.kernels.calibration import calibrate
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.linear import axpy2, dot2, norm, sqnorm
from aucstream.kernels.row_scale import next_scale, store_scale
from aucstream.kernels.saddle import slopes
from aucstream.learners.base import Learner, learner
from aucstream.learners.state import Fixed, Offset, Program, Scratch, Unit, Vector

# layout of State.scalars; SCALE, NORM2, GCUM: l2 only
A, B, ALPHA, STEPS, POSITIVE, TOTAL, GSUM, SCALE, NORM2, GCUM = range(10)
RECOUNT = 65_536  # rows between two recounts of a tracked norm: rounding drift, not approximation
LARGEST = 1e290  # a change of a state entry beyond this is refused before it is written


@jit
def _advance(scalars, ledger, x, y, weight, s, zeta, cap, kappa):
    """Return all that a step needs and writes nothing.

    (finite, step on w along x, g, new a, b, alpha, kappa_t, its mean square and rows, length of x),
    from the score `s` of the last iterate; [YWL16] Alg. 1, steps 3-5.
    """
    length = norm(x)
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    positive = scalars[POSITIVE] + (weight if y > 0.0 else 0.0)
    p = positive / (scalars[TOTAL] + weight)
    gamma = weight * min(cap, zeta / math.sqrt(scalars[STEPS] + 1.0))
    a, b, alpha = scalars[A], scalars[B], scalars[ALPHA]
    c, da, db, dalpha = slopes(y, p, s * factor, a, b, alpha)
    a -= gamma * da
    b -= gamma * db
    alpha += gamma * dalpha
    step = 0.0
    if length > 0.0:
        step = -gamma * c * factor
        if kappa == 0.0:
            step /= scale * scale
    finite = math.isfinite(s) and math.isfinite(a) and math.isfinite(b) and math.isfinite(alpha)
    finite = finite and abs(step) * length < LARGEST and scalars[TOTAL] + weight < LARGEST
    return finite, step, gamma, a, b, alpha, scale, mean, rows, length


@jit
def _commit(scalars, ledger, y, weight, gamma, a, b, alpha, bound, mean, rows):
    """Write what `_advance` returned, a, b, alpha clipped to their boxes; writes scalars, ledger."""
    scalars[A] = max(-bound, min(bound, a))
    scalars[B] = max(-bound, min(bound, b))
    scalars[ALPHA] = max(-2.0 * bound, min(2.0 * bound, alpha))
    scalars[STEPS] += 1.0
    scalars[TOTAL] += weight
    scalars[GSUM] += gamma
    ledger[ROWS] += 1.0
    if y > 0.0:
        scalars[POSITIVE] += weight
        ledger[POSITIVES] += 1.0
    store_scale(ledger, mean, rows)


@jit
def step_l2(v, u, scalars, ledger, idx, x, y, weight, R, zeta, cap, kappa):
    """One update on the l2 ball, w = scale v, sum of gamma w = gcum v - u; writes v, u, scalars, ledger.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    s = scalars[SCALE] * vx
    score = 0.0
    if scalars[GSUM] > 0.0:
        score = (scalars[GCUM] * vx - ux) / scalars[GSUM]
    finite, step, gamma, a, b, alpha, scale, mean, rows, length = _advance(
        scalars, ledger, x, y, weight, s, zeta, cap, kappa
    )
    gcum = scalars[GCUM] + gamma * scalars[SCALE]
    step /= scalars[SCALE]
    if not (finite and math.isfinite(score) and abs(step) * length * max(1.0, gcum) < LARGEST):
        return math.nan
    calibrate(ledger, score, y, weight)
    scalars[GCUM] = gcum
    axpy2(idx, x, step, v, gcum * step, u)
    scalars[NORM2] = max(0.0, scalars[NORM2] + 2.0 * step * vx + (step * length) * (step * length))
    bound = R * kappa if kappa > 0.0 else R
    radius = R if kappa > 0.0 or scale == 0.0 else R / scale
    size = abs(scalars[SCALE]) * math.sqrt(scalars[NORM2])
    if size > radius:
        scalars[SCALE] *= radius / size
    _commit(scalars, ledger, y, weight, gamma, a, b, alpha, bound, mean, rows)
    if scalars[SCALE] < SCALE_RESET or scalars[STEPS] % RECOUNT == 0.0:
        settle_l2(v, u, scalars)
    return score


@jit
def learn_block_l2(v, u, scalars, ledger, indptr, idx, val, y, weights, out, R, zeta, cap, kappa):
    """One step a row; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step_l2(v, u, scalars, ledger, None, val[a:b], y[i], weights[i], R, zeta, cap, kappa)
        else:
            out[i] = step_l2(v, u, scalars, ledger, idx[a:b], val[a:b], y[i], weights[i], R, zeta, cap, kappa)


@jit
def score_l2(v, u, scalars, ledger, idx, x, R, zeta, cap, kappa):
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    return (scalars[GCUM] * vx - ux) / scalars[GSUM] if scalars[GSUM] > 0.0 else 0.0


@jit
def score_block_l2(v, u, scalars, ledger, indptr, idx, val, out, R, zeta, cap, kappa):
    """Write the score of each row to out (n,); changes nothing else."""
    for i in range(out.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = score_l2(v, u, scalars, ledger, None, val[a:b], R, zeta, cap, kappa)
        else:
            out[i] = score_l2(v, u, scalars, ledger, idx[a:b], val[a:b], R, zeta, cap, kappa)


@jit
def settle_l2(v, u, scalars):
    """Fold the scale: v = w, u = -(sum of gamma w), scale 1; recount the norm. O(d)."""
    fold(v, u, scalars[SCALE], scalars[GCUM])
    scalars[SCALE] = 1.0
    scalars[GCUM] = 0.0
    scalars[NORM2] = sqnorm(v)


class L2State(NamedTuple):
    """State on the l2 ball: 2 d + 10 floats."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT)]  # deferred average
    scalars: Annotated[Floats, Fixed(10)]


@jit
def step_l1(
    z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger, idx, x, y, weight, R, zeta, cap, kappa
):
    """One update on the l1 ball (see `kernels.l1ball`); writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    s, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    score = 0.0
    if scalars[GSUM] > 0.0:
        score = summed / scalars[GSUM]
    finite, step, gamma, a, b, alpha, scale, mean, rows, length = _advance(
        scalars, ledger, x, y, weight, s, zeta, cap, kappa
    )
    if not (finite and math.isfinite(score) and abs(step) * length * max(1.0, ball[l1ball.GAM]) < LARGEST):
        return math.nan
    calibrate(ledger, score, y, weight)
    ball[l1ball.GAM] += gamma
    ball[l1ball.PSI] += gamma * ball[l1ball.TH]
    l1ball.move(idx, x, step, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
    bound = R * kappa if kappa > 0.0 else R
    radius = R if kappa > 0.0 or scale == 0.0 else R / scale
    l1ball.project(radius, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
    _commit(scalars, ledger, y, weight, gamma, a, b, alpha, bound, mean, rows)
    if scalars[STEPS] % RECOUNT == 0.0:
        l1ball.settle(z, total, gam_at, psi_at, ball)
    return score


@jit
def learn_block_l1(
    z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger,
    indptr, idx, val, y, weights, out, R, zeta, cap, kappa,
):  # fmt: skip
    """One step a row; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step_l1(
                z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger,
                None, val[a:b], y[i], weights[i], R, zeta, cap, kappa,
            )  # fmt: skip
        else:
            out[i] = step_l1(
                z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger,
                idx[a:b], val[a:b], y[i], weights[i], R, zeta, cap, kappa,
            )  # fmt: skip


@jit
def score_l1(z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger, idx, x, R, zeta, cap, kappa):
    """Return the score of a row; changes nothing."""
    _, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return summed / scalars[GSUM] if scalars[GSUM] > 0.0 else 0.0


@jit
def score_block_l1(
    z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger, indptr, idx, val, out, R, zeta, cap, kappa
):
    """Write the score of each row to out (n,); changes nothing else."""
    for i in range(out.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = score_l1(
                z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger,
                None, val[a:b], R, zeta, cap, kappa,
            )  # fmt: skip
        else:
            out[i] = score_l1(
                z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger,
                idx[a:b], val[a:b], R, zeta, cap, kappa,
            )  # fmt: skip


@jit
def settle_l1(z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars):
    """Fold the threshold and all owed sums. O(d)."""
    l1ball.settle(z, total, gam_at, psi_at, ball)


class L1State(NamedTuple):
    """State on the l1 ball: 4 d + 17 floats, and 4 d of scratch."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]
    total: Annotated[Floats, Vector(Unit.WEIGHT)]
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(l1ball.SIZE)]
    scalars: Annotated[Floats, Fixed(10)]


_L2 = Program(
    L2State,
    step_l2,
    learn_block_l2,
    score_l2,
    score_block_l2,
    settle_l2,
    (Offset("scalars", A, "v"), Offset("scalars", B, "v")),
)
_L1 = Program(
    L1State,
    step_l1,
    learn_block_l1,
    score_l1,
    score_block_l1,
    settle_l1,
    (Offset("scalars", A, "z"), Offset("scalars", B, "z")),
)


@learner
class SOLAM(Learner):
    """Stochastic online AUC maximization: the squared AUC loss as a saddle-point problem.

    One pass, no buffer, nothing to know in advance. A safe first choice for shuffled streams; where
    covariates wander over thousands of rows a learner with a reservoir (`PSAM`) holds better.

    Parameters
    ----------
    norm : {"l2", "l1"}, default="l2"
        The ball that holds the weights; "l1" makes them sparse when it binds.
    R : float or None, default=None
        In (0, inf). Radius of the ball; None: 30 for l2, 100 for l1. [1]_ eq. (9).
    zeta : float, default=10.0
        In (0, inf). Step gamma_t = min(cap, zeta / sqrt(t)). [1]_ Algorithm 1.
    cap : float, default=0.25
        In (0, inf]. Upper bound of the step; `inf` restores the paper.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    With p the share of positives up to and including the row, s = w'x, and q = 1 - p::

        y=+1:  w -= gamma 2q (s - a - 1 - alpha) x,  a += gamma 2q (s - a),  alpha -= gamma 2q (s + p alpha)
        y=-1:  w -= gamma 2p (s - b + 1 + alpha) x,  b += gamma 2p (s - b),  alpha += gamma 2p (s - q alpha)

    then w on the ball, \\|a\\|, \\|b\\| <= R kappa, \\|alpha\\| <= 2 R kappa. The output averages the
    iterates before each update with weights gamma. Time O(nnz) a row (l2), O(nnz log d) amortised
    (l1, only while the ball binds). Memory 16 bytes a feature (l2), 64 (l1).

    Deviations: the step cap; the start at 0 (any start is allowed); `kappa=None`.

    References
    ----------
    .. [1] Ying, Wen, Lyu, "Stochastic Online AUC Maximization", NIPS 2016, Algorithm 1.
    .. [2] Liu et al., "Fast Stochastic AUC Maximization with O(1/n)-Convergence Rate", ICML 2018, sec. 5.

    Examples
    --------
    >>> from aucstream import SOLAM
    >>> model = SOLAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    norm: Literal["l2", "l1"] = "l2"
    R: Annotated[float | None, Gt(0)] = None
    zeta: Annotated[float, Gt(0)] = 10.0
    cap: Annotated[float, Gt(0), InfinityAllowed()] = 0.25
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"R", "zeta", "cap"})

    def _chosen_program(self) -> Program:
        return _L2 if self.norm == "l2" else _L1

    def _numbers(self) -> tuple[float, ...]:
        default = 30.0 if self.norm == "l2" else 100.0
        return (default if self.R is None else self.R, self.zeta, self.cap, self.kappa or 0.0)

    def _begin(self) -> None:
        if self.norm == "l2":
            self._field("scalars")[SCALE] = 1.0

    def _resumed(self) -> None:
        if self.norm == "l1":
            self._field("ball")[[l1ball.HEAP_ON, l1ball.HEAP_N]] = 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"norm": "l1", "R": 0.5}
