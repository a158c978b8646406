"""Calls without I/O: generators that yield effects and receive their results.

`sync.py` and `aio.py` perform the effects and decide nothing. The result of an effect is sent into the generator; a
ConnectionFailed is raised in it.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from aucstream.client.problems import ClientError, ConnectionFailed, Problem, problem_of
from aucstream.client.retry import Retry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Request:
    """A request; a `safe` one may be sent again when it is unknown whether it arrived."""

    method: str
    path: str
    content: bytes = b""
    headers: Mapping[str, str] | None = None
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer; of a stream that is open, without content."""

    status: int
    headers: Mapping[str, str]
    content: bytes


@dataclass(frozen=True, slots=True)
class Send:
    """Send a request; the result is its Reply. `stream`: a success is left open, to be read."""

    request: Request
    timeout: float
    stream: bool = False


@dataclass(frozen=True, slots=True)
class Read:
    """Read from the open stream; the result is its next bytes, empty at the end."""


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Take:
    """Take rows from the caller's iterable; the result has at most `most` of them, none at the end."""

    most: int


@dataclass(frozen=True, slots=True)
class Emit:
    """Hand a value to the caller."""

    value: Any


Effect = Send | Read | Sleep | Take | Emit
Flow = Generator[Effect, Any, T]


def advance(flow: Flow[Any], outcome: object) -> Effect:
    """Send the outcome of the last effect into a flow; return the next. Raises StopIteration with the flow's result."""
    return flow.throw(outcome) if isinstance(outcome, ConnectionFailed) else flow.send(outcome)


class Patience:
    """The rest of one request's deadline, and the number of its attempts."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self.attempt = 0
        self.renew()

    def renew(self) -> None:
        """Start the deadline anew after a success."""
        self._until = time.monotonic() + self._retry.deadline
        self._failures = 0

    def timeout(self, seconds: float) -> float:
        """Count an attempt; return the seconds that its answer may be silent."""
        self.attempt += 1
        return seconds if self._failures == 0 else max(0.001, min(seconds, self._until - time.monotonic()))

    def pause(self, error: ClientError, retry_after: float | None = None) -> Sleep:
        """Return the pause before the next attempt, or raise the error where the deadline leaves no time."""
        error.attempts = self.attempt
        self._failures += 1
        seconds = self._retry.pause(self._failures, retry_after)
        if time.monotonic() + seconds > self._until:
            raise error
        return Sleep(seconds)


def exchange(request: Request, retry: Retry, timeout: float) -> Flow[tuple[Reply, int]]:
    """Send a request until it succeeds, as far as that is safe; return the answer and the number of attempts."""
    patience = Patience(retry)
    while True:
        error: ClientError
        retry_after = None
        try:
            reply = yield Send(request, patience.timeout(timeout))
        except ConnectionFailed as failure:
            repeatable = request.safe or not failure.sent
            error = failure
        else:
            if 200 <= reply.status < 300:
                return reply, patience.attempt
            problem = problem_of(reply.status, reply.headers, reply.content)
            repeatable = request.safe and problem.passing
            error, retry_after = problem, problem.retry_after
        if not repeatable:
            error.attempts = patience.attempt
            raise error
        yield patience.pause(error, retry_after)


def open_stream(request: Request, timeout: float) -> Flow[None]:
    """Open a stream; raises Problem, ConnectionFailed."""
    reply = yield Send(request, timeout, stream=True)
    if reply.status != 200:
        raise problem_of(reply.status, reply.headers, reply.content)


def is_passing(error: ClientError) -> bool:
    """Return whether waiting may help."""
    return isinstance(error, ConnectionFailed) or (isinstance(error, Problem) and error.passing)
