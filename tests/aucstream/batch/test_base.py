"""What all batch references promise."""

from __future__ import annotations

import copy
import pickle
import sys
import tracemalloc
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import aucstream
from aucstream import batch
from aucstream.errors import BadSnapshot, InvalidBlock, InvalidLabel, InvalidParams, NotConverged
from aucstream.metrics.auc import AUC

from .data import objective, real, rows

LOSSES = {"BAM": "squared_hinge", "RankSVM": "hinge", "LeastSquaresAUC": "squared"}
TIGHT = {"BAM": 1e-12, "RankSVM": 1e-5, "LeastSquaresAUC": 1e-10}
every_class = pytest.mark.parametrize("name", batch.__all__)


def fitted(name, X, y, **params):
    return getattr(batch, name)(**{"lam": 1e-2, "tol": TIGHT[name], **params}).fit(X, y)


def same(a, b):
    (arrays, meta), (other, other_meta) = a.state_dict(), b.state_dict()
    return meta == other_meta and all(np.array_equal(arrays[key], other[key]) for key in arrays)


@every_class
def test_the_objective_is_the_mean_over_pairs_and_no_perturbation_improves_it(name):
    X, y = rows()
    model = fitted(name, X, y)
    w = model.coefficients()
    best = objective(LOSSES[name], 1e-2, X, y, w)
    assert model.objective == pytest.approx(best, rel=1e-12)
    random = np.random.default_rng(1)
    slack = TIGHT["RankSVM"] * best if name == "RankSVM" else 0.0
    for size in (1e-4, 1e-2, 1.0):
        for _ in range(50):
            assert objective(LOSSES[name], 1e-2, X, y, w + size * random.normal(size=w.size)) >= best - slack


@every_class
@given(seed=st.integers(0, 1000))
def test_dense_equals_sparse(name, seed):
    X, y = rows(60, seed=seed)
    dense, thin = fitted(name, X, y), fitted(name, sparse.csr_matrix(X), y)
    rtol = 1e-2 if name == "RankSVM" else 1e-9  # a gap leaves room for other weights
    np.testing.assert_allclose(dense.coefficients(), thin.coefficients(), rtol=rtol, atol=rtol)
    assert dense.objective == pytest.approx(thin.objective, rel=2e-5 if name == "RankSVM" else 1e-12)
    np.testing.assert_allclose(
        dense.decision_function(sparse.csr_array(X)), dense.decision_function(X), rtol=1e-12, atol=1e-12
    )


@every_class
def test_flipped_labels_flip_the_weights(name):
    X, y = rows()
    a, b = fitted(name, X, y), fitted(name, X, ~y)
    rtol = 1e-2 if name == "RankSVM" else 1e-9
    np.testing.assert_allclose(a.coefficients(), -b.coefficients(), rtol=rtol, atol=rtol)
    assert a.objective == pytest.approx(b.objective, rel=2e-5 if name == "RankSVM" else 1e-12)


@every_class
def test_a_permutation_of_columns_permutes_the_weights_and_a_shift_of_rows_changes_nothing(name):
    X, y = rows()
    order = np.array([3, 0, 4, 1, 2])
    a = fitted(name, X, y).coefficients()
    rtol = 1e-2 if name == "RankSVM" else 1e-9
    np.testing.assert_allclose(fitted(name, X[:, order], y).coefficients(), a[order], rtol=rtol, atol=rtol)
    np.testing.assert_allclose(fitted(name, X + 3.0, y).coefficients(), a, rtol=rtol, atol=rtol)


@every_class
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("n", [0, 1, 4])
def test_one_class_only_leaves_the_weights_at_zero(name, n, label):
    model = fitted(name, np.ones((n, 3)), np.full(n, label))
    assert not model.coefficients().any()
    assert (model.iterations, model.objective) == (0, 0.0)
    assert (model.examples, model.positives) == (n, n * label)
    assert model.decision_function(np.ones((2, 3))).tolist() == [0.0, 0.0]
    assert model.predict_proba(np.ones((2, 3))).tolist() == [[0.5, 0.5]] * 2


