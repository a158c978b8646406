"""One dict, one compiled call, for all members of `Auto`: the row is read once, and each member has it from there.

A member is machine code at three addresses and a table of arguments, see `native.row_entry`. The compiled call goes
through them in order, then through the mixture, and does to every array what `Auto._learn_row` does. It takes a row only
where that method would do nothing but this: no checkpoint is due, no copy of a member is to be made or to be dropped,
no member changes its units at this row, and all arrays have room. Otherwise it changes nothing and returns NaN, and the
method takes the row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache
from operator import is_
from typing import Any, NamedTuple

import numpy as np

from aucstream.exclusive import Gate
from aucstream.features.encoding.encoder import Encoder
from aucstream.kernels.auc import mixture
from aucstream.kernels.auc.calibration import probability
from aucstream.kernels.auc.mixture import CHECKPOINT, JUDGED, TO_JUDGE
from aucstream.kernels.jit import jit, jit_holding
from aucstream.kernels.ledger import ROWS
from aucstream.kernels.rows.finite import all_finite
from aucstream.native.dicts import COLUMNS, NO_LIMIT, VALUES, slot
from aucstream.native.guard import COMPILED
from aucstream.native.memory import (
    HEAD,
    READER,
    Arguments,
    caller,
    compiled_for,
    floats_at,
    ints_at,
    machine_code,
    type_of,
    unpacker,
)
from aucstream.native.row_entry import (
    Kinds,
    RowArguments,
    RowEntry,
    has_pool_room,
    learn_at,
    open_read,
    ready_at,
    score_at,
)
from aucstream.stages import Stages

# columns of the table of members: which one it is, the address of its arguments, and of its machine code
PLACE, ARGUMENTS, READY, LEARN, SCORE = range(5)
CALLS = 5

_floats, _ints, _table = np.empty(0), np.empty(0, np.int64), np.empty((0, 0))
_words, _slots = np.empty(0, np.uint64), np.empty((0, 0), np.int64)
_STATE = (
    _table,
    _table,
    _table,
    _floats,
    _table,
    _table,
    _floats,
    _slots,
    _ints,
    _floats,
    _words,
    _floats,
)  # of Auto, and its ledger
# then the members, the copies of them that are judged, room for the scores of both, and the longest row
_values_at = unpacker(tuple(map(type_of, (*_STATE, _slots, _slots, _floats, 0))))

_call_ready = caller(bool, int, int)
_call_learn = caller(float, int, int, float, float)
_call_score = caller(float, int, int)


@jit
def finite(score: float) -> float:
    """Return a member's score; 0 where it has none."""
    return score if math.isfinite(score) else 0.0


@jit_holding
def learn_dict(x: int, arguments: int, sign: float, weight: float) -> float:
    """Learn the dict at `x`, see `open_read`; return its score before, NaN, and nothing changed, where it is left."""
    n = open_read(x, arguments)
    if n < 0 or not has_pool_room(arguments, n):
        return math.nan
    (
        members, lines, stack, work, reference, recent, scalars, slots, pool_idx, pool_val, generator, ledger,
        calls, twins, scores, longest,
    ) = _values_at(arguments + 8 * HEAD)  # fmt: skip
    table = slot(arguments, READER)
    idx, val = ints_at(slot(table, COLUMNS), n), floats_at(slot(table, VALUES), n)
    if n > longest or ledger[ROWS] + 1.0 >= scalars[CHECKPOINT] or not all_finite(val):
        return math.nan
    judged = scalars[JUDGED] < scalars[TO_JUDGE]
    if judged and (twins.shape[0] == 0 or scalars[JUDGED] + 1.0 >= scalars[TO_JUDGE]):
        return math.nan
    for k in range(calls.shape[0]):
        if not _call_ready(calls[k, READY], (calls[k, ARGUMENTS], n)):
            return math.nan
    m = members.shape[0]
    scores[m:] = 0.0
    if judged:
        for k in range(twins.shape[0]):
            score = _call_score(twins[k, SCORE], (twins[k, ARGUMENTS], n))
            if score != score:  # the arrays may lack what the plain way makes first
                return math.nan
            scores[m + twins[k, PLACE]] = finite(score)
    for k in range(calls.shape[0]):
        score = _call_learn(calls[k, LEARN], (calls[k, ARGUMENTS], n, sign, weight))
        scores[calls[k, PLACE]] = finite(score)
    mixture.offer_row(slots, pool_idx, pool_val, generator, scalars, idx, val, sign)
    served: float = mixture.learn_row(
        members, lines, stack, work, reference, recent, scalars, slots, pool_idx, pool_val, generator, ledger,
        None, scores, sign, weight,
    )  # fmt: skip
    return served


@jit_holding
def score_dict(x: int, arguments: int) -> complex:
    """Return the score of the dict at `x` and, as the imaginary part, its probability; NaN where it is left."""
    n = open_read(x, arguments)
    if n < 0:
        return complex(math.nan, math.nan)
    (
        members, lines, stack, work, reference, recent, scalars, slots, pool_idx, pool_val, generator, ledger,
        calls, _, scores, longest,
    ) = _values_at(arguments + 8 * HEAD)  # fmt: skip
    val = floats_at(slot(slot(arguments, READER), VALUES), n)
    if n > longest or not all_finite(val):
        return complex(math.nan, math.nan)
    for k in range(calls.shape[0]):
        score = _call_score(calls[k, SCORE], (calls[k, ARGUMENTS], n))
        if score != score:
            return complex(math.nan, math.nan)
        scores[calls[k, PLACE]] = finite(score)
    s = mixture.score_row(
        members,
        lines,
        stack,
        work,
        reference,
        recent,
        scalars,
        slots,
        pool_idx,
        pool_val,
        generator,
        ledger,
        None,
        scores,
    )
    if not math.isfinite(s):
        return complex(math.nan, math.nan)
    return complex(s, probability(ledger, s))


