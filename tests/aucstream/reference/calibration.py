"""Plain transcriptions of both rules that make a score a probability: one row at a time, no compiled code."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0


@dataclass
class Calibration:
    """The rule of a new model: sigmoid(a clip(s / rms) + b); `seen` counts rows, whatever their weight."""

    positives: float = 0.0  # weights
    negatives: float = 0.0
    seen: int = 0
    rows: int = 0  # since both classes were seen
    a: float = 0.1
    b: float = 0.0
    h: np.ndarray = field(default_factory=lambda: np.zeros((2, 2)))
    square: float = 0.0  # mean square of the scores; the scale has 1 / rows^4 on top

    def base(self, positives: float, negatives: float, seen: int) -> float:
        """Return the log odds of the base rate with one more row of each class, of mean weight."""
        unit = (self.positives + self.negatives) / seen
        return math.log((positives + unit) / (negatives + unit))

    def z(self, s: float) -> float:
        start = 1.0 / (self.rows + 1.0) ** 4 if self.rows < 1000 else 0.0
        return float(np.clip(s / math.sqrt(self.square + start), -8.0, 8.0))

    def probability(self, s: float) -> float:
        if self.rows:
            return sigmoid(self.a * self.z(s) + self.b)
        if not self.positives + self.negatives:
            return 0.5
        return sigmoid(self.base(self.positives, self.negatives, self.seen))

    def observe(self, s: float, y: float, weight: float) -> None:
        before = self.positives, self.negatives
        self.positives += weight * (y > 0.0)
        self.negatives += weight * (y <= 0.0)
        self.seen += 1
        mass, rarer = self.positives + self.negatives, min(self.positives, self.negatives)
        if rarer == 0.0:
            return
        old, new = self.base(*before, self.seen), self.base(self.positives, self.negatives, self.seen)
        if not self.rows:
            self.b = old
            self.h = 10.0 * mass / self.seen * np.eye(2)
        self.rows += 1
        self.scale(abs(s))
        z = self.z(s)
        p = sigmoid(self.a * z + self.b)
        least = min(0.02, rarer / mass)
        forget = max(1e-4 * least / 0.02, 2.0 / (self.rows + 20.0))
        row = np.array([z, 1.0])
        self.h = (1.0 - forget) * self.h + weight * max(p * (1.0 - p), least) * np.outer(row, row)
        step = np.linalg.solve(self.h + 1e-3 * self.h[1, 1] * np.eye(2), row * weight * (p - float(y > 0.0)))
        step /= max(1.0, abs(float(step @ row)))
        self.a = min(1e3, max(1e-3, self.a - step[0]))
        self.b -= step[1]
        if rarer <= 20.0 * mass / self.seen:
            self.b += new - old
        self.b = min(50.0, max(-50.0, self.b))

    def scale(self, size: float) -> None:
        """Take a score into the mean square; from row 21 on as no more than 10 times the scale."""
        rate = max(1e-4, 2.0 / (self.rows + 20.0))
        if self.rows <= 20:
            rate = max(rate, 1.0 / self.rows)
        else:
            start = 1.0 / self.rows**4 if self.rows <= 1000 else 0.0
            size = min(size, 10.0 * math.sqrt(self.square + start))
        self.square += rate * (size * size - self.square)


@dataclass
class FirstCalibration:
    """The rule of the first version: nothing until both classes were seen, then slope 1 and the odds of the counts."""

    positives: float = 0.0
    negatives: float = 0.0
    rows: int = 0
    a: float = 1.0
    b: float = 0.0
    h: np.ndarray = field(default_factory=lambda: np.diag([0.0, 1.0]))
    square: float = 0.0

    def z(self, s: float) -> float:
        return s / math.sqrt(self.square + 1.0 / (self.rows + 1.0) ** 4)

    def probability(self, s: float) -> float:
        return sigmoid(self.a * self.z(s) + self.b) if self.rows else 0.5

    def observe(self, s: float, y: float, weight: float) -> None:
        self.positives += weight * (y > 0.0)
        self.negatives += weight * (y <= 0.0)
        if not min(self.positives, self.negatives):
            return
        if not self.rows:
            self.b = math.log(self.positives / self.negatives)
        self.rows += 1
        forget = max(1e-4, 2.0 / (self.rows + 20.0))
        size = min(abs(s), 10.0 * math.sqrt(self.square + 1.0 / self.rows**4))
        self.square += forget * (size * size - self.square)
        z = float(np.clip(self.z(s), -8.0, 8.0))
        p = sigmoid(self.a * z + self.b)
        row = np.array([z, 1.0])
        self.h = (1.0 - forget) * self.h + weight * max(p * (1.0 - p), 0.02) * np.outer(row, row)
        step = np.linalg.solve(self.h + 1e-3 * self.h[1, 1] * np.eye(2), row * weight * (p - float(y > 0.0)))
        step /= max(1.0, abs(float(step @ row)))
        self.a = min(1e3, max(1e-3, self.a - step[0]))
        self.b = min(50.0, max(-50.0, self.b - step[1]))
