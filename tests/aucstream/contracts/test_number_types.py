"""What a number means does not depend on the type it comes in, nor on the types that came before it."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys

import numpy as np
import pytest

from aucstream import Hashing, Pipeline
from aucstream.constraints import Rule, rules_of
from aucstream.features import RandomFourier
from aucstream.kernels.auc.calibration import probability
from aucstream.kernels.jit import RowCall
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.metrics import AUC, FadingAUC
from aucstream.registry import learner_class, make

from .models import learn_dicts, learners, state, stream

ONES = [1, True, np.int64(1), np.uint8(1), np.bool_(True), np.float32(1), np.float64(1)]
HALVES = [np.float32(0.5), np.float64(0.5), np.float16(0.5)]


def models() -> dict[str, RankingClassifier]:
    """Return a model of every kind that has a compiled call of its own for a row."""
    solam = make("solam", {})
    return {
        "alone": solam,
        "buffered": make("oam", {}),
        "scaled": Pipeline(solam),
        "hashed": Pipeline(Hashing(bits=8), solam),
        "mapped": Pipeline(RandomFourier(components=8, warmup=2), solam),
    }


def learned_after(first: object) -> dict[str, str]:
    """Return a digest of each model after a row of weight `first`, and others of weight 1/2 with new names."""
    digests = {}
    for name, model in models().items():
        model.learn_one({"a": 1.0, "b": 2.0}, True, first)
        for i in range(24):
            model.learn_one({f"a{i}": 1.0 + i, f"b{i}": -0.5, "a": 0.25 * i}, i % 2 == 0, 0.5)
        score = model.score_one({"a": 1.0, "new": 1.0})
        digests[name] = hashlib.sha256(model.to_bytes() + score.hex().encode()).hexdigest()
    return digests


@pytest.mark.slow
def test_the_first_weight_of_a_process_does_not_decide_what_later_ones_mean():
    # In processes of their own: what is compiled for the first call lasts as long as the process.
    code = f"import json; from {__name__} import learned_after; print(json.dumps(learned_after(%s)))"
    path = "import sys; sys.path[:0] = " + repr(sys.path) + "; "
    expected, *found = [
        json.loads(subprocess.run([sys.executable, "-c", path + code % first], capture_output=True, check=True).stdout)
        for first in ("1.0", "1", "True")
    ]
    for digests in found:
        assert digests == expected


@learners()
def test_a_weight_means_the_same_in_every_type(name):
    def learned(first: object, later: object) -> bytes:
        model = make(name, {})
        model._program._row_calls.clear()  # what the first call of a process compiles
        model.learn_one({"a": 1.0}, True, first)
        model.learn_one({"a": 0.5, "b": 1.0}, False, later)
        model.learn_one({"c": 0.5, "d": 1.0}, True, later)
        model.engine.learn_row({"e": 1.0}, -1.0, first)
        model.engine.learn_row({"e": 1.0, "f": 2.0}, 1.0, later)
        return state(model)

    expected = learned(1.0, 0.5)
    for first in ONES:
        assert learned(first, 0.5) == expected
    for later in HALVES:
        assert learned(1.0, later) == expected


def wholes(rule: Rule) -> list[int]:
    return [value for value in (0, 1, 2) if all(bound.holds(value) for bound in rule.bounds)]


@learners()
def test_a_parameter_means_the_same_as_an_integer(name):
    cls = learner_class(name)
    X, y = stream(40)

    def learned(value: object) -> bytes:
        return state(learn_dicts(make(name, {param: value}), X, y))

    def changed(value: object) -> bytes:
        model = learn_dicts(make(name, {}), X, y)
        setattr(model, param, value)
        model.learn_one({"new": 0.5}, True, 0.5)
        return state(learn_dicts(model, X, y))

    for param, rule in rules_of(cls).items():
        for value in wholes(rule) if rule.kind is float else []:
            ways = [learned, changed] if param in cls._steps_and_penalties else [learned]
            expected = [way(float(value)) for way in ways]
            for kind in (int, np.int32, np.float32):
                assert type(getattr(make(name, {param: kind(value)}), param)) is float
                assert [way(kind(value)) for way in ways] == expected, (param, kind)


def test_a_call_of_a_row_converts_numbers_to_the_declared_types():
    model = learn_dicts(make("solam", {}), *stream(60))
    call = RowCall(probability, float)
    whole = call.dense(model._ledger, 1)
    assert whole == call.dense(model._ledger, 1.0) == call.dense(model._ledger, True)
    assert call.dense(model._ledger, 0.5) == pytest.approx(
        model.engine.probabilities(np.array([0.5])).item(), abs=1e-15
    )
    assert call.dense(model._ledger, 0.5) < whole
    with pytest.raises(TypeError, match="RowCall: expected 1 numbers, got 2"):
        RowCall(probability, float).dense(model._ledger, 0.5, 0.5)


@pytest.mark.parametrize("kind", [AUC, FadingAUC, lambda: AUC(window=3)])
def test_metrics_take_scores_and_labels_of_every_type(kind):
    rows = [(1, 1), (False, True), (-1, np.int64(0)), (True, np.float32(0.5)), (0, np.bool_(0)), (1, 0.25)]
    got, expected = kind(), kind()
    values = []
    for label, score in rows:
        got.update(label, score)
        expected.update(label in (1, True), float(score))
        values.append((got.get(), expected.get()))
    assert all(a == b or (math.isnan(a) and math.isnan(b)) for a, b in values)
