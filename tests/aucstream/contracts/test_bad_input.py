"""What cannot be used is refused by name and value, and leaves not a bit changed."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from aucstream import Hashing, Pipeline, Standardize
from aucstream.errors import InvalidBlock, InvalidLabel, NonFiniteStep
from aucstream.learners._base import learner as base
from aucstream.learners._base.capabilities import Capability

from .models import (
    FORMS,
    assert_finite,
    bare,
    can,
    csr,
    dicts,
    frame,
    learn_dicts,
    learners_in_forms,
    literal,
    names_of,
    scores_of,
    state,
    stream,
    variants,
    variants_in_forms,
)

NAMED_ROWS = [
    ({"c0": math.nan}, ["'c0'", "nan"]),
    ({"c0": math.inf}, ["'c0'", "inf"]),
    ({"c0": -math.inf}, ["'c0'", "-inf"]),
    ({"c0": np.float64("nan")}, ["'c0'", "nan"]),
    ({"c0": np.float32("inf")}, ["'c0'", "inf"]),
    ({"c0": 10**400}, ["'c0'", "1000"]),
    ({"c0": 1j}, ["'c0'", "1j"]),
    ({"c0": object}, ["'c0'", "object"]),
    ({"c0": b"word"}, ["'c0'", "b'word'"]),
    ({"c0": {"deep": 1}}, ["'c0'", "deep"]),
    ({"c0": np.zeros(2)}, ["'c0'", "array"]),
    ({"c0": ["u", 2]}, ["'c0'", "2"]),
    ({"c0": ["u", None]}, ["'c0'", "None"]),
    ({True: 1.0}, ["feature name", "True"]),
    ({1.5: 1.0}, ["feature name", "1.5"]),
    ({None: 1.0}, ["feature name", "None"]),
    ({("c", 0): 1.0}, ["feature name", "('c', 0)"]),
    ({"a": "b", "a=b": 1.0}, ["a=b"]),
    ({"a": ["b=c"], "a=b": "c"}, ["a=b=c"]),
    ([1.0, 2.0], ["features", "[1.0, 2.0]"]),
    (None, ["features", "None"]),
    ("c0", ["features", "'c0'"]),
]
LABELS = [
    None,
    math.nan,
    "0",
    "1",
    "spam",
    2,
    -2,
    0.5,
    math.inf,
    np.float64("nan"),
    np.int64(2),
    np.str_("1"),
    [1],
    b"1",
]
WEIGHTS = [-1.0, math.nan, math.inf, "heavy", -1e-300, None]
GOOD = {"c0": 1.0, "c1": 2.0, "c2": 3.0, "c3": 4.0}


def refused(model, error, words, call):
    before = model.to_bytes()
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert ": expected " in message
    for word in words:
        assert word in message, message
    assert model.to_bytes() == before


def trained(form, variant):
    return learn_dicts(FORMS[form](variant), *stream(60))


@learners_in_forms()
def test_a_row_that_cannot_be_used_is_refused_and_nothing_changes(name, form):
    for model in (FORMS[form](name), trained(form, name)):
        for x, words in NAMED_ROWS:
            full = {**GOOD, **x} if isinstance(x, dict) else x
            for row in (x, full):  # the second has the names of the row before: the fast way
                refused(model, InvalidBlock, words, lambda row=row: model.learn_one(row, True))
                refused(model, InvalidBlock, words, lambda row=row: model.learn_one(row, True, w=2.0))
                refused(model, InvalidBlock, words, lambda row=row: model.learn_one(row, True, w=0.0))
                refused(model, InvalidBlock, words, lambda row=row: model.score_one(row))
            if model.examples:
                model.score_one(GOOD)
                refused(model, InvalidBlock, words, lambda full=full: model.predict_proba_one(full))
                refused(model, InvalidBlock, words, lambda full=full: model.predict_one(full))


@learners_in_forms()
def test_a_label_or_weight_that_cannot_be_used_is_refused_and_nothing_changes(name, form):
    model = trained(form, name)
    for label in LABELS:
        shown = repr(label.item() if isinstance(label, np.generic) else label)
        refused(model, InvalidLabel, [shown], lambda label=label: model.learn_one(GOOD, label))
        if isinstance(label, list):
            continue
        labels = [True, label, False]
        X = stream(3)[0]
        refused(
            model, InvalidLabel, [shown, "row 1"], lambda labels=labels: model.learn_many(frame(stream(3)[0]), labels)
        )
        other = FORMS[form](name).partial_fit(*stream(60))
        refused(
            other, InvalidLabel, [shown, "row 1"], lambda labels=labels, X=X, other=other: other.partial_fit(X, labels)
        )
    for weight in WEIGHTS:
        refused(model, InvalidBlock, ["weights"], lambda weight=weight: model.learn_one(GOOD, True, w=weight))


@learners_in_forms()
def test_a_frame_that_cannot_be_used_is_refused_whole(name, form):
    model = trained(form, name)
    X, y = stream(5, seed=1)
    good = frame(X)
    for value, words in ((math.inf, ["[3]", "'c1'", "inf"]), (1j, ["[3]", "'c1'", "1j"])):
        bad = good.astype(object)
        bad.iloc[3, 1] = value
        refused(model, InvalidBlock, words, lambda bad=bad: model.learn_many(bad, y))
        with pytest.raises(InvalidBlock, match="c1"):
            model.score_many(bad)
    refused(model, InvalidBlock, ["labels", "5 rows"], lambda: model.learn_many(good, y[:4]))
    refused(model, InvalidBlock, ["labels"], lambda: model.learn_many(good, True))
    refused(model, InvalidBlock, ["labels"], lambda: model.learn_many(good, [[1], [0, 1], [0], [0], [1]]))
    refused(model, InvalidBlock, ["weights", "5 rows"], lambda: model.learn_many(good, y, w=[1.0]))
    refused(model, InvalidBlock, ["weights", "-1.0", "row 2"], lambda: model.learn_many(good, y, w=[1, 1, -1, 1, 1]))
    refused(model, InvalidBlock, ["data frame"], lambda: model.learn_many(X, y))
    twice = pd.concat([good, good], axis=1)
    refused(model, InvalidBlock, ["unique names"], lambda: model.learn_many(twice, y))


@learners_in_forms()
def test_an_array_that_cannot_be_used_is_refused_whole(name, form, monkeypatch):
    X, y = stream(60)
    for first in (False, True):
        model = FORMS[form](name)
        if not first:
            model.partial_fit(X, y)
        for value in (math.nan, math.inf, -math.inf):
            bad = X.copy()
            bad[7, 2] = value
            words = [repr(value), "row 7, column 2"]
            refused(model, InvalidBlock, words, lambda bad=bad: model.partial_fit(bad, y))
            with monkeypatch.context() as patch:  # a few rows at a time, the first of them learned before
                patch.setattr(base, "CACHED", 64)
                patch.setattr(base, "MUCH", 0)
                refused(model, InvalidBlock, words, lambda bad=bad: model.partial_fit(bad, y))
            refused(model, InvalidBlock, words, lambda bad=bad: model.partial_fit(csr(bad), y))
            refused(model, InvalidBlock, words, lambda bad=bad: model.partial_fit(bad, y, np.zeros(60)))
            refused(model, InvalidBlock, words, lambda bad=bad: model.fit(bad, y))
        words = ["features"]
        for bad in (
            X.astype(str),
            X.astype(str).astype(object),
            X.astype(complex),
            X[None],
            X[0],
            1.0,
            [[1.0], [1.0, 2.0]],
            np.array([[{}] * 2] * 60),
            sparse.csr_array(X.astype(complex)),
            dicts(X),
        ):
            refused(model, InvalidBlock, words, lambda bad=bad: model.partial_fit(bad, y))
        refused(model, InvalidBlock, ["labels", "60 rows"], lambda: model.partial_fit(X, y[:59]))
        refused(model, InvalidBlock, ["labels"], lambda: model.partial_fit(X, y[:, None]))
        for weights, words in (
            (-np.ones(60), ["weights", "-1.0", "row 0"]),
            (np.ones(59), ["weights", "60 rows"]),
            (np.full(60, math.nan), ["weights", "nan"]),
            (["heavy"] * 60, ["weights"]),
        ):
            refused(model, InvalidBlock, words, lambda w=weights: model.partial_fit(X, y, w))
    wide = np.ones((2, 5))
    refused(
        model := FORMS[form](name).partial_fit(X, y),
        InvalidBlock,
        ["4 columns", "5"],
        lambda: model.decision_function(wide),
    )
    refused(model, InvalidBlock, ["4 columns", "5"], lambda: model.decision_function(csr(wide)))


@learners_in_forms()
def test_array_columns_and_other_names_do_not_mix(name, form):
    X, y = stream(200)
    arrays = FORMS[form](name).partial_fit(X, y)
    refused(arrays, InvalidBlock, ["'c0'"], lambda: arrays.learn_one({"c0": 1.0}, True))
    refused(arrays, InvalidBlock, ["'word=x'"], lambda: arrays.learn_one({0: 1.0, "word": "x"}, True))
    refused(arrays, InvalidBlock, ["'c0'"], lambda: arrays.learn_many(frame(X), y))
    arrays.learn_one({3: 1.0, 0: 2.0}, True)  # the integer 3 is column 3
    assert arrays.score_one({3: 1.0}) != arrays.score_one({2: 1.0})
    named = trained(form, name)
    refused(named, InvalidBlock, ["array of 4 columns"], lambda: named.partial_fit(X, y))
    refused(named, InvalidBlock, ["array of 4 columns"], lambda: named.decision_function(X))
    named.learn_one({"3": 1.0, 3: 2.0}, True)  # two names
    assert {"3", 3} <= names_of(named)


@variants_in_forms()
def test_weight_zero_leaves_every_bit(variant, form):
    X, y = stream(200)
    model = trained(form, variant)
    before = model.to_bytes()
    model.learn_one(GOOD, True, w=0.0)
    model.learn_one({"new": 1.0, "word": "x", **GOOD}, False, w=0)
    model.learn_many(frame(X), y, w=0.0)
    assert model.to_bytes() == before
    fresh = FORMS[form](variant)
    before = fresh.to_bytes()
    fresh.learn_one(GOOD, True, w=0.0)
    fresh.partial_fit(X, y, np.zeros(200))
    fresh.partial_fit(csr(X), y, np.zeros(200))
    assert fresh.to_bytes() == before
    weights = np.arange(200) % 3 * 0.5
    some = FORMS[form](variant).partial_fit(X, y, weights)
    kept = weights > 0
    assert state(some) == state(FORMS[form](variant).partial_fit(X[kept], y[kept], weights[kept]))
    named = FORMS[form](variant)
    named.learn_many(frame(X), y, w=weights)
    loop = FORMS[form](variant)
    for x, label, weight in zip(dicts(X), y.tolist(), weights.tolist(), strict=True):
        loop.learn_one(x, label, w=weight)
    assert state(named) == state(loop)


@variants_in_forms()
def test_scoring_never_changes_a_byte_or_adds_a_name(variant, form):
    X, _ = stream(50, seed=9)
    for model in (FORMS[form](variant), trained(form, variant)):
        before, names = model.to_bytes(), names_of(model)
        for x in (
            {},
            GOOD,
            {"never": 1.0, **GOOD},
            {"word": "new", "tags": ["u", "v"], "flag": True, "c0": None},
            {"z" * 50: -1e308},
        ):
            model.score_one(x)
            model.predict_one(x)
            model.predict_proba_one(x)
            if can(variant, Capability.CONTRIBUTIONS):
                model.explain_one(x)
        wider = frame(X).assign(never=1.0, word="w")
        model.score_many(wider)
        model.predict_proba_many(wider)
        model.predict_many(wider)
        model.engine.score_rows([{"never": 2.0}, {}])
        assert model.to_bytes() == before
        assert names_of(model) == names
    arrays = FORMS[form](variant).partial_fit(*stream(60))
    before = arrays.to_bytes()
    arrays.decision_function(X)
    arrays.decision_function(csr(X))
    arrays.engine.score_rows([[1.0] * 9, [1.0]])
    assert arrays.to_bytes() == before


@variants_in_forms()
@pytest.mark.parametrize("huge", [1e308, -1e308, 1e155])
@pytest.mark.parametrize("first", [True, False])
def test_one_huge_value_neither_poisons_nor_stops_learning(variant, form, huge, first):
    X, y = stream(1200, seed=3)
    model = FORMS[form](variant)
    if not first:
        learn_dicts(model, X[:200], y[:200])
    before = state(model)
    for label in (True, False):
        try:
            model.learn_one({"c0": huge, "c1": -huge, "new": 1.0}, label)
        except NonFiniteStep:
            assert state(model) == before
        else:
            before = state(model)
    assert_finite(model)
    learned = model.examples
    learn_dicts(model, X[200:900], y[200:900])
    assert model.examples == learned + 700
    assert_finite(model)
    scores = scores_of(model, X[900:])
    assert np.isfinite(scores).all()
    clean = FORMS[form](variant)
    learn_dicts(clean, X[0 if not first else 200 : 900], y[0 if not first else 200 : 900])
    assert ranked(scores, y[900:]) > ranked(scores_of(clean, X[900:]), y[900:]) - 0.05


def ranked(scores, y):
    return (scores[y][:, None] > scores[~y][None]).mean()


@learners_in_forms()
def test_a_row_whose_step_is_not_finite_is_skipped_whole_and_named(name, form):
    X, y = stream(40)
    Z = X.copy()
    Z[[5, 6, 20], 1] = [1e308, -1e308, 1.7e308]
    whole = literal(name, kappa=1.0)  # the literal form has no running scale to take it in
    if can(name, Capability.EVERY_FINITE_ROW):
        assert np.isfinite(whole.engine.learn_array(Z, y)).all()
        assert_finite(whole)
        return
    with pytest.raises(NonFiniteStep, match=r"rows? 5, 6, 20") as caught:
        whole.partial_fit(Z, y)
    assert list(caught.value.rows) == [5, 6, 20]
    kept = np.delete(np.arange(40), [5, 6, 20])
    assert state(whole) == state(literal(name, kappa=1.0).partial_fit(X[kept], y[kept]))
    loop, many = literal(name, kappa=1.0), literal(name, kappa=1.0)
    for i, (x, label) in enumerate(zip(dicts(Z), y.tolist(), strict=True)):
        x = {**x, "late": 1.0} if i in (5, 20) else x
        before = state(loop)
        if i in (5, 6, 20):
            with pytest.raises(NonFiniteStep):
                loop.learn_one(x, label)
            assert state(loop) == before
        else:
            loop.learn_one(x, label)
    late = frame(Z)
    late["late"] = [1.0 if i in (5, 20) else math.nan for i in range(40)]
    with pytest.raises(NonFiniteStep) as caught:
        many.learn_many(late, y)
    assert list(caught.value.rows) == [5, 6, 20]
    assert state(many) == state(loop)
    assert "late" not in names_of(many)


@variants(Capability.RUNNING_SCALER)
def test_a_skipped_row_leaves_the_scaler_alone_even_where_its_units_would_change(variant):
    X, y = stream(60)
    for at in (0, 7, 30, 52):  # below 20 rows the units change at every row
        model = learn_dicts(Pipeline(Standardize(), literal(variant, kappa=1e-200)), X[:at], y[:at])
        before = state(model)
        row = {f"c{j}": 1e300 for j in range(4)}
        try:
            model.learn_one(row, True)
        except NonFiniteStep:
            assert state(model) == before
        assert_finite(model)


def compiled_of(program):
    return [f.signatures for f in (program.learn_block, program.score_block, program.learn_row)]


@variants()
def test_inputs_are_taken_as_they_are_and_never_written_to(variant):
    X, y = stream(200)
    X = X.astype(np.float32).astype(np.float64)
    expected = state(bare(variant).partial_fit(X, y))
    program = bare(variant)._program
    bare(variant).partial_fit(csr(X), y)
    compiled = compiled_of(program)
    locked = X.copy()
    locked.flags.writeable = False
    wide = np.zeros((400, 8))
    wide[::2, ::2] = X
    for rows, labels in (
        (locked, y),
        (wide[::2, ::2], y[:]),
        (np.asfortranarray(X), y.astype(np.int8)),
        (X.astype(np.float32), y.astype(np.float32)),
        (X.tolist(), y.tolist()),
        (X.astype(object), y.astype(object)),
        (pd.DataFrame(X).to_numpy(), pd.Series(y)),
        (X, np.where(y, 1, -1)),
    ):
        copy = np.array(rows, dtype=float)
        assert state(bare(variant).partial_fit(rows, labels)) == expected
        assert np.array_equal(np.array(rows, dtype=float), copy)
    ints = np.rint(X * 8).astype(np.int32)
    assert state(bare(variant).partial_fit(ints, y)) == state(bare(variant).partial_fit(ints.astype(float), y))
    for kind in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        assert state(bare(variant).partial_fit(kind(X), y)) == state(bare(variant).partial_fit(csr(X), y))
    doubled = sparse.csr_array(
        (np.tile(X.ravel() / 2, 1).repeat(2), np.tile(np.arange(4).repeat(2), 200), np.arange(201) * 8)
    )
    assert doubled.nnz == 1600
    assert state(bare(variant).partial_fit(doubled, y)) == state(bare(variant).partial_fit(csr(X), y))
    assert doubled.nnz == 1600
    assert compiled_of(program) == compiled


def test_a_hashed_model_refuses_weights_by_name_and_takes_any_name():
    model = Pipeline(Hashing(6), Standardize(), bare("solam"))
    learn_dicts(model, *stream(30))
    with pytest.raises(ValueError, match="hashing"):
        model.weights
    model.learn_one({3: 1.0, "3": 2.0}, True)
