"""The bytes of an answer as typed values."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from aucstream.client.problems import BadAnswer

T = TypeVar("T")


def decode(kind: type[T], content: bytes) -> T:
    """Return the value of a JSON answer, or raise BadAnswer."""
    try:
        return msgspec.json.decode(content, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _bad(content, error) from error


def decode_lines(kind: type[T], content: bytes) -> list[T]:
    """Return the values of an NDJSON answer, or raise BadAnswer."""
    try:
        return msgspec.json.Decoder(kind).decode_lines(content)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _bad(content, error) from error


def _bad(content: bytes, error: Exception) -> BadAnswer:
    return BadAnswer(f"expected an answer of the service ({error}), got {content[:80]!r}")
