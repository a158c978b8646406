"""VRSPAM: variance-reduced stochastic proximal AUC maximization, on a window of recent rows or a fixed set."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Le, Size
from aucstream.kernels.jit import jit, jit_allocating
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.pairs.window import SINCE, SMALLEST_STEP, due, take, window_size
from aucstream.kernels.random import below
from aucstream.kernels.rows.arrival import RECOUNT, admit_row, count_row
from aucstream.kernels.rows.linear import axpy, axpy2, dot, dot2, inner, norm
from aucstream.kernels.weights.averages import SCALE_RESET
from aucstream.kernels.weights.example_weights import by_share
from aucstream.learners._base.learner import learner
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Slots, Unit, UnitChange, Vector
from aucstream.learners._families.windowed import Windowed

# layout of State.scalars after that of `kernels.pairs.window`. w = SCALE v - DRIFT full, the sum of STEPS iterates
# is CUM v - DRIFT_CUM full - u; N_*: weights in the class sums; V_*, M_*, T_*: the sums' products with v, full
# and last; upper bounds of |w|, of a row, |full| and of a weight in the window: they show beforehand that a
# step stays finite; ROWS_*: rows behind the weights N_*
SNAPSHOTS, STEPS, SCALE, DRIFT, CUM, DRIFT_CUM, N_POS, N_NEG = range(3, 11)
V_POS, V_NEG, M_POS, M_NEG, T_POS, T_NEG, REACH, LONGEST, FULL_NORM, HEAVIEST, ROWS_POS, ROWS_NEG = range(11, 23)
LARGEST_ENTRY = 1e285  # a step that may bring a state entry beyond this is refused


@jit
def bounded(reach, top, mass):
    """Return whether all stays finite with |w| <= reach, |x| <= top, `mass` iterates and rows in sums."""
    slope = 8.0 * reach * top + 2.0  # at least |c| of any G(w; z) - G(wt; z) = c x
    long = max(1.0, top)
    return slope * long * long * mass < LARGEST_ENTRY and reach * mass < LARGEST_ENTRY


@jit
def fold(v, u, full, scalars):
    """Write w into v and -(sum of iterates) into u: scale 1, no drift. O(d)."""
    scale, drift, cum, drift_cum = scalars[SCALE], scalars[DRIFT], scalars[CUM], scalars[DRIFT_CUM]
    for j in range(v.size):
        u[j] -= cum * v[j] - drift_cum * full[j]
        v[j] = scale * v[j] - drift * full[j]
    scalars[V_POS] = scale * scalars[V_POS] - drift * scalars[M_POS]
    scalars[V_NEG] = scale * scalars[V_NEG] - drift * scalars[M_NEG]
    scalars[SCALE] = 1.0
    scalars[DRIFT] = 0.0
    scalars[CUM] = 0.0
    scalars[DRIFT_CUM] = 0.0


@jit
def settle(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator):
    """Fold; recount tracked products and bounds. O(d + window)."""
    fold(v, u, full, scalars)
    scalars[V_POS] = inner(sums_pos, v)
    scalars[V_NEG] = inner(sums_neg, v)
    scalars[M_POS] = inner(sums_pos, full)
    scalars[M_NEG] = inner(sums_neg, full)
    scalars[T_POS] = inner(sums_pos, last)
    scalars[T_NEG] = inner(sums_neg, last)
    scalars[REACH] = max(norm(v), norm(last))
    scalars[FULL_NORM] = norm(full)
    longest = buffers.longest(slots, pool_val)
    if scalars[N_POS] > 0.0:
        longest = max(longest, norm(sums_pos) / scalars[N_POS])
    if scalars[N_NEG] > 0.0:
        longest = max(longest, norm(sums_neg) / scalars[N_NEG])
    scalars[LONGEST] = longest
    heaviest = 0.0
    for i in range(weights.size):
        heaviest = max(heaviest, weights[i])
    scalars[HEAVIEST] = heaviest


@jit_allocating
def take_snapshot(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, rows):
    """Freeze w, and p, the class means and the mean of G(w; .) of the first `rows` slots. O(d + window)."""
    fold(v, u, full, scalars)
    class_sums(sums_pos, sums_neg, v, scalars, labels, weights, slots, pool_idx, pool_val, rows)
    mass = scalars[N_POS] + scalars[N_NEG]
    p = scalars[N_POS] / mass
    at_pos = scalars[V_POS] / scalars[N_POS]
    at_neg = scalars[V_NEG] / scalars[N_NEG]
    full[:] = 0.0
    for i in range(rows):
        a, b = extent(slots, i)
        s = dot(pool_idx[a:b], pool_val[a:b], v)
        c = 2.0 * (1.0 - p) * (s - at_neg - 1.0) if labels[i] > 0.0 else 2.0 * p * (s - at_pos + 1.0)
        axpy(pool_idx[a:b], pool_val[a:b], c * weights[i] / mass, full)
    last[:] = v
    scalars[T_POS] = scalars[V_POS]
    scalars[T_NEG] = scalars[V_NEG]
    scalars[M_POS] = 0.0
    scalars[M_NEG] = 0.0
    for i in range(rows):
        a, b = extent(slots, i)
        scalars[M_POS if labels[i] > 0.0 else M_NEG] += weights[i] * dot(pool_idx[a:b], pool_val[a:b], full)
    scalars[REACH] = norm(v)
    scalars[FULL_NORM] = norm(full)
    scalars[LONGEST] = buffers.longest(slots, pool_val)
    scalars[SINCE] = 0.0
    scalars[SNAPSHOTS] += 1.0


@jit
def class_sums(sums_pos, sums_neg, v, scalars, labels, weights, slots, pool_idx, pool_val, rows):
    """Write weighted sums of the first `rows` slots by class, their weights, counts and products with v.

    The products are summed by rows, so that columns may have any order.
    """
    sums_pos[:] = 0.0
    sums_neg[:] = 0.0
    for at in (N_POS, N_NEG, ROWS_POS, ROWS_NEG, V_POS, V_NEG, HEAVIEST):
        scalars[at] = 0.0
    for i in range(rows):
        a, b = extent(slots, i)
        scalars[HEAVIEST] = max(scalars[HEAVIEST], weights[i])
        if labels[i] > 0.0:
            scalars[N_POS] += weights[i]
            scalars[ROWS_POS] += 1.0
            scalars[V_POS] += weights[i] * dot(pool_idx[a:b], pool_val[a:b], v)
            axpy(pool_idx[a:b], pool_val[a:b], weights[i], sums_pos)
        else:
            scalars[N_NEG] += weights[i]
            scalars[ROWS_NEG] += 1.0
            scalars[V_NEG] += weights[i] * dot(pool_idx[a:b], pool_val[a:b], v)
            axpy(pool_idx[a:b], pool_val[a:b], weights[i], sums_neg)


@jit
def descend(v, u, full, last, sums_pos, sums_neg, scalars, idx, x, factor, y, eta, unit, beta, beta1, dense):
    """One step w = prox(w - eta (G(w; z) - G(wt; z) + M)) on z = (factor x, y); without a snapshot M = 0 = wt.

    Writes v, u, scalars. Returns whether it was taken: not where w could overflow later.
    """
    vx, mx = dot2(idx, x, v, full)
    px, nx = dot2(idx, x, sums_pos, sums_neg)
    scale, drift = scalars[SCALE], scalars[DRIFT]
    gap = factor * (scale * vx - drift * mx - dot(idx, x, last))  # (w - wt)'x
    p = scalars[N_POS] / (scalars[N_POS] + scalars[N_NEG])
    first = 1.0 if scalars[SNAPSHOTS] == 0.0 else 0.0  # G(w; z) alone: G(0; z) is in no M
    if y > 0.0:
        other = (scale * scalars[V_NEG] - drift * scalars[M_NEG] - scalars[T_NEG]) / scalars[N_NEG]
        c = 2.0 * (1.0 - p) * (gap - other - first)
    else:
        other = (scale * scalars[V_POS] - drift * scalars[M_POS] - scalars[T_POS]) / scalars[N_POS]
        c = 2.0 * p * (gap - other + first)
    rate = eta / unit / unit
    reach = scalars[REACH] + rate * (abs(c) * scalars[LONGEST] + scalars[FULL_NORM])
    if not bounded(reach, scalars[LONGEST], scalars[STEPS] + scalars[N_POS] + scalars[N_NEG]):
        return False
    scalars[REACH] = reach
    h = -rate * c * factor / scale
    axpy2(idx, x, h, v, scalars[CUM] * h, u)
    shrink = 1.0 / (1.0 + eta * beta)
    if dense:
        theta = eta * beta1 / unit
        for j in range(v.size):
            z = v[j] - rate * full[j]
            v[j] = shrink * (z - theta if z > theta else z + theta if z < -theta else 0.0)
        scalars[V_POS] = inner(sums_pos, v)
        scalars[V_NEG] = inner(sums_neg, v)
        return True
    scalars[V_POS] += h * px
    scalars[V_NEG] += h * nx
    scalars[SCALE] = scale * shrink
    scalars[DRIFT] = (drift + rate) * shrink
    if scalars[SCALE] < SCALE_RESET:
        fold(v, u, full, scalars)
    return True


@jit
def row_weight(scalars, y, weight):
    """Return what the weight of a row of the class sums, or of one like them, multiplies its step by."""
    if y > 0.0:
        return by_share(weight, scalars[ROWS_POS], scalars[N_POS], scalars[ROWS_NEG], scalars[N_NEG])
    return by_share(weight, scalars[ROWS_NEG], scalars[N_NEG], scalars[ROWS_POS], scalars[N_POS])


@jit
def average(v, u, scalars, dense):
    """Take w into the average; writes u, scalars."""
    scalars[STEPS] += 1.0
    if dense:
        for j in range(v.size):
            u[j] -= v[j]
    else:
        scalars[CUM] += scalars[SCALE]
        scalars[DRIFT_CUM] += scalars[DRIFT]


@jit
def step(
    v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, beta, beta1, eta, refresh_frac, inner_steps, dense, kappa,
):  # fmt: skip
    """All steps of one arrival; writes all state.

    Returns the score of the averaged weights before them; NaN where the row was skipped.
    """
    score = score_row(
        v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator, ledger,
        idx, x, beta, beta1, eta, refresh_frac, inner_steps, dense, kappa,
    )  # fmt: skip
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    top = max(scalars[LONGEST] * ratio, factor * length)
    heaviest = max(scalars[HEAVIEST], weight)
    own = eta / unit / unit * heaviest  # no step of this arrival is longer
    reach = scalars[REACH]
    reach += own * (2.0 * (8.0 * reach * top + 2.0) * top + scalars[FULL_NORM] * ratio)
    mass = scalars[STEPS] + 1.0 + scalars[N_POS] + scalars[N_NEG] + (labels.size + 1.0) * heaviest
    travelled = scalars[DRIFT_CUM] + scalars[DRIFT] + inner_steps * own
    # 2: what rounding may add to a bound that is asked for again below
    if not (math.isfinite(score) and bounded(2.0 * reach, top, mass) and travelled < LARGEST_ENTRY):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    if ratio != 1.0:
        fold(v, u, full, scalars)
        for j in range(v.size):
            full[j] *= ratio
            sums_pos[j] *= ratio
            sums_neg[j] *= ratio
        buffers.rescale(ratio, slots, pool_val)
        for at in (V_POS, V_NEG, T_POS, T_NEG, LONGEST, FULL_NORM):
            scalars[at] *= ratio
        scalars[M_POS] *= ratio * ratio
        scalars[M_NEG] *= ratio * ratio
    scalars[LONGEST] = max(scalars[LONGEST], factor * length)
    scalars[HEAVIEST] = heaviest
    weights[take(idx, x, factor, y, scalars, slots, pool_idx, pool_val, labels)] = weight
    if scalars[SNAPSHOTS] == 0.0:
        # running class sums, this row included, stand in for those of a window
        if y > 0.0:
            scalars[N_POS] += weight
            scalars[ROWS_POS] += 1.0
            scalars[V_POS] += weight * factor * dot(idx, x, v)
            axpy(idx, x, weight * factor, sums_pos)
        else:
            scalars[N_NEG] += weight
            scalars[ROWS_NEG] += 1.0
            scalars[V_NEG] += weight * factor * dot(idx, x, v)
            axpy(idx, x, weight * factor, sums_neg)
        if scalars[N_POS] == 0.0 or scalars[N_NEG] == 0.0:
            return score
    window = window_size(scalars, labels)
    if due(scalars, labels, refresh_frac):
        take_snapshot(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, window)
    descend(
        v, u, full, last, sums_pos, sums_neg, scalars, idx, x, factor, y,
        row_weight(scalars, y, weight) * eta, unit, beta, beta1, dense,
    )  # fmt: skip
    if scalars[SNAPSHOTS] > 0.0:
        for _ in range(inner_steps - 1):
            i = below(generator, window)
            a, b = extent(slots, i)
            descend(
                v, u, full, last, sums_pos, sums_neg, scalars, pool_idx[a:b], pool_val[a:b], 1.0, labels[i],
                row_weight(scalars, labels[i], weights[i]) * eta, unit, beta, beta1, dense,
            )  # fmt: skip
    average(v, u, scalars, dense)
    if scalars[STEPS] % RECOUNT == 0.0:
        settle(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator)
    return score


@jit
def score_row(
    v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator, ledger,
    idx, x, beta, beta1, eta, refresh_frac, inner_steps, dense, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    if scalars[STEPS] == 0.0:
        return 0.0
    vx, ux = dot2(idx, x, v, u)
    return (scalars[CUM] * vx - scalars[DRIFT_CUM] * dot(idx, x, full) - ux) / scalars[STEPS]


@jit
def finite_sum(
    v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator,
    epochs, unit, beta, beta1, eta, dense,
):  # fmt: skip
    """[DS] Algorithm 1 on the rows of all slots, from a state of zeros; leaves w as the average.

    Returns whether all steps were taken.
    """
    n = labels.size
    class_sums(sums_pos, sums_neg, v, scalars, labels, weights, slots, pool_idx, pool_val, n)
    settle(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, generator)
    complete = True
    for i in range(n):  # SPAM with the moments of the set
        a, b = extent(slots, i)
        complete &= descend(
            v, u, full, last, sums_pos, sums_neg, scalars, pool_idx[a:b], pool_val[a:b], 1.0, labels[i],
            1.0 / math.sqrt(i + 1.0), unit, beta, beta1, dense,
        )  # fmt: skip
        average(v, u, scalars, dense)
    fold(v, u, full, scalars)
    for j in range(v.size):
        v[j] = -u[j] / n
    for _ in range(epochs):
        take_snapshot(v, u, full, last, sums_pos, sums_neg, scalars, labels, weights, slots, pool_idx, pool_val, n)
        for _ in range(n):
            i = below(generator, n)
            a, b = extent(slots, i)
            complete &= descend(
                v, u, full, last, sums_pos, sums_neg, scalars, pool_idx[a:b], pool_val[a:b], 1.0, labels[i],
                eta, unit, beta, beta1, dense,
            )  # fmt: skip
    fold(v, u, full, scalars)
    for j in range(v.size):
        u[j] = -n * v[j]
    return complete


class State(NamedTuple):
    """6 d + 23 floats, one generator, and `n_buffer` rows with their labels and weights."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS), -1.0)]  # deferred average
    full: Annotated[Floats, Vector(Unit.ROW_CHANGE)]  # M, the mean gradient at the snapshot
    last: Annotated[Floats, Vector(Unit.WEIGHT)]  # wt, the snapshot
    sums_pos: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_POS))]  # of the snapshot's window;
    sums_neg: Annotated[Floats, Vector(Unit.ROW_SUM, ("scalars", N_NEG))]  # before: of all rows
    scalars: Annotated[Floats, Fixed(23)]
    labels: Annotated[Floats, Fixed("n_buffer")]
    weights: Annotated[Floats, Fixed("n_buffer")]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM = Program(State, step, score_row, settle)


