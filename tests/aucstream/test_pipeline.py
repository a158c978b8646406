"""What a pipeline adds to its learner: steps, specs, rows as a service brings them."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from aucstream import (
    PSAM,
    SOLAM,
    Arctan,
    AutoScale,
    BoundedNorm,
    Hashing,
    Pipeline,
    Standardize,
    UnitNorm,
    Vocabulary,
    from_bytes,
)
from aucstream.errors import CannotMerge, InvalidBlock, InvalidParams, NonFiniteStep, UnknownLearner

random = np.random.default_rng(1)
X = random.normal(size=(200, 3))
y = X[:, 0] + random.normal(size=200) > 0.5
SCALERS = ["auto", "standard+bounded", "scale+bounded", "standard", "standard+l2", "l2", "none"]
SCALERS += ["standard+arctan+bounded", "scale+arctan+bounded", "standard@30+bounded", "scale@30+arctan+bounded"]


def rows(n=200):
    return [{"a": a, "b": b, "word": "xyz"[i % 3]} for i, (a, b) in enumerate(X[:n, :2].tolist())]


@pytest.mark.parametrize("scaler", SCALERS)
def test_a_spec_makes_the_pipeline_of_the_same_steps_and_survives_a_load(scaler):
    spec = {"algorithm": "solam", "params": {"R": 5.0}, "scaler": scaler, "encoder": {"kind": "hashing", "bits": 6}}
    model = Pipeline.from_spec(spec)
    assert model.resolved is None if scaler == "auto" else model.resolved == {"scaler": scaler}
    model.engine.learn_rows(rows(), np.where(y, 1.0, -1.0))
    again = from_bytes(model.to_bytes())
    assert again.spec == model.spec
    assert again.resolved == model.resolved
    assert again.learner.R == 5.0
    by_hand = {
        "auto": [AutoScale()],
        "standard+bounded": [Standardize(), BoundedNorm()],
        "scale+bounded": [Standardize(with_mean=False), BoundedNorm()],
        "standard": [Standardize()],
        "standard+l2": [Standardize(), UnitNorm()],
        "l2": [UnitNorm()],
        "none": [],
        "standard+arctan+bounded": [Standardize(), Arctan(), BoundedNorm()],
        "scale+arctan+bounded": [Standardize(with_mean=False), Arctan(), BoundedNorm()],
        "standard@30+bounded": [Standardize(half_life=30), BoundedNorm()],
        "scale@30+arctan+bounded": [Standardize(with_mean=False, half_life=30), Arctan(), BoundedNorm()],
    }[scaler]
    twin = Pipeline(Hashing(6), *by_hand, SOLAM(R=5.0))
    twin.engine.learn_rows(rows(), np.where(y, 1.0, -1.0))
    assert twin.engine.score_rows(rows()).tolist() == model.engine.score_rows(rows()).tolist()


@pytest.mark.parametrize(
    ("spec", "error", "word"),
    [
        ({"algorithm": "solarm"}, UnknownLearner, "solam"),
        ({"algorithm": "solam", "params": {"R": -1}}, InvalidParams, "SOLAM.R"),
        ({"algorithm": "solam", "params": {"radius": 1}}, InvalidParams, "radius"),
        ({"algorithm": "solam", "encoder": {"kind": "spam"}}, InvalidParams, "encoder.kind"),
        ({"algorithm": "solam", "encoder": {"kind": "hashing", "size": 3}}, InvalidParams, "size"),
        ({"algorithm": "solam", "scaler": "spam"}, ValueError, "scaler"),
        ({"algorithm": "solam", "spam": 1}, ValueError, "spam"),
        ({"algorithm": 3}, ValueError, "algorithm"),
    ],
)
def test_a_spec_that_asks_for_what_does_not_exist_is_refused_by_name(spec, error, word):
    with pytest.raises(error, match=word):
        Pipeline.from_spec(spec)


@pytest.mark.parametrize(
    "steps",
    [
        [AutoScale()],
        [SOLAM(), AutoScale()],
        [BoundedNorm(), Standardize(), SOLAM()],
        [AutoScale(), BoundedNorm(), SOLAM()],
        [Standardize(), Vocabulary(), SOLAM()],
        [SOLAM(), SOLAM()],
        [3],
    ],
)
def test_steps_in_another_order_are_refused(steps):
    with pytest.raises(InvalidParams, match="Pipeline: expected"):
        Pipeline(*steps)


@pytest.mark.parametrize(
    ("kind", "resolved"), [("dict", "standard+bounded"), ("dense", "standard+bounded"), ("csr", "scale+bounded")]
)
def test_auto_is_decided_by_the_form_of_the_first_block_and_nothing_else(kind, resolved):
    from scipy import sparse

    model = Pipeline()
    assert model.resolved is None
    if kind == "dict":
        model.learn_one({0: 1.0, 1: 2.0, 2: 3.0}, True)
    else:
        model.partial_fit(sparse.csr_array(X[:1]) if kind == "csr" else X[:1], y[:1])
    assert model.resolved == {"scaler": resolved}
    model.partial_fit(X, y)
    model.partial_fit(sparse.csr_array(X), y)
    assert model.resolved == {"scaler": resolved}


def test_contributions_add_up_to_the_score_and_names_never_trained_are_not_shown():
    for steps in ([], [AutoScale()], [Standardize(), UnitNorm()]):
        model = Pipeline(*steps, SOLAM())
        model.engine.learn_rows(rows(), np.where(y, 1.0, -1.0))
        for x in (*rows(5), {"a": 1.0, "never": 2.0}, {"never": True}, {}):
            parts = model.explain_one(x)
            assert sum(parts.values()) == pytest.approx(model.score_one(x), rel=1e-12, abs=1e-14)
            assert "never" not in parts


def test_checking_rows_changes_nothing_and_names_row_feature_and_value():
    model = Pipeline()
    before = model.to_bytes()
    assert model.engine.check_rows([{"a": 1.0}, {"b": "x"}]) == "named"
    assert model.engine.check_rows([[1.0, 2.0], [3]]) == "columns"
    assert model.engine.check_rows([]) is None
    for bad, word in (
        ([{"a": 1.0}, {"a": float("nan")}], r"\[1\]\['a'\]"),
        ([[1.0], [1.0, float("inf")]], r"\[1\]\[1\]"),
        ([[1.0, None]], r"\[0\]\[1\]"),
        ([[True]], r"\[0\]\[0\]"),
        ([{"a": 1.0}, [1.0]], r"\[1\]"),
        ([[1.0], {"a": 1.0}], r"\[1\]"),
        (["a"], r"\[0\]"),
    ):
        with pytest.raises(InvalidBlock, match=word):
            model.engine.check_rows(bad)
    assert model.to_bytes() == before


def test_the_steps_given_are_patterns_and_stay_as_they_were():
    learner, scaler = SOLAM(), Standardize()
    model = Pipeline(scaler, learner).partial_fit(X, y)
    assert learner.examples == 0
    assert model.examples == 200
    assert model.clone().examples == 0
    assert scaler._encoder.width == 0


def test_a_running_scaler_forbids_a_merge():
    model, other = Pipeline(AutoScale(), SOLAM()), Pipeline(AutoScale(), SOLAM())
    with pytest.raises(CannotMerge, match="running scaler"):
        model.merge(other)
    with pytest.raises(CannotMerge, match="Pipeline"):
        model.merge(SOLAM())


def test_without_calibration_every_probability_is_one_half():
    model = Pipeline(AutoScale(), SOLAM(), calibration="none").partial_fit(X, y)
    assert model.predict_proba_one({0: 5.0, 1: 0.0, 2: 0.0}) == {False: 0.5, True: 0.5}
    assert set(model.engine.probabilities(model.decision_function(X))) == {0.5}
    with pytest.raises(InvalidParams, match="calibration"):
        Pipeline(calibration="spam")


@pytest.mark.parametrize("learner", [SOLAM, PSAM])
def test_a_row_that_is_skipped_where_the_scaler_moves_leaves_nothing_behind_in_its_block(learner):
    def scores(blocks, weights):
        model = Pipeline(AutoScale(), learner())
        for block in blocks:
            with contextlib.suppress(NonFiniteStep):
                model.partial_fit(X[block], y[block], sample_weight=weights[block])
        return model.to_bytes()

    for bad in range(2, 60):
        weights = np.ones(len(X))
        weights[bad] = 1e300
        one_by_one = scores([[row] for row in range(60)], weights)
        assert scores([range(60)], weights) == one_by_one, bad
        assert scores([range(bad - 1), range(bad - 1, 60)], weights) == one_by_one, bad
