"""Server-Sent Events of a model: its numbers, when they have changed, at a bounded rate, its alarms, and which members of it rest.

A stream holds no queue: at each tick it sends what is new of alarm, members and numbers or nothing, so that a slow
reader misses numbers between, and one that does not read at all is dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from typing import Any

import msgspec
from fastapi import Response
from starlette.types import Receive, Scope, Send

from aucstream_service.errors.exceptions import TooManyStreams
from aucstream_service.models.host import ModelHost
from aucstream_service.models.model import Model

RETRY_MILLISECONDS = 2_000  # told to the client: how long it waits before it asks again
SLOW_SECONDS = 10.0  # a stream whose reader takes nothing for this long is dropped

KIND = "text/event-stream"
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}

_encode = msgspec.json.Encoder().encode


class Streams:
    """The event streams of one application."""

    def __init__(self, host: ModelHost) -> None:
        self.host = host
        self.opened = 0
        self.dropped = 0
        self.ending = False
        self._streams: set[EventStream] = set()

    @property
    def open(self) -> int:
        """Streams being served."""
        return len(self._streams)

    def stream(self, model: Model, seen: int | None, admitted: Callable[[], bool]) -> EventStream:
        """Return a stream that goes on while its reader is admitted. Raises TooManyStreams.

        `seen` is the seq that the reader knows already.
        """
        most = self.host.settings.max_event_streams
        if len(self._streams) >= most:
            raise TooManyStreams("streams", f"at most {most} event streams (--max-event-streams)")
        return EventStream(self, model, seen, admitted)

    def end(self) -> None:
        """End all streams: the service stops."""
        self.ending = True
        for stream in self._streams:
            stream.wake.set()

    def enter(self, stream: EventStream) -> None:
        """Count a stream that begins."""
        self.opened += 1
        self._streams.add(stream)

    def leave(self, stream: EventStream) -> None:
        """Forget a stream that has ended."""
        self._streams.discard(stream)


class EventStream(Response):
    """The answer of GET events; runs until its reader leaves, the model is gone or the service stops."""

    def __init__(self, streams: Streams, model: Model, seen: int | None, admitted: Callable[[], bool]) -> None:
        super().__init__(headers=HEADERS, media_type=KIND)
        del self.headers["content-length"]
        self.wake = asyncio.Event()
        self._streams = streams
        self._model = model
        self._seen = seen
        self._noted = model.seq if seen is None else min(seen, model.seq)  # alarms after this seq are news
        self._admitted = admitted
        self._left = False
        self._resting = _resting(model)
        streams.enter(self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        leaving = asyncio.get_running_loop().create_task(self._watch(receive))
        try:
            await self._send(send, {"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            await self._send(send, _part(b"retry: %d\n\n" % RETRY_MILLISECONDS))
            while not self._left:
                reason = self._over()
                if reason is not None:
                    await self._send(send, _part(b'event: end\ndata: {"reason":"%s"}\n\n' % reason, more=False))
                    return
                await self._tick(send)
        except TimeoutError:
            self._streams.dropped += 1
            abort = scope.get("aucstream.abort")
            if abort is not None:
                abort()
                await asyncio.sleep(0.01)  # until the server knows that the connection is gone
        finally:
            self._streams.leave(self)
            leaving.cancel()

    async def _tick(self, send: Send) -> None:
        settings = self._streams.host.settings
        model = self._model
        quiet_until = time.monotonic() + settings.event_heartbeat_seconds
        while model.seq == self._seen and not self.wake.is_set() and self._over() is None:
            if time.monotonic() >= quiet_until:
                await self._send(send, _part(b": still here\n\n"))
                return
            await self._wait(min(1.0 / settings.events_per_second, settings.event_heartbeat_seconds))
        if self._over() is None and not self._left:
            seq, data, news = await self._streams.host.workers.run_if_long(model, self._read, model.summary_size)
            # Without an id: who is cut off before the numbers gets an alarm again.
            for kind, item in news:
                if item is not None:
                    await self._send(send, _part(b"event: %s\ndata: %s\n\n" % (kind, _encode(item))))
            await self._send(send, _part(b"id: %d\ndata: %s\n\n" % (seq, data)))
            await self._wait(1.0 / settings.events_per_second)

    def _read(self) -> tuple[int, bytes, list[tuple[bytes, dict[str, Any] | None]]]:
        """Return the seq and the numbers of now, and what is new."""
        seq = self._seen = self._model.seq
        data = _encode(numbers(self._model))
        return seq, data, [(b"alarm", self._alarm()), *((b"member", change) for change in self._changes())]

    def _alarm(self) -> dict[str, Any] | None:
        """Return the newest alarm, once."""
        model, noted = self._model, self._noted
        self._noted = model.seq
        last = model.evaluation.last_alarm
        if last is None or last[0] <= noted:
            return None
        return {"name": model.name, "seq": last[0], "strength": last[1], "alarms": model.evaluation.alarms}

    def _changes(self) -> list[dict[str, Any]]:
        """Return which members began to rest, or learn again, since this was asked."""
        before, self._resting = self._resting, _resting(self._model)
        model = {"name": self._model.name, "seq": self._model.seq}
        return [
            {**model, "member": member, "resting": resting}
            for member, resting in self._resting.items()
            if before.get(member, False) != resting
        ]

    def _over(self) -> bytes | None:
        """Return why the stream must end, None while it goes on."""
        if self._streams.ending:
            return b"stopping"
        current = self._streams.host.models.get(self._model.name)
        if current is not self._model:
            return b"deleted" if current is None else b"replaced"
        if not self._admitted():
            return b"revoked"
        return None

    async def _wait(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.wake.wait()

    async def _send(self, send: Send, message: dict[str, Any]) -> None:
        async with asyncio.timeout(SLOW_SECONDS):
            await send(message)

    async def _watch(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self._left = True
        self.wake.set()


def _resting(model: Model) -> dict[str, bool]:
    """Return whether each member of an `auto` model rests."""
    return {member["name"]: member["resting_since"] is not None for member in model.members or ()}


def numbers(model: Model) -> dict[str, Any]:
    """Return what one event tells."""
    description = model.describe()
    evaluation = model.summarise()
    return {
        **{name: description[name] for name in ("name", "seq", "examples", "positives", "pending", "last_event_at")},
        "window": evaluation["window"],
        "total": evaluation["total"],
        "drift": evaluation["drift"],
    }


def _part(body: bytes, *, more: bool = True) -> dict[str, Any]:
    return {"type": "http.response.body", "body": body, "more_body": more}
