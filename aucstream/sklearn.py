"""`AUCClassifier`: any learner or pipeline as a scikit-learn classifier; needs aucstream[sklearn]."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from types import NoneType
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from aucstream.block import Floats
from aucstream.constraints import check_epochs
from aucstream.errors import AucstreamError, InvalidParams
from aucstream.features.frames import is_frame
from aucstream.learners._base.engine import indexable
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.pipeline import Pipeline, PipelineSpec
from aucstream.registry import learner_class, make

__all__ = ["AUCClassifier"]

_NESTED = "model__"
_ARRAYS: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64}


class AUCClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Binary classifier of scikit-learn that ranks by a learner of aucstream.

    Parameters
    ----------
    model : str, dict, learner or Pipeline, default="auto"
        Registry name of a learner (`aucstream models` lists them), which gets the scaling of a new model; a model in
        words, as `PipelineSpec`; or a learner or Pipeline, which is copied and stays as it is.
    params : dict, optional
        Parameters of the learner that is named, by name; the others have their defaults. `set_params(model__lam=…)`
        sets one of them.
    epochs : int, default=1
        Shuffled passes of `fit`, >= 1. What the learner's own `fit` understands by it.
    shuffle : bool, default=True
        False: `fit` learns the rows in their order, as a stream; for data that drifts.
    random_state : int or None, default=0
        Seed of a learner that is named. None draws one.

    Attributes
    ----------
    model_ : Pipeline or learner
        What has learned.
    classes_ : ndarray (2,)
        Sorted; the second one is the positive class.
    n_features_in_ : int
    feature_names_in_ : ndarray of str (n_features_in_,)
        Only after rows with string names.

    Notes
    -----
    `decision_function` returns the calibrated log odds, which rank rows as the learner's score does, so that its sign,
    `predict` and `predict_proba` agree.

    A data frame of pandas or polars, or an Arrow table, is read by its names, with categories, times and missing cells
    (see `learn_many`). As scikit-learn demands, its columns have the names and the order of those in `fit`; the methods
    of the learner itself go by the names alone. An array has the columns of `fit`, in their order.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.model_selection import cross_val_score
    >>> from aucstream.sklearn import AUCClassifier
    >>> X, y = make_classification(500, weights=[0.9], random_state=0)
    >>> float(cross_val_score(AUCClassifier("psam"), X, y, scoring="roc_auc").mean()) > 0.8
    True
    """

    def __init__(
        self,
        model: Any = "auto",
        *,
        params: Mapping[str, Any] | None = None,
        epochs: int = 1,
        shuffle: bool = True,
        random_state: int | None = 0,
    ) -> None:
        self.model = model
        self.params = params
        self.epochs = epochs
        self.shuffle = shuffle
        self.random_state = random_state

    # -- parameters ----------------------------------------------------------------------------------

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            Whether those of a learner that is named are there too, as `model__NAME`.

        Returns
        -------
        dict
        """
        values: dict[str, Any] = super().get_params(deep=False)
        if deep and isinstance(self.model, str) and isinstance(self.params, (Mapping, NoneType)):
            with contextlib.suppress(AucstreamError):  # values that `fit` will refuse
                learner = make(self.model, dict(self.params or {}))
                values |= {_NESTED + name: getattr(learner, name) for name in learner._parameters}
        return values

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; `model__NAME` is a parameter of the learner that is named.

        Parameters
        ----------
        **params
            Values by name.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            There is no such parameter.
        """
        own = {name: value for name, value in params.items() if not name.startswith(_NESTED)}
        nested = {name.removeprefix(_NESTED): value for name, value in params.items() if name.startswith(_NESTED)}
        super().set_params(**own)
        if nested:
            if not isinstance(self.model, str):
                raise InvalidParams("AUCClassifier.model", "a name where `model__…` is set", type(self.model).__name__)
            known = learner_class(self.model)._parameters
            for name in nested:
                if name not in known:
                    raise InvalidParams(f"AUCClassifier.{_NESTED}{name}", f"one of {', '.join(known)}", name)
            self.params = {**(self.params or {}), **nested}
        return self

    def _new_model(self) -> RankingClassifier:
        if isinstance(self.model, RankingClassifier):
            if self.params:
                raise InvalidParams("AUCClassifier.params", "None beside a model that is no name", dict(self.params))
            return self.model.clone()
        seed = self.random_state
        if isinstance(seed, np.random.RandomState):
            seed = int(seed.randint(2**31))
        if isinstance(self.model, str):
            return Pipeline.from_spec(PipelineSpec(algorithm=self.model, params=dict(self.params or {}), seed=seed))
        if isinstance(self.model, (Mapping, PipelineSpec)):
            if self.params:
                raise InvalidParams("AUCClassifier.params", "None beside a model that is no name", dict(self.params))
            return Pipeline.from_spec(self.model)
        raise InvalidParams(
            "AUCClassifier.model", "a name, a model in words, a learner or a Pipeline", type(self.model).__name__
        )

    # -- learning ------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Start anew and learn all rows.

        Parameters
        ----------
        X : array, scipy sparse or data frame (n, d)
        y : array (n,)
            Labels of two classes.
        sample_weight : array (n,), optional
            Finite, >= 0. With weights that differ, `fit` is `epochs` shuffled passes for every learner.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Rows, labels or weights cannot be used; nothing was changed.
        """
        check_epochs(self.epochs)
        X, y = self._checked_both(X, y, reset=True)
        classes = np.unique(y)
        if classes.size != 2:
            raise ValueError(
                f"AUCClassifier.fit: y: expected two classes, got {classes.size} class: {classes.tolist()}"
            )
        weights = self._weights(X, sample_weight)
        signs = np.where(y == classes[1], 1.0, -1.0)
        model = self._new_model()
        if weights is None and self.shuffle:
            model.fit(X, signs, self.epochs)
        else:
            self._passes(model, X, signs, weights)
        self.model_, self.classes_ = model, classes
        return self

    def _passes(self, model: RankingClassifier, X: Any, signs: Floats, weights: Floats | None) -> None:
        rows, n = indexable(X), signs.size
        random = np.random.default_rng(getattr(model, "_seed", 0))
        model._look_at(rows)
        for _ in range(self.epochs):
            order = random.permutation(n) if self.shuffle else np.arange(n)
            model.partial_fit(rows[order], signs[order], None if weights is None else weights[order])
        model._end_warmup()

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn rows in order, after those before.

        Parameters
        ----------
        X : array, scipy sparse or data frame (n, d)
        y : array (n,)
            Labels.
        classes : array (2,), optional
            The two classes; needed in the first call.
        sample_weight : array (n,), optional
            Finite, >= 0.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            Rows, labels or weights cannot be used; nothing was changed.
        """
        first = not hasattr(self, "classes_")
        if first and classes is None:
            raise ValueError("AUCClassifier.partial_fit: classes: expected the two classes in the first call, got None")
        known = np.unique(classes) if first else self.classes_
        if classes is not None and not np.array_equal(np.unique(classes), known):
            raise ValueError(f"AUCClassifier.partial_fit: classes: expected {known.tolist()}, got {list(classes)}")
        if known.size != 2:
            raise ValueError(f"AUCClassifier.partial_fit: classes: expected two classes, got {known.tolist()}")
        X, y = self._checked_both(X, y, reset=first)
        other = set(np.unique(y).tolist()) - set(known.tolist())
        if other:
            raise ValueError(
                f"AUCClassifier.partial_fit: y: expected labels among {known.tolist()}, got {min(other)!r}"
            )
        weights = self._weights(X, sample_weight)
        model = self._new_model() if first else self.model_
        model.partial_fit(X, np.where(y == known[1], 1.0, -1.0), weights)
        self.model_, self.classes_ = model, known
        return self

    def _checked(self, X: Any) -> Any:
        """Return rows as scikit-learn checks them, beside those of `fit`; a frame stays a frame."""
        if is_frame(X):
            validate_data(self, X, reset=False, skip_check_array=True)
            return X
        return validate_data(self, X, reset=False, **_ARRAYS)

    def _checked_both(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, np.ndarray]:
        """Return rows and labels as scikit-learn checks them; a frame stays a frame."""
        if is_frame(X):
            validate_data(self, X, y, reset=reset, skip_check_array=True)
            y = np.asarray(y)
        else:
            X, y = validate_data(self, X, y, reset=reset, **_ARRAYS)
        check_classification_targets(y)
        if np.unique(y).size > 2:
            raise ValueError("Only binary classification is supported. The type of the target is multiclass.")
        return X, y

    def _weights(self, X: Any, sample_weight: Any) -> Floats | None:
        """Return the weights (n,); None where each row counts 1."""
        if sample_weight is None:
            return None
        weights = _check_sample_weight(
            sample_weight, np.empty((_rows(X), 0)), dtype=np.float64, ensure_non_negative=True
        )
        return None if (weights == 1.0).all() else weights

    # -- reading -------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Floats:
        """Return the calibrated log odds of the positive class; the learner's score where it has no calibration.

        Parameters
        ----------
        X : array, scipy sparse or data frame (n, d)

        Returns
        -------
        ndarray (n,)
        """
        check_is_fitted(self)
        scores = self.model_.decision_function(self._checked(X))
        line = self.model_.engine.calibration_line
        if line is None or getattr(self.model_, "calibration", "logistic") == "none":
            return scores
        slope, intercept = line
        return slope * scores + intercept

    def predict_proba(self, X: Any) -> Floats:
        """Return the calibrated probabilities of both classes.

        Parameters
        ----------
        X : array, scipy sparse or data frame (n, d)

        Returns
        -------
        ndarray (n, 2)
            In the order of `classes_`.
        """
        check_is_fitted(self)
        scores = self.model_.decision_function(self._checked(X))
        p = self.model_.engine.probabilities(scores)
        return np.column_stack([1.0 - p, p])

    def predict(self, X: Any) -> np.ndarray:
        """Return the more probable class of each row.

        Parameters
        ----------
        X : array, scipy sparse or data frame (n, d)

        Returns
        -------
        ndarray (n,)
        """
        positive = self.decision_function(X) > 0.0
        return self.classes_[positive.astype(np.intp)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.sparse = True
        return tags


def _rows(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else int(X.num_rows)
