"""Problem documents (RFC 9457) of exceptions.

A route raises; it never builds the answer of an error. `problem_of` builds it from the exception and its entry in
`aucstream.problem_types`.
"""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from collections.abc import Mapping
from typing import Any

import msgspec

from aucstream.errors import AucstreamError
from aucstream.problem_types import PROBLEM_TYPES, ProblemType
from aucstream_service.errors.exceptions import RowsRefused, ServiceError, StartRefused, pointer_of
from aucstream_service.errors.refusal_text import names_in, sentence

CONTENT_TYPE = b"application/problem+json"
MAX_ERRORS = 100
INTERNAL = PROBLEM_TYPES["internal-error"]

_PATH = re.compile(r"""\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\[('(?:[^'\\]|\\.)*')\]|\.?([A-Za-z_]\w*)""")


def problem_type_of(error: BaseException) -> ProblemType:
    """Return the problem type of an exception; one that is not raised on purpose is an internal error."""
    return error.problem_type if isinstance(error, AucstreamError) else INTERNAL


def tokens_of(path: str) -> list[str | int]:
    """Return a path such as `$[3]["amount"]` as `[3, "amount"]`."""
    tokens: list[str | int] = []
    for number, double, single, word in _PATH.findall(path.removeprefix("$")):
        if number:
            tokens.append(int(number))
        elif double or single:
            tokens.append(_name_in(double or single))
        elif word:
            tokens.append(word)
    return tokens


def _name_in(quoted: str) -> str:
    """Return the name that JSON or `repr` has quoted."""
    for parse in (json.loads, ast.literal_eval):
        try:
            return str(parse(quoted))
        except (ValueError, SyntaxError):
            continue
    return quoted[1:-1]


def field_errors(error: AucstreamError) -> list[dict[str, Any]]:
    """Return the `errors` member for an error of either package."""
    if isinstance(error, RowsRefused):
        return []
    if isinstance(error, ServiceError):
        return error.errors[:MAX_ERRORS]
    if not error.path:
        return []
    return [{"pointer": _pointer(error.path), "message": sentence(error)}]


def detail_of(error: BaseException) -> str:
    """Return the sentence of an exception: *where: expected what, got what - at pointer*."""
    if isinstance(error, RowsRefused):
        return detail_of(error.cause)
    if not isinstance(error, AucstreamError):
        return INTERNAL.title
    at = _pointer(error.path)
    return f"{error.where}: {sentence(error)}{' - at ' if at else ''}{at}"


def log_text(error: BaseException) -> str:
    """Return the description of an exception for the log; messages that may quote features are left out."""
    if isinstance(error, StartRefused):
        return error.message
    detail = f": {detail_of(error)}" if isinstance(error, AucstreamError) else ""
    return type(error).__name__ + (f": {error}" if isinstance(error, (OSError, sqlite3.Error)) else detail)


def _pointer(path: str) -> str:
    return path if path.startswith("/") else pointer_of(names_in(tokens_of(path)))


def problem_of(error: BaseException, request_id: str) -> tuple[int, bytes, Mapping[str, str]]:
    """Return status, body and extra headers of the answer to an exception."""
    entry = problem_type_of(error)
    document: dict[str, Any] = {
        "type": entry.uri,
        "title": entry.title,
        "status": entry.status,
        "detail": detail_of(error),
        "errors": field_errors(error) if isinstance(error, AucstreamError) else [],
        "request_id": request_id,
    }
    headers: Mapping[str, str] = {}
    if isinstance(error, ServiceError):
        document.update(error.members)
        headers = error.headers
        if entry.status in (429, 503) and "Retry-After" not in headers:
            headers = {**headers, "Retry-After": "1"}
    return entry.status, msgspec.json.encode(document), headers
