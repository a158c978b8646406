"""One dict, one compiled call: reading it and the step, with nothing of Python's in between.

A compiled function finds its arguments in a table of their addresses, because to take arrays apart at each call
would cost more than the step itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any

from aucstream.block import Floats
from aucstream.kernels.auc.calibration import probability
from aucstream.kernels.jit import jit_holding
from aucstream.native.dicts import COLUMNS, LENGTH, VALUES, read, slot
from aucstream.native.guard import COMPILED
from aucstream.native.memory import (
    HEAD,
    LIMIT,
    POOL_END,
    POOL_SIZE,
    READER,
    ROW,
    Arguments,
    compiled_for,
    floats_at,
    int_at,
    ints_at,
    unpacker,
)
from aucstream.native.reader import Reader

Kinds = tuple[Any, ...]  # compiled types


def _first_of_numbers(state: Kinds) -> int:
    return HEAD + sum(1 + getattr(kind, "ndim", 0) for kind in state)


@cache
def learn_call(step: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., float]:
    """Return the compiled call of a step whose arrays and numbers have these types."""
    state_at, numbers_at = unpacker(state), unpacker(numbers)
    numbers_from = _first_of_numbers(state)

    def learn(x: int, arguments: int, sign: float, weight: float) -> float:
        table = slot(arguments, READER)
        n = slot(table, LENGTH) if x == 0 else read(x, table, slot(arguments, LIMIT))
        if n < 0:
            return math.nan
        end = slot(arguments, POOL_END)
        if end != 0 and int_at(end) + n > slot(arguments, POOL_SIZE):
            return math.nan
        at = slot(arguments, ROW)
        val = floats_at(slot(table, VALUES) if at == 0 else at, n)
        state_arrays = state_at(arguments + 8 * HEAD)
        parameters = numbers_at(arguments + 8 * numbers_from)
        return step(*(state_arrays + (ints_at(slot(table, COLUMNS), n), val, sign, weight) + parameters))  # noqa: RUF005

    return compiled_for(jit_holding(learn), int, int, float, float)


@cache
def score_call(score_row: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., complex]:
    """Return the compiled call of a score; it returns the score and, as the imaginary part, its probability."""
    state_at, numbers_at = unpacker(state), unpacker(numbers)
    numbers_from = _first_of_numbers(state)

    def score(x: int, arguments: int) -> complex:
        table = slot(arguments, READER)
        n = slot(table, LENGTH) if x == 0 else read(x, table, slot(arguments, LIMIT))
        if n < 0:
            return complex(math.nan, math.nan)
        at = slot(arguments, ROW)
        val = floats_at(slot(table, VALUES) if at == 0 else at, n)
        state_arrays = state_at(arguments + 8 * HEAD)
        parameters = numbers_at(arguments + 8 * numbers_from)
        s = score_row(*(state_arrays + (ints_at(slot(table, COLUMNS), n), val) + parameters))  # noqa: RUF005
        if not math.isfinite(s):
            return complex(math.nan, math.nan)
        return complex(s, probability(state_arrays[-1], s))  # the ledger is the last

    return compiled_for(jit_holding(score), int, int)


def _no_row(*arguments: Any) -> Any:
    return complex(math.nan, math.nan)


class RowEntry:
    """The compiled calls of one model as it stands.

    Attributes
    ----------
    learn : function
        (id(x), address, sign, weight) -> the score of `x` before it was learned; NaN, and nothing changed, where it
        is not plain, there is no room for it, or the step skipped it.
    score : function
        (id(x), address) -> a complex number of score and probability; NaN both where it is not plain or the score
        not finite.
    address : int
        Of the arguments.
    generation : object
        Which state of the model this belongs to: as soon as an array is another, the model has another generation.
    """

    __slots__ = ("_owned", "address", "generation", "learn", "score")

    def __init__(self, generation: Any, arguments: Arguments | None = None) -> None:
        self.generation = generation
        self.address = 0 if arguments is None else arguments.address
        self.learn: Callable[..., float] = _no_row
        self.score: Callable[..., complex] = _no_row
        self._owned = arguments

    def __deepcopy__(self, memo: dict[int, Any]) -> RowEntry:
        return NO_ENTRY

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_calls, ()


def _no_calls() -> RowEntry:
    return NO_ENTRY


NO_ENTRY = RowEntry((None,))  # where nothing was compiled yet, or can be


def row_entry(
    step: Callable[..., float],
    score_row: Callable[..., float],
    state: tuple[Any, ...],
    numbers: tuple[Any, ...],
    reader: Reader,
    generation: Any,
    *,
    limit: int,
    pool_at: int,
    row: Floats | None = None,
) -> RowEntry:
    """Return the calls of a learner.

    Parameters
    ----------
    step, score_row : function
        Compiled: (*state, idx, x, y, weight, *numbers) and (*state, idx, x, *numbers).
    state, numbers : tuple
        Arrays, the ledger last, and parameters.
    limit : int
        Columns that the arrays have room for.
    pool_at : int
        Where in `state` slots, columns and values of a pool of rows stand; -1: there is none.
    row : ndarray or None
        Where the row's values are; None: as the reader wrote them.
    """
    if not COMPILED:
        return RowEntry(generation)
    pool = None if pool_at < 0 else (state[pool_at][-1], state[pool_at + 2].size)
    arguments = Arguments((*state, *numbers), reader.address, limit, row, pool)
    kinds = arguments.kinds[: len(state)], arguments.kinds[len(state) :]
    entry = RowEntry(generation, arguments)

    def first_learn(*call: Any) -> float:
        entry.learn = learn_call(step, *kinds)
        return entry.learn(*call)

    def first_score(*call: Any) -> complex:
        entry.score = score_call(score_row, *kinds)
        return entry.score(*call)

    entry.learn, entry.score = first_learn, first_score
    return entry
