"""Weighted class moments: count, mean, scatter matrix, exact, diagonal or sketched.

Liberty, "Simple and deterministic matrix sketching", KDD 2013 (Frequent Directions). Chan, Golub, LeVeque, "Algorithms for computing the sample variance", The American Statistician 1983.
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


class SketchedScatter:
    """n, m and Frequent Directions B'B of the scatter matrix M: 0 <= M - B'B <= (tr M / ell) I.

    The sketch is fed the rows sqrt(c (1 - c/n)) (x - m_old), whose Gram matrix is M exactly. They fill a
    table of 2 ell rows; when it is full its singular values s (decreasing) become
    sqrt(max(s^2 - s_{ell+1}^2, 0)), which leaves at most ell rows that are not 0, and room for the others.
    A row of zeros takes no place. `trace` is tr M itself, which the sketch would underestimate.
    """

    def __init__(self, d: int, ell: int) -> None:
        self.ell = ell
        self.n = 0.0
        self.m = np.zeros(d)
        self.trace = 0.0
        self.table: list[np.ndarray] = []

    @property
    def M(self) -> np.ndarray:
        """The sketched scatter matrix B'B."""
        d = self.m.size
        B = np.array(self.table).reshape(len(self.table), d)
        return B.T @ B

    @property
    def S(self) -> np.ndarray:
        """The sketched covariance."""
        return self.M / self.n if self.n > 0.0 else self.M

    def add(self, x: np.ndarray, weight: float = 1.0) -> None:
        """Take one row."""
        self.n += weight
        d0 = x - self.m
        share = weight / self.n
        self.m = self.m + share * d0
        row = np.sqrt(weight * (1.0 - share)) * d0
        if not row.any():
            return
        self.trace += float(row @ row)
        self.table.append(row)
        if len(self.table) == 2 * self.ell:
            self._shrink()

    def _shrink(self) -> None:
        """Make room: at most ell rows stay."""
        _, s, V = np.linalg.svd(np.array(self.table), full_matrices=False)
        cut = s[self.ell] ** 2 if s.size > self.ell else 0.0
        kept = np.sqrt(np.maximum(s * s - cut, 0.0))[: self.ell]
        self.table = [size * v for size, v in zip(kept, V, strict=False) if size > 0.0]

    def decay(self, rho: float) -> None:
        """Multiply the weight of all rows so far by rho; the mean stays."""
        self.n *= rho
        self.trace *= rho
        self.table = [row * np.sqrt(rho) for row in self.table]
