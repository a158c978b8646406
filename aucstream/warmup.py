"""Compile every kernel, or load it from the cache, so that no caller waits for it later."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np

from aucstream.features.maps.maps import MAPS
from aucstream.features.scaling.scalers import AutoScale, Standardize, UnitNorm
from aucstream.io.csv import read_csv
from aucstream.io.json_rows import JsonRows
from aucstream.io.svmlight import read_svmlight
from aucstream.kernels.auc import losses as judging
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner
from aucstream.metrics import AUC, FadingAUC, PairedAUC
from aucstream.pipeline import Pipeline
from aucstream.registry import LEARNERS, learner_class, make

ROWS = 48  # past the first change of units on the schedule
MAPPED = (  # the members behind maps that `Auto` has at its defaults, after a shorter warm-up
    "arctan+bounded/randomthresholds(components=8;warmup=24)/mba arctan+bounded/kmeansnystroem(landmarks=8;warmup=24)/mba"
)


def warm(names: Iterable[str] | None = None, said: Callable[[str], None] = lambda _: None) -> None:
    """Run every kernel of the named learners (None: all, and the feature maps), of scalers, metrics and readers.

    Parameters
    ----------
    names : iterable of str, optional
        Registry names.
    said : function
        Called with the name of each part when it is warm.
    """
    chosen = list(LEARNERS if names is None else names)
    for name in chosen:
        cls = learner_class(name)
        for params in cls._unit_test_params():
            _warm_learner(cls(**params))
        if name == "auto":
            _warm_learner(make(name, {"portfolio": MAPPED}))
        said(name)
    if names is None:
        _warm_maps(learner_class(chosen[0])())
        said("maps")
    signs = np.array([1.0, -1.0, 1.0, -1.0])
    scores = np.array([0.5, 0.25, 0.5, 0.75])
    for metric in (AUC(), AUC(window=48), FadingAUC()):
        for times in (1, 20):  # a window slides by few rows, and is made anew of many
            metric.update_many(np.tile(signs, times), np.tile(scores, times))
            metric.get()
        metric.get()
        metric.update(True, 0.5)  # one row has its own way
        metric.get()
        metric.interval()
        metric.roc()
    PairedAUC(window=3).update_many(signs, scores, scores)
    sums, drift = np.zeros(2), np.zeros(judging.DRIFT_SIZE)
    judging.judge_one(sums, drift, 1, 1.0, 0.5, 1.0, 0.0, math.inf, math.nan)
    judging.judge(sums, drift, 1, signs, scores, 1.0, 0.0, math.inf, np.empty(0))
    said("metrics")
    for _ in read_svmlight(io.BytesIO(b"+1 1:0.5 3:1e-3\n-1 2:1\n")):
        pass
    for _ in read_csv(io.BytesIO(b"a,y\n0.5,1\n"), label="y"):
        pass
    json_rows, line = JsonRows(), b'{"features":{"a":0.5}}'
    json_rows.learn(line)
    json_rows.read(line)
    said("readers")


def _warm_maps(learner: Learner) -> None:
    from scipy import sparse

    X = np.random.default_rng(0).normal(size=(ROWS, 3))
    y = np.arange(ROWS) % 2 == 0
    params = {"warmup": ROWS // 2}
    for cls in MAPS.values():
        for scaler in (AutoScale(), UnitNorm()):
            for rows in (X, sparse.csr_array(X)):
                model = Pipeline(scaler, cls(**params), learner).partial_fit(rows, y)
                model.decision_function(rows)
            model = Pipeline(scaler, cls(**params), learner)
            for a, b, c in X.tolist():
                model.learn_one({"a": a, "b": b, "c": c}, True)
                model.learn_one({"a": a, "c": c}, False)
            model.score_one({"a": 1.0, "b": 1.0, "c": 1.0})
            model.score_one({"c": 1.0})


def _scalers_before(learner: Learner) -> Iterator[AutoScale | Standardize | UnitNorm]:
    """Yield the scalers that a pipeline takes in front of a learner."""
    yield AutoScale()
    if Capability.STEPS_BEFORE in learner._capabilities:
        yield UnitNorm()
        if Capability.RUNNING_SCALER in learner._capabilities:
            yield Standardize()


def _warm_learner(learner: Learner) -> None:
    from scipy import sparse

    random = np.random.default_rng(0)
    X = random.normal(size=(ROWS, 3))
    y = np.arange(ROWS) % 2 == 0
    for scaler in _scalers_before(learner):
        model = Pipeline(scaler, learner)
        model.partial_fit(X, y)
        model.decision_function(X)
        model = Pipeline(scaler, learner)
        model.partial_fit(sparse.csr_array(X), y)
        model.decision_function(sparse.csr_array(X))
    model = Pipeline(AutoScale(), learner)
    for row, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one({"a": row[0], "b": row[1], "c": row[2]}, label)
        model.learn_one({"a": row[0], "c": row[2]}, label)
        model.predict_proba_one({"a": row[0], "b": row[1], "c": row[2]})
        model.predict_proba_one({"c": row[2]})
    rows = [{"a": a, "b": b, "c": c} for a, b, c in X.tolist()]  # known by now: they are read as a block
    model.engine.learn_rows(rows, np.where(y, 1.0, -1.0))
    model.engine.score_rows(rows)
    model.engine.probabilities(np.zeros(2))
    model.to_bytes()
