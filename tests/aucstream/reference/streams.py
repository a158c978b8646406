"""Gaussian streams with a known best linear scorer, shared by the tests of the references."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Gaussian:
    """Two Gaussian classes: means and covariances, and a shuffled sample of them."""

    X: np.ndarray
    y: np.ndarray
    mean_pos: np.ndarray
    mean_neg: np.ndarray
    S_pos: np.ndarray
    S_neg: np.ndarray
    p: float

    @property
    def mu(self) -> np.ndarray:
        """Difference of the class means."""
        return self.mean_pos - self.mean_neg

    @property
    def S(self) -> np.ndarray:
        """Sum of the class covariances: the covariance of x+ - x-."""
        return self.S_pos + self.S_neg

    def minimiser(self, ridge: float = 0.0) -> np.ndarray:
        """Return (S + mu mu' + ridge I)^-1 mu, the minimiser of E(1 - w'z)^2/2 + ridge |w|^2/2."""
        return np.linalg.solve(self.S + np.outer(self.mu, self.mu) + ridge * np.eye(self.mu.size), self.mu)

    def auc(self, w: np.ndarray) -> float:
        """Return the exact AUC of the score w'x, Phi(w'mu / sqrt(w'Sw))."""
        return 0.5 * math.erfc(-float(w @ self.mu) / math.sqrt(2.0 * float(w @ self.S @ w)))


def gaussian_stream(n: int, d: int = 5, p: float = 0.2, seed: int = 0, largest: float | None = 1.0) -> Gaussian:
    """Return a sample of two Gaussian classes; `largest` is the norm of its longest row (None: as drawn)."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=d)
    mean_pos = 0.9 * direction / np.linalg.norm(direction) + 0.2
    mean_neg = np.full(d, 0.2)
    factors = [np.eye(d) + 0.3 * rng.normal(size=(d, d)) / math.sqrt(d) for _ in range(2)]
    y = np.where(rng.random(n) < p, 1.0, -1.0)
    noise = rng.normal(size=(n, d))
    X = np.where(y[:, None] > 0, mean_pos + noise @ factors[0].T, mean_neg + noise @ factors[1].T)
    c = 1.0 if largest is None else largest / float(np.linalg.norm(X, axis=1).max())
    return Gaussian(
        c * X,
        y,
        c * mean_pos,
        c * mean_neg,
        c * c * factors[0] @ factors[0].T,
        c * c * factors[1] @ factors[1].T,
        p,
    )


def cosine(u: np.ndarray, v: np.ndarray) -> float:
    """Return the cosine of the angle between two vectors."""
    return float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))
