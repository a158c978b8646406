"""What a call can end with when it does not end well.

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

Rows that cannot be sent at all raise the library's own errors, `InvalidBlock` and `InvalidLabel`.
"""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from aucstream.client.answers import LearnedMany
from aucstream.errors import AucstreamError

TYPE_PREFIX = "urn:aucstream:problem:"
SHOWN_BYTES = 200  # of an answer that is none of ours

_BY_TYPE: dict[str, type[Problem]] = {}
_BY_STATUS: dict[int, type[Problem]] = {}


class ClientError(AucstreamError):
    """Base of what a call can end with.

    Attributes
    ----------
    attempts : int
        How often the request was sent.
    learned : LearnedMany or None
        Of a -many call: what was confirmed before.
    id : str or None
        Of learn_one: the id that was sent; with it the example can safely be sent again.
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
    """No answer came, or not all of it. `sent`: the service may have got the request."""

    def __init__(self, sentence: str, *, sent: bool) -> None:
        self.sent = sent
        super().__init__(sentence)


class BadAnswer(ClientError):
    """The answer is not one of the service's: is the address that of a proxy, or the version another?"""


class Problem(ClientError):
    """The service refused.

    Attributes
    ----------
    status : int
    type : str
        Without its prefix, for example `label-conflict`; `about:blank` where the service did not say.
    title, detail : str
    errors : list of dict
        `pointer` and `message`, and `line` for a -many call: the row's number from 1 among all rows given.
    request_id : str
        By which the service's log has it.
    members : dict
        What else the answer has.
    retry_after : float or None
        Seconds.
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

    def retell(self) -> None:
        """Make the sentence anew: rows have got other numbers."""
        self.expected = self._sentence()
        self.args = (self.message,)

    def _sentence(self) -> str:
        name = self.type if self.type in _BY_TYPE else self.title
        told = f"{self.status} {name}: {self.detail}" if self.detail else f"{self.status} {name}"
        places = "; ".join(_place(error) for error in self.errors[:3] if "line" in error)
        return told + (f" ({places})" if places else "") + (f" [{self.request_id}]" if self.request_id else "")

    def __init_subclass__(cls, *, type: str | None = None, status: tuple[int, ...] = ()) -> None:
        if type is not None:
            _BY_TYPE[type] = cls
        for code in status:
            _BY_STATUS[code] = cls


class InvalidRequest(Problem, status=(400, 405, 413, 414, 415, 421, 422, 431, 501, 505), type="invalid-request"):
    """The request cannot be carried out as it is."""


class BadRequest(InvalidRequest, type="bad-request"):
    """The bytes are not an HTTP request."""


class NotImplementedThere(InvalidRequest, type="not-implemented"):
    """No path knows this method or transfer coding."""


class VersionNotSupported(InvalidRequest, type="version-not-supported"):
    """HTTP 1.1 and 1.0 are spoken there."""


class MethodNotAllowed(InvalidRequest, type="method-not-allowed"):
    """The path does not take this method."""


class BodyTooLarge(InvalidRequest, type="body-too-large"):
    """A body, a line or a list of rows is over its limit."""


class UrlTooLong(InvalidRequest, type="url-too-long"):
    """The URL is over its limit."""


class HeadersTooLarge(InvalidRequest, type="headers-too-large"):
    """The headers are over their limit."""


class BadEncoding(InvalidRequest, type="bad-encoding"):
    """The body is not what its Content-Encoding says."""


class UnsupportedMediaType(InvalidRequest, type="unsupported-media-type"):
    """The content type is not accepted there."""


class HostNotAllowed(InvalidRequest, type="host-not-allowed"):
    """The service does not answer to this host name."""


class InvalidSpec(InvalidRequest, type="invalid-params"):
    """A parameter of the spec is out of its range."""


class UnknownAlgorithm(InvalidRequest, type="unknown-algorithm"):
    """No algorithm has that name."""


class InvalidFeatures(InvalidRequest, type="invalid-features"):
    """The features cannot be used."""


class LabelRefused(InvalidRequest, type="invalid-label"):
    """The label is not one of the two classes."""


class StepRefused(InvalidRequest, type="non-finite-step"):
    """The step would leave the model non-finite: the row is skipped."""


class ScoreRefused(InvalidRequest, type="non-finite-score"):
    """The score is not a finite number."""


class SnapshotRefused(InvalidRequest, type="bad-snapshot"):
    """The snapshot is damaged or foreign."""


class SnapshotTooNew(SnapshotRefused, type="newer-snapshot"):
    """The snapshot was made by a newer version."""


class InvalidBody(InvalidRequest, type="invalid-body"):
    """The body does not fit its description."""


class MalformedBody(InvalidBody, type="malformed-json"):
    """The body is not JSON."""


class MalformedArrow(InvalidBody, type="malformed-arrow"):
    """The body is not an Arrow stream."""


class InvalidQuery(InvalidRequest, type="invalid-query"):
    """A query parameter is out of its range."""


class InvalidName(InvalidRequest, type="invalid-name"):
    """The model name is not allowed."""


class NotAllowed(Problem, status=(401, 403)):
    """A key, or another one, is needed."""


class Unauthorized(NotAllowed, type="unauthorized"):
    """A valid API key is needed."""


class Forbidden(NotAllowed, type="forbidden"):
    """The role of the API key does not allow this."""


class NotFound(Problem, status=(404,), type="not-found"):
    """There is no such thing."""


class ModelNotFound(NotFound, type="model-not-found"):
    """No model has that name; member `near`."""


class UnknownId(NotFound, type="unknown-id"):
    """No prediction with that id waits for a label."""


class Conflict(Problem, status=(409, 412)):
    """What is there does not agree with the request."""


class SpecConflict(Conflict, type="spec-conflict"):
    """The name is taken by a model with another spec."""


class LabelConflict(Conflict, type="label-conflict"):
    """The other label came first for this id."""


class FeaturesConflict(Conflict, type="features-conflict"):
    """The id was predicted before with other features."""


class AlreadyLabelled(Conflict, type="already-labelled"):
    """The id was learned before."""


class LabelExpiredNegative(Conflict, type="label-expired-negative"):
    """The example expired and was learned as negative."""


class MergeRefused(Conflict, type="cannot-merge"):
    """The models cannot be merged exactly."""


class WeightsUnavailable(Conflict, type="weights-unavailable"):
    """The model keeps no names of its features."""


class PreconditionFailed(Conflict, type="precondition-failed"):
    """The model is not as the request expects."""


class Expired(Problem, status=(410,), type="expired"):
    """The example expired before its label came."""


class Busy(Problem, status=(429,)):
    """A limit is reached; most pass."""

    passing = True


class QueueFull(Busy, type="queue-full"):
    """Too much is waiting."""


class PendingFull(Busy, type="pending-full"):
    """Too many examples wait for their label."""


class TooManyStreams(Busy, type="too-many-streams"):
    """The limit of event streams is reached."""


class TooManyModels(Busy, type="too-many-models"):
    """The limit of models is reached: it passes when one is deleted, not with time."""

    passing = False


class Unavailable(Problem, status=(408, 502, 503, 504)):
    """The service, or a proxy before it, cannot answer now."""

    passing = True


class NotReady(Unavailable, type="not-ready"):
    """The service is starting or stopping."""


class Overloaded(Unavailable, type="overloaded"):
    """Too many connections or bodies at once."""


class SlowRequest(Unavailable, type="slow-request"):
    """The request took too long to come."""


class JournalUnavailable(Unavailable, type="journal-unavailable"):
    """The journal cannot be written: nothing is learned until a restart."""


class ModelFaulted(Unavailable, type="model-faulted"):
    """The model is set aside after a fault: this does not pass with time."""

    passing = False


class ServiceFault(Problem):
    """An answer with a status that no other class stands for."""


class InternalError(ServiceFault, type="internal-error"):
    """An unexpected error; the service's log has its place under the request id."""


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
