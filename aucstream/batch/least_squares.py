"""LeastSquaresAUC: the squared loss over all pairs, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from scipy import linalg

from aucstream.batch.base import BatchRanker, Solution
from aucstream.batch.pairs import Pairs, conjugate_gradients
from aucstream.block import Floats
from aucstream.constraints import Gt
from aucstream.kernels.rows.linear import norm

DIRECT_WIDTH = 4096  # columns up to which the matrix is made: 134 MB
ROWS_AT_ONCE = 8192  # centred rows held at a time
STEPS = 10_000


@dataclass(eq=False, kw_only=True)
class LeastSquaresAUC(BatchRanker):
    """Batch AUC maximization with the pairwise squared loss (B-LS-SVM; MBA-l2 with all pairs): one solve.

    The ranking is that of Fisher's discriminant with equally weighted classes, regularised. The objective is
    that of the rows as given: scale columns before.

    Parameters
    ----------
    lam : float, default=1e-4
        In (0, inf). Penalty lam/2 \\|w\\|^2; lambda_2 of [1]_ eq. 10.
    tol : float, default=1e-10
        In (0, inf). Above 4096 columns, where conjugate gradients solve: the residual's norm is at most `tol`
        times that of the right-hand side. Below, the solve is direct and `tol` is not used.

    Attributes
    ----------
    iterations : int
        1, or the steps of conjugate gradients.
    objective : float
    gradient_norm : float

    Notes
    -----
    ::

        min  lam/2 |w|^2 + 1/(2 N) sum over the N pairs of (1 - w'(x+ - x-))^2
        (S+ + S- + mu mu' + lam I) w = mu

    with mu the difference of the class means and S+, S- the class covariances: the moments of x+ - x- over all
    pairs, exact. Time O(nnz d + d^3) direct (n d^2 for dense rows), O(nnz) a step of conjugate gradients, which
    never form the matrix and are preconditioned by its diagonal.

    References
    ----------
    .. [1] Gultekin, Saha, Ratnaparkhi, Paisley, "MBA: Mini-Batch AUC Optimization", eqs. 9, 10.

    Examples
    --------
    >>> import numpy as np
    >>> from aucstream.batch import LeastSquaresAUC
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> bool(LeastSquaresAUC().fit(X, [0, 0, 1, 1]).coefficients()[0] > 0)
    True
    """

    lam: Annotated[float, Gt(0)] = 1e-4
    tol: Annotated[float, Gt(0)] = 1e-10

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient at the weights of the last fit."""
        return self._solution.residual

    def _solve(self, pairs: Pairs) -> Solution:
        mu = pairs.gathered(pairs.difference)

        def product(v: Floats) -> Floats:
            s = pairs.scores(v)
            out = np.empty(s.size)
            out[pairs.pos] = (s[pairs.pos] - s[pairs.neg].mean()) / pairs.pos.size
            out[pairs.neg] = (s[pairs.neg] - s[pairs.pos].mean()) / pairs.neg.size
            return self.lam * v + pairs.gathered(out)

        if pairs.width <= DIRECT_WIDTH:
            w, iterations = _solved(_second_moments(pairs, mu), mu, self.lam), 1
            residual = bound = norm(product(w) - mu)
        else:
            diagonal, bound = pairs.diagonal() + self.lam, self.tol * norm(mu)
            w, iterations = conjugate_gradients(product, mu, diagonal, bound, STEPS)
            residual = norm(product(w) - mu)
        s = pairs.scores(w)
        pos, neg = s[pairs.pos], s[pairs.neg]
        loss = 0.5 * ((1.0 - (pos.mean() - neg.mean())) ** 2 + pos.var() + neg.var())
        objective = 0.5 * self.lam * float(w @ w) + float(loss)
        return Solution(w, iterations, objective, residual, bound)


def _second_moments(pairs: Pairs, mu: Floats) -> Floats:
    """Return the mean of (x+ - x-)(x+ - x-)' over all pairs: S+ + S- + mu mu'."""
    total = np.outer(mu, mu)
    for rows in (pairs.pos, pairs.neg):
        chosen = np.zeros(len(pairs.difference))
        chosen[rows] = 1.0 / rows.size
        mean = pairs.gathered(chosen)
        if isinstance(pairs.matrix, np.ndarray):
            for start in range(0, rows.size, ROWS_AT_ONCE):
                centred = pairs.matrix[rows[start : start + ROWS_AT_ONCE]] - mean
                total += centred.T @ centred / rows.size
        else:
            part = pairs.matrix[rows]
            total += (part.T @ part).toarray() / rows.size - np.outer(mean, mean)
    return total


def _solved(second: Floats, mu: Floats, lam: float) -> Floats:
    """Return (second + lam I)^-1 mu; the solution of least norm where rounding has made that singular."""
    second[np.diag_indices(mu.size)] += lam
    try:
        w: Floats = linalg.cho_solve(linalg.cho_factor(second), mu)
    except linalg.LinAlgError:
        w = np.asarray(np.linalg.lstsq(second, mu, rcond=None)[0], dtype=np.float64)
    return w
