"""RankSVM: the hinge loss over all pairs, by cutting planes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from aucstream.batch.base import BatchRanker, Solution
from aucstream.batch.pairs import Active, Pairs
from aucstream.constraints import Gt
from aucstream.kernels.weights.simplex import maximise

CUTS = 500  # rows of length about 1 take 100 to 200
STEPS = 20_000  # of the dual between two cuts: any of its values bounds the optimum, so it may end early
FINER = 0.01  # the dual is solved to this part of the gap asked for


@dataclass(eq=False, kw_only=True)
class RankSVM(BatchRanker):
    """Batch AUC maximization with the pairwise hinge loss (B-SVM-OR), to a certified gap.

    The objective is that of the rows as given: scale columns before.

    Parameters
    ----------
    lam : float, default=1e-4
        In (0, inf). Penalty lam/2 \\|w\\|^2. With a sum over N pairs and a constant C, lam = 1/(C N).
    tol : float, default=1e-3
        In (0, inf). Stops where the duality gap is at most `tol` times the objective.

    Attributes
    ----------
    iterations : int
        Cuts made.
    objective : float
    gap : float
        The objective is at most this above the optimum.

    Notes
    -----
    ::

        min  lam/2 |w|^2 + R(w),   R(w) = 1/N sum over the N pairs of (1 - w'(x+ - x-))_+

    R lies above each of its tangent planes, R(w) >= b_i - a_i'w with a_i minus a subgradient and b_i the share of
    the pairs that are active, and above 0. The weights that minimise lam/2 |w|^2 + max_i (b_i - a_i'w) are
    w = A'al/lam, al maximising the dual b'al - al'AA'al/(2 lam) over al >= 0, sum al <= 1; a plane at this w
    joins, until the best objective met is close to the dual, which never exceeds the optimum. Time
    O(n log n + nnz) a cut, and the dual's; memory d floats a cut. Rows of length about 1 take 30 to 200 cuts (a9a
    110); raw columns of large, unlike units can take more than the 500 that are made, and then the gap reached is
    told by `NotConverged`.

    References
    ----------
    .. [1] Joachims, "Training linear SVMs in linear time", KDD 2006: one slack variable.
    .. [2] Joachims, "A support vector method for multivariate performance measures", ICML 2005: the AUC.

    Examples
    --------
    >>> import numpy as np
    >>> from aucstream.batch import RankSVM
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> bool(RankSVM().fit(X, [0, 0, 1, 1]).coefficients()[0] > 0)
    True
    """

    lam: Annotated[float, Gt(0)] = 1e-4
    tol: Annotated[float, Gt(0)] = 1e-3

    @property
    def gap(self) -> float:
        """Duality gap of the last fit."""
        return self._solution.residual

    def _solve(self, pairs: Pairs) -> Solution:
        planes = _Planes(pairs.width)
        w = best_w = np.zeros(pairs.width)
        best, dual = np.inf, 0.0
        for _ in range(CUTS):
            active = Active(pairs, pairs.scores(w))
            risk, slopes = active.hinge()
            reached = 0.5 * self.lam * float(w @ w) + risk
            if reached < best:
                best, best_w = reached, w
            if not best - dual > self.tol * best:
                break
            planes.add(-pairs.gathered(slopes), active.share)
            w, dual = planes.lowest(self.lam, FINER * self.tol * best)
        return Solution(best_w, planes.count - 1, best, best - dual, self.tol * best)


class _Planes:
    """Planes b_i - a_i'w under a convex function, the first of them 0; the rest of the dual's state."""

    def __init__(self, width: int) -> None:
        self.count = 1
        self._a = np.zeros((16, width))
        self._b = np.zeros(16)
        self._gram = np.zeros((16, 16))  # of the a_i
        self._share = np.zeros(16)  # al, and in the first place what al leaves of 1
        self._share[0] = 1.0

    def add(self, a: np.ndarray, b: float) -> None:
        """Add a plane."""
        k = self.count
        if k == self._b.size:
            self._a = np.concatenate([self._a, np.zeros_like(self._a)])
            self._b = np.concatenate([self._b, np.zeros(k)])
            self._share = np.concatenate([self._share, np.zeros(k)])
            self._gram = np.pad(self._gram, (0, k))
        self._a[k], self._b[k] = a, b
        self._gram[k, : k + 1] = self._gram[: k + 1, k] = self._a[: k + 1] @ a
        self.count = k + 1

    def lowest(self, lam: float, tol: float) -> tuple[np.ndarray, float]:
        """Return the w of least lam/2 |w|^2 + max_i (b_i - a_i'w), and a lower bound of that, within `tol`."""
        k = self.count
        a, b, share = self._a[:k], self._b[:k], self._share[:k]
        maximise(self._gram[:k, :k] / lam, b, share, np.empty(k), tol, STEPS)
        w = share @ a / lam
        return w, float(share @ b) - 0.5 * lam * float(w @ w)
