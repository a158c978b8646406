"""AdaOAM: the gradient of OPAUC with a step of its own for every coordinate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats
from aucstream.constraints import Gt
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.moments.moments import add_full, columns_in_use, deviation, last_in_use, rescale_full, slope_full
from aucstream.kernels.rows.arrival import LARGEST, admit_row, count_row
from aucstream.kernels.rows.linear import dot, inner, norm
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Program, Scratch, Table, Unit, Vector

# layout of State.scalars; weights of the classes, updates, columns that rows have had
N_POS, N_NEG, STEPS, WIDTH = range(4)
CLOSE = 1e-14  # relative width at which bisection stops


@jit_allocating
def project(u, h, radius, v):
    """Replace u (d,) by argmin_{|v| <= radius} (v - u)'diag(h)(v - u), h > 0; writes u, v (d,).

    v_j = h_j u_j / (h_j + nu), |v| falls in nu: bisection for |v| = radius, from the side within.
    """
    d = u.size
    length = norm(u)
    if length <= radius:
        return
    low, high = 0.0, np.max(h) * (length / radius)
    while high - low > CLOSE * high:
        nu = 0.5 * (low + high)
        if nu == low or nu == high:
            break
        for j in range(d):
            v[j] = h[j] / (h[j] + nu) * u[j]
        if norm(v) > radius:
            low = nu
        else:
            high = nu
    for j in range(d):
        u[j] *= h[j] / (h[j] + high)


@jit
def step(
    w, mean_pos, mean_neg, M_pos, M_neg, G2, work, scalars, ledger, idx, x, y, weight, eta, lam, delta, kappa
):  # fmt: skip
    """One update; writes all state.

    Returns the score of the weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, w)
    _, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if y > 0.0:
        own, other, sign = N_POS, N_NEG, 1.0
        own_mean, own_M, other_mean, other_M = mean_pos, M_pos, mean_neg, M_neg
    else:
        own, other, sign = N_NEG, N_POS, -1.0
        own_mean, own_M, other_mean, other_M = mean_neg, M_neg, mean_pos, M_pos
    d = columns_in_use(idx, x, np.int64(scalars[WIDTH]))
    room = w.size
    e, g, h, u = work[:d], work[room : room + d], work[2 * room : 2 * room + d], work[3 * room : 3 * room + d]
    ranks = scalars[other] > 0.0
    reach = square = 0.0
    if ranks:
        slope_full(idx, x, factor, ratio, sign, scalars[other], other_mean, other_M, w, e, g)
        size = by_mean(ledger, y, weight) * eta
        for j in range(d):
            g[j] = (lam * w[j] + g[j] / unit / unit) * unit
            h[j] = delta + math.sqrt(G2[j] + g[j] * g[j])
            u[j] = w[j] - size * g[j] / h[j] / unit
            reach += abs(u[j])
        square = inner(g, g)
        if reach < LARGEST:
            project(u, h, 1.0 / math.sqrt(lam) / unit, e)
    deviation(idx, x, factor, ratio, own_mean, e)
    if not (
        math.isfinite(score)
        and reach < LARGEST
        and square < LARGEST
        and weight * inner(e, e) < LARGEST
        and scalars[own] + weight < LARGEST
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    if ratio != 1.0:
        rescale_full(ratio, mean_pos[:d], M_pos)
        rescale_full(ratio, mean_neg[:d], M_neg)
    add_full(e, weight, scalars[own], own_mean, own_M)
    scalars[own] += weight
    scalars[WIDTH] = d
    if ranks:
        scalars[STEPS] += 1.0
        for j in range(d):
            G2[j] += g[j] * g[j]
            w[j] = u[j]
    return score


@jit
def score_row(w, mean_pos, mean_neg, M_pos, M_neg, G2, work, scalars, ledger, idx, x, eta, lam, delta, kappa):
    """Return the score of a row; changes nothing."""
    return dot(idx, x, w)


@jit
def settle(w, mean_pos, mean_neg, M_pos, M_neg, G2, work, scalars):
    """Note the columns that a change of units brought into use. O(d)."""
    scalars[WIDTH] = last_in_use(mean_pos, mean_neg, np.int64(scalars[WIDTH]))


class State(NamedTuple):
    """2 d^2 + 4 d + 4 floats, and 4 d of scratch."""

    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    mean_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_POS))]
    mean_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_NEG))]
    M_pos: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED, mean="mean_pos")]
    M_neg: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED, mean="mean_neg")]
    G2: Annotated[Floats, Vector(Unit.ROW_SQUARED)]  # sum of squared gradients of the scaled weights
    work: Annotated[Floats, Scratch(np.float64, 4)]
    scalars: Annotated[Floats, Fixed(4)]


_PROGRAM = Program(State, step, score_row, settle)


@learner
class AdaOAM(Learner):
    """Adaptive online AUC maximization: OPAUC's gradient, long steps for coordinates that seldom had one.

    Against all rows of the other class seen, through their mean and covariance, as `OPAUC`. Its steps shrink, so
    that the last iterate does not wander (a9a: .8996, `OPAUC` .8973). For up to some hundred features.

    Parameters
    ----------
    eta : float, default=0.125
        In (0, inf). Step size, divided for each coordinate by the root of the sum of its squared gradients.
    lam : float, default=1e-4
        In (0, inf). Penalty lam/2 \\|w\\|^2; the weights stay in the ball of radius 1/sqrt(lam). [1]_.
    delta : float, default=1e-8
        In (0, inf). Added to that root.
    kappa : float or None, default=None
        In (0, inf). None: a running root mean square of the row norm is the unit of the rows, so that rows
        of any scale work; a number gives the paper's literal form, for rows of norm at most 1.

    Notes
    -----
    With m, S the mean and covariance of the rows of the other class, s the sign of the label, e = x - m::

        g = lam w - s e + e (e'w) + S w,  G2 += g g,  h = delta + sqrt(G2),  u = w - eta g / h
        w = argmin (v - u)' diag(h) (v - u)  over  \\|v\\| <= 1/sqrt(lam)

    While there are no rows of the other class, the row enters the moments of its own and nothing else. The
    projection multiplies u_j by h_j/(h_j + nu), nu by bisection; it takes O(d) where the ball binds. Time
    O(d^2) a row, memory 16 d^2 bytes, for at most 4096 features.

    Deviations: moments by Welford's update, since the printed one cancels; an example's weight is its weight in
    the moments and multiplies its step, where weights above 2 in the mean are divided by that of the heavier class and
    none counts more than 2, and does not enter G2, so that a step never exceeds 2 eta a coordinate; `kappa=None`. With
    it g, G2 and h are those of kappa_t w, without a unit.

    References
    ----------
    .. [1] Ding, Zhao, Hoi, Ong, "An Adaptive Gradient Method for Online AUC Maximization", AAAI 2015.
    .. [2] Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013, eqs. (5), (7).

    Examples
    --------
    >>> from aucstream import AdaOAM
    >>> model = AdaOAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    eta: Annotated[float, Gt(0)] = 0.125
    lam: Annotated[float, Gt(0)] = 1e-4
    delta: Annotated[float, Gt(0)] = 1e-8
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"eta", "lam"})

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.eta, self.lam, self.delta, self.kappa or 0.0)

    def _max_width(self) -> tuple[int, str] | None:
        return 4096, "use OPAUC with rank, or MBA"

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        fields["scalars"][WIDTH] = weights.size

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta": 1e6}
        yield {"eta": 1e6, "lam": 1e6}
