"""A feature map and the learner behind it as one program of `native.row_entry`: its step takes the row before the map.

The state of such a program is what picks the row's entries, what scales them, the arguments of the map, and the state
of the learner, in this order. The scaling stays as it is, or goes on to follow the rows, by one program each.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from aucstream.kernels.jit import jit
from aucstream.kernels.rows.maps import pick
from aucstream.kernels.rows.scaling import forward_row, give_back, rows_until_change, take_row
from aucstream.native.row_entry import RowProgram

# what stands before the arguments of the map: columns, values and scaled values of the row's entries, room for the
# longest row, and to undo the estimates of one; the features (F,); place and the six arguments of `forward_row`
BEFORE_MAP = 12
FEATURES, STANDARD, COLUMNS, S = 4, 6, 10, 11


class MappedProgram(NamedTuple):
    """A `RowProgram`."""

    learn_row: Callable[..., float]
    score_row: Callable[..., float]
    has_room: Callable[..., bool] | None


def mapped_program(
    program: RowProgram, map_row: Callable[..., None], map_arguments: int, states: int, pool_at: int, moves: bool
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
    moves : bool
        Whether the scaling follows the rows.
    """
    own_functions = program.learn_row, program.score_row, program.has_room
    return _mapped(*own_functions, map_row, map_arguments, states, pool_at, moves)


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
    moves: bool,
) -> MappedProgram:
    own = BEFORE_MAP + map_arguments
    end = own + states
    learned, scored = end + 4, end + 2  # where the parameters begin: after idx, x, y and weight, and after idx and x

    @jit
    def write_features(before_map: Any, arguments: Any, idx: Any, x: Any, learning: bool) -> int:
        """Return how many entries were picked; -1: there are no features, and nothing has changed."""
        idx_out, x_out, scaled, undo, out, place, standard, centred, kind, kinds, columns, s = before_map
        if x.size > idx_out.size:
            return -1
        n: int = pick(idx, x, place, idx_out, x_out)
        if n < 0:
            return -1
        if moves and learning:
            if not take_row(
                idx_out[:n], x_out[:n], standard, centred, kind, kinds, columns, s, scaled[:n], undo
            ):  # fmt: skip
                return -1
        else:
            forward_row(idx_out[:n], x_out[:n], standard, centred, kind, kinds, columns, s, scaled[:n])
        map_row(*((idx_out[:n], scaled[:n]) + arguments + (out,)))  # noqa: RUF005
        return n

    def learn_row(*values: Any) -> float:
        idx, x, y, weight = values[end:learned]
        n = write_features(values[:BEFORE_MAP], values[BEFORE_MAP:own], idx, x, True)
        if n < 0:
            return math.nan
        features = values[FEATURES]
        score = step(*(values[own:end] + (None, features, y, weight) + values[learned:]))  # noqa: RUF005
        if moves and score != score:
            idx_out, _, _, undo = values[:FEATURES]
            give_back(idx_out[:n], n, values[STANDARD], values[COLUMNS], values[S], undo)
        return score

    def score_row(*values: Any) -> float:
        idx, x = values[end:scored]
        if write_features(values[:BEFORE_MAP], values[BEFORE_MAP:own], idx, x, False) < 0:
            return math.nan
        features = values[FEATURES]
        return score_of(*(values[own:end] + (None, features) + values[scored:]))  # noqa: RUF005

    is_ready = has_own_room or _always
    pool, pool_end = own + pool_at, own + pool_at + 3

    def has_room(*values: Any) -> bool:
        return is_ready(*values[own:]) and not (moves and rows_until_change(values[S]) == 1.0)

    def has_pool_room(*values: Any) -> bool:
        slots, _, pool_val = values[pool:pool_end]
        features = values[FEATURES]
        return slots[slots.shape[0] - 1, 0] + features.size <= pool_val.size and has_room(*values)

    if pool_at >= 0:
        has_room = jit(has_room)
        return MappedProgram(jit(learn_row), jit(score_row), jit(has_pool_room))
    return MappedProgram(jit(learn_row), jit(score_row), jit(has_room) if moves or has_own_room else None)
