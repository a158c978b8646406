"""NDJSON: one `{"features": …, "label": …}` a line."""

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
from aucstream.io.rows import CHUNK_ROWS, Rows
from aucstream.io.source import PathLike, Source, as_source, whole_lines

KEYS = ("features", "label", "weight", "id")
_SIGNS: dict[float | None, float] = {0.0: NEGATIVE, -1.0: NEGATIVE, 1.0: POSITIVE}  # False, True hash alike

_OBJECT = 'one JSON object {"features": …, "label": …} a line'
_FEATURES = "an object (name to value) or an array of numbers"
_VALUE = "a finite number, true, false, a string, an array of strings, or null if missing"
_NUMBER = "a finite number"
_LABEL = "a label: negative (false, 0, -1) or positive (true, 1)"
_WEIGHT = "a finite number >= 0"
_SURROGATE = re.compile("[\ud800-\udfff]")


class Row(msgspec.Struct, forbid_unknown_fields=True):
    """One line."""

    features: dict[str, float | bool | str | list[str] | None] | list[float]
    label: float | bool | None = None
    weight: float = 1.0
    id: str | None = None


def read_ndjson(
    source: Source | PathLike | IO[bytes], *, chunk_rows: int = CHUNK_ROWS, labelled: bool = True
) -> Iterator[Rows]:
    """Read NDJSON in chunks of rows: `{"features": {…} | […], "label": …, "weight"?: …, "id"?: …}`.

    A feature is a number, a bool, a string, a list of strings, or null (missing); a list of
    features is an array row. Blank lines are passed over, and so is `id`.

    Parameters
    ----------
    source : path, `-`, Source or binary file-like
        Decompressed on the way.
    chunk_rows : int
        Rows in a chunk.
    labelled : bool
        False: rows are only scored; `label` may be absent, `Rows.y` is empty.

    Yields
    ------
    Rows

    Raises
    ------
    BadRow
        Naming file, line, feature or key, value, and the JSON pointer as `path`.
    """
    return _chunks(as_source(source), chunk_rows, labelled)


def _chunks(source: Source, chunk_rows: int, labelled: bool) -> Iterator[Rows]:
    decode = msgspec.json.Decoder(Row).decode
    alike = JsonRows()
    passing = 0  # lines for which `alike` is not asked
    chunk = _Chunk()
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
                sign = NEGATIVE
                if labelled:
                    sign = _SIGNS.get(row.label, 0.0)
                    if not sign:
                        raise BadRow(source.name, line, "label", _LABEL, row.label, path="/label")
                if not row.weight >= 0:
                    raise BadRow(source.name, line, "weight", _WEIGHT, row.weight, path="/weight")
                if passing:
                    passing -= 1
                elif alike.learn(raw):
                    line -= 1
                    continue
                else:
                    passing = alike.passing()
                at = end + 1
                named: Any = row.features
                if type(named) is dict and None in named.values():
                    named = {name: value for name, value in named.items() if value is not None}
                chunk.features.append(named)
                chunk.signs.append(sign)
                chunk.weights.append(row.weight)
                chunk.lines.append(line)
                chunk.size += 1
            else:
                chunk.extend(plain, line + 1)
                line += len(plain)
                at = plain.end
            if chunk.size == chunk_rows:
                yield chunk.rows(labelled)
                chunk = _Chunk()
    if chunk.size:
        yield chunk.rows(labelled)


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
    if not (label is None or isinstance(label, bool) or _is_number(label)):
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
