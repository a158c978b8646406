"""Per-class buffers of rows: which earlier rows an arrival is paired with.

[OAM] Zhao, Hoi, Jin, Yang, *Online AUC Maximization*, ICML 2011, Algorithm 2 (reservoir sampling).
"""

from __future__ import annotations

import math

import numpy as np

from .randomness import Generator


class Buffer:
    """At most `capacity` rows of one class; `seen` counts the offers, each row once whatever its weight.

    While there is room a row is appended and nothing is drawn. Once full,

    * "reservoir": j ~ U{0..seen-1}, `seen` counting this offer; slot j is overwritten if j < capacity, so
      each row seen is held with probability capacity/seen ([OAM] draws Bernoulli(capacity/seen), then a
      victim: the same law with two draws);
    * "fifo": slot (seen-1) mod capacity is overwritten, nothing is drawn;
    * "random": slot j ~ U{0..capacity-1} is overwritten.

    Slots are iterated in slot order, not in order of age.
    """

    def __init__(self, capacity: int, policy: str, rng: Generator) -> None:
        self.capacity = capacity
        self.policy = policy
        self.rng = rng
        self.rows: list[np.ndarray] = []
        self.seen = 0
        self.counted = 0.0  # offers, faded
        self.fades = False

    def __len__(self) -> int:
        return len(self.rows)

    def offer(self, x: np.ndarray) -> None:
        """Offer one row."""
        self.seen += 1
        self.counted += 1.0
        if len(self.rows) < self.capacity:
            self.rows.append(x.copy())
            return
        if self.policy == "reservoir":
            counted = max(self.capacity + 1, math.ceil(self.counted)) if self.fades else self.seen
            slot = self.rng.below(counted)
        elif self.policy == "fifo":
            slot = (self.seen - 1) % self.capacity
        elif self.policy == "random":
            slot = self.rng.below(self.capacity)
        else:
            raise ValueError(f"unknown policy {self.policy!r}")
        if slot < self.capacity:
            self.rows[slot] = x.copy()

    def fade(self, keep: float) -> None:
        """Let the offers so far count for `keep` times what they did; a reservoir then draws from what they count."""
        self.counted *= keep
        self.fades |= keep < 1.0

    def rescale(self, ratio: float) -> None:
        """Multiply all rows by a ratio (see `RowScale`: a restart of the scale)."""
        if ratio != 1.0:
            self.rows = [row * ratio for row in self.rows]
