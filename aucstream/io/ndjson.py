"""NDJSON: one `{"features": …, "label": …}` a line, or one flat object a line whose label has a name."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import IO, Any

import msgspec
import numpy as np

from aucstream.block import NEGATIVE, POSITIVE
from aucstream.errors import BadRow
from aucstream.features.number_rows import together
from aucstream.io.json_rows import JsonRows, PlainRows
from aucstream.io.labels import Labels
from aucstream.io.rows import CHUNK_ROWS, Rows
from aucstream.io.source import PathLike, Source, as_source, whole_lines

KEYS = ("features", "label", "weight", "id")
_SIGNS: dict[float | None, float] = {0.0: NEGATIVE, -1.0: NEGATIVE, 1.0: POSITIVE}  # False, True hash alike

_OBJECT = 'one JSON object {"features": …, "label": …} a line'
_FLAT = "one JSON object of name to value a line"
_FEATURES = "an object (name to value) or an array of numbers"
_VALUE = "a finite number, true, false, a string, an array of strings, or null if missing"
_NUMBER = "a finite number"
_LABEL = "a label: negative (false, 0, -1) or positive (true, 1), or positive=VALUE that names the class"
_WEIGHT = "a finite number >= 0"
_SURROGATE = re.compile("[\ud800-\udfff]")


_Values = dict[str, float | bool | str | list[str] | None]


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """One line."""

    features: _Values | list[float]
    label: int | float | bool | str | msgspec.UnsetType | None = msgspec.UNSET
    weight: float | msgspec.UnsetType = msgspec.UNSET
    id: str | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def names(self) -> int:
        """How many names a line of this row has."""
        keys = sum(value is not msgspec.UNSET for value in (self.label, self.weight, self.id))
        return 1 + keys + (len(self.features) if isinstance(self.features, dict) else 0)


def read_ndjson(
    source: Source | PathLike | IO[bytes],
    *,
    label: str | None = None,
    positive: str | None = None,
    chunk_rows: int = CHUNK_ROWS,
    labelled: bool = True,
) -> NdjsonReader:
    """Read NDJSON in chunks of rows: `{"features": {…} | […], "label": …, "weight"?: …, "id"?: …}`, or flat objects.

    A feature is a number, a bool, a string, a list of strings, or null (missing); a list of
    features is an array row. Blank lines are passed over, and so is `id`. A name that stands twice is refused.

    Parameters
    ----------
    source : path, `-`, Source or binary file-like
        Decompressed on the way.
    label : str, optional
        Lines are flat objects, `{"age": 31, "paid": true}`: the name of the label among their names.
    positive : str, optional
        The text of a positive label; every other one is negative. Needed where labels are words.
    chunk_rows : int
        Rows in a chunk.
    labelled : bool
        False: rows are only scored; labels may be absent, `Rows.y` is empty.

    Returns
    -------
    NdjsonReader
        An iterator of Rows.

    Raises
    ------
    InvalidParams
        Labels are words, and no `positive` is given.
    BadRow
        Naming file, line, feature or key, value, and the JSON pointer as `path`.
    """
    return NdjsonReader(as_source(source), label, positive, chunk_rows, labelled)


class NdjsonReader:
    """Iterates over chunks of an NDJSON file; made by `read_ndjson`."""

    def __init__(
        self, source: Source, label: str | None, positive: str | None, chunk_rows: int, labelled: bool
    ) -> None:
        self._labels = Labels(source.name, label or "label", positive) if labelled else None
        if label is not None:
            self._chunks = _flat_chunks(source, label, self._labels, chunk_rows)
        else:
            words = self._labels if positive is not None else None
            self._chunks = _row_chunks(source, words, chunk_rows, labelled)

    def __iter__(self) -> Iterator[Rows]:
        return self

    def __next__(self) -> Rows:
        return next(self._chunks)

    @property
    def label_words(self) -> tuple[str, ...]:
        """Distinct labels of the first chunk of flat objects, or where `positive` names one of them."""
        return () if self._labels is None else self._labels.words


def _flat_chunks(source: Source, label: str, labels: Labels | None, chunk_rows: int) -> Iterator[Rows]:
    decode = msgspec.json.Decoder(dict[str, int | float | bool | str | list[str] | None]).decode
    features: list[Any] = []
    texts: list[str] = []
    lines: list[int] = []

    def rows() -> Rows:
        y = np.empty(0) if labels is None else labels.signs(texts, lines)
        return Rows(features, y, np.ones(len(features)), np.array(lines, dtype=np.int64))

    line = 0
    for piece in whole_lines(source):
        for raw in piece.split(b"\n")[:-1]:
            line += 1
            try:
                row = decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if raw.strip():
                    raise _bad_flat(source.name, line, raw, error) from error
                continue
            if raw.count(b":") > len(row):
                _refuse_twice(source.name, line, raw)
            value = row.pop(label, None)
            if labels is not None and value is None:
                raise BadRow(source.name, line, label, f"a label under {label!r}", row)
            texts.append(_label_text(value))
            for name, each in row.items():
                if type(each) is int:
                    row[name] = float(each)
            features.append(
                {name: each for name, each in row.items() if each is not None} if None in row.values() else row
            )
            lines.append(line)
            if len(features) == chunk_rows:
                yield rows()
                features, texts, lines = [], [], []
    if features:
        yield rows()


def _label_text(value: Any) -> str:
    """Return a label as the text that `positive` names."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() if isinstance(value, (int, float, str)) else json.dumps(value)


