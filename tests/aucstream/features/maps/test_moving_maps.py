"""Maps behind a scaling with a half-life: the scaling goes on after the warm-up, the map and the learner follow."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import aucstream
from aucstream import PSAM, Pipeline
from aucstream.block import Block, Form
from aucstream.errors import NonFiniteStep
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block
from aucstream.features.maps.maps import map_of
from aucstream.features.scaling.scalers import scaling_of
from aucstream.metrics.exact import area
from aucstream.pipeline import PipelineSpec
from tests.data import elec2

SCALER = "arctan@50+bounded"
MAP_SPECS = [
    {"kind": "kmeansnystroem", "landmarks": 8, "warmup": 30},
    {"kind": "randomthresholds", "components": 20, "warmup": 30},
    {"kind": "randomfourier", "components": 20, "warmup": 30},
    {"kind": "randomnetwork", "components": 20, "warmup": 30},
]
every_map = pytest.mark.parametrize("mapping", MAP_SPECS, ids=lambda spec: spec["kind"])


def stream(n: int = 250, d: int = 4, seed: int = 0, drift: float = 12.0) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y) whose columns wander and whose classes are curved."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = np.abs(X[:, 0]) + 0.3 * random.normal(size=n) > 0.8
    return X * 10.0 ** np.arange(d) + drift * np.arange(n)[:, None] / n, y


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Return the AUC of scores."""
    return area(np.where(y, 1.0, -1.0), scores).auc


def model_of(mapping, scaler: str = SCALER) -> Pipeline:
    """Return a new pipeline with a map."""
    return Pipeline.from_spec(PipelineSpec(algorithm="psam", scaler=scaler, map=mapping))


@every_map
def test_equals_a_plain_loop_over_rows(mapping):
    X, y = stream()
    scores = model_of(mapping).engine.learn_array(X, y)

    warmup = mapping["warmup"]
    rows = array_block(Vocabulary(), X, np.where(y, 1.0, -1.0), np.ones(len(y)), learn=True)
    kinds = np.zeros(X.shape[1], dtype=np.uint8)
    scaling, map_, learner = scaling_of(SCALER), map_of(mapping), PSAM()
    # the order of the map's columns is that of their names, which here is their own
    first = rows.rows(0, warmup)
    indices = np.tile(np.arange(X.shape[1], dtype=np.int64), warmup)
    scaling.fix([Block(first.indptr, indices, first.values, first.y, first.weights, X.shape[1], Form.DENSE)], kinds)
    scaled = scaling.forward(first, kinds)[0].reshape(warmup, -1)
    map_.fit(scaled)

    def features(i: int) -> np.ndarray:
        return map_.transform(scaling.forward(rows.rows(i, i + 1), kinds)[0].reshape(1, -1))

    learner.partial_fit(np.vstack([features(i) for i in range(warmup)]), y[:warmup])
    expected = np.zeros(len(y))
    changes = 0
    for i in range(warmup, len(y)):
        expected[i] = learner.decision_function(features(i))[0]
        row = rows.rows(i, i + 1)
        if scaling.rows_until_change() == 1:
            scaling.change(row, kinds)
            changes += 1
            learner.partial_fit(features(i), y[i : i + 1])
        else:
            learner.partial_fit(features(i), y[i : i + 1])
            _, norms = scaling.forward(row, kinds)
            scaling.observe(row, norms, np.zeros(1), kinds)
    assert changes > 5
    np.testing.assert_allclose(scores, expected, rtol=1e-9, atol=1e-12)


@every_map
@given(st.lists(st.integers(1, 120), min_size=1, max_size=6), st.booleans())
@settings(max_examples=10, deadline=None)
def test_any_split_and_a_save_between_give_the_same_bits(mapping, sizes, as_dicts):
    X, y = stream()
    whole = model_of(mapping)
    expected = whole.engine.learn_array(X, y)
    model, scores, start = model_of(mapping), [], 0
    for size in [*sizes, len(y)]:
        part = slice(start, start + size)
        if as_dicts:
            for row, label in zip(X[part].tolist(), y[part].tolist(), strict=True):
                x = dict(enumerate(row))
                scores.append(model.score_one(x))
                model.learn_one(x, label)
        else:
            scores.extend(model.engine.learn_array(X[part], y[part]).tolist())
        model = aucstream.from_bytes(model.to_bytes())
        start += size
    assert scores == expected.tolist()
    assert model.decision_function(X).tolist() == whole.decision_function(X).tolist()


def test_a_copy_goes_its_own_way():
    X, y = stream()
    model = model_of(MAP_SPECS[0]).partial_fit(X[:100], y[:100])
    before = model.decision_function(X).tolist()
    copy = pickle.loads(pickle.dumps(model))
    other = model.clone(include_attributes=True)
    for changed in (copy, other):
        changed.partial_fit(X[100:], y[100:])
        assert changed.decision_function(X).tolist() != before
    assert model.decision_function(X).tolist() == before


@pytest.mark.parametrize("as_dicts", [False, True])
def test_a_row_that_is_skipped_moves_nothing(as_dicts):
    X, y = stream()
    model = model_of(MAP_SPECS[0]).partial_fit(X[:100], y[:100])
    skipped = 0
    for i in range(100, 140):  # at every place between two changes of the applied values
        before = model.decision_function(X).tolist()
        bytes_before = model.to_bytes()
        if as_dicts:
            with pytest.raises(NonFiniteStep):
                model.learn_one(dict(enumerate(X[i].tolist())), True, w=1e300)
        else:
            model.engine.learn_array(X[i : i + 1], np.array([True]), np.array([1e300]))
        skipped += model.decision_function(X).tolist() == before
        expected = aucstream.from_bytes(bytes_before).partial_fit(X[i : i + 1], y[i : i + 1])
        model.partial_fit(X[i : i + 1], y[i : i + 1])
        assert model.decision_function(X).tolist() == expected.decision_function(X).tolist()
    assert skipped == 40


def test_a_map_follows_a_unit_that_changes():
    X, y = stream(6000, drift=0.0)
    X[3000:, 0] *= 1000.0
    mapping = {"kind": "kmeansnystroem", "landmarks": 20, "warmup": 200}
    scores = model_of(mapping, "arctan@500+bounded").engine.learn_array(X, y)
    fixed = model_of(mapping, "arctan+bounded").engine.learn_array(X, y)
    assert auc(y[4500:], scores[4500:]) > 0.85
    assert auc(y[4500:], fixed[4500:]) < 0.75


@pytest.mark.parametrize(
    "mapping",
    [
        {"kind": "kmeansnystroem", "landmarks": 100, "warmup": 500},
        {"kind": "randomthresholds", "components": 100, "warmup": 500},
        {"kind": "randomfourier", "components": 200, "warmup": 500},
    ],
    ids=lambda spec: spec["kind"],
)
def test_electricity_prices_are_ranked_no_worse_than_without_the_map(mapping):
    X, y = (part[:20_000] for part in elec2())
    plain = Pipeline.from_spec(PipelineSpec(algorithm="psam", scaler="arctan@1000+bounded"))
    mapped = model_of(mapping, "arctan@1000+bounded")
    bound = auc(y, plain.engine.learn_array(X, y)) - 0.01
    assert auc(y, mapped.engine.learn_array(X, y)) > bound
