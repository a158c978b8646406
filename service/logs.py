"""The log: one JSON object (or one line of text) a record and a request, written by a thread of its own.

No line holds features, labels, keys or ids of events. An exception is logged by its type and its place:
its message may quote what a client sent.

The event loop only puts lines into a bounded queue. Where nobody reads standard error in time, lines are
dropped and counted; the service does not wait.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import traceback
from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Literal, TextIO

import msgspec

Format = Literal["json", "text"]
Level = Literal["debug", "info", "warning", "error"]

MOST_LINES = 50_000  # in the queue: some 15 MB
COLLECT_SECONDS = 0.05  # lines of this long are written together
FLUSH_SECONDS = 2.0  # what the end of the process waits for a reader

EXTRA = ("request_id", "model", "seq")  # of a record's `extra`

_encode = msgspec.json.Encoder().encode


class Sink:
    """Lines on their way to a stream."""

    def __init__(self, stream: TextIO) -> None:
        self.dropped = 0
        self._stream = stream
        self._lines: deque[str] = deque()
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Queue one line, or drop it when too many wait."""
        lines = self._lines
        if len(lines) >= MOST_LINES:
            self.dropped += 1
            return
        lines.append(line)
        if not self._wake.is_set():
            self._idle.clear()
            self._wake.set()

    def flush(self) -> None:
        """Wait until what was queued is written, but not for ever."""
        self._idle.wait(FLUSH_SECONDS)

    def close(self) -> None:
        """Write what is queued and end the thread."""
        self._ending = True
        self._wake.set()
        self._thread.join(FLUSH_SECONDS)

    def _run(self) -> None:
        lines = self._lines
        while not self._ending or lines:
            self._wake.wait()
            if not self._ending:
                time.sleep(COLLECT_SECONDS)
            self._wake.clear()
            text = "".join([lines.popleft() for _ in range(len(lines))])
            if text:
                with contextlib.suppress(OSError, ValueError):  # a closed pipe must not stop the service
                    self._stream.write(text)
                    self._stream.flush()
            if not lines:
                self._idle.set()


class Handler(logging.Handler):
    """Puts records into a sink."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.sink = sink

    def emit(self, record: logging.LogRecord) -> None:
        """Queue one record."""
        try:
            self.sink.put(self.format(record) + "\n")
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Wait for the queue."""
        self.sink.flush()


Raised = tuple[type[BaseException], BaseException, TracebackType | None] | tuple[None, None, None]


def place_of(error: BaseException) -> str:
    """Return where an exception was raised: file, line and function of each frame, without its message."""
    return "; ".join(f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__))


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line."""
        document: dict[str, Any] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in EXTRA:
            if name in record.__dict__:
                document[name] = record.__dict__[name]
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            document["error"] = {"type": type(error).__name__, "at": place_of(error)}
        return _encode(document).decode()


class TextFormatter(logging.Formatter):
    """One line of text a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = f"{stamp(record.created)} {record.levelname} {record.name}: {record.getMessage()}"
        for name in EXTRA:
            if name in record.__dict__:
                line += f" {name}={record.__dict__[name]}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line += f" ({type(error).__name__} at {place_of(error)})"
        return line


_second = 0
_prefix = ""


def stamp(moment: float) -> str:
    """Return a moment as RFC 3339 with milliseconds, in UTC."""
    global _second, _prefix
    second = int(moment)
    if second != _second:
        _prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        _second = second
    return f"{_prefix}.{int((moment - second) * 1000):03d}Z"


_JSON = (
    '{"time":"%s","level":"info","logger":"aucstream.access","request_id":"%s","trace_id":"%s","route":"%s",'
    '"method":"%s","status":%s,"seconds":%.6f,"bytes_in":%d,"bytes_out":%d,"model":%s,"rows":%d}\n'
)
_TEXT = "%s INFO aucstream.access: request_id=%s trace_id=%s %s %s %s %.6f s in=%d out=%d model=%s rows=%d\n"


class AccessLog:
    """One line a request, formatted by hand: logging's own way takes ten times as long."""

    def __init__(self, sink: Sink, form: Format) -> None:
        self._sink = sink
        self._json = form == "json"

    @property
    def dropped(self) -> int:
        """Lines dropped so far."""
        return self._sink.dropped

    def write(
        self,
        request_id: bytes,
        trace_id: bytes,
        route: str,
        method: str,
        status: int,
        seconds: float,
        bytes_in: int,
        bytes_out: int,
        model: str | None,
        rows: int,
    ) -> None:
        """Queue the line of one request; status 0: the client left before the answer."""
        # request and trace ids, routes, methods and model names hold nothing that JSON would escape
        time_, id_, trace = stamp(time.time()), request_id.decode(), trace_id.decode()
        if self._json:
            name = "null" if model is None else f'"{model}"'
            told = status or "null"
            self._sink.put(_JSON % (time_, id_, trace, route, method, told, seconds, bytes_in, bytes_out, name, rows))
        else:
            told, name = status or "-", model or "-"
            self._sink.put(_TEXT % (time_, id_, trace, method, route, told, seconds, bytes_in, bytes_out, name, rows))


@contextlib.contextmanager
def logging_to(stream: TextIO, form: Format, level: Level, *, access: bool) -> Iterator[AccessLog | None]:
    """Send the log to a stream while the process serves; give the access log, None where it is off."""
    sink = Sink(stream)
    handler = Handler(sink)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    try:
        yield AccessLog(sink, form) if access and level in ("debug", "info") else None
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        sink.close()
