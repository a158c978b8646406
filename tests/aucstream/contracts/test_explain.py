"""Contributions: each name of the row has its own, and they add up to the score."""

from __future__ import annotations

import numpy as np
import pytest

from aucstream import Arctan, AutoScale, BoundedNorm, Hashing, Pipeline, Standardize, Vocabulary
from aucstream.errors import InvalidParams
from aucstream.learners._base.capabilities import Capability

from .models import FORMS, VARIANTS, bare, can, state, variants_in_forms

SCALERS = {
    "none": (),
    "standard": (Standardize(),),
    "scale+bounded": (Standardize(with_mean=False), BoundedNorm()),
    "auto": (AutoScale(),),
    "standard@30+arctan+bounded": (Standardize(half_life=30), Arctan(), BoundedNorm()),
}
ROW = {"a": 2.0, "b": -0.5, "c": 0.0, "word": "new", "tags": ["u", "never"], "flag": True, "late": 3.0, "gone": None}


def learned(model):
    """Return the model after rows of numbers, words, lists and bools."""
    random = np.random.default_rng(0)
    for i in range(80):
        y = bool(random.random() < 0.4)
        x = {"a": 3.0 * float(random.normal() + y), "b": float(random.normal()), "c": 5.0, "flag": i % 3 == 0}
        model.learn_one(x | ({"word": "xyz"[i % 3]} if i % 2 else {"tags": ["u", "w"]}), y)
    return model


CASES = [
    *((variant, "auto") for variant in VARIANTS if can(variant, Capability.CONTRIBUTIONS)),
    *(("solam", scalers) for scalers in SCALERS if scalers != "auto"),
]


@pytest.mark.parametrize(("variant", "scalers"), CASES)
def test_contributions_add_up_to_the_score(variant, scalers):
    for encoder in (Vocabulary(), Vocabulary(capacity=3), Hashing(1), Hashing(3)):
        model = Pipeline(encoder, *SCALERS[scalers], bare(variant))
        for x in ({}, ROW):
            assert sum(model.explain_one(x).values()) == model.score_one(x) == 0.0  # nothing learned yet
        learned(model)
        before = state(model)
        for x in (ROW, {"a": 1.0}, {"never": 1.0}, {}, {"a": None, "flag": False}):
            found = model.explain_one(x)
            size = sum(map(abs, found.values()))
            assert sum(found.values()) == pytest.approx(model.score_one(x), rel=1e-9, abs=1e-12 * size)
        assert state(model) == before


def test_the_names_are_those_of_the_row_with_words_as_the_vocabulary_names_them():
    exact = {"a", "b", "c", "word=new", "tags=u", "tags=never", "flag", "late"}
    for scalers in SCALERS.values():
        assert set(learned(Pipeline(Hashing(6), *scalers, bare("solam"))).explain_one(ROW)) == exact
        named = learned(Pipeline(*scalers, bare("solam"))).explain_one(ROW)
        assert set(named) == {"a", "b", "c", "tags=u", "flag"}
    assert set(learned(bare("ftrl")).explain_one(ROW)) == {"a", "b", "c", "tags=u", "flag", "(intercept)"}


def test_hashed_into_columns_of_their_own_names_have_the_contributions_of_the_vocabulary():
    for scalers in SCALERS.values():
        hashed = learned(Pipeline(Hashing(10), *scalers, bare("psam"))).explain_one(ROW)
        named = learned(Pipeline(*scalers, bare("psam"))).explain_one(ROW)
        assert {name: hashed[name] for name in named} == pytest.approx(named, rel=1e-9)


def test_a_shared_column_is_shared_by_value():
    one = learned(Pipeline(Hashing(1), bare("solam")))
    names = [f"n{i}" for i in range(8)]
    columns = [one._encoder._column(name) for name in names]
    first = [name for name, column in zip(names, columns, strict=True) if column == columns[0]][:2]
    assert len(first) == 2
    a, b = first
    weight = one.score_one({a: 1.0})
    assert one.explain_one({a: 3.0, b: -1.0}) == pytest.approx({a: 3.0 * weight, b: -weight})
    assert one.explain_one({a: 1.0, b: -1.0}) == pytest.approx({a: weight, b: -weight})
    scaled = learned(Pipeline(Hashing(1), Standardize(), bare("solam")))
    found, score = scaled.explain_one({a: 3.0, b: 1.0}), scaled.score_one({a: 3.0, b: 1.0})
    assert found == pytest.approx({a: 0.75 * score, b: 0.25 * score})
    found, score = scaled.explain_one({a: 1.0, b: -1.0}), scaled.score_one({a: 1.0, b: -1.0})
    assert score != 0.0  # the column's mean is not 0
    assert found == pytest.approx({a: 0.5 * score, b: 0.5 * score})


def test_a_feature_named_as_the_intercept_keeps_the_sum():
    model = bare("onlinelogistic")
    for i in range(20):
        model.learn_one({"(intercept)": float(i % 3)}, i % 2 == 0)
    x = {"(intercept)": 2.0}
    assert model.explain_one(x) == {"(intercept)": pytest.approx(model.score_one(x))}


def test_the_row_of_an_array_has_the_names_of_its_columns():
    X = np.random.default_rng(0).normal(size=(60, 3))
    model = Pipeline(AutoScale(), bare("psam")).partial_fit(X, X[:, 0] > 0)
    row = [1.0, 0.0, -2.0, 5.0]
    found = model.engine.explain_row(row)
    assert set(found) == {0, 1, 2}
    assert sum(found.values()) == pytest.approx(model.engine.score_rows([row])[0], rel=1e-9)
    assert model.engine.explain_row({0: 1.0}) == model.explain_one({0: 1.0})


@variants_in_forms()
def test_a_learner_without_linear_weights_or_contributions_refuses_them_and_changes_nothing(variant, form):
    model = learned(FORMS[form](variant))
    before = state(model)
    for read, needed in (
        (lambda: model.weights, Capability.LINEAR_WEIGHTS),
        (lambda: model.explain_one(ROW), Capability.CONTRIBUTIONS),
    ):
        if can(variant, needed):
            assert read()
            continue
        with pytest.raises(InvalidParams, match=r"^weights: expected a learner whose score is a sum over features"):
            read()
    assert state(model) == before
