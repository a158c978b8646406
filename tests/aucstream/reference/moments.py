"""Weighted class moments: count, mean, scatter matrix; addition of a row, decay, merge.

Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 1983.
"""

from __future__ import annotations

import numpy as np


class ClassMoments:
    """n = sum c_i, m = weighted mean, M = sum c_i (x_i - m)(x_i - m)'; S = M/n is the covariance.

    With `diagonal` only the diagonal of M is kept, as a vector.
    """

    def __init__(self, d: int = 0, diagonal: bool = False) -> None:
        self.diagonal = diagonal
        self.n = 0.0
        self.m = np.zeros(d)
        self.M = np.zeros(d) if diagonal else np.zeros((d, d))

    @property
    def S(self) -> np.ndarray:
        """The covariance of the rows seen (0 before any)."""
        return self.M / self.n if self.n > 0.0 else self.M

    def times(self, w: np.ndarray) -> np.ndarray:
        """Return S w."""
        return self.S * w if self.diagonal else self.S @ w

    def add(self, x: np.ndarray, weight: float = 1.0) -> None:
        """Take one row: n += c, m += (c/n)(x - m), M += c (1 - c/n)(x - m_old)(x - m_old)'."""
        self.n += weight
        d0 = x - self.m
        share = weight / self.n
        self.m = self.m + share * d0
        self.M = self.M + weight * (1.0 - share) * (d0 * d0 if self.diagonal else np.outer(d0, d0))

    def decay(self, rho: float) -> None:
        """Multiply the weight of all rows so far by rho; the mean stays."""
        self.n *= rho
        self.M = self.M * rho

    def rescale(self, ratio: float) -> None:
        """Multiply all rows so far by a ratio."""
        self.m, self.M = self.m * ratio, self.M * ratio**2

    def merge(self, other: ClassMoments) -> None:
        """Take the rows of a disjoint stream: e = m_B - m_A, M = M_A + M_B + (n_A n_B/n) e e'."""
        n = self.n + other.n
        if other.n == 0.0:
            return
        if self.n == 0.0:
            self.n, self.m, self.M = other.n, other.m.copy(), other.M.copy()
            return
        e = other.m - self.m
        cross = e * e if self.diagonal else np.outer(e, e)
        self.M = self.M + other.M + (self.n * other.n / n) * cross
        self.m = self.m + (other.n / n) * e
        self.n = n
