"""One dict, one compiled call: reading it, its scaling and the step, with nothing of Python's in between.

A compiled function finds its arguments in a table of their addresses, because to take arrays apart at each call
would cost more than the step itself.

A call keeps the GIL from its first instruction to its last, so calls of several threads never interleave. It needs no
lock: it looks at the model's gate first, and does nothing where a method of the model is at work in another thread, or
has replaced what the table points to.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, Protocol

from aucstream.block import Floats
from aucstream.exclusive import Gate
from aucstream.kernels.auc.calibration import probability
from aucstream.kernels.jit import jit, jit_holding
from aucstream.native.dicts import COLUMNS, VALUES, read, slot
from aucstream.native.guard import COMPILED
from aucstream.native.memory import (
    GATE,
    HEAD,
    LIMIT,
    POOL_END,
    POOL_SIZE,
    READER,
    ROW,
    SCALING,
    VERSION,
    Arguments,
    compiled_for,
    floats_at,
    int_at,
    ints_at,
    unpacker,
)
from aucstream.native.reader import Reader
from aucstream.native.scaled_dicts import forward, give_back, has_room, take

Kinds = tuple[Any, ...]  # compiled types


def _first_of_numbers(state: Kinds) -> int:
    return HEAD + sum(1 + getattr(kind, "ndim", 0) for kind in state)


@jit
def open_read(x, arguments):
    """Read the dict at `x`, or at -x where the caller holds the model's lock; return its length, -1: a miss."""
    if x > 0 and int_at(slot(arguments, GATE)) != slot(arguments, VERSION):
        return -1
    return read(abs(x), slot(arguments, READER), slot(arguments, LIMIT))


@jit
def has_pool_room(arguments, n):
    """Return whether the pool of buffered rows, where there is one, has room for n more entries."""
    end = slot(arguments, POOL_END)
    return end == 0 or int_at(end) + n <= slot(arguments, POOL_SIZE)


@jit
def is_ready(arguments, n):
    """Return whether a step can take the row of n entries that the reader has read, as far as pool and scaling go."""
    scaling = slot(arguments, SCALING)
    return has_pool_room(arguments, n) and (scaling == 0 or has_room(scaling, n))


@cache
def ready_at(has_own_room: Callable[..., bool] | None, state: Kinds, numbers: Kinds) -> Callable[..., bool]:
    """Return the compiled question whether a step will take a row: (arguments, n) -> bool.

    Where it says so, a step that returns NaN has skipped the row for its values.
    """
    if has_own_room is None:
        return is_ready
    state_at, numbers_at = unpacker(state), unpacker(numbers)
    numbers_from = _first_of_numbers(state)

    def ready(arguments: int, n: int) -> bool:
        state_arrays = state_at(arguments + 8 * HEAD)
        parameters = numbers_at(arguments + 8 * numbers_from)
        return has_own_room(*(state_arrays + parameters)) and is_ready(arguments, n)

    return jit(ready)


@cache
def learn_at(step: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., float]:
    """Return the compiled step on the row that the reader has read: (arguments, n, sign, weight) -> score."""
    state_at, numbers_at = unpacker(state), unpacker(numbers)
    numbers_from = _first_of_numbers(state)

    def learn_row(arguments: int, n: int, sign: float, weight: float) -> float:
        table = slot(arguments, READER)
        idx, val = ints_at(slot(table, COLUMNS), n), floats_at(slot(table, VALUES), n)
        scaling = slot(arguments, SCALING)
        if scaling != 0:
            if not take(scaling, idx, val):
                return math.nan
            val = floats_at(slot(arguments, ROW), n)
        state_arrays = state_at(arguments + 8 * HEAD)
        parameters = numbers_at(arguments + 8 * numbers_from)
        score = step(*(state_arrays + (idx, val, sign, weight) + parameters))  # noqa: RUF005
        if scaling != 0 and score != score:
            give_back(scaling, idx)
        return score

    return jit(learn_row)


