"""The border: arrays, sparse matrices, frames and dicts become checked blocks here, nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from aucstream.block import Block, Floats, Form, Ints, kernel_ready, refuse_masked
from aucstream.errors import Description, InvalidBlock
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.frames import FrameTable, SparseTable, Table, is_frame, table_of
from aucstream.features.number_rows import NumberRows
from aucstream.kernels.rows.finite import all_finite
from aucstream.kernels.rows.sparse import BAD_COLUMN, BAD_POINTER, CANONICAL, csr_check

_NONE: Floats = np.empty(0)


def is_sparse(X: Any) -> bool:
    """Return whether X is a scipy sparse matrix or array, without importing scipy."""
    return hasattr(X, "tocsr") and hasattr(type(X), "nnz")


def array_block(
    encoder: Encoder, X: Any, y: Floats | None = None, weights: Floats | None = None, *, learn: bool
) -> Block:
    """Return the block of a dense (n, d) or sparse array, or of a frame; `y`, `weights` checked already.

    Raises
    ------
    InvalidBlock
        Not two-dimensional, not numbers, not finite (row and column are named), more columns than
        learned (when only scored), or a model that has learned names. Of a frame: a value that cannot be used, or an
        encoder whose names come and go.
    """
    if is_table(X):
        return table_block(encoder, table_of(X), y, weights, learn=learn)
    block = checked_array(X, y, weights)
    if not learn:
        encoder.check_scored_array(block.width)
    return adopted(encoder, block, learn=learn)


def checked_array(X: Any, y: Floats | None = None, weights: Floats | None = None) -> Block:
    """Return the block of an array in its own columns 0, 1, 2, …; raises as `array_block`."""
    return _csr_block(X, y, weights) if is_sparse(X) else _dense_block(X, y, weights)


def is_table(X: Any) -> bool:
    """Return whether X is a frame, or the rows of one."""
    return isinstance(X, (FrameTable, SparseTable)) or is_frame(X)


def table_block(
    encoder: Encoder, table: Table, y: Floats | None = None, weights: Floats | None = None, *, learn: bool
) -> Block:
    """Return the block of the rows of a frame; raises as `array_block`."""
    check_table(encoder, table, learn=learn)
    if learn and encoder.selects:
        raise InvalidBlock(
            "features", "an array: with min_count or eviction named rows are not fitted at once", Description("a frame")
        )
    if isinstance(table, FrameTable):
        return dict_block(encoder, table.rows, y, weights, learn=learn)
    if learn:
        stored = np.flatnonzero(np.bincount(table.matrix.indices, minlength=len(table.names)))
        new = [j for j in stored.tolist() if encoder._column(table.names[j]) < 0]
        encoder._add([(table.names[j], 1.0, int(table.kinds[j])) for j in new])
    columns = np.array(encoder._columns_of(table.names), dtype=np.int64)
    block = _csr_block(table.matrix, y, weights)
    return _renamed(block, columns, encoder)


def check_table(encoder: Encoder, table: Table, *, learn: bool = True) -> None:
    """Raise InvalidBlock, naming row and feature, where a row of a frame cannot be used; change nothing.

    A frame that is only scored may have columns that are not known, but some of names where a model's are numbers.
    """
    if not learn:
        for name in table.names:
            encoder.check_name(name)
    if isinstance(table, FrameTable):
        rows = table.rows
        check_dicts(encoder, rows if not isinstance(rows, NumberRows) else [rows[i] for i in range(min(len(rows), 1))])
        return
    for name in table.names:
        encoder.check({name: 1.0}, "")
    if not all_finite(table.matrix.data):
        k = int(np.argmax(~np.isfinite(table.matrix.data)))
        row, name = int(np.searchsorted(table.matrix.indptr, k, side="right")) - 1, table.names[table.matrix.indices[k]]
        raise InvalidBlock("feature", "a finite number", table.matrix.data[k], path=f"[{row}][{name!r}]")


def adopted(encoder: Encoder, block: Block, *, learn: bool) -> Block:
    """Return a block of array columns in the model's columns; when only scored, unknown ones are left out."""
    columns = encoder.columns(block.width, learn=learn)
    return block if columns is None else _renamed(block, columns, encoder)


def _dense_block(X: Any, y: Floats | None, weights: Floats | None) -> Block:
    refuse_masked("features", X)
    try:
        array = np.asarray(X)
    except ValueError as error:
        raise InvalidBlock(
            "features", "a two-dimensional array (n, d)", Description("rows of unequal length")
        ) from error
    if array.ndim != 2:
        raise InvalidBlock("features", "a two-dimensional array (n, d)", array.shape)
    if array.dtype.kind not in "biuf":
        if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in array.ravel()):
            try:
                array = array.astype(np.float64)
            except (TypeError, ValueError) as error:
                raise InvalidBlock("features", "numbers", Description(f"an array of {array.dtype}")) from error
        else:
            raise InvalidBlock("features", "numbers", Description(f"an array of {array.dtype}"))
    values = kernel_ready(array, np.float64)
    n, d = values.shape
    flat = values.reshape(-1)
    if not all_finite(flat):
        row, column = (int(i) for i in np.argwhere(~np.isfinite(values))[0])
        raise InvalidBlock("features", "finite numbers", values[row, column], path=f"row {row}, column {column}")
    indptr = np.arange(n + 1, dtype=np.int64) * d
    return Block(indptr, None, flat, _NONE if y is None else y, _NONE if weights is None else weights, d, Form.DENSE)


