"""The way of rows to a feature map: kept during a warm-up, then scaled and mapped by what was fitted on them.

A map cannot be carried over into new units as weights can, so the scaling before it is set once, from the
rows of the warm-up, and stays. Only a scaling with a half-life goes on: the map then sees each row as it lies
among the recent ones, so that it bends where the rows are, and the learner follows what that moves.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np

from aucstream.block import Block, Floats, Form, Ints, joined, writable
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.scaling.scalers import scaling_of
from aucstream.features.scaling.scaling import FIRST_RULES, Scaling
from aucstream.kernels.jit import RowCall
from aucstream.kernels.rows import maps as kernel
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.rows.scaling import ESTIMATES, SIZE
from aucstream.native.dicts import NO_LIMIT
from aucstream.native.mapped_row import mapped_program
from aucstream.native.reader import Reader
from aucstream.native.row_entry import RowArguments, row_arguments

if TYPE_CHECKING:
    from aucstream.learners._base.learner import Learner

WILD = 1e100  # a row with a larger value or weight is skipped: squared distances to it could overflow
MOST_ROWS = 80_000  # rows a map is fitted on, at most
MOST_ENTRIES = 1 << 24  # a warm-up ends with the row that brings its entries to this: 256 MiB
FIT_BYTES = 1 << 28  # in which a fit is counted: it takes seconds
ROWS_AT_ONCE = 1024  # rows whose features are in memory at once

Arrays = dict[str, np.ndarray]

_PICK = RowCall(kernel.pick)


class Fittable(Protocol):
    """What a warm-up uses of a feature map; see `features.maps.base.FeatureMap`."""

    _row: ClassVar[RowCall]
    _block: ClassVar[Callable[..., None]]
    _seed: int
    warmup: int

    @property
    def spec(self) -> dict[str, Any]:
        """The map as it stands in a model's spec."""

    @property
    def _most_columns(self) -> int | None: ...

    @staticmethod
    def _arguments(tables: Arrays, width: int) -> tuple[Any, ...]: ...

    @staticmethod
    def _features(tables: Arrays) -> int: ...

    def _fitted(self, rows: Block, width: int) -> Arrays: ...

    def _check_room(self, widest: tuple[int, str] | None) -> None: ...


