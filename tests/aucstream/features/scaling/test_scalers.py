"""Scalers against plain NumPy, and their schedule."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from aucstream import AutoScale, BoundedNorm, Pipeline, Standardize, UnitNorm
from aucstream.errors import InvalidBlock, InvalidParams
from aucstream.features.scaling.scaling import Scaling

SCALERS = [Standardize, lambda: Standardize(with_mean=False), BoundedNorm, UnitNorm, AutoScale]
random = np.random.default_rng(0)
X = random.normal(size=(300, 4)) * [1.0, 5.0, 0.1, 100.0] + [0.0, 3.0, 0.0, -50.0]


def change_rows(n: int) -> list[int]:
    """Return the row numbers (from 1) at which the applied values change."""
    rows, last = [], 0
    while True:
        last += 1 if last < 20 else -(-last // 10)
        if last > n:
            return rows
        rows.append(last)


def plain_applied(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (mean, deviation) as documented, outliers not cut: the rows must have none."""
    n = len(rows)
    mean = rows.mean(axis=0)
    squares = ((rows - mean) ** 2).sum(axis=0)
    reach = np.ptp(rows, axis=0)
    relative = (squares / n / reach**2).mean()
    return mean, np.sqrt((squares + 30.0 * relative * reach**2) / (n + 30.0))


@pytest.mark.parametrize("n", [2, 19, 20, 21, 22, 100, 300])
def test_standardize_equals_plain_numpy_at_the_last_change(n):
    last = change_rows(n)[-1]
    mean, deviation = plain_applied(X[:last])
    got = Standardize().partial_fit(X[:n]).transform(X)
    assert np.allclose(got, (X - mean) / deviation, rtol=1e-11, atol=1e-11)
    uncentred = Standardize(with_mean=False).partial_fit(X[:n]).transform(X)
    assert np.allclose(uncentred, X / deviation, rtol=1e-11)


def test_the_applied_values_change_at_every_row_below_20_and_then_when_rows_grew_by_a_tenth():
    scaler = Standardize()
    changed, before = [], None
    for i, row in enumerate(X, 1):
        scaler.partial_fit(row[None])
        now = scaler.transform(X[:1]).tolist()
        if now != before:
            changed.append(i)
        before = now
    assert changed == change_rows(300)
    assert changed[17:23] == [18, 19, 20, 22, 25, 28]


def test_bounded_norm_divides_by_the_typical_norm_and_unit_norm_by_the_row_s():
    scaler = BoundedNorm().partial_fit(X[:20])
    norms = np.linalg.norm(X[:20], axis=1)
    square = 0.0
    for i, norm in enumerate(norms):
        norm = min(norm, 2.0 * np.sqrt(square)) if i else norm
        square += (norm**2 - square) / (i + 1)
    expected = X / np.sqrt(square + (X**2).sum(axis=1))[:, None]
    assert np.allclose(scaler.transform(X), expected, rtol=1e-12)
    assert (np.linalg.norm(scaler.transform(X * 1e6), axis=1) < 1.0 + 1e-12).all()
    unit = UnitNorm().partial_fit(X)
    assert np.allclose(np.linalg.norm(unit.transform(X), axis=1), 1.0, rtol=1e-12)
    assert unit.transform(X[:1] * 0).tolist() == [[0.0] * 4]


@pytest.mark.parametrize("make", SCALERS)
def test_a_row_of_zeros_and_an_empty_row_stay_finite(make):
    scaler = make()
    assert scaler.transform_one({}) == {}
    scaler.learn_one({})
    scaler.learn_one({"a": 0.0})
    assert scaler.transform_one({"a": 0.0}) == {"a": 0.0}
    assert np.isfinite(list(scaler.transform_one({"a": 1e308, "b": -1e308}).values())).all()


def test_indicators_pass_and_what_has_not_varied_is_emitted_as_its_sign():
    scaler = Standardize()
    for i in range(30):
        scaler.learn_one({"flag": i % 3 == 0, "word": "v", "tags": ["t"], "constant": -7.0, "varies": float(i)})
    out = scaler.transform_one({"flag": True, "word": "v", "tags": ["t", "new"], "constant": 9.0, "fresh": -2.0})
    assert out == {"flag": 1.0, "word=v": 1.0, "tags=t": 1.0, "tags=new": 1.0, "constant": 1.0, "fresh": -1.0}
    assert "varies" not in out  # an absent name is not emitted
    assert scaler.transform_one({"varies": 14.5})["varies"] == pytest.approx(0.0, abs=0.2)


def test_an_absent_name_is_not_counted_in_dicts_and_is_zero_in_sparse_arrays():
    named, arrays = Standardize(with_mean=False), Standardize(with_mean=False)
    for i in range(20):
        named.learn_one({0: float(i)} if i % 2 else {1: 1.0 + i})
    dense = np.zeros((20, 2))
    dense[1::2, 0] = np.arange(1, 20, 2)
    dense[::2, 1] = 1.0 + np.arange(0, 20, 2)
    arrays.partial_fit(sparse.csr_array(dense))
    full = Standardize(with_mean=False).partial_fit(dense)
    assert np.allclose(arrays.transform(sparse.csr_array(dense)).toarray(), full.transform(dense), rtol=1e-12)
    assert named.transform_one({0: 1.0})[0] > 1.1 * full.transform(np.eye(2))[0, 0]


