"""Frames of pandas and polars, Arrow tables and record batches: the same rows by name, whatever holds them."""

from __future__ import annotations

import datetime
import decimal
import itertools

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import aucstream
from aucstream import PSAM, AutoScale, Columns, Hashing, KMeansNystroem, Pipeline, Standardize, Vocabulary
from aucstream.errors import InvalidBlock
from aucstream.features.frames import is_frame, table_of
from aucstream.features.number_rows import NumberRows
from aucstream.registry import LEARNERS, learner_class

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)


def mixed(n=200, seed=0):
    rng = np.random.default_rng(seed)
    rows = {
        "amount": rng.normal(size=n).tolist(),
        "count": rng.integers(0, 9, n).tolist(),
        "shop": rng.choice(["north", "south", "west"], n).tolist(),
        "new": (rng.random(n) < 0.3).tolist(),
        "late": [None if i % 5 == 0 else float(i) for i in range(n)],
        "at": [NOON + datetime.timedelta(hours=i) for i in range(n)],
    }
    y = rng.random(n) < 1 / (1 + np.exp(-2 * np.array(rows["amount"])))
    return rows, y


def holders(rows):
    """Return the same rows in each kind of frame."""
    arrow = pa.table(rows)
    return {
        "pandas": pd.DataFrame(rows),
        "nullable": pd.DataFrame(rows).convert_dtypes(),
        "polars": pl.DataFrame(rows),
        "table": arrow,
        "batch": arrow.to_batches()[0],
    }


def dicts(rows):
    each = [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return [
        {
            name: value.timestamp() if isinstance(value, datetime.datetime) else value
            for name, value in x.items()
            if value is not None
        }
        for x in each
    ]


def scores_of(values):
    return np.asarray(values, dtype=float)


@pytest.mark.parametrize("holder", ["pandas", "nullable", "polars", "table", "batch"])
def test_each_kind_of_frame_is_the_loop_over_dicts(holder):
    rows, y = mixed()
    X = holders(rows)[holder]
    loop, many, arrays = (Pipeline(AutoScale(), PSAM()) for _ in range(3))
    for x, label in zip(dicts(rows), y.tolist(), strict=True):
        loop.learn_one(x, label)
    many.learn_many(X, y)
    arrays.partial_fit(X, y)
    expected = [loop.score_one(x) for x in dicts(rows)]
    for model in (many, arrays):
        np.testing.assert_array_equal(scores_of(model.score_many(X)), expected)
        np.testing.assert_array_equal(model.decision_function(X), expected)
    assert loop.weights == many.weights


@pytest.mark.parametrize(
    ("holder", "series", "table"),
    [
        ("pandas", pd.Series, pd.DataFrame),
        ("polars", pl.Series, pl.DataFrame),
        ("table", pa.Array, pa.Table),
        ("batch", pa.Array, pa.Table),
    ],
)
def test_answers_are_of_the_library_of_the_rows(holder, series, table):
    rows, y = mixed()
    X = holders(rows)[holder]
    model = Pipeline(AutoScale(), PSAM())
    model.learn_many(X, y)
    assert isinstance(model.score_many(X), series)
    assert isinstance(model.predict_many(X), series)
    p = model.predict_proba_many(X)
    assert isinstance(p, table)
    last = p["True"] if holder != "pandas" else p[True]
    expected = [model.predict_proba_one(x)[True] for x in dicts(rows)]
    np.testing.assert_allclose(np.asarray(last), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "auto"])  # its members go by the form of rows
