"""Arrays whose parts do not fit together, or whose cells mean nothing, are refused before anything reads them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from aucstream import PSAM
from aucstream.errors import InvalidBlock
from aucstream.features.intake import checked_array

Y = np.array([0, 1, 0, 1])


def eye(kind="csr"):
    """Return a sparse identity of four rows whose flag says that it is canonical."""
    X = getattr(sparse, f"{kind}_matrix")(np.eye(4))
    if kind == "csr":
        X.has_canonical_format = True
    return X


def put(**arrays):
    def change(X):
        for name, value in arrays.items():
            old = getattr(X, name)
            setattr(X, name, np.asarray(value(old.copy()), dtype=None))

    return change


def entry(name, place, value):
    def change(X):
        getattr(X, name)[place] = value

    return change


BROKEN = {
    "end too far": ("csr", entry("indptr", -1, 10**6), ["indptr[4]", "1000000"]),
    "negative": ("csr", entry("indptr", 1, -5), ["indptr[1]", "-5"]),
    "start": ("csr", entry("indptr", 0, 1), ["indptr[0]", "got 1"]),
    "falls": ("csr", put(indptr=lambda _: [0, 3, 1, 4, 4]), ["indptr[2]", "got 1"]),
    "middle too far": ("csr", entry("indptr", 2, 2000), ["indptr[2]", "2000"]),
    "few values": ("csr", put(data=lambda d: d[:2]), ["indices", "(4,)"]),
    "few columns": ("csr", put(indices=lambda d: d[:2]), ["indices", "(2,)"]),
    "few rows": ("csr", put(indptr=lambda d: d[:3]), ["indptr", "(3,)"]),
    "no rows": ("csr", put(indptr=lambda d: d[:0]), ["indptr", "(0,)"]),
    "column too large": ("csr", entry("indices", 1, 4), ["indices[1]", "got 4"]),
    "column negative": ("csr", entry("indices", 0, -5), ["indices[0]", "got -5"]),
    "pointers not whole": ("csr", put(indptr=lambda d: d * 1.0), ["indptr", "float64"]),
    "columns not whole": ("csr", put(indices=lambda d: d * 1.0), ["indices", "float64"]),
    "columns of two axes": ("csr", put(indices=lambda d: d.reshape(2, 2)), ["indices", "(2, 2)"]),
    "csc falls": ("csc", put(indptr=lambda _: [0, 3, 1, 4, 4]), ["indptr[2]", "got 1"]),
    "csc row too large": ("csc", entry("indices", 2, 2000), ["row indices", "indices[2]", "2000"]),
    "bsr falls": ("bsr", put(indptr=lambda _: [0, 3, 1, 4, 4]), ["indptr[2]", "got 1"]),
    "coo row too large": ("coo", entry("row", 3, 10**6), ["row[3]", "1000000"]),
    "coo column negative": ("coo", entry("col", 3, -1), ["col[3]", "got -1"]),
    "coo few columns": ("coo", put(col=lambda d: d[:2]), ["col", "(2,)"]),
}


@pytest.mark.parametrize("has_flag", [True, False])
@pytest.mark.parametrize("case", BROKEN)
def test_a_sparse_matrix_whose_arrays_do_not_fit_is_refused_and_nothing_changes(case, has_flag):
    kind, change, words = BROKEN[case]
    X = eye(kind)
    change(X)
    if kind == "csr" and not has_flag:
        X.has_canonical_format = X.has_sorted_indices = False
    model = PSAM().partial_fit(np.eye(4), Y)
    before = model.to_bytes()
    for call in (
        lambda: model.partial_fit(X, Y),
        lambda: model.partial_fit(X, Y, sample_weight=[0.0, 1.0, 1.0, 1.0]),
        lambda: model.fit(X, Y),
        lambda: model.decision_function(X),
    ):
        with pytest.raises(InvalidBlock) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)
        assert model.to_bytes() == before


@given(
    st.lists(st.integers(-2, 6), min_size=4, max_size=4),
    st.lists(st.integers(-1, 4), min_size=4, max_size=4),
    st.booleans(),
)
def test_rows_are_those_of_the_arrays_whatever_the_flags_say(ends, columns, flag):
    X = eye()
    X.indptr[1:], X.indices[:], X.data[:] = ends, columns, [1.0, 2.0, 4.0, 8.0]
    X.has_canonical_format = flag
    fits = ends == sorted(ends) and ends[0] >= 0 and ends[-1] == 4 and all(0 <= c < 4 for c in columns)
    if not fits:
        with pytest.raises(InvalidBlock):
            checked_array(X)
        return
    dense = np.zeros((4, 4))
    for row, (a, b) in enumerate(zip([0, *ends], ends, strict=False)):
        np.add.at(dense[row], columns[a:b], X.data[a:b])
    block = checked_array(X)
    assert np.array_equal(sparse.csr_array((block.values, block.indices, block.indptr), shape=(4, 4)).toarray(), dense)
    for row in range(4):
        assert (np.diff(block.indices[block.indptr[row] : block.indptr[row + 1]]) > 0).all()
    assert (X.indices == columns).all() and (X.data == [1.0, 2.0, 4.0, 8.0]).all()  # the caller's are as they were


def test_a_large_matrix_with_one_wrong_pointer_is_refused():
    X = sparse.csr_matrix(np.eye(2000))
    X.has_canonical_format = True
    X.indptr[3] = 2000
    with pytest.raises(InvalidBlock, match=r"got 4 - at indptr\[4\]"):
        PSAM().partial_fit(X, np.arange(2000) % 2)


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "bsr", "lil", "dok", "dia"])
def test_every_format_gives_the_same_rows(kind):
    X = np.random.default_rng(0).normal(size=(6, 4)) * (np.random.default_rng(1).random((6, 4)) < 0.5)
    block = checked_array(getattr(sparse, f"{kind}_array")(X))
    expected = sparse.csr_array(X)
    expected.eliminate_zeros()
    given_rows = sparse.csr_array((block.values, block.indices, block.indptr), shape=(6, 4))
    assert np.array_equal(given_rows.toarray(), expected.toarray())


def test_masked_cells_are_refused_and_nothing_changes():
    model = PSAM().partial_fit(np.eye(4), Y)
    before = model.to_bytes()
    mask = [False, False, True, False]
    masked = np.ma.MaskedArray(np.eye(4), mask=np.eye(4) * [mask] > 0)
    for call, words in (
        (lambda: model.partial_fit(masked, Y), ["features", "[2, 2]"]),
        (lambda: model.decision_function(masked), ["features", "[2, 2]"]),
        (lambda: model.partial_fit(np.eye(4), np.ma.MaskedArray(Y, mask=mask)), ["labels", "[2]"]),
        (lambda: model.partial_fit(np.eye(4), Y, np.ma.MaskedArray(np.ones(4), mask=mask)), ["weights", "[2]"]),
    ):
        with pytest.raises(InvalidBlock) as caught:
            call()
        assert all(word in str(caught.value) for word in [*words, "masked"]), str(caught.value)
        assert model.to_bytes() == before
    plain = PSAM().partial_fit(np.eye(4), Y).partial_fit(np.eye(4), Y)
    assert model.partial_fit(np.ma.MaskedArray(np.eye(4)), Y).to_bytes() == plain.to_bytes()


@pytest.mark.parametrize("weight", ["2", b"2", None, 1j, np.str_("2"), [2.0]])
def test_a_weight_is_a_number(weight):
    model = PSAM().partial_fit(np.eye(4), Y)
    before = model.to_bytes()
    with pytest.raises(InvalidBlock, match="weights: expected"):
        model.learn_one({0: 1.0}, True, w=weight)
    with pytest.raises(InvalidBlock, match="weights: expected"):
        model.partial_fit(np.eye(4), Y, [1.0, 1.0, weight, 1.0])
    assert model.to_bytes() == before


def test_a_refused_weight_is_the_one_that_is_shown():
    with pytest.raises(InvalidBlock, match=r"got None - at row 2"):
        PSAM().partial_fit(np.eye(4), Y, [1.0, 1.0, None, 1.0])
