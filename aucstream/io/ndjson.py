"""NDJSON: one `{"features": …, "label": …}` a line."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import IO, Any

import msgspec
import numpy as np

from aucstream.block import NEGATIVE, POSITIVE
from aucstream.errors import BadRow
from aucstream.io.rows import CHUNK_ROWS, NamedFeatures, Rows
from aucstream.io.source import PathLike, Source, as_source, whole_lines

KEYS = ("features", "label", "weight", "id")
_SIGNS: dict[float | None, float] = {0.0: NEGATIVE, -1.0: NEGATIVE, 1.0: POSITIVE}  # False, True hash alike

_OBJECT = 'one JSON object {"features": …, "label": …} a line'
_FEATURES = "an object (name to value) or an array of numbers"
_VALUE = "a finite number, true, false, a string, an array of strings, or null if missing"
_NUMBER = "a finite number"
_LABEL = "a label: negative (false, 0, -1) or positive (true, 1)"
_WEIGHT = "a finite number >= 0"


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
    features: list[NamedFeatures | list[float]] = []
    y: list[float] = []
    weights: list[float] = []
    lines: list[int] = []
    line = 0
    for piece in whole_lines(source):
        for raw in piece.split(b"\n")[:-1]:
            line += 1
            try:
                row = decode(raw)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                if not raw.strip():
                    continue
                raise _bad_row(source.name, line, raw, error) from error
            named: Any = row.features
            if type(named) is dict and None in named.values():
                named = {name: value for name, value in named.items() if value is not None}
            if labelled:
                sign = _SIGNS.get(row.label)
                if sign is None:
                    raise BadRow(source.name, line, "label", _LABEL, row.label, path="/label")
                y.append(sign)
            if not row.weight >= 0:
                raise BadRow(source.name, line, "weight", _WEIGHT, row.weight, path="/weight")
            features.append(named)
            weights.append(row.weight)
            lines.append(line)
            if len(features) == chunk_rows:
                yield _rows(features, y, weights, lines)
                features, y, weights, lines = [], [], [], []
    if features:
        yield _rows(features, y, weights, lines)


def _rows(features: list[NamedFeatures | list[float]], y: list[float], weights: list[float], lines: list[int]) -> Rows:
    return Rows(features, np.array(y, dtype=np.float64), np.array(weights), np.array(lines, dtype=np.int64))


def _bad_row(file: str, line: int, raw: bytes, error: Exception) -> BadRow:
    """Find what the decoder stumbled over; it does not name the feature."""
    try:
        row = json.loads(raw)  # reads NaN, Infinity and 1e400, so that they can be named
    except (ValueError, RecursionError):
        return BadRow(file, line, "", f"{_OBJECT} ({error})", raw.decode(errors="replace"))
    column, pointer, expected, got = _complaint(row) or ("", "", f"{_OBJECT} ({error})", row)
    return BadRow(file, line, column, expected, got, path=pointer)


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
