"""OAM: online AUC maximization with a buffer of each class.

[OAM] Zhao, Hoi, Jin, Yang, *Online AUC Maximization*, ICML 2011, Algorithms 1-4.
"""

from __future__ import annotations

import numpy as np

from .buffers import Buffer
from .example_weights import ClassWeights
from .randomness import Generator
from .row_scale import RowScale


class OAM:
    """1/2 |w|^2 + C sum_{t,t'} hinge(w'z), z = x+ - x-, over the arrival and the opposite buffer.

    A step on (x, y), s = +1 for a positive arrival and -1 for a negative one:

    1. own.offer(x) (the update never reads it);
    2. return if the opposite buffer is empty: w, wbar and t stay;
    3. C_t = C ("none") or C max(1, opposite.seen/capacity) ("count", the paper);
    4. "seq", passive-aggressive, each pair sees the last w: for x' in slot order, z = s (x - x'),
       l = 1 - w'z; if l > 0 and z'z > 0, w += min(C_t/2, l/z'z) z;
       "gra", one subgradient step: for x' in slot order with w0'z <= 1, w0 the w before the row,
       w += (C_t/2) z;
    5. t += 1, wbar += (w - wbar)/t.

    Output: wbar (``average=True``) or w. C_t/2 keeps the factor 1/2 of the paper's (y - y')/2.

    Scale (``kappa=None``): as on x/kappa_t with w in raw units. A scaled pair is z/kappa and scaled weights
    are kappa w, so in raw units w += min(C_t/(2 kappa_t^2), l/z'z) z, and w += C_t/(2 kappa_t^2) z. A long
    row is shortened *before* it is stored: buffers hold shortened rows in raw units, and are not touched
    when kappa_t moves later (but at a restart of the scale, see `RowScale`).

    Sample weight: om' = `by_mean` multiplies the step size C_t of the arriving row: the largest step is om' C_t/2
    in "seq" (a step never goes beyond margin 1, whatever om), the step itself in "gra". The average is uniform over
    updates, t goes up by 1, the buffer takes the row once. om = 0 changes nothing at all.

    Fading (``half_life``): before all that, t and the offers that each buffer counts are multiplied by
    2^(-1/half_life); "count" goes by these.

    One generator: draws are made by own.offer only.
    """

    def __init__(
        self,
        update: str = "seq",
        C: float = 0.0625,
        capacity: int = 100,
        policy: str = "reservoir",
        weighting: str = "none",
        average: bool = True,
        kappa: float | None = None,
        seed: int = 0,
        half_life: float | None = None,
    ) -> None:
        self.keep = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)
        self.update = update
        self.C = C
        self.capacity = capacity
        self.weighting = weighting
        self.average = average
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.pos = Buffer(capacity, policy, self.rng)
        self.neg = Buffer(capacity, policy, self.rng)
        self.w = np.zeros(0)
        self.wbar = np.zeros(0)
        self.t = 0.0
        self.classes = ClassWeights()

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
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w, self.wbar = np.zeros(x.size), np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        self.t *= self.keep
        self.pos.fade(self.keep)
        self.neg.fade(self.keep)
        self.pos.rescale(self.scale.restart)
        self.neg.rescale(self.scale.restart)
        own, opposite, sign = (self.pos, self.neg, 1.0) if y > 0 else (self.neg, self.pos, -1.0)
        self.classes.add(y, weight)
        own.offer(x)
        if len(opposite) == 0:
            return score
        C_t = self.C
        if self.weighting == "count":
            C_t *= max(1.0, opposite.counted / self.capacity)
        largest = self.classes.by_mean(y, weight) * C_t / 2.0 / unit / unit
        w = self.w.copy()
        for other in opposite.rows:
            z = sign * (x - other)
            if self.update == "seq":
                loss = 1.0 - float(w @ z)
                zz = float(z @ z)
                if loss > 0.0 and zz > 0.0:
                    w += min(largest, loss / zz) * z
            elif float(self.w @ z) <= 1.0:
                w += largest * z
        self.w = w
        self.t += 1
        self.wbar = self.wbar + (self.w - self.wbar) / self.t
        return score
