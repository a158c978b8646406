"""Errors of the service itself; `aucstream.problem_types` describes those that answer a request.

aucstream.errors.AucstreamError
└── ServiceError
    ├── InvalidBody            a JSON body that does not fit its description
    │   ├── MalformedBody      bytes that are not JSON at all
    │   ├── MalformedArrow     bytes that are not an Arrow stream
    │   └── RowsRefused        rows of a -many body; carries the counts so far
    ├── InvalidQuery           a query parameter
    ├── InvalidName            a model name outside 1-64 of a-z 0-9 _ -
    ├── Unauthorized, Forbidden, HostRefused
    ├── RouteNotFound, MethodNotAllowed, ModelNotFound, SnapshotNotFound
    ├── SpecConflict, FixedSetting, NameTaken, LabelConflict, FeaturesConflict, AlreadyLabelled, LabelExpiredNegative
    ├── UnknownId, ExpiredId
    ├── BodyTooLarge, UnsupportedMedia, BadEncoding, PreconditionFailed
    ├── BadRequest, NotImplementedHere, VersionNotSupported
    ├── HeadTooLarge, UrlTooLong, SlowRequest, Overloaded
    ├── QueueFull, PendingFull, TooManyModels, RateLimited, TooManyStreams
    ├── NotReady, JournalUnavailable, ModelFaulted
    └── NonFiniteScore, WeightsUnavailable
aucstream.errors.AucstreamError
└── StartRefused               the process does not start; the message is for the operator
    ├── DirectoryInUse
    └── JournalDamaged
aucstream.errors.AucstreamError
└── Unrecoverable              one model cannot be recovered: it is set aside, the others serve
    ├── JournalGap
    ├── RowsDamaged
    └── UnknownEvent
"""

# ruff: noqa: D101

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aucstream.errors import AucstreamError
from aucstream_service.errors.refusal_text import sentence


class ServiceError(AucstreamError):
    """Base of the errors that answer a request.

    Attributes
    ----------
    headers : dict of str to str
        Sent with the answer (`Allow`, `Retry-After`).
    members : dict of str to object
        Extension members of the problem document.
    errors : list of dict
        `{"pointer", "message"}`, for -many bodies also `"line"`.
    """

    def __init__(
        self,
        where: str,
        expected: str,
        got: object = ...,
        *,
        path: str = "",
        pointer: str | None = None,
        headers: Mapping[str, str] | None = None,
        members: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(where, expected, got, path=path)
        self.pointer = pointer
        self.headers = dict(headers or {})
        self.members = dict(members or {})
        self.errors: list[dict[str, Any]] = []
        if pointer is not None:
            self.errors.append({"pointer": pointer, "message": sentence(self)})


class InvalidBody(ServiceError, problem="invalid-body"): ...


class MalformedBody(InvalidBody, problem="malformed-json"): ...


class MalformedArrow(InvalidBody, problem="malformed-arrow"): ...


class RowsRefused(InvalidBody):
    """A row ended a stream; the rows before it stay learned, and `counts` counts them."""

    def __init__(self, cause: AucstreamError, counts: Mapping[str, Any]) -> None:
        headers = cause.headers if isinstance(cause, ServiceError) else None
        super().__init__(cause.where, cause.expected, cause.got, path=cause.path, members=counts, headers=headers)
        self.cause = cause
        self.problem_type = cause.problem_type


class InvalidQuery(ServiceError, problem="invalid-query"): ...


class InvalidName(ServiceError, problem="invalid-name"): ...


class Unauthorized(ServiceError, problem="unauthorized"): ...


class Forbidden(ServiceError, problem="forbidden"): ...


class HostRefused(ServiceError, problem="host-not-allowed"): ...


class RouteNotFound(ServiceError, problem="not-found"): ...


class MethodNotAllowed(ServiceError, problem="method-not-allowed"): ...


class ModelNotFound(ServiceError, problem="model-not-found"):
    """No model has that name; the message names similar ones."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(name[:64].lower(), list(known), n=3)
        hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
        super().__init__("model", f"the name of an existing model{hint}", name, members={"near": near})


class SnapshotNotFound(ServiceError, problem="snapshot-not-found"): ...


class SpecConflict(ServiceError, problem="spec-conflict"): ...


class FixedSetting(ServiceError, problem="fixed-setting"): ...


class NameTaken(ServiceError, problem="name-taken"): ...


class LabelConflict(ServiceError, problem="label-conflict"): ...


class FeaturesConflict(ServiceError, problem="features-conflict"): ...


class AlreadyLabelled(ServiceError, problem="already-labelled"): ...


class LabelExpiredNegative(ServiceError, problem="label-expired-negative"): ...


class UnknownId(ServiceError, problem="unknown-id"): ...


class ExpiredId(ServiceError, problem="expired"): ...


class PreconditionFailed(ServiceError, problem="precondition-failed"): ...


class BodyTooLarge(ServiceError, problem="body-too-large"): ...


class UnsupportedMedia(ServiceError, problem="unsupported-media-type"): ...


class NotImplementedHere(ServiceError, problem="not-implemented"): ...


class VersionNotSupported(ServiceError, problem="version-not-supported"): ...


class BadEncoding(ServiceError, problem="bad-encoding"): ...


class BadRequest(ServiceError, problem="bad-request"): ...


class HeadTooLarge(ServiceError, problem="headers-too-large"): ...


class UrlTooLong(ServiceError, problem="url-too-long"): ...


class SlowRequest(ServiceError, problem="slow-request"): ...


class Overloaded(ServiceError, problem="overloaded"): ...


class QueueFull(ServiceError, problem="queue-full"): ...


class PendingFull(ServiceError, problem="pending-full"): ...


class TooManyModels(ServiceError, problem="too-many-models"): ...


class RateLimited(ServiceError, problem="rate-limited"): ...


class TooManyStreams(ServiceError, problem="too-many-streams"): ...


class NotReady(ServiceError, problem="not-ready"): ...


class JournalUnavailable(ServiceError, problem="journal-unavailable"): ...


class ModelFaulted(ServiceError, problem="model-faulted"): ...


class WeightsUnavailable(ServiceError, problem="weights-unavailable"): ...


class NonFiniteScore(ServiceError, problem="non-finite-score"):
    """A score is not a finite number."""


class Disconnected(Exception):
    """The client went away before its body was complete."""


class StartRefused(AucstreamError):
    """The process must not start with these settings or this directory."""

    def __init__(self, reason: str) -> None:
        super().__init__("start", reason)

    @property
    def message(self) -> str:
        """The reason, a sentence for an operator."""
        return self.expected


class DirectoryInUse(StartRefused):
    """Another process owns the data directory."""


class JournalDamaged(StartRefused):
    """The part of the journal that all models share is damaged, or acknowledged events are lost."""


class Unrecoverable(AucstreamError):
    """One model cannot be recovered: it is set aside, the others serve."""

    def __init__(self, reason: str) -> None:
        super().__init__("model", reason)


class JournalGap(Unrecoverable):
    """Events between the newest readable snapshot and the journal are missing."""


class RowsDamaged(Unrecoverable):
    """A row of the journal fails its checksum."""


class UnknownEvent(Unrecoverable):
    """The journal holds an event of a kind that this version does not know."""


def pointer_of(tokens: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path of names and positions."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
