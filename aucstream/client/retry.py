"""When and how often a client repeats a request."""

from __future__ import annotations

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Retry:
    """When a request that may be repeated is sent again.

    Parameters
    ----------
    deadline : float, default=120.0
        Seconds for all attempts of one request with the pauses between; 0: one attempt. Of a -many call each
        batch is a request.
    first : float, default=0.1
        Seconds before the second attempt; doubled with each further one, up to `longest`. The
        pause is a random part, half to all, of it, so that many clients do not return at once.
    longest : float, default=10.0

    Notes
    -----
    `Retry-After` is waited out in full before that; where the deadline does not leave the time, the call ends.
    """

    deadline: float = 120.0
    first: float = 0.1
    longest: float = 10.0

    def pause(self, attempt: int, retry_after: float | None = None) -> float:
        """Return how long to wait after an attempt.

        Parameters
        ----------
        attempt : int
            From 1.
        retry_after : float, optional
            Seconds that the service asked for.

        Returns
        -------
        float
            Seconds.
        """
        bound = min(self.longest, self.first * 2.0 ** min(attempt - 1, 60))
        return (retry_after or 0.0) + bound * (0.5 + 0.5 * random.random())
