"""CBR: confidence-weighted bipartite ranking."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Lt, Size
from aucstream.kernels.jit import jit
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.rows.arrival import LARGEST, admit_row, count_row
from aucstream.kernels.rows.linear import dot, norm, spread, wipe
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.merging import Buffer, buffers_by_class
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Table, Unit, Vector

# layout of State.scalars: rows that met a row of the other class; rows offered to each buffer; upper bounds
# of |w|, of a buffered row's norm and of the covariance's eigenvalues, which show beforehand that a step
# stays finite
STEPS, SEEN_POS, SEEN_NEG, REACH, LONGEST, WIDEST = range(6)
SQUARABLE = 1e140  # so are lengths, margins and variances: their squares must stay finite
LEAST = 1e-200  # a smaller variance of a pair is none; a weight keeps that much


@jit
def step_size(m, variance, largest, phi):
    """Return (alpha, beta) of SCW-I for a pair of margin m and variance > 0; alpha 0: no step; [SCW] Prop. 1."""
    if phi * math.sqrt(variance) <= m:
        return 0.0, 0.0
    root = math.sqrt(m * m * phi**4 / 4.0 + variance * phi * phi * (1.0 + phi * phi))
    if m > 0.0:  # the difference below, multiplied out: it cancels
        alpha = (phi * phi * variance - m * m) / (variance * (root + m * (1.0 + phi * phi / 2.0)))
    else:
        alpha = (root - m * (1.0 + phi * phi / 2.0)) / (variance * (1.0 + phi * phi))
    alpha = min(largest, alpha)
    if not alpha > 0.0:
        return 0.0, 0.0
    push = alpha * phi * variance
    deviation = 2.0 * variance / (push + math.sqrt(push * push + 4.0 * variance))  # sqrt(u), after the step
    return alpha, alpha * phi / (deviation + push)


@jit
def variance_of(D, j):
    """Return the variance of weight j: 0 in `D` stands for 1, that of a weight without any step yet."""
    return D[j] if D[j] != 0.0 else 1.0


@jit
def measure_diag(v, D, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val):
    """Return (w'z, z'S z / kappa_t^2) for z = x - b; `dense` holds x and is left as it was."""
    m = variance = 0.0
    for k in range(start, stop):
        j = pool_idx[k]
        z = dense[j] - pool_val[k]
        dense[j] = 0.0
        m += v[j] * z
        z *= inverse
        variance += variance_of(D, j) * z * z
    for k in range(x.size):
        j = k if idx is None else idx[k]
        z = dense[j]
        dense[j] = factor * x[k]
        m += v[j] * z
        z *= inverse
        variance += variance_of(D, j) * z * z
    return m, variance


@jit
def move_diag(v, D, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val, a, beta):
    """Add a S z / kappa_t^2 to w, take the diagonal of beta S z z'S / kappa_t^2 from S; writes v, D."""
    for k in range(start, stop):
        j = pool_idx[k]
        z = dense[j] - pool_val[k]
        dense[j] = 0.0
        _shrink(v, D, j, z * inverse, inverse, a, beta)
    for k in range(x.size):
        j = k if idx is None else idx[k]
        z = dense[j]
        dense[j] = factor * x[k]
        _shrink(v, D, j, z * inverse, inverse, a, beta)


@jit
def _shrink(v, D, j, z, inverse, a, beta):
    if z != 0.0:
        width = variance_of(D, j)
        q = width * z
        v[j] += a * q * inverse
        D[j] = max(width - beta * q * q, LEAST)


@jit
def measure_full(v, S, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val):
    """Return what `measure_diag` does; leaves S z / kappa_t in the second half of `dense`. O(d nnz)."""
    d = v.size
    q = dense[d:]
    for i in range(d):
        q[i] = 0.0
    m = 0.0
    for k in range(start, stop):
        j = pool_idx[k]
        z = dense[j] - pool_val[k]
        dense[j] = 0.0
        m += v[j] * z
        _add_column(S, j, z * inverse, q)
    for k in range(x.size):
        j = k if idx is None else idx[k]
        z = dense[j]
        dense[j] = factor * x[k]
        m += v[j] * z
        _add_column(S, j, z * inverse, q)
    variance = 0.0
    for k in range(start, stop):
        j = pool_idx[k]
        variance += (dense[j] - pool_val[k]) * inverse * q[j]
        dense[j] = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        variance += dense[j] * inverse * q[j]
        dense[j] = factor * x[k]
    return m, variance


