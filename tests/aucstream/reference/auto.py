"""Plain transcription of the mixture of `Auto`: one row at a time, lists of members, no compiled code.

Rules 1 to 5 and the judging at checkpoints; members are given as rows of their scores.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


def sigmoid(z: float) -> float:
    return 1.0 / (1.0 + math.exp(-z)) if z > -700.0 else 0.0


def logit(p: float) -> float:
    p = min(max(p, 1e-9), 1.0 - 1e-9)
    return math.log(p / (1.0 - p))


@dataclass
class Calibration:
    """Log odds of a score: a * clip(s / rms) + b + log(positives / negatives)."""

    a: float = 1.0
    b: float = 0.0
    h: np.ndarray = field(default_factory=lambda: np.eye(2) * 5.0)
    square: float = 0.0
    rows: int = 0
    positives: float = 1.0
    negatives: float = 1.0
    served: bool = False  # of scores that have the base rate already, for a class of any rarity

    def z(self, s: float) -> float:
        return float(np.clip(s / math.sqrt(self.square) if self.square > 0.0 else s, -8.0, 8.0))

    @property
    def base(self) -> float:
        return math.log(self.positives / self.negatives)

    def line(self, s: float) -> float:
        return self.a * self.z(s) + self.b + (0.0 if self.served else self.base)

    def observe(self, s: float, y: float, weight: float) -> None:
        z, p, label = self.z(s), sigmoid(self.line(s)), float(y > 0.0)
        self.rows += 1
        forget = max(1e-4, 2.0 / (self.rows + 20.0))
        rarer = min(self.positives, self.negatives)
        least = min(0.02, rarer / (self.positives + self.negatives)) if self.served else 0.02
        one_class = self.served and rarer == 1.0
        square = min(s * s, 100.0 * self.square) if self.square > 0.0 else s * s
        if not self.served:
            self.square += (max(forget, 1.0 / self.rows) if self.square > 0.0 else 1.0) * (square - self.square)
        row = np.array([z, 1.0])
        forget = max(1e-4 * least / 0.02, 2.0 / (self.rows + 20.0))
        self.h = (1.0 - forget) * self.h + weight * max(p * (1.0 - p), least) * np.outer(row, row)
        ridge = 1e-3 * self.h[1, 1] * np.eye(2)
        step = np.linalg.solve(self.h + ridge, row * weight * (p - label))
        size = abs(float(step @ row))
        step /= max(1.0, size)
        if one_class:
            step[:] = 0.0
        self.a = min(1e3, max(1e-3, self.a - step[0]))
        self.b -= step[1]
        before = self.base
        if label:
            self.positives += weight
        else:
            self.negatives += weight
        if self.rows > 200 and not self.served:
            self.b -= self.base - before

    def shift(self, by: float) -> None:
        """All scores became lower by so much."""
        d = by / math.sqrt(self.square)
        self.b += self.a * d
        move = np.array([[1.0, -d], [0.0, 1.0]])
        self.h = move @ self.h @ move.T


@dataclass
class Auto:
    """All members active; `checkpoint` is called with the members' scores of a reservoir."""

    m: int
    share: float = 1e-3

    def __post_init__(self) -> None:
        m = self.m
        self.lines = [Calibration() for _ in range(m)]
        self.last = Calibration(square=1.0, served=True)
        self.theta = np.append(np.full(m, 1.0 / m), 0.0)
        self.covariance = np.eye(m + 1) * 0.03
        self.stacked = 0.5  # weight of the stack in the local mixture
        self.local, self.overall = np.full(m, 1.0 / m), np.full(m, 1.0 / m)
        self.pending = self.overall.copy()
        self.slope, self.curvature, self.middle = np.ones(m), np.full(m, 5.0), np.zeros(m)
        self.gradient, self.hessian, self.scale = np.zeros(m), np.zeros(m), np.ones(m)
        self.reference: list[np.ndarray] = [np.zeros((m, 0)), np.zeros((m, 0))]
        self.judged_by_class = [0, 0]
        self.judged = self.to_judge = 0
        self.segment = 20
        self.recent: list[list[tuple[float, float]]] = [[], []]
        self.placement = [[0.5, 0.5], [0.5, 0.5]]
        self.placed = [0, 0]
        self.rows = 0
        self.start = 0.0  # log odds of the base rate of the first rows

    def checkpoint(self, reservoir: tuple[np.ndarray, np.ndarray], segment: int) -> None:
        """End a segment; `reservoir` has the members' scores (m, kept) of negatives and of positives."""
        if self.judged:
            self.overall = self.pending.copy()
            first = self.rows - self.segment
            forget = max(self.judged / 1e4, 2.0 * self.judged / (first + self.judged + 20.0))
            self.curvature = (1.0 - min(0.5, forget)) * self.curvature + self.hessian
            self.slope = np.clip(self.slope + self.gradient / self.curvature, 1e-3, 1e3)
        self.pending = self.overall.copy()
        self.gradient, self.hessian = np.zeros(self.m), np.zeros(self.m)
        self.judged, self.segment = 0, segment
        both = all(part.shape[1] for part in reservoir)
        self.to_judge = min(128, segment) if both else 0
        if both:
            self.scale = np.array([1.0 / math.sqrt(c.square) if c.square > 0.0 else 1.0 for c in self.lines])
            self.reference = [np.clip(part * self.scale[:, None], -8.0, 8.0) for part in reservoir]
            self.middle = (self.reference[0].mean(1) + self.reference[1].mean(1)) / 2.0

    def _spread(self, weights: np.ndarray) -> np.ndarray:
        return (1.0 - self.share) * weights / weights.sum() + self.share / self.m

    def _parts(self, s: np.ndarray) -> tuple[float, float, float]:
        members, stack, _ = self._local_parts(s)
        p = (1.0 - self.stacked) * members + self.stacked * sigmoid(stack)
        q = 0.0
        for j in range(self.m):
            z = self.lines[j].z(s[j]) if self.lines[j].square > 0.0 else 0.0
            q += self.overall[j] * sigmoid(self.slope[j] * (z - self.middle[j]) + self.last.base)
        lead = 0.5 * sum(local - mean for local, mean in self.placement)
        weight = max(0.5, 1.0 - min(self.placed) / 100.0)
        if min(self.placed) >= 20:
            weight *= min(1.0, max(0.0, (0.005 - lead) / 0.004))
        return logit(p), logit(q), weight

    def _local_parts(self, s: np.ndarray) -> tuple[float, float, np.ndarray]:
        """Probability of the weighted members, log odds of the stack, and its features."""
        lines = np.array([c.line(v) for c, v in zip(self.lines, s, strict=True)])
        features = np.append(np.clip(lines - self.last.base, -4.0, 4.0), 1.0)
        p = sum(w * sigmoid(line) for w, line in zip(self.local, lines, strict=True))
        return p, self.last.base + float(self.theta @ features), features

    def _learn_stack(self, s: np.ndarray, own: int) -> None:
        """Weigh the stack against the members, then one extended Kalman step of logistic regression."""
        p, stack, f = self._local_parts(s)
        q = sigmoid(stack)
        mine = self.stacked * ((q if own else 1.0 - q) + 1e-12)
        theirs = (1.0 - self.stacked) * ((p if own else 1.0 - p) + 1e-12)
        self.stacked = (1.0 - self.share) * mine / (mine + theirs) + self.share / 2.0
        pi = sigmoid(self.last.base)
        keep = 1.0 - 0.01 * 4.0 * pi * (1.0 - pi)
        if np.trace(self.covariance) < 0.03 * len(f) * keep:
            self.covariance /= keep
        h = max(q * (1.0 - q), 1e-4)
        along = self.covariance @ f
        along_f = float(f @ along)
        self.theta += along * (own - q) / (1.0 + h * along_f)
        self.covariance -= h / (1.0 + h * along_f) * np.outer(along, along)

    def serve(self, s: np.ndarray) -> float:
        if not self.rows:
            return 0.0
        local, overall, share = self._parts(s)
        return (1.0 - share) * local + share * overall - self.start

    def learn(self, s: np.ndarray, standing: np.ndarray, y: float) -> float:
        """Serve one row of weight 1, then judge; `standing`: the scores of the members of the last checkpoint."""
        served = self.serve(s)
        local, overall, _ = self._parts(s)
        own = int(y > 0.0)
        if self.judged < self.to_judge:
            self._judge(standing, own)
        self._place(own, local - self.start, 0.5 * (local + overall) - self.start)
        self._learn_stack(s, own)
        likelihood = np.array([sigmoid((1 if own else -1) * c.line(v)) for c, v in zip(self.lines, s, strict=True)])
        self.local = self._spread(self.local * (likelihood + 1e-12))
        for line, v in zip(self.lines, s, strict=True):
            line.observe(v, y, 1.0)
        self.last.observe(served, y, 1.0)
        if min(self.last.positives, self.last.negatives) < 101.0:
            self.last.shift(self.last.base - self.start)
            self.start = self.last.base
        self.rows += 1
        return served

    def _judge(self, standing: np.ndarray, own: int) -> None:
        self.judged += 1
        self.judged_by_class[own] += 1
        balance = min(1.0, self.judged_by_class[1 - own] / self.judged_by_class[own])
        factor = balance * min(4.0, self.segment / self.to_judge)
        z = np.clip(standing * self.scale, -8.0, 8.0)
        v = (z[:, None] - self.reference[1 - own]) * (1.0 if own else -1.0)
        q = 1.0 / (1.0 + np.exp(np.clip(self.slope[:, None] * v, -30.0, 30.0)))
        loss = -np.log(1.0 - q + 1e-13).mean(1)
        self.gradient += balance * (q * v).mean(1)
        self.hessian += balance * (np.maximum(q * (1.0 - q), 0.02) * v * v).mean(1)
        self.pending = self._spread(self.pending * (np.exp(-factor * (loss - loss.min())) + 1e-12))

    def _place(self, own: int, local: float, mean: float) -> None:
        others = self.recent[1 - own]
        if others:
            rate = max(1.0 / 500.0, 2.0 / (self.placed[own] + 2.0))
            for k, value in enumerate((local, mean)):
                below = np.mean([1.0 if value > o[k] else 0.5 if value == o[k] else 0.0 for o in others])
                self.placement[own][k] += rate * ((below if own else 1.0 - below) - self.placement[own][k])
        self.recent[own] = [*self.recent[own], (local, mean)][-200:]
        self.placed[own] += 1
