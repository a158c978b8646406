"""Feature maps against plain NumPy, and what all of them promise."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import preprocessing
from scipy import sparse

from aucstream import PSAM, KMeansNystroem, RandomFourier, RandomNetwork, RandomThresholds
from aucstream.errors import InvalidBlock, InvalidParams
from aucstream.features.maps.maps import MAPS, landmarks, map_of, spread
from aucstream.kernels.rows import maps as kernel

random = np.random.default_rng(0)
X = random.normal(size=(300, 5)) * [1.0, 2.0, 0.5, 1.0, 3.0] + [0.0, 1.0, 0.0, -1.0, 0.0]
every_map = pytest.mark.parametrize("cls", MAPS.values(), ids=MAPS)


def small(cls, **params):
    return cls(**{cls._size_name(): 12, "warmup": 100, **params})


def squares(A, B):
    return ((A[:, None, :] - B[None]) ** 2).sum(axis=2)


def plain_spread(rows):
    return ((rows - rows.mean(axis=0)) ** 2).sum(axis=1).mean()


def plain_landmarks(rows, m, seed):
    """Lloyd's algorithm from the first m distinct rows of a random order; loops, dense."""
    order = np.random.default_rng(seed).permutation(len(rows))
    centres = []
    for i in order:
        if len(centres) < m and not any((rows[i] == c).all() for c in centres):
            centres.append(rows[i].copy())
    centres = np.array(centres)
    for _ in range(10):
        nearest = squares(rows, centres).argmin(axis=1)
        for c in range(len(centres)):
            if (nearest == c).any():
                centres[c] = rows[nearest == c].mean(axis=0)
    return centres


def dicts(rows):
    return [dict(enumerate(row)) for row in rows.tolist()]


# -- the mathematics ------------------------------------------------------------------------------


@pytest.mark.parametrize("m", [1, 5, 40, 1000])
def test_landmarks_are_the_means_of_lloyd(m):
    rows = X[:100]
    got = landmarks(sparse.csr_array(rows), m, np.random.default_rng(3)).T
    assert got.shape == (min(m, 100), 5)
    assert np.allclose(got, plain_landmarks(rows, m, 3), rtol=1e-12, atol=1e-12)


def test_landmarks_start_at_distinct_rows_and_an_empty_cluster_stays():
    rows = np.repeat(np.array([[0.0, 1.0], [2.0, 0.0], [0.0, 0.0]]), 20, axis=0)
    got = landmarks(sparse.csr_array(rows), 10, np.random.default_rng(0)).T
    assert sorted(got.tolist()) == [[0.0, 0.0], [0.0, 1.0], [2.0, 0.0]]
    indptr, idx = np.arange(4), np.zeros(3, dtype=np.int64)
    centres, nearest = np.array([[7.0, 8.0]]), np.zeros(3, dtype=np.int64)
    kernel.recentre(indptr, idx, np.array([1.0, 2.0, 6.0]), nearest, centres, np.empty(2))
    assert centres.tolist() == [[3.0, 8.0]]


def test_the_bandwidth_is_the_mean_square_distance_from_the_mean():
    assert spread(sparse.csr_array(X)) == pytest.approx(plain_spread(X), rel=1e-12)
    shifted = X + 1e6
    assert spread(sparse.csr_array(shifted)) == pytest.approx(plain_spread(shifted), rel=1e-8)
    holes = np.where(random.random(X.shape) < 0.6, 0.0, X)
    assert spread(sparse.csr_array(holes)) == pytest.approx(plain_spread(holes), rel=1e-12)
    assert spread(sparse.csr_array(np.ones((4, 2)))) == 1.0


