"""What SOLAM on an l2 ball and regSOLAM share: the declared state and the program."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from aucstream.block import Floats, Ints
from aucstream.kernels.weights import l2ball, saddle
from aucstream.learners._base.state import Fixed, Offset, Program, Unit, Vector


class L2State(NamedTuple):
    """State on the l2 ball: 2 d + 10 floats."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]  # weights / scale
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", saddle.GSUM), -1.0)]  # deferred average
    scalars: Annotated[Floats, Fixed(saddle.SIZE)]


class FadingL2State(NamedTuple):
    """That with a half-life: a float more."""

    v: Annotated[Floats, Vector(Unit.WEIGHT)]
    u: Annotated[Floats, Vector(Unit.WEIGHT, ("scalars", saddle.GSUM), -1.0)]
    scalars: Annotated[Floats, Fixed(saddle.FADING_SIZE)]


L2_BALL, FADING_L2_BALL = (
    Program(
        state,
        l2ball.step_l2,
        l2ball.score_l2,
        l2ball.settle_l2,
        (Offset("scalars", saddle.A, "v"), Offset("scalars", saddle.B, "v")),
    )
    for state in (L2State, FadingL2State)
)


def forget_norm(fields: dict[str, Any], columns: Ints) -> None:
    """Take the weights of columns (n,) out of the squared norm."""
    scalars, weights = fields["scalars"], fields["v"][columns]
    scalars[saddle.NORM2] = max(0.0, scalars[saddle.NORM2] - (weights * weights).sum())
