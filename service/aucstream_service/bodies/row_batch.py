"""Rows of a -many body that are all numbers and of one form: one matrix in the place of as many dicts."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from aucstream.block import Floats
from aucstream.features.columns import Columns
from aucstream_service.bodies.bodies import Item


class Call(enum.Enum):
    """What the rows are for."""

    LEARN = enum.auto()
    PREDICT = enum.auto()
    LABEL = enum.auto()


@dataclass(slots=True)
class Plain:
    """Rows that are all numbers, and have no fault as far as can be told without the model."""

    features: Columns
    signs: Floats
    weights: Floats | None
    ids: list[str | None] | None
    places: range
    lines: Callable[[], list[Item]]

    def __len__(self) -> int:
        return len(self.places)
