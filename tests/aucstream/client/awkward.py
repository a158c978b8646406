"""A real server between client and service that misbehaves as it is told."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

import httpx
import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tests.service.running import free_port

Fault = str | bytes | tuple[int, dict[str, str]]

LOST = "lost"  # the request is carried out, and the connection dropped before the answer
DROPPED = "dropped"  # dropped before the request goes anywhere
HALF_SENT = "half sent"  # the service gets the first half of the body, then the connection is dropped
HALF_ANSWERED = "half answered"  # the first half of the answer's body comes back


class Aborting(HttpToolsProtocol):
    """Lets the application drop its connection."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.scope["awkward.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]


class Awkward:
    """Forwards to a service; `faults` is what happens to the next requests, one each, `requests` what came.

    A fault is a word from above, a status with headers to answer, or the bytes of an event stream that breaks off.
    """

    def __init__(self, target: str) -> None:
        self.target = target
        self.faults: deque[Fault] = deque()
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.times: list[float] = []
        # no connection is kept, so there is nothing to close
        self._http = httpx.AsyncClient(timeout=60, verify=False, limits=httpx.Limits(max_keepalive_connections=0))
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        config = uvicorn.Config(self, port=port, http=Aborting, lifespan="off", log_config=None, ws="none")
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def __call__(self, scope: dict[str, Any], receive: Any, send: Any) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.times.append(time.time())
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        self.requests.append((scope["method"], scope["path"], headers))
        fault = self.faults.popleft() if self.faults else None
        if fault == DROPPED:
            scope["awkward.abort"]()
            return
        if isinstance(fault, bytes):
            await start(send, 200, {"Content-Type": "text/event-stream"})
            await send({"type": "http.response.body", "body": fault, "more_body": True})
            scope["awkward.abort"]()
            return
        if isinstance(fault, tuple):
            status, kind = fault
            await answer(send, status, kind, b"the proxy's own words")
            return
        query = scope["query_string"].decode()
        url = self.target + scope["path"] + (f"?{query}" if query else "")
        forwarded = {name: value for name, value in headers.items() if name not in ("host", "content-length")}
        if fault == HALF_SENT:
            await half_sent(self._http, scope["method"], url, forwarded, body)
            scope["awkward.abort"]()
            return
        reply = await self._http.request(scope["method"], url, headers=forwarded, content=body)
        if fault == LOST:
            scope["awkward.abort"]()
            return
        back = dict(reply.headers)
        if fault == HALF_ANSWERED:
            await start(send, reply.status_code, back)
            half = reply.content[: len(reply.content) // 2]
            await send({"type": "http.response.body", "body": half, "more_body": True})
            scope["awkward.abort"]()
            return
        await answer(send, reply.status_code, back, reply.content)


async def half_sent(http: httpx.AsyncClient, method: str, url: str, headers: dict[str, str], body: bytes) -> None:
    """Send the first half of a body, then break off."""

    async def half() -> Any:
        yield body[: len(body) // 2]
        raise BrokenPipeError

    try:
        await http.request(method, url, headers={**headers, "content-length": str(len(body))}, content=half())
    except BrokenPipeError:
        return


async def start(send: Any, status: int, headers: dict[str, str]) -> None:
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": status, "headers": raw})


async def answer(send: Any, status: int, headers: dict[str, str], body: bytes) -> None:
    await start(send, status, {**headers, "content-length": str(len(body))})
    await send({"type": "http.response.body", "body": body})
