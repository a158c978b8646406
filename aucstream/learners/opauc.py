"""OPAUC: one-pass AUC optimization, against all rows of the other class through their mean and covariance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

import numpy as np

from aucstream.block import Floats
from aucstream.constraints import Ge, Gt, Size
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.moments.moments import (
    add_full,
    add_mean,
    columns_in_use,
    deviation,
    last_in_use,
    pair_slope,
    rescale_full,
    rescale_mean,
    slope_full,
)
from aucstream.kernels.random import normal
from aucstream.kernels.rows.arrival import LARGEST, admit_row, count_row
from aucstream.kernels.rows.linear import dot, inner
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Program, Scratch, Table, Unit, Vector

# layout of State.scalars; weights of the classes, updates, columns that rows have had
N_POS, N_NEG, STEPS, WIDTH = range(4)


@jit
def _step_along(w, g, size, lam, unit):
    """Turn the slope `g` (d,) into w - size (lam w + g / unit^2); return the sum of its absolute values."""
    total = 0.0
    share = 1.0 / unit / unit
    for j in range(g.size):
        g[j] = w[j] - size * (lam * w[j] + share * g[j])
        total += abs(g[j])
    return total


@jit
def _commit(w, wbar, new, scalars, y, weight, other, d):
    """Take up the weights `new` (d,) if there are rows to rank against; writes w, wbar, scalars."""
    scalars[WIDTH] = d
    if y > 0.0:
        scalars[N_POS] += weight
    else:
        scalars[N_NEG] += weight
    if scalars[other] == 0.0:
        return
    scalars[STEPS] += 1.0
    for j in range(d):
        w[j] = new[j]
        wbar[j] += (w[j] - wbar[j]) / scalars[STEPS]


@jit
def step_full(
    w, wbar, mean_pos, mean_neg, M_pos, M_neg, work, scalars, ledger, idx, x, y, weight, eta, lam, average, kappa
):
    """One update with both covariances whole; writes all state.

    Returns the score of the output weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, wbar if average != 0 else w)
    _, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if y > 0.0:
        own, other, sign = N_POS, N_NEG, 1.0
        own_mean, own_M, other_mean, other_M = mean_pos, M_pos, mean_neg, M_neg
    else:
        own, other, sign = N_NEG, N_POS, -1.0
        own_mean, own_M, other_mean, other_M = mean_neg, M_neg, mean_pos, M_pos
    d = columns_in_use(idx, x, np.int64(scalars[WIDTH]))
    e, g = work[:d], work[w.size : w.size + d]
    reach = 0.0
    if scalars[other] > 0.0:
        slope_full(idx, x, factor, ratio, sign, scalars[other], other_mean, other_M, w, e, g)
        reach = _step_along(w, g, by_mean(ledger, y, weight) * eta, lam, unit)
    deviation(idx, x, factor, ratio, own_mean, e)
    if not (
        math.isfinite(score) and reach < LARGEST and weight * inner(e, e) < LARGEST and scalars[own] + weight < LARGEST
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    if ratio != 1.0:
        rescale_full(ratio, mean_pos[:d], M_pos)
        rescale_full(ratio, mean_neg[:d], M_neg)
    add_full(e, weight, scalars[own], own_mean, own_M)
    _commit(w, wbar, g, scalars, y, weight, other, d)
    return score


@jit
def score_full(w, wbar, mean_pos, mean_neg, M_pos, M_neg, work, scalars, ledger, idx, x, eta, lam, average, kappa):
    """Return the score of a row; changes nothing."""
    return dot(idx, x, wbar if average != 0 else w)


@jit
def settle_full(w, wbar, mean_pos, mean_neg, M_pos, M_neg, work, scalars):
    """Note the columns that a change of units brought into use. O(d)."""
    scalars[WIDTH] = last_in_use(mean_pos, mean_neg, np.int64(scalars[WIDTH]))


class FullState(NamedTuple):
    """2 d^2 + 4 d + 4 floats, and 2 d of scratch."""

    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    wbar: Annotated[Floats, Vector(Unit.WEIGHT)]  # mean of the w after each update
    mean_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_POS))]
    mean_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_NEG))]
    M_pos: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED, mean="mean_pos")]
    M_neg: Annotated[Floats, Table(None, None, Unit.ROW_SQUARED, mean="mean_neg")]
    work: Annotated[Floats, Scratch(np.float64, 2)]
    scalars: Annotated[Floats, Fixed(4)]