@pytest.mark.parametrize("bandwidth", [None, 3.0])
def test_nystroem_equals_plain_numpy(bandwidth):
    made = KMeansNystroem(landmarks=30, warmup=100, bandwidth=bandwidth, seed=5).partial_fit(X)
    centres = plain_landmarks(X[:100], 30, 5)
    b = bandwidth or plain_spread(X[:100])
    values, vectors = np.linalg.eigh(np.exp(-squares(centres, centres) / b))
    used = values > 1e-10 * values.max()
    expected = np.exp(-squares(X, centres) / b) @ vectors[:, used] / np.sqrt(values[used])
    got = made.transform(X)
    assert got.shape == expected.shape
    assert np.allclose(got @ got.T, expected @ expected.T, rtol=1e-9, atol=1e-9)  # whatever the signs of vectors
    assert np.allclose(np.abs(got), np.abs(expected), atol=1e-6)
    assert (np.linalg.norm(got, axis=1) < 1.0 + 1e-9).all()


def test_nystroem_is_the_kernel_at_the_landmarks():
    made = KMeansNystroem(landmarks=40, warmup=200, bandwidth=4.0).partial_fit(X)
    centres = np.ascontiguousarray(made._first_rows.fixed.tables["centres"].T)
    K = np.exp(-squares(centres, centres) / 4.0)
    features = made.transform(centres)
    assert np.abs(features @ features.T - K).max() < 1e-8
    mixed = made.transform(X) @ features.T
    assert np.abs(mixed - np.exp(-squares(X, centres) / 4.0)).max() < 1e-8


def test_nystroem_keeps_its_digits_far_from_the_origin():
    near = KMeansNystroem(landmarks=10, warmup=300).partial_fit(X)
    far = KMeansNystroem(landmarks=10, warmup=300).partial_fit(X + 2.0**30)
    a, b = near.transform(X), far.transform(X + 2.0**30)
    assert np.abs(a @ a.T - b @ b.T).max() < 1e-6


def test_random_fourier_equals_plain_numpy_and_its_products_approach_the_kernel():
    made = RandomFourier(components=7, warmup=100, seed=2).partial_fit(X)
    draws = np.random.default_rng(2)
    b = plain_spread(X[:100])
    W, c = draws.normal(0.0, np.sqrt(2.0 / b), (7, 5)), draws.uniform(0.0, 2.0 * np.pi, 7)
    assert np.allclose(made.transform(X), np.sqrt(2.0 / 7) * np.cos(X @ W.T + c), rtol=1e-9, atol=1e-12)
    K = np.exp(-squares(X[:50], X[:50]) / b)
    errors = []
    for components in (200, 20_000):
        Z = RandomFourier(components=components, warmup=100).partial_fit(X).transform(X[:50])
        errors.append(np.abs(Z @ Z.T - K).max())
    assert errors[1] < 0.05
    assert errors[1] < errors[0] / 4


def test_random_thresholds_equal_plain_numpy():
    made = RandomThresholds(components=50, warmup=100, seed=4).partial_fit(X)
    draws = np.random.default_rng(4)
    j = draws.integers(0, 5, 50)
    th = draws.uniform(X[:100].min(axis=0)[j], X[:100].max(axis=0)[j])
    assert made.transform(X).tolist() == (X[:, j] > th).astype(float).tolist()
    shares = made.transform(X[:100]).mean(axis=0)
    assert ((shares >= 0.0) & (shares < 1.0)).all()


def test_a_random_network_equals_plain_numpy():
    made = RandomNetwork(components=9, warmup=100, seed=6).partial_fit(X)
    draws = np.random.default_rng(6)
    W = draws.normal(0.0, 1.0 / np.sqrt((X[:100] ** 2).sum(axis=1).mean()), (9, 5))
    assert np.allclose(made.transform(X), np.tanh(X @ W.T + draws.normal(size=9)), rtol=1e-9, atol=1e-12)


# -- what all promise -----------------------------------------------------------------------------


@every_map
def test_rows_arrays_and_frames_in_any_split_make_one_map_to_the_last_bit(cls):
    loop = small(cls)
    for x in dicts(X):
        loop.learn_one(x)
    expected = np.array([list(loop.transform_one(x).values()) for x in dicts(X)])
    arrays = small(cls).partial_fit(X[:1]).partial_fit(X[1:90]).partial_fit(X[90:])
    frames = small(cls)
    frames.learn_many(pd.DataFrame(X[:60]))
    frames.learn_many(pd.DataFrame(X[60:]))
    for made in (loop, arrays, frames):
        assert made.transform(X).tolist() == expected.tolist()
        assert [made.transform(X[i : i + 1])[0].tolist() for i in range(20)] == expected[:20].tolist()
        assert made.transform_many(pd.DataFrame(X)).to_numpy().tolist() == expected.tolist()
    assert small(cls).fit(X[:100]).transform(X).tolist() == expected.tolist()


