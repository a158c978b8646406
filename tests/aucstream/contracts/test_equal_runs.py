"""One stream, however it comes and however it is cut, makes one model."""

from __future__ import annotations

import copy
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import aucstream
from aucstream import BoundedNorm, Hashing, Pipeline, Standardize, UnitNorm
from aucstream.learners._base.capabilities import Capability

from .models import (
    FORMS,
    bare,
    can,
    csr,
    dicts,
    forms_of,
    frame,
    learn_dicts,
    names_of,
    same,
    scores_of,
    state,
    stream,
    variants,
    variants_in_forms,
)

UNEVEN = [0, 1, 3, 200, 201, 530, 997, 1000]  # edges of 7 batches


@variants_in_forms()
def test_learn_many_in_any_split_equals_the_loop_to_the_last_bit(variant, form):
    X, y = stream(1000)
    loop = learn_dicts(FORMS[form](variant), X, y)
    whole = FORMS[form](variant)
    whole.learn_many(frame(X), y)
    uneven = FORMS[form](variant)
    for a, b in itertools.pairwise(UNEVEN):
        uneven.learn_many(frame(X[a:b]), y[a:b])
    assert state(whole) == state(loop)
    assert state(uneven) == state(loop)
    assert whole.score_many(frame(X[:50])).to_list() == scores_of(loop, X[:50]).tolist()


@variants_in_forms()
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_partial_fit_in_any_split_equals_row_by_row_to_the_last_bit(variant, form, kind):
    X, y = stream(1000, zeros=0.4 if kind == "csr" else 0.0)
    rows = csr(X) if kind == "csr" else X
    whole = FORMS[form](variant).partial_fit(rows, y)
    uneven, single = FORMS[form](variant), FORMS[form](variant)
    for a, b in itertools.pairwise(UNEVEN):
        uneven.partial_fit(rows[a:b], y[a:b])
    for i in range(1000):
        single.partial_fit(rows[i : i + 1], y[i : i + 1])
    assert state(uneven) == state(whole)
    assert state(single) == state(whole)


