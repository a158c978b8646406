"""A feature map and the learner behind it as one program of `native.row_entry`: its step takes the row before the map.

The state of such a program is what picks the row's entries, what scales them, the arguments of the map, and the state
of the learner, in this order. The scaling stays as it is: one that follows the rows has no such program.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.maps import pick
from aucstream.kernels.rows.scaling import forward_row
from aucstream.native.row_entry import RowProgram

# what stands before the arguments of the map: columns, values and scaled values of the row's entries, room for the
# longest row; the features (F,); place and the six arguments of `forward_row`
BEFORE_MAP = 11
FEATURES = 3


class MappedProgram(NamedTuple):
    """A `RowProgram`."""

    learn_row: Callable[..., float]
    score_row: Callable[..., float]
    has_room: Callable[..., bool] | None


def mapped_program(
    program: RowProgram, map_row: Callable[..., None], map_arguments: int, states: int, pool_at: int
) -> MappedProgram:
    """Return the program of a map and the learner behind it; the same one for equal arguments.

    Parameters
    ----------
    program : RowProgram
        Of the learner.
    map_row : function
        Compiled: (idx, x, *arguments of the map, out).
    map_arguments, states : int
        How many arguments the map takes between row and output, and the learner as its state.
    pool_at : int
        Where in the learner's state slots, columns and values of a pool of rows stand; -1: there is none.
    """
    return _mapped(
        program.learn_row, program.score_row, program.has_room, map_row, map_arguments, states, pool_at
    )  # fmt: skip


@jit
def _always(*values):
    return True


@cache
def _mapped(
    step: Callable[..., float],
    score_of: Callable[..., float],
    has_own_room: Callable[..., bool] | None,
    map_row: Callable[..., None],
    map_arguments: int,
    states: int,
    pool_at: int,
) -> MappedProgram:
    own = BEFORE_MAP + map_arguments
    end = own + states
    learned, scored = end + 4, end + 2  # where the parameters begin: after idx, x, y and weight, and after idx and x

    @jit
    def write_features(before_map: Any, arguments: Any, idx: Any, x: Any) -> bool:
        idx_out, x_out, scaled, out, place, standard, centred, kind, kinds, columns, s = before_map
        if x.size > idx_out.size:
            return False
        n = pick(idx, x, place, idx_out, x_out)
        if n < 0:
            return False
        forward_row(idx_out[:n], x_out[:n], standard, centred, kind, kinds, columns, s, scaled[:n])
        map_row(*((idx_out[:n], scaled[:n]) + arguments + (out,)))  # noqa: RUF005
        return True

    def learn_row(*values: Any) -> float:
        idx, x, y, weight = values[end:learned]
        if not write_features(values[:BEFORE_MAP], values[BEFORE_MAP:own], idx, x):
            return math.nan
        features = values[FEATURES]
        return step(*(values[own:end] + (None, features, y, weight) + values[learned:]))  # noqa: RUF005

    def score_row(*values: Any) -> float:
        idx, x = values[end:scored]
        if not write_features(values[:BEFORE_MAP], values[BEFORE_MAP:own], idx, x):
            return math.nan
        features = values[FEATURES]
        return score_of(*(values[own:end] + (None, features) + values[scored:]))  # noqa: RUF005

    is_ready = has_own_room or _always
    pool, pool_end = own + pool_at, own + pool_at + 3

    def has_room(*values: Any) -> bool:
        return is_ready(*values[own:])

    def has_pool_room(*values: Any) -> bool:
        slots, _, pool_val = values[pool:pool_end]
        features = values[FEATURES]
        return slots[slots.shape[0] - 1, 0] + features.size <= pool_val.size and is_ready(*values[own:])

    room = has_pool_room if pool_at >= 0 else None if has_own_room is None else has_room
    return MappedProgram(jit(learn_row), jit(score_row), None if room is None else jit(room))
