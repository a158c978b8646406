"""UnivariateExp: the class-balanced exponential loss of one score."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any

from aucstream.constraints import Ge, Gt, InfinityAllowed
from aucstream.kernels.weights.univariate import EXPONENTIAL
from aucstream.learners._base.learner import learner
from aucstream.learners._families.univariate import Univariate

LARGEST_EXPONENT = 700.0  # exp stays finite; the step of such a row is refused


@learner
class UnivariateExp(Univariate):
    """Exponential loss of each row, its classes balanced by their counts: consistent for the ranking.

    Minimising it over all scorers minimises the ranking loss too [1]_, without a pair. It learns from the
    first row on, one class or two.

    Parameters
    ----------
    eta0 : float, default=4.0
        In (0, inf). Step eta_t = eta0 / sqrt(t); the default is for rows of norm 1.
    lam : float, default=0.0
        In [0, inf). Penalty lam/2 |w|^2; the intercept has none.
    clip : float, default=1.0
        In [0, inf]. Largest exponent of the slope: beyond it the loss goes on as a straight line. `inf`
        restores the paper, and one bad row may throw the weights away.
    intercept : bool, default=True
        Whether the score has one; `intercept_` is its value.
    kappa : float or None, default=None
        In (0, inf). None: the running root mean square of the row norm takes the unit's place, so that
        rows of any scale work; a number gives the literal form, the same for every number.

    Notes
    -----
    With s = w'x + b, y = +1 or -1, and c = 1 for the smaller class, its size over that of the other for
    the larger one (weighted counts with this row; 1 until both classes were seen)::

        r = -c y exp(min(clip, -y s)),  w -= eta_t (r x + lam w),  b -= eta_t r

    The output is the last w and b. Time O(nnz) a row, memory 8 bytes a feature.

    Deviations: the clip; running counts in the place of the known share; c is n / (2 n_y) of the paper
    times 2 min(n+, n-) / n, which moves no minimiser: with 2 % positives the paper's c makes the step of
    a positive row 25 times as long, and the ranking of such a stream ends .08 below the best instead of
    .01; an example's weight multiplies eta_t, where heavy weights are
    divided by the mean of c_y times the weight if that is above 2, and none counts more than twice the mean of its
    class; eta_t is at most 1/(2 lam), so that no step takes more than
    half of the weights away; `kappa=None`.

    References
    ----------
    .. [1] Kotlowski, Dembczynski, Huellermeier, "Bipartite Ranking through Minimization of Univariate
       Loss", ICML 2011.

    Examples
    --------
    >>> from aucstream import UnivariateExp
    >>> model = UnivariateExp()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > 0.0 > model.score_one({"a": -1.0})
    True
    """

    eta0: Annotated[float, Gt(0)] = 4.0
    lam: Annotated[float, Ge(0)] = 0.0
    clip: Annotated[float, Ge(0), InfinityAllowed()] = 1.0
    intercept: bool = True
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"eta0", "lam", "clip"})

    def _kernel_args(self) -> tuple[float, ...]:
        clip = min(self.clip, LARGEST_EXPONENT)
        return EXPONENTIAL, self.eta0, 0.0, self.lam, clip, self.intercept, self.kappa or 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta0": 1e6}
        yield {"eta0": 1e6, "clip": math.inf}
