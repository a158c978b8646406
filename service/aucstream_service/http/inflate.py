"""Compressed bodies, inflated piece by piece: no piece is larger than a bound, whatever the stream says."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import zstandard

from aucstream_service.errors.exceptions import BadEncoding, BodyTooLarge

ENCODINGS = (b"gzip", b"x-gzip", b"zstd")
PIECE = 1 << 16
ZSTD_STEP = 64  # bytes given at once: each may be a block of 128 KiB of one letter
ZSTD_WINDOW = 1 << 23  # what RFC 9659 asks of a decoder, and no more
MAX_RATIO = 250  # rows of JSON come to 5 or 30; gzip can do 1,030 and zstd far more
FREE = 1 << 20  # inflated bytes to which the ratio does not apply


class Inflater:
    """Inflate one body; several members or frames in a row are one body, as their formats say."""

    def __init__(self, encoding: bytes) -> None:
        self._name = "zstd" if encoding == b"zstd" else "gzip"
        self._decoder: _Gzip | _Zstd = _Zstd() if encoding == b"zstd" else _Gzip()
        self._bytes_in = 0
        self._bytes_out = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Yield the pieces that these bytes inflate to, or raise BadEncoding, BodyTooLarge."""
        self._bytes_in += len(data)
        try:
            for piece in self._decoder.pieces(data):
                self._bytes_out += len(piece)
                if self._bytes_out > FREE and self._bytes_out > MAX_RATIO * self._bytes_in:
                    raise BodyTooLarge("body", f"one that inflates to at most {MAX_RATIO} times its size")
                yield piece
        except (zlib.error, zstandard.ZstdError):
            raise BadEncoding("body", f"a {self._name} stream, as Content-Encoding says", pointer="") from None

    def end(self) -> None:
        """Raise BadEncoding if the body was cut short."""
        if not self._decoder.whole:
            raise BadEncoding("body", f"a whole {self._name} stream, its end is missing", pointer="")


class _Gzip:
    def __init__(self) -> None:
        self._member = zlib.decompressobj(31)
        self.whole = False

    def pieces(self, data: bytes) -> Iterator[bytes]:
        while data or not self.whole:
            if self.whole:
                self._member, self.whole = zlib.decompressobj(31), False
            piece = self._member.decompress(data, PIECE)
            self.whole = self._member.eof
            data = self._member.unused_data if self.whole else self._member.unconsumed_tail
            if piece:
                yield piece
            if not data and len(piece) < PIECE:
                return


class _Zstd:
    def __init__(self) -> None:
        self._frame = self._new()
        self.whole = False

    def _new(self) -> zstandard.ZstdDecompressionObj:
        return zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW).decompressobj()

    def pieces(self, data: bytes) -> Iterator[bytes]:
        at = size = 0
        parts: list[bytes] = []
        while at < len(data):
            if self.whole:
                self._frame, self.whole = self._new(), False
            step = data[at : at + ZSTD_STEP]
            at += len(step)
            part = self._frame.decompress(step)
            if self._frame.eof:
                self.whole = True
                at -= len(self._frame.unused_data)
            parts.append(part)
            size += len(part)
            if size >= PIECE:
                yield b"".join(parts)
                parts, size = [], 0
        if size:
            yield b"".join(parts)
