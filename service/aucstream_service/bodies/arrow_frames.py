"""Messages of an Arrow IPC stream, cut from the parts of a body; what they declare is known before pyarrow reads them.

The metadata is read here because pyarrow shows the rows and buffers of a message only after it has allocated them, and
neither its `IpcReadOptions` nor its memory pools set a limit: for a body of 4 kB, pyarrow 26 allocates the 8 GiB that a
buffer declares. A bound on the ratio would not do, since zstandard reaches 30,000, and the sizes at the beginning of
compressed buffers are found only by the places that the metadata gives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from aucstream_service.errors.exceptions import BodyTooLarge, MalformedArrow

SCHEMA, DICTIONARY, BATCH = 1, 2, 3  # types of message


class _Table:
    """A table of a flatbuffer, read with its bounds checked: struct.error where it points outside."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data = data
        self.at = at
        self.slots = at - self.read("<i", at)
        self.size: int = self.read("<H", self.slots)

    def read(self, form: str, at: int) -> Any:
        """Return the number at a place."""
        if at < 0:
            raise struct.error("outside")
        return struct.unpack_from(form, self.data, at)[0]

    def place(self, field: int) -> int:
        """Return where a field is; 0: it is not there."""
        slot = 4 + 2 * field
        offset: int = self.read("<H", self.slots + slot) if slot + 2 <= self.size else 0
        return self.at + offset if offset else 0

    def number(self, form: str, field: int) -> int:
        """Return a number, 0 where it is not there."""
        place = self.place(field)
        return int(self.read(form, place)) if place else 0

    def table(self, field: int) -> _Table | None:
        """Return a table within."""
        place = self.place(field)
        return _Table(self.data, place + self.read("<I", place)) if place else None

    def pairs(self, field: int) -> np.ndarray:
        """Return a vector of structs of two int64 (n, 2)."""
        place = self.place(field)
        if not place:
            return np.empty((0, 2), dtype=np.int64)
        place += self.read("<I", place)
        count = self.read("<I", place)
        if place + 4 + 16 * count > len(self.data):
            raise struct.error("outside")
        return np.frombuffer(self.data, dtype="<i8", count=2 * count, offset=place + 4).reshape(count, 2)


class Frame(NamedTuple):
    """One whole message of a stream."""

    kind: int
    data: bytes
    head: _Table | None  # of a record batch, or of that in a dictionary
    body: int  # where the body begins in `data`
    dictionary: int = 0
    delta: bool = False


class Frames:
    """Cut the parts of a body into messages."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._buffer = bytearray()
        self._need = 4
        self._ended = False

    @property
    def size(self) -> int:
        """Bytes of a message that is not whole yet."""
        return len(self._buffer)

    def feed(self, part: bytes) -> Iterator[Frame]:
        """Yield the messages that end in this part; raises MalformedArrow, BodyTooLarge."""
        self._buffer += part
        while len(self._buffer) >= self._need:
            if self._ended:
                if self._buffer:
                    raise malformed("nothing after the end of the stream")
                return
            frame = self._next()
            if frame is not None:
                self._need = 4
                yield frame

    def _next(self) -> Frame | None:
        """Return the message at the beginning of the buffer; None: `_need` says how much more it takes."""
        buffer = self._buffer
        start = 8 if buffer[:4] == b"\xff\xff\xff\xff" else 4  # older writers have no mark before the size
        if len(buffer) < start:
            self._need = start
            return None
        size = struct.unpack_from("<i", buffer, start - 4)[0]
        if size == 0:
            self._ended, self._need = True, 0
            del buffer[:start]
            return None
        if size < 0 or (start == 4 and size > self._most):
            raise malformed("a message whose head has a size")
        self._check(size)
        if len(buffer) < start + size:
            self._need = start + size
            return None
        try:
            metadata = bytes(memoryview(buffer)[start : start + size])
            message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
            kind, length = message.number("<B", 1), message.number("<q", 3)
            head = message.table(2)
            if length < 0 or head is None or kind not in (SCHEMA, DICTIONARY, BATCH):
                raise malformed("a schema, dictionaries and record batches")
            self._check(size + length)
            whole = start + size + length
            if len(buffer) < whole:
                self._need = whole
                return None
            data = bytes(memoryview(buffer)[:whole])
            del buffer[:whole]
            if kind == DICTIONARY:
                number, delta = head.number("<q", 0), bool(head.number("<B", 2))
                return Frame(kind, data, head.table(1), start + size, number, delta)
            return Frame(kind, data, head if kind == BATCH else None, start + size)
        except struct.error:
            raise malformed("messages whose heads can be read") from None

    def _check(self, size: int) -> None:
        if size > self._most:
            raise too_large(f"messages of at most {self._most} bytes")

    def end(self) -> None:
        """Raise MalformedArrow if the stream was cut."""
        if self._buffer:
            raise malformed("a whole stream, it is cut in a message")


def inflated(frame: Frame) -> int:
    """Return how many bytes the body of a message declares to be when it is not compressed."""
    head = frame.head
    if head is None or head.table(3) is None:
        return len(frame.data)
    size = 0
    for offset, length in head.pairs(2).tolist():
        if length >= 8:
            declared = head_of(frame.data, frame.body + offset)
            size += length - 8 if declared == -1 else declared
            if declared < -1:
                raise malformed("buffers whose sizes can be read")
    return size


def head_of(data: bytes, at: int) -> int:
    """Return the int64 at a place, or raise struct.error."""
    if at < 0:
        raise struct.error("outside")
    return int(struct.unpack_from("<q", data, at)[0])


def malformed(expected: str) -> MalformedArrow:
    """Return the error for bytes that are no Arrow stream."""
    return MalformedArrow("body", f"an Arrow IPC stream: {expected}", pointer="")


def too_large(expected: str) -> BodyTooLarge:
    """Return the error for a message over its limit."""
    return BodyTooLarge("body", f"{expected}: write smaller record batches")