@every_class
def test_columns_without_a_difference_have_no_weight(name):
    X, y = rows()
    wide = np.column_stack([X, np.full(len(X), 7.0), np.zeros(len(X))])
    w = fitted(name, wide, y).coefficients()
    np.testing.assert_allclose(w[5:], 0.0, atol=1e-12)
    assert not fitted(name, np.ones((4, 2)), [0, 1, 0, 1]).coefficients().any()
    assert fitted(name, np.empty((4, 0)), [0, 1, 0, 1]).decision_function(np.empty((1, 0))).tolist() == [0.0]


@every_class
def test_scores_weights_and_probabilities(name):
    X, y = rows(400)
    model = fitted(name, X, y)
    scores = model.decision_function(X)
    np.testing.assert_allclose(scores, X @ model.coefficients(), rtol=1e-12, atol=1e-12)
    assert model.weights == dict(enumerate(model.coefficients().tolist()))
    narrow = model.decision_function(X[:, :2])
    np.testing.assert_allclose(narrow, X[:, :2] @ model.coefficients()[:2], rtol=1e-12, atol=1e-12)
    p = model.predict_proba(X)
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    np.testing.assert_array_equal(p[:, 1], model.probabilities(scores))
    np.testing.assert_array_equal(model.predict(X), p[:, 1] > 0.5)
    assert p[:, 1].mean() == pytest.approx(y.mean(), abs=0.01)  # calibrated on the scores of the fit
    assert np.array_equal(np.argsort(p[:, 1], kind="stable"), np.argsort(scores, kind="stable"))


BAD = [
    (np.array([[1.0, np.nan]]), [1], InvalidBlock, ["finite", "row 0, column 1", "nan"]),
    (np.array([[1.0, -np.inf]]), [1], InvalidBlock, ["finite", "row 0, column 1", "-inf"]),
    (sparse.csr_array(np.array([[0.0, np.inf]])), [1], InvalidBlock, ["finite", "row 0, column 1"]),
    (np.ones(3), [1, 0, 1], InvalidBlock, ["two-dimensional", "(3,)"]),
    (np.array([["a"]]), [1], InvalidBlock, ["numbers"]),
    ([[1.0], [1.0, 2.0]], [1, 0], InvalidBlock, ["unequal"]),
    (np.ones((2, 1)), [1], InvalidBlock, ["one label for each of 2 rows"]),
    (np.ones((2, 1)), [1, 2], InvalidLabel, ["row 1", "2"]),
    (np.ones((2, 1)), ["1", "0"], InvalidLabel, ["row 0", "'1'"]),
    (np.array([[1e300], [-1e300]]), [1, 0], InvalidBlock, ["features", "sums of squares", "1e+300"]),
]


@every_class
@pytest.mark.parametrize(("X", "y", "error", "words"), BAD)
def test_bad_input_is_refused_and_changes_nothing(name, X, y, error, words):
    model = fitted(name, *rows())
    kept = copy.deepcopy(model)
    with pytest.raises(error) as raised:
        model.fit(X, y)
    for word in words:
        assert word in str(raised.value)
    assert same(model, kept)


@every_class
def test_more_columns_than_fitted_are_refused(name):
    with pytest.raises(InvalidBlock, match="at most 5 columns"):
        fitted(name, *rows()).decision_function(np.ones((1, 6)))
    with pytest.raises(InvalidBlock, match="at most 0 columns"):
        getattr(batch, name)().decision_function(np.ones((1, 1)))


@every_class
@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf, "1", None, True])
@pytest.mark.parametrize("param", ["lam", "tol"])
def test_parameters_are_checked_at_construction_and_assignment(name, param, value):
    cls = getattr(batch, name)
    with pytest.raises(InvalidParams, match=rf"{name}\.{param}: expected a finite number > 0"):
        cls(**{param: value})
    model = cls()
    with pytest.raises(InvalidParams, match=rf"{name}\.{param}"):
        setattr(model, param, value)
    setattr(model, param, np.float32(0.5))
    assert getattr(model, param) == 0.5
    assert type(getattr(model, param)) is float


