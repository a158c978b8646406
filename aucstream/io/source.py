"""Where bytes come from: a path or standard input, decompressed on the way, never whole in memory."""

from __future__ import annotations

import bz2
import codecs
import io
import lzma
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import IO, Any, Protocol, cast

import numpy as np
import zstandard

from aucstream.errors import BadRow, InvalidParams

STDIN = "-"
READ_BYTES = 1 << 18  # pieces stay in the cache of a core
COUNTED_BYTES = 1 << 16
MAX_LINE_BYTES = 64 << 20  # a line has to fit in memory; 54,877 features in one row are 1 MB
HEAD_BYTES = 1 << 16

KINDS: dict[str, tuple[str, ...]] = {
    "svmlight": (".svm", ".libsvm", ".svmlight", ".txt"),
    "csv": (".csv", ".tsv"),
    "ndjson": (".ndjson", ".jsonl"),
    "parquet": (".parquet",),
    "arrow": (".arrow", ".feather", ".ipc"),
}
COMPRESSIONS: dict[str, str] = {".gz": "gzip", ".bz2": "bzip2", ".xz": "xz", ".zst": "zstandard"}
_MAGIC = (
    (re.compile(rb"\x1f\x8b"), "gzip"),
    (re.compile(rb"BZh[1-9](?:1AY&SY|\x17rE8P\x90)"), "bzip2"),
    (re.compile(rb"\xfd7zXZ\x00"), "xz"),
    (re.compile(rb"\x28\xb5\x2f\xfd"), "zstandard"),
)
_SVMLIGHT_LINE = re.compile(rb"[+-]?[0-9.eE+-]+(?:[ \t]+(?:qid|[0-9]+):\S+)*[ \t]*(?:#.*)?\r?\n?")

PathLike = str | os.PathLike[str]


class _Decompressor(Protocol):
    """What zlib, bz2 and zstandard objects share."""

    @property
    def unused_data(self) -> bytes: ...
    @property
    def eof(self) -> bool: ...
    def decompress(self, data: bytes, /) -> bytes: ...


# New decompressor, and how many compressed bytes to hand it at once: one call may inflate them
# some thousand times (gzip) or more (bzip2, xz, zstandard), and the result has to fit in memory.
_DECOMPRESSORS: dict[str, tuple[Callable[[], _Decompressor], int]] = {
    "gzip": (lambda: cast("_Decompressor", zlib.decompressobj(wbits=31)), 1 << 14),
    "bzip2": (lambda: cast("_Decompressor", bz2.BZ2Decompressor()), 1 << 10),
    "xz": (lambda: cast("_Decompressor", lzma.LZMADecompressor(lzma.FORMAT_XZ)), 1 << 10),
    "zstandard": (lambda: cast("_Decompressor", zstandard.ZstdDecompressor().decompressobj()), 1 << 10),
}
_DAMAGE = (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError, zstandard.ZstdError)
_PADDED = ("gzip", "xz")  # zero bytes may stand between and behind the parts
# Text in 16 or 32 bits a character, by its byte order mark; without one by the zeros beside ASCII.
_WIDE = (
    (re.compile(rb"\xff\xfe\x00\x00|\x00\x00\xfe\xff"), "utf-32"),
    (re.compile(rb"\xff\xfe|\xfe\xff"), "utf-16"),
    (re.compile(rb"[^\x00]\x00[^\x00]\x00"), "utf-16-le"),
    (re.compile(rb"\x00[^\x00]\x00[^\x00]"), "utf-16-be"),
)