@jit_allocating
def sketched_slope(idx, x, factor, ratio, sign, n, m, Z, r_sum, w, e, g):
    """Write to g (d,) the slope of `pair_slope` for factor x, S w by A (A'w) / n with A = Z - m r_sum'.

    The rows behind m and Z are to be taken `ratio` times. e (d,) is written. O(rank d).
    """
    d = g.size
    rank = r_sum.size
    deviation(idx, x, factor, ratio, m, e)
    along = inner(m[:d], w[:d])
    v = np.empty(rank)
    for k in range(rank):
        v[k] = -along * r_sum[k]
    for j in range(d):
        gain = w[j]
        row = Z[j, :rank]
        for k in range(rank):
            v[k] += gain * row[k]
    back = inner(r_sum, v)
    share = ratio * ratio / n
    for j in range(d):
        g[j] = share * (inner(Z[j], v) - back * m[j])
    pair_slope(e, sign, w, g)


@jit_allocating
def add_sketched(generator, idx, x, factor, weight, Z, r_sum):
    """Take the row factor x with a random vector r ~ N(0, I / rank); writes generator, Z, r_sum."""
    rank = r_sum.size
    r = np.empty(rank)
    root = math.sqrt(weight)
    for k in range(rank):
        r[k] = root * (normal(generator) / math.sqrt(rank))
        r_sum[k] += r[k]
    for i in range(x.size):
        row = Z[i if idx is None else idx[i], :rank]
        value = factor * x[i]
        for k in range(rank):
            row[k] += value * r[k]


