"""All pairs of a positive and a negative row, without making one: scores in, mean losses and slopes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from aucstream.block import Block, Floats
from aucstream.kernels.pairs import pair_sums


def matrix_of(block: Block) -> Any:
    """Return the rows as a matrix that shares the block's memory: an ndarray, or a CSR array if sparse."""
    if block.indices is None:
        return block.values.reshape(len(block), block.width)
    from scipy import sparse

    return sparse.csr_array((block.values, block.indices, block.indptr), shape=(len(block), block.width))


class Pairs:
    """Labelled rows of both classes.

    Attributes
    ----------
    matrix : ndarray or csr_array (n, d)
    pos, neg : ndarray of int64
        Numbers of the positive and of the negative rows.
    difference : ndarray (n,)
        1/n+ at positives, -1/n- at negatives: `gathered(difference)` is the mean of x+ - x- over all pairs.
    """

    def __init__(self, block: Block, signs: Floats) -> None:
        self.matrix = matrix_of(block)
        self.pos = np.flatnonzero(signs > 0.0)
        self.neg = np.flatnonzero(signs < 0.0)
        self.difference = np.where(signs > 0.0, 1.0 / self.pos.size, -1.0 / self.neg.size)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.matrix.shape[1])

    def scores(self, w: Floats) -> Floats:
        """Return X w (n,)."""
        out: Floats = self.matrix @ w
        return out

    def gathered(self, slopes: Floats) -> Floats:
        """Return X' slopes (d,): slopes by the scores become slopes by the weights."""
        out: Floats = self.matrix.T @ slopes
        return out

    def diagonal(self) -> Floats:
        """Return the mean of (x+ - x-)^2 over all pairs, by column (d,)."""
        total = np.square(self.gathered(self.difference))
        squares = self.matrix * self.matrix if isinstance(self.matrix, np.ndarray) else self.matrix.power(2)
        for rows in (self.pos, self.neg):
            chosen = np.zeros(len(self.difference))
            chosen[rows] = 1.0 / rows.size
            total += np.maximum(squares.T @ chosen - np.square(self.gathered(chosen)), 0.0)
        return total


class Active:
    """The pairs of margin below 1 at given scores.

    Parameters
    ----------
    pairs : Pairs
    scores : ndarray (n,)

    Attributes
    ----------
    share : float
        Active pairs, of all pairs.
    """

    def __init__(self, pairs: Pairs, scores: Floats) -> None:
        self._rows = scores.size
        self._pos = pairs.pos[np.argsort(scores[pairs.pos])]
        self._neg = pairs.neg[np.argsort(scores[pairs.neg])]
        self._at = scores[self._pos], scores[self._neg]
        self._of = np.empty(self._pos.size, dtype=np.int64), np.empty(self._neg.size, dtype=np.int64)
        self._pairs = float(self._pos.size) * float(self._neg.size)
        self.share = pair_sums.count_active(*self._at, *self._of) / self._pairs

    def hinge(self) -> tuple[float, Floats]:
        """Return the mean of (1 - m)_+ over all pairs, and a subgradient (n,) by the scores."""
        value = pair_sums.hinge(*self._at, self._of[0])
        return value / self._pairs, self._spread(-self._of[0].astype(np.float64), self._of[1].astype(np.float64))

    def squared_hinge(self) -> tuple[float, Floats]:
        """Return the mean of (1 - m)_+^2 / 2 over all pairs, and its gradient (n,) by the scores."""
        slopes = np.empty(self._pos.size), np.empty(self._neg.size)
        value = pair_sums.squared_hinge(*self._at, *self._of, *slopes)
        return value / self._pairs, self._spread(*slopes)

    def curvature(self, v: Floats) -> Floats:
        """Return the Hessian of `squared_hinge` by the scores, times v (n,)."""
        v = v - v.mean()  # it depends on differences only; smaller numbers, less rounding
        out = np.empty(self._pos.size), np.empty(self._neg.size)
        pair_sums.curvature(*self._of, v[self._pos], v[self._neg], *out)
        return self._spread(*out)

    def _spread(self, of_pos: Floats, of_neg: Floats) -> Floats:
        out = np.empty(self._rows)
        out[self._pos] = of_pos / self._pairs
        out[self._neg] = of_neg / self._pairs
        return out


def conjugate_gradients(
    product: Callable[[Floats], Floats], target: Floats, diagonal: Floats, bound: float, steps: int
) -> tuple[Floats, int]:
    """Solve A x = target from x = 0 for a positive definite A; return (x, steps made).

    Parameters
    ----------
    product : function
        v to A v.
    target, diagonal : ndarray (d,)
        `diagonal`, about that of A and > 0, preconditions.
    bound : float
        Stops where the residual's norm is at most this.
    steps : int
        Stops after this many.
    """
    x = np.zeros(target.size)
    residual = target.copy()
    z = residual / diagonal
    along = z
    rz = float(residual @ z)
    for count in range(steps):
        if float(np.linalg.norm(residual)) <= bound:
            return x, count
        bent = product(along)
        bend = float(along @ bent)
        if not bend > 0.0:  # rounding has the last word
            return x, count
        step = rz / bend
        x += step * along
        residual -= step * bent
        z = residual / diagonal
        before, rz = rz, float(residual @ z)
        along = z + (rz / before) * along
    return x, steps
