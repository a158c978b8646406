"""The public surface that learners and `Pipeline` share, written once; no mathematics.

A subclass gives `_learn(block)`, `_score(block)` and what the methods of one row take (`one_row.py`);
everything a user calls is made of these.
"""

from __future__ import annotations

import abc
import math
from typing import Any, Self

import numpy as np

from aucstream import snapshot
from aucstream.block import Block, Floats, signs_of
from aucstream.constraints import check_epochs
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.exclusive import exclusive, lock_free
from aucstream.features.encoding.hashing import Hashing
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.frames import frame_like, series_like, table_of
from aucstream.features.intake import array_block, is_table
from aucstream.kernels.ledger import (
    CAL_INTERCEPT,
    CAL_ON,
    CAL_RMS2,
    CAL_SLOPE,
)
from aucstream.learners._base.engine import Engine, indexable, row_count
from aucstream.learners._base.one_row import RowClassifier


class RankingClassifier(RowClassifier):
    """Binary classifier that ranks: a River estimator and an array estimator at once."""

    # -- what a subclass gives -------------------------------------------------------------------

    @abc.abstractmethod
    def _learn(self, block: Block) -> Floats:
        """Learn a block row by row; return the score before each update, NaN where a row was skipped."""

    @abc.abstractmethod
    def _score(self, block: Block) -> Floats:
        """Return the scores (n,) of a block."""

    @classmethod
    @abc.abstractmethod
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

        Raises
        ------
        BadSnapshot
            Something is not there, or of another shape.
        """

    @property
    def _learns_every_row(self) -> bool:
        """Whether no row of finite values of ordinary size is skipped."""
        return False

    @abc.abstractmethod
    def _checkpoint(self) -> Any:
        """Return a copy of all that learning changes but the names, for `_restore`."""

    @abc.abstractmethod
    def _restore(self, checkpoint: Any) -> None:
        """Restore what `_checkpoint` returned."""

    @abc.abstractmethod
    def _bytes_at(self, more: int) -> int:
        """Return the bytes that one step may have to write when the encoder has so many columns more."""

    @property
    @abc.abstractmethod
    def weights(self) -> dict[Any, float]:
        """Name to weight of the output score."""

    @abc.abstractmethod
    def _reset(self) -> None:
        """Go back to the state right after construction."""

    @exclusive
    def clone(self, new_params: dict[str, Any] | None = None, include_attributes: bool = False) -> Self:
        """Return a model with the same parameters, with its state too where attributes are included.

        Parameters
        ----------
        new_params : dict, optional
            Parameters that differ, by name.
        include_attributes : bool, default=False
            Whether the copy has what was learned, too.

        Returns
        -------
        model

        Raises
        ------
        InvalidParams
            A new parameter is out of its range.
        """
        return super().clone(new_params, include_attributes)

    @property
    @lock_free
    def engine(self) -> Engine:
        """The interface of file readers and of the service: rows and blocks, each score before its update."""
        return Engine(self)

    # -- frames ----------------------------------------------------------------------------------

    def learn_many(self, X: Any, y: Any, w: Any = None) -> None:
        """Learn the rows of a data frame in order; the same as the loop of `learn_one`, to the last bit.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.
        y : Series or array (n,)
            Labels.
        w : array (n,), float or None
            Weights.

        Raises
        ------
        InvalidBlock, InvalidLabel
            A row, a weight or a label cannot be used; nothing was changed.
        NonFiniteStep
            Once, at the end, with the numbers of the rows that were skipped.
        """
        self._raise_skipped(self.engine.learn_array(table_of(X), y, w))

    def score_many(self, X: Any) -> Any:
        """Return the ranking scores of a data frame. Changes nothing.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.

        Returns
        -------
        Series (n,)
            Of the library of `X`, with its index in pandas; as `score_one` of each row.

        Raises
        ------
        InvalidBlock
            Names the row, the feature and the value that cannot be used.
        """
        return series_like(X, self.engine.score_table(X), "score")

    def predict_proba_many(self, X: Any) -> Any:
        """Return the calibrated probabilities of a data frame. Changes nothing.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.

        Returns
        -------
        DataFrame (n, 2)
            Columns False and True, of the library of `X`, with its index in pandas. In polars and Arrow, whose names are
            strings, "False" and "True".

        Raises
        ------
        InvalidBlock
            Names the row, the feature and the value that cannot be used.
        """
        p = self._probabilities(self.engine.score_table(X))
        return frame_like(X, {False: 1.0 - p, True: p})

    def predict_many(self, X: Any) -> Any:
        """Return whether each row of a data frame is more likely positive than not.

        Parameters
        ----------
        X : DataFrame (n, d) of pandas or polars, Arrow table or record batch
            Null, NaN, NaT and NA are missing.

        Returns
        -------
        Series of bool (n,)
            Of the library of `X`, with its index in pandas.

        Raises
        ------
        InvalidBlock
            Names the row, the feature and the value that cannot be used.
        """
        return series_like(X, self._probabilities(self.engine.score_table(X)) > 0.5)

    # -- arrays ----------------------------------------------------------------------------------

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows of an array or a data frame in order: the fast path.

        Parameters
        ----------
        X : ndarray (n, d), scipy sparse (n, d), or data frame (n, d)
            Finite numbers. More columns than before widen the model. The columns of a frame are known by their names,
            as in `learn_many`.
        y : array (n,)
            Labels.
        sample_weight : array (n,) or None
            Weights, finite, >= 0.

        Returns
        -------
        self

        Raises
        ------
        InvalidBlock, InvalidLabel
            Nothing was changed.
        NonFiniteStep
            At the end, with the numbers of the rows that were skipped.
        """
        self._raise_skipped(self.engine.learn_array(X, y, sample_weight))
        return self

    def _learn_array(self, X: Any, signs: Floats, weights: Floats) -> Floats:
        """Learn an array whose labels and weights are checked; nothing is changed where a row cannot be used."""
        return self._learn(array_block(self._encoder, self._read_array(X), signs, weights, learn=True))

    def decision_function(self, X: Any) -> Floats:
        """Return the ranking scores of an array or a data frame. Changes nothing.

        Parameters
        ----------
        X : ndarray (n, d), scipy sparse (n, d), or data frame (n, d)
            Finite numbers; column j of an array is the integer name j. The columns of a frame are known by their names.

        Returns
        -------
        ndarray (n,)
            Higher is more positive.

        Raises
        ------
        InvalidBlock
            A number is not finite, or there are more columns than were learned.
        """
        if is_table(X):
            return self.engine.score_table(X)
        return self._score(array_block(self._encoder, self._read_array(X), learn=False))

    def _raise_skipped(self, scores: Floats) -> None:
        skipped = np.flatnonzero(np.isnan(scores))
        if skipped.size:
            raise NonFiniteStep(type(self).__name__, skipped.tolist(), scores)

    def fit(self, X: Any, y: Any, epochs: int = 1) -> Self:
        """Start anew and make `epochs` shuffled passes over (X, y); calibrate on the final scores.

        Parameters
        ----------
        X : ndarray, scipy sparse or data frame (n, d)
            Finite numbers; in a frame all that `learn_many` takes.
        y : array (n,)
            Labels.
        epochs : int
            Passes, >= 1.

        Returns
        -------
        self

        Raises
        ------
        InvalidBlock, InvalidLabel, InvalidParams
            Nothing was changed.
        """
        check_epochs(epochs)
        n = row_count(X)
        signs = signs_of(y, n)
        array_block(Vocabulary(), X, learn=True)
        self._reset()
        rows = self._read_array(indexable(X))
        self._look_at(rows)
        order = np.random.default_rng(getattr(self, "_seed", 0))
        for _ in range(epochs):
            shuffled = order.permutation(n)
            self.engine.learn_array(rows[shuffled], signs[shuffled])
        self._calibrate_on(self.decision_function(rows), signs)
        return self

    def _look_at(self, X: Any) -> None:
        """See all rows of `fit` before the first pass: what is fitted on many rows at once is fitted here."""

    def _end_warmup(self) -> None:
        """Wait for no more rows: what is fitted on the first ones of a stream is fitted on those there are."""

    def _calibrate_on(self, scores: Floats, signs: Floats) -> None:
        from aucstream.metrics.platt import refit

        refit(self._ledger, scores, signs)

    # -- reading ---------------------------------------------------------------------------------

    @property
    def _calibration_line(self) -> tuple[float, float] | None:
        """(slope, intercept) of the log odds on the score; None until both classes were seen."""
        ledger = self._ledger
        if ledger[CAL_ON] == 0.0:
            return None
        return ledger.item(CAL_SLOPE) / math.sqrt(ledger.item(CAL_RMS2)), ledger.item(CAL_INTERCEPT)

    def _names(self) -> list[Any]:
        if isinstance(self._encoder, Hashing):
            raise InvalidParams("weights", "an encoder that keeps names", "hashing")
        if not isinstance(self._encoder, Vocabulary):
            raise InvalidParams("weights", "an encoder that keeps names", type(self._encoder).__name__)
        return self._encoder.names
