"""What every learner does with its state, written once: learning, scoring, weights, units, merging. No mathematics.

A learner's file gives kernels, a declared state and a class; see `solam.py` for the pattern.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar, cast, dataclass_transform

import numpy as np

from aucstream.block import Block, Floats, Form, Ints
from aucstream.constraints import rules_of
from aucstream.errors import CannotMerge, Description, InvalidParams
from aucstream.exclusive import in_order, lock_free
from aucstream.features.intake import checked_array
from aucstream.kernels.auc.calibration import shift_calibration
from aucstream.kernels.pairs.buffers import FIFO, LENGTH, ROOM, START, compacted
from aucstream.kernels.pairs.leaving import remove_columns
from aucstream.kernels.rows.linear import dot
from aucstream.learners._base import capabilities
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.merging import Buffer, merge_fields, merge_pools
from aucstream.learners._base.state import Table, Unit, UnitChange, Vector
from aucstream.learners._base.stateful import StatefulClassifier
from aucstream.learners._base.units import carry_table, carry_vector
from aucstream.metrics.platt import combine
from aucstream.native.row_entry import RowArguments, RowEntry, ScaledRow, row_arguments, row_entry

C = TypeVar("C", bound=type)

CACHED = 1 << 20  # bytes of a dense array that are checked and learned at once
MUCH = 8  # an array that is so many times the state is much: then a copy of the state costs nothing beside it
ROWS_AT_ONCE = 4096  # rows of a block between two looks at the buffers' space


@dataclass_transform(kw_only_default=True)
def learner(cls: C) -> C:
    """Make the class its own parameter dataclass (keyword-only; no generated equality or repr)."""
    dataclass_of: Any = dataclass(eq=False, repr=False, kw_only=True)(cls)
    dataclass_of._parameters = frozenset(rules_of(dataclass_of))
    return cast("C", dataclass_of)


class Learner(StatefulClassifier):
    """Base of all online learners."""

    _capabilities: ClassVar[frozenset[Capability]] = capabilities.DEFAULT
    _column_shift: ClassVar[int] = 0  # bits by which a column stands above what else the pool's integers have

    @property
    def _learns_every_row(self) -> bool:
        return Capability.EVERY_FINITE_ROW in self._capabilities

    # -- learning and scoring ----------------------------------------------------------------------

    def _learn_row(self, idx: Ints | None, val: Floats, sign: float, weight: float) -> float:
        if self._encoder.width > self._capacity:
            self._ensure(self._encoder.width)
        if self._buffered:
            self._reserve(val.size, val.size)
        call, _ = self._program.row_calls(self._number_types)
        learn = call.dense if idx is None else call.sparse
        score: float = learn(*self._arrays, self._ledger, idx, val, sign, weight, *self._kernel_params)
        return score

    def _score_row(self, idx: Ints | None, val: Floats) -> float:
        if self._encoder.width > self._capacity:
            self._ensure(self._encoder.width)
        _, call = self._program.row_calls(self._number_types)
        score_of = call.dense if idx is None else call.sparse
        score: float = score_of(*self._arrays, self._ledger, idx, val, *self._kernel_params)
        return score

    def _row_arguments(self, scaled: ScaledRow | None = None) -> RowArguments | None:
        """Return what the compiled calls of one row stand on; None where there are none."""
        return row_arguments(
            self._program,
            (*self._arrays, self._ledger),
            self._kernel_params,
            self._encoder.reader,
            limit=self._capacity,
            pool_at=self._pool_at,
            gate=self._gate,
            scaled=scaled,
        )

    def _new_entry(self, generation: object = None, scaled: ScaledRow | None = None) -> RowEntry:
        """Return the compiled calls of one dict.

        A pipeline gives its own generation, and its scaling.
        """
        row = self._row_arguments(scaled)
        return row_entry(row, self._generation if generation is None else generation, self._gate)

    def _learn(self, block: Block) -> Floats:
        self._ensure(max(block.width, self._encoder.width))
        out = np.empty(len(block))
        if not self._buffered:
            self._run(block, out)
            return out
        for start in range(0, len(block), ROWS_AT_ONCE):
            part = block.rows(start, min(start + ROWS_AT_ONCE, len(block)))
            lengths = np.diff(part.indptr)
            self._reserve(part.values.size, int(lengths.max()) if len(part) else 0)
            self._run(part, out[start : start + len(part)])
        return out

    def _learn_array(self, X: Any, signs: Floats, weights: Floats) -> Floats:
        state = sum(array.nbytes for array in self._arrays)
        if not isinstance(X, np.ndarray) or X.ndim != 2 or X.nbytes < 2 * CACHED or X.nbytes < MUCH * state:
            return super()._learn_array(X, signs, weights)
        # To check all rows first would fetch them from memory twice: some at a time are checked, then learned
        # while they are in the cache, and all is put back where one cannot be used.
        rows = max(1, CACHED * len(X) // X.nbytes)
        mark, checkpoint = self._encoder.mark(), self._checkpoint()
        scores = np.empty(len(X))
        try:
            for a in range(0, len(X), rows):
                part = slice(a, a + rows)
                scores[part] = super()._learn_array(X[part], signs[part], weights[part])
        except BaseException:
            self._restore(checkpoint)
            self._encoder.rewind(mark)
            checked_array(X)  # says which row it is of all
            raise
        return scores

    def _run(self, block: Block, out: Floats) -> None:
        self._program.learn_block(
            block.indptr,
            block.indices,
            block.values,
            block.y,
            block.weights,
            out,
            *self._arrays,
            self._ledger,
            *self._kernel_params,
        )

    def _score(self, block: Block) -> Floats:
        self._ensure(max(block.width, self._encoder.width))
        out = np.empty(len(block))
        self._program.score_block(
            block.indptr, block.indices, block.values, out, *self._arrays, self._ledger, *self._kernel_params
        )
        return out

    # -- weights ---------------------------------------------------------------------------------

    def coefficients(self) -> Floats:
        """Return the weights (d,) of the output score, by column; an intercept is none of them.

        Returns
        -------
        ndarray (d,)
            In the order of the columns.
        """
        return self._coefficients_at(np.arange(self._encoder.width, dtype=np.int64))

    def _coefficients_at(self, columns: Ints) -> Floats:
        """Return the weights (n,) of the output score in these columns."""
        if Capability.LINEAR_WEIGHTS not in self._capabilities:
            raise InvalidParams("weights", "a learner whose score is a sum over features", type(self).__name__)
        n = columns.size
        unit_rows = Block(
            np.arange(n + 1, dtype=np.int64),
            columns,
            np.ones(n),
            np.empty(0),
            np.empty(0),
            self._encoder.width,
            Form.CSR,
        )
        return self._score(unit_rows)

    @property
    def intercept_(self) -> float:
        """The score of an empty row; 0 for all learners without an intercept."""
        return self._score_row(np.empty(0, dtype=np.int64), np.empty(0)) if self._program.intercept else 0.0

    @property
    def weights(self) -> dict[Any, float]:
        """Name to weight of the output score, for every name learned."""
        return dict(zip(self._names(), self.coefficients().tolist(), strict=True))

    @property
    def remarks(self) -> list[str]:
        """What limits the scores at present, a sentence each.

        Returns
        -------
        list of str
            Empty where nothing does.
        """
        return []

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return name to contribution (weight times value); they add up to the score.

        Hashed names too, each that the row has: names that collide share a weight. A learner with an
        intercept gives it the name "(intercept)".

        Parameters
        ----------
        x : dict
            Name to number, bool, string, list of strings, or None (absent).

        Returns
        -------
        dict
            Name to contribution.

        Raises
        ------
        InvalidBlock
            A feature cannot be used.
        """
        names, columns, values = self._encoder.parts(x)
        return self._contributions(names, self._coefficients_at(columns) * values)

    def _explained(
        self, names: Sequence[Any], columns: Ints, shares: Floats, idx: Ints | None, val: Floats
    ) -> dict[Any, float]:
        """Return the contributions of names that have these shares of their columns' values in the row (idx, val)."""
        row = dict(enumerate(val.tolist())) if idx is None else dict(zip(idx.tolist(), val.tolist(), strict=True))
        z = np.array([row[column] for column in columns.tolist()], dtype=np.float64)
        return self._contributions(names, self._coefficients_at(columns) * z * shares)

    def _contributions(self, names: Sequence[Any], parts: Floats) -> dict[Any, float]:
        """Return the contributions of names, with that of the intercept."""
        result = dict(zip(names, parts.tolist(), strict=True))
        if self._program.intercept:
            result["(intercept)"] = result.get("(intercept)", 0.0) + self.intercept_
        return result

    # -- change of units -----------------------------------------------------------------------------

    def _change_units(self, change: UnitChange) -> None:
        """Carry everything learned over into new units of the features: no score moves, up to a constant.

        Weights are multiplied by the ratio of the units; sums of rows, buffered rows and offsets follow
        from what each state array was declared to hold.
        """
        program = self._program
        d = self._capacity_for(min(change.ratio.size, self._encoder.width))  # a scaler may have spare columns
        change = UnitChange(
            change.ratio[:d],
            change.shift[:d],
            change.carry_rows,
            None if change.growth is None else change.growth[:d],
            None if change.shrink is None else change.shrink[:d],
        )
        self._ensure(d)
        self._settle()
        fields = dict(zip(program.parts, self._arrays, strict=True))
        moved = np.flatnonzero(change.shift)
        if moved.size:
            # Over what moved alone: columns not in use yet must not decide how a sum is rounded.
            shift = change.offset_shift[moved]
            for offset in program.offsets:
                along = dot(None, shift, fields[offset.weights][moved])
                fields[offset.field][offset.position] -= offset.sign * along
            if not program.intercept:
                shift_calibration(self._ledger, dot(None, shift, self.coefficients()[moved]))
        for name, part in program.parts.items():
            if isinstance(part, Vector):
                carry_vector(fields[name][:d], part, fields, change)
            elif isinstance(part, Table):
                carry_table(part.cut(fields[name], d), part, fields, change)
        self._carry_own(fields, change)
        if self._buffered:
            self._carry_rows(change)
        self._settle()

    def _carry_own(self, fields: dict[str, Any], change: UnitChange) -> None:
        """Carry over the fields whose unit is `Unit.OWN`, in place."""

    def _carry_rows(self, change: UnitChange) -> None:
        at = self._pool_at
        slots, pool_idx, pool_val = self._arrays[at : at + 3]
        slots, pool_idx, pool_val = compacted(slots, pool_idx, pool_val, pool_val.size)
        occupied = np.flatnonzero(slots[:, 1])
        order = occupied[np.argsort(slots[occupied, 0], kind="stable")]
        indptr = np.concatenate([[0], np.cumsum(slots[order, 1])]).astype(np.int64)
        n = int(indptr[-1])
        starts, idx, val = change.carry_rows(indptr, pool_idx[:n], pool_val[:n])
        if val.size > n:  # rows have new entries: each slot has as much room as its row
            slots[order, START] = starts[:-1]
            slots[order, LENGTH] = slots[order, ROOM] = np.diff(starts)
            slots[-1, START] = n = val.size
            more = max(0, n - pool_val.size)
            pool_idx, pool_val = (np.concatenate([pool, np.zeros(more, pool.dtype)]) for pool in (pool_idx, pool_val))
            pool_idx[:n] = idx
        pool_val[:n] = val
        self._arrays = (*self._arrays[:at], slots, pool_idx, pool_val, *self._arrays[at + 3 :])

    # -- columns that leave --------------------------------------------------------------------------

    def _forget_columns(self, columns: Ints) -> None:
        """Let columns (n,), ascending, be as if no row had had them: other names take them.

        What each state array was declared to hold says what is cleared. Sums over columns lose their share.
        """
        removed = 0
        if self._buffered:
            at = self._pool_at
            removed = remove_columns(columns, self._column_shift, *self._arrays[at : at + 3])
        columns = columns[columns < self._capacity]
        if not columns.size:
            return
        fields = dict(zip(self._program.parts, self._arrays, strict=True))
        self._forget_own(fields, columns, removed)
        for name, part in self._program.parts.items():
            if isinstance(part, Vector):
                fields[name][columns] = 0.0
            elif isinstance(part, Table):
                if part.rows is None:
                    fields[name][columns] = 0.0
                if part.columns is None:
                    fields[name][:, columns] = 0.0

    def _forget_own(self, fields: dict[str, Any], columns: Ints, removed: int) -> None:
        """Take the share of columns (n,) out of what sums over columns, in place, before they are cleared.

        `removed` : values of these columns that were in buffered rows.
        """

    # -- merge -----------------------------------------------------------------------------------

    @lock_free
    def merge(self, other: Self, approximate: bool = False) -> Self:
        """Merge what `other` learned into this model, feature by feature by name; `other` stays as it is.

        Calibration is combined by counts, which is approximate always. Where there is no exact merge,
        `approximate=True` averages the output weights in proportion to the rows behind them, goes on from
        that average, and joins sums of rows and buffers as if one learner had seen all rows; the rest is
        that of the model with more rows.

        Parameters
        ----------
        other : learner
            Of the same class and parameters, the seed aside.
        approximate : bool
            Whether a result is taken that is not what one pass over both streams would give.

        Returns
        -------
        self

        Raises
        ------
        CannotMerge
            This algorithm has no exact merge, or class, parameters or kinds of names differ; nothing was
            changed.
        """
        name = type(self).__name__
        if type(other) is not type(self):
            raise CannotMerge(f"{name}.merge", f"a {name}", type(other).__name__)
        in_order(self, other, lambda: self._merge(other, approximate))
        return self

    def _merge(self, other: Self, approximate: bool) -> None:
        name = type(self).__name__
        for param, mine in self._params().items():
            theirs = other._params()[param]
            if mine != theirs and param != "seed":
                raise CannotMerge(f"{name}.merge", f"{param}={mine!r} in both models", theirs)
        self._check_merge(other, approximate)
        if other is self:
            other = copy.deepcopy(other)
        columns = self._encoder.align(other._encoder, partial=approximate)
        self._ensure(self._encoder.width)
        self._take(other, columns)
        combine(self._ledger, other._ledger)

    def _check_merge(self, other: Self, approximate: bool) -> None:
        """Raise CannotMerge where `other` may not be taken; nothing has been changed yet."""
        if Capability.APPROXIMATE_MERGE not in self._capabilities:
            raise CannotMerge(f"{type(self).__name__}.merge", "a learner that merges", type(self).__name__)
        if not approximate:
            name = type(self).__name__
            raise CannotMerge(
                f"{name}.merge",
                "approximate=True (which averages the weights), or a learner with an exact merge",
                Description(f"{name}, whose state is a path, not a sum"),
            )

    def _take(self, other: Self, columns: Ints) -> None:
        """Merge the state of `other`; `columns` says where its columns are in this model, -1: left out.

        Approximate, see `learners._base.merging`.
        """
        n, m = self.examples, other.examples
        if m == 0:
            return
        other = copy.deepcopy(other)
        self._settle()
        other._settle()
        share = m / (n + m)
        shared = columns >= 0
        weights = (1.0 - share) * self.coefficients()
        weights[columns[shared]] += share * other.coefficients()[shared]
        intercept = (1.0 - share) * self.intercept_ + share * other.intercept_
        parts = self._program.parts
        mine = dict(zip(parts, self._arrays, strict=True))
        theirs = dict(zip(parts, other._arrays, strict=True))
        if self._buffered:
            buffers = self._buffers()
            seen = [(int(mine[field][at]), int(theirs[field][at])) for field, at in (buffer.seen for buffer in buffers)]
            at = self._pool_at
            pool = merge_pools(
                self._arrays[at : at + 3],
                other._arrays[at : at + 3],
                columns,
                buffers,
                seen,
                np.random.default_rng([self._seed, n, m]),
                m > n,
            )
            mine.update(zip(list(parts)[at : at + 3], pool, strict=True))
        merge_fields(parts, mine, theirs, columns, weights, self._added(), m > n)
        self._place(mine, weights, intercept)
        self._arrays = tuple(mine.values())
        self._settle()

    def _added(self) -> list[tuple[str, int]]:
        """Return (field, position) of the scalars that add up when two models merge."""
        counts = {
            part.count
            for part in self._program.parts.values()
            if isinstance(part, Vector) and part.count is not None and part.unit in (Unit.ROW_SUM, Unit.ROW_MEAN)
        }
        return [*counts, *(buffer.seen for buffer in self._buffers() if buffer.policy != FIFO)]

    def _buffers(self) -> tuple[Buffer, ...]:
        """Return the buffers of one class each; slots outside them are kept as they are by a merge."""
        return ()

    def _place(self, fields: dict[str, Any], weights: Floats, intercept: float) -> None:
        """Write merged output weights and intercept where the declared state does not say how; in place."""


def shares_of(columns: Ints, values: Floats) -> Floats:
    """Return the share (n,) of each entry in the value of its column."""
    _, column_of, members = np.unique(columns, return_inverse=True, return_counts=True)
    totals = np.bincount(column_of, values, minlength=members.size)
    equal = 1.0 / members[column_of]
    with np.errstate(all="ignore"):
        shares = np.where(members[column_of] == 1, 1.0, values / totals[column_of])
    return np.where(np.isfinite(shares), shares, equal)
