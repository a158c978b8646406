"""The exceptions of a call.

    aucstream.errors.AucstreamError
    └── ClientError
        ├── ConnectionFailed         no answer, or not all of it
        ├── BadAnswer                an answer that is not the service's
        └── Problem                  an RFC 9457 answer; by its type:
            ├── InvalidRequest       400, 405, 413, 414, 415, 421, 422, 431: another request is needed
            ├── NotAllowed           401, 403
            ├── NotFound             404
            ├── Conflict             409, 412
            ├── Expired              410
            ├── Busy                 429
            ├── Unavailable          408, 502, 503, 504
            └── ServiceFault         all else

A class of one problem type takes its docstring and `passing` from `aucstream.problem_types`.
Rows that cannot be sent at all raise the library's own errors, `InvalidBlock` and `InvalidLabel`.
"""

# ruff: noqa: D101

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from aucstream.client.answers import LearnedMany
from aucstream.errors import AucstreamError
from aucstream.problem_types import TYPE_PREFIX

SHOWN_BYTES = 200  # of an answer that the service did not write

_BY_TYPE: dict[str, type[Problem]] = {}
_BY_STATUS: dict[int, type[Problem]] = {}


class ClientError(AucstreamError):
    """Base of the errors of a call.

    Attributes
    ----------
    attempts : int
        How often the request was sent.
    learned : LearnedMany or None
        Of a -many call: the counts of the rows confirmed before.
    id : str or None
        Of learn_one: the id that was sent; with it the example can safely be sent again.

    Parameters
    ----------
    sentence : str
        The message.
    """

    def __init__(self, sentence: str) -> None:
        self.attempts = 1
        self.learned: LearnedMany | None = None
        self.id: str | None = None
        super().__init__("service", sentence)

    @property
    def message(self) -> str:
        """The sentence."""
        return self.expected