@cache
def score_at(score_row: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., float]:
    """Return the compiled score of the row that the reader has read: (arguments, n) -> score."""
    state_at, numbers_at = unpacker(state), unpacker(numbers)
    numbers_from = _first_of_numbers(state)

    def score(arguments: int, n: int) -> float:
        table = slot(arguments, READER)
        idx, val = ints_at(slot(table, COLUMNS), n), floats_at(slot(table, VALUES), n)
        scaling = slot(arguments, SCALING)
        if scaling != 0:
            if not forward(scaling, idx, val):
                return math.nan
            val = floats_at(slot(arguments, ROW), n)
        state_arrays = state_at(arguments + 8 * HEAD)
        parameters = numbers_at(arguments + 8 * numbers_from)
        return score_row(*(state_arrays + (idx, val) + parameters))  # noqa: RUF005

    return jit(score)


@cache
def learn_call(step: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., float]:
    """Return the compiled call of a step whose arrays and numbers have these types."""
    learn_row = learn_at(step, state, numbers)

    def learn(x: int, arguments: int, sign: float, weight: float) -> float:
        n = open_read(x, arguments)
        if n < 0 or not has_pool_room(arguments, n):
            return math.nan
        return learn_row(arguments, n, sign, weight)

    return compiled_for(jit_holding(learn), int, int, float, float)


@cache
def score_call(score_row: Callable[..., float], state: Kinds, numbers: Kinds) -> Callable[..., complex]:
    """Return the compiled call of a score; it returns the score and, as the imaginary part, its probability."""
    score_of, state_at = score_at(score_row, state, numbers), unpacker(state)

    def score(x: int, arguments: int) -> complex:
        n = open_read(x, arguments)
        if n < 0:
            return complex(math.nan, math.nan)
        s = score_of(arguments, n)
        if not math.isfinite(s):
            return complex(math.nan, math.nan)
        return complex(s, probability(state_at(arguments + 8 * HEAD)[-1], s))  # the ledger is the last

    return compiled_for(jit_holding(score), int, int)


class ScaledRow(NamedTuple):
    """The scaling that comes before a learner: its arguments, where it puts the values, columns that it has room for."""

    arguments: Arguments
    row: Floats
    limit: int


def _no_row(*arguments: Any) -> Any:
    return complex(math.nan, math.nan)


class RowEntry:
    """The compiled calls of one model as it stands.

    Attributes
    ----------
    learn : function
        (id(x), address, sign, weight) -> the score of `x` before it was learned; NaN, and nothing changed, where it
        is not plain, there is no room for it, the step skipped it, or the gate is shut. A caller that holds the
        model's lock passes -id(x), and the gate is not looked at.
    score : function
        (id(x), address) -> a complex number of score and probability; NaN both where it is not plain, the score
        not finite, or the gate shut; -id(x) as above.
    address : int
        Of the arguments.
    version : int
        Of the gate, for which they were entry.
    generation : object
        Which state of the model this belongs to: as soon as an array is another, the model has another generation.
    """

    __slots__ = ("_owned", "address", "generation", "learn", "score", "version")

    def __init__(self, generation: Any, version: int, arguments: Arguments | None = None, owned: Any = None) -> None:
        self.generation = generation
        self.version = version
        self.address = 0 if arguments is None else arguments.address
        self.learn: Callable[..., float] = _no_row
        self.score: Callable[..., complex] = _no_row
        self._owned = arguments, owned

    def __deepcopy__(self, memo: dict[int, Any]) -> RowEntry:
        return NO_ENTRY

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_entry, ()


def _no_entry() -> RowEntry:
    return NO_ENTRY


NO_ENTRY = RowEntry((None,), -1)  # where nothing was compiled yet, or can be


class RowProgram(Protocol):
    """The compiled functions of a learner; `state.Program` is one."""

    @property
    def learn_row(self) -> Callable[..., float]:
        """(*state, idx, x, y, weight, *numbers) -> score before the step, NaN where it skipped the row."""

    @property
    def score_row(self) -> Callable[..., float]:
        """(*state, idx, x, *numbers) -> score."""

    @property
    def has_room(self) -> Callable[..., bool] | None:
        """(*state, *numbers) -> whether the arrays have room for a step; None: always."""


