"""Server-Sent Events from bytes (https://html.spec.whatwg.org/multipage/server-sent-events.html)."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from typing import NamedTuple

_LINE = re.compile(r"(?:\r\n|\n|\r(?!\Z))")  # a last \r may be half of \r\n


class Event(NamedTuple):
    """An event of a stream; `id` is the newest id of the stream."""

    kind: str
    data: str
    id: str | None


class EventReader:
    """Parser of a stream's parts; `retry` are the seconds to wait before the stream is opened again."""

    def __init__(self) -> None:
        self.retry: float | None = None
        self._id: str | None = None
        self._decode = codecs.getincrementaldecoder("utf-8-sig")("replace").decode
        self._rest = ""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, part: bytes) -> Iterator[Event]:
        """Yield the events that end in this part."""
        *lines, self._rest = _LINE.split(self._rest + self._decode(part))
        for line in lines:
            if line:
                self._field(line)
            else:
                kind, data, self._kind, self._data = self._kind or "message", self._data, "", []
                if data:
                    yield Event(kind, "\n".join(data), self._id)

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value
        elif name == "id" and "\0" not in value:
            self._id = value
        elif name == "retry" and value.isdecimal():
            self.retry = int(value) / 1000
