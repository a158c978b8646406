"""A row whose names are new is scored in one reading, to the bits of the readings that any row may have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from aucstream import Hashing, Pipeline, Vocabulary
from aucstream.errors import InvalidBlock
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.native.reader import COMPILED
from aucstream.registry import make

from .models import FORMS, can, learn_dicts, state, stream, variants_in_forms

SCALERS = ["standard+bounded", "scale+bounded", "standard", "standard+l2", "l2", "none"]
SCALERS += ["standard@30+bounded", "standard+arctan+bounded"]
PLAIN = 4  # of the first rows: they are read in one go
ROWS = [
    {"n0": 1.5},
    {"n0": 1.5, "c1": -0.25, "n1": 3, "c0": 2.0, "n2": -1e-300},
    {"c0": 0.5, "n0": None, "n1": 0, "c2": None},
    {f"n{k}": float(k) - 3.0 for k in range(40)},
    {"c3": 1.0, "n0": 1e308, "n1": -1e308},
    {"n0": True, "n1": 1.0},
    {"n0": "word", "c0": 1.0},
    {"n0": ["u", "v"]},
    {"n0": 2**70, "n1": np.float64(2.0)},
    {7: 1.0, "n0": 2.0},
    {},
]
REFUSED = [
    {"n0": math.nan},
    {"c0": 1.0, "n0": math.inf},
    {"n0": 10**400},
    {"n0": 1.0, ("n", 1): 1.0},
    {"n0": 1.0, 1.5: 1.0},
    {"n0": 1.0, "n1": {"deep": 1}},
]


def slowly(model, x, monkeypatch):
    """Return the score of a row that is not read in one go."""
    with monkeypatch.context() as patched:
        patched.setattr(RankingClassifier, "_score_plain", lambda *_: complex(math.nan, math.nan))
        return model.score_one(x)


def checked(model: RankingClassifier, monkeypatch: pytest.MonkeyPatch, one_call: bool = True) -> None:
    """Check that rows with new names have the scores of the slow reading, and that scoring changes nothing."""
    before = state(model)
    for row, x in enumerate(ROWS):
        slow = slowly(model, x, monkeypatch)
        assert math.isfinite(slow)
        assert model.score_one(x) == slow
        assert model.predict_proba_one(x)[True] == model.engine.probabilities(np.array([slow]))[0]
        if row < PLAIN and COMPILED and one_call:
            assert model._score_plain(x).real == slow
    for x in REFUSED:
        with pytest.raises(InvalidBlock):
            model.score_one(x)
    assert state(model) == before


@variants_in_forms()
def test_a_row_with_new_names_has_the_score_of_the_slow_reading(variant, form, monkeypatch):
    one_call = can(variant, Capability.ONE_CALL)
    rows = 240 if variant == "auto" else 120  # its maps keep the first 200 rows, and those take no one call
    checked(learn_dicts(FORMS[form](variant), *stream(rows)), monkeypatch, one_call)


@pytest.mark.parametrize("scaler", SCALERS)
@pytest.mark.parametrize("calibration", ["logistic", "none"])
def test_it_has_under_every_scaling(scaler, calibration, monkeypatch):
    spec = {"algorithm": "solam", "scaler": scaler, "calibration": calibration}
    checked(learn_dicts(Pipeline.from_spec(spec), *stream(120)), monkeypatch)


def test_a_row_is_learned_from_the_score_that_it_was_given():
    model = learn_dicts(make("psam", {}), *stream(60))
    random = np.random.default_rng(1)
    for number in range(30):
        x = {f"m{number + k}": float(random.normal()) for k in range(5)} | {"c0": 1.0}
        before = model.score_one(x)
        assert model.engine.learn_rows([x], np.array([1.0]))[0] == before


@pytest.mark.parametrize("encoder", [Vocabulary(6), Hashing(5)])
def test_names_that_get_no_column_of_their_own_count_as_in_the_slow_reading(encoder, monkeypatch):
    model = Pipeline(encoder, make("solam", {}))
    learn_dicts(model, *stream(60))
    for x in ROWS[:PLAIN]:
        assert model.score_one(x) == slowly(model, x, monkeypatch)
    full = {f"n{k}": float(k) for k in range(3)}
    slow = slowly(model, full, monkeypatch)
    assert model.score_one(full) == slow
    if COMPILED and isinstance(encoder, Vocabulary):  # a hashed name is read once its column is known
        assert model._score_plain(full).real == slow


def test_a_model_of_arrays_refuses_new_names():
    model = make("solam", {}).partial_fit(*stream(60))
    with pytest.raises(InvalidBlock, match="feature name"):
        model.score_one({"n0": 1.0})
