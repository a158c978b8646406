"""SOLAM: stochastic online AUC maximization as a saddle-point problem."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, InfinityAllowed
from aucstream.kernels.jit import jit
from aucstream.kernels.rows.arrival import LARGEST, RECOUNT, count_row
from aucstream.kernels.rows.linear import norm
from aucstream.kernels.weights import l1ball
from aucstream.kernels.weights.saddle import (
    FADING_SIZE,
    GROWTH,
    GSUM,
    POSITIVE,
    SCALE,
    SIZE,
    TOTAL,
    A,
    B,
    advance,
    commit,
    due,
    growth_of,
)
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Offset, Program, Scratch, Unit, Vector
from aucstream.learners._families.leaving import leave_ball
from aucstream.learners._families.saddle import FADING_L2_BALL, L2_BALL, forget_norm


@jit
def step_l1(
    z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger, idx, x, y, weight, R, zeta, cap, keep, kappa
):
    """One update on the l1 ball (see `kernels.weights.l1ball`); writes all state.

    Returns the score of the averaged weights before it; NaN where the row was skipped.
    """
    s, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    score = 0.0
    if scalars[GSUM] > 0.0:
        score = summed / scalars[GSUM]
    length = norm(x)
    finite, step, gamma, a, b, alpha, scale, mean, rows = advance(
        scalars, ledger, length, y, weight, s, zeta, cap, keep, kappa
    )
    if not (finite and math.isfinite(score) and abs(step) * length * max(1.0, ball[l1ball.GAM]) < LARGEST):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    counted = gamma * (growth_of(scalars) / keep)
    ball[l1ball.GAM] += counted
    ball[l1ball.PSI] += counted * ball[l1ball.TH]
    l1ball.move(idx, x, step, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
    bound = R * kappa if kappa > 0.0 else R
    radius = R if kappa > 0.0 or scale == 0.0 else R / scale
    l1ball.project(radius, x.size, z, total, gam_at, psi_at, heap_key, heap_idx, ball)
    commit(scalars, y, weight, gamma, a, b, alpha, keep, bound)
    if due(scalars, keep, RECOUNT):
        settle_l1(z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars)
    return score


@jit
def score_l1(z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars, ledger, idx, x, R, zeta, cap, keep, kappa):
    """Return the score of a row; changes nothing."""
    _, summed = l1ball.scores(idx, x, z, total, gam_at, psi_at, ball)
    return summed / scalars[GSUM] if scalars[GSUM] > 0.0 else 0.0


@jit
def settle_l1(z, total, gam_at, psi_at, heap_key, heap_idx, ball, scalars):
    """Fold the threshold and all owed sums. O(d)."""
    l1ball.settle(z, total, gam_at, psi_at, ball)
    growth = growth_of(scalars)
    if growth != 1.0:
        for j in range(z.size):  # nothing is owed: sums begin anew
            total[j] /= growth
            gam_at[j] = 0.0
            psi_at[j] = 0.0
        ball[l1ball.GAM] = 0.0
        ball[l1ball.PSI] = 0.0
        scalars[GSUM] /= growth
        scalars[GROWTH] = 1.0


class L1State(NamedTuple):
    """State on the l1 ball: 4 d + 17 floats, and 4 d of scratch."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]
    total: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", GSUM))]
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(l1ball.SIZE)]
    scalars: Annotated[Floats, Fixed(SIZE)]


class FadingL1State(NamedTuple):
    """That with a half-life: a float more."""

    z: Annotated[Floats, Vector(Unit.WEIGHT)]
    total: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", GSUM))]
    gam_at: Annotated[Floats, Vector()]
    psi_at: Annotated[Floats, Vector()]
    heap_key: Annotated[Floats, Scratch(np.float64, 2, 64)]
    heap_idx: Annotated[Ints, Scratch(np.int64, 2, 64)]
    ball: Annotated[Floats, Fixed(l1ball.SIZE)]
    scalars: Annotated[Floats, Fixed(FADING_SIZE)]


_L1, _FADING_L1 = (
    Program(state, step_l1, score_l1, settle_l1, (Offset("scalars", A, "z"), Offset("scalars", B, "z")))
    for state in (L1State, FadingL1State)
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
    cap : float, default=0.1
        In (0, inf]. Upper bound of the step; `inf` restores the paper.
    half_life : float or None, default=None
        In [1, inf). Rows after which steps, iterates and the share of positives count half; None: all count the same.
        For streams that change: with 1,000 to 10,000 it follows.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.

    Notes
    -----
    With p the share of positives up to and including the row, s = w'x, and q = 1 - p::

        y=+1:  w -= gamma 2q (s - a - 1 - alpha) x,  a += gamma 2q (s - a),  alpha -= gamma 2q (s + p alpha)
        y=-1:  w -= gamma 2p (s - b + 1 + alpha) x,  b += gamma 2p (s - b),  alpha += gamma 2p (s - q alpha)

    then w on the ball, \\|a\\|, \\|b\\| <= R kappa, \\|alpha\\| <= 2 R kappa. The output averages the
    iterates before each update with weights gamma. With a `half_life` h every row first multiplies t, the counts behind p
    and the weights of earlier iterates by 2^(-1/h). Time O(nnz) a row (l2), O(nnz log d) amortised
    (l1, only while the ball binds). Memory 16 bytes a feature (l2), 64 (l1).

    Deviations: the step cap; the start at 0 (any start is allowed); an example's weight counts in p and
    multiplies gamma: a positive's step turns (x, -1), of length sqrt(2) in units of kappa, by 1 - 4 q gamma, so
    weights above 2 are divided by what the mean of q gamma (p gamma of negatives) exceeds cap by where that is
    more than twice, in both classes alike, and no row counts more than twice the mean of its class, unless `cap` is inf; `kappa=None`.

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
    cap: Annotated[float, Gt(0), InfinityAllowed()] = 0.1
    half_life: Annotated[float | None, Ge(1)] = None
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"R", "zeta", "cap"})

    def _chosen_program(self) -> Program:
        if self.norm == "l2":
            return L2_BALL if self.half_life is None else FADING_L2_BALL
        return _L1 if self.half_life is None else _FADING_L1

    def _kernel_args(self) -> tuple[float, ...]:
        default = 30.0 if self.norm == "l2" else 100.0
        keep = 1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life)
        shared = (default if self.R is None else self.R, self.zeta, self.cap, keep, self.kappa or 0.0)
        return (*shared, 0.0) if self.norm == "l2" else shared  # no penalty

    def _init_state(self) -> None:
        if self.norm == "l2":
            self._field("scalars")[SCALE] = 1.0
        if self.half_life is not None:
            self._field("scalars")[GROWTH] = 1.0

    def _resumed(self) -> None:
        if self.norm == "l1":
            self._field("ball")[[l1ball.HEAP_BOUND, l1ball.HEAP_N]] = 0.0

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        if self.norm == "l1":
            leave_ball(columns, fields["z"], fields["ball"])
        else:
            forget_norm(fields, columns)

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        if self.norm == "l1":
            fields["gam_at"][:] = fields["ball"][l1ball.GAM]

    def _added(self) -> list[tuple[str, int]]:
        return [*super()._added(), ("scalars", POSITIVE), ("scalars", TOTAL)]

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"norm": "l1", "R": 0.5}
        yield {"half_life": 50.0}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"zeta": 1e6, "cap": 1e6}
        yield {"zeta": 1e6, "cap": math.inf, "norm": "l1"}