class ConnectionFailed(ClientError):
    """No answer came, or not all of it.

    Parameters
    ----------
    sentence : str
        The message.
    sent : bool
        Whether the service may have received the request.
    """

    def __init__(self, sentence: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(sentence)


class ClientClosed(ClientError, RuntimeError):
    """The client was closed: nothing was sent."""


class BadAnswer(ClientError):
    """The answer is not one of the service's: is the address that of a proxy, or the version another?"""


class Problem(ClientError):
    """The service refused.

    Attributes
    ----------
    status : int
        The HTTP status.
    type : str
        Name of the problem type, for example `label-conflict`; `about:blank` where the answer has none.
    title, detail : str
        What was refused, in general and in this case.
    errors : list of dict
        `pointer` and `message`, and `line` for a -many call: the row's number from 1 among all rows of the call.
    request_id : str
        Id of the request in the log of the service.
    members : dict
        Further members of the answer.
    retry_after : float or None
        Seconds that the service asks to wait.

    Parameters
    ----------
    status : int
    document : mapping
        The body of the answer.
    retry_after : float, optional
    """

    passing: ClassVar[bool] = False  # whether waiting may help

    def __init__(self, status: int, document: Mapping[str, Any], retry_after: float | None = None) -> None:
        members = dict(document)
        members.pop("status", None)
        self.status = status
        self.type = str(members.pop("type", "about:blank")).removeprefix(TYPE_PREFIX)
        self.title = str(members.pop("title", ""))
        self.detail = str(members.pop("detail", ""))
        self.errors: list[dict[str, Any]] = [error for error in members.pop("errors", ()) if isinstance(error, dict)]
        self.request_id = str(members.pop("request_id", ""))
        self.members = members
        self.retry_after = retry_after
        super().__init__(self._sentence())

    def update_sentence(self) -> None:
        """Update the sentence after a change of `errors`."""
        self.expected = self._sentence()
        self.args = (self.message,)

    def _sentence(self) -> str:
        name = self.type if self.type in _BY_TYPE else self.title
        text = f"{self.status} {name}: {self.detail}" if self.detail else f"{self.status} {name}"
        places = "; ".join(_place(error) for error in self.errors[:3] if "line" in error)
        return text + (f" ({places})" if places else "") + (f" [{self.request_id}]" if self.request_id else "")

    def __init_subclass__(cls, *, problem: str | None = None, status: tuple[int, ...] = ()) -> None:
        super().__init_subclass__(problem=problem)
        if problem is not None:
            _BY_TYPE[problem] = cls
            cls.passing = cls.problem_type.passes
        _BY_STATUS.update(dict.fromkeys(status, cls))


class InvalidRequest(Problem, status=(400, 405, 413, 414, 415, 421, 422, 431, 501, 505), problem="invalid-request"):
    """The request cannot be carried out as it is."""


class BadRequest(InvalidRequest, problem="bad-request"): ...


class NotImplementedThere(InvalidRequest, problem="not-implemented"): ...


class VersionNotSupported(InvalidRequest, problem="version-not-supported"): ...


class MethodNotAllowed(InvalidRequest, problem="method-not-allowed"): ...


class BodyTooLarge(InvalidRequest, problem="body-too-large"): ...


class UrlTooLong(InvalidRequest, problem="url-too-long"): ...


class HeadersTooLarge(InvalidRequest, problem="headers-too-large"): ...


class BadEncoding(InvalidRequest, problem="bad-encoding"): ...


class UnsupportedMediaType(InvalidRequest, problem="unsupported-media-type"): ...


class HostNotAllowed(InvalidRequest, problem="host-not-allowed"): ...


class InvalidSpec(InvalidRequest, problem="invalid-params"): ...


class UnknownAlgorithm(InvalidRequest, problem="unknown-algorithm"): ...


class InvalidFeatures(InvalidRequest, problem="invalid-features"): ...


class LabelRefused(InvalidRequest, problem="invalid-label"): ...


class StepRefused(InvalidRequest, problem="non-finite-step"): ...


class ScoreRefused(InvalidRequest, problem="non-finite-score"): ...


class SnapshotRefused(InvalidRequest, problem="bad-snapshot"): ...


class SnapshotTooNew(SnapshotRefused, problem="newer-snapshot"): ...


class InvalidBody(InvalidRequest, problem="invalid-body"): ...


class MalformedBody(InvalidBody, problem="malformed-json"): ...


class MalformedArrow(InvalidBody, problem="malformed-arrow"): ...


class InvalidQuery(InvalidRequest, problem="invalid-query"): ...


class InvalidName(InvalidRequest, problem="invalid-name"): ...


class NotAllowed(Problem, status=(401, 403)):
    """A key, or another one, is needed."""


class Unauthorized(NotAllowed, problem="unauthorized"): ...


class Forbidden(NotAllowed, problem="forbidden"): ...


class NotFound(Problem, status=(404,), problem="not-found"):
    """The path, the model or the id does not exist."""


class ModelNotFound(NotFound, problem="model-not-found"): ...


class SnapshotNotFound(NotFound, problem="snapshot-not-found"): ...


class UnknownId(NotFound, problem="unknown-id"): ...


class Conflict(Problem, status=(409, 412)):
    """The request conflicts with the state of the model or of the id."""


class SpecConflict(Conflict, problem="spec-conflict"): ...


class FixedSetting(Conflict, problem="fixed-setting"): ...


class NameTaken(Conflict, problem="name-taken"): ...


class LabelConflict(Conflict, problem="label-conflict"): ...


class FeaturesConflict(Conflict, problem="features-conflict"): ...


class AlreadyLabelled(Conflict, problem="already-labelled"): ...


class LabelExpiredNegative(Conflict, problem="label-expired-negative"): ...


class MergeRefused(Conflict, problem="cannot-merge"): ...


class WeightsUnavailable(Conflict, problem="weights-unavailable"): ...


class PreconditionFailed(Conflict, problem="precondition-failed"): ...


class Expired(Problem, status=(410,), problem="expired"): ...


class Busy(Problem, status=(429,)):
    """A limit is reached; most pass."""

    passing = True


class QueueFull(Busy, problem="queue-full"): ...


class PendingFull(Busy, problem="pending-full"): ...


class RateLimited(Busy, problem="rate-limited"): ...


class TooManyStreams(Busy, problem="too-many-streams"): ...


class TooManyModels(Busy, problem="too-many-models"): ...


class Unavailable(Problem, status=(408, 502, 503, 504)):
    """The service, or a proxy before it, cannot answer now."""

    passing = True


class NotReady(Unavailable, problem="not-ready"): ...


class Overloaded(Unavailable, problem="overloaded"): ...


class SlowRequest(Unavailable, problem="slow-request"): ...


class JournalUnavailable(Unavailable, problem="journal-unavailable"): ...


class ModelFaulted(Unavailable, problem="model-faulted"): ...


class ServiceFault(Problem):
    """An answer with a status that no other class stands for."""


class InternalError(ServiceFault, problem="internal-error"): ...


def problem_of(status: int, headers: Mapping[str, str], content: bytes) -> Problem:
    """Return the exception for an answer that is no success: by its type, else by its status."""
    try:
        document = msgspec.json.decode(content)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        document = None
    if not isinstance(document, dict):
        document = {"detail": content[:SHOWN_BYTES].decode("utf-8", "replace").strip()}
    document.setdefault("request_id", headers.get("x-request-id", ""))
    kind = _BY_TYPE.get(str(document.get("type", "")).removeprefix(TYPE_PREFIX)) or _BY_STATUS.get(status)
    return (kind or ServiceFault)(status, document, seconds_of(headers.get("retry-after")))


def _place(error: Mapping[str, Any]) -> str:
    return f"line {error['line']}, {error.get('pointer', '')}: {error.get('message', '')}"


def seconds_of(retry_after: str | None) -> float | None:
    """Return the seconds that `Retry-After` names, as a number or as a date."""
    if retry_after is None:
        return None
    text = retry_after.strip()
    if text.isdecimal():
        return float(text)
    try:
        at = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    return max(0.0, at.timestamp() - time.time())
