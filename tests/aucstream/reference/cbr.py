"""CBR: confidence-weighted bipartite ranking.

[CBR] Khalid, Ray, Chitsaz, *Confidence-Weighted Bipartite Ranking*, ADMA 2016.
[SCW] Wang, Zhao, Hoi, *Exact Soft Confidence-Weighted Learning*, ICML 2012, Proposition 1 (SCW-I).
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from .buffers import Buffer
from .randomness import Generator
from .row_scale import RowScale


class CBR:
    """Weights N(w, S) that shall rank each pair rightly with confidence eta: SCW-I on z with label +1.

    For each x' of the opposite buffer in slot order, z = s (x - x'), m = w'z, q = S z, v = z'q, with
    phi = Phi^-1(eta), psi = 1 + phi^2/2, zeta = 1 + phi^2: nothing if v = 0 or phi sqrt(v) <= m, else

        alpha = min(C, max(0, (-m psi + sqrt(m^2 phi^4/4 + v phi^2 zeta)) / (v zeta)))
        u     = ((-alpha v phi + sqrt(alpha^2 v^2 phi^2 + 4 v)) / 2)^2        (the variance after the step)
        beta  = alpha phi / (sqrt(u) + v alpha phi)
        w    += alpha q;   S -= beta q q'

    then own.offer(x). "diag": S is a vector D, q = D z elementwise, D -= beta q q. S starts at I; C is
    constant. t counts rows that met a non-empty opposite buffer. Output: last w.

    Scale: S belongs to the scaled weights kappa_t w, carries no unit and stays as it is when kappa_t moves:
    z and x are divided by kappa_t in q and v, and w += alpha q/kappa_t. Buffers hold shortened rows in raw
    units. The weight om multiplies C, the largest step of the arriving row (as in `OAM`), so a step never
    goes beyond the constraint. om = 0 changes nothing at all.
    """

    def __init__(
        self,
        covariance: str = "diag",
        C: float = 2.0**-7,
        eta: float = 0.7,
        capacity: int = 50,
        policy: str = "fifo",
        kappa: float | None = None,
        seed: int = 0,
    ) -> None:
        self.covariance = covariance
        self.C = C
        self.phi = NormalDist().inv_cdf(eta)
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.pos = Buffer(capacity, policy, self.rng)
        self.neg = Buffer(capacity, policy, self.rng)
        self.w = np.zeros(0)
        self.S: np.ndarray = np.zeros(0)
        self.t = 0

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, w'x."""
        return float(self.w @ x) if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w = np.zeros(x.size)
            self.S = np.ones(x.size) if self.covariance == "diag" else np.eye(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        self.pos.rescale(self.scale.restart)
        self.neg.rescale(self.scale.restart)
        own, opposite, sign = (self.pos, self.neg, 1.0) if y > 0 else (self.neg, self.pos, -1.0)
        for other in opposite.rows:
            self._step(sign * (x - other), unit, weight * self.C)
        self.t += len(opposite) > 0
        own.offer(x)
        return score

    def _step(self, z: np.ndarray, unit: float, largest: float) -> None:
        """Take the step of one pair."""
        phi = self.phi
        psi, zeta = 1.0 + phi**2 / 2.0, 1.0 + phi**2
        diagonal = self.covariance == "diag"
        m = float(self.w @ z)
        scaled = z / unit
        q = self.S * scaled if diagonal else self.S @ scaled
        v = float(scaled @ q)
        if v <= 0.0 or phi * math.sqrt(v) <= m:
            return
        root = math.sqrt(m * m * phi**4 / 4.0 + v * phi**2 * zeta)
        alpha = min(largest, max(0.0, (-m * psi + root) / (v * zeta)))
        u = ((-alpha * v * phi + math.sqrt(alpha**2 * v**2 * phi**2 + 4.0 * v)) / 2.0) ** 2
        beta = alpha * phi / (math.sqrt(u) + v * alpha * phi)
        self.w = self.w + alpha * q / unit
        self.S = self.S - beta * (q * q if diagonal else np.outer(q, q))
