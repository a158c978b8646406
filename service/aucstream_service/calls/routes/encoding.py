"""Answers of routes as JSON."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from fastapi import Response

from aucstream_service.http.request_context import JSON

encode = msgspec.json.Encoder().encode


def json_response(value: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return the response of an answer."""
    return Response(encode(value), status, headers, JSON.decode())
