"""FTRL: FTRL-Proximal, sparse online logistic regression with a step for each coordinate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, Self

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import Ge, Gt
from aucstream.exclusive import exclusive
from aucstream.kernels.auc.calibration import sigmoid
from aucstream.kernels.jit import jit
from aucstream.kernels.ledger import CAL_NEGATIVE, CAL_POSITIVE
from aucstream.kernels.rows.arrival import LARGEST, count_example
from aucstream.kernels.rows.linear import dot, norm
from aucstream.kernels.weights.example_weights import by_mean
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner, learner
from aucstream.learners._base.state import Fixed, Program, Unit, UnitChange, Vector

Z, N = range(2)  # layout of State.own: the intercept's coordinate
LONGEST = 1e145  # row norm; its square enters n


@jit
def _direction(z, n, l1, alpha, beta, l2):
    """Return the weight that a coordinate's z and n stand for, over alpha; one division and no branch."""
    size = max(abs(z) - l1, 0.0)
    return (size if z < 0.0 else 0.0 - size) / (beta + math.sqrt(n) + alpha * l2)


@jit
def _weight(z, n, l1, alpha, beta, l2):
    """Return the weight that a coordinate's z and n stand for."""
    return alpha * _direction(z, n, l1, alpha, beta, l2)


@jit
def _moved(z, n, g, direction, weight):
    """Return (z, n) of a coordinate of a weight of alpha times `direction` after a gradient g."""
    square = n + g * g
    return z + weight * g - (math.sqrt(square) - math.sqrt(n)) * direction, square


@jit
def _sums(z, n, idx, x, alpha, beta, l1, l2):
    """Return (w'x, sum of |w_j x_j|), the weights made from z and n as they are met."""
    total = 0.0
    size = 0.0
    for k in range(x.size):
        j = k if idx is None else idx[k]
        part = x[k] * _weight(z[j], n[j], l1, alpha, beta, l2)
        total += part
        size += abs(part)
    return total, size


@jit
def step(z, n, own, ledger, idx, x, y, weight, alpha, beta, l1, l2, intercept):
    """One update of the row's coordinates and of the intercept; writes z, n, own, ledger.

    Returns the score before it; NaN where the row was skipped.
    """
    total, size = _sums(z, n, idx, x, alpha, beta, l1, l2)
    bias = _weight(own[Z], own[N], 0.0, alpha, beta, l2)
    score = total + bias
    length = norm(x)
    # No z moves further than this: sigma_j |w_j| <= |g_j| |w_j| / alpha.
    reach = weight * (1.0 + length) + (size + abs(bias)) / alpha
    seen = ledger[CAL_POSITIVE] + ledger[CAL_NEGATIVE] + weight
    if not (math.isfinite(score) and length < LONGEST and reach < LARGEST and seen < LARGEST):
        return math.nan
    effective = by_mean(ledger, y, weight)
    count_example(ledger, score, y, weight)
    r = sigmoid(score) - (1.0 if y > 0.0 else 0.0)
    for k in range(x.size):
        j = k if idx is None else idx[k]
        z[j], n[j] = _moved(z[j], n[j], r * x[k], _direction(z[j], n[j], l1, alpha, beta, l2), effective)
    if intercept:
        own[Z], own[N] = _moved(own[Z], own[N], r, bias / alpha, effective)
    return score


@jit
def score_row(z, n, own, ledger, idx, x, alpha, beta, l1, l2, intercept):
    """Return the score of a row; changes nothing."""
    total, _ = _sums(z, n, idx, x, alpha, beta, l1, l2)
    return total + _weight(own[Z], own[N], 0.0, alpha, beta, l2)


class State(NamedTuple):
    """2 d + 2 floats."""

    z: Annotated[Floats, Vector(Unit.OWN)]  # gradients less what the weights' steps took
    n: Annotated[Floats, Vector(Unit.OWN)]  # squared gradients
    own: Annotated[Floats, Fixed(2)]


def _program(intercept: bool) -> Program:
    return Program(State, step, score_row, intercept=intercept)


_WITH_INTERCEPT, _WITHOUT = _program(True), _program(False)


