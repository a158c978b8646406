"""What the batch references share: parameters, checks, scores, calibration, snapshots. No mathematics."""

from __future__ import annotations

import abc
import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from aucstream import snapshot
from aucstream.batch.pairs import Pairs, matrix_of
from aucstream.block import Block, Floats, signs_of
from aucstream.constraints import rules_of
from aucstream.errors import InvalidBlock, NotConverged
from aucstream.exclusive import Gate, exclusive, lock_free
from aucstream.features.intake import checked_array
from aucstream.kernels import ledger
from aucstream.learners._base.calibrated import CalibratedModel, new_ledger, whole_ledger
from aucstream.metrics.platt import refit

LARGEST = 1e140  # of a value: sums of squares stay finite


@dataclass(frozen=True, slots=True)
class Solution:
    """What a solver found.

    Attributes
    ----------
    weights : ndarray (d,)
    iterations : int
    objective : float
        Value of the objective at the weights.
    residual : float
        How far from the optimum: a gradient's norm or a duality gap.
    bound : float
        What the residual was to come down to.
    """

    weights: Floats
    iterations: int
    objective: float
    residual: float
    bound: float


class BatchRanker(CalibratedModel):
    """Array estimator that minimises a pairwise objective over all rows at once.

    Subclasses are keyword-only dataclasses of their parameters, checked at construction and at assignment.
    """

    lam: float
    tol: float

    def __post_init__(self) -> None:
        self._gate = Gate()
        self._solution = Solution(np.zeros(0), 0, 0.0, 0.0, 0.0)
        self._ledger = new_ledger()

    def __setattr__(self, name: str, value: Any) -> None:
        rule = rules_of(type(self)).get(name)
        object.__setattr__(self, name, value if rule is None else rule.checked(f"{type(self).__name__}.{name}", value))

    @abc.abstractmethod
    def _solve(self, pairs: Pairs) -> Solution:
        """Minimise over rows of both classes."""

    # -- fitting and scoring -------------------------------------------------------------------------

    @lock_free
    def fit(self, X: Any, y: Any) -> Self:
        """Minimise the objective over all pairs of (X, y), then calibrate on the scores.

        Parameters
        ----------
        X : ndarray or scipy sparse (n, d)
            Finite numbers. Sparse rows are never made dense.
        y : array (n,)
            Labels: False, 0, -1 or True, 1. With one class only the weights are 0.

        Returns
        -------
        self

        Warns
        -----
        NotConverged
            The iteration limit came first; the weights are the best found.

        Raises
        ------
        InvalidBlock, InvalidLabel
            Nothing was changed.
        """
        name = type(self).__name__
        block = checked_array(X)
        signs = signs_of(y, len(block))
        positives = int((signs > 0.0).sum())
        largest = float(np.abs(block.values).max(initial=0.0))
        too_large = InvalidBlock(f"{name}.fit: features", "numbers whose sums of squares are finite", largest)
        if not largest < LARGEST:
            raise too_large
        solution = Solution(np.zeros(block.width), 0, 0.0, 0.0, 0.0)
        with np.errstate(all="ignore"):  # what is not finite is found below
            if 0 < positives < len(block):
                solution = self._solve(Pairs(block, signs))
            scores = matrix_of(block) @ solution.weights
        if not np.isfinite([solution.objective, solution.residual]).all() or not np.isfinite(scores).all():
            raise too_large
        totals = new_ledger()
        totals[ledger.ROWS] = len(block)
        totals[ledger.POSITIVES] = positives
        refit(totals, scores, signs)
        self._replace(solution, totals)
        if not solution.residual <= solution.bound:
            warnings.warn(
                NotConverged(
                    f"{name}.fit",
                    f"a residual <= {solution.bound:.3g} within {solution.iterations} iterations",
                    solution.residual,
                ),
                stacklevel=2,
            )
        return self

    @exclusive
    def _replace(self, solution: Solution, line: Floats) -> None:
        self._solution, self._ledger = solution, line

    def decision_function(self, X: Any) -> Floats:
        """Return the ranking scores (n,) of an array (n, d); more columns than fitted are refused.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        ndarray (n,)
            Higher is more positive.

        Raises
        ------
        InvalidBlock
            A number is not finite, or there are more columns than were fitted.
        """
        block: Block = checked_array(X)
        width = self._solution.weights.size
        if block.width > width:
            raise InvalidBlock("features", f"at most {width} columns, as many as were learned", block.width)
        with np.errstate(all="ignore"):
            scores: Floats = matrix_of(block) @ self._solution.weights[: block.width]
        return scores

    def predict_proba(self, X: Any) -> Floats:
        """Return (n, 2): the calibrated probabilities of negative and positive; one half each before both classes.

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        ndarray (n, 2)
            Probabilities of negative and positive.

        Raises
        ------
        InvalidBlock
            A number is not finite, or there are more columns than were fitted.
        """
        p = self._probabilities(self.decision_function(X))
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> np.ndarray:
        """Return whether each row is more likely positive than not (n,).

        Parameters
        ----------
        X : ndarray (n, d) or scipy sparse (n, d)
            Finite numbers.

        Returns
        -------
        ndarray of bool (n,)

        Raises
        ------
        InvalidBlock
            A number is not finite, or there are more columns than were fitted.
        """
        return self._probabilities(self.decision_function(X)) > 0.5

    def probabilities(self, scores: Floats) -> Floats:
        """Return the calibrated probability (n,) of each score (n,).

        Parameters
        ----------
        scores : ndarray (n,)

        Returns
        -------
        ndarray (n,)
            Of the positive class.
        """
        return self._probabilities(scores)

    # -- reading -------------------------------------------------------------------------------------

    def coefficients(self) -> Floats:
        """Return the weights (d,), by column.

        Returns
        -------
        ndarray (d,)
            A copy.
        """
        return self._solution.weights.copy()

    @property
    def weights(self) -> dict[int, float]:
        """Column to weight."""
        return dict(enumerate(self._solution.weights.tolist()))

    @property
    def iterations(self) -> int:
        """Iterations of the last fit."""
        return self._solution.iterations

    @property
    def objective(self) -> float:
        """Value of the objective that the last fit reached; 0 with one class only."""
        return self._solution.objective

    # -- snapshots -----------------------------------------------------------------------------------

    def state_dict(self) -> tuple[snapshot.Arrays, dict[str, Any]]:
        """Return (arrays, meta) from which the model can be made again.

        Returns
        -------
        arrays : dict of ndarray
            By name.
        meta : dict
            All else, as JSON can say it: class, parameters, how the fit ended.
        """
        solution = self._solution
        arrays: snapshot.Arrays = {"weights": solution.weights.copy(), "ledger": self._ledger.copy()}
        return arrays, {
            "class": type(self).__name__,
            "params": {name: getattr(self, name) for name in rules_of(type(self))},
            "fit": [solution.iterations, solution.objective, solution.residual, solution.bound],
        }

    @classmethod
    def from_state_dict(cls, arrays: snapshot.Arrays, meta: dict[str, Any]) -> Self:
        """Return the model that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        model
        """
        model = cls(**meta["params"])
        model._solution = Solution(arrays["weights"], *meta["fit"])
        model._ledger = whole_ledger(arrays["ledger"])
        return model
