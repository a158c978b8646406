"""OAM: online AUC maximization with a buffer of each class."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Size
from aucstream.kernels.jit import jit
from aucstream.kernels.pairs import buffers
from aucstream.kernels.pairs.buffers import extent
from aucstream.kernels.pairs.pairs import CANCELLED, move_along, products, square_gap
from aucstream.kernels.rows.arrival import LARGEST, LONGEST_ROW, admit_row, count_row
from aucstream.kernels.rows.linear import dot, dot2, norm, spread, wipe
from aucstream.kernels.weights.averages import fold
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.merging import Buffer, buffers_by_class
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Unit, Vector

# layout of State.scalars; updates averaged; rows offered to each buffer; upper bounds of |w| and of a
# buffered row's norm, which show beforehand that a step stays finite
CUM, STEPS, SEEN_POS, SEEN_NEG, REACH, LONGEST = range(6)
# with a half-life: what the newest iterate counts for in CUM, u and STEPS, where the first counted for 1; offers, faded
GROWTH, FADED_POS, FADED_NEG = range(6, 9)
FADING_SIZE = 9
GROWTH_RESET = 1e30  # fold beyond this: keeps all in range
SEQ, GRA = 0, 1
UPDATES = {"seq": SEQ, "gra": GRA}


@jit
def output(vx, ux, scalars, average):
    """Return the score from x'v and x'u."""
    if average == 0:
        return vx
    return (scalars[CUM] * vx - ux) / scalars[STEPS] if scalars[STEPS] > 0.0 else 0.0


@jit
def growth_of(scalars):
    """Return what the newest iterate counts for; 1 where nothing fades."""
    return scalars[GROWTH] if scalars.size == FADING_SIZE else 1.0


@jit
def fold_average(v, u, scalars):
    """Write -(sum of iterates) into u, the newest counting for 1; writes u, scalars. O(d)."""
    fold(v, u, 1.0, scalars[CUM])
    scalars[CUM] = 0.0
    growth = growth_of(scalars)
    if growth != 1.0:
        for j in range(u.size):
            u[j] /= growth
        scalars[STEPS] /= growth
        scalars[GROWTH] = 1.0


@jit
def update_seq(v, u, scalars, dense, slots, pool_idx, pool_val, idx, x, factor, xx, vx, sign, first, others, largest):
    """Passive-aggressive steps on all pairs, in slot order; writes v, u, scalars; [OAM] Alg. 3."""
    for slot in range(first, first + others):
        start, stop = extent(slots, slot)
        xb, vb, bb = products(start, stop, pool_idx, pool_val, dense, v)
        loss = 1.0 - sign * (vx - vb)
        if loss <= 0.0:
            continue
        zz = square_gap(idx, x, factor, xx, xb, bb, start, stop, pool_idx, pool_val, dense)
        if zz <= 0.0:
            continue
        a = largest if loss >= largest * zz else loss / zz
        h = sign * a
        move_along(idx, x, factor, h, scalars[CUM] * h, start, stop, pool_idx, pool_val, dense, v, u)
        if zz > CANCELLED * (xx + bb):
            vx += h * (xx - xb)
        else:
            vx = factor * dot(idx, x, v)
        scalars[REACH] += a * math.sqrt(zz)


@jit
def update_gra(v, u, scalars, dense, slots, pool_idx, pool_val, idx, x, factor, xx, vx, sign, first, others, largest):
    """One subgradient step on all pairs, margins of the old w; writes v, u, scalars; [OAM] Alg. 4.

    The second half of `dense` gathers the sum of z over the pairs within the margin.
    """
    d = v.size
    active = 0.0
    for slot in range(first, first + others):
        start, stop = extent(slots, slot)
        _, vb, bb = products(start, stop, pool_idx, pool_val, dense, v)
        if sign * (vx - vb) <= 1.0:
            active += 1.0
            scalars[REACH] += largest * (math.sqrt(xx) + math.sqrt(bb))
            for k in range(start, stop):
                dense[d + pool_idx[k]] -= pool_val[k]
    if active == 0.0:
        return
    for k in range(x.size):
        j = k if idx is None else idx[k]
        dense[d + j] += active * dense[j]
    h = sign * largest
    g = scalars[CUM] * h
    for slot in range(first, first + others):
        start = slots[slot, buffers.START]
        for k in range(start, start + slots[slot, buffers.LENGTH]):
            j = pool_idx[k]
            v[j] += h * dense[d + j]
            u[j] += g * dense[d + j]
            dense[d + j] = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        v[j] += h * dense[d + j]
        u[j] += g * dense[d + j]
        dense[d + j] = 0.0


@jit
def step(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger,
    idx, x, y, weight, update, C, capacity, policy, count, average, keep, kappa,
):  # fmt: skip
    """All pairs of one arrival; writes all state.

    Returns the score of the output weights before it; NaN where the row was skipped.
    """
    vx, ux = dot2(idx, x, v, u)
    score = output(vx, ux, scalars, average)
    length, factor, unit, ratio, mean, rows = admit_row(ledger, x, kappa)
    if y > 0.0:
        own, other, first, sign = SEEN_POS, SEEN_NEG, capacity, 1.0
    else:
        own, other, first, sign = SEEN_NEG, SEEN_POS, 0, -1.0
    others = min(np.int64(scalars[other]), capacity)
    largest = C
    if count != 0:
        offers = keep * scalars[FADED_POS + (other - SEEN_POS)] if keep < 1.0 else scalars[other]
        largest *= max(1.0, offers / capacity)
    largest = by_mean(ledger, y, weight) * largest / 2.0 / unit / unit
    top = max(scalars[LONGEST] * ratio, factor * length)
    farthest = scalars[REACH] + others * largest * 2.0 * top
    if not (
        math.isfinite(vx)
        and math.isfinite(score)
        and top < LONGEST_ROW
        and weight < LARGEST
        and farthest * (scalars[CUM] + 1.0) * max(1.0, top) < LARGEST
    ):
        return math.nan
    count_row(ledger, score, y, weight, mean, rows)
    scalars[LONGEST] = top
    if ratio != 1.0:
        buffers.rescale(ratio, slots, pool_val)
    scalars[own] += 1.0
    offered = np.int64(scalars[own])
    if keep < 1.0:
        scalars[GROWTH] /= keep
        if scalars[GROWTH] > GROWTH_RESET:
            fold_average(v, u, scalars)
        scalars[FADED_POS] *= keep
        scalars[FADED_NEG] *= keep
        faded = FADED_POS + (own - SEEN_POS)
        scalars[faded] += 1.0
        if policy == buffers.RESERVOIR and offered > capacity:
            offered = max(capacity + 1, np.int64(math.ceil(scalars[faded])))
    buffers.offer(
        generator, idx, x, factor, capacity - first, offered, capacity, policy, slots, pool_idx, pool_val
    )  # fmt: skip
    if others == 0:
        return score
    spread(idx, x, factor, dense)
    xx = (factor * length) * (factor * length)
    vx *= factor
    if update == SEQ:
        update_seq(
            v, u, scalars, dense, slots, pool_idx, pool_val, idx, x, factor, xx, vx, sign, first, others, largest
        )  # fmt: skip
    else:
        update_gra(
            v, u, scalars, dense, slots, pool_idx, pool_val, idx, x, factor, xx, vx, sign, first, others, largest
        )  # fmt: skip
    wipe(idx, x, dense)
    counts = growth_of(scalars)
    scalars[CUM] += counts
    scalars[STEPS] += counts
    return score


@jit
def score_row(
    v, u, scalars, dense, slots, pool_idx, pool_val, generator, ledger, idx, x,
    update, C, capacity, policy, count, average, keep, kappa,
):  # fmt: skip
    """Return the score of a row; changes nothing."""
    vx, ux = dot2(idx, x, v, u)
    return output(vx, ux, scalars, average)


@jit
def settle(v, u, scalars, dense, slots, pool_idx, pool_val, generator):
    """Fold the average: u = -(sum of iterates); recount both bounds. O(d + buffers)."""
    fold_average(v, u, scalars)
    scalars[REACH] = norm(v)
    scalars[LONGEST] = buffers.longest(slots, pool_val)


class State(NamedTuple):
    """4 d + 6 floats, one generator, and 2 `capacity` rows."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS), -1.0)]  # deferred average
    scalars: Annotated[Floats, Fixed(6)]
    dense: Annotated[Floats, Scratch(np.float64, 2)]  # zero between rows
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


