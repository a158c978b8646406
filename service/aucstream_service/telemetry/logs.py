"""The log: one JSON object (or one line of text) a record and a request, written by a thread of its own.

No line holds features, labels, keys or ids of events. An exception is logged by its type and its place:
its message may quote what a client sent.

The event loop only puts lines into a bounded queue. Where nobody reads standard error in time, lines are
dropped and counted; the service does not wait.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import threading
import time
import traceback
import warnings
from collections import deque
from collections.abc import Iterator
from typing import Any, Literal, TextIO

import msgspec

Format = Literal["json", "text"]
Level = Literal["debug", "info", "warning", "error"]

MOST_LINES = 50_000  # in the queue: some 15 MB
COLLECT_SECONDS = 0.05  # lines of this long are written together
FLUSH_SECONDS = 2.0  # what the end of the process waits for a reader

EXTRA = ("request_id", "model", "seq")  # of a record's `extra`

_encoder = msgspec.json.Encoder()
_encode = _encoder.encode


class Sink:
    """Lines on their way to a stream."""

    def __init__(self, stream: TextIO, form: Format = "json") -> None:
        self.dropped = 0
        self._stream = stream
        self._lines: deque[Line] = deque()
        self._joined = _as_json if form == "json" else _as_text
        self._wake = threading.Event()
        self._idle = threading.Event()
        self._idle.set()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    def put(self, line: Line) -> None:
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
        self._idle.set()

    def _run(self) -> None:
        lines = self._lines
        while not self._ending or lines:
            self._wake.wait()
            if not self._ending:
                time.sleep(COLLECT_SECONDS)
            self._wake.clear()
            text = self._joined([lines.popleft() for _ in range(len(lines))])
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


def place_of(error: BaseException) -> str:
    """Return where an exception was raised: file, line and function of each frame, without its message."""
    return "; ".join(f"{f.filename}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__))


def message_of(record: logging.LogRecord) -> str:
    """Return a record's message; of asyncio's only the first line, the others show what raised."""
    message = record.getMessage()
    return message.partition("\n")[0] if record.name == "asyncio" else message


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Log a warning without its text: it may name what one row held."""
    del message, file, line
    logging.getLogger("aucstream").warning("%s at %s:%d", category.__name__, filename, lineno)


class JsonFormatter(logging.Formatter):
    """One JSON object a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the object as one line."""
        document: dict[str, Any] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": message_of(record),
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
        line = f"{stamp(record.created)} {record.levelname} {record.name}: {message_of(record)}"
        for name in EXTRA:
            if name in record.__dict__:
                line += f" {name}={record.__dict__[name]}"
        if record.exc_info and record.exc_info[1] is not None:
            error = record.exc_info[1]
            line += f" ({type(error).__name__} at {place_of(error)})"
        return line


_stamped = (-1, "")


def stamp(moment: float) -> str:
    """Return a moment as RFC 3339 with milliseconds, in UTC; made once a millisecond."""
    global _stamped
    milliseconds = int(moment * 1000)
    known, text = _stamped
    if known != milliseconds:
        seconds, rest = divmod(milliseconds, 1000)
        text = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:03d}Z"
        _stamped = (milliseconds, text)
    return text


class Ended(msgspec.Struct, gc=False):
    """A request that has ended, as it is known then; the log's thread makes the line of it."""

    at: float
    request_id: bytes
    trace_id: bytes
    route: str
    method: str
    status: int  # 0: the client left before the answer
    seconds: float
    bytes_in: int
    bytes_out: int
    model: str | None
    rows: int
    key: str | None  # id of the key, never the key

    def line(self) -> Request:
        """Return the line."""
        return Request(
            stamp(self.at),
            self.request_id.decode(),
            self.trace_id.decode(),
            self.route,
            self.method,
            self.status or None,
            round(self.seconds, 6),
            self.bytes_in,
            self.bytes_out,
            self.model,
            self.rows,
            self.key,
        )


class Request(msgspec.Struct, gc=False):
    """The line of one request; status None: the client left before the answer."""

    time: str
    request_id: str
    trace_id: str
    route: str
    method: str
    status: int | None
    seconds: float
    bytes_in: int
    bytes_out: int
    model: str | None
    rows: int
    key: str | None = None
    level: str = "info"
    logger: str = "aucstream.access"


Line = str | Ended


def _as_json(lines: list[Line]) -> str:
    """Return lines as text; neighbouring requests are encoded by one call: half a microsecond each."""
    parts: list[str] = []
    for of_requests, group in itertools.groupby(lines, lambda line: type(line) is Ended):
        if of_requests:
            parts.append(_encoder.encode_lines([ended.line() for ended in group]).decode())  # type: ignore[union-attr]
        else:
            parts.extend(map(str, group))
    return "".join(parts)


def _as_text(lines: list[Line]) -> str:
    return "".join(line if isinstance(line, str) else _text_of(line.line()) for line in lines)


def _text_of(line: Request) -> str:
    return (
        f"{line.time} INFO {line.logger}: {line.method} {line.route} {line.status or '-'} {line.seconds:.6f} s "
        f"in={line.bytes_in} out={line.bytes_out} model={line.model or '-'} rows={line.rows} key={line.key or '-'} "
        f"request_id={line.request_id} trace_id={line.trace_id}\n"
    )


@contextlib.contextmanager
def logging_to(stream: TextIO, form: Format, level: Level, *, access: bool) -> Iterator[Sink | None]:
    """Send the log to a stream while the process serves; give the sink of the access log, None where it is off."""
    sink = Sink(stream, form)
    handler = Handler(sink)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(level.upper())
    shows, warnings.showwarning = warnings.showwarning, _warned
    try:
        yield sink if access and level in ("debug", "info") else None
    finally:
        warnings.showwarning = shows
        root.removeHandler(handler)
        root.setLevel(before)
        sink.close()