@jit
def step_sketched(
    w, wbar, mean_pos, mean_neg, Z_pos, Z_neg, r_pos, r_neg, generator, work, scalars, ledger,
    idx, x, y, weight, eta, lam, average, kappa,
):  # fmt: skip
    """One update with sketches of both covariances; writes all state.

    Returns the score of the output weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, wbar if average != 0 else w)
    _, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if y > 0.0:
        own, other, sign = N_POS, N_NEG, 1.0
        own_mean, own_Z, own_r = mean_pos, Z_pos, r_pos
        other_mean, other_Z, other_r = mean_neg, Z_neg, r_neg
    else:
        own, other, sign = N_NEG, N_POS, -1.0
        own_mean, own_Z, own_r = mean_neg, Z_neg, r_neg
        other_mean, other_Z, other_r = mean_pos, Z_pos, r_pos
    d = columns_in_use(idx, x, np.int64(scalars[WIDTH]))
    e, g = work[:d], work[w.size : w.size + d]
    reach = 0.0
    if scalars[other] > 0.0:
        sketched_slope(idx, x, factor, ratio, sign, scalars[other], other_mean, other_Z, other_r, w, e, g)
        reach = _step_along(w, g, by_mean(ledger, y, weight) * eta, lam, unit)
    deviation(idx, x, factor, ratio, own_mean, e)
    if not (
        math.isfinite(score) and reach < LARGEST and weight * inner(e, e) < LARGEST and scalars[own] + weight < LARGEST
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    if ratio != 1.0:
        for j in range(d):
            rescale_mean(ratio, Z_pos[j])
            rescale_mean(ratio, Z_neg[j])
        rescale_mean(ratio, mean_pos[:d])
        rescale_mean(ratio, mean_neg[:d])
    add_mean(e, weight, scalars[own], own_mean)
    add_sketched(generator, idx, x, factor, weight, own_Z, own_r)
    _commit(w, wbar, g, scalars, y, weight, other, d)
    return score


@jit
def score_sketched(
    w, wbar, mean_pos, mean_neg, Z_pos, Z_neg, r_pos, r_neg, generator, work, scalars, ledger,
    idx, x, eta, lam, average, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    return dot(idx, x, wbar if average != 0 else w)


@jit
def settle_sketched(w, wbar, mean_pos, mean_neg, Z_pos, Z_neg, r_pos, r_neg, generator, work, scalars):
    """Note the columns that a change of units brought into use. O(d)."""
    scalars[WIDTH] = last_in_use(mean_pos, mean_neg, np.int64(scalars[WIDTH]))


class SketchedState(NamedTuple):
    """2 d rank + 4 d + 2 rank + 4 floats, one generator, and 2 d of scratch."""

    w: Annotated[Floats, Vector(Unit.WEIGHT)]
    wbar: Annotated[Floats, Vector(Unit.WEIGHT)]  # mean of the w after each update
    mean_pos: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_POS))]
    mean_neg: Annotated[Floats, Vector(Unit.ROW_MEAN, ("scalars", N_NEG))]
    Z_pos: Annotated[Floats, Table(None, "rank", Unit.ROW_SUM, "r_pos")]
    Z_neg: Annotated[Floats, Table(None, "rank", Unit.ROW_SUM, "r_neg")]
    r_pos: Annotated[Floats, Fixed("rank")]
    r_neg: Annotated[Floats, Fixed("rank")]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]
    work: Annotated[Floats, Scratch(np.float64, 2)]
    scalars: Annotated[Floats, Fixed(4)]


_FULL = Program(FullState, step_full, score_full, settle_full)
_SKETCHED = Program(SketchedState, step_sketched, score_sketched, settle_sketched)


@learner
class OPAUC(Learner):
    """One-pass AUC optimization: each row against all rows of the other class seen so far, without a buffer.

    The squared loss over all pairs needs no more of a class than its mean and its covariance. For up to
    some hundred features; with thousands take a `rank`, with many more a learner whose step is O(nnz) (`PSAM`).

    Parameters
    ----------
    eta : float, default=0.125
        In (0, inf). Step size, the same for all rows. For rows of norm at most 1 no step up to 0.25 is
        too long (see Notes).
    lam : float, default=2**-10
        In [0, inf). Penalty lam/2 \\|w\\|^2. [1]_ eq. (3).
    rank : int or None, default=None
        >= 1. Covariances are sketched in so many columns; None: whole, for at most 4096 features.
    average : bool, default=False
        Whether the output is the average of the iterates, else the last, as in [1]_. On a shuffled stream the
        average ranks better: with a constant step the last iterate wanders (a9a: .9000 against .8973).
    kappa : float or None, default=None
        In (0, inf). None: a running root mean square of the row norm is the unit of the rows, so that rows
        of any scale work; a number gives the paper's literal form, for rows of norm at most 1.
    seed : int or None, default=0
        Of the random vectors of a sketch; None draws one at construction.

    Notes
    -----
    With m, S the mean and covariance of the rows of the other class, s the sign of the label, e = x - m::

        w -= eta (lam w - s e + e (e'w) + S w)

    which is the gradient of the mean of (1 - s w'(x - x'))^2 / 2 over those rows x'. While there are none, the
    row enters the moments of its own class and nothing else. A step contracts where
    eta (lam + \\|e\\|^2 + \\|S\\|) < 2. Whole covariances take O(d^2) a row and 16 d^2 bytes; a sketch draws
    r ~ N(0, I/rank) for every row and keeps, by class, Z = sum x r' and sum r::

        A = Z - m (sum r)',  S w ~ A (A'w) / n

    in O(rank d) a row and 16 rank d bytes.

    Deviations: moments by Welford's update, since the printed one cancels; A is centred, so that A A' / n is an
    unbiased estimate of the covariance (the paper's form removes a share 1/n of the mean only and estimates the
    second moment); an example's weight is its weight in the moments and multiplies its step, where weights
    above 2 in the mean are divided by that of the heavier class and none counts more than 2, as 2 eta = 0.25 is the longest step
    that is stable whatever the rows; `kappa=None`.

    References
    ----------
    .. [1] Gao, Jin, Zhu, Zhou, "One-Pass AUC Optimization", ICML 2013, Algorithm 1 and eqs. (3), (5), (7).

    Examples
    --------
    >>> from aucstream import OPAUC
    >>> model = OPAUC()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    eta: Annotated[float, Gt(0)] = 0.125
    lam: Annotated[float, Ge(0)] = 2.0**-10
    rank: Annotated[int | None, Ge(1), Size("directions", numbers=2)] = None
    average: bool = False
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"eta", "lam"})
    _random = True

    def _chosen_program(self) -> Program:
        return _FULL if self.rank is None else _SKETCHED

    def _kernel_args(self) -> tuple[float, ...]:
        return (self.eta, self.lam, int(self.average), self.kappa or 0.0)

    def _sizes(self) -> dict[str, int]:
        return {"rank": self.rank or 0}

    def _max_width(self) -> tuple[int, str] | None:
        return (4096, "use rank=50") if self.rank is None else None

    def _added(self) -> list[tuple[str, int]]:
        return [*super()._added(), *((field, k) for field in ("r_pos", "r_neg") for k in range(self.rank or 0))]

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        fields["scalars"][WIDTH] = weights.size

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"rank": 3, "average": True}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta": 1e6}
        yield {"eta": 1e6, "rank": 3}
