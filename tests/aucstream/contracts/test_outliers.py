"""One value in a newly seen optional feature: the harm is bounded and passes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import roc_auc_score

import aucstream
from aucstream import Pipeline
from aucstream.features.scaling.scaling import FIRST_RULES, RULES
from aucstream.learners._base.capabilities import Capability
from aucstream.pipeline import RULES as PIPELINE_RULES

from .models import CLASSES, can, state

SEEN = 21  # rows before the optional feature is there
HARMED, JUDGED = 1000, 1000  # rows after the outlier until it is forgotten; rows that are judged after these
CASES = [(value, at) for value in (1e3, 1e5, 1e6) for at in (22, 30, 200, 2000)]
# one learner each that takes rows as they are and bounds neither them nor its memory of them
UNBOUNDED = {"mba", "ftrl", "tanhsum"}
LEARNERS = [name for name in CLASSES if can(name, Capability.PIPELINE, Capability.RUNNING_SCALER)]


def outlier_stream(seed: int, value: float, at: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): a tells the classes apart, b is noise, r is 1, then once `value`, then noise."""
    random = np.random.default_rng(seed)
    n = at + HARMED + JUDGED
    y = random.random(n) < 0.3
    X = random.normal(size=(n, 3))
    X[:, 0] += 1.5 * y
    X[:SEEN, 2] = 0.0
    X[SEEN:at, 2] = 1.0
    X[at, 2] = value
    return X, y


def named(X: np.ndarray) -> list[dict[str, float]]:
    """Return the rows as dicts; the first ones have no r."""
    return [{"a": a, "b": b} | ({"r": r} if i >= SEEN else {}) for i, (a, b, r) in enumerate(X.tolist())]


def learned(model: Pipeline, form: str, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return the score of each row from before its step."""
    if form == "dicts":
        return np.asarray(model.engine.learn_rows(named(X), np.where(y, 1.0, -1.0)))
    return np.asarray(model.engine.learn_array(sparse.csr_array(X) if form == "csr" else X, y))


def harm(name: str, scaler: str, form: str, seed: int, value: float, at: int) -> str | None:
    """Return what is wrong after the outlier, or None."""
    aucs = []
    for outlier in (1.0, value):
        X, y = outlier_stream(seed, outlier, at)
        scores = learned(Pipeline.from_spec({"algorithm": name, "scaler": scaler}), form, X, y)
        if not np.isfinite(scores).all():
            return f"{value:g} at row {at}, seed {seed}: {int((~np.isfinite(scores)).sum())} rows refused"
        if np.abs(scores).max() > 1e12:
            return f"{value:g} at row {at}, seed {seed}: a score of {np.abs(scores).max():.0e}"
        aucs.append(roc_auc_score(y[-JUDGED:], scores[-JUDGED:]))
    if aucs[0] - aucs[1] > 0.02:
        return f"{value:g} at row {at}, seed {seed}: AUC {aucs[1]:.3f} for {aucs[0]:.3f}"
    return None


@pytest.mark.parametrize("name", LEARNERS)
def test_one_outlier_of_a_new_feature_does_not_harm_a_default_model_for_long(name):
    found = [harm(name, "auto", "dicts", seed, *CASES[seed % len(CASES)]) for seed in range(20)]
    assert [case for case in found if case] == []


@pytest.mark.parametrize("scaler", ["auto", "scale+bounded", "standard", "standard+l2", "l2", "none"])
@pytest.mark.parametrize("name", LEARNERS)
def test_one_outlier_of_a_new_feature_does_not_harm_under_any_scaling(name, scaler):
    if name in UNBOUNDED and scaler == "none":
        pytest.skip("it bounds no row, and nothing before it does")
    found = []
    for i, (value, at) in enumerate([(1e3, 200), (1e5, 30), (1e5, 200), (1e6, 22), (1e6, 30)]):
        for form in ("dense", "csr", "dicts"):
            if scaler != "standard" or form != "csr":  # sparse rows are not centred: as "scale"
                found.append(harm(name, scaler, form, 10 * i + len(form), value, at))
    assert [case for case in found if case] == []


def test_a_model_of_the_first_rules_goes_on_by_them():
    X, y = outlier_stream(3, 1e6, 30)
    rows, signs = named(X), np.where(y, 1.0, -1.0)
    ends = {}
    for rules, of_pipeline in ((FIRST_RULES, FIRST_RULES), (RULES, PIPELINE_RULES)):
        model = Pipeline.from_spec({"algorithm": "spam"}, rules=of_pipeline)
        model.engine.learn_rows(rows[:SEEN], signs[:SEEN])
        resumed = aucstream.from_bytes(model.to_bytes())
        assert resumed.state_dict()[1]["scaling"].get("rules", FIRST_RULES) == rules
        scores = np.asarray(model.engine.learn_rows(rows[SEEN:], signs[SEEN:]))
        assert np.asarray(resumed.engine.learn_rows(rows[SEEN:], signs[SEEN:])).tobytes() == scores.tobytes()
        assert state(resumed) == state(model)
        ends[rules] = np.nanmax(np.abs(scores))
    assert ends[FIRST_RULES] > 1e100  # what they did
    assert ends[RULES] < 1e3


@pytest.mark.parametrize("scaler", ["standard+bounded", "standard", "standard+l2", "scale+bounded"])
def test_rows_without_outliers_give_the_bits_of_the_first_rules(scaler):
    random = np.random.default_rng(0)
    y = random.random(2000) < 0.3
    X = random.normal(size=(2000, 4)) * [1.0, 1e3, 1e-3, 1.0] + [0.0, 1e4, 0.0, 5.0]
    spec = {"algorithm": "opauc", "scaler": scaler}
    now, before = Pipeline.from_spec(spec), Pipeline.from_spec(spec, rules=FIRST_RULES)
    assert now.engine.learn_array(X, y).tobytes() == before.engine.learn_array(X, y).tobytes()
