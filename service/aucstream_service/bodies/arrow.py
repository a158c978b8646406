"""Arrow IPC streams as bodies: record batches as they come, each under a limit, checked before anything reads them.

Rows that are all numbers become one matrix. Others become the lines of JSON that mean the same, and are read as those.
"""

from __future__ import annotations

import asyncio
import importlib
import math
import struct
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from aucstream.block import signs_of, weights_of
from aucstream.errors import AucstreamError, pip_install
from aucstream.features.number_rows import NumberRows
from aucstream_service.bodies.arrow_frames import (
    BATCH,
    DICTIONARY,
    SCHEMA,
    Frame,
    Frames,
    inflated,
    malformed,
    too_large,
)
from aucstream_service.bodies.bodies import Call, RowLimits, checked_id
from aucstream_service.errors.exceptions import InvalidBody, UnsupportedMedia, pointer_of
from aucstream_service.errors.refusal_text import names_in
from aucstream_service.http.request_context import ARROW
from aucstream_service.journal.row_batch import Line, RowBatch

SLICE_ROWS = 2048  # rows that are one event, and at most so many values
SLICE_CELLS = 1 << 18
STEP_ROWS = 128  # the same for rows that come as lines
STEP_BYTES = 1 << 20
AWAY_BYTES = 1 << 17  # a larger message is decoded in a thread

FIELDS = {"id", "label", "weight"}  # columns that are no features

# What the values of a column are: ODD_NUMBER are decimals and dictionaries of numbers, WORDS and NUMBERS lists,
# BOOL also columns of nulls.
NUMBER, ODD_NUMBER, BOOL, WORD, WORDS, NUMBERS = "number", "odd number", "bool", "word", "words", "numbers"
FAST = {"id": {WORD}, "label": {NUMBER, BOOL}, "weight": {NUMBER}}

_NAN, _INFINITY, _MINUS_INFINITY = map(msgspec.Raw, (b"NaN", b"Infinity", b"-Infinity"))  # a message names them
_encode = msgspec.json.Encoder().encode


class Limits(NamedTuple):
    """What a message may hold."""

    size: int  # bytes, also when inflated
    rows: int
    line: int  # bytes of a row as JSON


async def pyarrow() -> Any:
    """Return pyarrow, or raise UnsupportedMedia; the first time it is loaded in a thread."""
    try:
        return await asyncio.to_thread(_load)
    except ImportError:
        expected = f"application/json or application/x-ndjson; Arrow streams need {pip_install('arrow')}"
        accept = {"Accept": "application/json, application/x-ndjson"}
        raise UnsupportedMedia("Content-Type", expected, ARROW.decode(), headers=accept) from None


def _load() -> Any:
    importlib.import_module("pyarrow.compute")
    importlib.import_module("pyarrow.ipc")
    return importlib.import_module("pyarrow")


# ---- batches -----------------------------------------------------------------------------------


class _Source:
    """What pyarrow reads from: whole messages, and never more than were put in."""

    closed = False

    def __init__(self) -> None:
        self._data = bytearray()

    def put(self, data: bytes) -> None:
        """Add a message."""
        self._data += data

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        size = len(self._data) if size < 0 else size
        data = bytes(memoryview(self._data)[:size])
        del self._data[:size]
        return data

    def readable(self) -> bool:
        """Return True."""
        return True

    def close(self) -> None:
        """Do nothing."""