def _csr_block(X: Any, y: Floats | None, weights: Floats | None) -> Block:
    if X.ndim != 2:
        raise InvalidBlock("features", "a two-dimensional sparse array (n, d)", X.shape)
    if X.dtype.kind not in "biuf":
        raise InvalidBlock("features", "numbers", Description(f"a sparse array of {X.dtype}"))
    matrix = X if _format(X) == "csr" else _checked_sparse(X).tocsr()
    n, width = map(int, matrix.shape)
    indptr, indices, is_canonical = _checked_pointers(matrix, n, width)
    values = kernel_ready(matrix.data, np.float64)
    if not is_canonical:  # whatever the flag of the matrix says
        from scipy import sparse

        summed = sparse.csr_array((values.copy(), indices.copy(), indptr.copy()), shape=(n, width))
        summed.sum_duplicates()
        indptr, indices = kernel_ready(summed.indptr, np.int64), kernel_ready(summed.indices, np.int64)
        values = kernel_ready(summed.data, np.float64)
    if not all_finite(values):
        k = int(np.argmax(~np.isfinite(values)))
        row = int(np.searchsorted(indptr, k, side="right")) - 1
        raise InvalidBlock("features", "finite numbers", values[k], path=f"row {row}, column {indices[k]}")
    return Block(
        indptr,
        indices,
        values,
        _NONE if y is None else y,
        _NONE if weights is None else weights,
        width,
        Form.CSR,
    )


def _format(X: Any) -> str:
    return str(getattr(X, "format", ""))


def _checked_sparse(X: Any) -> Any:
    """Return X, a matrix of another format than CSR, if the compiled loops of scipy can convert it."""
    rows, columns = map(int, X.shape)
    kind = _format(X)
    if kind == "csc":
        _checked_pointers(X, columns, rows)
    elif kind == "bsr":
        height, width = X.blocksize
        _checked_pointers(X, rows // height, columns // width)
    elif kind == "coo":
        for name, of, size in (("row", X.row, rows), ("col", X.col, columns)):
            if of.shape != X.data.shape or of.dtype.kind not in "iu":
                raise _bad_arrays(X, f"whole numbers of the shape {X.data.shape} of its data as `{name}`", of)
            if of.size and (of.min() < 0 or of.max() >= size):
                k = int(np.argmax((of < 0) | (of >= size)))
                raise InvalidBlock("features", f"`{name}` in 0..{size - 1}", of[k], path=f"{name}[{k}]")
    return X


def _checked_pointers(X: Any, n: int, width: int) -> tuple[Ints, Ints, bool]:
    """Return pointers and indices of a compressed matrix of n rows, and whether the indices of each row ascend."""
    for name, size in (("indptr", n + 1), ("indices", len(X.data))):
        of = getattr(X, name)
        if of.shape != (size,) or of.dtype.kind not in "iu":
            raise _bad_arrays(X, f"{size} whole numbers as `{name}`", of)
    indptr, indices = kernel_ready(X.indptr, np.int64), kernel_ready(X.indices, np.int64)
    result, place = csr_check(indptr, indices, width)
    if result == BAD_POINTER:
        expected = f"`indptr` that begins at 0, never falls and ends at {indices.size}, the number of entries"
        raise InvalidBlock("features", expected, indptr[place], path=f"indptr[{place}]")
    if result == BAD_COLUMN:
        kind = "row" if _format(X) == "csc" else "column"
        raise InvalidBlock("features", f"{kind} indices in 0..{width - 1}", indices[place], path=f"indices[{place}]")
    return indptr, indices, result == CANONICAL


def _bad_arrays(X: Any, expected: str, of: Any) -> InvalidBlock:
    return InvalidBlock(
        "features", f"a {_format(X)} matrix with {expected}", Description(f"{of.dtype} of the shape {of.shape}")
    )


def _renamed(block: Block, columns: Ints, encoder: Encoder) -> Block:
    """Return the block in the encoder's columns, ascending: unknown ones dropped, those that coincide added."""
    from scipy import sparse

    n = len(block)
    if block.indices is None:
        indices = np.tile(np.arange(block.width, dtype=np.int64), n)
    else:
        indices = block.indices
    moved = columns[indices]
    keep = moved >= 0
    rows = np.repeat(np.arange(n), np.diff(block.indptr))[keep]
    columns, values = moved[keep], block.values[keep]
    indptr = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=n))]).astype(np.int64)
    matrix = sparse.csr_array((values, columns, indptr), shape=(n, encoder.width))
    matrix.sum_duplicates()
    indptr, columns, values = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), np.asarray(matrix.data)
    return Block(indptr, columns, values, block.y, block.weights, encoder.width, block.form)


