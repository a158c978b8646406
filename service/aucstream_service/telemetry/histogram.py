"""A histogram of seconds that costs a few hundred nanoseconds an observation.

prometheus_client's own takes a lock and walks the buckets at each observation; here one thread
observes and the collector reads, so that a bisection and an addition are enough.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

BOUNDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)


class Histogram:
    """Seconds observed, by the upper bounds `BOUNDS`; one thread observes."""

    __slots__ = ("counts", "last", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0
        self.last = 0.0

    def observe(self, seconds: float) -> None:
        """Take one duration."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds
        self.last = seconds

    def buckets(self) -> Iterator[tuple[str, float]]:
        """Yield (upper bound, observations up to it), the last bound being +Inf."""
        total = 0
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), tuple(self.counts), strict=True):
            total += count
            yield bound, total
