"""Why a body could not be decoded: the field, and the place in the whole body. Slow, for refused bodies only."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from aucstream.errors import AucstreamError, Description, InvalidBlock, InvalidLabel
from aucstream_service.errors.exceptions import InvalidBody, MalformedBody, ServiceError, pointer_of
from aucstream_service.errors.problems import detail_of, field_errors, tokens_of
from aucstream_service.errors.refusal_text import kind_of_number, names_in, of_validator

DECODE_ERRORS = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

_AT = re.compile(r"^(?P<what>.*?)(?: - at `(?P<path>[^`]*)`)?$", re.DOTALL)
_FIELD = re.compile(r"unknown field `(?P<field>.*)`$", re.DOTALL)
_MISSING = re.compile(r"missing required field `(?P<field>.*)`$", re.DOTALL)


class BadLine(ServiceError):
    """A bad line: ends a stream under `abort`."""

    def __init__(self, line: int, cause: AucstreamError) -> None:
        super().__init__(cause.where, cause.expected, cause.got, path=cause.path)
        self.line = line
        self.cause = cause

    def entries(self) -> list[dict[str, Any]]:
        """Return the `errors` member."""
        return [{"line": self.line, **entry} for entry in entries_of(self.cause)]


def entries_of(error: AucstreamError) -> list[dict[str, Any]]:
    """Return what is wrong with one row, each with the pointer to it."""
    return field_errors(error) or [{"pointer": "", "message": detail_of(error)}]


# ---- places ----------------------------------------------------------------------------------


def row_of(error: AucstreamError) -> int:
    """Return the row that `check_rows` refused, counted within the rows it was given."""
    tokens = tokens_of(error.path)
    return tokens[0] if tokens and isinstance(tokens[0], int) else 0


def located(error: AucstreamError, row: int | None = None) -> AucstreamError:
    """Return an error of one row with the place in the whole body.

    `check_rows` names a place by row and feature, `[3]["amount"]`; in the body that is
    `/3/features/amount`, and `/features/amount` where the body is one row (`row=None`).
    """
    prefix: list[str | int] = [] if row is None else [row]
    if isinstance(error, InvalidBody):
        if row is not None:
            for entry in error.errors:
                entry["pointer"] = f"/{row}{entry['pointer']}"
            error.path = f"/{row}{error.path}" if error.path else error.path
    elif isinstance(error, InvalidLabel):
        error.path = _dotted([*prefix, "label"])
    elif isinstance(error, InvalidBlock):
        error.path = _dotted([*prefix, "features", *tokens_of(error.path)[1:]])
    return error


def _dotted(tokens: Sequence[str | int]) -> str:
    # the form that problems.tokens_of reads
    return "$" + "".join(f"[{token}]" if isinstance(token, int) else f"[{json.dumps(token)}]" for token in tokens)


# ---- what a decoder's error means ------------------------------------------------------------


class _NonFinite(str):
    """A number of the body that is not finite, as it was written."""

    __slots__ = ()


def _number(text: str) -> float | _NonFinite:
    value = float(text)
    return value if math.isfinite(value) else _NonFinite(text)


def _integer(text: str) -> int | _NonFinite:
    return int(text) if len(text) <= 309 else _NonFinite(text)


def explained(data: bytes, error: Exception) -> InvalidBody:
    """Return the error that names the field for what msgspec refused."""
    if isinstance(error, RecursionError):
        return MalformedBody("body", "JSON that nests less deeply", pointer="")
    if isinstance(error, msgspec.ValidationError):
        return _validation_error(data, str(error))
    number = _non_finite(data)
    if number is not None:
        return number
    surrogate = _lone_surrogate(data)
    if surrogate is not None:
        return surrogate
    detail = "" if isinstance(error, UnicodeDecodeError) else f" ({error})"
    return MalformedBody("body", f"JSON in UTF-8{detail}", pointer="")


def _validation_error(data: bytes, message: str) -> InvalidBody:
    match = _AT.match(message)
    what, path = (match["what"], match["path"] or "$") if match else (message, "$")
    if "out of range" in what:
        number = _non_finite(data)
        if number is not None:
            return number
    tokens = tokens_of(path.replace("[...]", ""))
    field = _FIELD.search(what)
    if field:
        name = field["field"]
        place = names_in([*tokens, name])
        got = name if len(place) > len(tokens) else Description(f"a name of {len(name)} characters")
        return InvalidBody("body", "no other fields than the described ones", got, pointer=pointer_of(place))
    missing = _MISSING.search(what)
    if missing:
        expected = f"the field {missing['field']}, which is missing"
        return InvalidBody("body", expected, pointer=pointer_of([*tokens, missing["field"]]))
    pointer = pointer_of(tokens)
    return InvalidBody("body", of_validator(what), path=pointer, pointer=pointer)


def _non_finite(data: bytes) -> InvalidBody | None:
    try:
        document = json.loads(data, parse_constant=_NonFinite, parse_float=_number, parse_int=_integer)
    except (ValueError, RecursionError):
        return None
    for tokens, value in _walk(document):
        if isinstance(value, _NonFinite):
            pointer = pointer_of(names_in(tokens))
            return InvalidBody(
                "number", "a finite number", Description(kind_of_number(value)), path=pointer, pointer=pointer
            )
    return None


def _lone_surrogate(data: bytes) -> MalformedBody | None:
    """Return the error of a string that escapes half a character, which no UTF-8 holds; the decoder says it is cut."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return None
    for tokens, value in _walk(document):
        texts = value if isinstance(value, dict) else [value] if isinstance(value, str) else []
        if any(_SURROGATE.search(text) for text in texts):
            pointer = pointer_of(
                names_in([_SURROGATE.sub("\ufffd", str(t)) if isinstance(t, str) else t for t in tokens])
            )
            got = Description("half of a surrogate pair, such as \\ud800")
            return MalformedBody("body", "strings of whole characters", got, path=pointer, pointer="")
    return None


_SURROGATE = re.compile("[\ud800-\udfff]")


def refuse_twice(data: bytes) -> None:
    """Raise InvalidBody if a name stands twice in an object of a body that can be decoded."""
    try:
        document = json.loads(data, object_pairs_hook=_unique)
    except RecursionError:
        raise MalformedBody("body", "JSON that nests less deeply", pointer="") from None
    for tokens, value in _walk(document):
        if isinstance(value, _Twice):
            pointer = pointer_of(names_in([*tokens, value.name]))
            raise InvalidBody(
                "body", "each name once", Description("one that comes again"), path=pointer, pointer=pointer
            )


class _Twice(dict[str, Any]):
    """An object with a name that stands in it twice."""

    name = ""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) == len(pairs):
        return entries
    twice = _Twice(entries)
    names: set[str] = set()
    twice.name = next(name for name, _ in pairs if name in names or names.add(name))  # type: ignore[func-returns-value]
    return twice


def _walk(document: Any) -> Iterator[tuple[list[str | int], Any]]:
    """Yield each value of a document with its place, in the order in which they stand there."""
    stack: list[tuple[list[str | int], Any]] = [([], document)]
    while stack:
        tokens, value = stack.pop()
        yield tokens, value
        if isinstance(value, dict):
            stack.extend(([*tokens, name], item) for name, item in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(([*tokens, at], value[at]) for at in range(len(value) - 1, -1, -1))