class Batches:
    """Record batches of one body."""

    def __init__(
        self,
        pa: Any,
        limits: Limits,
        row_limits: RowLimits,
        call: Call,
        opened: Callable[[Sequence[str]], None] | None = None,
    ) -> None:
        self._pa = pa
        self._limits = limits
        self._row_limits = row_limits
        self._call = call
        self._opened = opened  # called once, with the names of the fields that are no features
        self._frames = Frames(limits.size)
        self._source = _Source()
        self._reader: Any = None
        self._shape: Shape | None = None
        self._dictionaries: dict[int, int] = {}  # bytes by number
        self._row = 1

    @property
    def size(self) -> int:
        """Bytes that are held between two parts of the body."""
        return self._frames.size + sum(self._dictionaries.values())

    async def feed(self, part: bytes) -> AsyncIterator[RecordBatch]:
        """Yield the batches that end in this part of the body; raises MalformedArrow, BodyTooLarge, InvalidBody."""
        for frame in self._frames.feed(part):
            if frame.kind == SCHEMA:
                if self._shape is not None:
                    raise malformed("one schema")
                self._source.put(frame.data)
                self._shape = self._safe(self._open)
                if self._opened is not None:
                    self._opened(self._shape.fields)
                continue
            if self._shape is None:
                raise malformed("a schema first")
            self._admit(frame, self._shape.width)
            self._source.put(frame.data)
            if frame.kind == BATCH:
                away = len(frame.data) + sum(self._dictionaries.values()) > AWAY_BYTES
                batch = await asyncio.to_thread(self._safe, self._next) if away else self._safe(self._next)
                yield RecordBatch(self._pa, self._shape, batch, self._row, self._limits)
                self._row += batch.num_rows

    def end(self) -> None:
        """Raise MalformedArrow if the body ended too early."""
        self._frames.end()
        if self._shape is None:
            raise malformed("a schema first")

    def _admit(self, frame: Frame, columns: int) -> None:
        """Refuse a message before pyarrow makes room for what it declares."""
        most = self._limits
        try:
            size = inflated(frame)
            rows = -1 if frame.head is None else frame.head.number("<q", 0)
        except struct.error:
            raise malformed("messages whose heads can be read") from None
        if rows < 0:
            raise malformed("messages that have rows")
        if frame.kind == DICTIONARY:
            before = self._dictionaries.get(frame.dictionary, 0) if frame.delta else 0
            self._dictionaries[frame.dictionary] = before + size
            size = sum(self._dictionaries.values())
        elif rows > most.rows:
            raise too_large(f"record batches of at most {most.rows} rows")
        elif rows * columns > most.size:
            raise too_large(f"record batches of at most {most.size} values")
        if size > most.size:
            raise too_large(f"messages of at most {most.size} bytes when they are not compressed")

    def _safe(self, call: Callable[[], Any]) -> Any:
        pa = self._pa
        try:
            return call()
        except (pa.ArrowException, OSError, ValueError, LookupError, TypeError, MemoryError, StopIteration) as error:
            raise malformed(f"messages that fit their schema ({type(error).__name__})") from None

    def _open(self) -> Any:
        options = self._pa.ipc.IpcReadOptions(use_threads=False)
        self._reader = self._pa.ipc.open_stream(self._source, options=options)
        return Shape(self._pa, self._reader.schema, self._call, self._row_limits)

    def _next(self) -> Any:
        batch = self._reader.read_next_batch()
        batch.validate(full=True)
        return batch


class Shape:
    """What the columns of a stream are: fields of the body of a row, or features.

    `fields` are the names that stand beside the features; `inner` is whether these are a struct `features`.
    """

    def __init__(self, pa: Any, schema: Any, call: Call, limits: RowLimits) -> None:
        names: list[str] = list(schema.names)
        if len(set(names)) < len(names):
            raise _refused([], "columns with names that differ")
        nested = schema.field("features").type if "features" in names and call is not Call.LABEL else pa.null()
        self.call = call
        self.names = names
        self.inner = bool(pa.types.is_struct(nested))
        children = [nested.field(at) for at in range(nested.num_fields)] if self.inner else []
        inner = [str(child.name) for child in children]
        if len(set(inner)) < len(inner):
            raise _refused(["features"], "a struct with names that differ")
        whole = call is Call.LABEL or self.inner or _is_list(pa, nested)  # no other column is a feature
        self.fields = [name for name in names if (whole or name in FIELDS) and not (self.inner and name == "features")]
        self.features = inner if self.inner else [name for name in names if name not in self.fields]
        self.has_features = self.inner or not whole  # as an object of names
        self.kinds = {
            name: _kind_of(pa, schema.field(name).type, [name], numbers=name == "features") for name in self.fields
        }
        types = (
            {child.name: child.type for child in children} if self.inner else {n: schema.field(n).type for n in names}
        )
        self.feature_kinds = {name: _kind_of(pa, types[name], ["features", name]) for name in self.features}
        self.width = len(names) + len(inner)
        allowed = {Call.LEARN: FIELDS, Call.PREDICT: {"id"}, Call.LABEL: set()}[call]
        self.fast = (
            self.has_features
            and {*self.fields} <= allowed
            and ("label" in self.fields) == (call is Call.LEARN)
            and all(self.kinds[name] in FAST[name] for name in self.fields)
            and all(kind == NUMBER for kind in self.feature_kinds.values())
            and len(self.features) <= limits.features
            and all(len(name) <= limits.name_length for name in self.features)
        )


