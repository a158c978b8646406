"""Bodies of the hot calls: JSON bytes to checked bodies.

A name that stands twice in one JSON object is refused. msgspec takes the last and says nothing; but each name has
its colon, so a body with no more colons than decoded names has none twice. That count costs less than a second
reading.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import msgspec

from aucstream.answers import schema
from aucstream.block import sign_of
from aucstream.errors import Description, InvalidBlock
from aucstream_service.bodies.decode_errors import DECODE_ERRORS, explained, refuse_twice
from aucstream_service.errors.exceptions import InvalidBody
from aucstream_service.journal.event_codec import Features

MAX_ID_LENGTH = 256


class Call(enum.Enum):
    """What the rows of a -many body are for."""

    LEARN = enum.auto()
    PREDICT = enum.auto()
    LABEL = enum.auto()


_WORDS = {"type": "array", "items": {"type": "string"}}

# What the structs of bodies say to OpenAPI; none of it changes what they decode.
_Value = Annotated[Any, schema(anyOf=[{"type": kind} for kind in ("number", "boolean", "string", "null")] + [_WORDS])]
_Number = Annotated[Any, schema(type="number")]
_Features = Annotated[
    dict[str, _Value] | list[_Number],
    schema(
        "An object of names (number, bool, string = one-hot, list of strings = multi-hot, null = missing), or an array "
        "of numbers; one model takes either names or arrays. An object with a name that stands twice is refused.",
        {"amount": 12.5, "country": "CH", "tags": ["new", "mobile"], "age": None},
    ),
]
_Label = Annotated[Any, schema("negative: false, 0, -1; positive: true, 1", True, enum=[False, True, 0, 1, -1])]
_Id = Annotated[str, schema(minLength=1, maxLength=MAX_ID_LENGTH, pattern=r"^[^\s\x00-\x1f\x7f]+$")]


class LearnBody(msgspec.Struct, forbid_unknown_fields=True):
    """One labelled example."""

    features: _Features
    label: _Label
    weight: Annotated[
        float, schema("0: gets a seq and counts in the AUC, but leaves the model as it is", minimum=0)
    ] = 1.0
    id: Annotated[_Id | None, schema("learned at most once; retries with an id are safe", "click-1")] = None


class PredictBody(msgspec.Struct, forbid_unknown_fields=True):
    """One example to score."""

    features: _Features
    id: Annotated[
        _Id | None,
        schema("the example waits under it for its label; the same id and features: the first answer", "click-2"),
    ] = None
    explain: Annotated[
        bool, schema("true: what each name adds to the score; predict-one only, refused in predict-many")
    ] = False


class LabelBody(msgspec.Struct, forbid_unknown_fields=True):
    """The label of an example that was predicted under an id."""

    id: Annotated[_Id, schema(example="click-2")]
    label: _Label


class RenameBody(msgspec.Struct, forbid_unknown_fields=True):
    """The new name of a model."""

    to: Annotated[str, schema("1 to 64 of a-z 0-9 _ -", "clicks-2")]


class RollbackBody(msgspec.Struct, forbid_unknown_fields=True):
    """The snapshot that a model goes back to."""

    snapshot: Annotated[int, schema("`seq` of one of its snapshots", 1000, minimum=0)]


_LEARN = msgspec.json.Decoder(LearnBody)
_LABEL = msgspec.json.Decoder(LabelBody)
_PREDICT = msgspec.json.Decoder(PredictBody)
_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, slots=True)
class RowLimits:
    """The limits of one row (from the settings)."""

    features: int
    name_length: int


# ---- bytes to bodies --------------------------------------------------------------------------


def learn_body(data: bytes | msgspec.Raw) -> LearnBody:
    """Decode one learn body, or raise InvalidBody naming the field."""
    body: LearnBody = _decode(_LEARN, data)
    _check_names(data, 2 + (body.weight != 1.0), body.features, body.id)
    return body


def predict_body(data: bytes | msgspec.Raw) -> PredictBody:
    """Decode one predict body, or raise InvalidBody naming the field."""
    body: PredictBody = _decode(_PREDICT, data)
    _check_names(data, 1 + body.explain, body.features, body.id)
    return body


def label_body(data: bytes | msgspec.Raw) -> LabelBody:
    """Decode one label body, or raise InvalidBody naming the field."""
    body: LabelBody = _decode(_LABEL, data)
    _check_names(data, 1, [], body.id)
    return body


def known_fields(data: bytes | msgspec.Raw, kind: type[LearnBody] | type[PredictBody] | type[LabelBody]) -> bytes:
    """Return a body without the fields that its kind does not have; what cannot be read so stays as it is.

    Raises
    ------
    InvalidBody
        A name stands twice.
    """
    raw = bytes(data)
    try:
        members = _FIELDS.decode(raw)
    except DECODE_ERRORS:
        return raw
    known = {name: value for name, value in members.items() if name in kind.__struct_fields__}
    if len(known) == len(members):
        return raw
    refuse_twice(raw)
    return msgspec.json.encode(known)


def _decode(decoder: Any, data: bytes | msgspec.Raw) -> Any:
    try:
        return decoder.decode(data)
    except DECODE_ERRORS as error:
        raise explained(bytes(data), error) from None


def learn_bodies(lines: Sequence[bytes]) -> list[LearnBody] | None:
    """Decode lines of learn bodies in one go; None where one is refused, or has to be looked at more closely."""
    return _decode_lines(_LEARN, lines, lambda bodies: 2 * len(bodies) + sum(body.weight != 1.0 for body in bodies))


def predict_bodies(lines: Sequence[bytes]) -> list[PredictBody] | None:
    """Decode lines of predict bodies as `learn_bodies` does."""
    return _decode_lines(_PREDICT, lines, lambda bodies: len(bodies) + sum(body.explain for body in bodies))


def _decode_lines(decoder: Any, lines: Sequence[bytes], fields: Callable[[list[Any]], int]) -> list[Any] | None:
    text = b"\n".join(lines)
    try:
        bodies: list[Any] = decoder.decode_lines(text)
    except DECODE_ERRORS:
        return None
    names = fields(bodies) + len(bodies) - [body.id for body in bodies].count(None)
    names += sum([len(body.features) for body in bodies if type(body.features) is dict])
    # No line has fewer colons than names: where they are as many in all, they are in each.
    return bodies if len(bodies) == len(lines) and text.count(b":") == names else None


def _check_names(raw: bytes | msgspec.Raw, fields: int, features: Features, id_: str | None) -> None:
    """Raise InvalidBody if a name stands twice; `fields` are those beside the id that are not their defaults."""
    data = raw if type(raw) is bytes else bytes(raw)
    names = len(features) if type(features) is dict else 0
    colons = data.count(b":") - fields - names - (id_ is not None)
    if not colons:
        return
    escaped = b"\\u003" in data  # a colon written so would make up for a name
    if not escaped:  # strings may hold colons, too, and fields their defaults
        if id_ is not None:
            colons -= id_.count(":")
        if colons and type(features) is dict:
            colons -= "".join(features).count(":") + sum(map(_colons, features.values()))
        if not colons:
            return
    members = _FIELDS.decode(data)
    if id_ is None and "id" in members:
        raise InvalidBody(
            "id", f"1 to {MAX_ID_LENGTH} visible characters, or no id", Description("null"), pointer="/id"
        )
    if escaped or colons != len(members) - fields - (id_ is not None):
        refuse_twice(data)


def _colons(value: Any) -> int:
    if type(value) is str:
        return value.count(":")
    return sum(map(_colons, value)) if type(value) is list else 0


def raw_list(data: bytes) -> list[msgspec.Raw]:
    """Split a JSON array into its elements without decoding them."""
    elements: list[msgspec.Raw] = _decode(_RAW_LIST, data)
    return elements


# ---- limits and values of one row -------------------------------------------------------------


def check_features(features: Features, limits: RowLimits) -> None:
    """Raise InvalidBlock if a row has too many features or too long a name or value."""
    if len(features) > limits.features:
        actual = Description(f"{len(features)} features")
        raise InvalidBlock("features", f"at most {limits.features} features a row", actual, path="[0]")
    if type(features) is not dict:
        return
    longest = limits.name_length
    for at, (name, value) in enumerate(features.items()):
        if len(name) > longest:  # a pointer would contain it
            actual = Description(f"name {at + 1} of the row of {len(name)} characters")
            raise InvalidBlock("features", f"names of at most {longest} characters", actual, path="[0]")
        items = value if type(value) is list else [value] if type(value) is str else ()
        if len(items) > limits.features:
            actual = Description(f"{len(items)} values")
            raise InvalidBlock("features", f"at most {limits.features} values", actual, path=_key(name))
        for item in items:
            if type(item) is str and len(item) > longest:
                raise InvalidBlock("features", f"strings of at most {longest} characters", item, path=_key(name))


def _key(name: str) -> str:
    return f"[0][{json.dumps(name)}]"


def checked_id(id_: str) -> str:
    """Return an event id, or raise InvalidBody."""
    if 0 < len(id_) <= MAX_ID_LENGTH and id_.isprintable() and " " not in id_:
        return id_
    raise InvalidBody("id", f"1 to {MAX_ID_LENGTH} visible characters", id_, pointer="/id")


def checked_row(body: LearnBody, size: int, limits: RowLimits) -> float:
    """Check all of a learn body but the values of its features; return its sign."""
    sign = sign_of(body.label, "$.label")
    if not body.weight >= 0.0 or body.weight == math.inf:
        raise InvalidBody("weight", "a finite number >= 0", body.weight, pointer="/weight")
    if body.id is not None:
        checked_id(body.id)
    if size > limits.name_length or len(body.features) > limits.features:
        check_features(body.features, limits)
    return sign
