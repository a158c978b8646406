"""Eigenvectors of small symmetric matrices, and the sketch that is made of them."""

from __future__ import annotations

import numpy as np
import pytest

from aucstream.kernels.moments import eigen, sketch

plain_python = pytest.mark.plain_python


def matrices():
    random = np.random.default_rng(0)
    for n in (1, 2, 3, 8, 33, 128):
        B = random.normal(size=(n, n))
        yield B + B.T
        yield B[:, : n // 2] @ B[:, : n // 2].T  # half of the rank
        yield np.diag(random.normal(size=n))
        yield np.ones((n, n))
        yield np.zeros((n, n))
        D = np.diag(10.0 ** -np.arange(n).clip(max=20))
        yield D @ B @ B.T @ D
        yield 1e280 * (B + B.T)
        yield 1e-200 * (B + B.T)


SMALL_AND_LARGE = [pytest.param(A, marks=[plain_python] if len(A) < 100 else [], id=str(len(A))) for A in matrices()]


@pytest.mark.parametrize("A", SMALL_AND_LARGE)
def test_eigenvectors(A):
    n = len(A)
    values, vectors = eigen.largest(A.copy(), n)
    size = float(np.abs(A).max()) * n
    np.testing.assert_allclose(values, np.linalg.eigvalsh(A)[::-1], atol=1e-13 * size)
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(n), atol=1e-12)
    np.testing.assert_allclose(vectors @ A, values[:, None] * vectors, atol=1e-13 * size)
    again = eigen.largest(A.copy(), n // 2)
    np.testing.assert_array_equal(again[1], vectors[: n // 2])


@plain_python
def test_frequent_directions_hold_their_bound():
    random = np.random.default_rng(4)
    X = random.normal(size=(300, 10)) @ np.diag(0.7 ** np.arange(10)) + 0.1
    for half in (1, 3, 10):
        table, kept = np.zeros((16, 4 * half)), 0
        for x in X:
            kept = sketch.feed(table, 2 * half, 2 * half, kept, np.concatenate([x, np.zeros(6)]), 2.0)
            assert kept < 2 * half
        assert not table[:, : 2 * half].any()
        B = table[:10, 2 * half : 2 * half + kept].copy()
        gap = np.linalg.eigvalsh(4.0 * X.T @ X - B @ B.T)
        trace = 4.0 * float((X**2).sum())
        assert -1e-12 * trace < gap.min()
        assert gap.max() <= (trace / half if half < 10 else 1e-12 * trace)
    sketch.decay(table, 20, 20, 0.25)
    np.testing.assert_allclose(table[:10, 20 : 20 + kept], B / 2.0)
    assert sketch.feed(table, 0, 20, 5, np.zeros(16), 1.0) == 5
