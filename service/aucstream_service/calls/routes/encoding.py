"""Bodies and answers of routes as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from fastapi import Response

from aucstream_service.bodies.decode_errors import DECODE_ERRORS, explained, refuse_twice
from aucstream_service.http.request_context import JSON

encode = msgspec.json.Encoder().encode


T = TypeVar("T")


def decoded(body: bytes, kind: type[T]) -> T:
    """Return the body of a call that changes a model, or raise InvalidBody."""
    try:
        value = msgspec.json.decode(body, type=kind, strict=True)
        refuse_twice(body)
    except DECODE_ERRORS as error:
        raise explained(body, error) from None
    return value


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response of an answer."""
    return Response(encode(value), status, headers, JSON.decode())