def check_dicts(encoder: Encoder, rows: Sequence[Any]) -> None:
    """Raise InvalidBlock, naming row and feature, where a row could not be learned; change nothing."""
    encoder.check_rows(rows)


def dict_block(
    encoder: Encoder,
    rows: Sequence[Mapping[Any, Any]],
    y: Floats | None = None,
    weights: Floats | None = None,
    *,
    learn: bool,
    missed: list[int] | None = None,
) -> Block:
    """Return the block of dicts that `check_dicts` has passed; learned rows may add names.

    To `missed` go the numbers of scored rows that have names not known: of these the block may have no entries.
    """
    if not isinstance(rows, NumberRows):
        return named_block(encoder, encoder.read_rows(rows, learn=learn, missed=missed), y, weights)
    entries = encoder.take(rows, learn=learn)
    if missed is not None and encoder.missed:
        missed.extend(range(len(rows)))
    return named_block(encoder, entries, y, weights)


class Encoding:
    """Dicts that were learned, as the encoder of one model has read them: equal encoders have the same block of them.

    Attributes
    ----------
    block : Block or None
        None: they have not been read yet.
    """

    __slots__ = ("_change", "_rows", "_standing", "block")

    def __init__(self) -> None:
        self.block: Block | None = None
        self._rows: Any = None
        self._standing: Any = None
        self._change: Any = None

    def fits(self, encoder: Encoder, rows: Any) -> bool:
        """Return whether an encoder would read these rows as the first one did, and they are the same."""
        return self.block is not None and rows is self._rows and encoder.stands_at(self._standing)

    def read(self, encoder: Encoder, rows: Sequence[Mapping[Any, Any]], y: Floats, weights: Floats) -> Block:
        """Return the block of rows that `check_dicts` has passed: read now, or that of an equal encoder."""
        if self.block is not None:
            if rows is self._rows and encoder.follow(self._standing, self._change):
                return self.block
            return dict_block(encoder, rows, y, weights, learn=True)
        standing = encoder.standing()
        block = dict_block(encoder, rows, y, weights, learn=True)
        if standing is not None:
            self.block, self._rows = block, rows
            self._standing, self._change = standing, encoder.change_since(standing)
        return block


@dataclass(frozen=True, slots=True)
class QuietHead:
    """Rows that are learned and change no column of an encoder whose names come and go.

    Attributes
    ----------
    block : Block
    sights : list or None
        For the encoder, one for each row; None: all names have columns.
    """

    block: Block
    sights: list[Any] | None

    def note(self, encoder: Encoder, learned: np.ndarray) -> None:
        """Let the encoder know which of the rows (n,) were learned."""
        if self.sights is None:
            assert self.block.indices is not None
            encoder.note_plain(self.block.indptr, self.block.indices, learned)
        else:
            encoder.note_sights([sight for sight, was in zip(self.sights, learned.tolist(), strict=True) if was])


def quiet_head(
    encoder: Encoder, rows: Sequence[Mapping[Any, Any]], y: Floats, weights: Floats, start: int
) -> QuietHead:
    """Return the rows from `start` on, of dicts that `check_dicts` has passed, up to one that may change a column.

    A row of weight 0 ends them, too.
    """
    zeros = np.flatnonzero(weights[start:] == 0.0)
    stop = start + (int(zeros[0]) if zeros.size else len(rows) - start)
    plain = None
    if isinstance(rows, NumberRows):
        if encoder.has_columns(rows.names):
            plain = encoder.take(rows[start:stop], learn=False)
    elif start == 0:
        plain = encoder.plain(rows[:stop])
    if plain is not None:
        return QuietHead(named_block(encoder, plain, y[start:stop], weights[start:stop]), None)
    all_indices: list[Ints] = []
    all_values: list[Floats] = []
    sights: list[Any] = []
    counts: dict[Any, int] = {}
    for number in range(start, stop):
        row = encoder.quiet_row(rows[number], counts)
        if row is None:
            break
        all_indices.append(row[0])
        all_values.append(row[1])
        sights.append(row[2])
    stop = start + len(sights)
    indptr = np.concatenate([[0], np.cumsum([val.size for val in all_values])]).astype(np.int64)
    indices = np.concatenate([np.empty(0, dtype=np.int64), *all_indices])
    values = np.concatenate([np.empty(0), *all_values])
    return QuietHead(named_block(encoder, (indptr, indices, values), y[start:stop], weights[start:stop]), sights)


def named_block(
    encoder: Encoder, rows: tuple[Ints, Ints, Floats], y: Floats | None = None, weights: Floats | None = None
) -> Block:
    """Return (indptr, columns, values) of named rows as a block."""
    return Block(*rows, _NONE if y is None else y, _NONE if weights is None else weights, encoder.width, Form.NAMED)