@every_map
def test_the_order_of_keys_changes_nothing(cls):
    plain, shuffled = small(cls), small(cls)
    order = np.random.default_rng(1)
    for x in dicts(X[:100]):
        plain.learn_one({f"c{j}": v for j, v in x.items()})
        shuffled.learn_one({f"c{j}": x[j] for j in order.permutation(5)})
    for x in dicts(X):
        moved = {f"c{j}": x[j] for j in order.permutation(5)}
        assert shuffled.transform_one(moved) == plain.transform_one({f"c{j}": v for j, v in x.items()})


@every_map
def test_sparse_rows_equal_dense_ones(cls):
    holes = np.where(random.random(X.shape) < 0.5, 0.0, X)
    dense = small(cls).partial_fit(holes)
    compressed = small(cls).partial_fit(sparse.csr_array(holes))
    assert np.allclose(compressed.transform(sparse.csr_array(holes)), dense.transform(holes), rtol=1e-9, atol=1e-9)
    assert np.allclose(dense.transform(sparse.csr_array(holes)), dense.transform(holes), rtol=1e-9, atol=1e-9)
    named = [{j: v for j, v in x.items() if v} for x in dicts(holes)]
    rows = np.array([list(dense.transform_one(x).values()) for x in named])
    assert np.allclose(rows, dense.transform(holes), rtol=1e-9, atol=1e-9)


@every_map
def test_nothing_comes_out_before_the_warm_up_is_over_and_nothing_changes_after_it(cls):
    made = small(cls)
    for x in dicts(X[:99]):
        made.learn_one(x)
    assert made.transform_one(dicts(X)[0]) == {}
    assert made.transform(X).shape == (300, 0)
    made.learn_one(dicts(X)[99])
    before = made.transform(X)
    assert list(made.transform_one(dicts(X)[0])) == list(range(before.shape[1]))
    made.partial_fit(X[100:] * 7)
    made.learn_one({0: 1e6, 99: 5.0})
    assert made.transform(X).tolist() == before.tolist()
    assert made._encoder.width == 5


@every_map
def test_names_that_the_warm_up_did_not_have_count_nothing(cls):
    made = small(cls)
    for i, x in enumerate(dicts(X)):
        made.learn_one({**{f"c{j}": v for j, v in x.items()}, **({"zero": 0.0} if i % 2 else {})})
    known = {f"c{j}": 0.5 for j in range(5)}
    assert made.transform_one({**known, "new": 3.0, "zero": 9.0}) == made.transform_one(known)
    assert made.transform_one({"new": 3.0}) == made.transform_one({})


@every_map
def test_the_seed_decides(cls):
    def features(seed):
        return small(cls, seed=seed).partial_fit(X).transform(X).tolist()

    assert features(0) == features(0)
    assert features(0) != features(1)
    unseeded = small(cls, seed=None)
    assert unseeded._is_stochastic
    assert not small(cls)._is_stochastic
    assert len({unseeded._seed, *(unseeded.clone()._seed for _ in range(3))}) == 4


@every_map
def test_copies_and_pickles_go_on_to_the_last_bit(cls):
    made = small(cls).partial_fit(X[:50])
    for again in (copy.deepcopy(made), pickle.loads(pickle.dumps(made)), made.clone(include_attributes=True)):
        expected = copy.deepcopy(made).partial_fit(X[50:]).transform(X).tolist()
        again.partial_fit(X[50:])
        assert again.transform(X).tolist() == expected
        assert pickle.loads(pickle.dumps(again)).transform(X).tolist() == expected


@every_map
def test_max_columns_bounds_what_the_map_sees(cls):
    if cls is RandomThresholds:
        assert "max_columns" not in cls._parameters
        return
    narrow, three = small(cls, max_columns=3).partial_fit(X), small(cls).partial_fit(X[:, :3])
    assert narrow.transform(X).tolist() == three.transform(X[:, :3]).tolist()