def test_defaults_and_form():
    assert [repr(getattr(batch, name)()) for name in batch.__all__] == [
        "BAM(lam=0.0001, tol=1e-06)",
        "LeastSquaresAUC(lam=0.0001, tol=1e-10)",
        "RankSVM(lam=0.0001, tol=0.001)",
    ]
    with pytest.raises(AttributeError, match="spam"):
        _ = batch.spam
    assert dir(batch) == sorted(batch.__all__)


@every_class
def test_saved_models_come_back_whole(name, tmp_path):
    X, y = rows()
    model = fitted(name, X, y)
    model.save(tmp_path / "model.safetensors")
    for again in (
        aucstream.load(tmp_path / "model.safetensors"),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        assert type(again) is type(model)
        assert same(again, model)
        assert again.to_bytes() == model.to_bytes()
        np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    arrays, meta = model.state_dict()
    del arrays["weights"]
    with pytest.raises(BadSnapshot, match=name):
        aucstream.from_bytes(aucstream.loading.snapshot.pack(arrays, meta))


@pytest.mark.parametrize(
    ("name", "limit"), [("BAM", "NEWTON_STEPS"), ("RankSVM", "CUTS"), ("LeastSquaresAUC", "STEPS")]
)
def test_an_end_by_the_limit_is_told_and_the_best_kept(name, limit, monkeypatch):
    X, y = rows()
    home = sys.modules[getattr(batch, name).__module__]
    if name == "LeastSquaresAUC":
        monkeypatch.setattr(home, "DIRECT_WIDTH", 0)
    monkeypatch.setattr(home, limit, 3)
    with pytest.warns(NotConverged, match=rf"{name}\.fit: expected a residual <= .* within 3 iterations, got"):
        model = fitted(name, X, y)
    assert model.iterations == 3
    assert model.objective < 0.5 * objective(LOSSES[name], 1e-2, X, y, np.zeros(5)) + 0.5
    assert model.coefficients().any()


@every_class
def test_inputs_are_not_written_to(name):
    X, y = rows()
    X.setflags(write=False)
    thin = sparse.csr_array(X)
    kept = thin.copy()
    fitted(name, X, y)
    fitted(name, thin, y)
    assert (thin != kept).nnz == 0


@every_class
def test_a_wide_sparse_matrix_stays_sparse(name):
    d = 100_000  # dense, 200 rows would take 160 MB, and a square matrix 80 GB
    random = np.random.default_rng(0)
    y = random.random(200) < 0.4
    indices = random.integers(0, d, (200, 20))
    indices[:, 0] = 0
    values = random.normal(size=(200, 20))
    values[:, 0] += 2.0 * y
    values /= 5.0
    X = sparse.coo_array((values.ravel(), (np.repeat(np.arange(200), 20), indices.ravel())), shape=(200, d)).tocsr()
    tracemalloc.start()
    model = fitted(name, X, y, tol=1e-3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    vectors = 6 * (16 + model.iterations) if name == "RankSVM" else 30  # it keeps its planes, with room to grow
    assert peak < 8 * d * vectors
    assert model.coefficients()[0] > 0.0


def test_figures_on_german_and_diabetes():
    expected = {"german.numer_scale": (0.8183, 0.8189, 0.8182), "diabetes_scale": (0.8357, 0.8369, 0.8360)}
    for data, figures in expected.items():
        X, y = real(data, unit=True)
        for name, figure in zip(["BAM", "RankSVM", "LeastSquaresAUC"], figures, strict=True):
            assert auc(getattr(batch, name)().fit(X, y).decision_function(X), y) == pytest.approx(figure, abs=5e-4)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "figure"), [("BAM", 0.9023), ("RankSVM", 0.9022), ("LeastSquaresAUC", 0.8997)])
def test_figures_on_a9a(name, figure):
    X, y = real("a9a", 123, unit=True)
    test, labels = real("a9a.t", 123, unit=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NotConverged)
        model = getattr(batch, name)().fit(X, y)
    assert auc(model.decision_function(test), labels) == pytest.approx(figure, abs=5e-4)


def auc(scores, y):
    metric = AUC(window=len(y))
    metric.update_many(y, scores)
    return metric.get()
