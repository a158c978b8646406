"""The random generator of all learners: splitmix64 and Lemire's bounded draw.

Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014 (splitmix64);
Lemire, "Fast random integer generation in an interval", ACM TOMACS 2019 (bounded draw).
The state is one unsigned 64-bit word, which makes it cheap to keep in a snapshot.
"""

from __future__ import annotations

import math

MASK64 = 0xFFFFFFFFFFFFFFFF
MASK32 = 0xFFFFFFFF
GOLDEN = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """Return the output function of splitmix64, a bijection of 64-bit words."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK64
    return z ^ (z >> 31)


class Generator:
    """A stream of 64-bit words; `state` is all there is to it. Seed s starts at state mix(s)."""

    def __init__(self, seed: int = 0) -> None:
        self.state = mix(seed & MASK64)

    def next(self) -> int:
        """Return the next 64-bit word."""
        self.state = (self.state + GOLDEN) & MASK64
        return mix(self.state)

    def below(self, k: int) -> int:
        """Return one draw of U{0..k-1}, exactly uniform, for 1 <= k < 2^31.

        The high half r of a word gives m = r k; its low half rejects with probability (2^32 mod k)/2^32.
        A draw of k = 1 consumes a word like any other.
        """
        if not 1 <= k < 1 << 31:
            raise ValueError(f"k must be in [1, 2^31), got {k}")
        threshold = ((1 << 32) - k) % k
        while True:
            m = (self.next() >> 32) * k
            if m & MASK32 >= threshold:
                return m >> 32

    def uniform(self) -> float:
        """Return one draw of U[0, 1) with 53 bits."""
        return (self.next() >> 11) * 2.0**-53

    def normal(self) -> float:
        """Return one draw of N(0, 1): Box-Muller, cosine branch only, two words a draw.

        The first word gives U(0, 1] for the radius, the second U[0, 1) for the angle.
        """
        radius = math.sqrt(-2.0 * math.log(((self.next() >> 11) + 1) * 2.0**-53))
        return radius * math.cos(2.0 * math.pi * self.uniform())
