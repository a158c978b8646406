"""The limits of one server on its connections, what it counts of them, and the calls that they serve without ASGI."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from aucstream_service.http.request_context import Header, RequestContext, header_lines


class Connection(Protocol):
    """Where a `Call` answers."""

    def answer(self, status: int, head: bytes, body: bytes) -> None:
        """Write the whole answer; `head` are the headers but for the date, each with the end of its line."""


class Call(Protocol):
    """A request whose head was accepted, and that needs its whole body and no ASGI."""

    def serve(self, body: bytes, connection: Connection) -> None:
        """Answer by `connection.answer`, now or later. Raises nothing."""

    def withdraw(self) -> None:
        """Take note that ASGI serves this request from its head on. Nothing of it was done."""

    def abandon(self) -> None:
        """Take note that the client left before the body was complete."""


@dataclass
class Gate:
    """The limits, and the connections of one server."""

    connections: int
    url_bytes: int
    head_bytes: int
    headers: int
    head_seconds: float
    body_seconds: float
    serving: int = 0
    lingering: int = 0
    draining: bool = False  # each answer is the last of its connection, and says so
    idle: dict[Any, float] = field(default_factory=dict)  # connections without a request, and since when; oldest first
    over: dict[Any, None] = field(
        default_factory=dict
    )  # connections over the limit that have sent nothing, oldest first
    refused: dict[str, int] = field(default_factory=dict)  # by type of the problem
    fixed: list[Header] = field(default_factory=list)  # headers of every answer
    ended: Callable[[RequestContext], None] | None = None  # told of what was refused here
    call_of: Callable[[bytes, list[Header]], Call | None] | None = None  # URL and headers of a POST -> its call
    _lines: tuple[list[Header], bytes] = ([], b"")

    def lines_of(self, headers: list[Header]) -> bytes:
        """Return the lines of the headers that uvicorn adds; it makes another list each second."""
        if self._lines[0] is not headers:
            self._lines = headers, header_lines(headers)
        return self._lines[1]
