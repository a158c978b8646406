"""The answers of predict-many: lines, one JSON document, or an Arrow stream."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from aucstream_service.bodies.decode_errors import BadLine
from aucstream_service.http.request_context import ARROW, JSON, NDJSON, RequestContext


class Unkept(NamedTuple):
    """Score and probability of a row that has an id and does not wait for its label."""

    score: float
    probability: float | None


Answer = tuple[float, float | None] | Unkept | bytes  # score and probability, or the answer of a row that was refused

_encode = msgspec.json.Encoder().encode
_encode_lines = msgspec.json.Encoder().encode_lines


class _Prediction(msgspec.Struct, omit_defaults=True):
    score: float
    probability: float | None
    kept: bool = True


def _line(answer: Answer) -> _Prediction | msgspec.Raw:
    if isinstance(answer, bytes):
        return msgspec.Raw(answer)
    return _Prediction(answer[0], answer[1], not isinstance(answer, Unkept))


def _prediction(answer: Answer) -> bytes:
    if isinstance(answer, bytes):
        return answer
    kept = b',"kept":false' if isinstance(answer, Unkept) else b""
    return b'{"score":%s,"probability":%s%s}' % (_encode(answer[0]), _encode(answer[1]), kept)


class LineAnswers:
    """The answers of predict-many as they are sent: lines."""

    kind = NDJSON

    def note_fields(self, names: Sequence[str]) -> None:
        """Note which fields the rows have, before `begin`."""

    def begin(self) -> bytes:
        """Return what comes before the first part."""
        return b""

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return some answers."""
        return _encode_lines([_line(answer) for answer in answers])

    def end(self, seq: int) -> bytes:
        """Return what comes after the last part; `seq` is that of the last rows scored."""
        del seq
        return b""


class DocumentAnswers(LineAnswers):
    """One JSON document."""

    kind = JSON

    def __init__(self) -> None:
        self._comma = b""

    def begin(self) -> bytes:
        """Return what comes before the first part."""
        return b'{"predictions":['

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return some answers."""
        comma, self._comma = self._comma, b"," if answers else self._comma
        return (comma if answers else b"") + b",".join(map(_prediction, answers))

    def end(self, seq: int) -> bytes:
        """Return what comes after the last part."""
        return b'],"seq":%d}' % seq


class ArrowAnswers(LineAnswers):
    """An Arrow stream of the columns `score` and `probability`, and of `kept` where the rows have ids.

    All are null where a row was refused.
    """

    kind = ARROW

    def __init__(self, pa: Any) -> None:
        self._pa = pa
        self._fields = [("score", pa.float64()), ("probability", pa.float64())]
        self._with_ids = False

    def note_fields(self, names: Sequence[str]) -> None:
        """Note which fields the rows have, before `begin`."""
        if "id" in names:
            self._with_ids = True
            self._fields.append(("kept", self._pa.bool_()))

    def begin(self) -> bytes:
        """Return the schema."""
        return bytes(self._pa.schema(self._fields).serialize())

    def part(self, answers: Sequence[Answer]) -> bytes:
        """Return a record batch."""
        pairs = [(None, None) if isinstance(answer, bytes) else answer for answer in answers]
        columns = [self._pa.array([pair[at] for pair in pairs], self._pa.float64()) for at in (0, 1)]
        if self._with_ids:
            kept = [None if isinstance(answer, bytes) else not isinstance(answer, Unkept) for answer in answers]
            columns.append(self._pa.array(kept, self._pa.bool_()))
        return bytes(self._pa.record_batch(columns, self._pa.schema(self._fields)).serialize())

    def end(self, seq: int) -> bytes:
        """Return the mark of the end."""
        del seq
        return b"\xff\xff\xff\xff\x00\x00\x00\x00"


def answers_for(context: RequestContext, pa: Any) -> LineAnswers:
    """Return the form of the answer to an Arrow stream: Arrow, unless Accept asks for JSON and not for Arrow."""
    accept = b",".join(value for name, value in context.scope["headers"] if name == b"accept").lower()
    if ARROW not in accept and NDJSON in accept:
        return LineAnswers()
    return DocumentAnswers() if ARROW not in accept and JSON in accept else ArrowAnswers(pa)


def refusal_part(bad: BadLine) -> bytes:
    """Return the answer of a row that was refused."""
    return _encode({"score": None, "probability": None, "errors": bad.entries()})
