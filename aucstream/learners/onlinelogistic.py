"""OnlineLogistic: logistic regression by stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

from aucstream.constraints import Ge, Gt
from aucstream.kernels.weights.univariate import LOGISTIC
from aucstream.learners._base.learner import learner
from aucstream.learners._families.univariate import Univariate


@learner
class OnlineLogistic(Univariate):
    """Online logistic regression, the baseline that looks at one row at a time.

    It learns from the first row on, one class or two, and costs less than any pairwise learner. Its loss
    is one of probabilities, not of the ranking, so a few rows far from the rest can move the whole line.

    Parameters
    ----------
    eta0 : float, default=16.0
        In (0, inf). Step eta0 / sqrt(t); the default is for rows of norm 1.
    eta_min : float, default=0.0
        In [0, inf). No step is shorter, so that a stream that changes is followed for ever: .1 to 1 where it does. On
        a stream that does not change the last weights then wander, and rank a little worse.
    lam : float, default=0.0
        In [0, inf). Penalty lam/2 |w|^2; the intercept has none.
    intercept : bool, default=True
        Whether the score has one; `intercept_` is its value.
    kappa : float or None, default=None
        In (0, inf). None: the running root mean square of the row norm takes the unit's place, so that
        rows of any scale work; a number gives the literal form, the same for every number.

    Notes
    -----
    With r = 1/(1 + exp(-w'x - b)) - [y > 0]::

        eta_t = max(eta_min, eta0 / sqrt(t)),  w -= eta_t (r x + lam w),  b -= eta_t r

    The output is the last w and b. Time O(nnz) a row, memory 8 bytes a feature.

    Deviations: an example's weight multiplies eta_t, where weights above 2 in the mean are divided by that of
    the heavier class and none counts more than 2; eta_t is at most 1/(2 lam), so that no step takes
    more than half of the weights away; `kappa=None`.

    References
    ----------
    .. [1] Zinkevich, "Online Convex Programming and Generalized Infinitesimal Gradient Ascent", ICML
       2003, with the logistic loss.

    Examples
    --------
    >>> from aucstream import OnlineLogistic
    >>> model = OnlineLogistic()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > 0.0 > model.score_one({"a": -1.0})
    True
    """

    eta0: Annotated[float, Gt(0)] = 16.0
    eta_min: Annotated[float, Ge(0)] = 0.0
    lam: Annotated[float, Ge(0)] = 0.0
    intercept: bool = True
    kappa: Annotated[float | None, Gt(0)] = None

    _steps_and_penalties = frozenset({"eta0", "eta_min", "lam"})

    def _kernel_args(self) -> tuple[float, ...]:
        return LOGISTIC, self.eta0, self.eta_min, self.lam, 0.0, self.intercept, self.kappa or 0.0

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"lam": 0.01, "intercept": False}
        yield {"eta_min": 0.5}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"eta0": 1e6}
        yield {"eta0": 1e6, "lam": 1e-3}
