"""PSAM: proximal stochastic AUC maximization, one sampled pair at a time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple, Self

import numpy as np

from aucstream.block import Floats, Ints, signs_of
from aucstream.constraints import Ge, Gt
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.features.intake import array_block
from aucstream.features.vocabulary import Vocabulary
from aucstream.kernels import buffers
from aucstream.kernels.averages import SCALE_RESET, fold
from aucstream.kernels.calibration import calibrate
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import POSITIVES, ROWS
from aucstream.kernels.linear import dot, dot2, norm
from aucstream.kernels.pairs import CANCELLED, move_along, products, spread, square_gap, wipe
from aucstream.kernels.random import below
from aucstream.kernels.row_scale import next_scale, restart_ratio, store_scale
from aucstream.learners.base import Learner, learner
from aucstream.learners.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Unit, Vector

# layout of State.scalars: q, r-count, a-count of Algorithm 1; rows offered to each buffer; upper
# bounds of |w| and of a buffered row's norm, which show beforehand that a step stays finite
SCALE, CUM, STEPS, AVERAGED, RCOUNT, ACOUNT, SEEN_POS, SEEN_NEG, REACH, LONGEST = range(10)
LARGEST = 1e290  # a change of a state entry beyond this is refused before it is written
LONGEST_ROW = 1e140  # a longer row is refused: |z|^2 must stay finite


@jit
def step_pair(
    v, u, scalars, dense, pool_idx, pool_val,
    idx, x, factor, xx, vx, sign, start, stop, weight, lam, t0, rskip, askip, unit,
):  # fmt: skip
    """One step on z = sign (x - b), b at start..stop of the pool; `dense` holds x; [PSAM] Alg. 1.

    Writes v, u, scalars; returns v'x after it. `vx` = v'x before it, `xx` = |x|^2, both with `factor`.
    """
    xb, vb, bb = products(start, stop, pool_idx, pool_val, dense, v)
    zz = square_gap(idx, x, factor, xx, xb, bb, start, stop, pool_idx, pool_val, dense)
    t = scalars[STEPS] + 1.0
    eta = weight / (lam * (t + t0)) / unit / unit
    loss = 1.0 - scalars[SCALE] * sign * (vx - vb)
    if loss > 0.0 and zz > 0.0:
        # prox of eta (1 - w'z)_+: the full step, or the one that lands on margin 1
        a = eta if loss >= eta * zz else loss / zz
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
        scalars[SCALE] *= 1.0 - rskip / (t + t0)
        scalars[RCOUNT] = rskip
    scalars[ACOUNT] -= 1.0
    if scalars[ACOUNT] <= 0.0:
        scalars[CUM] += scalars[SCALE]
        scalars[AVERAGED] += 1.0
        scalars[ACOUNT] = askip
    if scalars[SCALE] < SCALE_RESET:
        vx *= scalars[SCALE]
        _fold(v, u, scalars)
    return vx


@jit
def replay_pairs(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, count, lam, t0, rskip, askip, capacity, unit
):
    """`count` steps on pairs of buffered rows, i (positive) drawn before j (negative); writes all state."""
    positives = min(np.int64(scalars[SEEN_POS]), capacity)
    negatives = min(np.int64(scalars[SEEN_NEG]), capacity)
    if positives == 0 or negatives == 0:
        return
    for _ in range(count):
        i = below(generator, positives)
        j = capacity + below(generator, negatives)
        a = slots[i, buffers.START]
        b = a + slots[i, buffers.LENGTH]
        idx, x = pool_idx[a:b], pool_val[a:b]
        length = norm(x)
        spread(idx, x, 1.0, dense)
        start = slots[j, buffers.START]
        step_pair(
            v, u, scalars, dense, pool_idx, pool_val,
            idx, x, 1.0, length * length, dot(idx, x, v), 1.0, start, start + slots[j, buffers.LENGTH],
            1.0, lam, t0, rskip, askip, unit,
        )  # fmt: skip
        wipe(idx, x, dense)


@jit
def step(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
):  # fmt: skip
    """All steps of one arrival; writes all state.

    Returns the score of the output weights before them; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    score = scalars[SCALE] * vx
    if scalars[AVERAGED] > 0.0:
        score = (scalars[CUM] * vx - ux) / scalars[AVERAGED]
    length = norm(x)
    scale, factor, mean, rows = next_scale(ledger, length, kappa)
    unit = scale if kappa == 0.0 and scale > 0.0 else 1.0
    ratio = restart_ratio(ledger, scale, rows, kappa)
    top = max(scalars[LONGEST] * ratio, factor * length)
    farthest = (fresh * weight + replay) / (lam * (scalars[STEPS] + 1.0 + t0)) / unit / unit * 2.0 * top
    farthest += scalars[REACH]
    sums = scalars[CUM] + fresh + replay
    if not (
        math.isfinite(vx)
        and math.isfinite(score)
        and top < LONGEST_ROW
        and farthest / SCALE_RESET * max(1.0, sums) * max(1.0, top) < LARGEST
    ):
        return math.nan
    calibrate(ledger, score, y, weight)
    store_scale(ledger, mean, rows)
    ledger[ROWS] += 1.0
    scalars[LONGEST] = top
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    if y > 0.0:
        ledger[POSITIVES] += 1.0
        own, seen, first, sign = SEEN_POS, SEEN_NEG, capacity, 1.0
    else:
        own, seen, first, sign = SEEN_NEG, SEEN_POS, 0, -1.0
    held = min(np.int64(scalars[seen]), capacity)
    if held > 0 and fresh > 0:
        spread(idx, x, factor, dense)
        xx = (factor * length) * (factor * length)
        vx *= factor
        for _ in range(fresh):
            j = first + below(generator, held)
            start = slots[j, buffers.START]
            vx = step_pair(
                v, u, scalars, dense, pool_idx, pool_val,
                idx, x, factor, xx, vx, sign, start, start + slots[j, buffers.LENGTH],
                weight, lam, t0, rskip, askip, unit,
            )  # fmt: skip
        wipe(idx, x, dense)
    scalars[own] += 1.0
    buffers.offer(
        generator,
        idx,
        x,
        factor,
        capacity - first,
        np.int64(scalars[own]),
        capacity,
        policy,
        slots,
        pool_idx,
        pool_val,
    )
    replay_pairs(
        v,
        u,
        scalars,
        dense,
        slots,
        pool_idx,
        pool_val,
        generator,
        replay,
        lam,
        t0,
        rskip,
        askip,
        capacity,
        unit,
    )
    return score


