"""Errors of the service itself; `errors/problems.py` gives each its status and its type.

aucstream.errors.AucstreamError
└── ServiceError
    ├── InvalidBody            a JSON body that does not fit its description
    │   ├── MalformedBody      bytes that are not JSON at all
    │   ├── MalformedArrow     bytes that are not an Arrow stream
    │   └── RowsRefused        rows of a -many body; carries the counts so far
    ├── InvalidQuery           a query parameter
    ├── InvalidName            a model name outside 1-64 of a-z 0-9 _ -
    ├── Unauthorized, Forbidden, HostRefused
    ├── RouteNotFound, MethodNotAllowed, ModelNotFound
    ├── SpecConflict, LabelConflict, FeaturesConflict, AlreadyLabelled, LabelExpiredNegative
    ├── UnknownId, ExpiredId
    ├── BodyTooLarge, UnsupportedMedia, BadEncoding, PreconditionFailed
    ├── BadRequest, NotImplementedHere, VersionNotSupported
    ├── HeadTooLarge, UrlTooLong, SlowRequest, Overloaded
    ├── QueueFull, PendingFull, TooManyModels, TooManyStreams
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

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aucstream.errors import AucstreamError
from aucstream_service.errors.refusal_text import sentence


class ServiceError(AucstreamError):
    """Base of what a request can be answered with.

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


class InvalidBody(ServiceError):
    """A JSON body does not fit its description; `pointer` names the field."""


class MalformedBody(InvalidBody):
    """The bytes are not JSON (RFC 8259), or nest too deeply."""


class MalformedArrow(InvalidBody):
    """The bytes are not an Arrow IPC stream, or it is cut or damaged."""


class RowsRefused(InvalidBody):
    """A stream of rows was cut short; what was taken before stays taken."""

    def __init__(self, cause: AucstreamError, counts: Mapping[str, Any]) -> None:
        super().__init__(cause.where, cause.expected, cause.got, path=cause.path, members=counts)
        self.cause = cause


class InvalidQuery(ServiceError):
    """A query parameter is out of its range."""


class InvalidName(ServiceError):
    """A model name is not 1-64 of a-z 0-9 _ -."""


class Unauthorized(ServiceError):
    """No key was shown, or one that is unknown or revoked."""


class Forbidden(ServiceError):
    """The role of the key does not go so far."""


class HostRefused(ServiceError):
    """The request names a host that the service does not answer to (DNS rebinding)."""


class RouteNotFound(ServiceError):
    """No such path."""


class MethodNotAllowed(ServiceError):
    """The path exists, with other methods (header `Allow`)."""


class ModelNotFound(ServiceError):
    """No model has that name; the message names near misses."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        near = difflib.get_close_matches(name[:64].lower(), list(known), n=3)
        hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
        super().__init__("model", f"the name of an existing model{hint}", name, members={"near": near})


class SpecConflict(ServiceError):
    """The name is taken by a model with another spec."""


class LabelConflict(ServiceError):
    """The other label came first for this id; member `first_label`."""


class FeaturesConflict(ServiceError):
    """The id was predicted before, with other features."""


class AlreadyLabelled(ServiceError):
    """A prediction for an id that was learned, and whose own prediction is not remembered."""


class LabelExpiredNegative(ServiceError):
    """A positive label for an example that was learned as negative when its time was over."""


class UnknownId(ServiceError):
    """A label for an id of which nothing is known, or not any more."""


class ExpiredId(ServiceError):
    """The time to label this example was over, and it was discarded."""


class PreconditionFailed(ServiceError):
    """What is there is not what `If-Match` or `If-None-Match` expects."""


class BodyTooLarge(ServiceError):
    """A body, a line or a list of rows is over its limit; reading stopped there."""


class UnsupportedMedia(ServiceError):
    """The content type is missing or not one of those accepted, or the body is encoded."""


class NotImplementedHere(ServiceError):
    """A method or a transfer coding that no path of this service knows."""


class VersionNotSupported(ServiceError):
    """A version of HTTP other than 1.0 and 1.1."""


class BadEncoding(ServiceError):
    """The body is not what its Content-Encoding says."""


class BadRequest(ServiceError):
    """The bytes are not an HTTP request."""


class HeadTooLarge(ServiceError):
    """The headers of a request are too many or too long."""


class UrlTooLong(ServiceError):
    """The URL of a request is over its limit."""


class SlowRequest(ServiceError):
    """The head or the body of a request took too long; the connection ends."""


class Overloaded(ServiceError):
    """Connections, or bodies being read, are at their limit."""


class QueueFull(ServiceError):
    """More is waiting for the journal than the limits allow."""


class PendingFull(ServiceError):
    """As many examples wait for their label as the model's spec allows."""


class TooManyModels(ServiceError):
    """The limit of models is reached."""


class TooManyStreams(ServiceError):
    """The limit of event streams is reached."""


class NotReady(ServiceError):
    """Replay is not finished, or the process is stopping."""


class JournalUnavailable(ServiceError):
    """A write or a flush of the journal failed: nothing is learned until a restart."""


class ModelFaulted(ServiceError):
    """Applying a journalled event failed: this model is set aside, the others serve."""


class WeightsUnavailable(ServiceError):
    """The model keeps no names (hashing): its weights cannot be told."""


class NonFiniteScore(ServiceError):
    """A score is not a finite number; `rows` are those of a block."""

    rows: Sequence[int] = (0,)


class Disconnected(Exception):
    """The client went away before its body was complete."""


class StartRefused(AucstreamError):
    """The process must not start as it was told to."""

    def __init__(self, reason: str) -> None:
        super().__init__("start", reason)

    @property
    def message(self) -> str:
        """The reason alone: it is a sentence for an operator."""
        return self.expected


class DirectoryInUse(StartRefused):
    """Another process owns the data directory."""


class JournalDamaged(StartRefused):
    """The journal's file is damaged where all models share it, or lost what it had acknowledged."""


class Unrecoverable(AucstreamError):
    """One model cannot be recovered: it is set aside, the others serve."""

    def __init__(self, reason: str) -> None:
        super().__init__("model", reason)


class JournalGap(Unrecoverable):
    """Events between the newest readable snapshot and the journal are missing."""


class RowsDamaged(Unrecoverable):
    """A row of the journal is not the one that was written."""


class UnknownEvent(Unrecoverable):
    """An event of a kind that this version does not know."""


def pointer_of(tokens: Sequence[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a path of names and positions."""
    return "".join("/" + str(token).replace("~", "~0").replace("/", "~1") for token in tokens)