@every_map
@pytest.mark.parametrize("rows", [np.zeros((40, 3)), np.ones((40, 3)), np.zeros((40, 0)), np.eye(3)[:1]])
def test_rows_without_any_spread_give_finite_features(cls, rows):
    made = small(cls, warmup=len(rows)).partial_fit(rows)
    assert np.isfinite(made.transform(rows)).all()
    assert made.transform(rows).shape[1] > 0


@every_map
@given(
    st.lists(
        st.dictionaries(st.sampled_from("abcd"), st.floats(allow_nan=False, allow_infinity=False), max_size=4),
        min_size=6,
        max_size=20,
    )
)
@settings(max_examples=30, deadline=None)
def test_any_finite_rows_give_finite_or_no_features_and_never_stop_the_map(cls, rows):
    made = small(cls, warmup=5)
    for x in rows:
        made.learn_one(x)
    for x in rows:
        features = made.transform_one(x).values()
        tame = all(abs(value) < 1e100 for value in x.values())
        assert all(np.isfinite(v) for v in features) or not tame


@every_map
@pytest.mark.parametrize(
    "bad", [{"a": float("nan")}, {"a": float("inf")}, {"a": object()}, {1.5: 1.0}, "text"], ids=lambda x: repr(x)[:20]
)
def test_bad_rows_are_refused_and_change_nothing(cls, bad):
    for made in (small(cls), small(cls).partial_fit(X)):
        before = pickle.dumps(made)
        for call in (made.learn_one, made.transform_one):
            with pytest.raises(InvalidBlock):
                call(bad)
        for array in (X * np.nan, X[0], X.astype(str)):
            with pytest.raises(InvalidBlock):
                made.partial_fit(array)
        assert pickle.dumps(made) == before


@every_map
def test_parameters_are_checked_by_name_and_fixed(cls):
    size = cls._size_name()
    for name, value in ((size, 0), (size, 1.5), ("warmup", 0), ("warmup", 80_001), ("seed", -1), ("warmup", "10")):
        with pytest.raises(InvalidParams, match=f"{cls.__name__}.{name}"):
            cls(**{name: value})
        with pytest.raises(InvalidParams, match=f"map.{name}"):
            map_of({"kind": cls.__name__.lower(), name: value})
    if "bandwidth" in cls._parameters:
        for value in (0.0, -1.0, float("inf"), float("nan"), 1e-200):
            with pytest.raises(InvalidParams, match="bandwidth"):
                cls(bandwidth=value)
    with pytest.raises(AttributeError, match="warmup"):
        cls().warmup = 5
    with pytest.raises(InvalidParams, match="spam"):
        map_of({"kind": cls.__name__.lower(), "spam": 1})
    assert map_of(small(cls).spec).spec == small(cls).spec


@pytest.mark.parametrize("kind", ["spam", None, 3, ["kmeansnystroem"]])
def test_an_unknown_kind_is_refused_with_those_there_are(kind):
    with pytest.raises(InvalidParams, match="kmeansnystroem"):
        map_of({"kind": kind})


@every_map
def test_more_columns_than_learned_are_refused_and_fewer_are_zeros(cls):
    made = small(cls).partial_fit(X)
    with pytest.raises(InvalidBlock, match="at most 5"):
        made.transform(np.ones((2, 6)))
    padded = np.hstack([X[:, :3], np.zeros((300, 2))])
    assert np.allclose(made.transform(X[:, :3]), made.transform(padded), rtol=1e-9, atol=1e-9)


@every_map
def test_a_map_works_between_the_scaler_of_river_and_a_learner(cls):
    model = preprocessing.StandardScaler() | small(cls) | PSAM()
    y = X[:, 0] > 0
    for x, label in zip(dicts(X), y.tolist(), strict=True):
        model.learn_one(x, label)
    assert model["PSAM"].examples == 300
    assert set(model["PSAM"].weights) == set(range(small(cls).partial_fit(X).transform(X).shape[1]))
    assert np.isfinite(model.predict_proba_one(dicts(X)[0])[True])
