"""The scaling of a stream of rows, as `Pipeline` fuses it: standardise, then divide by a norm.

Estimates move at every row. What is applied moves when the rows have grown by a tenth, and then the
learner is carried over into the new units, so that yesterday's weights are never read in today's units:
exactly where a column's deviation has shrunk. Where it has grown, the weight per deviation stays and the
weight per unit shrinks. To keep the weight per unit would trust a slope beyond the range it was learned
on: on a column that trends (a date) the errors of the first hundred rows, a few units wide, then rule
every later score (elec2 in time order, progressive AUC of PSAM .526 so, .768 as it is).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np

from aucstream.block import Block, Floats, Form, Ints, writable
from aucstream.kernels.jit import RowCall
from aucstream.kernels.rows import scaling as kernel
from aucstream.learners._base.state import UnitChange
from aucstream.native.dicts import NO_LIMIT
from aucstream.native.memory import Arguments
from aucstream.native.reader import Reader
from aucstream.native.row_entry import ScaledRow

Norm = Literal["none", "bounded", "l2"]
# The rules that a stored model keeps. By the second ones a column that starts anew is forgotten; by the third, those of
# a new model, "auto" completes sparse rows.
FIRST_RULES, SECOND_RULES, RULES = 1, 2, 3
_KINDS = {"none": kernel.NO_NORM, "bounded": kernel.BOUNDED, "l2": kernel.UNIT}

_FORWARD_ROW = RowCall(kernel.forward_row, bool, bool, int)
_TAKE_ROW = RowCall(kernel.take_row, bool, bool, int)


class Scaling:
    """State of one scaler chain.

    Parameters
    ----------
    standard : bool
        Divide each numeric column by its deviation.
    center : bool
        Subtract its mean first; sparse rows are never centred.
    norm : {"none", "bounded", "l2"}
        Divide the row by sqrt(k^2 + |x|^2) with k the typical norm, by |x|, or not.
    arctan : bool
        Take the arctan of each standardised value before the division.
    half_life : float or None
        Values of a column, and norms of rows, after which one counts half in the estimates; None: all count the same.
    rules : int
        From SECOND_RULES on what was learned of a column whose estimates start anew is forgotten with them, and where no
        norm bounds a row its standardised values are cut. FIRST_RULES: neither, as in models of version 1.
    completes : bool
        Columns that were stored in nearly all sparse rows so far are centred, and absent entries of them are written out.
    """

    # of scalings that were pickled before there were others
    rules = FIRST_RULES
    arctan = False
    half_life: float | None = None
    completes = False

    def __init__(
        self,
        *,
        standard: bool,
        center: bool = True,
        norm: Norm = "none",
        arctan: bool = False,
        half_life: float | None = None,
        rules: int = RULES,
        completes: bool = False,
    ) -> None:
        self.rules = rules
        self.completes = completes
        self._dense: Ints = np.empty(0, dtype=np.int64)
        self.arctan = arctan
        self.half_life = half_life
        self.standard = standard
        self.center = center
        self.norm: Norm = norm
        self.s = np.zeros(kernel.SIZE)
        wide = kernel.WIDE if rules >= SECOND_RULES else kernel.FIRST_WIDE
        if half_life is not None:
            self.s = np.zeros(kernel.FORGETFUL_SIZE)
            self.s[kernel.HALF_LIFE], self.s[kernel.KEEP] = half_life, 2.0 ** (-1.0 / half_life)
            wide = kernel.FORGETFUL_WIDE
        if completes:
            wide += kernel.COMPLETING
        self.columns = np.zeros((0, wide))
        self._kind = _KINDS[norm] | (kernel.ARCTAN if arctan else 0)
        self._row = np.empty(0)
        self._undo = np.empty(kernel.SIZE)

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({name: writable(value) for name, value in state.items()})

    # -- reading -----------------------------------------------------------------------------------

    @property
    def scheduled(self) -> bool:
        """Whether anything is estimated at all."""
        return self.standard or self.norm != "none" or self.arctan

    @property
    def moves(self) -> bool:
        """Whether the units that it applies change as rows come in: those of "l2" never do."""
        return self.standard or self.norm == "bounded"

    def rows_until_change(self) -> int:
        """Return after how many more rows the applied values change (1: at the next row)."""
        return int(kernel.rows_until_change(self.s))

    def widen(self, width: int) -> None:
        """Make room for `width` columns."""
        if self.standard and width > len(self.columns):
            grown = np.zeros((max(width, 2 * len(self.columns)), self.columns.shape[1]))
            grown[: len(self.columns)] = self.columns
            self.columns = grown

    def forget_columns(self, columns: Ints) -> None:
        """Let columns (n,) be as if no row had had them."""
        self.columns[columns[columns < len(self.columns)]] = 0.0
        if self.completes:
            self._dense = np.flatnonzero(self.columns[:, kernel.DENSE])

    def completed(self, block: Block) -> Block:
        """Return sparse rows with a 0 for each dense column that they lack; other rows as they are."""
        if not self._dense.size or block.form is not Form.CSR or block.indices is None:
            return block
        indptr, indices, values = _completed(block.indptr, block.indices, block.values, self._dense)
        if values is block.values:
            return block
        width = max(block.width, int(self._dense[-1]) + 1)
        return Block(indptr, indices, values, block.y, block.weights, width, block.form)

    def _mark_dense(self) -> None:
        """Say anew which columns are dense."""
        if self.completes:
            self._dense = np.empty(0, dtype=np.int64)
            if kernel.mark_dense(self.columns, self.s):
                self._dense = np.flatnonzero(self.columns[:, kernel.DENSE])

    def _centred(self, row: Block, width: int) -> np.ndarray:
        """Return which columns (width,) are centred."""
        centred = np.full(width, self._centres(row))
        if self.completes:
            centred |= self.columns[:width, kernel.DENSE] == 1.0
        return centred

    def forward(self, block: Block, kinds: np.ndarray) -> tuple[Floats, Floats]:
        """Return (scaled values (nnz,), row norms before division (n,)) by the applied values."""
        self.widen(block.width)
        out = np.empty(block.values.size)
        norms = np.empty(len(block))
        kernel.forward(
            block.indptr,
            block.indices,
            block.values,
            self.standard,
            self._centres(block),
            self._kind,
            kinds,
            self.columns,
            self.s,
            out,
            norms,
        )
        return out, norms

    def forward_row(self, idx: Ints | None, x: Floats, kinds: np.ndarray) -> tuple[Floats, float]:
        """Return (scaled values, norm before division) of one named row; valid until the next call."""
        row = self._row
        if row.size != x.size:
            row = self._row = np.empty(x.size)
        forward = _FORWARD_ROW.dense if idx is None else _FORWARD_ROW.sparse
        length: float = forward(idx, x, self.standard, self.center, self._kind, kinds, self.columns, self.s, row)
        return row, length

    def _centres(self, block: Block) -> bool:
        return self.center and block.form is not Form.CSR

    # -- learning ----------------------------------------------------------------------------------

    def observe(self, block: Block, norms: Floats, scores: Floats, kinds: np.ndarray) -> None:
        """Take learned rows into the estimates; rows whose score is NaN were skipped."""
        sparse = block.form is Form.CSR
        if self.completes and sparse:
            assert block.indices is not None
            kernel.count_stored(block.indptr, block.indices, block.values, scores, self.columns)
            block = self.completed(block)
        kernel.observe(
            block.indptr, block.indices, block.values, sparse, self.standard, norms, scores, kinds, self.columns, self.s
        )

    def take_row(self, idx: Ints | None, x: Floats, kinds: np.ndarray) -> Floats | None:
        """Take one named row into the estimates; return its scaled values, valid until the next call.

        None, and nothing changed, where the applied values change before this row.
        """
        row, undo = self._row, self._undo
        if row.size != x.size:
            row = self._row = np.empty(x.size)
        if undo.size < kernel.SIZE + kernel.ESTIMATES * x.size:
            undo = self._undo = np.empty(kernel.SIZE + kernel.ESTIMATES * x.size)
        take = _TAKE_ROW.dense if idx is None else _TAKE_ROW.sparse
        fits = take(idx, x, self.standard, self.center, self._kind, kinds, self.columns, self.s, row, undo)
        return row if fits else None

    def scaled_row(self, reader: Reader, kinds: np.ndarray) -> ScaledRow:
        """Return what compiled calls of one dict need to scale its row; see `native.scaled_dicts`."""
        room = reader.val.size
        out, self._undo = np.empty(room), np.empty(kernel.SIZE + kernel.ESTIMATES * room)
        values = (self.standard, self.center, self._kind, kinds, self.columns, self.s, out, self._undo)
        limit = len(self.columns) if self.standard else NO_LIMIT
        return ScaledRow(Arguments(values, reader.address, limit), out, limit)

    def give_back(self, idx: Ints | None, x: Floats) -> None:
        """Undo the last `take_row`, whose row was skipped."""
        kernel.give_back(idx, x.size, self.standard, self.columns, self.s, self._undo)

    def change(self, row: Block, kinds: np.ndarray) -> UnitChange:
        """Take one row into the estimates and make them the applied values; return what changed."""
        self.widen(row.width)
        width = len(self.columns) if self.standard else row.width
        old_mean = self.columns[:, kernel.APPLIED_MEAN].copy()
        old_inv = self.columns[:, kernel.APPLIED_INV].copy()
        old_k2 = float(self.s[kernel.APPLIED_K2])
        was_centred = self._centred(row, width)
        ratio = np.ones(width)
        shift = np.zeros(width)
        growth = np.ones(width)
        shrink = np.ones(width)
        forgetful = np.zeros(width, dtype=np.bool_)
        if self.standard:
            whole = self.completed(row)
            kernel.observe_columns(whole.indices, whole.values, row.form is Form.CSR, kinds, self.columns, self.s)
            if self.completes and row.form is Form.CSR:
                assert row.indices is not None
                kernel.count_stored(row.indptr, row.indices, row.values, np.zeros(1), self.columns)
            if self.rules >= SECOND_RULES and self.half_life is None:
                kernel.started_anew(self.columns, forgetful)
            kernel.change_columns(self._kind, kinds, self.columns, self.s)
            self._mark_dense()
            new_mean, new_inv = self.columns[:, kernel.APPLIED_MEAN], self.columns[:, kernel.APPLIED_INV]
            both = (old_inv > 0.0) & (new_inv > 0.0)
            ratio[both] = old_inv[both] / new_inv[both]
            centred = self._centred(row, width)
            if self.half_life is not None:
                kernel.remember(
                    centred, self.s[kernel.ROWS] + 1.0 - self.s[kernel.LAST], old_mean, old_inv, self.columns, shrink
                )
            if self.arctan:
                ratio = np.arctan(ratio) / (np.pi / 4.0)
            growth = np.maximum(ratio, 1.0)
            # a column that was emitted as its sign: that weight says nothing of its slope
            ratio[(old_inv > 0.0) != (new_inv > 0.0)] = 0.0
            # one whose estimates forgot their values: in the units of the new ones the old have no bound
            both &= ~forgetful
            ratio[forgetful & (old_inv > 0.0)] = 0.0
            if centred.any() or was_centred.any():
                move = np.where(centred, new_mean, 0.0) - np.where(was_centred, old_mean, 0.0)
                shift[both] = move[both] * old_inv[both]
            if self.arctan:
                shift = np.arctan(shift)
                shrink = np.maximum(shrink, np.divide(1.0, ratio, out=np.ones(width), where=ratio > 0.0))
        _, norms = self.forward(self.completed(row), kinds)
        kernel.observe_norm(float(norms[0]), self.s)
        self.s[kernel.LAST] = self.s[kernel.ROWS]
        if self.norm != "none":
            k2 = float(self.s[kernel.NORM_MEAN])
            self.s[kernel.APPLIED_K2] = k2
            # x / |x| does not depend on k: with no deviations to change there is no change of units
            if old_k2 > 0.0 and k2 > 0.0 and (self.standard or self.norm == "bounded"):
                ratio *= np.sqrt(k2 / old_k2)
                # a typical row is divided by sqrt(k^2 + k^2), or by k
                shift /= np.sqrt(2.0 * old_k2 if self.norm == "bounded" else old_k2)

        centres = self._centres(row)
        joined = self._dense[~was_centred[self._dense]]

        def carry_rows(indptr: Ints, idx: Ints, val: Floats) -> tuple[Ints, Ints, Floats]:
            z = val.copy()
            kernel.backward(indptr, idx, z, self.standard, was_centred, self._kind, kinds, old_mean, old_inv, old_k2)
            if forgetful.any():
                kernel.within(indptr, idx, z, forgetful, self.columns)
            if joined.size:
                indptr, idx, z = _completed(indptr, idx, z, joined)
            out = np.empty(z.size)
            lengths = np.empty(indptr.size - 1)
            kernel.forward(
                indptr, idx, z, self.standard, centres, self._kind, kinds, self.columns, self.s, out, lengths
            )
            return indptr, idx, out

        return UnitChange(
            ratio, shift, carry_rows, growth, shrink if self.half_life is not None or self.arctan else None
        )

    def fix(self, blocks: Sequence[Block], kinds: np.ndarray) -> None:
        """Take all rows into the fresh estimates and make them the applied values, once for all.

        The norms are those of the rows as they are scaled from now on.
        """
        for block in blocks:
            self.widen(block.width)
            zeros = np.zeros(len(block))
            self.observe(block, zeros, zeros, kinds)
        if self.standard:
            kernel.change_columns(self._kind, kinds, self.columns, self.s)
        for block in blocks:
            for length in self.forward(block, kinds)[1].tolist():
                kernel.observe_norm(length, self.s)
        self.s[kernel.ROWS] = self.s[kernel.LAST] = sum(map(len, blocks))
        self.s[kernel.APPLIED_K2] = self.s[kernel.NORM_MEAN]

    # -- copies and snapshots ------------------------------------------------------------------------

    def copy(self) -> Scaling:
        """Return an independent copy."""
        scaling = Scaling(
            standard=self.standard,
            center=self.center,
            norm=self.norm,
            arctan=self.arctan,
            half_life=self.half_life,
            rules=self.rules,
            completes=self.completes,
        )
        scaling.s = self.s.copy()
        scaling.columns = self.columns.copy()
        scaling._dense = self._dense
        return scaling

    def state_dict(self, width: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (arrays, meta) of `width` columns."""
        self.widen(width)
        arrays = {"s": self.s.copy()}
        if self.standard:
            arrays["columns"] = self.columns[:width].copy()
        meta: dict[str, Any] = {"standard": self.standard, "center": self.center, "norm": self.norm}
        if self.arctan:
            meta["arctan"] = True
        if self.half_life is not None:
            meta["half_life"] = self.half_life
        if self.rules != FIRST_RULES:
            meta["rules"] = self.rules
        if self.completes:
            meta["completes"] = True
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Self:
        """Return the scaling that `state_dict` described."""
        scaling = cls(**{"rules": FIRST_RULES, **meta})
        scaling.s = arrays["s"]
        if scaling.standard:
            scaling.columns = arrays["columns"]
        if scaling.completes:
            scaling._dense = np.flatnonzero(scaling.columns[:, kernel.DENSE])
        return scaling


def _completed(indptr: Ints, idx: Ints, val: Floats, dense: Ints) -> tuple[Ints, Ints, Floats]:
    """Return rows with a 0 for each dense column (m,), ascending, that they lack; the same arrays where they lack none."""
    size = int(kernel.completed_size(indptr, idx, dense))
    if size == val.size:
        return indptr, idx, val
    starts, columns, values = np.empty_like(indptr), np.empty(size, dtype=np.int64), np.empty(size)
    kernel.complete(indptr, idx, val, dense, starts, columns, values)
    return starts, columns, values
