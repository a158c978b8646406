"""BAM: the squared hinge loss over all pairs, to the optimum."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from aucstream.batch.base import BatchRanker, Solution
from aucstream.batch.pairs import Active, Pairs, conjugate_gradients
from aucstream.constraints import Gt
from aucstream.kernels.rows.linear import norm

NEWTON_STEPS = 100
PRODUCTS = 1000  # of the Hessian, a Newton step
HALVINGS = 50
ARMIJO = 1e-4
ROUNDING = 8.0 * np.finfo(np.float64).eps  # of an objective: a fall below this cannot be seen


@dataclass(eq=False, kw_only=True)
class BAM(BatchRanker):
    """Batch AUC maximization: the pairwise squared hinge loss, to the optimum.

    The reference that the online learners are measured against: what a linear ranker of this loss reaches with
    all pairs of all rows. The objective is that of the rows as given: scale columns before.

    Parameters
    ----------
    lam : float, default=1e-4
        In (0, inf). Penalty lam/2 \\|w\\|^2. With a sum over N pairs and a constant C, lam = 1/(2 C N).
    tol : float, default=1e-6
        In (0, inf). Stops where the gradient's norm is at most `tol` times that at w = 0.

    Attributes
    ----------
    iterations : int
        Newton steps.
    objective : float
    gradient_norm : float

    Notes
    -----
    ::

        min  lam/2 |w|^2 + 1/(2 N) sum over the N pairs of (1 - w'(x+ - x-))_+^2

    by truncated Newton steps from w = 0: conjugate gradients to a residual of min(0.1, sqrt(|g|/|g0|)) |g|,
    then halving until the objective falls by 1e-4 of what the slope promises. Values, gradients and Hessian
    products over all pairs come from sorted scores. Time O(n log n + nnz) a value, O(n + nnz) a product.

    Deviations: the sums of [1]_ are kept in a form in which nothing cancels; the conjugate gradients are
    preconditioned by the diagonal of the Hessian at w = 0, so that columns of unlike units cost few products.

    References
    ----------
    .. [1] Lee, Lin, "Large-scale linear RankSVM", Neural Computation 2014.
    .. [2] Chapelle, Keerthi, "Efficient algorithms for ranking with SVMs", Information Retrieval 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from aucstream.batch import BAM
    >>> X = np.array([[0.0], [1.0], [2.0], [3.0]])
    >>> bool(BAM().fit(X, [0, 0, 1, 1]).coefficients()[0] > 0)
    True
    """

    lam: Annotated[float, Gt(0)] = 1e-4
    tol: Annotated[float, Gt(0)] = 1e-6

    @property
    def gradient_norm(self) -> float:
        """Norm of the gradient at the weights of the last fit."""
        return self._solution.residual

    def _solve(self, pairs: Pairs) -> Solution:
        lam = self.lam
        diagonal = pairs.diagonal() + lam
        w = np.zeros(pairs.width)
        scores = pairs.scores(w)
        active = Active(pairs, scores)
        value, slopes = active.squared_hinge()
        g = pairs.gathered(slopes)
        size = start = norm(g)
        iterations = 0
        while size > self.tol * start and iterations < NEWTON_STEPS:
            iterations += 1

            def product(v: np.ndarray, active: Active = active) -> np.ndarray:
                return lam * v + pairs.gathered(active.curvature(pairs.scores(v)))

            forcing = min(0.1, math.sqrt(size / start))
            d, _ = conjugate_gradients(product, -g, diagonal, forcing * size, PRODUCTS)
            along, fall = pairs.scores(d), ARMIJO * float(g @ d)
            step = 1.0
            for _ in range(HALVINGS):
                trial = Active(pairs, scores + step * along)
                loss, slopes = trial.squared_hinge()
                reached = 0.5 * lam * float(np.square(w + step * d).sum()) + loss
                if reached <= value + step * fall + ROUNDING * value:
                    break
                step *= 0.5
            else:
                break
            w = w + step * d
            scores = pairs.scores(w)
            active = trial
            value = reached
            g = lam * w + pairs.gathered(slopes)
            size = norm(g)
        return Solution(w, iterations, value, size, self.tol * start)
