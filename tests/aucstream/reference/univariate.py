"""Univariate baselines: online logistic regression and the class-balanced exponential loss.

[KDH] Kotlowski, Dembczynski, Huellermeier, *Bipartite Ranking through Minimization of Univariate Loss*,
ICML 2011.
"""

from __future__ import annotations

import math

import numpy as np

from .example_weights import ClassWeights
from .row_scale import RowScale


def sigmoid(s: float) -> float:
    """Return 1/(1 + e^-s) without overflow."""
    if s >= 0.0:
        return 1.0 / (1.0 + math.exp(-s))
    e = math.exp(s)
    return e / (1.0 + e)


class Univariate:
    """w -= om' eta_t (r x/kappa_t^2 + lam w), b -= om' eta_t r, r the loss's slope in the score.

    eta_t = max(eta_min, eta0/sqrt(t)), t += 1 first, from the first row on; the slope is that at s = w'x + b of the
    shortened row. Output: the last w and b, score w'x + b. om = 0 changes nothing at all. om' eta_t is at most
    1/(2 lam) (ours): a step beyond 1/lam would turn the weights around.
    """

    def __init__(self, eta0: float, eta_min: float, lam: float, intercept: bool, kappa: float | None) -> None:
        self.eta0 = eta0
        self.eta_min = eta_min
        self.lam = lam
        self.intercept = intercept
        self.scale = RowScale(kappa)
        self.w = np.zeros(0)
        self.b = 0.0
        self.t = 0
        self.classes = ClassWeights()

    @property
    def kappa_t(self) -> float:
        """What rows are divided by at present."""
        return self.scale.unit

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, w'x + b."""
        return float(self.w @ x) + self.b if self.w.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.w.size == 0:
            self.w = np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        unit, factor = self.scale.see(x)
        x = factor * x
        self.t += 1
        self.classes.add(y, weight)
        eta = self._counted(y, weight) * max(self.eta_min, self.eta0 / math.sqrt(self.t))
        if self.lam > 0.0:
            eta = min(eta, 0.5 / self.lam)
        r = self._slope(float(self.w @ x) + self.b, y, weight)
        self.w = self.w - eta * (r * (x / unit) / unit + self.lam * self.w)
        if self.intercept:
            self.b -= eta * r
        return score

    def _counted(self, y: float, weight: float) -> float:
        """Return om', what the weight multiplies the step by."""
        return self.classes.by_mean(y, weight)

    def _slope(self, s: float, y: float, weight: float) -> float:
        """Return the derivative of the loss in the score."""
        raise NotImplementedError


class OnlineLogistic(Univariate):
    """r = sigmoid(w'x + b) - [y > 0]."""

    def __init__(
        self,
        eta0: float = 16.0,
        lam: float = 0.0,
        intercept: bool = True,
        kappa: float | None = None,
        eta_min: float = 0.0,
    ) -> None:
        super().__init__(eta0, eta_min, lam, intercept, kappa)

    def _slope(self, s: float, y: float, weight: float) -> float:
        return sigmoid(s) - float(y > 0)


class UnivariateExp(Univariate):
    """Loss c_y exp(-y s) [KDH], its exponent cut: r = -c_y y exp(min(clip, -y s)).

    c_y = n_{-y}/max(n_+, n_-) with the (weighted) counts including this row; 1 until both classes were seen.
    That is n/(2 n_y) [KDH] times 2 min(n_+, n_-)/n: the same minimiser, and no step is longer than one of
    balanced classes. With n/(2 n_y) itself and 2 % positives the step of a positive row is 25 times as long,
    and the ranking of T1 falls .08 below the best.
    """

    def __init__(
        self,
        eta0: float = 4.0,
        lam: float = 0.0,
        clip: float = 1.0,
        intercept: bool = True,
        kappa: float | None = None,
    ) -> None:
        super().__init__(eta0, 0.0, lam, intercept, kappa)
        self.clip = clip
        self.n_pos = self.n_neg = 0.0

    def _counted(self, y: float, weight: float) -> float:
        return self.classes.by_share(y, weight)  # c_y has the shares

    def _slope(self, s: float, y: float, weight: float) -> float:
        sign = 1.0 if y > 0 else -1.0
        if y > 0:
            self.n_pos += weight
        else:
            self.n_neg += weight
        c = 1.0
        if self.n_pos > 0.0 and self.n_neg > 0.0:
            c = (self.n_neg if y > 0 else self.n_pos) / max(self.n_pos, self.n_neg)
        return -c * sign * math.exp(min(self.clip, -sign * s))
