"""Rows of the caller as JSON for the service. The rules for values are those of the library."""

from __future__ import annotations

import math
import numbers
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec
import numpy as np

from aucstream.block import sign_of, weights_of
from aucstream.errors import Description, InvalidBlock, InvalidParams
from aucstream.features.encoding.entries import VALUES, checked_name, finite_value

MAX_ID_LENGTH = 256
EXACT = 1 << 53  # integers up to here are the same number as a float

Features = Mapping[Any, Any] | Sequence[float] | np.ndarray[Any, Any]

_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Example:
    """A row of a -many call, where `(features, label)` does not say enough.

    Parameters
    ----------
    features : dict, or sequence or array (d,) of numbers
        Name to number, bool, string, list of strings, or None (absent); or the row of an array.
    label : bool, optional
        Label: False, 0, -1 or True, 1. Rows to learn need one.
    weight : float, default=1.0
        Finite, >= 0.
    id : str, optional
        1 to 256 visible characters; with it the row is learned exactly once.
    """

    features: Features
    label: object = None
    weight: float = 1.0
    id: str | None = None


LearnRow = Example | tuple[Features, object] | Mapping[str, Any]
LabelRow = tuple[str, object] | Mapping[str, Any]
PredictRow = Example | Features


class Line(NamedTuple):
    """A row as JSON, its id, and whether the client made that id."""

    data: bytes
    id: str | None
    new_id: bool = False


class _Learn(msgspec.Struct, omit_defaults=True):
    features: dict[str, Any] | list[float]
    label: bool
    weight: float = 1.0
    id: str | None = None


class _Predict(msgspec.Struct, omit_defaults=True):
    features: dict[str, Any] | list[float]
    id: str | None = None
    explain: bool = False


class _Label(msgspec.Struct):
    id: str
    label: bool


def learn_line(example: Example, path: str = "", *, make_id: bool = False) -> Line:
    """Return a labelled example; one without an id gets a new one if `make_id`."""
    is_new = make_id and example.id is None
    id_ = new_id() if is_new else checked_id(example.id, path)
    weight = example.weight
    if type(weight) is not float or not 0.0 <= weight < math.inf:
        try:
            weight = float(weights_of(weight, 1)[0])
        except InvalidBlock as error:
            raise InvalidBlock(error.where, error.expected, weight, path=path) from None
    label = sign_of(example.label, path) > 0
    return Line(_encode(_Learn(plain(example.features, path), label, weight, id_)), id_, is_new)


def predict_line(example: Example, path: str = "", *, explain: bool = False) -> Line:
    """Return an example to score."""
    id_ = checked_id(example.id, path)
    return Line(_encode(_Predict(plain(example.features, path), id_, explain)), id_)


def label_line(id_: object, label: object, path: str = "") -> Line:
    """Return a label by id."""
    checked = checked_id(id_, path)
    if checked is None:
        raise InvalidParams("id", "the id of a prediction", None, path=path)
    return Line(_encode(_Label(checked, sign_of(label, path) > 0)), checked)


def learn_row(row: object, path: str) -> Example:
    """Return one of the forms of a row to learn as an Example."""
    if isinstance(row, Example):
        return row
    if isinstance(row, Mapping):
        names = set(row)
        if {"features", "label"} <= names <= {"features", "label", "weight", "id"}:
            return Example(**row)
    elif isinstance(row, tuple) and len(row) == 2:
        return Example(*row)
    raise InvalidBlock("row", "(features, label), an Example or a dict of its fields", row, path=path)


def predict_row(row: object, path: str) -> Example:
    """Return one of the forms of a row to score as an Example."""
    del path  # any other row is features, which `plain` checks
    return row if isinstance(row, Example) else Example(row)  # type: ignore[arg-type]


def label_row(row: object, path: str) -> tuple[object, object]:
    """Return one of the forms of a label as id and label."""
    if isinstance(row, Mapping) and set(row) == {"id", "label"}:
        return row["id"], row["label"]
    if isinstance(row, tuple) and len(row) == 2:
        return row[0], row[1]
    raise InvalidBlock("row", "(id, label) or a dict of them", row, path=path)


def new_id() -> str:
    """Return a new unique id."""
    return str(uuid.uuid4())


def checked_id(id_: object, path: str = "") -> str | None:
    """Return an id as a plain string, or raise InvalidParams."""
    if id_ is None:
        return None
    if isinstance(id_, str) and 0 < len(id_) <= MAX_ID_LENGTH and id_.isprintable() and " " not in id_:
        return str(id_)
    raise InvalidParams("id", f"1 to {MAX_ID_LENGTH} visible characters", id_, path=path)


def plain(features: object, path: str = "") -> dict[str, Any] | list[float]:
    """Return features as JSON can say them, or raise InvalidBlock naming the feature.

    The rules are the library's: None is absent, NaN and infinity are refused, numpy scalars are numbers. JSON has
    no integers as names: 3 is sent as "3".
    """
    if isinstance(features, Mapping):
        return _named(features, path)
    if isinstance(features, (list, tuple, np.ndarray)):
        return _columns(features, path)
    raise InvalidBlock("features", "a dict of name to value, or a row of numbers", features, path=path)


def _named(features: Mapping[Any, Any], path: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in features.items():
        name = key if type(key) is str else str(checked_name(key, path))
        if name in values:
            raise InvalidBlock("feature name", "names that differ as strings", key, path=path)
        kind = type(value)
        if (
            (kind is float and -math.inf < value < math.inf)
            or kind is str
            or kind is bool
            or value is None
            or (kind is int and -EXACT <= value <= EXACT)
        ):
            values[name] = value
        elif isinstance(value, str):
            values[name] = str(value)
        elif isinstance(value, np.bool_):
            values[name] = bool(value)
        elif isinstance(value, (list, tuple, set, frozenset)):
            values[name] = _members(value, name, path)
        elif isinstance(value, numbers.Real) or (
            hasattr(value, "__float__") and not hasattr(value, "__len__") and not isinstance(value, np.generic)
        ):
            values[name] = finite_value(value, name, path)
        else:
            raise InvalidBlock("feature", VALUES, value, path=f"{path}[{name!r}]")
    return values


def _members(value: Iterable[object], name: str, path: str) -> list[str]:
    for member in value:
        if not isinstance(member, str):
            raise InvalidBlock("feature", "a list of strings", member, path=f"{path}[{name!r}]")
    members = [str(member) for member in value]
    return sorted(members) if isinstance(value, (set, frozenset)) else members


def _columns(features: list[Any] | tuple[Any, ...] | np.ndarray[Any, Any], path: str) -> list[float]:
    try:
        array = np.asarray(features)
    except ValueError as error:
        raise InvalidBlock("features", "a row of numbers", features, path=path) from error
    if array.ndim != 1:
        raise InvalidBlock("features", "one row of numbers", array.shape, path=path)
    if array.dtype.kind not in "biuf" and array.size:
        raise InvalidBlock("features", "numbers", Description(f"an array of {array.dtype}"), path=path)
    values = array.astype(np.float64)
    finite = np.isfinite(values)
    if not finite.all():
        column = int(np.argmin(finite))
        raise InvalidBlock("features", "finite numbers", values[column], path=f"{path}[{column}]")
    return values.tolist()  # type: ignore[no-any-return]
