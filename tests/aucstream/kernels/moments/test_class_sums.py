"""A row enters the products of all pairs of its columns, by whichever loop."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.kernels.moments.class_sums import add_row, run_start

COLUMNS = 9


def expected_products(cross, ref, positive, idx, x, weight):
    """Return cross after a row, one product after the other."""
    out = cross.copy()
    for a, i in enumerate(idx):
        factor = weight * (x[a] - ref[i])
        if factor == 0.0:
            continue
        for b in range(a + 1, len(idx)) if positive else range(a):
            j = idx[b]
            at = (i, j) if (i < j) == positive else (j, i)
            out[at] += factor * (x[b] - ref[j])
    return out


@pytest.mark.parametrize("positive", [False, True])
@given(
    idx=st.lists(st.integers(0, COLUMNS - 1), unique=True)
    | st.tuples(st.integers(0, COLUMNS), st.integers(0, COLUMNS)).map(lambda ends: list(range(*sorted(ends)))),
    seed=st.integers(0, 99),
    dense=st.booleans(),
)
def test_products_have_the_bits_of_one_after_the_other(positive, idx, seed, dense):
    random = np.random.default_rng(seed)
    idx = list(range(len(idx))) if dense else idx
    cross, ref = random.normal(size=(COLUMNS, COLUMNS)), random.normal(size=COLUMNS)
    x, weight = random.normal(size=len(idx)), random.random()
    x[random.random(x.size) < 0.2] = ref[0]
    expected = expected_products(cross, ref, positive, idx, x, weight)
    square, total, gap = np.zeros(COLUMNS), np.zeros(COLUMNS), np.zeros(COLUMNS)
    columns = None if dense else np.array(idx, dtype=np.int64)
    add_row(cross, square, total, ref, positive, columns, x, weight, gap)
    assert cross.tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("idx", "start"), [([], 0), ([3], 3), ([3, 4, 5], 3), ([3, 5], -1), ([4, 3], -1), ([0, 2, 1, 3], -1)]
)
def test_consecutive_columns_begin_at_the_first(idx, start):
    assert run_start(np.array(idx, dtype=np.int64)) == start