@pytest.mark.parametrize("make", SCALERS)
def test_frames_arrays_and_rows_make_the_same_scaler(make):
    loop, many, array = make(), make(), make()
    frame = pd.DataFrame(X)
    for row in X.tolist():
        loop.learn_one(dict(enumerate(row)))
    many.learn_many(frame)
    array.partial_fit(X)
    expected = [list(loop.transform_one(dict(enumerate(row))).values()) for row in X.tolist()]
    assert many.transform_many(frame).to_numpy().tolist() == expected
    assert np.allclose(array.transform(X), expected, rtol=1e-12)


def test_a_value_of_many_deviations_enters_cut():
    clean, dirty = Standardize().partial_fit(X[:100]), Standardize().partial_fit(X[:100])
    dirty.partial_fit(np.full((1, 4), 1e12))
    clean.partial_fit(X[100:200])
    dirty.partial_fit(X[100:199])
    difference = np.abs(dirty.transform(X) - clean.transform(X))
    assert 0.0 < difference.max() < 1.0


def test_an_early_giant_is_forgotten():
    late = Standardize().partial_fit(X)
    for giant in (1e10, -1e100, 1e308):
        early = Standardize().partial_fit(np.vstack([np.full((2, 4), giant), X]))
        assert np.abs(early.transform(X[:50]) - late.transform(X[:50])).max() < 0.2


@pytest.mark.parametrize("large", [3e6, 1e9, 1e100])
def test_a_column_of_two_scales_starts_anew_a_few_times_only(large):
    random = np.random.default_rng(2)
    column = np.where(random.random(400) < 0.5, large, 1.0)[:, None]
    scaler = Standardize().partial_fit(column)
    low, high = scaler.transform(np.array([[1.0], [large]])).ravel()
    assert high - low == pytest.approx(2.0, abs=0.3)


def test_non_finite_values_pass_as_nan_so_that_a_learner_skips_them():
    scaling = Scaling(standard=True, norm="bounded")
    kinds = np.ones(4, dtype=np.uint8)
    scaling.widen(4)
    for value in (np.nan, np.inf, -np.inf):
        out, _ = scaling.forward_row(None, np.array([1.0, value, 0.0, 2.0]), kinds)
        assert np.isnan(out).any()


def test_the_rows_given_are_not_written_to_and_a_wider_array_is_refused():
    rows = X.copy()
    rows.flags.writeable = False
    scaler = Standardize().partial_fit(rows)
    scaler.transform(rows)
    assert (rows == X).all()
    with pytest.raises(InvalidBlock, match="4 columns"):
        scaler.transform(np.ones((1, 5)))
    with pytest.raises(InvalidParams, match="with_mean"):
        Standardize(with_mean="yes")


@pytest.mark.parametrize(
    ("steps", "resolved"),
    [
        ([AutoScale()], "standard+bounded"),
        ([Standardize(), UnitNorm()], "standard+l2"),
        ([Standardize(with_mean=False), BoundedNorm()], "scale+bounded"),
        ([UnitNorm()], "l2"),
        ([], "none"),
    ],
)
def test_a_pipeline_s_fused_scaling_equals_its_scalers_one_after_another(steps, resolved):
    from aucstream import SOLAM

    model = Pipeline(*steps, SOLAM())
    y = X[:, 0] > 0
    model.partial_fit(X, y)
    assert model.resolved == {"scaler": resolved}
    parts = [Standardize(), BoundedNorm()] if resolved == "standard+bounded" else steps
    # up to 20 rows every stage applies its newest values: the chain is the stages in turn
    model = Pipeline(*steps, SOLAM()).partial_fit(X[:20], y[:20])
    parts = [part.clone() for part in parts]
    for i in range(20):
        rows = X[i : i + 1]
        for part in parts:
            rows = part.partial_fit(rows).transform(rows)
    rows = X
    for part in parts:
        rows = part.transform(rows)
    w = np.array(list(model.weights.values()))
    assert np.allclose(rows @ w, model.decision_function(X), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["SOLAM", "CBR"])
def test_rows_of_unit_length_are_in_one_unit_for_ever(name):
    import aucstream

    y = X[:, 0] > 0
    grown = X * np.linspace(1.0, 40.0, 300)[:, None]  # norms that move, directions that do not
    unit = grown / np.sqrt((grown**2).sum(axis=1))[:, None]
    learner = getattr(aucstream, name)
    piped = Pipeline(UnitNorm(), learner()).partial_fit(grown, y)
    alone = learner().partial_fit(unit, y)
    assert np.allclose(list(piped.weights.values()), alone.coefficients(), rtol=1e-9)
