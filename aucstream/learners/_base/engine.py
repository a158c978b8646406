"""The interface of files and of the service to a model: rows and blocks, each score taken before its update.

Users call River's and scikit-learn's verbs on the model itself; those are made of these.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from aucstream.block import Block, Floats, signs_of, weights_of
from aucstream.errors import Description, InvalidBlock, NonFiniteStep
from aucstream.exclusive import Exclusive, Gate, exclusive, lock_free
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.frames import FrameTable, SparseTable, table_of
from aucstream.features.intake import (
    Encoding,
    adopted,
    array_block,
    check_dicts,
    check_table,
    checked_array,
    dict_block,
    is_sparse,
    is_table,
    named_block,
    quiet_head,
    table_block,
)
from aucstream.features.number_rows import NumberRows
from aucstream.kernels.auc.calibration import log_odds_line
from aucstream.kernels.rows.finite import all_finite
from aucstream.learners._base.one_row import TAME
from aucstream.native.row_entry import RowEntry

if TYPE_CHECKING:
    from aucstream.io.rows import Rows

RowKind = Literal["named", "columns"]

MANY = 16  # fewer rows are learned and scored one by one: making a block of them costs more


class BlockModel(Protocol):
    """What the engine needs of a model."""

    _encoder: Encoder
    _entry: RowEntry
    _gate: Gate

    def _learn(self, block: Block) -> Floats: ...

    def _score(self, block: Block) -> Floats: ...

    def _learn_array(self, X: Any, signs: Floats, weights: Floats) -> Floats: ...

    def _learn_dict(self, x: Mapping[Any, Any], sign: float, weight: float, *, at_once: bool = True) -> float: ...

    def _bytes_at(self, more: int) -> int: ...

    def _row_entry(self) -> RowEntry: ...

    def _score_plain(self, x: Any) -> complex: ...

    def _score_dict(self, x: Mapping[Any, Any]) -> float: ...

    def _is_outdated(self) -> bool: ...

    @property
    def _learns_every_row(self) -> bool: ...

    def _checkpoint(self) -> Any: ...

    def _restore(self, checkpoint: Any) -> None: ...

    def explain_one(self, x: Mapping[Any, Any]) -> dict[Any, float]:
        """Return the contributions to the score of a dict."""

    def _read_rows(self, rows: Sequence[Any]) -> Sequence[Any]: ...

    def _read_array(self, X: Any) -> Any: ...

    def _read_block(self, block: Block) -> Block: ...

    def _probabilities(self, scores: Floats) -> Floats: ...

    def _end_warmup(self) -> None: ...

    @property
    def _ledger(self) -> Floats: ...

    @property
    def _calibration_line(self) -> tuple[float, float] | None: ...


class Engine(Exclusive):
    """Rows and blocks to scores, for one model, under the model's lock.

    A row is a dict (named) or a list of numbers (columns 0, 1, 2, …). Methods that learn return the score of
    each row before its update, and NaN where the row was skipped because its step was not finite.

    Parameters
    ----------
    model : learner or Pipeline
    """

    __slots__ = ("_gate", "_model")

    def __init__(self, model: BlockModel) -> None:
        self._model = model
        self._gate = model._gate

    def _is_outdated(self) -> bool:
        return self._model._is_outdated()

    @property
    def _encoder(self) -> Encoder:
        return self._model._encoder

    # -- checks ----------------------------------------------------------------------------------

    def check_rows(self, rows: Sequence[Any], kind: RowKind | None = None) -> RowKind | None:
        """Check rows that will be learned; change nothing.

        Parameters
        ----------
        rows : sequence of dict or list
            Named rows (`NumberRows` are such), or array rows (column j is the integer name j).
        kind : {"named", "columns"} or None
            What earlier rows of this model were; None: what it has learned decides.

        Returns
        -------
        "named", "columns" or None
            What the rows are; None where there are no rows.

        Raises
        ------
        InvalidBlock
            Names the row, the feature and the value.
        """
        encoder, rows = self._encoder, self._model._read_rows(rows)
        if kind is None and isinstance(encoder, Vocabulary):
            kind = "columns" if encoder.arrays else "named" if encoder.words else None
        if isinstance(rows, NumberRows):  # all have the names of the first
            if len(rows):
                kind = self._check_row(rows[0], kind, "[0]")
            if not all_finite(rows.values.reshape(-1)):
                row = int(np.argmin(np.isfinite(rows.values).all(axis=1)))
                encoder.check(rows[row], f"[{row}]")
            return kind
        for number, x in enumerate(rows):
            kind = self._check_row(x, kind, f"[{number}]")
        return kind

    def _check_row(self, x: Any, kind: RowKind | None, path: str) -> RowKind:
        encoder = self._encoder
        if isinstance(x, Mapping):
            encoder.check(x, path)
            if kind != "columns":
                return "named"
            if any(isinstance(name, str) for name in x):
                raise InvalidBlock("features", "a list: this model's rows are arrays", Description("a dict"), path=path)
            return "columns"
        if not isinstance(x, (list, tuple)):
            raise InvalidBlock("features", "a dict of name to value, or a list of numbers", x, path=path)
        if kind == "named":
            raise InvalidBlock("features", "a dict of name to value, as before", Description("a list"), path=path)
        _check_numbers(x, path)
        if isinstance(encoder, Vocabulary) and len(x) > encoder.most:
            raise InvalidBlock(
                "features", f"at most {encoder.most} columns", Description(f"{len(x)} columns"), path=path
            )
        return "columns"

    def all_known_finite(self, rows: Sequence[Any]) -> bool:
        """Return whether all rows are dicts of known names and finite numbers; `check_rows` passes such rows."""
        try:
            return self._encoder.plain(self._model._read_rows(rows)) is not None
        except InvalidBlock:
            return False

    # -- learning --------------------------------------------------------------------------------

    def bytes_at(self, more: int) -> int:
        """Return the bytes that one step may have to write when `more` new names come with it.

        They grow with the time that the longest steps take: where arrays grow, units change, or a system is solved.
        """
        return self._model._bytes_at(more)

    @property
    @lock_free
    def width(self) -> int:
        """Number of columns that may occur."""
        return self._model._encoder.width

    @lock_free
    def learn_row(self, x: Any, sign: float, weight: float = 1.0) -> float:
        """Learn one row that `check_rows` has passed; return its score before, NaN where it was skipped."""
        if weight == 1.0:
            entry = self._model._entry
            score = entry.learn(id(x), entry.address, sign, 1.0)
            if score == score:
                return score
        if not isinstance(x, Mapping):
            return self.learn_rows([x], np.array([sign]), np.array([weight])).item()
        return self._learn_dict(x, sign, weight)

    def _learn_dict(self, x: Mapping[Any, Any], sign: float, weight: float, *, at_once: bool = True) -> float:
        try:
            return self._model._learn_dict(x, sign, weight, at_once=at_once)
        except NonFiniteStep:
            return math.nan

    def learn_rows(
        self,
        rows: Sequence[Any],
        signs: Floats,
        weights: Floats | None = None,
        *,
        at_once: bool = True,
        encoding: Encoding | None = None,
    ) -> Floats:
        """Learn rows that `check_rows` has passed; return the score (n,) before each update.

        Rows that are `NumberRows` are learned as a matrix. Rows of weight 0 are only scored. A dict alone is one compiled
        call that keeps the GIL; where it is not to be `at_once`, other threads have the GIL during its step. `encoding`
        is of these rows: they are read from it, or into it.
        """
        if weights is None:
            weights = np.ones(len(rows))
        rows = self._model._read_rows(rows)
        if isinstance(rows, NumberRows) or all(type(x) is dict for x in rows):
            return self._learn_dicts(rows, signs, weights, at_once=at_once, encoding=encoding)
        scores = np.empty(len(rows))
        for a, b in _runs([isinstance(x, Mapping) for x in rows]):
            if isinstance(rows[a], Mapping):
                scores[a:b] = self._learn_dicts(rows[a:b], signs[a:b], weights[a:b], at_once=at_once)
            else:
                for c, d in _runs([len(x) for x in rows[a:b]]):
                    part = slice(a + c, a + d)
                    scores[part] = self.learn_array(np.array(rows[part], dtype=np.float64), signs[part], weights[part])
        return scores

    def learn_dicts(
        self,
        rows: Sequence[Mapping[Any, Any]],
        signs: Floats,
        weights: Floats,
        *,
        at_once: bool = True,
        encoding: Encoding | None = None,
    ) -> Floats:
        """Learn dicts that `check_dicts` has passed; return the score (n,) before each update.

        Rows of weight 0 are only scored. `at_once` and `encoding` as in `learn_rows`.
        """
        rows = self._model._read_rows(rows)
        return self._learn_dicts(rows, signs, weights, at_once=at_once, encoding=encoding)

    def _learn_dicts(
        self,
        rows: Sequence[Mapping[Any, Any]],
        signs: Floats,
        weights: Floats,
        *,
        at_once: bool = True,
        encoding: Encoding | None = None,
    ) -> Floats:
        """Learn dicts as the encoder is to read them."""
        model, encoder = self._model, self._encoder
        if encoder.selects:
            return self._learn_selected(rows, signs, weights, at_once=at_once)
        if len(rows) >= MANY and (weights > 0.0).all():
            mark = encoder.mark()
            if encoding is None:
                block = dict_block(encoder, rows, signs, weights, learn=True)
            else:
                block = encoding.read(encoder, rows, signs, weights)
            if _tame(block.values):
                may_skip = encoder.mark() != mark and not model._learns_every_row  # and then leaves no new name
                checkpoint = model._checkpoint() if may_skip else None
                scores = model._learn(block)
                if checkpoint is None or not np.isnan(scores).any():
                    return scores
                model._restore(checkpoint)
            encoder.rewind(mark)
        each = zip(rows, signs.tolist(), weights.tolist(), strict=True)
        return np.array([self._learn_dict(x, sign, weight, at_once=at_once) for x, sign, weight in each])

    def _learn_selected(
        self, rows: Sequence[Mapping[Any, Any]], signs: Floats, weights: Floats, *, at_once: bool
    ) -> Floats:
        """Learn dicts where names come and go: blocks of rows that change no column, and the others one by one."""
        model, encoder = self._model, self._encoder
        scores = np.empty(len(rows))
        start = 0
        while start < len(rows):
            head = quiet_head(encoder, rows, signs, weights, start)
            stop = start + len(head.block)
            if stop - start < 2:
                stop = start + 1
                scores[start] = self._learn_dict(rows[start], signs.item(start), weights.item(start), at_once=at_once)
            else:
                scores[start:stop] = model._learn(head.block)
                head.note(encoder, ~np.isnan(scores[start:stop]))
            start = stop
        return scores

    def learn_array(self, X: Any, y: Any, sample_weight: Any = None) -> Floats:
        """Learn as `partial_fit` does; return the score (n,) before each update.

        Parameters
        ----------
        X : ndarray (n, d), scipy sparse (n, d), or data frame (n, d)
        y : array (n,)
            Labels.
        sample_weight : array (n,) or None
            Weights, finite, >= 0. A row of weight 0 is scored with the state before it and changes nothing.

        Raises
        ------
        InvalidBlock, InvalidLabel
            Nothing was changed.
        """
        model = self._model
        n = row_count(X)
        signs = signs_of(y, n)
        weights = weights_of(sample_weight, n)
        if is_table(X):
            X = model._read_array(table_of(X))
            check_table(self._encoder, X)
            if isinstance(X, FrameTable) or self._encoder.selects:
                return self._learn_dicts(X.rows, signs, weights)
        if sample_weight is None or not (zero := weights == 0.0).any():
            return model._learn_array(X, signs, weights)
        array_block(type(self._encoder)(), X, learn=True)  # checks every row first
        rows = indexable(model._read_array(X))
        scores = np.empty(n)
        edges = np.flatnonzero(np.diff(zero)) + 1
        for a, b in zip([0, *edges], [*edges, n], strict=True):
            if zero[a]:
                scores[a:b] = self._score_wide(rows[a:b])
            else:
                scores[a:b] = model._learn(array_block(self._encoder, rows[a:b], signs[a:b], weights[a:b], learn=True))
        return scores

    def learn_chunk(self, chunk: Block | Rows, encodings: list[Encoding] | None = None) -> Floats:
        """Learn a chunk of a file (see `aucstream.io`); return the score (n,) before each update.

        `encodings` : of this chunk, by the models before; one is added where none is of an equal encoder.
        """
        if isinstance(chunk, Block):
            return self._model._learn(adopted(self._encoder, self._model._read_block(chunk), learn=True))
        if isinstance(chunk.features, SparseTable):
            return self.learn_array(chunk.features, chunk.y, chunk.weights)
        rows = self._model._read_rows(chunk.features)
        if isinstance(rows, NumberRows):  # finite, and all with the names of the first
            check_dicts(self._encoder, [rows[0]] if len(rows) else [])
            return self.learn_rows(rows, chunk.y, chunk.weights)
        encoding = next((each for each in encodings or () if each.fits(self._encoder, rows)), None)
        if encoding is None:  # else an equal encoder has checked them
            check_dicts(self._encoder, [x for x in rows if isinstance(x, Mapping)])
            if encodings is not None:
                encodings.append(encoding := Encoding())
        return self.learn_rows(rows, chunk.y, chunk.weights, encoding=encoding)

    # -- blocks ----------------------------------------------------------------------------------

    def block_of(self, rows: Sequence[Any], signs: Floats | None = None, weights: Floats | None = None) -> Block | None:
        """Return named rows as a block for `learn_block`, or for `score_block` where there are no signs.

        `check_rows` passes rows that become a block. The block stays valid while the model learns, and may be
        learned in parts.

        Returns
        -------
        Block or None
            None where only `learn_rows` and `score_rows` take the rows: a name is not known, a value is not a
            plain finite number of ordinary size, or a weight is 0; and where names come and go.
        """
        encoder = self._encoder
        if encoder.selects or (weights is not None and not (weights > 0.0).all()):
            return None
        try:
            rows = self._model._read_rows(rows)
        except InvalidBlock:
            return None
        if isinstance(rows, NumberRows):
            entries = encoder.take(rows, learn=True) if encoder.has_columns(rows.names) else None
        else:
            entries = encoder.plain(rows)
        if entries is None or not _tame(entries[2]):
            return None
        if weights is None and signs is not None:
            weights = np.ones(len(rows))
        return named_block(encoder, entries, signs, weights)

    @property
    def keeps_columns(self) -> bool:
        """Whether a name keeps its column for good; else no block of `block_of` may be learned, or be scored later."""
        return not self._encoder.selects

    def learn_block(self, block: Block) -> Floats:
        """Learn rows made by `block_of`; return the score (n,) before each update."""
        return self._model._learn(block)

    def score_block(self, block: Block) -> Floats:
        """Return the scores (n,) of rows made by `block_of`."""
        return self._model._score(block)

    # -- scoring ---------------------------------------------------------------------------------

    @lock_free
    def score_known(self, x: Mapping[Any, Any]) -> tuple[float, float] | None:
        """Return (score, probability) of a dict of finite numbers that compiled code reads at once.

        Its names may be new, as far as the encoder has room for them.

        Returns
        -------
        (float, float) or None
            None for any other row: use `check_rows` and `score_rows`.
        """
        entry = self._model._entry
        both = entry.score(id(x), entry.address)
        if both != both:
            try:
                both = self._score_plain(x)
            except InvalidBlock:  # `check_rows` says why
                return None
        return (both.real, both.imag) if both == both else None

    @exclusive
    def _score_plain(self, x: Any) -> complex:
        return self._model._score_plain(x)

    def score_rows(self, rows: Sequence[Any]) -> Floats:
        """Return the scores (n,) of rows that `check_rows` has passed; unknown names and columns count nothing."""
        rows = self._model._read_rows(rows)
        if isinstance(rows, NumberRows) and len(rows) >= MANY:
            return self._score_dicts(rows)
        scores = np.empty(len(rows))
        for a, b in _runs([isinstance(x, Mapping) for x in rows]):
            if isinstance(rows[a], Mapping):
                if b - a < MANY:
                    scores[a:b] = [self._score_row(x) for x in rows[a:b]]
                else:
                    scores[a:b] = self._score_dicts(rows[a:b])
            else:
                for c, d in _runs([len(x) for x in rows[a:b]]):
                    part = slice(a + c, a + d)
                    scores[part] = self._score_wide(np.array(rows[part], dtype=np.float64))
        return scores

    def _score_row(self, x: Mapping[Any, Any]) -> float:
        """Return the score of a dict; the caller holds the lock."""
        entry = self._model._row_entry()
        score: float = entry.score(-id(x), entry.address).real
        return score if score == score else self._model._score_dict(x)

    def score_dicts(self, rows: Sequence[Mapping[Any, Any]]) -> Floats:
        """Return the score (n,) of each dict, as `score_one`."""
        return self._score_dicts(self._model._read_rows(rows))

    def _score_dicts(self, rows: Sequence[Mapping[Any, Any]]) -> Floats:
        missed: list[int] = []
        scores = self._model._score(dict_block(self._encoder, rows, learn=False, missed=missed))
        for number in missed:
            scores[number] = self._model._score_dict(rows[number])
        return scores

    def score_table(self, X: Any) -> Floats:
        """Return the score (n,) of each row of a frame; names never learned count nothing.

        Raises
        ------
        InvalidBlock
            A value cannot be used, or the model's rows are arrays and the frame's columns have names.
        """
        table = self._model._read_array(table_of(X))
        check_table(self._encoder, table, learn=False)
        if isinstance(table, FrameTable):
            return self._score_dicts(table.rows)
        return self._model._score(table_block(self._encoder, table, learn=False))

    def score_chunk(self, chunk: Block | Rows) -> Floats:
        """Return the scores (n,) of a chunk of a file; names and columns never learned count nothing."""
        if isinstance(chunk, Block):
            return self._model._score(adopted(self._encoder, self._model._read_block(chunk), learn=False))
        if isinstance(chunk.features, SparseTable):
            return self.score_table(chunk.features)
        return self.score_rows(chunk.features)

    def knows_any(self, chunk: Block | Rows) -> bool:
        """Return whether a row of a chunk has a name that was learned; for rows without names True."""
        if isinstance(chunk, Block):
            return True
        rows = self._model._read_rows(chunk.features)
        if isinstance(rows, NumberRows):
            rows = rows[:1]
        return any(not isinstance(x, Mapping) or self._encoder.look_up(x)[0].size > 0 for x in rows)

    def _score_wide(self, X: Any) -> Floats:
        """Score rows that may have columns the model has not seen: they count nothing."""
        if isinstance(X, SparseTable):
            return self.score_table(X)
        return self._model._score(adopted(self._encoder, checked_array(X), learn=False))

    def explain_row(self, row: Mapping[Any, Any] | Sequence[float]) -> dict[Any, float]:
        """Return the contributions to the score of a row as `score_rows` takes it: a dict, or a list."""
        if not isinstance(row, Mapping):
            (row,) = self._model._read_rows([row])
            row = {column: value for column, value in enumerate(row) if self._encoder.knows(column)}
        return self._model.explain_one(row)

    # -- calibration and warm-up -----------------------------------------------------------------

    def probabilities(self, scores: Floats) -> Floats:
        """Return the calibrated probability (n,) of each score (n,)."""
        return self._model._probabilities(scores)

    @property
    def calibration_line(self) -> tuple[float, float] | None:
        """(slope, intercept) of the log odds on the score; None until both classes were seen."""
        return self._model._calibration_line

    @property
    def log_odds_line(self) -> tuple[float, float, float]:
        """(slope, intercept, largest score that counts): what makes a score log odds, also before both classes."""
        line: tuple[float, float, float] = log_odds_line(self._model._ledger)
        return line

    def end_warmup(self) -> None:
        """Wait for no more rows: a map that is fitted on the first rows is fitted on those that came."""
        self._model._end_warmup()


def indexable(X: Any) -> Any:
    """Return the rows of an array or a frame so that a slice, or an array of numbers, takes some of them."""
    if is_table(X):
        return table_of(X)
    return X.tocsr() if is_sparse(X) else np.asarray(X)


def row_count(X: Any) -> int:
    """Return n of an array (n, d) or a frame, or raise InvalidBlock."""
    if is_table(X) and not hasattr(X, "shape"):
        return len(table_of(X))
    shape = getattr(X, "shape", None)
    if shape is None:
        try:
            shape = np.shape(X)
        except ValueError as error:
            raise InvalidBlock(
                "features", "a two-dimensional array (n, d)", Description("rows of unequal length")
            ) from error
    if len(shape) != 2:
        raise InvalidBlock("features", "a two-dimensional array (n, d)", tuple(shape))
    return int(shape[0])


def _tame(values: Floats) -> bool:
    """Return whether a skipped row of these is so unlikely that they may be a block: it would leave a name behind."""
    return not values.size or bool(max(values.max(), -values.min()) < TAME)


def _runs(keys: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Yield (start, stop) of each run of equal keys."""
    start = 0
    for i in range(1, len(keys) + 1):
        if i == len(keys) or keys[i] != keys[start]:
            if i > start:
                yield start, i
            start = i


def _check_numbers(x: Sequence[Any], path: str) -> None:
    for column, value in enumerate(x):
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number)):
            raise InvalidBlock("features", "a finite number", value, path=f"{path}[{column}]")
        try:
            finite = math.isfinite(float(value))
        except OverflowError:
            finite = False
        if not finite:
            raise InvalidBlock("features", "a finite number", value, path=f"{path}[{column}]")