@learner
class VRSPAM(Windowed):
    """Variance-reduced stochastic proximal AUC maximization, with an l2 or an elastic-net penalty.

    `SPAM` whose steps are corrected by a full gradient over a window of recent rows, so that a constant step
    converges. Over a fixed set (`fit`) it converges geometrically; one pass over a stream it is the equal of
    `SPAM`, and safer where features outnumber the rows of the rarer class.

    Parameters
    ----------
    penalty : {"l2", "elasticnet"}, default="l2"
        beta/2 \\|w\\|^2, or beta/2 \\|w\\|^2 + beta1 \\|w\\|_1, which makes weights sparse.
    beta : float, default=1e-4
        In [0, inf). [1]_ section 5.
    beta1 : float, default=1e-5
        In [0, inf). Of the elastic net only. [1]_ section 5.
    eta : float, default=0.25
        In (0, inf). Step, stable below 1 for rows of norm 1. [1]_ Algorithm 1.
    n_buffer : int, default=1000
        >= 2. Rows in the window.
    refresh_frac : float, default=0.5
        In (0, 1]. A snapshot is due after this part of the window's rows, 16 at least.
    inner : int, default=1
        >= 1. Steps an arrival: one on the row, the others on rows drawn from the window.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of all draws; None draws one at construction.

    Notes
    -----
    With p, m+ and m- of the rows of the window by their weights, q = 1 - p, the slope of a row z = (x, y)::

        y=+1:  G(w; z) = 2q (w'(x - m-) - 1) x        y=-1:  G(w; z) = 2p (w'(x - m+) + 1) x

    has the mean grad f(w), f(w) = pq E(1 - w'(x+ - x-))^2. A snapshot freezes p, m+-, wt = w and
    M = (weighted mean of G(wt; z) over the window); an arrival makes the step ::

        w = argmin_v \\|v - (w - eta (G(w; z) - G(wt; z) + M))\\|^2 / 2 + eta (beta/2 \\|v\\|^2 + beta1 \\|v\\|_1)

    The output is the average of w over arrivals. Before the first snapshot G(w; z) with the running moments
    of all rows takes the place of the three terms (`SPAM`); nothing moves before both classes were seen.

    Time O(nnz (inner + 1/refresh_frac)) a row for "l2", a snapshot is O(d + window); for "elasticnet" every
    step is O(d). Memory 48 bytes a feature and the window.

    `fit` is [1]_ Algorithm 1: one pass of SPAM with the moments of the set and eta = 1/sqrt(t), then
    `epochs` snapshots of the whole set, each followed by n steps on rows drawn from it; the output is the
    last w.

    Not for streams whose distribution moves within a window: a step on an arriving row with the means of the
    window is unbiased only on the window's own distribution, and where the means have moved on the expected
    step is no descent; weights then grow until the window has caught up.

    Deviations: the window; eta, since the step of the paper's theory, below beta / (128 kappa^4), moves
    nothing in any practical number of steps; an example's weight is its share in p, m and M and multiplies
    eta in every step on its row, so that steps on uniform draws have the direction of grad f in the mean; for
    stability weights above 2 in the mean are divided by it and no row counts more than twice the mean of its class
    (where wt = w is the minimiser no step moves it, whatever its size); a snapshot is due at once after a merge
    and after a change of units that takes from weights what their column's deviation has grown by;
    `kappa=None`.

    References
    ----------
    .. [1] Dan, Sahoo, "Variance Reduced Stochastic Proximal Algorithm for AUC Maximization", Algorithm 1.
    .. [2] Johnson, Zhang, "Accelerating Stochastic Gradient Descent using Predictive Variance Reduction",
       NIPS 2013.
    .. [3] Frostig et al., "Competing with the Empirical Risk Minimizer in a Single Pass", COLT 2015, for
       snapshots of a stream.

    Examples
    --------
    >>> from aucstream import VRSPAM
    >>> model = VRSPAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    penalty: Literal["l2", "elasticnet"] = "l2"
    beta: Annotated[float, Ge(0)] = 1e-4
    beta1: Annotated[float, Ge(0)] = 1e-5
    eta: Annotated[float, Gt(0)] = 0.25
    n_buffer: Annotated[int, Ge(2), Size("buffered rows")] = 1000
    refresh_frac: Annotated[float, Gt(0), Le(1)] = 0.5
    inner: Annotated[int, Ge(1)] = 1
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"beta", "beta1", "eta"})

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _kernel_args(self) -> tuple[float, ...]:
        dense = self.penalty == "elasticnet"
        return (self.beta, self.beta1, self.eta, self.refresh_frac, self.inner, dense, self.kappa or 0.0)

    def _init_state(self) -> None:
        self._field("scalars")[SCALE] = 1.0

    def _fit_fixed(self, labels: Floats, slots: Ints, idx: Ints, val: Floats, unit: float, epochs: int) -> bool:
        beta, beta1, eta, _, _, dense, _ = self._kernel_params
        fields = dict(zip(self._program.parts, self._arrays, strict=True))
        rows = {"labels": labels, "weights": np.ones(labels.size), "slots": slots, "pool_idx": idx, "pool_val": val}
        fixed = {**fields, **rows}
        return bool(finite_sum(*fixed.values(), epochs, unit, beta, beta1, eta, dense))

    def _carry_own(self, fields: dict[str, Any], change: UnitChange) -> None:
        if change.growth is not None and (change.growth > 1.0).any():
            self._refresh(fields["scalars"])

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        scalars = fields["scalars"]
        for vector, at in (("v", (V_POS, V_NEG)), ("full", (M_POS, M_NEG)), ("last", (T_POS, T_NEG))):
            for sums, position in zip(("sums_pos", "sums_neg"), at, strict=True):
                scalars[position] -= (fields[vector][columns] * fields[sums][columns]).sum()
        if removed and fields["last"][columns].any():
            self._refresh(scalars)

    def _added(self) -> list[tuple[str, int]]:
        return [*super()._added(), ("scalars", ROWS_POS), ("scalars", ROWS_NEG)]

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        self._refresh(fields["scalars"])

    def _refresh(self, scalars: Floats) -> None:
        """Let the next arrival take a snapshot: M is no longer the gradient at the weights of the last one."""
        if scalars[SNAPSHOTS] > 0.0:
            scalars[SINCE] = max(SMALLEST_STEP, self.n_buffer)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"penalty": "elasticnet", "n_buffer": 60, "inner": 2}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta": 1e6}
        yield {"eta": 1e6, "penalty": "elasticnet", "inner": 3}
