"""Lines of a body that comes in parts, each under a limit, with their numbers."""

from __future__ import annotations

from collections.abc import Iterator


class LineReader:
    """Cut parts into lines; at most one line and one part are held.

    A line over `limit` bytes comes as None in its place, and its rest is dropped as it comes.
    Blank lines are counted and left out.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._rest = b""
        self._number = 0
        self._dropping = False

    def feed(self, part: bytes) -> Iterator[tuple[int, bytes | None]]:
        """Yield (line number from 1, line) for each line that ends in this part."""
        pieces = part.split(b"\n")
        pieces[0] = self._rest + pieces[0]
        rest = pieces.pop()
        limit = self._limit
        number = self._number
        dropping = self._dropping
        for piece in pieces:
            number += 1
            if dropping or len(piece) > limit:
                dropping = False
                yield number, None
            elif piece and not piece.isspace():
                yield number, piece
        self._number = number
        self._dropping = dropping
        if self._dropping or len(rest) > self._limit:
            self._dropping = True
            rest = b""
        self._rest = rest

    def end(self) -> Iterator[tuple[int, bytes | None]]:
        """Yield the last line, which no newline ends."""
        if self._rest or self._dropping:
            yield from self.feed(b"\n")