@jit
def _add_column(S, j, z, q):
    if z != 0.0:
        column = S[j]
        for i in range(q.size):
            q[i] += z * column[i]
        if column[j] == 0.0:
            q[j] += z


@jit
def move_full(v, S, dense, inverse, a, beta):
    """Add a S z / kappa_t^2 to w, take beta S z z'S / kappa_t^2 from S, with S z in `dense`; writes v, S."""
    d = v.size
    q = dense[d:]
    for i in range(d):
        if q[i] != 0.0:
            v[i] += a * q[i] * inverse
            row = S[i]
            if row[i] == 0.0:
                row[i] = 1.0
            for j in range(d):
                row[j] -= beta * (q[i] * q[j])  # so S stays symmetric to the last bit
            row[i] = max(row[i], LEAST)


@jit
def step(
    v, S, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, C, phi, capacity, policy, kappa,
):  # fmt: skip
    """All pairs of one arrival, `S` (d,) or (d, d); writes all state.

    Returns the score of the weights before it; NaN where the row was skipped.
    """
    score = dot(idx, x, v)
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if y > 0.0:
        own, other, first, sign = SEEN_POS, SEEN_NEG, capacity, 1.0
    else:
        own, other, first, sign = SEEN_NEG, SEEN_POS, 0, -1.0
    others = min(np.int64(scalars[other]), capacity)
    largest = weight * C
    top = max(scalars[LONGEST] * ratio, factor * length)
    gap = 2.0 * top / unit
    farthest = scalars[REACH] + others * largest * scalars[WIDEST] * gap / unit
    if not (
        math.isfinite(score)
        and top < SQUARABLE
        and farthest < LARGEST
        and farthest * 2.0 * top < SQUARABLE
        and max(1.0, largest) * scalars[WIDEST] * gap * gap < SQUARABLE
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    scalars[LONGEST] = top
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    inverse = 1.0 / unit
    spread(idx, x, factor, dense)
    for slot in range(first, first + others):
        start, stop = extent(slots, slot)
        if S.ndim == 1:
            m, variance = measure_diag(v, S, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val)
        else:
            m, variance = measure_full(v, S, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val)
        if variance < LEAST:
            continue
        alpha, beta = step_size(sign * m, variance, largest, phi)
        if alpha == 0.0:
            continue
        a = sign * alpha
        if S.ndim == 1:
            move_diag(v, S, dense, idx, x, factor, inverse, start, stop, pool_idx, pool_val, a, beta)
        else:
            move_full(v, S, dense, inverse, a, beta)
        scalars[REACH] += alpha * math.sqrt(scalars[WIDEST] * variance) * inverse
    wipe(idx, x, dense)
    if others > 0:
        scalars[STEPS] += 1.0
    scalars[own] += 1.0
    buffers.offer(
        generator, idx, x, factor, capacity - first, np.int64(scalars[own]), capacity, policy,
        slots, pool_idx, pool_val,
    )  # fmt: skip
    return score


@jit
def score_row(
    v, S, scalars, dense, slots, pool_idx, pool_val, generator, ledger, idx, x, C, phi, capacity, policy, kappa
):
    """Return the score of a row; changes nothing."""
    return dot(idx, x, v)


@jit
def settle(v, S, scalars, dense, slots, pool_idx, pool_val, generator):
    """Recount the bounds; writes scalars. O(d + buffers)."""
    scalars[REACH] = norm(v)
    scalars[LONGEST] = buffers.longest(slots, pool_val)
    widest = 1.0
    for j in range(v.size):
        if S.ndim == 1:
            widest = max(widest, S[j])
        else:
            widest += S[j, j]  # the trace
    scalars[WIDEST] = widest


class DiagonalState(NamedTuple):
    """3 d + 6 floats, one generator, and 2 `capacity` rows."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    S: Annotated[Floats, Vector(Unit.WEIGHT_SQUARED)]  # 0 stands for 1
    scalars: Annotated[Floats, Fixed(6)]
    dense: Annotated[Floats, Scratch(np.float64)]  # zero between rows
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


class FullState(NamedTuple):
    """d^2 + 3 d + 6 floats, one generator, and 2 `capacity` rows."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    S: Annotated[Floats, Table(None, None, Unit.WEIGHT_SQUARED)]  # 0 on the diagonal stands for 1
    scalars: Annotated[Floats, Fixed(6)]
    dense: Annotated[Floats, Scratch(np.float64, 2)]  # the first half is zero between rows
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_DIAGONAL = Program(DiagonalState, step, score_row, settle)
_FULL = Program(FullState, step, score_row, settle)


@learner
class CBR(Learner):
    """Confidence-weighted bipartite ranking: each row against a buffer of the other class.

    The weights are a normal distribution; a step moves the uncertain ones most, so that rare features
    learn fast. Every step reads the whole buffer of the other class, half of `OAM`'s; `PSAM` costs less a
    row with a larger buffer, and its reservoir holds better where the stream is ordered.

    Parameters
    ----------
    covariance : {"diag", "full"}, default="diag"
        A variance a weight, or the whole covariance: for at most 4096 features, at ten times the
        cost on 123 of them; the test AUC on a9a is .8991 ± .0007 against .8980 ± .0007.
    C : float, default=2**-7
        In (0, inf). Largest alpha of a step, the smaller the longer the stream. [2]_ eq. (11).
    eta : float, default=0.7
        In (0.5, 1). Confidence with which a pair shall be ranked rightly. [2]_ eq. (10).
    capacity : int, default=50
        >= 1. Rows kept of each class. [1]_
    policy : {"reservoir", "fifo", "random"}, default="fifo"
        Which row a new one replaces: all seen equally likely kept; the oldest (the paper); any. Where the
        stream is ordered, "reservoir" and a larger capacity.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of the buffers' draws; None draws one at construction.

    Notes
    -----
    For x' in the buffer of the other class, in slot order, with z = x - x' (sign turned for a negative
    arrival), m = w'z, q = S z, v = z'q, phi the normal quantile of eta, and if phi sqrt(v) > m::

        alpha = min(C, (-m psi + sqrt(m^2 phi^4 / 4 + v phi^2 zeta)) / (v zeta))
        u     = ((-alpha v phi + sqrt(alpha^2 v^2 phi^2 + 4 v)) / 2)^2
        beta  = alpha phi / (sqrt(u) + v alpha phi)
        w    += alpha q,  S -= beta q q'

    with psi = 1 + phi^2 / 2, zeta = 1 + phi^2; then the row is offered to its own buffer. S starts at I;
    "diag" keeps its diagonal. The output is the last w. Time O(capacity nnz) a row for "diag"; for "full"
    O(d nnz) a pair and O(d^2) a step. Memory 24 bytes a feature and the buffered rows; "full" 8 d^2 more.

    Deviations: C is constant; an example's weight multiplies its C; S is that of kappa w, with a
    variance of 1 in the units in which a feature is first met; `kappa=None`.

    References
    ----------
    .. [1] Khalid, Ray, Chitsaz, "Confidence-Weighted Bipartite Ranking", ADMA 2016.
    .. [2] Wang, Zhao, Hoi, "Exact Soft Confidence-Weighted Learning", ICML 2012, Proposition 1 (SCW-I).

    Examples
    --------
    >>> from aucstream import CBR
    >>> model = CBR()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    covariance: Literal["diag", "full"] = "diag"
    C: Annotated[float, Gt(0)] = 2.0**-7
    eta: Annotated[float, Gt(0.5), Lt(1)] = 0.7
    capacity: Annotated[int, Ge(1), Size("buffered rows")] = 50
    policy: Literal["reservoir", "fifo", "random"] = "fifo"
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"C"})
    _random = True

    def _chosen_program(self) -> Program:
        return _DIAGONAL if self.covariance == "diag" else _FULL

    def _kernel_args(self) -> tuple[float, ...]:
        return (
            self.C,
            NormalDist().inv_cdf(self.eta),
            self.capacity,
            buffers.POLICIES[self.policy],
            self.kappa or 0.0,
        )

    def _slots(self) -> int:
        return 2 * self.capacity

    def _buffers(self) -> tuple[Buffer, ...]:
        return buffers_by_class(self.capacity, buffers.POLICIES[self.policy], SEEN_POS, SEEN_NEG)

    def _max_width(self) -> tuple[int, str] | None:
        return None if self.covariance == "diag" else (4096, "use covariance='diag'")

    def _init_state(self) -> None:
        self._field("scalars")[WIDEST] = 1.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"covariance": "full", "capacity": 4, "policy": "reservoir"}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"C": 1e6}
        yield {"C": 1e6, "covariance": "full"}
