"""Mini-batch gradient descent on the pairwise hinge and square losses.

[MBA] Gultekin, Saha, Ratnaparkhi, Paisley, *MBA: Mini-Batch AUC Optimization*, section IV (MB-PHL, MB-PSL).
"""

from __future__ import annotations

import math

import numpy as np

from .buffers import Buffer
from .randomness import Generator
from .row_scale import RowScale


class MiniBatchAUC:
    """w -= eta0/sqrt(t) (lam w + mean_b l'(w'z_b) z_b), one step a block of `batch` rows.

    l'(m) = -[m < 1] ("hinge") or m - 1 ("squared").

    Rows are collected (shortened at arrival) until the block holds `batch` of them. If both classes are in
    it, the pairs are all of the block's; else each row, in order, is paired with one draw
    b ~ U{slots of the opposite reservoir}; if that is empty there is no step. Then the rows are offered,
    in order, to the reservoir of their class (`batch` slots), and the block is empty again. A step does
    t += 1, then moves w, then wbar += (w - wbar)/t. A block not yet full waits.

    A pair of two rows of the block counts om_i om_j in the mean over pairs, that of a row and a buffered one
    om_i in the mean over rows. The block's mean weight, over that of all rows so far if it is above 2, and
    2 at most, multiplies the gradient. Scale: the gradient is divided by kappa_t^2, at the kappa_t of the
    block's last row. Output: wbar, or w without `average`. om = 0 changes nothing at all.
    """

    def __init__(
        self,
        loss: str = "hinge",
        eta0: float = 1.0,
        lam: float = 1e-4,
        batch: int = 100,
        average: bool = True,
        kappa: float | None = None,
        seed: int = 0,
    ) -> None:
        self.loss = loss
        self.eta0 = eta0
        self.lam = lam
        self.batch = batch
        self.average = average
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.pos = Buffer(batch, "reservoir", self.rng)
        self.neg = Buffer(batch, "reservoir", self.rng)
        self.rows: list[np.ndarray] = []
        self.labels: list[float] = []
        self.weights: list[float] = []
        self.w = self.wbar = np.zeros(0)
        self.t = 0
        self.n = 0
        self.mass = 0.0

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.wbar if self.average else self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x."""
        return float(self.output @ x) if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one row, and a step if it fills the block; return the output score of x before it."""
        if self.w.size == 0:
            self.w = self.wbar = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        _, factor = self.scale.see(x)
        self.pos.rescale(self.scale.restart)
        self.neg.rescale(self.scale.restart)
        if self.scale.restart != 1.0:
            self.rows = [row * self.scale.restart for row in self.rows]
        self.mass += weight
        self.n += 1
        self.rows.append(factor * x)
        self.labels.append(y)
        self.weights.append(weight)
        if len(self.rows) == self.batch:
            self._end_block()
        return score

    def _end_block(self) -> None:
        """Take the step of a full block, then offer its rows."""
        pairs = self._pairs()
        if pairs:
            unit = self.scale.unit
            self.t += 1
            gradient = np.zeros(self.w.size)
            for z, om in pairs:
                margin = float(self.w @ z)
                slope = -float(margin < 1.0) if self.loss == "hinge" else margin - 1.0
                gradient = gradient + om * slope * z
            gradient = gradient / unit / unit
            self.w = self.w - self.eta0 / math.sqrt(self.t) * (self.lam * self.w + gradient)
            self.wbar = self.wbar + (self.w - self.wbar) / self.t
        for x, y in zip(self.rows, self.labels, strict=True):
            (self.pos if y > 0 else self.neg).offer(x)
        self.rows, self.labels, self.weights = [], [], []

    def _pairs(self) -> list[tuple[np.ndarray, float]]:
        """Return the pairs (z, factor of its gradient) of the block."""
        block = list(zip(self.rows, self.labels, self.weights, strict=True))
        positives = [(x, om) for x, y, om in block if y > 0]
        negatives = [(x, om) for x, y, om in block if y <= 0]
        mean = sum(self.weights) / len(block)
        overall = self.mass / self.n
        counted = min(mean if overall <= 2.0 else mean / overall, 2.0)
        if positives and negatives:
            total = sum(om_u * om_v for _, om_u in positives for _, om_v in negatives)
            return [(u - v, counted * om_u * om_v / total) for u, om_u in positives for v, om_v in negatives]
        sign, opposite = (1.0, self.neg) if positives else (-1.0, self.pos)
        if len(opposite) == 0:
            return []
        return [
            (sign * (x - opposite.rows[self.rng.below(len(opposite))]), counted * om / mean / len(block))
            for x, _, om in block
        ]
