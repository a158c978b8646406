"""How a learner declares its state: one annotated NamedTuple of arrays.

    class State(NamedTuple):
        v: Annotated[Floats, Vector(Unit.WEIGHT)]
        scalars: Annotated[Floats, Fixed(9)]

From the declaration the base class makes, grows, copies and saves the arrays, and carries them over
when a scaler changes the units of the features. A learner never hides state elsewhere.
"""

from __future__ import annotations

import enum
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from aucstream.block import Floats
from aucstream.kernels.jit import RowCall
from aucstream.kernels.loops import learn_loop, score_loop


class Unit(enum.Enum):
    """What a vector's entries are measured in, per feature."""

    NONE = "none"
    WEIGHT = "score per unit"
    WEIGHT_SQUARED = "its square: covariances of weights"
    ROW_SUM = "weighted sum of rows"
    ROW_MEAN = "weighted mean of rows"
    ROW_CHANGE = "sum of rows whose factors add up to nothing"
    ROW_SQUARED = "scatter of rows about their mean, sums of squared gradients"
    OWN = "the learner's own: see `Learner._carry_own`"


@dataclass(frozen=True, slots=True)
class Vector:
    """float64 (d,), grows with the features.

    For ROW_SUM and ROW_MEAN, `count` names (field, position) of the weighted number of rows in it; for WEIGHT
    that of the (weighted) number of iterates, where the settled vector is their sum, or minus it (`sign`).
    """

    unit: Unit = Unit.NONE
    count: tuple[str, int] | None = None
    sign: float = 1.0


@dataclass(frozen=True, slots=True)
class Table:
    """float64 (rows, columns); None stands for the features, and grows with them.

    A number may be the name of one of `Learner._sizes`. For ROW_SUM, `count` names a field (columns,) with
    the weighted number of rows in each column; for a scatter, ROW_SQUARED, `mean` names the field of the mean.
    """

    rows: int | str | None
    columns: int | str | None
    unit: Unit = Unit.NONE
    count: str | None = None
    mean: str | None = None

    def shape(self, width: int, sizes: Mapping[str, int]) -> tuple[int, int]:
        """Return the shape for `width` features."""
        rows = width if self.rows is None else _size(self.rows, sizes)
        columns = width if self.columns is None else _size(self.columns, sizes)
        return rows, columns

    def cut(self, array: Floats, width: int) -> Floats:
        """Return the part of `array` that belongs to the first `width` features, a view."""
        if self.rows is None:
            array = array[:width]
        return array[:, :width] if self.columns is None else array


@dataclass(frozen=True, slots=True)
class Scratch:
    """Working space (per_column * d + extra,), never saved; a kernel may not rely on its contents.

    `extra` may be the name of one of `Learner._sizes`.
    """

    dtype: type
    per_column: int = 1
    extra: int | str = 0


@dataclass(frozen=True, slots=True)
class Fixed:
    """An array of fixed size: a number, or the name of one of `Learner._sizes`."""

    size: int | str
    dtype: type = np.float64


@dataclass(frozen=True, slots=True)
class Slots:
    """int64 (slots + 1, 3): where each buffered row lies in the pool; see `kernels.pairs.buffers`."""


@dataclass(frozen=True, slots=True)
class PoolIdx:
    """int64: columns of all buffered rows."""


@dataclass(frozen=True, slots=True)
class PoolVal:
    """float64: values of all buffered rows."""


Part = Vector | Table | Scratch | Fixed | Slots | PoolIdx | PoolVal


@dataclass(frozen=True, slots=True)
class Offset:
    """A scalar that stands for the score of a constant: it moves by -weights'shift.

    `sign` is -1 where the vector holds the negative of what multiplies it, and for an intercept, which
    takes up what the shift takes from the score.
    """

    field: str
    position: int
    weights: str
    sign: float = 1.0


def _settled(*state: np.ndarray) -> None:
    """Nothing is owed."""


