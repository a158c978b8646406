"""SOLAM: stochastic online AUC maximization as a saddle-point problem.

[YWL16] Ying, Wen, Lyu, *Stochastic Online AUC Maximization*, NIPS 2016, Algorithm 1.
[LZCWY18] Liu, Zhang, Chen, Wang, Yang, ICML 2018, section 5, for the l1 ball.
"""

from __future__ import annotations

import math

import numpy as np

from .balls import clip, project_omega1
from .example_weights import ClassWeights
from .row_scale import RowScale

DEFAULT_RADIUS = {"l2": 30.0, "l1": 100.0}


def saddle_gradient(s: float, y: float, p: float, a: float, b: float, alpha: float) -> tuple[float, ...]:
    """Return (c, dF/da, dF/db, dF/dalpha) with dF/dw = c x, for s = w'x [YWL16 Thm 1, factors 2 kept].

    F = q (s-a)^2 [y=1] + p (s-b)^2 [y=-1] + 2 (1+alpha) (p s [y=-1] - q s [y=1]) - p q alpha^2
    """
    q = 1.0 - p
    if y > 0:
        return 2.0 * q * (s - a - 1.0 - alpha), -2.0 * q * (s - a), 0.0, -2.0 * q * s - 2.0 * p * q * alpha
    return 2.0 * p * (s - b + 1.0 + alpha), 0.0, -2.0 * p * (s - b), 2.0 * p * s - 2.0 * p * q * alpha


class SOLAM:
    """min over |w| <= R, |a|, |b| <= R kappa, max over |alpha| <= 2 R kappa of E F(w, a, b, alpha; z).

    One step on (x, y) with sample weight om:

    1. n_pos += om [y=1], n += om, p = n_pos/n, this sample included [YWL16 step 3];
    2. t += 1, gamma = om' min(cap, zeta/sqrt(t)), the cap ours; om' = om if cap = inf, else `by_share`;
    3. averages, of the iterate before the update [YWL16 steps 6-7], weighted by gamma;
    4. (w, a, b) descends, alpha ascends, both from the old point, step gamma (gamma/unit^2 for raw w);
    5. projection onto Omega1 and Omega2.

    Start at 0. The output is wbar; before the first sample it is 0. om = 0 changes nothing at all.
    While one class only has been seen p q = 0, every gradient is 0 and w stays 0.
    """

    def __init__(
        self,
        norm: str = "l2",
        R: float | None = None,
        zeta: float = 10.0,
        cap: float = 0.1,
        kappa: float | None = None,
        half_life: float | None = None,
    ) -> None:
        self.keep = 1.0 if half_life is None else 2.0 ** (-1.0 / half_life)  # what all counts fade by at each row
        self.norm = norm
        self.R = DEFAULT_RADIUS[norm] if R is None else R
        self.zeta = zeta
        self.cap = cap
        self.scale = RowScale(kappa)
        self.lam = 0.0
        self.w = np.zeros(0)
        self.wbar = np.zeros(0)
        self.a = self.b = self.alpha = 0.0
        self.abar = self.bbar = self.alphabar = 0.0
        self.gbar = 0.0
        self.n_pos = 0.0
        self.n = 0.0
        self.classes = ClassWeights()
        self.t = 0.0

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, wbar'x."""
        return float(self.wbar @ x) if self.wbar.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w, self.wbar = np.zeros(x.size), np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        # 1. class probability
        self.n_pos = self.keep * self.n_pos + weight * (y > 0)
        self.n = self.keep * self.n + weight
        p = self.n_pos / self.n
        # 2. step size
        self.t = self.keep * self.t + 1.0
        self.gbar *= self.keep
        self.classes.add(y, weight)
        counted = self.classes.by_share(y, weight) if self.cap < math.inf else weight
        gamma = counted * min(self.cap, self.zeta / math.sqrt(self.t))
        # 3. averages, before the update
        total = self.gbar + gamma
        self.wbar = (self.gbar * self.wbar + gamma * self.w) / total
        self.abar = (self.gbar * self.abar + gamma * self.a) / total
        self.bbar = (self.gbar * self.bbar + gamma * self.b) / total
        self.alphabar = (self.gbar * self.alphabar + gamma * self.alpha) / total
        self.gbar = total
        # 4. gradients at (w_t, a_t, b_t, alpha_t); regSOLAM adds lam w in the units of w/unit
        s = float(self.w @ x)
        c, da, db, dalpha = saddle_gradient(s, y, p, self.a, self.b, self.alpha)
        w = self.w * max(0.0, 1.0 - gamma * self.lam) - gamma * c * (x / unit) / unit
        a, b, alpha = self.a - gamma * da, self.b - gamma * db, self.alpha + gamma * dalpha
        # 5. projections
        box = self.R * self.scale.bound
        self.w, self.a, self.b = project_omega1(w, a, b, self.norm, self.R / unit, box)
        self.alpha = clip(alpha, -2.0 * box, 2.0 * box)
        return score