class FadingState(NamedTuple):
    """That with a half-life: 3 floats more."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", STEPS), -1.0)]
    scalars: Annotated[Floats, Fixed(FADING_SIZE)]
    dense: Annotated[Floats, Scratch(np.float64, 2)]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM, _FADING = (Program(state, step, score_row, settle) for state in (State, FadingState))


@learner
class OAM(Learner):
    """Online AUC maximization: each row against a buffer of the other class, with the hinge loss.

    The earliest of the buffered learners; every step reads the whole buffer of the other class. `PSAM`
    costs less a row with a larger buffer and ranks a little better.

    Parameters
    ----------
    update : {"seq", "gra"}, default="seq"
        Passive-aggressive steps pair after pair, or one subgradient step over all pairs.
        [1]_ Algorithms 3 and 4.
    C : float, default=0.0625
        In (0, inf). Largest step on one pair is C/2. [1]_ eq. (3).
    capacity : int, default=100
        >= 1. Rows kept of each class; N+ and N- of [1]_.
    policy : {"reservoir", "fifo", "random"}, default="reservoir"
        Which row a new one replaces: all seen equally likely kept (the paper); the oldest, about half a
        point better on shuffled streams and worse on ordered ones; any.
    weighting : {"none", "count"}, default="none"
        "count" multiplies C by rows seen of the other class over `capacity`, as in [1]_.
    average : bool, default=True
        Whether the output is the average of the iterates, else the last.
    half_life : float or None, default=None
        In [1, inf). Rows after which iterates and offered rows count half; None: all count the same. For streams that
        change: with 1,000 to 10,000 both the average and the buffers follow.
    kappa : float or None, default=None
        In (0, inf). Largest row norm. None: a running root mean square takes its place, so that rows
        of any scale work; a number gives the paper's literal form.
    seed : int or None, default=0
        Of the buffers' draws; None draws one at construction.

    Notes
    -----
    An arrival x is offered to its own buffer; then, for x' in the buffer of the other class, in slot
    order, with z = x - x' (sign turned for a negative arrival)::

        seq:  l = 1 - w'z,  w += min(C_t/2, l / z'z) z  if l > 0
        gra:  w += (C_t/2) z  if w0'z <= 1,  w0 the weights before the row

    and wbar averages the w after each arrival. With a `half_life` h every arrival first multiplies what the earlier ones
    count for in wbar, and the number of rows offered to each buffer, by 2^(-1/h); a full reservoir takes a row as
    `PSAM` says, and `weighting` goes by that number. Time O(capacity nnz) a row; memory 32 bytes a feature
    and the buffered rows.

    Deviations: one draw an offer instead of two, of the same law; equal rows are skipped; C without
    the count by default, since the step then grows with t and the weights never settle; an example's
    weight multiplies its C, where weights above 2 in the mean are divided by that of the heavier class and none
    counts more than 2; `kappa=None`.

    References
    ----------
    .. [1] Zhao, Hoi, Jin, Yang, "Online AUC Maximization", ICML 2011, Algorithms 1-4.

    Examples
    --------
    >>> from aucstream import OAM
    >>> model = OAM()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > model.score_one({"a": -1.0})
    True
    """

    update: Literal["seq", "gra"] = "seq"
    C: Annotated[float, Gt(0)] = 0.0625
    capacity: Annotated[int, Ge(1), Size("buffered rows")] = 100
    policy: Literal["reservoir", "fifo", "random"] = "reservoir"
    weighting: Literal["none", "count"] = "none"
    average: bool = True
    half_life: Annotated[float | None, Ge(1)] = None
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties = frozenset({"C"})
    _random = True

    def _chosen_program(self) -> Program:
        return _PROGRAM if self.half_life is None else _FADING

    def _init_state(self) -> None:
        if self.half_life is not None:
            self._field("scalars")[GROWTH] = 1.0

    def _added(self) -> list[tuple[str, int]]:
        faded = [("scalars", FADED_POS), ("scalars", FADED_NEG)] if self.half_life is not None else []
        return [*super()._added(), *faded]

    def _kernel_args(self) -> tuple[float, ...]:
        return (
            UPDATES[self.update],
            self.C,
            self.capacity,
            buffers.POLICIES[self.policy],
            int(self.weighting == "count"),
            int(self.average),
            1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life),
            self.kappa or 0.0,
        )

    def _slots(self) -> int:
        return 2 * self.capacity

    def _buffers(self) -> tuple[Buffer, ...]:
        return buffers_by_class(self.capacity, buffers.POLICIES[self.policy], SEEN_POS, SEEN_NEG)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"update": "gra", "policy": "fifo", "capacity": 10}
        yield {"weighting": "count", "average": False, "capacity": 10, "policy": "random"}
        yield {"half_life": 50.0, "capacity": 10}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"C": 1e6}
        yield {"C": 1e6, "update": "gra"}
