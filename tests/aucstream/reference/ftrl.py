"""FTRL-Proximal: sparse online logistic regression.

[FTRL] McMahan et al., *Ad Click Prediction: a View from the Trenches*, KDD 2013, Algorithm 1.
"""

from __future__ import annotations

import math

import numpy as np

from .example_weights import ClassWeights
from .univariate import sigmoid


class FTRL:
    """Per coordinate z_j, n_j:

        w_j     = 0 if |z_j| <= l1 else -(z_j - sign(z_j) l1)/((beta + sqrt(n_j))/alpha + l2)
        g_j     = (sigmoid(w'x + b) - [y > 0]) x_j
        sigma_j = (sqrt(n_j + g_j^2) - sqrt(n_j))/alpha
        z_j    += om' g_j - sigma_j w_j;   n_j += g_j^2

    The intercept is a coordinate with x = 1 and l1 = 0 (its l2 is the others'). Output score w'x + b.
    om' = `by_mean` multiplies the step (g in z), not what enters n. With l1 = l2 = 0 it is adaptive gradient
    descent, w -= om' alpha g/(beta + sqrt(n)). There is no kappa. om = 0 changes nothing at all.
    """

    def __init__(
        self, alpha: float = 2.0, beta: float = 1.0, l1: float = 0.1, l2: float = 0.0, intercept: bool = True
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.l1 = l1
        self.l2 = l2
        self.intercept = intercept
        self.z = np.zeros(0)
        self.n = np.zeros(0)
        self.z_b = self.n_b = 0.0
        self.classes = ClassWeights()

    @property
    def w(self) -> np.ndarray:
        """The weights that z and n stand for."""
        inner = -(self.z - np.sign(self.z) * self.l1) / ((self.beta + np.sqrt(self.n)) / self.alpha + self.l2)
        return np.where(np.abs(self.z) <= self.l1, 0.0, inner)

    @property
    def b(self) -> float:
        """The intercept."""
        return -self.z_b / ((self.beta + math.sqrt(self.n_b)) / self.alpha + self.l2)

    @property
    def output(self) -> np.ndarray:
        """The output weights."""
        return self.w

    def score(self, x: np.ndarray) -> float:
        """Return the output score of x, w'x + b."""
        return float(self.w @ x) + self.b if self.z.size else 0.0

    def learn(self, x: np.ndarray, y: float, weight: float = 1.0) -> float:
        """Take one step; return the output score of x before it."""
        if self.z.size == 0:
            self.z, self.n = np.zeros(x.size), np.zeros(x.size)
        score = self.score(x)
        if weight == 0.0:
            return score
        self.classes.add(y, weight)
        counted = self.classes.by_mean(y, weight)
        r = sigmoid(score) - float(y > 0)
        w, b = self.w, self.b
        g = r * x
        sigma = (np.sqrt(self.n + g * g) - np.sqrt(self.n)) / self.alpha
        self.z = self.z + counted * g - sigma * w
        self.n = self.n + g * g
        if self.intercept:
            sigma_b = (math.sqrt(self.n_b + r * r) - math.sqrt(self.n_b)) / self.alpha
            self.z_b += counted * r - sigma_b * b
            self.n_b += r * r
        return score