@cache
def _learn_call() -> Callable[..., float]:
    return compiled_for(learn_dict, int, int, float, float)


@cache
def _score_call() -> Callable[..., complex]:
    return compiled_for(score_dict, int, int)


class Kept(NamedTuple):
    """The calls of one member, and all that they stand on."""

    stands_on: tuple[Any, ...]
    row: RowArguments
    code: tuple[int, int, int]  # READY, LEARN, SCORE


class MemberCalls:
    """Makes the compiled calls of one `Auto`, and keeps the tables of members that have not changed since."""

    __slots__ = ("_kept", "_stands_on", "_token")

    def __init__(self) -> None:
        self._kept: dict[int, Kept] = {}
        self._stands_on: list[Any] = []
        self._token = object()

    def __deepcopy__(self, memo: dict[int, Any]) -> MemberCalls:
        return MemberCalls()

    def __reduce__(self) -> tuple[Any, ...]:
        return MemberCalls, ()

    def generation(self, stands_on: list[Any]) -> object:
        """Return an object that is another one as soon as one of the objects that the calls stand on is another."""
        if not _are(self._stands_on, stands_on):
            self._stands_on, self._token = stands_on, object()
        return self._token

    def entry(
        self,
        active: list[int],
        heard: list[Stages],
        state: tuple[Any, ...],
        pool_at: int,
        encoder: Encoder,
        gate: Gate,
    ) -> RowEntry | None:
        """Return the calls of one row; None where compiled code may not read rows, or a member has no such calls.

        Parameters
        ----------
        active : list of int
            The members that learn.
        heard : list of Stages
            These members, then, if there are any, the copies of them that are judged.
        state : tuple
            Of `Auto`, the ledger last.
        pool_at : int
            Where in `state` its pool of rows stands.
        encoder : Encoder
            Of all members.
        gate : Gate
            Of `Auto`, or of the pipeline that it is in.
        """
        if not COMPILED or any(map(_is_open, heard)):
            return None
        kept: dict[int, Kept] = {}
        for number, stages in enumerate(heard):
            own = kept.get(number % len(active))  # of the member itself, where this is a copy of it
            if own is not None and stages.mapping is None:
                stages.learner._ensure(heard[number % len(active)].learner._capacity)  # else it bounds the rows of all
            member = self._member(self._kept.get(number), own, stages, encoder)
            if member is None:
                return None
            kept[number] = member
        self._kept = kept
        rows = [member.row for member in kept.values()]
        calls = np.zeros((len(rows), CALLS), dtype=np.int64)
        for number, member in kept.items():
            calls[number] = (active[number % len(active)], member.row.arguments.address, *member.code)
        learning, judged = calls[: len(active)], calls[len(active) :]
        scores = np.zeros(2 * len(state[0]))
        limit = min((row.limit for row in rows), default=NO_LIMIT)
        pool = state[pool_at][-1], state[pool_at + 2].size
        values = (*state, learning, judged, scores, encoder.reader.val.size)
        arguments = Arguments(values, encoder.reader.address, limit, None, pool, gate)
        entry = RowEntry(None, gate.version, arguments, rows)

        def first_learn(*call: Any) -> float:
            entry.learn = _learn_call()
            return entry.learn(*call)

        def first_score(*call: Any) -> complex:
            entry.score = _score_call()
            return entry.score(*call)

        entry.learn, entry.score = first_learn, first_score
        return entry

    def _member(self, before: Kept | None, own: Kept | None, stages: Stages, encoder: Encoder) -> Kept | None:
        """Return the calls of a member: those of the time before, or as much of them, or of its own, as still holds."""
        learner, scaling, reader = stages.learner, stages.scaling, encoder.reader
        fixed = None if stages.mapping is None else stages.mapping.warmup.fixed
        if fixed is not None:
            scaling = fixed.scaling
        else:
            scaling.widen(learner._capacity)  # room for a name that is new to a row that is only scored
        shared = scaling, scaling.columns, encoder.kinds, reader, reader.val, fixed
        if before is not None and _are(before.stands_on, (learner, learner._generation, *shared)):
            return before
        if fixed is not None:
            row = fixed.row_arguments(learner, reader)
        else:
            row = learner._row_arguments(scaling.scaled_row(reader, encoder.kinds) if scaling.scheduled else None)
        if row is None:
            return None
        alike = before or own
        same_code = alike is not None and alike.row.program is row.program and alike.row.kinds == row.kinds
        code = alike.code if alike is not None and same_code else _machine_code(row)
        # the generation may be another one by now: the learner makes room for the row first
        return Kept((learner, learner._generation, *shared), row, code)


def _is_open(stages: Stages) -> bool:
    """Return whether the scaling of a member, or the map in front of it, is not known yet."""
    return stages.resolved is None or (stages.mapping is not None and stages.mapping.warmup.fixed is None)


def _are(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Return whether these are the same objects."""
    return len(some) == len(others) and all(map(is_, some, others))


def _machine_code(row: RowArguments) -> tuple[int, int, int]:
    program = row.program
    return _code(program.has_room, program.learn_row, program.score_row, *row.kinds)


@cache
def _code(
    has_room: Callable[..., bool] | None,
    learn_row: Callable[..., float],
    score_row: Callable[..., float],
    state: Kinds,
    numbers: Kinds,
) -> tuple[int, int, int]:
    """Return READY, LEARN and SCORE of a program; the functions live on in the caches that they come from."""
    return (
        machine_code(ready_at(has_room, state, numbers), int, int),
        machine_code(learn_at(learn_row, state, numbers), int, int, float, float),
        machine_code(score_at(score_row, state, numbers), int, int),
    )