class RowArguments(NamedTuple):
    """What the compiled calls of one row stand on.

    Attributes
    ----------
    program : RowProgram
    arguments : Arguments
        Of the state, the ledger last, and the parameters.
    states : int
        How many of them are the state.
    limit : int
        Columns that a row may have.
    """

    program: RowProgram
    arguments: Arguments
    states: int
    limit: int

    @property
    def kinds(self) -> tuple[Kinds, Kinds]:
        """The compiled types of state and parameters."""
        kinds = self.arguments.kinds
        return kinds[: self.states], kinds[self.states :]


def row_arguments(
    program: RowProgram,
    state: tuple[Any, ...],
    numbers: tuple[Any, ...],
    reader: Reader,
    *,
    limit: int,
    pool_at: int,
    gate: Gate,
    scaled: ScaledRow | None = None,
) -> RowArguments | None:
    """Return the arguments of a learner's compiled calls; None where compiled code may not read rows.

    Parameters
    ----------
    program : RowProgram
    state, numbers : tuple
        Arrays, the ledger last, and parameters.
    reader : Reader
    limit : int
        Columns that the arrays have room for.
    pool_at : int
        Where in `state` slots, columns and values of a pool of rows stand; -1: there is none.
    gate : Gate
        Of the model; the calls are those of its present version.
    scaled : ScaledRow or None
        The scaling that a row passes first.
    """
    if not COMPILED:
        return None
    pool = None if pool_at < 0 else (state[pool_at][-1], state[pool_at + 2].size)
    row, scaling = (None, None) if scaled is None else (scaled.row, scaled.arguments)
    limit = limit if scaled is None else min(limit, scaled.limit)
    arguments = Arguments((*state, *numbers), reader.address, limit, row, pool, gate, scaling)
    return RowArguments(program, arguments, len(state), limit)


def row_entry(row: RowArguments | None, generation: Any, gate: Gate) -> RowEntry:
    """Return the calls of a learner that stand on these arguments; None: no row is plain."""
    if row is None:
        return RowEntry(generation, gate.version)
    entry = RowEntry(generation, gate.version, row.arguments)

    def first_learn(*call: Any) -> float:
        entry.learn = learn_call(row.program.learn_row, *row.kinds)
        return entry.learn(*call)

    def first_score(*call: Any) -> complex:
        entry.score = score_call(row.program.score_row, *row.kinds)
        return entry.score(*call)

    entry.learn, entry.score = first_learn, first_score
    return entry


def noting(calls: RowEntry, note: Callable[[], None]) -> RowEntry:
    """Return the same calls, but that `note` is called after each row that was learned, under the model's lock alone."""
    entry = RowEntry(calls.generation, calls.version)
    entry.address = calls.address

    def learn(x: int, address: int, sign: float, weight: float) -> float:
        score = math.nan if x > 0 else calls.learn(x, address, sign, weight)
        if score == score:
            note()
        return score

    def score(x: int, address: int) -> complex:
        return calls.score(x, address)  # another one after the first

    entry.learn, entry.score = learn, score
    return entry


def under_lock(calls: RowEntry) -> RowEntry:
    """Return the same calls under the model's lock alone: others have rows that are not yet as the model reads them."""
    entry = RowEntry(calls.generation, calls.version)
    entry.address = calls.address

    def learn(x: int, address: int, sign: float, weight: float) -> float:
        return math.nan if x > 0 else calls.learn(x, address, sign, weight)

    def score(x: int, address: int) -> complex:
        return complex(math.nan, math.nan) if x > 0 else calls.score(x, address)

    entry.learn, entry.score = learn, score
    return entry


def uncalibrated(calls: RowEntry) -> RowEntry:
    """Return the same calls, but that each probability is one half."""
    entry = RowEntry(calls.generation, calls.version)
    entry.address = calls.address

    def learn(x: int, address: int, sign: float, weight: float) -> float:
        return calls.learn(x, address, sign, weight)  # another one after the first

    def score(x: int, address: int) -> complex:
        both = calls.score(x, address)
        return complex(both.real, 0.5) if both == both else both

    entry.learn, entry.score = learn, score
    return entry