@dataclass(frozen=True)
class Program:
    """One algorithm: its state and its compiled functions.

    Attributes
    ----------
    state : type
        The annotated NamedTuple.
    learn_row : function
        (*state, ledger, idx, x, y, weight, *params) -> score before the step; NaN where it was skipped.
    score_row : function
        (*state, ledger, idx, x, *params) -> score.
    settle : function
        (*state): fold scales and deferred sums, so that vectors are plain (scale 1, nothing owed). Without one
        they always are.
    offsets : tuple of Offset
    intercept : bool
        Scores have an intercept that takes up shifts of the features: a change of units moves no score.
    has_room : function or None
        (*state, ledger, *params) -> whether the arrays have room for a step; where they have none, `learn_row` changes
        nothing and returns NaN. None: they always have, but for the pool of buffered rows.
    learn_block, score_block : function
        Their loops over the rows of a block, see `kernels.loops`.
    """

    state: type
    learn_row: Callable[..., float]
    score_row: Callable[..., float]
    settle: Callable[..., None] = _settled
    offsets: tuple[Offset, ...] = ()
    intercept: bool = False
    has_room: Callable[..., bool] | None = None
    parts: dict[str, Part] = field(init=False)
    learn_block: Callable[..., None] = field(init=False)
    score_block: Callable[..., None] = field(init=False)
    _row_calls: dict[tuple[type, ...], tuple[RowCall, RowCall]] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        hints = typing.get_type_hints(self.state, include_extras=True)
        parts = {
            name: next(m for m in typing.get_args(hint)[1:] if isinstance(m, Part)) for name, hint in hints.items()
        }
        size = len(parts) + 1  # the ledger
        for name, value in (
            ("parts", parts),
            ("learn_block", learn_loop(self.learn_row, size)),
            ("score_block", score_loop(self.score_row, size)),
        ):
            object.__setattr__(self, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> Program:
        return self

    def row_calls(self, numbers: tuple[type, ...]) -> tuple[RowCall, RowCall]:
        """Return `learn_row` and `score_row` as Python calls them with parameters of these types."""
        calls = self._row_calls.get(numbers)
        if calls is None:
            calls = RowCall(self.learn_row, float, float, *numbers), RowCall(self.score_row, *numbers)
            self._row_calls[numbers] = calls
        return calls

    def new_arrays(self, width: int, slots: int, sizes: Mapping[str, int]) -> tuple[np.ndarray, ...]:
        """Return fresh arrays, all zero, for `width` columns and `slots` buffered rows."""
        return tuple(_new_array(part, width, slots, sizes) for part in self.parts.values())

    def bytes_at(self, arrays: tuple[np.ndarray, ...], width: int, sizes: Mapping[str, int]) -> int:
        """Return the bytes of the arrays when they have so many columns; none of them is made."""
        return sum(
            array.itemsize * _cells(part, array, width, sizes)
            for part, array in zip(self.parts.values(), arrays, strict=True)
        )

    def widened(self, arrays: tuple[np.ndarray, ...], width: int) -> tuple[np.ndarray, ...]:
        """Return the arrays for more columns; new entries are zero."""
        return tuple(_widened(part, array, width) for part, array in zip(self.parts.values(), arrays, strict=True))


def _size(size: int | str, sizes: Mapping[str, int]) -> int:
    return sizes[size] if isinstance(size, str) else size


def _new_array(part: Part, width: int, slots: int, sizes: Mapping[str, int]) -> np.ndarray[Any, Any]:
    if isinstance(part, Vector):
        return np.zeros(width)
    if isinstance(part, Table):
        return np.zeros(part.shape(width, sizes))
    if isinstance(part, Scratch):
        return np.zeros(part.per_column * width + _size(part.extra, sizes), dtype=part.dtype)
    if isinstance(part, Fixed):
        return np.zeros(_size(part.size, sizes), dtype=part.dtype)
    if isinstance(part, Slots):
        return np.zeros((slots + 1, 3), dtype=np.int64)
    return np.zeros(0, dtype=np.int64 if isinstance(part, PoolIdx) else np.float64)


def _cells(part: Part, array: np.ndarray[Any, Any], width: int, sizes: Mapping[str, int]) -> int:
    """Return how many numbers an array has for `width` columns."""
    if isinstance(part, Vector):
        return width
    if isinstance(part, Table):
        rows, columns = part.shape(width, sizes)
        return rows * columns
    return array.size


def _widened(part: Part, array: np.ndarray[Any, Any], width: int) -> np.ndarray[Any, Any]:
    if isinstance(part, Table):
        rows, columns = array.shape
        table = np.zeros((width if part.rows is None else rows, width if part.columns is None else columns))
        table[:rows, :columns] = array
        return table
    if isinstance(part, Vector):
        size = width
    elif isinstance(part, Scratch) and not isinstance(part.extra, str):
        size = part.per_column * width + part.extra
    else:  # none of the others, nor a scratch of a named size, grows with the features
        return array
    grown = np.zeros(size, dtype=array.dtype)
    grown[: array.size] = array
    return grown


@dataclass(frozen=True, slots=True)
class UnitChange:
    """How the features' units changed: a row z in the old units is `ratio * z_new + shift`.

    Attributes
    ----------
    ratio, shift : ndarray (d,)
    carry_rows : function or None
        (indptr, idx, val) -> (indptr, idx, val): buffered rows from the old units into the new ones. A row may get entries.
    growth : ndarray (d,) or None
        >= 1: weights are divided by it besides. None (or 1) keeps the score of every raw row, up to a
        constant.
    shrink : ndarray (d,) or None
        >= 1: remembered rows are divided by it besides. None (or 1) keeps them as they were.
    """

    ratio: Floats
    shift: Floats
    carry_rows: Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
    growth: Floats | None = None
    shrink: Floats | None = None

    @property
    def row_ratio(self) -> Floats:
        """What (d,) remembered rows are divided by."""
        return self.ratio if self.shrink is None else self.ratio * self.shrink

    @property
    def offset_shift(self) -> Floats:
        """The shift (d,) that offsets follow: they move by the old weights times it.

        A raw row at the old origin scores -weights'(shift / growth) in the new units, by the new weights
        alone, and the rows behind an offset lie about that origin, so there score less offset must not move.
        About the new origin an old weight would be extrapolated, by what growth has just taken from it.
        """
        return self.shift if self.growth is None else self.shift / self.growth
