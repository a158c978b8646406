"""How late the event loop is: what a request waits for while something else holds the loop.

A timer is due every ten milliseconds. How much later it comes is what any other event would have waited at that moment:
a callback that takes long, many short ones in a row, a thread that holds the GIL, and a processor that is busy
elsewhere. A callback of s seconds shows as s, less up to one period, because it may begin between two ticks; one that is
shorter than the period may go unseen.
"""

from __future__ import annotations

import asyncio

from aucstream_service.telemetry.histogram import Histogram

PERIOD = 0.01  # seconds


class LoopLag:
    """A timer on one loop, and how late it came.

    Attributes
    ----------
    histogram : Histogram
    longest : float
        Seconds, since the start or since it was set to 0.
    """

    def __init__(self) -> None:
        self.histogram = Histogram()
        self.longest = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin on the loop that is running."""
        loop = asyncio.get_running_loop()

        def tick(due: float) -> None:
            now = loop.time()
            late = max(0.0, now - due)
            self.histogram.observe(late)
            self.longest = max(self.longest, late)
            self._timer = loop.call_at(now + PERIOD, tick, now + PERIOD)

        first = loop.time() + PERIOD
        self._timer = loop.call_at(first, tick, first)

    def stop(self) -> None:
        """End."""
        if self._timer is not None:
            self._timer.cancel()
