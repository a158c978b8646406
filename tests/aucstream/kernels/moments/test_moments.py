"""Class moments: equal to the reference, exact as a sum over rows, blind to spare room."""

from __future__ import annotations

import numpy as np
import pytest
from reference.moments import ClassMoments

from aucstream.kernels.moments import moments

pytestmark = pytest.mark.plain_python

WIDTHS = [1, 2, 3, 4, 5, 6, 7, 8, 13]


def rows(d: int, n: int = 30, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, weights): rows far from the origin with zeros among their entries."""
    random = np.random.default_rng(seed)
    X = 3.0 + random.normal(size=(n, d)) * np.exp(random.normal(size=d))
    X[random.random((n, d)) < 0.3] = 0.0
    return X, 2.0 * random.random(n)


def moments_of(X: np.ndarray, weights: np.ndarray, room: int, form: str = "dense"):
    """Return (n, m, M) after all rows, by the kernels, in arrays of `room` columns."""
    d = X.shape[1]
    n, m, M = 0.0, np.zeros(room), np.zeros((room, room))
    for x, c in zip(X, weights.tolist(), strict=True):
        e = np.full(d, np.nan)
        idx = None if form == "dense" else np.flatnonzero(x)
        moments.deviation(idx, x if idx is None else x[idx], 1.0, 1.0, m, e)
        moments.add_full(e, c, n, m, M)
        n += c
    return n, m, M


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("d", WIDTHS)
def test_moments_are_those_of_the_reference(d, form):
    X, weights = rows(d)
    plain = ClassMoments(d)
    for x, c in zip(X, weights, strict=True):
        plain.add(x, c)
    n, m, M = moments_of(X, weights, d + 3, form)
    np.testing.assert_allclose(n, plain.n, rtol=1e-14)
    np.testing.assert_allclose(m[:d], plain.m, rtol=1e-12)
    np.testing.assert_allclose(M[:d, :d], plain.M, rtol=1e-11, atol=1e-12)
    assert not m[d:].any() and not M[d:].any() and not M[..., d:].any()


def test_the_scatter_is_symmetric_to_the_last_bit():
    _, _, M = moments_of(*rows(13), 16)
    np.testing.assert_array_equal(M, M.T)


@pytest.mark.parametrize("d", WIDTHS)
def test_columns_of_zeros_at_the_end_change_no_bit(d):
    X, weights = rows(d)
    wide = np.hstack([X, np.zeros((len(X), 5))])
    _, m, M = moments_of(X, weights, d + 5)
    for used in range(d, d + 6):
        again = moments_of(wide[:, :used], weights, d + 5)
        np.testing.assert_array_equal(again[1], m)
        np.testing.assert_array_equal(again[2], M)
        w, out = np.zeros(d + 5), np.full(used, np.nan)
        w[:d] = X[0]
        moments.times_full(M, w, out)
        np.testing.assert_allclose(out[:d], M[:d, :d] @ w[:d], rtol=1e-11, atol=1e-12)
        narrow = np.empty(d)
        moments.times_full(M, w, narrow)
        np.testing.assert_array_equal(out, np.concatenate([narrow, np.zeros(used - d)]))
        assert moments.inner(w[:used], out) == moments.inner(w[:d], narrow)
        assert moments.inner(w[:used], out) == pytest.approx(float(w[:used] @ out), rel=1e-12)


def test_rows_in_another_unit_scale_the_moments():
    X, weights = rows(5)
    _, m, M = moments_of(X, weights, 8)
    _, small_m, small_M = moments_of(X / 1024.0, weights, 8)
    alone = m.copy()
    moments.rescale_full(1.0 / 1024.0, m, M)
    moments.rescale_mean(1.0 / 1024.0, alone)
    np.testing.assert_array_equal(m, small_m)
    np.testing.assert_array_equal(M, small_M)
    np.testing.assert_array_equal(alone, small_m)


def test_columns_in_use_never_shrink():
    x = np.ones(3)
    assert moments.columns_in_use(None, x, 2) == 3
    assert moments.columns_in_use(None, x, 9) == 9
    assert moments.columns_in_use(np.array([5, 2, 4]), x, 3) == 6
    assert moments.columns_in_use(np.array([], dtype=np.int64), x[:0], 3) == 3