def _refuse_twice(file: str, line: int, raw: bytes) -> None:
    """Raise where a name stands twice in an object; a colon more than names may as well be one of a string."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise BadRow(file, line, name, "names that stand once in an object", raw.decode(errors="replace"))
        return dict(pairs)

    json.loads(raw, object_pairs_hook=once)


def _bad_flat(file: str, line: int, raw: bytes, error: Exception) -> BadRow:
    """Find what the decoder stumbled over in a flat object."""
    try:
        row = json.loads(raw)
    except (ValueError, RecursionError):
        return BadRow(file, line, "", f"{_FLAT} ({error})", raw.decode(errors="replace"))
    if not isinstance(row, dict):
        return BadRow(file, line, "", _FLAT, row)
    for name, value in row.items():
        if not _is_value(value):
            hint = "; rows of features and label need no name of the label" if name == "features" else ""
            return BadRow(file, line, name, _VALUE + hint, value, path=f"/{_escaped(name)}")
    return BadRow(file, line, "", f"{_FLAT} ({error})", raw.decode(errors="replace"))


def _row_chunks(source: Source, words: Labels | None, chunk_rows: int, labelled: bool) -> Iterator[Rows]:
    decode = msgspec.json.Decoder(Row).decode
    alike = JsonRows()
    passing = 0 if words is None else 1 << 62  # lines for which `alike` is not asked
    texts: list[str] = []  # labels of the chunk, where their text decides
    chunk = _Chunk()

    def signed(rows: Rows) -> Rows:
        if words is not None:
            rows.y = words.signs(texts, rows.lines.tolist())
            texts.clear()
        return rows

    line = 0
    for piece in whole_lines(source):
        at = 0
        while at < len(piece):
            plain = None if passing else alike.read(piece, at, chunk_rows - chunk.size)
            if plain is None:
                line += 1
                end = piece.index(b"\n", at)
                raw = piece[at:end]
                try:
                    row = decode(raw)
                except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                    if raw.strip():
                        raise _bad_row(source.name, line, raw, error) from error
                    at = end + 1
                    continue
                if raw.count(b":") > row.names:
                    _refuse_twice(source.name, line, raw)
                sign = NEGATIVE
                if labelled:
                    sign = _sign_of(row.label, by_text=words is not None)
                    if not sign:
                        label = None if row.label is msgspec.UNSET else row.label
                        raise BadRow(source.name, line, "label", _LABEL, label, path="/label")
                weight = 1.0 if row.weight is msgspec.UNSET else row.weight
                if not weight >= 0:
                    raise BadRow(source.name, line, "weight", _WEIGHT, weight, path="/weight")
                if passing:
                    passing -= 1
                elif alike.learn(raw):
                    line -= 1
                    continue
                else:
                    passing = alike.passing()
                if words is not None:
                    texts.append(_label_text(row.label))
                at = end + 1
                named: Any = row.features
                if type(named) is dict and None in named.values():
                    named = {name: value for name, value in named.items() if value is not None}
                chunk.features.append(named)
                chunk.signs.append(sign)
                chunk.weights.append(weight)
                chunk.lines.append(line)
                chunk.size += 1
            else:
                chunk.extend(plain, line + 1)
                line += len(plain)
                at = plain.end
            if chunk.size == chunk_rows:
                yield signed(chunk.rows(labelled))
                chunk = _Chunk()
    if chunk.size:
        yield signed(chunk.rows(labelled))


def _sign_of(label: Any, *, by_text: bool) -> float:
    """Return the sign of a label, which is of no account where its text decides; 0.0 where it is none."""
    if by_text:
        return 0.0 if label is None or label is msgspec.UNSET else NEGATIVE
    return 0.0 if isinstance(label, (str, msgspec.UnsetType)) else _SIGNS.get(label, 0.0)


class _Chunk:
    """The rows of the chunk at hand: parts that came as a matrix, and those behind them that came one by one."""

    def __init__(self) -> None:
        self.size = 0
        self._parts: list[Rows] = []
        self._begin()

    def _begin(self) -> None:
        self.features: list[Any] = []
        self.signs: list[float] = []
        self.weights: list[float] = []
        self.lines: list[int] = []

    def _end(self) -> None:
        if self.features:
            lines = np.array(self.lines, dtype=np.int64)
            self._parts.append(Rows(self.features, np.array(self.signs), np.array(self.weights), lines))
            self._begin()

    def extend(self, rows: PlainRows, line: int) -> None:
        """Add rows that start on this line."""
        self._end()
        n = len(rows)
        features = rows.values.tolist() if rows.names is None else rows.columns
        signs = np.full(n, NEGATIVE) if rows.signs is None else rows.signs
        weights = np.ones(n) if rows.weights is None else rows.weights
        self._parts.append(Rows(features, signs, weights, np.arange(line, line + n)))
        self.size += n

    def rows(self, labelled: bool) -> Rows:
        """Return all of them."""
        self._end()
        parts = self._parts
        return Rows(
            together([part.features for part in parts]),
            np.concatenate([part.y for part in parts]) if labelled else np.empty(0),
            np.concatenate([part.weights for part in parts]),
            np.concatenate([part.lines for part in parts]),
        )


def _bad_row(file: str, line: int, raw: bytes, error: Exception) -> BadRow:
    """Find what the decoder stumbled over; it does not name the feature."""
    try:
        row = json.loads(raw)  # reads NaN, Infinity and 1e400, so that they can be named
    except (ValueError, RecursionError):
        return BadRow(file, line, "", f"{_OBJECT} ({error})", raw.decode(errors="replace"))
    if _SURROGATE.search(json.dumps(row, ensure_ascii=False)):
        expected = "strings of whole characters, not half of a surrogate pair, such as \\ud800"
        return BadRow(file, line, "", expected, raw.decode(errors="replace"))
    column, pointer, expected, value = _complaint(row) or ("", "", f"{_OBJECT} ({error})", row)
    return BadRow(file, line, column, expected, value, path=pointer)


def _complaint(row: Any) -> tuple[str, str, str, object] | None:
    """Return (column, JSON pointer, expected, got) of the first thing wrong in a decoded line."""
    if not isinstance(row, dict):
        return "", "", _OBJECT, row
    for key in row:
        if key not in KEYS:
            return key, f"/{_escaped(key)}", f"only the keys {', '.join(KEYS)}", row[key]
    if "features" not in row:
        return "features", "", 'the key "features"', row
    features = row["features"]
    if isinstance(features, dict):
        for name, value in features.items():
            if not _is_value(value):
                return name, f"/features/{_escaped(name)}", _VALUE, value
    elif isinstance(features, list):
        for j, value in enumerate(features):
            if not _is_number(value):
                return str(j), f"/features/{j}", _NUMBER, value
    else:
        return "features", "/features", _FEATURES, features
    label = row.get("label")
    if not (label is None or isinstance(label, (bool, str)) or _is_number(label)):
        return "label", "/label", _LABEL, label
    if "weight" in row and not _is_number(row["weight"]):
        return "weight", "/weight", _WEIGHT, row["weight"]
    if not isinstance(row.get("id"), str | None):
        return "id", "/id", "a string", row["id"]
    return None


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _is_number(value: object) -> bool:
    try:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    except OverflowError:
        return False


def _is_value(value: object) -> bool:
    if isinstance(value, list):
        return all(isinstance(word, str) for word in value)
    return value is None or isinstance(value, (bool, str)) or _is_number(value)
