"""Payloads of journal events whose rows are lines of JSON; `column_events` has those of one form."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from aucstream.features.encoding.entries import entries_of
from aucstream_service.journal import column_events

Features = dict[str, Any] | list[Any]

ERASED = b"null"  # a row whose raw record was removed on request

_encode = msgspec.json.Encoder().encode


class EventRow(msgspec.Struct, forbid_unknown_fields=True):
    """One row of an event: a learn body as it came, or a prediction with the label that came later."""

    features: Features
    label: Any
    weight: float = 1.0
    id: str | None = None
    score: float | None = None
    probability: float | None = None


_EVENT = msgspec.json.Decoder(EventRow | None)


class LabelledPrediction(NamedTuple):
    """A prediction that waited and is learned now."""

    id: str
    features: bytes
    sign: float
    weight: float
    score: float
    probability: float | None


def event_rows(payload: bytes) -> list[EventRow | None]:
    """Return the rows of an event, one a line; None: removed on request."""
    return _EVENT.decode_lines(payload)


def event_line(row: LabelledPrediction) -> bytes:
    """Return the line of an event for a prediction that is learned."""
    probability = b"" if row.probability is None else b',"probability":%s' % _encode(row.probability)
    return b'{"features":%s,"label":%d,"weight":%s,"id":%s,"score":%s%s}' % (
        row.features,
        row.sign > 0,
        _encode(row.weight),
        _encode(row.id),
        _encode(row.score),
        probability,
    )


def expired_line(id_: str) -> bytes:
    """Return the line of an event for a prediction that is discarded."""
    return b'{"id":%s}' % _encode(id_)


def lines_of(values: Sequence[msgspec.Raw | bytes]) -> bytes:
    """Return JSON values as lines, one each; a value printed over several lines is joined."""
    text = b"\n".join(values)
    if text.count(b"\n") == len(values) - 1 and b"\r" not in text:
        return text
    return b"\n".join(map(_one_line, map(bytes, values)))


def _one_line(value: bytes) -> bytes:
    return msgspec.json.format(value, indent=-1) if b"\n" in value or b"\r" in value else value


def without(payload: bytes, id_: str) -> tuple[bytes, list[int]]:
    """Return the payload of an event without the rows of this id, and which lines they were."""
    if column_events.is_columns(payload):
        return column_events.without(payload, id_)
    if _encode(id_)[1:-1] not in payload and b"\\u" not in payload:
        return payload, []
    lines = payload.split(b"\n")
    erased = []
    for at, line in enumerate(lines):
        row = msgspec.json.decode(line)
        if row is not None and row.get("id") == id_:
            lines[at] = ERASED
            erased.append(at)
    return b"\n".join(lines), erased


def features_of(data: bytes) -> Features:
    """Return the features of a prediction that waited."""
    features: Features = msgspec.json.decode(data)
    return features


def digest_of(features: Features) -> bytes:
    """Return a digest that is equal for features that mean the same to a model.

    The order of names, 1 or 1.0, null or absent, "v" or ["v"] make no difference.
    """
    if isinstance(features, dict):
        entries: Any = sorted((name, value + 0.0, kind) for name, value, kind in entries_of(features))
    else:
        entries = [value + 0.0 for value in features]  # + 0.0: a float, and no negative zero
    return hashlib.blake2b(_encode(entries), digest_size=16).digest()