@learner
class FTRL(Learner):
    """FTRL-Proximal: logistic regression with l1 and a step of its own for each coordinate.

    For many rare features: a feature that came seldom still has a large step, and one that has not earned
    its l1 has weight exactly 0. It learns from the first row on, one class or two.

    Parameters
    ----------
    alpha : float, default=2.0
        In (0, inf). Step of a coordinate: alpha / (beta + sqrt(sum of its squared gradients)).
    beta : float, default=1.0
        In (0, inf). Keeps first steps finite.
    l1 : float, default=0.1
        In [0, inf). Weights are 0 where |z| <= l1; the intercept has none.
    l2 : float, default=0.0
        In [0, inf). Penalty l2/2 |w|^2; the intercept's too.
    intercept : bool, default=True
        Whether the score has one, a coordinate whose value is always 1; `intercept_` is its weight.

    Notes
    -----
    For each coordinate of the row, and with x = 1, l1 = 0 for the intercept [1]_::

        w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)
        g = (1/(1 + exp(-w'x - b)) - [y > 0]) x
        z += g - (sqrt(n + g^2) - sqrt(n)) / alpha w,   n += g^2

    The output is the last w and b. With l1 = l2 = 0 this is w -= alpha g / (beta + sqrt(n)). Time O(nnz) a
    row to learn and to score: weights are made from z and n where a row meets them. Memory 16 bytes a
    feature.

    There is no kappa: steps follow each coordinate's own gradients. A single huge value shortens its
    column's steps for good, so raw columns belong behind a scaler.

    A change of the features' units (x = ratio x' + shift) keeps the function: with w' = ratio w the
    gradients are g / ratio, hence n' = n / ratio^2, and z' is the one that stands for w' beside n'. Where
    w = 0, z is a sum of gradients and is divided by the ratio, kept within l1. The intercept takes up
    w'shift. Parameters that change later keep the weights in the same way.

    Deviations: an example's weight multiplies g in z, the step, and not what enters n; there weights above
    2 in the mean are divided by that of the heavier class, and none counts more than 2.

    References
    ----------
    .. [1] McMahan et al., "Ad Click Prediction: a View from the Trenches", KDD 2013, Algorithm 1.

    Examples
    --------
    >>> from aucstream import FTRL
    >>> model = FTRL()
    >>> for a, y in [(1.0, True), (-1.0, False)] * 100:
    ...     model.learn_one({"a": a}, y)
    >>> model.score_one({"a": 1.0}) > 0.0 > model.score_one({"a": -1.0})
    True
    """

    alpha: Annotated[float, Gt(0)] = 2.0
    beta: Annotated[float, Gt(0)] = 1.0
    l1: Annotated[float, Ge(0)] = 0.1
    l2: Annotated[float, Ge(0)] = 0.0
    intercept: bool = True

    _capabilities = Learner._capabilities | {Capability.ONE_CLASS}
    _steps_and_penalties = frozenset({"alpha", "beta", "l1", "l2"})

    def _chosen_program(self) -> Program:
        return _WITH_INTERCEPT if self.intercept else _WITHOUT

    def _kernel_args(self) -> tuple[float, ...]:
        return self.alpha, self.beta, self.l1, self.l2, self.intercept

    @exclusive
    def _change_parameter(self, name: str, value: Any) -> None:
        w, b = self.coefficients(), self.intercept_
        super()._change_parameter(name, value)
        self._stand_for(w, b)

    def _coefficients_at(self, columns: Ints) -> Floats:
        """Return the weights (n,) of the score in these columns, without the intercept."""
        self._ensure(self._encoder.width)
        z, n = self._field("z")[columns], self._field("n")[columns]
        return np.where(np.abs(z) <= self.l1, 0.0, (np.copysign(self.l1, z) - z) / self._stiffness(n))

    def _stiffness(self, n: Any) -> Any:
        return (self.beta + np.sqrt(n)) / self.alpha + self.l2

    def _stand_for(self, w: Floats, b: float) -> None:
        """Choose z so that the weights are `w` (d,) beside the n there is, and the intercept `b`."""
        z, n, own = self._arrays
        d = w.size
        inside = np.clip(z[:d], -self.l1, self.l1)
        z[:d] = np.where(w == 0.0, inside, -(w * self._stiffness(n[:d]) + np.copysign(self.l1, w)))
        own[Z] = -b * self._stiffness(own[N]) if b else 0.0

    def _carry_own(self, fields: dict[str, Any], change: UnitChange) -> None:
        d = change.ratio.size
        z, n = fields["z"][:d], fields["n"][:d]
        w, b = self._coefficients_at(np.arange(d)), self.intercept_
        moved = np.flatnonzero(change.shift)
        if self.intercept and moved.size:
            b += dot(None, change.offset_shift[moved], w[moved])
        w *= change.ratio if change.growth is None else change.ratio / change.growth
        with np.errstate(over="ignore"):
            inverse = np.minimum(np.divide(1.0, change.row_ratio, out=np.zeros(d), where=change.ratio > 0.0), LARGEST)
            n[:] = np.minimum(n * inverse * inverse, LARGEST)
            z *= np.where(w == 0.0, inverse, 1.0)
        self._stand_for(w, b)

    def _take(self, other: Self, columns: Ints) -> None:
        """Average the weights; sums of gradients and of their squares add up."""
        if other.examples == 0:
            return
        share = other.examples / (self.examples + other.examples)
        known = columns >= 0
        to = columns[known]
        w = (1.0 - share) * self.coefficients()
        w[to] += share * other.coefficients()[known]
        b = (1.0 - share) * self.intercept_ + share * other.intercept_
        for name in ("z", "n"):
            self._field(name)[to] += other._field(name)[: columns.size][known]
        self._field("own")[N] += other._field("own")[N]
        self._stand_for(w, b)

    @classmethod
    def _unit_test_params(cls) -> Iterator[dict[str, Any]]:
        yield {}
        yield {"l1": 0.0, "intercept": False}

    @classmethod
    def _extreme_params(cls) -> Iterator[dict[str, Any]]:
        yield {"alpha": 1e6}
        yield {"alpha": 1e6, "beta": 1e-6, "l1": 0.0}
