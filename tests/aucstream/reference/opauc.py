"""OPAUC: one-pass AUC optimization through class moments, full and low rank.

[OPAUC] Gao, Jin, Zhu, Zhou, *One-Pass AUC Optimization*, ICML 2013, Eqs. 3, 5, 7 and section on low rank.
"""

from __future__ import annotations

import math

import numpy as np

from .example_weights import ClassWeights
from .moments import ClassMoments
from .randomness import Generator
from .row_scale import RowScale


class SketchedMoments:
    """n, mean, Z[d, tau] = sum sqrt(c_i) x_i r_i', r_sum = sum sqrt(c_i) r_i, with r_i ~ N(0, I/tau).

    S w is estimated by A (A'w)/n with A = Z - m r_sum': unbiased, since E[Z r_sum] = n m and
    E|r_sum|^2 = n, and positive semi-definite. (The paper's Z Z'/n - |r_sum/n|^2 m m' subtracts m m'/n
    only, so it estimates the second moment.)
    """

    def __init__(self, d: int, rank: int) -> None:
        self.n = 0.0
        self.m = np.zeros(d)
        self.Z = np.zeros((d, rank))
        self.r_sum = np.zeros(rank)

    def times(self, w: np.ndarray) -> np.ndarray:
        """Return the estimate of S w."""
        A = self.Z - np.outer(self.m, self.r_sum)
        return A @ (A.T @ w) / self.n

    def add(self, x: np.ndarray, weight: float, r: np.ndarray) -> None:
        """Take one row with its random vector."""
        self.n += weight
        self.m = self.m + (weight / self.n) * (x - self.m)
        self.Z = self.Z + math.sqrt(weight) * np.outer(x, r)
        self.r_sum = self.r_sum + math.sqrt(weight) * r

    def rescale(self, ratio: float) -> None:
        """Multiply all rows so far by a ratio."""
        self.m, self.Z = self.m * ratio, self.Z * ratio


def pair_gradient(w: np.ndarray, x: np.ndarray, sign: float, opposite: ClassMoments | SketchedMoments) -> np.ndarray:
    """Return the gradient of mean_{x'} (1 - s w'(x-x'))^2/2 over the opposite rows [OPAUC Eqs. 5, 7].

    = -s e + e (e'w) + S w with e = x - c, from mean (x-x')(x-x')' = e e' + S and mean s(x-x') = s e.
    """
    e = x - opposite.m
    return -sign * e + e * float(e @ w) + opposite.times(w)


class OPAUC:
    """w -= eta (lam w + gradient of the mean square over all opposite rows seen).

    A step on (x, y) with sample weight om: with a `rank`, tau normal draws / sqrt(tau) before anything
    else, for either class; own.add(x, om); return if the opposite class is empty (t and w stay); one
    gradient step of size om' eta, om' = `by_mean`; t += 1, wbar += (w - wbar)/t. No projection. Output: w, or wbar with
    `average`.

    `diagonal` keeps the variances only. Scale: in raw units the step is eta/kappa_t^2 and lam kappa_t^2:
    w -= om' eta (lam w + gradient/kappa_t^2). Moments hold shortened rows in raw units. om = 0 changes
    nothing at all, and draws nothing.
    """

    def __init__(
        self,
        eta: float = 0.125,
        lam: float = 2.0**-10,
        rank: int | None = None,
        average: bool = False,
        diagonal: bool = False,
        kappa: float | None = None,
        seed: int = 0,
    ) -> None:
        self.eta = eta
        self.lam = lam
        self.rank = rank
        self.average = average
        self.diagonal = diagonal
        self.scale = RowScale(kappa)
        self.rng = Generator(seed)
        self.pos: ClassMoments | SketchedMoments = ClassMoments()
        self.neg: ClassMoments | SketchedMoments = ClassMoments()
        self.w = self.wbar = np.zeros(0)
        self.t = 0
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
            self.w = self.wbar = np.zeros(x.size)
            self.pos, self.neg = self._moments(x.size), self._moments(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        r = np.zeros(0)
        if self.rank is not None:
            r = np.array([self.rng.normal() for _ in range(self.rank)]) / math.sqrt(self.rank)
        unit, factor = self.scale.see(x)
        x = factor * x
        self.pos.rescale(self.scale.restart)
        self.neg.rescale(self.scale.restart)
        own, opposite, sign = (self.pos, self.neg, 1.0) if y > 0 else (self.neg, self.pos, -1.0)
        if isinstance(own, SketchedMoments):
            own.add(x, weight, r)
        else:
            own.add(x, weight)
        self.classes.add(y, weight)
        if opposite.n == 0.0:
            return score
        self._step(pair_gradient(self.w, x, sign, opposite) / unit / unit, self.classes.by_mean(y, weight))
        self.t += 1
        self.wbar = self.wbar + (self.w - self.wbar) / self.t
        return score

    def _moments(self, d: int) -> ClassMoments | SketchedMoments:
        """Return the empty moments of one class."""
        return ClassMoments(d, self.diagonal) if self.rank is None else SketchedMoments(d, self.rank)

    def _step(self, gradient: np.ndarray, weight: float) -> None:
        """Move w along minus the gradient, which is that of the scaled weights over kappa_t."""
        self.w = self.w - weight * self.eta * (self.lam * self.w + gradient)