def _is_list(pa: Any, kind: Any) -> bool:
    types = pa.types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _is_word(pa: Any, kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _kind_of(pa: Any, kind: Any, tokens: list[str], *, numbers: bool = False) -> str:
    """Return what the values of a column are, or raise InvalidBody; `numbers`: lists of them are allowed."""
    types = pa.types
    encoded = types.is_dictionary(kind)
    if encoded:
        kind = kind.value_type
    if _is_word(pa, kind) or (types.is_string_view(kind) and not encoded):
        return WORD
    if types.is_integer(kind) or types.is_floating(kind):
        return ODD_NUMBER if encoded else NUMBER
    if types.is_decimal(kind):
        return ODD_NUMBER
    if types.is_boolean(kind) or types.is_null(kind):
        return BOOL
    if _is_list(pa, kind) and not encoded:
        inner = kind.value_type
        if _is_word(pa, inner):
            return WORDS
        if numbers and (types.is_integer(inner) or types.is_floating(inner)):
            return NUMBERS
    raise _refused(tokens, "a column of numbers, booleans, strings or lists of strings")


def _refused(tokens: Sequence[str], expected: str) -> InvalidBody:
    return InvalidBody("column", expected, pointer=pointer_of(names_in(tokens)))


class RecordBatch:
    """One record batch of a stream; `row` is the number of its first row, from 1."""

    def __init__(self, pa: Any, shape: Shape, batch: Any, row: int, limits: Limits) -> None:
        self._pa = pa
        self._shape = shape
        self._line = limits.line
        self._row = row
        self._rows: int = batch.num_rows
        self._columns = dict(zip(shape.names, batch.columns, strict=True))
        self._struct = self._columns["features"] if shape.inner else None
        self._features = (
            {name: self._columns[name] for name in shape.features}
            if self._struct is None
            else dict(zip(shape.features, self._struct.flatten(), strict=True))
        )
        self._check_views(limits.size)
        self._arrays: list[np.ndarray] | None = None
        if shape.fast and not any(
            column.null_count
            for column in (*self._features.values(), *(() if self._struct is None else (self._struct,)))
        ):
            self._arrays = [column.to_numpy(zero_copy_only=False) for column in self._features.values()]

    def __len__(self) -> int:
        return self._rows

    def _check_views(self, most: int) -> None:
        """Refuse views that show the same bytes again and again."""
        size = 0
        for column in (*self._columns.values(), *self._features.values()):
            if self._pa.types.is_string_view(column.type):
                views = np.frombuffer(column.buffers()[1] or b"", dtype="<i4").reshape(-1, 4)
                size += int(views[column.offset : column.offset + len(column), 0].astype(np.int64).sum())
        if size > most:
            raise too_large(f"record batches of at most {most} bytes")

    def parts(self) -> Iterator[RowBatch | list[Line]]:
        """Yield the rows in parts: as one matrix, or as lines of JSON with their numbers."""
        step = max(1, min(SLICE_ROWS, SLICE_CELLS // max(1, self._shape.width)))
        for start in range(0, self._rows, step):
            stop = min(self._rows, start + step)
            matrix = self._matrix(start, stop)
            if matrix is not None:
                yield matrix
                continue
            items: list[Line] = []
            size = 0
            for item in self._lines(start, stop):
                items.append(item)
                size += len(item[1] or b"")
                if len(items) >= STEP_ROWS or size > STEP_BYTES:
                    yield items
                    items, size = [], 0
            if items:
                yield items

    def _matrix(self, start: int, stop: int) -> RowBatch | None:
        if self._arrays is None:
            return None
        rows = stop - start
        values = np.empty((rows, len(self._arrays)))
        for at, column in enumerate(self._arrays):
            values[:, at] = column[start:stop]
        if not np.isfinite(values).all():
            return None
        batch = RowBatch(
            NumberRows(self._shape.features, values),
            places=range(self._row + start, self._row + stop),
            size=values.nbytes + rows,
            as_lines=lambda: list(self._lines(start, stop)),
        )
        try:
            for name in self._shape.fields:
                column = self._columns[name].slice(start, rows)
                if name == "id":
                    ids = [None if id_ is None else checked_id(id_) for id_ in _words(column)]
                    batch.ids = ids if any(ids) else None
                elif column.null_count:
                    return None
                elif name == "label":
                    batch.signs = signs_of(column.to_numpy(zero_copy_only=False), rows)
                else:
                    weights = weights_of(column.to_numpy(zero_copy_only=False), rows)
                    batch.weights = None if (weights == 1.0).all() else weights
        except AucstreamError:
            return None
        if batch.ids is not None and self._shape.call is Call.PREDICT:
            return None  # what waits for its label waits as JSON
        return batch

    def _lines(self, start: int, stop: int) -> Iterator[Line]:
        """Yield each row as a line of JSON that means the same; None instead of one that is too long."""
        shape = self._shape
        fields = {
            name: self._values(kind, self._columns[name].slice(start, stop - start))
            for name, kind in shape.kinds.items()
        }
        features = [
            self._values(kind, self._features[name].slice(start, stop - start), nan=None)
            for name, kind in shape.feature_kinds.items()
        ]
        absent = [] if self._struct is None else self._struct.slice(start, stop - start).is_null().to_pylist()
        for at in range(stop - start):
            row: dict[str, Any] = {}
            if shape.has_features:
                values = {
                    name: column[at]
                    for name, column in zip(shape.features, features, strict=True)
                    if column[at] is not None
                }
                row["features"] = None if absent and absent[at] else values
            for name, column in fields.items():
                if column[at] is not None or name not in ("id", "weight"):
                    row[name] = column[at]
            yield self._row + start + at, self._encoded(row)

    def _encoded(self, row: dict[str, Any]) -> bytes | None:
        # A dictionary's word may be in many rows and columns: its length comes before its copy.
        features = row.get("features")
        values = features.values() if isinstance(features, dict) else ()
        if sum(len(value) for value in (*values, *row.values()) if type(value) is str) > self._line:
            return None
        data = _encode(row)
        return data if len(data) <= self._line else None

    def _values(self, kind: str, column: Any, nan: Any = _NAN) -> list[Any]:
        """Return the values of a column as JSON has them."""
        if kind == WORD:
            return _words(column)
        if self._pa.types.is_dictionary(column.type):
            column = column.dictionary_decode()
        return [_json_value(value, nan) for value in column.to_pylist()]


def _words(column: Any) -> list[str | None]:
    """Return strings; those of a dictionary are made once each."""
    if not hasattr(column, "dictionary"):
        words: list[str | None] = column.to_pylist()
        return words
    used = column.indices.unique().drop_null()
    words_at = dict(zip(used.to_pylist(), column.dictionary.take(used).to_pylist(), strict=True))
    return [None if at is None else words_at[at] for at in column.indices.to_pylist()]


def _json_value(value: Any, nan: Any) -> Any:
    """Return a value as JSON has it: decimals and half floats as floats, what is not finite as a name."""
    if value is None or isinstance(value, (int, str)):
        return value
    if isinstance(value, list):
        return [_json_value(item, nan) for item in value]
    number = float(value)
    if math.isfinite(number):
        return number
    return nan if number != number else _INFINITY if number > 0 else _MINUS_INFINITY
