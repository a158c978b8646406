"""What the learners of a loss of one score share: state, programs, base class."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from aucstream.block import Floats, Ints
from aucstream.kernels.weights import univariate as kernel
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner
from aucstream.learners._base.state import Fixed, Offset, Program, Unit, Vector


class State(NamedTuple):
    """d + 5 floats."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    scalars: Annotated[Floats, Fixed(kernel.SIZE)]


def _program(intercept: bool) -> Program:
    return Program(
        State,
        kernel.step,
        kernel.score_row,
        kernel.settle,
        (Offset("scalars", kernel.INTERCEPT, "v", sign=-1.0),) if intercept else (),
        intercept,
    )


_WITH_INTERCEPT, _WITHOUT = _program(True), _program(False)


class Univariate(Learner):
    """Base of the learners that `kernels.weights.univariate` steps; they have a parameter `intercept`."""

    intercept: bool

    _capabilities = Learner._capabilities | {Capability.ONE_CLASS}

    def _chosen_program(self) -> Program:
        return _WITH_INTERCEPT if self.intercept else _WITHOUT

    def _init_state(self) -> None:
        self._field("scalars")[kernel.SCALE] = 1.0

    def _added(self) -> list[tuple[str, int]]:
        return [("scalars", kernel.POSITIVE), ("scalars", kernel.NEGATIVE)]

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        fields["scalars"][kernel.INTERCEPT] = intercept

    def _coefficients_at(self, columns: Ints) -> Floats:
        """Return the weights (n,) of the score in these columns, without the intercept."""
        self._ensure(self._encoder.width)
        w: Floats = self._field("v")[columns] * self._field("scalars")[kernel.SCALE]
        return w