class Source(io.RawIOBase):
    """A readable stream of decompressed bytes that knows its name and how far it is. Text in UTF-16 or UTF-32 is UTF-8.

    Parameters
    ----------
    raw : binary file-like
        Compressed or plain bytes.
    name : str
        Used in error messages.
    bytes_total : int or None
        Size of the (compressed) file; None where it is unknown.
    compression : str, optional
        "gzip", "bzip2", "xz" or "zstandard"; by default told from the first bytes.

    Attributes
    ----------
    name : str
    compression : str or None
    bytes_read : int
        (Compressed) bytes taken so far.
    bytes_total : int or None

    Raises
    ------
    BadRow
        While reading: the compressed data is cut or damaged.
    """

    def __init__(
        self,
        raw: IO[bytes],
        name: str,
        *,
        bytes_total: int | None = None,
        compression: str | None = None,
        close_raw: bool = True,
    ) -> None:
        super().__init__()
        self.name = name
        self.bytes_read = 0
        self.bytes_total = bytes_total
        self._raw = raw
        self._close_raw = close_raw
        self._lines = 0
        self._ready = memoryview(b"")
        self._packed = b""
        self._wide = b""
        self._at = 0
        if compression is None:
            while len(self._packed) < 10 and (more := self._take(HEAD_BYTES)):
                self._packed += more
            compression = next((kind for magic, kind in _MAGIC if magic.match(self._packed)), None)
        self.compression = compression
        self._decoder: codecs.IncrementalDecoder | None = None
        self._began = False
        self._step = READ_BYTES
        self._inflater: _Decompressor | None = None
        self._members = 0
        if compression is not None:
            self._new, self._step = _DECOMPRESSORS[compression]

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill `buffer` with what is at hand; 0 at the end."""
        if not self._ready:
            self._ready = memoryview(self._more(len(buffer)))
        n = min(len(buffer), len(self._ready))
        buffer[:n] = self._ready[:n]
        self._ready = self._ready[n:]
        return n

    def piece(self) -> bytes:
        """Return the next bytes, as many as are at hand; empty at the end."""
        if not self._ready:
            return self._more(READ_BYTES)
        data, self._ready = bytes(self._ready), memoryview(b"")
        return data

    def head(self) -> bytes:
        """Return the first line (at most 64 KiB) without consuming it."""
        first = bytes(self._ready)
        while b"\n" not in first and len(first) < HEAD_BYTES and (more := self._more(HEAD_BYTES)):
            first += more
        self._ready = memoryview(first)
        end = first.find(b"\n") if b"\n" in first else first.find(b"\r")
        return first[: end + 1 or HEAD_BYTES]

    def seekable_raw(self) -> IO[bytes] | None:
        """Return the plain file, set back to its start; None where it is compressed or a pipe."""
        if self.compression is not None or not self._raw.seekable():
            return None
        self._raw.seek(0)
        return self._raw

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if not self.closed and self._close_raw:
            self._raw.close()
        super().close()

    def _take(self, n: int) -> bytes:
        try:
            data = self._raw.read1(n) if hasattr(self._raw, "read1") else self._raw.read(n)
        except OSError as error:
            raise InvalidParams(self.name, f"a file that can be read ({error.strerror or error})") from error
        self.bytes_read += len(data)
        return cast("bytes", data)

    def _more(self, n: int) -> bytes:
        if not self._began:
            return self._begin(n)
        if self._decoder is None:
            return self._inflated(n)
        while True:
            data = self._inflated(n)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeDecodeError as error:
                raise self._damaged(f"{error.encoding} text", error.reason) from error
            if text or not data:
                return text.encode("utf-8", "surrogatepass")

    def _begin(self, n: int) -> bytes:
        """Return the first bytes: they tell how text is encoded."""
        self._began = True
        first = b""
        while len(first) < 4 and (more := self._inflated(n)):
            first += more
        encoding = next((name for mark, name in _WIDE if mark.match(first)), None)
        if encoding is None:
            return first
        self._decoder = codecs.getincrementaldecoder(encoding)()
        self._wide = first
        return self._more(n)

    def _inflated(self, n: int) -> bytes:
        if self._wide:
            data, self._wide = self._wide, b""
            return data
        if self.compression is None:
            data, self._packed = self._packed, b""
            return data or self._take(n)
        while True:
            if self._at == len(self._packed):
                self._packed, self._at = self._take(READ_BYTES), 0
            step = self._packed[self._at : self._at + self._step]
            if not step:
                if self._inflater is not None:
                    raise self._damaged(f"{self.compression} data", "it ends too early")
                return b""
            self._at += len(step)
            if self._inflater is None:
                if self._members and self.compression in _PADDED:
                    step = step.lstrip(b"\0")
                    if not step:
                        continue
                self._inflater = self._new()
            try:
                data = self._inflater.decompress(step)
            except _DAMAGE as error:
                raise self._damaged(f"{self.compression} data", str(error)) from error
            if self._inflater.eof:  # compressed files may be laid end to end
                self._at -= len(self._inflater.unused_data)
                self._inflater = None
                self._members += 1
            if data:
                self._lines += line_feeds(data)
                return data

    def _damaged(self, what: str, reason: str) -> BadRow:
        return BadRow(self.name, self._lines + 1, "", f"whole {what}; it is cut or damaged from here ({reason})")


def open_source(path: PathLike) -> Source:
    """Open a file, or standard input for `-`, and decompress it while it is read.

    `.gz`, `.bz2`, `.xz` and `.zst` are told by name; whatever has another name, and standard
    input, by its first bytes.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Source
        A binary stream, to be closed.

    Raises
    ------
    InvalidParams
        The file is not there or cannot be read.
    """
    name = os.fspath(path)
    if name == STDIN:
        return Source(sys.stdin.buffer, "standard input", close_raw=False)
    try:
        raw = open(name, "rb", buffering=0)  # noqa: SIM115  (Source closes it)
        size = os.fstat(raw.fileno()).st_size
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidParams("data", f"a file that can be read ({reason})", name) from error
    compression = COMPRESSIONS.get(PurePath(name).suffix.lower())
    return Source(cast("IO[bytes]", raw), name, bytes_total=size or None, compression=compression)


def as_source(source: Source | PathLike | IO[bytes]) -> Source:
    """Return a Source: as it is, opened from a path, or around a binary file-like object."""
    if isinstance(source, Source):
        return source
    if isinstance(source, (str, os.PathLike)):
        return open_source(source)
    return Source(source, str(getattr(source, "name", "") or "data"), close_raw=False)


def kind_of(path: PathLike, format: str | None = None) -> str:
    """Return the format of a file.

    Parameters
    ----------
    path : str or path
        Its extension decides; `.gz`, `.bz2`, `.xz` and `.zst` are taken off first.
    format : str, optional
        Wins over the extension.

    Returns
    -------
    str
        "svmlight", "csv", "ndjson", "parquet" or "arrow".

    Raises
    ------
    InvalidParams
        Naming the formats and extensions that are known.
    """
    if format is not None:
        if format not in KINDS:
            raise InvalidParams("format", f"one of {', '.join(KINDS)}", format)
        return format
    name = os.fspath(path)
    stem = PurePath(name.lower())
    if stem.suffix in COMPRESSIONS:
        stem = stem.with_suffix("")
    for kind, suffixes in KINDS.items():
        if stem.suffix in suffixes:
            return kind
    known = "; ".join(f"{kind} {' '.join(suffixes)}" for kind, suffixes in KINDS.items())
    raise InvalidParams(
        "data",
        f"a format ({', '.join(KINDS)}) or a file named as {known}; each may end in {' '.join(COMPRESSIONS)}",
        name,
    )


def is_nameless(path: PathLike) -> bool:
    """Return whether the first bytes say what a file is, not its name: `-`, `.txt`, or an extension that says nothing."""
    name = os.fspath(path)
    stem = PurePath(name.lower())
    if stem.suffix in COMPRESSIONS:
        stem = stem.with_suffix("")
    suffixes = {suffix for known in KINDS.values() for suffix in known} - {".txt"}
    return name == STDIN or stem.suffix not in suffixes


def sniff(source: Source) -> str:
    """Return the format that the first bytes show, without consuming them.

    Raises
    ------
    InvalidParams
        When they show none.
    """
    head = source.head()
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith((b"ARROW1", b"\xff\xff\xff\xff")):
        return "arrow"
    line = head.removeprefix(b"\xef\xbb\xbf")
    if line.lstrip().startswith(b"{"):
        return "ndjson"
    if line.startswith(b"#") or _SVMLIGHT_LINE.fullmatch(line):
        return "svmlight"
    if any(mark in line for mark in (b",", b";", b"\t", b"|")):
        return "csv"
    raise InvalidParams(source.name, f"a format ({', '.join(KINDS)}), or data that shows it at once", line)


def line_feeds(piece: bytes) -> int:
    """Return how many there are; numpy counts them, in parts that stay in the cache, 20 times as fast as `bytes`."""
    data = np.frombuffer(piece, dtype=np.uint8)
    parts = (data[at : at + COUNTED_BYTES] for at in range(0, data.size, COUNTED_BYTES))
    return sum(int(np.count_nonzero(part == 10)) for part in parts)


def whole_lines(source: Source) -> Iterator[bytes]:
    """Yield the text in pieces of whole lines, about 1 MiB each; the last line gets its line feed.

    Where the first piece has carriage returns alone, these end the lines.
    """
    parts: list[bytes] = []
    size = 0
    lines = 0
    first = True
    returns: bool | None = None
    while data := source.piece():
        if returns is None:
            returns = b"\n" not in data and b"\r" in data[:-1]
        if returns:
            data = data.replace(b"\r", b"\n")
        cut = data.rfind(b"\n") + 1
        if cut:
            piece = b"".join([*parts, memoryview(data)[:cut]])
            parts, size = [data[cut:]], len(data) - cut
            if first:
                first, piece = False, piece.removeprefix(b"\xef\xbb\xbf")
            yield piece
            lines += line_feeds(piece)
        else:
            parts.append(data)
            size += len(data)
            if size > MAX_LINE_BYTES:
                raise BadRow(source.name, lines + 1, "", f"a line of at most {MAX_LINE_BYTES:,} bytes")
    rest = b"".join(parts)
    if first:
        rest = rest.removeprefix(b"\xef\xbb\xbf")
    if rest:
        yield rest + b"\n"
