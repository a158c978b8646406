"""`AUCClassifier` is a scikit-learn classifier: its checks, model selection, pipelines and frames."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import SGDClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator, estimator_checks_generator

from aucstream import PSAM, AutoScale, Pipeline
from aucstream.errors import UnknownLearner
from aucstream.registry import LEARNERS
from aucstream.sklearn import AUCClassifier

# rows of weight 2 are no two rows to a stochastic step; scikit-learn expects the same of its own
SGD_FAILS = {"check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"}


def rows(n=600, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 5))
    y = rng.random(n) < 1 / (1 + np.exp(-(3 * X[:, 0] - 2 * X[:, 1] - 2)))
    return X, y


def frame(n=600, seed=0):
    X, y = rows(n, seed)
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(X, columns=list("abcde"))
    table["shop"] = rng.choice(["north", "south"], n)
    table["at"] = pd.date_range("2026-01-01", periods=n, freq="h")
    table.loc[::7, "c"] = np.nan
    return table, y


@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_own_stochastic_classifier_fails_the_same_checks():
    failed = {
        check["check_name"] for check in check_estimator(SGDClassifier(), on_fail=None) if check["status"] != "passed"
    }
    assert failed - {"check_array_api_input"} >= SGD_FAILS


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["psam", "mba", "auto"])
def test_scikit_learns_checks_pass(name):
    for check in check_estimator(AUCClassifier(name), on_fail=None, on_skip=None):
        if check["check_name"] == "check_array_api_input":
            continue  # skipped unless SCIPY_ARRAY_API is set, for every estimator
        if check["check_name"] in SGD_FAILS:
            continue
        assert check["status"] == "passed", (check["check_name"], check["exception"])


def test_the_checks_are_those_of_a_binary_classifier():
    names = {check.func.__name__ for _, check in estimator_checks_generator(AUCClassifier("psam"))}
    assert {
        "check_classifiers_train",
        "check_estimators_partial_fit_n_features",
        "check_estimator_sparse_array",
    } <= names


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_ranks_by_name(name):
    X, y = rows(1500)
    model = AUCClassifier(name).fit(X[:1000], y[:1000])
    assert roc_auc_score(y[1000:], model.decision_function(X[1000:])) > 0.8
    p = model.predict_proba(X[1000:])
    assert p.shape == (500, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X[1000:]), p[:, 1] > 0.5)


def test_labels_are_what_they_were():
    X, y = rows()
    model = AUCClassifier("psam").fit(X, np.where(y, "yes", "no"))
    assert model.classes_.tolist() == ["no", "yes"]
    assert set(model.predict(X)) == {"no", "yes"}
    assert model.predict_proba(X)[y, 1].mean() > model.predict_proba(X)[~y, 1].mean()
    with pytest.raises(ValueError, match=r"two classes, got 1 class"):
        AUCClassifier("psam").fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="Only binary classification"):
        AUCClassifier("psam").fit(X, np.arange(len(y)) % 3)


def test_model_selection_and_pipelines():
    X, y = rows()
    scores = cross_val_score(AUCClassifier("psam"), X, y, scoring="roc_auc", cv=3)
    assert scores.min() > 0.8
    search = GridSearchCV(
        AUCClassifier("psam"), {"model__lam": [1e-5, 10.0], "epochs": [1, 3]}, scoring="roc_auc", cv=3, n_jobs=2
    ).fit(X, y)
    assert search.best_params_["model__lam"] == 1e-5
    assert search.best_estimator_.model_.learner.lam == 1e-5
    steps = make_pipeline(StandardScaler(), AUCClassifier({"algorithm": "solam", "scaler": "none"}))
    assert cross_val_score(steps, X, y, scoring="roc_auc", cv=3).min() > 0.8
    steps.set_output(transform="pandas")
    steps.fit(pd.DataFrame(X, columns=list("abcde")), y)
    assert steps[-1].feature_names_in_.tolist() == list("abcde")
    assert "a" in steps[-1].model_.weights


def test_parameters_of_the_learner_are_set_by_name():
    model = AUCClassifier("psam", params={"lam": 1e-3})
    assert model.get_params()["model__lam"] == 1e-3
    copy = clone(model.set_params(model__rskip=4, epochs=2))
    assert (copy.params, copy.epochs) == ({"lam": 1e-3, "rskip": 4}, 2)
    with pytest.raises(ValueError, match=r"model__steps: expected one of .*lam"):
        model.set_params(model__steps=1)
    with pytest.raises(ValueError, match="a name where"):
        AUCClassifier(PSAM()).set_params(model__lam=1.0)
    with pytest.raises(UnknownLearner, match="learner: expected one of"):
        AUCClassifier("nothing").fit(*rows())
    with pytest.raises(ValueError, match=r"PSAM.lam"):
        AUCClassifier("psam", params={"lam": -1.0}).fit(*rows())
    with pytest.raises(ValueError, match=r"AUCClassifier\.model"):
        AUCClassifier(3).fit(*rows())
    with pytest.raises(ValueError, match=r"AUCClassifier\.params"):
        AUCClassifier(PSAM(), params={"lam": 1.0}).fit(*rows())


def test_a_pipeline_is_copied_and_stays_as_it_is():
    X, y = rows()
    steps = Pipeline(AutoScale(), PSAM(lam=1e-4))
    model = AUCClassifier(steps).fit(X, y)
    assert steps.examples == 0
    assert model.model_.examples == len(y)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).decision_function(X), model.decision_function(X))


def test_fit_is_the_fit_of_the_learner():
    X, y = rows()
    model = AUCClassifier("mba").fit(X, y)
    other = Pipeline(AutoScale(), model.model_.learner.clone()).fit(X, y)
    np.testing.assert_array_equal(model.model_.decision_function(X), other.decision_function(X))
    line = other.engine.calibration_line
    np.testing.assert_array_equal(model.decision_function(X), line[0] * other.decision_function(X) + line[1])


def test_rows_in_their_order_are_a_stream():
    X, y = rows()
    model = AUCClassifier("psam", shuffle=False).fit(X, y)
    stream = AUCClassifier("psam")
    for part in (slice(0, 100), slice(100, 600)):
        stream.partial_fit(X[part], y[part], classes=[False, True])
    np.testing.assert_array_equal(model.decision_function(X), stream.decision_function(X))


def test_weights_count():
    X, y = rows()
    even = AUCClassifier("psam").fit(X, y, sample_weight=np.ones(len(y)))
    np.testing.assert_array_equal(even.decision_function(X), AUCClassifier("psam").fit(X, y).decision_function(X))
    heavy = AUCClassifier("psam").fit(X, y, sample_weight=np.where(y, 20.0, 1.0))
    assert heavy.predict_proba(X)[:, 1].mean() > 2 * even.predict_proba(X)[:, 1].mean()
    with pytest.raises(ValueError, match="sample_weight"):
        AUCClassifier("psam").fit(X, y, sample_weight=-np.ones(len(y)))


def test_frames_go_by_names():
    table, y = frame()
    model = AUCClassifier("psam").fit(table, y)
    assert model.n_features_in_ == 7
    assert {"a", "shop=north", "at"} <= model.model_.weights.keys()
    assert roc_auc_score(y, model.decision_function(table)) > 0.85
    for other in (pl.from_pandas(table), pa.Table.from_pandas(table, preserve_index=False)):
        same = AUCClassifier("psam").fit(other, y)
        np.testing.assert_allclose(same.decision_function(other), model.decision_function(table), rtol=1e-12)
    with pytest.raises(ValueError, match="same order"):
        model.predict(table[table.columns[::-1]])
    reversed_scores = model.model_.decision_function(table[table.columns[::-1]])
    np.testing.assert_allclose(reversed_scores, model.model_.decision_function(table), rtol=1e-9)


def test_partial_fit_needs_the_classes_once():
    X, y = rows()
    with pytest.raises(ValueError, match="classes: expected the two classes in the first call"):
        AUCClassifier("psam").partial_fit(X, y)
    with pytest.raises(ValueError, match="expected two classes"):
        AUCClassifier("psam").partial_fit(X, y, classes=[0, 1, 2])
    model = AUCClassifier("psam").partial_fit(X[:50], y[:50], classes=[False, True])
    with pytest.raises(ValueError, match="labels among"):
        model.partial_fit(X, np.full(len(y), 7))
    with pytest.raises(ValueError, match="classes"):
        model.partial_fit(X, y, classes=[0, 5])
    assert model.model_.examples == 50
    with pytest.raises(NotFittedError):
        AUCClassifier("psam").predict(X)


def test_a_column_transformer_stands_before_it():
    table, y = frame()
    steps = make_pipeline(make_column_transformer((StandardScaler(), ["a", "b"])), AUCClassifier("psam"))
    assert steps.fit(table, y).score(table, y) > 0.7