@variants()
def test_rows_with_new_names_in_mid_stream_are_the_same_in_any_split(variant):
    random = np.random.default_rng(3)
    rows = [
        {f"w{j}": float(random.normal()) for j in random.choice(2 + i // 10, size=2, replace=False)}
        | ({"word": str(random.integers(1 + i // 20)), "flag": bool(i % 3)} if i % 2 else {"tags": ["u", f"t{i % 7}"]})
        for i in range(300)
    ]
    y = (random.random(300) < 0.4).astype(float) * 2 - 1
    for form in forms_of(variant):
        loop, block = form(variant), form(variant)
        for x, label in zip(rows, y, strict=True):
            loop.learn_one(x, label)
        for a, b in zip([0, 1, 90], [1, 90, 300], strict=True):
            block.engine.learn_rows(rows[a:b], y[a:b])
        assert state(block) == state(loop)


@variants()
def test_a_learn_call_returns_what_score_one_gives_just_before(variant):
    X, y = stream(300)
    for form in forms_of(variant):
        model, twin = form(variant), form(variant)
        before = []
        for x, label in zip(dicts(X), y.tolist(), strict=True):
            before.append(twin.score_one(x))
            twin.learn_one(x, label)
        assert model.engine.learn_rows(dicts(X), np.where(y, 1.0, -1.0)).tolist() == before
        assert len(set(before)) > 100


@variants(Capability.FORMLESS)
def test_dense_rows_csr_rows_and_dicts_give_the_same_scores(variant):
    X, y = stream(400, d=11, zeros=0.5)
    dense = bare(variant).partial_fit(X, y).decision_function(X)
    assert same(bare(variant).partial_fit(csr(X), y).decision_function(csr(X)), dense)
    assert same(scores_of(learn_dicts(bare(variant), X, y), X), dense)
    sparse_dicts = bare(variant)
    for x, label in zip(dicts(X), y.tolist(), strict=True):
        sparse_dicts.learn_one({name: value for name, value in x.items() if value}, label)
    assert same(scores_of(sparse_dicts, X), dense)


@variants(Capability.RUNNING_SCALER)
def test_dense_rows_csr_rows_and_dicts_give_the_same_scores_through_scalers(variant):
    X, y = stream(400, d=11, zeros=0.5)

    def made():
        return Pipeline(Standardize(with_mean=False), BoundedNorm(), bare(variant))

    dense = made().partial_fit(X, y).decision_function(X)
    assert same(made().partial_fit(csr(X), y).decision_function(csr(X)), dense, 1e-9)
    X = stream(400, d=11)[0]
    dense = FORMS["piped"](variant).partial_fit(X, y).decision_function(X)
    assert same(scores_of(learn_dicts(FORMS["piped"](variant), X, y), X), dense)


@variants(Capability.FORMLESS)
def test_zeros_written_out_and_the_order_of_keys_change_nothing(variant):
    X, y = stream(400, d=7, zeros=0.5)
    plain = bare(variant).partial_fit(csr(X), y).decision_function(X)
    written = csr(X + 1e9)
    written.data -= 1e9
    written.data = X.ravel().copy()
    assert written.nnz == X.size
    assert same(bare(variant).partial_fit(written, y).decision_function(X), plain)
    random = np.random.default_rng(0)
    permuted = bare(variant)
    for x, label in zip(dicts(X), y.tolist(), strict=True):
        names = list(x)
        random.shuffle(names)
        permuted.learn_one({name: x[name] for name in names}, label)
    assert same(scores_of(permuted, X), plain)
    columns = random.permutation(7)
    moved = bare(variant).partial_fit(X[:, columns], y).decision_function(X[:, columns])
    assert same(moved, plain)


@variants(Capability.PIPELINE)
def test_zeros_written_out_change_nothing_behind_the_scaling_of_sparse_rows(variant):
    X, y = stream(400, d=7, zeros=0.5)
    X[:, 2] = np.where(X[:, 2] == 0.0, 0.0, 1000.0 + X[:, 2])  # far from zero: an outlier if zeros were values
    X[:30, 2] = 1000.0 + np.arange(30)
    written = csr(np.ones_like(X))
    written.data = X.ravel().copy()
    plain = FORMS["piped"](variant).partial_fit(csr(X), y)
    explicit = FORMS["piped"](variant).partial_fit(written, y)
    assert same(explicit.decision_function(csr(X)), plain.decision_function(csr(X)))


@variants()
def test_names_decide_and_weights_has_exactly_the_names_learned(variant):
    model = bare(variant)
    model.learn_one({"a": 1.0}, True)
    model.learn_one({"b": 1.0}, False)
    model.learn_one({"z": 1.0, "a": 2.0}, True)
    assert names_of(model) == {"a", "b", "z"}
    assert model.score_one({"z": 1.0, "a": 2.0}) == pytest.approx(model.score_one({"a": 2.0, "z": 1.0}), rel=1e-12)


@variants(Capability.FORMLESS)
def test_a_learner_that_grew_equals_one_that_was_wide_from_the_start(variant):
    X, y = stream(400, d=40, zeros=0.3)
    for i in range(400):
        X[i, 2 + i // 10 :] = 0.0
    wide = bare(variant).partial_fit(X, y)
    grown = bare(variant)
    for a in range(0, 400, 10):
        grown.partial_fit(X[a : a + 10, : 2 + a // 10], y[a : a + 10])
    assert same(
        grown.partial_fit(X[:1] * 0, [True]).decision_function(X),
        wide.partial_fit(X[:1] * 0, [True]).decision_function(X),
    )


@variants_in_forms()
@pytest.mark.parametrize("k", [1, 7, 500])
def test_saved_and_loaded_in_mid_stream_goes_on_to_the_last_bit(variant, form, k, tmp_path):
    X, y = stream(700)
    never = learn_dicts(FORMS[form](variant), X, y)
    learn_dicts(stopped := FORMS[form](variant), X[:k], y[:k]).save(tmp_path / "model")
    resumed = aucstream.load(tmp_path / "model")
    assert state(resumed) == state(stopped)
    learn_dicts(resumed, X[k:], y[k:])
    assert state(resumed) == state(never)
    assert scores_of(resumed, X[:50]).tolist() == scores_of(never, X[:50]).tolist()
    assert type(resumed) is type(never)


@variants()
@pytest.mark.parametrize("kind", ["dense", "csr"])
def test_arrays_go_on_after_a_load_to_the_last_bit(variant, kind):
    X, y = stream(300, d=9, zeros=0.3)
    rows = csr(X) if kind == "csr" else X
    for form in forms_of(variant):
        never = form(variant).partial_fit(rows, y)
        resumed = aucstream.from_bytes(form(variant).partial_fit(rows[:137], y[:137]).to_bytes())
        assert state(resumed.partial_fit(rows[137:], y[137:])) == state(never)


@variants(Capability.PIPELINE)
def test_a_hashed_model_goes_on_after_a_load_to_the_last_bit(variant):
    X, y = stream(300, d=9)

    def made():
        scaler = [Standardize()] * can(variant, Capability.RUNNING_SCALER)
        norm = [UnitNorm()] * can(variant, Capability.STEPS_BEFORE)
        return Pipeline(Hashing(5), *scaler, *norm, bare(variant))

    never = learn_dicts(made(), X, y)
    resumed = aucstream.from_bytes(learn_dicts(made(), X[:137], y[:137]).to_bytes())
    assert state(learn_dicts(resumed, X[137:], y[137:])) == state(never)


COPIES = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "deepcopy": copy.deepcopy,
    "clone": lambda model: model.clone(include_attributes=True),
}


@variants_in_forms()
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_in_mid_stream_goes_on_to_the_last_bit_and_on_its_own(variant, form, how):
    X, y = stream(400)
    model = learn_dicts(FORMS[form](variant), X[:150], y[:150])
    before = model.to_bytes()
    made = COPIES[how](model)
    assert made.to_bytes() == before
    learn_dicts(made, X[150:], y[150:])
    assert model.to_bytes() == before
    assert learn_dicts(model, X[150:], y[150:]).to_bytes() == made.to_bytes()


@variants()
def test_a_pickle_holds_state_and_no_code(variant):
    model = learn_dicts(bare(variant), *stream(50))
    assert len(pickle.dumps(model)) < 2 * len(model.to_bytes()) + 8_000
    assert b"def " not in pickle.dumps(model)


def test_a_pickle_goes_on_in_another_process(tmp_path: Path):
    X, y = stream(60)
    models = [learn_dicts(form("psam"), X[:30], y[:30]) for form in FORMS.values()]
    (tmp_path / "pickle").write_bytes(pickle.dumps(models))
    program = (
        "import pickle, sys, pathlib; folder = pathlib.Path(sys.argv[1]);"
        "models = pickle.loads((folder / 'pickle').read_bytes());"
        "[m.learn_one({'c0': 1.5, 'c1': 2.0, 'c2': 0.5, 'c3': 0.25}, i % 3 == 0) for m in models for i in range(9)];"
        "(folder / 'after').write_bytes(pickle.dumps([m.to_bytes() for m in models]))"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=120)
    for model in models:
        for i in range(9):
            model.learn_one({"c0": 1.5, "c1": 2.0, "c2": 0.5, "c3": 0.25}, i % 3 == 0)
    assert pickle.loads((tmp_path / "after").read_bytes()) == [model.to_bytes() for model in models]


@variants()
def test_fit_starts_anew_and_is_the_same_every_time(variant):
    X, y = stream(200)
    model = learn_dicts(bare(variant), *stream(50, seed=5))
    first = model.fit(X, y, epochs=2).to_bytes()
    assert model.fit(X, y, epochs=2).to_bytes() == first
    assert bare(variant).fit(X.tolist(), y.tolist(), epochs=2).to_bytes() == first
    further = bare(variant).fit(X, y, epochs=3).to_bytes()
    assert (further != first) is can(variant, Capability.REPEATED_FIT)
    if can(variant, Capability.FORMLESS):
        assert same(bare(variant).fit(csr(X), y, epochs=2).decision_function(X), model.decision_function(X))


@variants_in_forms()
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_of_a_model_that_has_learned_nothing_yet_takes_names_as_the_model_does(variant, form, how):
    X, y = stream(60, d=20)
    made = COPIES[how](FORMS[form](variant))
    assert state(learn_dicts(made, X, y)) == state(learn_dicts(FORMS[form](variant), X, y))
