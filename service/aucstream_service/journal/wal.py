"""Commits of the write-ahead log that lie behind a damaged place, which SQLite does not report.

SQLite reads the log up to the first frame whose checksum is wrong and forgets the rest, because a
loss of power leaves such a tail: the frames of one transaction whose flush had not returned. When
each commit is flushed before the next begins, at most one commit can lie there. Two or more mean
that commits which were flushed, and acknowledged, have become unreadable.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

_HEADER = struct.Struct(">8I")  # magic, version, page size, checkpoint, salt, salt, checksum, checksum
_FRAME = struct.Struct(">4I")  # page, pages after a commit (0: no commit), salt, salt
_FRAME_HEADER = 24
_MAGIC = (0x377F0682, 0x377F0683)  # checksums of little-endian and of big-endian words


class Log(NamedTuple):
    """A log's frames: (is a commit, salts) of each; `salts` None: the header is damaged."""

    salts: tuple[int, int] | None
    frames: list[tuple[bool, tuple[int, int]]]


def read(data: bytes) -> Log | None:
    """Return the frames of a log; None: the file holds no log."""
    if len(data) <= _HEADER.size or not any(data[: _HEADER.size]):
        return None  # frames without a header: nothing of it was ever flushed
    magic, _, page, _, *salts, first, second = _HEADER.unpack_from(data)
    sound = magic in _MAGIC and _checksum(data[: _HEADER.size - 8], magic) == (first, second)
    if not sound:
        return Log(None, [])
    frames = []
    for at in range(_HEADER.size, len(data) - _FRAME_HEADER - page + 1, _FRAME_HEADER + page):
        _, commit, first, second = _FRAME.unpack_from(data, at)
        frames.append((commit != 0, (first, second)))
    return Log((salts[0], salts[1]), frames)


def lost(log: Log, read_frames: int) -> int:
    """Return how many acknowledged commits at least lie behind the frames that SQLite reads."""
    if log.salts is None:
        return 1
    behind = sum(commit and salts == log.salts for commit, salts in log.frames[read_frames:])
    return max(0, behind - 1)


def size_of(data: bytes, frames: int) -> int:
    """Return how many bytes of a log its first frames take; 0 for none."""
    if frames == 0 or len(data) <= _HEADER.size:
        return 0
    page = _HEADER.unpack_from(data)[2]
    return _HEADER.size + frames * int(_FRAME_HEADER + page)


def _checksum(data: bytes, magic: int) -> tuple[int, int]:
    words = struct.unpack(f"{'<' if magic == _MAGIC[0] else '>'}{len(data) // 4}I", data)
    first = second = 0
    for at in range(0, len(words), 2):
        first = (first + words[at] + second) & 0xFFFFFFFF
        second = (second + words[at + 1] + first) & 0xFFFFFFFF
    return first, second