def test_fit_takes_a_frame_by_its_names(name):
    """Three columns of numbers: the weights and the scores of the array, under the frame's names."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 3))
    y = X[:, 0] - X[:, 1] + rng.normal(size=400) > 1
    table = pd.DataFrame(X, columns=["a", "b", "c"])
    named = learner_class(name)().fit(table, y)
    numbered = learner_class(name)().fit(X, y)
    np.testing.assert_allclose(named.decision_function(table), numbered.decision_function(X), rtol=1e-9, atol=1e-12)
    other = table[["c", "a", "b"]]
    np.testing.assert_allclose(named.decision_function(other), named.decision_function(table), rtol=1e-9, atol=1e-12)


def test_names_decide_and_an_array_after_a_frame_is_refused():
    rows, y = mixed()
    X = pd.DataFrame({name: rows[name] for name in ("amount", "count")})
    model = Pipeline(AutoScale(), PSAM())
    model.partial_fit(X, y)
    expected = model.decision_function(X)
    np.testing.assert_allclose(model.decision_function(X[["count", "amount"]]), expected, rtol=1e-12)
    wider = X.assign(other=1.0)
    loop = [model.score_one(x) for x in wider.to_dict("records")]
    np.testing.assert_array_equal(model.decision_function(wider), loop)
    before = model.to_bytes()
    for call in (lambda: model.decision_function(X.to_numpy()), lambda: model.partial_fit(X.to_numpy(), y)):
        with pytest.raises(InvalidBlock, match="learned names"):
            call()
    arrays = Pipeline(AutoScale(), PSAM()).partial_fit(X.to_numpy(), y)
    for call in (lambda: arrays.decision_function(X), lambda: arrays.partial_fit(X, y), lambda: arrays.score_many(X)):
        with pytest.raises(InvalidBlock, match="'amount'"):
            call()
    assert model.to_bytes() == before


def test_a_frame_without_names_has_those_of_an_array():
    X = np.random.default_rng(0).normal(size=(100, 3))
    y = X[:, 0] > 0
    model = PSAM()
    model.learn_many(pd.DataFrame(X), y)
    other = PSAM().partial_fit(X, y)
    np.testing.assert_array_equal(model.decision_function(X), other.decision_function(pd.DataFrame(X)))


def test_categories_are_words_and_times_are_seconds():
    day = datetime.date(1970, 1, 3)
    X = pd.DataFrame(
        {
            "kind": pd.Categorical([7, 8, None]),
            "day": [day, None, day],
            "at": pd.to_datetime(["1970-01-01 00:01", None, "1970-01-02"], format="ISO8601"),
            "zone": pd.to_datetime(["1970-01-01 00:00+01:00", None, None]).tz_convert("Asia/Tokyo"),
            "took": pd.to_timedelta(["90s", None, "1D"]),
            "price": [decimal.Decimal("1.5"), None, decimal.Decimal(2)],
            "words": [["a", "b"], None, []],
        }
    )
    first, second, third = table_of(X).rows
    assert first == {
        "kind": "7", "day": 172800.0, "at": 60.0, "zone": -3600.0, "took": 90.0, "price": 1.5, "words": ["a", "b"],
    }  # fmt: skip
    assert second == {"kind": "8"}
    assert third == {"day": 172800.0, "at": 86400.0, "took": 86400.0, "price": 2.0, "words": []}


def test_numbers_alone_are_one_matrix():
    X = pl.DataFrame({"a": [1, 2], "b": [0.5, 1.5]})
    assert isinstance(table_of(X).rows, NumberRows)
    assert list(table_of(X).rows) == [{"a": 1.0, "b": 0.5}, {"a": 2.0, "b": 1.5}]


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (pl.DataFrame({"a": [1.0]}).lazy(), "LazyFrame"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "unique names"),
        (pa.table([[1], [2]], names=["a", "a"]), "unique names"),
        (pl.DataFrame({"a": [{"b": 1}]}), "'a'"),
        (pl.DataFrame({"a": [b"x"]}), "'a'"),
        (pl.DataFrame({"a": [1.0, float("inf")]}), "'a'"),
        (pl.DataFrame({"a": [["x", None]]}), "'a'"),
        (pd.DataFrame({"a": [1.0, np.inf]}), "'a'"),
        (pd.DataFrame.sparse.from_spmatrix(sparse.csr_array([[1.0], [np.inf]])), "finite"),
    ],
)
def test_what_cannot_be_used_is_refused_and_named(X, words):
    rows, y = mixed(2)
    good = pl.DataFrame({"a": rows["amount"]})
    model = PSAM().partial_fit(good, y)
    before = model.to_bytes()
    n = 2 if isinstance(X, pl.LazyFrame) else X.shape[0]
    for call in (model.partial_fit, model.learn_many, lambda X, y: PSAM().fit(X, y)):
        with pytest.raises(InvalidBlock, match=words):
            call(X, y[:n])
    assert model.to_bytes() == before


def test_a_frame_that_is_none_is_refused():
    for X in ([[1.0]], np.ones((1, 1)), "rows", None):
        assert not is_frame(X)
        with pytest.raises(InvalidBlock, match="a data frame"):
            PSAM().learn_many(X, [1])


# -- sparse frames --------------------------------------------------------------------------------------


def sparse_rows(n=300, d=40, seed=0):
    rng = np.random.default_rng(seed)
    X = sparse.random_array((n, d), density=0.1, format="csr", rng=rng)
    y = np.asarray(X[:, [0]].todense()).ravel() + rng.normal(size=n) > 0.8
    return X, y, pd.DataFrame.sparse.from_spmatrix(X, columns=[f"c{j}" for j in range(d)])


@pytest.mark.parametrize("encoder", [Vocabulary(), Hashing(16)])
def test_a_sparse_frame_is_its_matrix_with_names(encoder):
    X, y, table = sparse_rows()
    model = Pipeline(encoder, AutoScale(), PSAM()).partial_fit(table, y)
    assert model.resolved == {"scaler": "scale+bounded"}
    if isinstance(encoder, Vocabulary):
        order = [int(name[1:]) for name in model.weights]
        numbered = Pipeline(AutoScale(), PSAM()).partial_fit(X[:, order], y)
        np.testing.assert_allclose(model.decision_function(table), numbered.decision_function(X[:, order]), rtol=1e-12)
    shuffled = table[table.columns[::-1]]
    np.testing.assert_allclose(model.decision_function(shuffled), model.decision_function(table), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 300), max_size=4), seed=st.integers(0, 3))
def test_a_sparse_frame_in_parts_is_the_whole(cuts, seed):
    _, y, table = sparse_rows(seed=seed)
    whole = Pipeline(AutoScale(), PSAM()).partial_fit(table, y)
    parts = Pipeline(AutoScale(), PSAM())
    edges = [0, *sorted(cuts), 300]
    for a, b in itertools.pairwise(edges):
        parts.partial_fit(table.iloc[a:b], y[a:b])
    order = list(parts.weights)
    np.testing.assert_allclose([whole.weights[name] for name in order], list(parts.weights.values()), rtol=1e-9)


def test_a_sparse_frame_takes_weights_and_dense_columns():
    _, y, table = sparse_rows()
    table = table.assign(amount=np.linspace(-1, 1, 300), flag=pd.arrays.SparseArray(np.arange(300) % 9 == 0))
    model = Pipeline(AutoScale(), PSAM()).partial_fit(table, y, np.arange(300) % 2)
    half = Pipeline(AutoScale(), PSAM()).partial_fit(table.iloc[1::2], y[1::2])
    assert {"amount", "flag"} <= half.weights.keys()
    np.testing.assert_allclose(model.decision_function(table), half.decision_function(table), rtol=1e-9)
    words = table.assign(word="w")
    named = Pipeline(AutoScale(), PSAM())
    named.learn_many(words, y)
    assert "word=w" in named.weights
    assert named.examples == 300


def test_a_sparse_frame_keeps_its_cells_alone():
    X, _, table = sparse_rows()
    matrix = table_of(table).matrix
    assert matrix.nnz == X.nnz
    np.testing.assert_array_equal(matrix.toarray(), X.toarray())


def test_columns_of_a_frame_are_what_is_said_of_them():
    rows, y = mixed()
    said = Columns(ignore=["late", "at"], category=["count"], number=["price"], decimal=",")
    prices = {**rows, "price": [f"{value:.2f}".replace(".", ",") for value in rows["amount"]]}
    loop = Pipeline(said, AutoScale(), PSAM())
    for x, label in zip(dicts(prices), y.tolist(), strict=True):
        loop.learn_one(x, label)
    for X in holders(prices).values():
        model = Pipeline(said, AutoScale(), PSAM()).partial_fit(X, y)
        assert model.weights == loop.weights
        np.testing.assert_array_equal(model.decision_function(X), [loop.score_one(x) for x in dicts(prices)])
    assert {"price", "count=3"} <= loop.weights.keys()
    assert not {"late", "at"} & loop.weights.keys()


def test_columns_of_a_sparse_frame_are_what_is_said_of_them():
    _, y, table = sparse_rows()
    model = Pipeline(Columns(ignore=["c0", "c1?"]), AutoScale(), PSAM()).partial_fit(table, y)
    assert set(model.weights) == {f"c{j}" for j in range(1, 40) if not 10 <= j < 20}
    assert model.decision_function(table).shape == (300,)


# -- steps -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("holder", ["pandas", "polars", "table", "batch"])
def test_scalers_and_maps_take_frames(holder):
    rows, _ = mixed()
    X = holders({name: rows[name] for name in ("amount", "count")})[holder]
    scaler, map_ = Standardize(), KMeansNystroem(landmarks=5, warmup=100)
    for step in (scaler, map_):
        step.learn_many(X)
        out = step.transform_many(X)
        assert out.shape[0] == 200
        assert is_frame(out)
    one = scaler.transform_one({"amount": rows["amount"][3], "count": rows["count"][3]})
    out = scaler.transform_many(X)
    for name, value in one.items():
        assert np.asarray(out[name])[3] == pytest.approx(value, rel=1e-12)


def test_progressive_takes_a_frame():
    rows, y = mixed()
    results = [aucstream.evaluate.progressive(Pipeline(AutoScale(), PSAM()), X, y).auc for X in holders(rows).values()]
    pairs = aucstream.evaluate.progressive(Pipeline(AutoScale(), PSAM()), zip(dicts(rows), y.tolist(), strict=True))
    assert set(results) == {pairs.auc}


@pytest.mark.parametrize("name", ["psam", "mba", "jointforest", "auto"])
def test_a_model_whose_arrays_are_mapped_from_a_file_learns_on(name, tmp_path):
    X = np.random.default_rng(0).normal(size=(400, 4))
    y = X[:, 0] > 0.5
    model = Pipeline(AutoScale(), learner_class(name)()).partial_fit(X, y)
    joblib.dump(model, tmp_path / "model")
    copy = joblib.load(tmp_path / "model", mmap_mode="r")
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
    copy.partial_fit(X, y)
    model.partial_fit(X, y)
    np.testing.assert_array_equal(copy.decision_function(X), model.decision_function(X))
