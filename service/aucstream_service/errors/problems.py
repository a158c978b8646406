"""One table: what was raised -> status and type of the RFC 9457 answer.

A route never builds an error answer by hand: it raises, and `problem_of` reads the table.
"""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from aucstream import errors as library
from aucstream.errors import AucstreamError
from aucstream_service.errors import exceptions as errors
from aucstream_service.errors.exceptions import ServiceError, pointer_of
from aucstream_service.errors.refusal_text import names_in, sentence

TYPE_PREFIX = "urn:aucstream:problem:"
CONTENT_TYPE = b"application/problem+json"
MAX_ERRORS = 100


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of the table."""

    status: int
    type: str
    title: str


TABLE: dict[type[AucstreamError], Entry] = {
    # the library's
    library.InvalidParams: Entry(422, "invalid-params", "A parameter of the spec is out of its range"),
    library.UnknownLearner: Entry(422, "unknown-algorithm", "No algorithm has that name"),
    library.InvalidBlock: Entry(422, "invalid-features", "The features cannot be used"),
    library.InvalidLabel: Entry(422, "invalid-label", "The label is not one of the two classes"),
    library.NonFiniteStep: Entry(422, "non-finite-step", "The step would leave the model non-finite: row skipped"),
    library.BadSnapshot: Entry(422, "bad-snapshot", "The snapshot is damaged or foreign"),
    library.NewerSnapshot: Entry(422, "newer-snapshot", "The snapshot was made by a newer version"),
    library.CannotMerge: Entry(409, "cannot-merge", "The models cannot be merged exactly"),
    library.AucstreamError: Entry(422, "invalid-request", "The request cannot be carried out"),
    # the service's
    errors.MalformedBody: Entry(422, "malformed-json", "The body is not JSON"),
    errors.MalformedArrow: Entry(422, "malformed-arrow", "The body is not an Arrow stream"),
    errors.InvalidBody: Entry(422, "invalid-body", "The body does not fit its description"),
    errors.InvalidQuery: Entry(422, "invalid-query", "A query parameter is out of its range"),
    errors.InvalidName: Entry(422, "invalid-name", "The model name is not allowed"),
    errors.Unauthorized: Entry(401, "unauthorized", "A valid API key is needed"),
    errors.Forbidden: Entry(403, "forbidden", "The role of the API key does not allow this"),
    errors.HostRefused: Entry(421, "host-not-allowed", "The service does not answer to this host name"),
    errors.RouteNotFound: Entry(404, "not-found", "No such path"),
    errors.MethodNotAllowed: Entry(405, "method-not-allowed", "The path does not take this method"),
    errors.ModelNotFound: Entry(404, "model-not-found", "No model has that name"),
    errors.SpecConflict: Entry(409, "spec-conflict", "The name is taken by a model with another spec"),
    errors.LabelConflict: Entry(409, "label-conflict", "The other label came first for this id"),
    errors.FeaturesConflict: Entry(409, "features-conflict", "The id was predicted before with other features"),
    errors.AlreadyLabelled: Entry(409, "already-labelled", "The id was learned before"),
    errors.LabelExpiredNegative: Entry(
        409, "label-expired-negative", "The example expired and was learned as negative"
    ),
    errors.UnknownId: Entry(404, "unknown-id", "No prediction with that id waits for a label"),
    errors.ExpiredId: Entry(410, "expired", "The example expired before its label came"),
    errors.PreconditionFailed: Entry(412, "precondition-failed", "The model is not as the request expects"),
    errors.BodyTooLarge: Entry(413, "body-too-large", "The body is over its limit"),
    errors.UnsupportedMedia: Entry(415, "unsupported-media-type", "The content type is not accepted here"),
    errors.BadRequest: Entry(400, "bad-request", "The bytes are not an HTTP request"),
    errors.NotImplementedHere: Entry(501, "not-implemented", "No path knows this method or transfer coding"),
    errors.VersionNotSupported: Entry(505, "version-not-supported", "HTTP 1.1 and 1.0 are spoken here"),
    errors.BadEncoding: Entry(422, "bad-encoding", "The body is not what its Content-Encoding says"),
    errors.UrlTooLong: Entry(414, "url-too-long", "The URL is over its limit"),
    errors.HeadTooLarge: Entry(431, "headers-too-large", "The headers are over their limit"),
    errors.SlowRequest: Entry(408, "slow-request", "The request took too long to come"),
    errors.Overloaded: Entry(503, "overloaded", "Too many connections or bodies at once: try again later"),
    errors.QueueFull: Entry(429, "queue-full", "Too much is waiting: try again later"),
    errors.PendingFull: Entry(429, "pending-full", "Too many examples wait for their label"),
    errors.TooManyModels: Entry(429, "too-many-models", "The limit of models is reached"),
    errors.TooManyStreams: Entry(429, "too-many-streams", "The limit of event streams is reached"),
    errors.NotReady: Entry(503, "not-ready", "The service is starting or stopping"),
    errors.JournalUnavailable: Entry(503, "journal-unavailable", "The journal cannot be written: nothing is learned"),
    errors.ModelFaulted: Entry(503, "model-faulted", "The model is set aside after a fault"),
    errors.WeightsUnavailable: Entry(409, "weights-unavailable", "The model keeps no names of its features"),
    errors.NonFiniteScore: Entry(422, "non-finite-score", "The score is not a finite number"),
}
INTERNAL = Entry(500, "internal-error", "An unexpected error; the log has its place under this request id")

_PATH = re.compile(r"""\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]|\[('(?:[^'\\]|\\.)*')\]|\.?([A-Za-z_]\w*)""")


def entry_of(error: BaseException) -> Entry:
    """Return the line for an exception: that of its class or of the nearest base."""
    if isinstance(error, errors.RowsRefused):
        return entry_of(error.cause)
    for kind in type(error).__mro__:
        entry = TABLE.get(kind)
        if entry is not None:
            return entry
    return INTERNAL


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
    for read in (json.loads, ast.literal_eval):
        try:
            return str(read(quoted))
        except (ValueError, SyntaxError):
            continue
    return quoted[1:-1]


def field_errors(error: AucstreamError) -> list[dict[str, Any]]:
    """Return the `errors` member for an error of either package."""
    if isinstance(error, errors.RowsRefused):
        return []
    if isinstance(error, ServiceError):
        return error.errors[:MAX_ERRORS]
    if not error.path:
        return []
    return [{"pointer": _pointer(error.path), "message": sentence(error)}]


def detail_of(error: BaseException) -> str:
    """Return the sentence for an exception: *where: expected what, got what - at pointer*."""
    if isinstance(error, errors.RowsRefused):
        return detail_of(error.cause)
    if not isinstance(error, AucstreamError):
        return entry_of(error).title
    at = _pointer(error.path)
    return f"{error.where}: {sentence(error)}{' - at ' if at else ''}{at}"


def logged(error: BaseException) -> str:
    """Return what the log may say of an exception: another's message may quote features."""
    if isinstance(error, errors.StartRefused):
        return error.message
    told = f": {detail_of(error)}" if isinstance(error, AucstreamError) else ""
    return type(error).__name__ + (f": {error}" if isinstance(error, (OSError, sqlite3.Error)) else told)


def _pointer(path: str) -> str:
    return path if path.startswith("/") else pointer_of(names_in(tokens_of(path)))


def problem_of(error: BaseException, request_id: str) -> tuple[int, bytes, Mapping[str, str]]:
    """Return status, body and extra headers of the answer to an exception."""
    entry = entry_of(error)
    document: dict[str, Any] = {
        "type": TYPE_PREFIX + entry.type,
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
