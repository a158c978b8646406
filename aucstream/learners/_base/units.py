"""How each declared unit follows a change of the features' units: a row z becomes (z - shift) / ratio.

A row that is remembered becomes (z - shift) / (ratio shrink).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from aucstream.block import Floats
from aucstream.learners._base.state import Table, Unit, UnitChange, Vector


def carry_vector(array: Floats, part: Vector, fields: Mapping[str, Any], change: UnitChange) -> None:
    """Write `array` (d,) in the new units."""
    if part.unit in (Unit.ROW_SUM, Unit.ROW_MEAN):
        assert part.count is not None
        count = float(fields[part.count[0]][part.count[1]])
        if part.unit is Unit.ROW_MEAN:
            count = float(count > 0.0)
        array[:] = _divided(array - count * change.shift, change.row_ratio)
    else:
        _scale(array, part.unit, change, 0)


def carry_table(array: Floats, part: Table, fields: Mapping[str, Any], change: UnitChange) -> None:
    """Write `array`, the features' part of a table, in the new units."""
    if part.unit is Unit.ROW_SUM:
        assert part.count is not None and part.rows is None
        array -= np.outer(change.shift, fields[part.count])
    if part.rows is None:
        _scale(array, part.unit, change, 0)
    if part.columns is None:
        _scale(array, part.unit, change, 1)


def _scale(array: Floats, unit: Unit, change: UnitChange, axis: int) -> None:
    """Bring one axis of `array` to the new units, in place; a square of rows has two axes or a power of two."""
    along = (slice(None), None) if array.ndim == 2 and axis == 0 else (slice(None),)
    ratio = change.row_ratio[along]
    power = 2 if array.ndim == 1 else 1
    if unit in (Unit.WEIGHT, Unit.WEIGHT_SQUARED):
        factor = change.ratio if change.growth is None else change.ratio / change.growth
        array *= factor[along] ** (power if unit is Unit.WEIGHT_SQUARED else 1)
    elif unit in (Unit.ROW_SUM, Unit.ROW_CHANGE):
        array[:] = _divided(array, ratio)
    elif unit is Unit.ROW_SQUARED:
        array[:] = _divided(array, ratio**power)


def _divided(array: Floats, by: Floats) -> Floats:
    """Return array / by; 0 where a column is no longer emitted."""
    return np.where(by == 0.0, 0.0, array / np.where(by == 0.0, 1.0, by))
