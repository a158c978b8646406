"""How many names differ among those that were dropped, in bounded memory."""

from __future__ import annotations

import heapq

import numpy as np

MOST = 1024  # hashes that are kept, the smallest ones: 8 KB in a snapshot
_RANGE = 2.0**64


class DistinctCount:
    """Number of different 64-bit hashes: exact up to `MOST`, within 10 % beyond (3 % in the root mean square).

    The `MOST` smallest hashes are kept. Of more, the largest of those says how densely all lie. What is counted does
    not depend on the order of the hashes, nor on how often each comes.
    """

    def __init__(self) -> None:
        self._kept: set[int] = set()
        self._heap: list[int] = []  # the same, negated: its first is the largest

    def add(self, hash_: int) -> None:
        """Take a hash, 0 to 2^64 - 1."""
        if hash_ in self._kept:
            return
        if len(self._heap) < MOST:
            heapq.heappush(self._heap, -hash_)
            self._kept.add(hash_)
        elif hash_ < -self._heap[0]:
            self._kept.add(hash_)
            self._kept.remove(-heapq.heapreplace(self._heap, -hash_))

    def __int__(self) -> int:
        if len(self._heap) < MOST:
            return len(self._heap)
        return round((MOST - 1) * _RANGE / (1.0 - self._heap[0]))

    @property
    def hashes(self) -> np.ndarray:
        """What is kept, ascending, as uint64: the state."""
        return np.array(sorted(self._kept), dtype=np.uint64)

    def update(self, hashes: np.ndarray) -> None:
        """Take what another count kept."""
        for hash_ in hashes.tolist():
            self.add(hash_)