class Fixed:
    """Scaling and map after the warm-up. Copies of a model share it; where the scaling moves, each has a copy.

    Parameters
    ----------
    kind : type of Fittable
    place : ndarray of int64 (columns,)
        Of each of the encoder's columns its place in the map; -1: none, it counts 0.
    kinds : ndarray of uint8 (d,)
        By place, as an encoder has them.
    scaling : Scaling
        Of the d places.
    tables : dict of str to ndarray
        What the map drew.
    """

    def __init__(self, kind: type[Fittable], place: Ints, kinds: np.ndarray, scaling: Scaling, tables: Arrays) -> None:
        self.kind = kind
        self.place = place
        self.kinds = kinds
        self.scaling = scaling
        self.tables = tables
        self._identity = bool(np.array_equal(place[: kinds.size], np.arange(kinds.size)))
        self._arguments = kind._arguments(tables, max(1, kinds.size))
        self.features = kind._features(tables)
        self._start_scratch()

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: writable(value) for name, value in state.items()})

    def _start_scratch(self) -> None:
        self._out = np.empty(self.features)
        self._idx, self._val = np.empty(0, dtype=np.int64), np.empty(0)

    @property
    def moves(self) -> bool:
        """Whether the scaling goes on to follow the rows."""
        return self.scaling.half_life is not None

    def copied(self) -> Fixed:
        """Return what a copy of the model has: itself where nothing moves, else one with a scaling of its own."""
        if not self.moves:
            return self
        copied = object.__new__(type(self))
        copied.__dict__.update(self.__dict__)
        copied.scaling = self.scaling.copy()
        copied._start_scratch()
        return copied

    def forward(self, block: Block) -> Block:
        """Return the rows as the learner takes them: dense, `features` wide."""
        rows = self.picked(block)
        if self.scaling.scheduled:
            rows = rows.with_values(self.scaling.forward(rows, self.kinds)[0])
        return self._mapped(rows)

    def _mapped(self, rows: Block) -> Block:
        out = np.empty((len(rows), self.features))
        self.kind._block(rows.indptr, rows.indices, rows.values, out, *self._arguments)
        return _dense(out, rows.y, rows.weights)

    def forward_row(self, idx: Ints | None, val: Floats) -> Floats:
        """Return the features of one named row, NaN where it is not finite; valid until the next call."""
        picked = self._picked_row(idx, val)
        if picked is None:
            self._out.fill(math.nan)
            return self._out
        idx, val = picked
        if self.scaling.scheduled:
            val, _ = self.scaling.forward_row(idx, val, self.kinds)
        return self._mapped_row(idx, val)

    def _picked_row(self, idx: Ints | None, val: Floats) -> tuple[Ints | None, Floats] | None:
        """Return one named row by place, None where it is not finite; valid until the next call."""
        if idx is None and self._identity and val.size <= self.kinds.size:
            return idx, val
        if self._val.size < val.size:
            self._idx, self._val = np.empty(val.size, dtype=np.int64), np.empty(val.size)
        pick = _PICK.dense if idx is None else _PICK.sparse
        n = pick(idx, val, self.place, self._idx, self._val)
        return None if n < 0 else (self._idx[:n], self._val[:n])

    def _mapped_row(self, idx: Ints | None, val: Floats) -> Floats:
        row = self.kind._row.dense if idx is None else self.kind._row.sparse
        row(idx, val, *self._arguments, self._out)
        return self._out

    def row_arguments(self, learner: Learner, reader: Reader) -> RowArguments | None:
        """Return what compiled calls of one row of `reader` stand on.

        None where there are none: the learner has none, or has no room for the features yet.
        """
        behind = learner._row_arguments()
        if behind is None or behind.limit < self.features:
            return None
        room, scaling = reader.val.size, self.scaling
        applied = scaling.standard, scaling.center, scaling._kind, self.kinds, scaling.columns, scaling.s
        picked = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room)
        undo = np.empty(SIZE + ESTIMATES * room)
        values = behind.arguments.values
        state, numbers = values[: behind.states], values[behind.states :]
        map_row = self.kind._row.function
        program = mapped_program(
            behind.program, map_row, len(self._arguments), len(state), learner._pool_at, self.moves
        )  # fmt: skip
        state = (*picked, undo, np.empty(self.features), self.place, *applied, *self._arguments, *state)
        return row_arguments(program, state, numbers, reader, limit=NO_LIMIT, pool_at=-1, gate=learner._gate)

    def learn(self, block: Block, learner: Learner) -> Floats:
        """Let the learner learn a block, and the scaling follow it; return the scores before each update."""
        if not self.moves:
            return learner._learn(self.forward(block))
        scores = np.empty(len(block))
        start = 0
        while start < len(block):
            gap = self.scaling.rows_until_change()
            stop = min(len(block), start + max(1, gap - 1))
            part = block.rows(start, stop)
            rows = self.picked(part)
            if gap > 1:
                values, norms = self.scaling.forward(rows, self.kinds)
                scores[start:stop] = learner._learn(self._mapped(rows.with_values(values)))
                self.scaling.observe(rows, norms, scores[start:stop], self.kinds)
            else:
                scores[start] = self._learn_at_change(part, rows, learner)
            start = stop
        return scores

    def _learn_at_change(self, part: Block, row: Block, learner: Learner) -> float:
        """Learn the one row before which the applied values change; undo the change where its step is skipped."""
        score = float(learner._score(self.forward(part))[0])
        before = self.scaling.copy()
        self.scaling.change(row, self.kinds)
        values, _ = self.scaling.forward(row, self.kinds)
        if math.isnan(score) or math.isnan(learner._learn(self._mapped(row.with_values(values)))[0]):
            self.scaling = before
            return math.nan
        return score

    def learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float, learner: Learner) -> float | None:
        """Learn one named row; return its score before, None where the applied values change before it."""
        if not self.moves:
            return learner._learn_row(None, self.forward_row(idx, val), sign, weight)
        picked = self._picked_row(idx, val)
        if picked is None:
            return math.nan
        idx, val = picked
        z = self.scaling.take_row(idx, val, self.kinds)
        if z is None:
            return None
        score = learner._learn_row(None, self._mapped_row(idx, z), sign, weight)
        if score != score:
            self.scaling.give_back(idx, val)
        return score

    def picked(self, block: Block) -> Block:
        """Return the rows by place; what has none is left out."""
        return _picked(block, self.place, self.kinds.size, self._identity)

    def without(self, columns: Ints) -> Fixed:
        """Return the same but that these columns (n,) have no place."""
        known = columns[columns < self.place.size]
        if not (self.place[known] >= 0).any():
            return self
        place = self.place.copy()
        place[known] = -1
        return Fixed(self.kind, place, self.kinds, self.scaling, self.tables)

    def same_as(self, other: Fixed) -> bool:
        """Return whether the other gives every row of columns the same features."""
        mine, my_meta = self.state_dict()
        theirs, their_meta = other.state_dict()
        return (
            self.kind is other.kind
            and my_meta == their_meta
            and mine.keys() == theirs.keys()
            and all(np.array_equal(array, theirs[name]) for name, array in mine.items())
        )

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return (arrays, meta) from which `from_state_dict` makes it again."""
        scaling, meta = self.scaling.state_dict(self.kinds.size)
        arrays = {"place": self.place, "kinds": self.kinds}
        arrays |= {f"scaling.{name}": array for name, array in scaling.items()}
        arrays |= {f"table.{name}": array for name, array in self.tables.items()}
        return arrays, {"scaling": meta}

    @classmethod
    def from_state_dict(cls, kind: type[Fittable], arrays: Arrays, meta: dict[str, Any]) -> Self:
        """Return what `state_dict` described."""
        return cls(
            kind,
            arrays["place"],
            arrays["kinds"],
            Scaling.from_state_dict(_under("scaling.", arrays), meta["scaling"]),
            _under("table.", arrays),
        )


class Warmup:
    """Rows kept until there are as many as the map asks for, then a `Fixed`.

    Attributes
    ----------
    fixed : Fixed or None
        None during the warm-up.
    rows, positives : int
        Kept so far; 0 after the warm-up.
    """

    def __init__(self, warmup: int) -> None:
        self.warmup = warmup
        self.fixed: Fixed | None = None
        self.rows = 0
        self.positives = 0
        self.entries = 0
        self._blocks: list[Block] = []

    @property
    def full(self) -> bool:
        """Whether the warm-up has its rows."""
        return self.rows >= self.warmup or self.entries >= MOST_ENTRIES

    def next_part(self, block: Block, start: int) -> Block:
        """Return the rows from `start` on that may be kept next: none after the one that fills the warm-up."""
        filled = int(np.searchsorted(block.indptr, block.indptr[start] + MOST_ENTRIES - self.entries))
        return block.rows(start, min(len(block), start + self.warmup - self.rows, filled))

    def append(self, block: Block) -> Floats:
        """Keep a copy of labelled rows; return the score of each (n,): 0, or NaN where it was skipped as wild."""
        n = len(block)
        scores = np.zeros(n)
        wild = ~(np.abs(block.values) < WILD)
        if wild.any():
            scores[np.repeat(np.arange(n), np.diff(block.indptr))[wild]] = math.nan
        scores[~(block.weights < WILD)] = math.nan
        skipped = np.isnan(scores)
        if skipped.any():
            block = block.take(np.flatnonzero(~skipped).astype(np.int64))
        if len(block):
            if block.indices is None:
                indices = np.tile(np.arange(block.width, dtype=np.int64), len(block))
            else:
                indices = block.indices.copy()
            self._blocks.append(
                Block(
                    block.indptr.copy(),
                    indices,
                    block.values.copy(),
                    block.y.copy(),
                    block.weights.copy(),
                    block.width,
                    block.form,
                )
            )
            self.rows += len(block)
            self.entries += block.values.size
            self.positives += int((block.y > 0.0).sum())
        return scores

    def blocks(self) -> list[Block]:
        """Return the kept rows in order, one block for each run of rows of one form."""
        return [joined(list(run)) for _, run in itertools.groupby(self._blocks, key=lambda block: block.form)]

    def fix(self, map_: Fittable, encoder: Encoder, scaling: Scaling) -> Fixed:
        """Set the fresh `scaling`, then fit the map, on the kept rows, and forget them.

        The columns that the map sees are those in which a kept row is not 0, in the order of their names,
        and the first `max_columns` of them.
        """
        blocks = self.blocks()
        seen = np.zeros(encoder.width, dtype=bool)
        for block in blocks:
            assert block.indices is not None
            seen[block.indices[block.values != 0.0]] = True
        columns = np.flatnonzero(seen)
        if isinstance(encoder, Vocabulary):
            names = encoder.names
            columns = np.array(
                sorted(columns.tolist(), key=lambda j: (isinstance(names[j], str), names[j])), dtype=np.int64
            )
        columns = columns[: map_._most_columns]
        place = np.full(encoder.width, -1, dtype=np.int64)
        place[columns] = np.arange(columns.size)
        kinds = encoder.kinds[columns]
        rows = [_picked(block, place, columns.size, False) for block in blocks]
        scaling.fix(rows, kinds)
        if scaling.scheduled:
            rows = [block.with_values(scaling.forward(block, kinds)[0]) for block in rows]
        self.fixed = Fixed(type(map_), place, kinds, scaling, map_._fitted(joined(rows), columns.size))
        self.rows = self.positives = self.entries = 0
        self._blocks = []
        return self.fixed

    def forget_columns(self, columns: Ints) -> None:
        """Remove columns (n,) from the kept rows, or from those that the map sees."""
        if self.fixed is not None:
            self.fixed = self.fixed.without(columns)
            return
        self._blocks = [_without(block, columns) for block in self._blocks]
        self.entries = sum(block.values.size for block in self._blocks)

    # -- copies and snapshots ------------------------------------------------------------------------

    def mark(self) -> tuple[Any, ...]:
        """Return a mark for `rewind`; kept rows are never written to."""
        return (
            None if self.fixed is None else self.fixed.copied(),
            self.rows,
            self.positives,
            self.entries,
            list(self._blocks),
        )

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to a mark."""
        self.fixed, self.rows, self.positives, self.entries, self._blocks = mark

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return (arrays, meta)."""
        if self.fixed is not None:
            return self.fixed.state_dict()
        if not self._blocks:
            return {}, {}
        rows = joined(self._blocks)
        assert rows.indices is not None
        forms = np.concatenate([np.full(len(block), block.form, dtype=np.uint8) for block in self._blocks])
        return {
            "kept.indptr": rows.indptr,
            "kept.indices": rows.indices,
            "kept.values": rows.values,
            "kept.y": rows.y,
            "kept.weights": rows.weights,
            "kept.forms": forms,
        }, {}

    def restore(self, kind: type[Fittable], arrays: Arrays, meta: dict[str, Any]) -> None:
        """Take over what `state_dict` described."""
        if "place" in arrays:
            self.fixed = Fixed.from_state_dict(kind, arrays, meta)
        elif arrays:
            saved = _under("kept.", arrays)
            forms = saved["forms"]
            width = int(saved["indices"].max()) + 1 if saved["indices"].size else 0
            rows = Block(
                saved["indptr"], saved["indices"], saved["values"], saved["y"], saved["weights"], width, Form.NAMED
            )
            edges = [0, *(np.flatnonzero(np.diff(forms)) + 1).tolist(), forms.size]
            for a, b in itertools.pairwise(edges):
                part = rows.rows(a, b)
                self._blocks.append(dataclasses.replace(part, form=Form(int(forms[a]))))
            self.rows, self.positives, self.entries = len(rows), int((rows.y > 0.0).sum()), rows.values.size


class Mapped:
    """A warm-up, and then scaling and map, in front of a learner.

    Parameters
    ----------
    map_ : Fittable
    encoder : Encoder
        Whose columns the rows have.
    learner : Learner
        Takes the features; its own encoder names them 0, 1, 2, …
    """

    def __init__(self, map_: Fittable, encoder: Encoder, learner: Learner) -> None:
        map_._check_room(learner._max_width())
        self.map = map_
        self.encoder = encoder
        self.learner = learner
        self.warmup = Warmup(map_.warmup)

    @property
    def bytes(self) -> int:
        """What one step may have to write beside the learner's state; while the fit is to come, as much as that."""
        fixed = self.warmup.fixed
        return FIT_BYTES if fixed is None else sum(table.nbytes for table in fixed.tables.values())

    def twin(self, learner: Learner) -> Mapped:
        """Return a copy for scoring in front of another learner."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin.learner = learner
        twin.warmup = Warmup(self.warmup.warmup)
        twin.warmup.rewind(self.warmup.mark())
        return twin

    def learn(self, block: Block, scaler: str | None) -> Floats:
        """Keep rows while the warm-up lasts, map and learn those after it; return the scores before."""
        warmup = self.warmup
        scores = np.empty(len(block))
        start = 0
        while start < len(block) and warmup.fixed is None:
            part = warmup.next_part(block, start)
            scores[start : start + len(part)] = warmup.append(part)
            start += len(part)
            if warmup.full:
                self.end_warmup(scaler)
        if warmup.fixed is not None:
            for part in _parts(block, start):
                scores[start : start + len(part)] = warmup.fixed.learn(part, self.learner)
                start += len(part)
        return scores

    def end_warmup(self, scaler: str | None) -> None:
        """Fit the map, and learn, on the rows kept so far; does nothing where none is kept."""
        if self.warmup.rows:
            blocks = self.warmup.blocks()
            fixed = self._fit(scaler)
            for block in blocks:
                for part in _parts(block):
                    self.learner._learn(fixed.forward(part))  # the scaling has these rows already

    def look_at(self, block: Block, scaler: str | None) -> None:
        """Fit the map on these rows, and learn none."""
        self.warmup.append(block)
        if self.warmup.rows:
            self._fit(scaler)

    def _fit(self, scaler: str | None) -> Fixed:
        assert scaler is not None
        fixed = self.warmup.fix(self.map, self.encoder, scaling_of(scaler, FIRST_RULES))
        self.learner._encoder.columns(fixed.features, learn=True)
        return fixed

    def score(self, block: Block) -> Floats:
        """Return the scores (n,); 0 during the warm-up."""
        fixed = self.warmup.fixed
        scores = np.zeros(len(block))
        if fixed is not None:
            start = 0
            for part in _parts(block):
                scores[start : start + len(part)] = self.learner._score(fixed.forward(part))
                start += len(part)
        return scores

    def score_row(self, idx: Ints | None, val: Floats) -> float:
        """Return the score of one named row; NaN where it is not finite."""
        fixed = self.warmup.fixed
        if fixed is None:
            return 0.0 if all_finite(val) else math.nan
        return self.learner._score_row(None, fixed.forward_row(idx, val))

    def learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float | None:
        """Learn one named row; return its score before, NaN where it was skipped.

        None, and nothing changed, during the warm-up and where the applied scaling changes before the row.
        """
        fixed = self.warmup.fixed
        return None if fixed is None else fixed.learn_row(idx, val, sign, weight, self.learner)

    def forget_columns(self, columns: Ints) -> None:
        """Let columns (n,) be as if no row had had them; of a map that is fitted on them, nothing sees them any more."""
        self.warmup.forget_columns(columns)

    def mark(self) -> tuple[Any, ...]:
        """Return a mark for `rewind`; the learner's state is kept apart."""
        return self.warmup.mark(), self.learner._encoder.mark()

    def rewind(self, mark: tuple[Any, ...]) -> None:
        """Go back to a mark."""
        self.warmup.rewind(mark[0])
        self.learner._encoder.rewind(mark[1])

    def same_as(self, other: Mapped) -> bool:
        """Return whether both are fitted and give every row the same features."""
        mine, theirs = self.warmup.fixed, other.warmup.fixed
        if mine is None or theirs is None or not mine.same_as(theirs):
            return False
        if isinstance(self.encoder, Vocabulary) and isinstance(other.encoder, Vocabulary):
            known = mine.place.size
            return self.encoder.names[:known] == other.encoder.names[:known]
        return type(self.encoder) is type(other.encoder)

    def state_dict(self) -> tuple[Arrays, dict[str, Any]]:
        """Return (arrays, meta), without encoder and learner."""
        arrays, meta = self.warmup.state_dict()
        return arrays, {**meta, "spec": self.map.spec, "seed": self.map._seed}

    def restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Take over what `state_dict` described."""
        self.map._seed = meta["seed"]
        self.warmup.restore(type(self.map), arrays, meta)


def _parts(block: Block, start: int = 0) -> Iterator[Block]:
    for a in range(start, len(block), ROWS_AT_ONCE):
        yield block.rows(a, min(a + ROWS_AT_ONCE, len(block)))


def _picked(block: Block, place: Ints, width: int, identity: bool) -> Block:
    if block.indices is None and identity and block.width <= width:
        return block
    indptr = np.empty(len(block) + 1, dtype=np.int64)
    idx = np.empty(block.values.size, dtype=np.int64)
    val = np.empty(block.values.size)
    kernel.pick_block(block.indptr, block.indices, block.values, place, indptr, idx, val)
    n = int(indptr[-1])
    return Block(indptr, idx[:n], val[:n], block.y, block.weights, width, block.form)


def _without(block: Block, columns: Ints) -> Block:
    assert block.indices is not None
    keep = ~np.isin(block.indices, columns)
    if keep.all():
        return block
    indptr = np.concatenate([[0], np.cumsum(keep)])[block.indptr].astype(np.int64)
    indices, values = block.indices[keep], block.values[keep]
    return Block(indptr, indices, values, block.y, block.weights, block.width, block.form)


def _dense(out: np.ndarray, y: Floats, weights: Floats) -> Block:
    n, width = out.shape
    return Block(np.arange(n + 1, dtype=np.int64) * width, None, out.reshape(-1), y, weights, width, Form.DENSE)


def _under(prefix: str, arrays: Arrays) -> Arrays:
    return {name[len(prefix) :]: array for name, array in arrays.items() if name.startswith(prefix)}
