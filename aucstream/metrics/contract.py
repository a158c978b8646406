"""River's contract of a metric. Importing it takes a second: River brings its own metrics, and those scipy.stats."""

from __future__ import annotations

from typing import Any

from river import base
from river.metrics.base import BinaryMetric

from aucstream.exclusive import Exclusive, Gate


class RankingMetric(Exclusive, BinaryMetric):
    """A River binary metric of scores or probabilities: takes those, not labels; a row counts once, whatever its weight."""

    def __init__(self) -> None:
        self._gate = Gate()
        # BinaryMetric.__init__ would make a confusion matrix, which nothing here reads.
        self.pos_val = True
        self._requires_labels = False

    @property
    def requires_labels(self) -> bool:
        """False: River passes what `predict_proba_one` returned."""
        return False

    @property
    def bigger_is_better(self) -> bool:
        """True."""
        return True

    @property
    def works_with_weights(self) -> bool:
        """False: `update` takes a weight and leaves it out."""
        return False

    def works_with(self, model: Any) -> bool:
        """Return whether `model` is a classifier or an anomaly detector.

        Parameters
        ----------
        model : object

        Returns
        -------
        bool
        """
        return isinstance(model, (base.Classifier, base.AnomalyDetector, base.AnomalyFilter))

    def revert(self, y_true: Any, y_pred: Any, w: float = 1.0) -> None:
        """Refuse: a metric with `window=n` forgets old rows by itself.

        Parameters
        ----------
        y_true, y_pred, w
            As in `update`.

        Raises
        ------
        NotImplementedError
            Always.
        """
        name = type(self).__name__
        raise NotImplementedError(f"{name}.revert: expected no call (the last n rows: {self._with_window()})")

    def _with_window(self) -> str:
        return f"{type(self).__name__ if hasattr(self, 'window') else 'AUC'}(window=n)"