@jit
def learn_block(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, indptr, idx, val, y, weights, out,
    lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
):  # fmt: skip
    """One arrival a row; out (n,) gets the score before each."""
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = step(
                v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
                None, val[a:b], y[i], weights[i],
                lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
            )  # fmt: skip
        else:
            out[i] = step(
                v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
                idx[a:b], val[a:b], y[i], weights[i],
                lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
            )  # fmt: skip


@jit
def score_row(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, idx, x,
    lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    if scalars[AVERAGED] > 0.0:
        return (scalars[CUM] * vx - ux) / scalars[AVERAGED]
    return scalars[SCALE] * vx


@jit
def score_block(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, indptr, idx, val, out,
    lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
):  # fmt: skip
    """Write the score of each row to out (n,); changes nothing else."""
    for i in range(out.size):
        a, b = indptr[i], indptr[i + 1]
        if idx is None:
            out[i] = score_row(
                v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, None, val[a:b],
                lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
            )  # fmt: skip
        else:
            out[i] = score_row(
                v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, idx[a:b], val[a:b],
                lam, t0, rskip, askip, fresh, replay, capacity, policy, kappa,
            )  # fmt: skip


@jit
def _fold(v, u, scalars):
    fold(v, u, scalars[SCALE], scalars[CUM])
    scalars[SCALE] = 1.0
    scalars[CUM] = 0.0


@jit
def settle(v, u, scalars, dense, slots, pool_idx, pool_val, generator):
    """Fold the scale: v = w, u = -(sum of iterates), scale 1; recount both bounds. O(d + buffers)."""
    _fold(v, u, scalars)
    scalars[REACH] = norm(v)
    scalars[LONGEST] = buffers.longest(slots, pool_val)


@jit
def scale_rows(indptr, val, y, factors, scaled, ledger, kappa):
    """Take all rows into the scale in order, as arrivals do; returns the last kappa_t.

    Writes scaled (nnz,), factors (n,) (that of each row; -1: refused) and ledger.
    """
    unit = 1.0
    for i in range(y.size):
        a, b = indptr[i], indptr[i + 1]
        length = norm(val[a:b])
        scale, factor, mean, rows = next_scale(ledger, length, kappa)
        if not factor * length < LONGEST_ROW:
            factors[i] = -1.0
            continue
        ratio = restart_ratio(ledger, scale, rows, kappa)
        if ratio != 1.0:
            for k in range(a):
                scaled[k] *= ratio
        store_scale(ledger, mean, rows)
        factors[i] = factor
        for k in range(a, b):
            scaled[k] = factor * val[k]
        if kappa == 0.0 and scale > 0.0:
            unit = scale
        ledger[ROWS] += 1.0
        if y[i] > 0.0:
            ledger[POSITIVES] += 1.0
    return unit


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


class State(NamedTuple):
    """3 d + 10 floats, one generator, and 2 `capacity` rows."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT)]  # deferred average
    scalars: Annotated[Floats, Fixed(10)]
    dense: Annotated[Floats, Scratch(np.float64)]  # zero between rows
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM = Program(State, step, learn_block, score_row, score_block, settle)


@learner
class PSAM(Learner):
    """Proximal stochastic AUC maximization: the pairwise hinge loss on sampled pairs.

    Each row is paired with a few buffered rows of the other class. The reservoir makes it robust where
    covariates wander or the stream is ordered; on shuffled streams `policy="fifo"` is slightly better.

    Parameters
    ----------
    lam : float, default=1e-5
        In (0, inf). Penalty lam/2 \\|w\\|^2; gamma of [1]_ Algorithm 1 (lambda of its eq. 1).
    t0 : float or None, default=None
        In [0, inf). Step eta_t = 1 / (lam (t + t0)); None: 1/lam, a first step of 1.
    rskip : int, default=16
        >= 1. Pair steps between two shrinks of the weights. [1]_ Algorithm 1.
    askip : int, default=1
        >= 1. Pair steps between two iterates that enter the average. [1]_ Algorithm 1.
    fresh : int, default=5
        >= 0. Pairs of an arriving row with buffered rows of the other class.
    replay : int, default=0
        >= 0. Further pairs of two buffered rows, after an arrival.
    capacity : int, default=1000
        >= 1. Rows kept of each class.
    policy : {"reservoir", "fifo", "random"}, default="reservoir"
        Which row a new one replaces: all seen equally likely kept; the oldest; any.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of all draws; None draws one at construction.

    Notes
    -----
    A step on the pair z = x+ - x-, t = 1, 2, ..::

        eta = 1 / (lam (t + t0)),  w += min(eta, (1 - w'z) / z'z) z  if w'z < 1
        every rskip steps:  w *= 1 - rskip / (t + t0)
        every askip steps:  wbar = (q wbar + w) / (q + 1),  q += 1

    the first line being the proximal step of eta (1 - w'z)_+. Arrivals: `fresh` steps against uniform
    slots of the other class, then the row is offered to its own buffer, then `replay` steps. The output
    is wbar. Time O(nnz) a pair; memory 24 bytes a feature and the buffered rows.

    `fit` is Algorithm 1 over the fixed set: epochs times n steps on uniform pairs of its rows; the
    streaming form with `fresh=0`, room for all rows and replay alone equals it bit for bit.

    Deviations: pairs come from buffers instead of the whole set; an example's weight multiplies eta of its
    fresh pairs; the appendix's proximal step where section III of the paper prints another derivative;
    before the first average the output is w; `kappa=None`.

    References
    ----------
    .. [1] Khalid, Ray, Chitsaz, "Proximal Stochastic AUC Maximization", Algorithm 1 and appendix.
    .. [2] Bordes, Bottou, Gallinari, "SGD-QN", JMLR 2009, for the schedules of shrink and average.

    Examples
    --------
    >>> from aucstream import PSAM
    >>> model = PSAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    lam: Annotated[float, Gt(0)] = 1e-5
    t0: Annotated[float | None, Ge(0)] = None
    rskip: Annotated[int, Ge(1)] = 16
    askip: Annotated[int, Ge(1)] = 1
    fresh: Annotated[int, Ge(0)] = 5
    replay: Annotated[int, Ge(0)] = 0
    capacity: Annotated[int, Ge(1)] = 1000
    policy: Literal["reservoir", "fifo", "random"] = "reservoir"
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"lam", "t0"})
    _random = True

    def _chosen_program(self) -> Program:
        return _PROGRAM

    def _numbers(self) -> tuple[float, ...]:
        t0 = 1.0 / self.lam if self.t0 is None else self.t0
        return (
            self.lam,
            t0,
            float(self.rskip),
            float(self.askip),
            self.fresh,
            self.replay,
            self.capacity,
            buffers.POLICIES[self.policy],
            self.kappa or 0.0,
        )

    def _slots(self) -> int:
        return 2 * self.capacity

    def _begin(self) -> None:
        scalars = self._field("scalars")
        scalars[SCALE] = 1.0
        scalars[RCOUNT] = self.rskip
        scalars[ACOUNT] = self.askip

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and run Algorithm 1 over (X, y): `epochs` times n pair steps; calibrate at the end.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1.

        Raises
        ------
        NonFiniteStep
            The weights would not have stayed finite; the model is as right after construction.
        """
        if not isinstance(epochs, (int, np.integer)) or epochs < 1:
            raise InvalidParams("fit.epochs", "an integer >= 1", epochs)
        probe = array_block(Vocabulary(), X, learn=True)
        n = len(probe)
        signs = signs_of(y, n)
        self._reset()
        block = array_block(self._encoder, X, signs, np.ones(n), learn=True)
        self._ensure(block.width)
        lam, t0, rskip, askip, _, _, capacity, policy, kappa = self._kernel_params
        indptr, idx, val = block.indptr, block.indices, block.values
        if idx is None:
            idx = np.tile(np.arange(block.width, dtype=np.int64), n)
        factors, scaled = np.empty(n), np.empty(val.size)
        unit = scale_rows(indptr, val, signs, factors, scaled, self._ledger, kappa)
        slots = np.zeros((2 * n + 1, 3), dtype=np.int64)
        scalars, generator = self._field("scalars"), self._field("generator")
        for kept, first, seen in ((signs > 0, 0, SEEN_POS), (signs < 0, n, SEEN_NEG)):
            rows = np.flatnonzero(kept & (factors >= 0.0))
            slots[first : first + rows.size, buffers.START] = indptr[rows]
            slots[first : first + rows.size, buffers.LENGTH] = indptr[rows + 1] - indptr[rows]
            scalars[seen] = rows.size
        replay_pairs(
            self._field("v"), self._field("u"), scalars, self._field("dense"), slots, idx, scaled, generator,
            int(epochs) * n, lam, t0, rskip, askip, n, unit,
        )  # fmt: skip
        scalars[[SEEN_POS, SEEN_NEG]] = 0.0
        self._reserve(val.size, int(np.diff(indptr).max(initial=0)))
        fill_buffers(
            scalars, self._field("slots"), self._field("pool_idx"), self._field("pool_val"), generator,
            indptr, idx, scaled, signs, factors, capacity, policy,
        )  # fmt: skip
        scalars[LONGEST] = buffers.longest(self._field("slots"), self._field("pool_val"))
        scores = self._score(block)
        if not np.isfinite(scores).all():
            self._reset()
            raise NonFiniteStep("PSAM.fit", np.flatnonzero(~np.isfinite(scores)).tolist(), scores)
        self._calibrate_on(scores, signs)
        return self

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"policy": "fifo", "capacity": 5, "fresh": 1, "replay": 2}
        yield {"policy": "random", "capacity": 3, "rskip": 1, "askip": 3}
