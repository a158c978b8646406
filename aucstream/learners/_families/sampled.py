"""What `PSAM` and `ASAM` share: parameters, state, program and Algorithm 1 over a fixed set."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt, Size
from aucstream.kernels.pairs import buffers, sampled_pairs
from aucstream.kernels.pairs.sampled_pairs import (
    ACOUNT,
    AVERAGED,
    FADED_NEG,
    FADED_POS,
    FADING_SIZE,
    GROWTH,
    LONGEST,
    RCOUNT,
    SCALE,
    SEEN_NEG,
    SEEN_POS,
)
from aucstream.kernels.rows.arrival import LONGEST_ROW
from aucstream.kernels.rows.row_scale import scale_rows
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.merging import Buffer, buffers_by_class
from aucstream.learners._base.state import Fixed, PoolIdx, PoolVal, Program, Scratch, Slots, Unit, Vector
from aucstream.learners._families.fixed_set import columns_of, final_scores, start_anew


class State(NamedTuple):
    """3 d + 10 floats, one generator, and 2 `capacity` rows."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", AVERAGED), -1.0)]  # deferred average
    scalars: Annotated[Floats, Fixed(10)]
    dense: Annotated[Floats, Scratch(np.float64)]  # zero between rows
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


class FadingState(NamedTuple):
    """That of a learner that fades: 3 floats more."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", AVERAGED), -1.0)]
    scalars: Annotated[Floats, Fixed(FADING_SIZE)]
    dense: Annotated[Floats, Scratch(np.float64)]
    slots: Annotated[Ints, Slots()]
    pool_idx: Annotated[Ints, PoolIdx()]
    pool_val: Annotated[Floats, PoolVal()]
    generator: Annotated[np.ndarray, Fixed(1, np.uint64)]


_PROGRAM, _FADING = (
    Program(state, sampled_pairs.step, sampled_pairs.score_row, sampled_pairs.settle) for state in (State, FadingState)
)


@learner
class SampledPairs(Learner):
    """Base of the learners on sampled pairs; they differ in the step on one pair."""

    lam: Annotated[float, Gt(0)] = 1e-5
    t0: Annotated[float | None, Ge(0)] = None
    rskip: Annotated[int, Ge(1)] = 16
    askip: Annotated[int, Ge(1)] = 1
    fresh: Annotated[int, Ge(0)] = 5
    replay: Annotated[int, Ge(0)] = 0
    capacity: Annotated[int, Ge(1), Size("buffered rows")] = 1000
    policy: Literal["reservoir", "fifo", "random"] = "reservoir"
    half_life: Annotated[float | None, Ge(1)] = None
    kappa: Annotated[float | None, Gt(0)] = None
    seed: int | None = 0

    _steps_and_penalties: ClassVar[frozenset[str]] = frozenset({"lam", "t0"})
    _random = True

    def _loss_code(self) -> int:
        """Return which step a pair takes, one of `kernels.pairs.sampled_pairs`."""
        raise NotImplementedError

    def _chosen_program(self) -> Program:
        return _PROGRAM if self.half_life is None else _FADING

    def _kernel_args(self) -> tuple[float, ...]:
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
            1.0 if self.half_life is None else 2.0 ** (-1.0 / self.half_life),
            self._loss_code(),
            self.kappa or 0.0,
        )

    def _slots(self) -> int:
        return 2 * self.capacity

    def _buffers(self) -> tuple[Buffer, ...]:
        return buffers_by_class(self.capacity, buffers.POLICIES[self.policy], SEEN_POS, SEEN_NEG)

    def _init_state(self) -> None:
        scalars = self._field("scalars")
        scalars[SCALE] = 1.0
        scalars[RCOUNT] = self.rskip
        scalars[ACOUNT] = self.askip
        if self.half_life is not None:
            scalars[GROWTH] = 1.0

    def _added(self) -> list[tuple[str, int]]:
        faded = [("scalars", FADED_POS), ("scalars", FADED_NEG)] if self.half_life is not None else []
        return [*super()._added(), *faded]

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and run Algorithm 1 over (X, y): `epochs` times n pair steps; calibrate at the end.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
        y : array (n,)
        epochs : int
            >= 1.

        Returns
        -------
        self

        Raises
        ------
        NonFiniteStep
            The weights would not have stayed finite; the model is as right after construction.
        """
        block = start_anew(self, X, y, epochs)
        n, signs = len(block), block.y
        lam, t0, rskip, askip, _, _, capacity, policy, _, loss, kappa = self._kernel_params
        indptr, idx, val = block.indptr, columns_of(block), block.values
        factors, scaled = np.empty(n), np.empty(val.size)
        unit = scale_rows(indptr, val, signs, factors, scaled, self._ledger, LONGEST_ROW, kappa)
        slots = np.zeros((2 * n + 1, 3), dtype=np.int64)
        scalars, generator = self._field("scalars"), self._field("generator")
        for label, first, seen in ((1.0, 0, SEEN_POS), (-1.0, n, SEEN_NEG)):
            rows = np.flatnonzero((signs == label) & (factors >= 0.0))
            slots[first : first + rows.size, buffers.START] = indptr[rows]
            slots[first : first + rows.size, buffers.LENGTH] = indptr[rows + 1] - indptr[rows]
            scalars[seen] = rows.size
        sampled_pairs.replay_pairs(
            self._field("v"), self._field("u"), scalars, self._field("dense"), slots, idx, scaled, generator,
            int(epochs) * n, lam, t0, rskip, askip, n, loss, unit,
        )  # fmt: skip
        scalars[[SEEN_POS, SEEN_NEG]] = 0.0
        self._reserve(val.size, int(np.diff(indptr).max(initial=0)))
        sampled_pairs.fill_buffers(
            scalars, self._field("slots"), self._field("pool_idx"), self._field("pool_val"), generator,
            indptr, idx, scaled, signs, factors, capacity, policy,
        )  # fmt: skip
        if self.half_life is not None:
            scalars[[FADED_POS, FADED_NEG]] = scalars[[SEEN_POS, SEEN_NEG]]
        scalars[LONGEST] = buffers.longest(self._field("slots"), self._field("pool_val"))
        self._calibrate_on(final_scores(self, block), signs)
        return self
