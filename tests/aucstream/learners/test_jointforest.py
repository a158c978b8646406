"""JointForest: equal to its reference step by step, its trees exactly, and a good citizen."""

from __future__ import annotations

import itertools
import math
import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.jointforest import JointForest as Plain
from reference.jointforest import Node
from scipy import sparse
from sklearn.metrics import roc_auc_score

from aucstream import AutoScale, Hashing, JointForest, Pipeline, UnitNorm, Vocabulary, from_bytes
from aucstream.errors import CannotMerge
from aucstream.kernels.forest import columns, fourier, trees
from aucstream.learners import jointforest
from aucstream.registry import make

from . import agreement

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "full-trees": {"trees": 6, "nodes": 9, "capacity": 7, "seed": 3},
    "dense": {"trees": 5, "nodes": 33, "form": "dense", "eta": 0.5},
    "sparse": {"trees": 7, "nodes": 60, "form": "sparse", "seed": 8},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def rare_stream(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return (X, y, weights) of which a tenth of the values is not 0: it becomes sparse at row 32."""
    random = np.random.default_rng(4)
    X = np.where(random.random((n, 20)) < 0.1, random.normal(size=(n, 20)), 0.0)
    X[:, 0] = 1.0
    X[:100, 19] = 0.0
    return X, np.where(X[:, 1] * X[:, 2] + X[:, 3] + 0.2 * random.normal(size=n) > 0.1, 1.0, -1.0), np.ones(n)


@cache
def reference_run(params: tuple[tuple[str, Any], ...], rare: bool, n: int) -> tuple[Plain, np.ndarray]:
    plain = Plain(**dict(params))
    rows = rare_stream(n) if rare else agreement.stream(n)
    return plain, np.array([plain.learn(x, label, weight) for x, label, weight in zip(*rows, strict=True)])


def same_trees(ours: list[Any], theirs: list[Any]) -> None:
    """Assert equal columns everywhere, and thresholds: of raw trees exactly, of standardised ones to what is buffered."""
    for t, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        if t < len(ours) // 2:
            assert one == other
        pairs = [(one, other)]
        while pairs:
            a, b = pairs.pop()
            assert (a is None) is (b is None)
            if a is not None:
                assert a[0] == b[0]
                assert a[1] == pytest.approx(b[1], rel=1e-9, abs=2.0**-27)
                pairs += [(a[2], b[2]), (a[3], b[3])]


def shape_of(model: JointForest, names: Any) -> list[Any]:
    """Return columns and thresholds of all trees, as `Node.shape` does; `names` translates columns."""
    links, thresholds = model._field("links"), model._field("thresholds")

    def shape(t: int, i: int) -> Any:
        node = t * model._room + i
        left, column = links[2 * node : 2 * node + 2].tolist()
        if left == 0:
            return None
        return [names(column), float(thresholds[node]), shape(t, left), shape(t, left + 1)]

    return [shape(t, 0) for t in range(model.trees)]


@each_variant
@pytest.mark.parametrize(
    ("form", "rare"), [*((form, False) for form in agreement.FORMS), *((form, True) for form in agreement.FORMS[:3])]
)
def test_equals_the_reference(params: dict[str, Any], form: str, rare: bool) -> None:
    n = 900
    X, y, weights = rare_stream(n) if rare else agreement.stream(n)
    plain, theirs = reference_run(tuple(params.items()), rare, n)
    model = JointForest(**params)
    agreement.close(agreement.learned(model, X, y, weights, form), theirs, "scores")
    order = [j for j in range(X.shape[1]) if j not in (2, 6)] + [2, 6] if form == "widening" else range(X.shape[1])
    names = model._encoder.names
    ours = shape_of(model, (lambda j: int(names[j][1:])) if form == "dicts" else lambda j: order[j])
    same_trees(ours, [tree.shape() for tree in plain.trees])
    assert sum(tree is not None for tree in ours) > model.trees // 2
    scalars = model._field("scalars")
    kind = {columns.PROVISIONAL: "provisional", columns.DENSE: "dense", columns.SPARSE: "sparse"}
    assert kind[scalars[columns.FORM]] == plain.form
    assert scalars[columns.FEATURES] == plain.features
    assert int(model._field("generator")[0]) == plain.rng.state
    agreement.close(model._field("mixture")[0], plain.theta, "theta")
    agreement.close(model._field("mixture")[1:], plain.cov, "covariance")
    assert not model._field("dense").any()
    assert (model._field("used") <= model.nodes).all()
    assert model.examples == n


def test_the_streams_of_the_reference_have_every_case() -> None:
    forms = {reference_run(tuple(params.items()), rare, 900)[0].form for params in VARIANTS.values() for rare in (0, 1)}
    assert forms == {"dense", "sparse"}
    full, _ = reference_run(tuple(VARIANTS["full-trees"].items()), False, 900)
    assert max(2 * len(list(tree.inner())) + 1 for tree in full.trees) == 9


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(1, 500), width=st.integers(1, 6))
def test_counts_depths_and_numbers_of_nodes_agree(seed: int, n: int, width: int) -> None:
    random = np.random.default_rng(seed)
    X = np.round(random.normal(size=(n, width)), 1)
    y = np.where(random.random(n) < 0.5, X[:, 0] > 0.0, random.random(n) < 0.2)
    model = JointForest(trees=4, nodes=7, capacity=3).partial_fit(X, y)
    links, leaves = model._field("links").reshape(4, -1, 2), model._field("leaves").reshape(4, -1, trees.LEAF)
    for t in range(4):
        used = int(model._field("used")[t])
        inner = links[t, :used, 0] > 0
        assert used == 2 * inner.sum() + 1 <= 7
        assert sorted(links[t, :used, 0][inner].tolist()) == list(range(1, used, 2))  # each pair has one parent
        assert sorted(links[t, :used, 1][~inner].tolist()) == list(range((used + 1) // 2))
        counts = leaves[t, : (used + 1) // 2]
        assert counts[:, trees.ROWS].sum() <= n
        assert (counts[:, trees.HELD] <= trees.CANDIDATES).all()
        assert (counts[:, trees.VISIT] <= n).all()
    assert np.isfinite(model.decision_function(X)).all()
    assert model._field("slots")[:-1, 1].sum() <= 2 * 3 * width


@settings(max_examples=20, deadline=None)
@given(u=st.floats(-5.0, 5.0), column=st.integers(0, 2**31 - 1))
def test_a_code_holds_a_column_and_its_value(u: float, column: int) -> None:
    code = trees.code_of(column, u)
    assert trees.column_of(code) == column
    assert abs(trees.standard_in(code) - u) <= 2.0**-29


@settings(max_examples=200, deadline=None)
@given(z=st.floats(-1e5, 1e5))
def test_the_cosine_is_that_of_the_library(z: float) -> None:
    assert abs(fourier.cosine(z) - math.cos(z)) < 4e-15 + 2.0**-52 * abs(z)


@settings(max_examples=200, deadline=None)
@given(a=st.floats(0.0, 2000.0), b=st.integers(0, 2000))
def test_the_evidence_of_a_table_is_that_of_the_library(a: float, b: int) -> None:
    for x, y in ((a, float(b)), (float(int(a)), float(b))):
        expected = math.lgamma(x + 0.5) + math.lgamma(y + 0.5) - math.lgamma(x + y + 1.0) - math.log(math.pi)
        assert trees.evidence(x, y) == pytest.approx(expected, rel=1e-12, abs=1e-9)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_permuted_columns_change_no_split(seed: int) -> None:
    X, y, weights = agreement.stream(300, seed=seed)
    order = np.random.default_rng(seed).permutation(X.shape[1])
    one, other = JointForest(trees=6), JointForest(trees=6)
    agreement.close(other.engine.learn_array(X[:, order], y, weights), one.engine.learn_array(X, y, weights))
    assert shape_of(other, lambda j: int(order[j])) == shape_of(one, lambda j: j)


def xor(n: int, seed: int = 0, positive: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): no line separates the classes."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, 5))
    return X, (X[:, 0] * X[:, 1] > 0.0) ^ (random.random(n) < 0.05)


def test_it_learns_what_no_line_does() -> None:
    X, y = xor(6000)
    scores = JointForest().engine.learn_array(X, y)
    linear = Pipeline(AutoScale(), make("psam", {})).engine.learn_array(X, y)
    assert roc_auc_score(y[2000:], scores[2000:]) > 0.85
    assert roc_auc_score(y[2000:], linear[2000:]) < 0.6


def test_units_that_drift_and_labels_that_flip_are_followed() -> None:
    X, y = xor(12_000)
    drifting = X * np.exp(np.arange(12_000) / 3000.0)[:, None]
    scores = JointForest().engine.learn_array(drifting, y)
    assert roc_auc_score(y[8000:], scores[8000:]) > 0.8
    flipped = np.where(np.arange(12_000) < 6000, y, ~y)
    scores = JointForest().engine.learn_array(X, flipped)
    assert roc_auc_score(flipped[9000:], scores[9000:]) > 0.8


def test_one_percent_positives_and_constant_columns() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(20_000, 6))
    X[:, 3] = 7.25
    X[:, 4] = 0.0
    y = X[:, 0] + X[:, 1] + 0.5 * random.logistic(size=20_000) > 4.3
    assert 0.005 < y.mean() < 0.02
    model = JointForest()
    scores = model.engine.learn_array(X, y)
    assert roc_auc_score(y, scores) > 0.85
    assert model._field("place")[4] == 0.0


def test_a_class_alone_for_ten_thousand_rows() -> None:
    X, y = xor(14_000)
    for alone in (True, False):
        labels = y.copy()
        labels[:10_000] = alone
        model = JointForest()
        scores = model.engine.learn_array(X, labels)
        assert np.isfinite(scores).all()
        assert roc_auc_score(labels[12_000:], scores[12_000:]) > 0.7


def test_a_hundred_thousand_categories() -> None:
    random = np.random.default_rng(0)
    n, many = 30_000, 100_000
    user = random.integers(many, size=n)
    site = random.integers(20, size=n)
    effect = random.normal(size=20)
    y = random.random(n) < 1.0 / (1.0 + np.exp(1.0 - 2.0 * effect[site]))
    indices = np.column_stack([site, 20 + user]).ravel()
    X = sparse.csr_array((np.ones(2 * n), indices, 2 * np.arange(n + 1)), shape=(n, many + 20))
    model = JointForest()
    scores = model.engine.learn_array(X, y)
    assert model._field("scalars")[columns.FORM] == columns.SPARSE
    best = roc_auc_score(y, effect[site])
    assert roc_auc_score(y[10_000:], scores[10_000:]) > best - 0.03
    names = JointForest()
    for u, s, label in zip(user[:500].tolist(), site[:500].tolist(), y[:500].tolist(), strict=True):
        names.learn_one({"user": f"u{u}", "site": f"s{s}"}, label)
    assert names._field("scalars")[columns.FORM] == columns.SPARSE


def test_the_decayed_sums_are_rescaled_without_a_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    X = sparse.random_array((40_000, 30), density=0.1, rng=random).tocsr()
    y = X[:, [0]].toarray().ravel() > 0.3
    model = JointForest(trees=2, nodes=3, form="sparse").partial_fit(X, y)
    assert 1.0 <= model._field("scalars")[columns.SCALE] <= columns.LARGEST_SCALE
    squares, counts = model._field("squares")[:30], model._field("counts")[:30]
    decay = (1.0 - 1.0 / columns.WINDOW) ** np.arange(39_999, -1, -1)
    dense = X.toarray()
    expected = np.sqrt((decay[:, None] * dense**2).sum(axis=0) / (decay[:, None] * (dense != 0.0)).sum(axis=0))
    np.testing.assert_allclose(np.sqrt(squares / counts), expected, rtol=1e-9)


def test_wide_rows_cost_what_their_values_do() -> None:
    random = np.random.default_rng(0)

    def rows(width: int) -> sparse.csr_array:
        indices = np.sort(random.integers(width, size=(2000, 20)), axis=1).ravel()
        return sparse.csr_array((np.ones(40_000), indices, 20 * np.arange(2001)), shape=(2000, width))

    from time import process_time

    spent = []
    for width in (1000, 1_000_000):
        X, y = rows(width), random.random(2000) < 0.5
        model = JointForest()
        model.partial_fit(X[:200], y[:200])
        begin = process_time()
        model.partial_fit(X[200:], y[200:])
        spent.append(process_time() - begin)
    assert spent[1] < 4.0 * spent[0] + 0.2


@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_contributions_by_column_add_up_and_say_what_matters(kind: str) -> None:
    X, y = xor(2000)
    if kind == "sparse":
        X[np.random.default_rng(1).random(X.shape) < 0.8] = 0.0
        y = X[:, 0] > 0.0
    model = JointForest()
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        model.learn_one({f"c{j}": value for j, value in enumerate(x) if value}, label)
    for x in X[:50].tolist():
        row = {f"c{j}": value for j, value in enumerate(x) if value}
        found = model.explain_one(row)
        assert sum(found.values()) == pytest.approx(model.score_one(row), rel=1e-9, abs=1e-9)
        assert set(found) <= {"c0", "c1", "c2", "c3", "c4", "(intercept)", "(fourier)"}
        assert (found["(fourier)"] != 0.0) is (kind == "dense")
    importances = model.importances()
    columns_first = [name for name in importances if name != "(fourier)"]
    assert columns_first[0] in ("c0", "c1")
    assert list(importances.values()) == sorted(importances.values(), reverse=True)
    assert "(intercept)" not in importances
    assert JointForest().importances() == {"(fourier)": 0.0}
    if kind == "dense":
        assert set(columns_first[:2]) == {"c0", "c1"}


def test_contributions_of_sums_that_are_cut_add_up() -> None:
    X, _ = xor(400)
    model = JointForest(eta=1000.0).partial_fit(X, X[:, 0] > 0.0)
    for x in X[:20].tolist():
        found = model.explain_one(dict(enumerate(x)))
        assert sum(found.values()) == pytest.approx(model.score_one(dict(enumerate(x))), rel=1e-9, abs=1e-9)
    assert np.abs(model._field("work")[:9]).max() == jointforest.LONGEST_SUM


def test_hashed_rows_are_explained_behind_a_norm() -> None:
    for encoder in (Hashing(4), Vocabulary()):
        model = Pipeline(encoder, UnitNorm(), JointForest())
        random = np.random.default_rng(0)
        for i in range(400):
            model.learn_one({"a": float(random.normal() + i % 2), "word": "xyz"[i % 3]}, i % 2 == 1)
        row = {"a": 1.5, "word": "x", "never": 2.0}
        found = model.explain_one(row)
        assert sum(found.values()) == pytest.approx(model.score_one(row), rel=1e-9)
        assert {"a", "word=x", "(intercept)", "(fourier)"} <= set(found)


def test_a_merge_says_what_to_do_instead() -> None:
    with pytest.raises(CannotMerge, match=r"such as MBA, or the mean of the probabilities of both models, got Joint"):
        JointForest().merge(JointForest(), approximate=True)


def test_snapshot_and_pickle_hold_the_nodes_in_use() -> None:
    X, y = xor(3000)
    model = JointForest().partial_fit(X, y)
    used = int(model._field("used").sum())
    assert used > 60
    assert len(model.to_bytes()) < 60_000 + 310 * used
    assert len(pickle.dumps(model)) < 150_000 + 310 * used
    assert len(JointForest().to_bytes()) < 60_000
    resumed = from_bytes(model.to_bytes())
    copied = pickle.loads(pickle.dumps(model))
    expected = model.engine.learn_array(X, y)
    np.testing.assert_array_equal(resumed.engine.learn_array(X, y), expected)
    np.testing.assert_array_equal(copied.engine.learn_array(X, y), expected)


def test_frequencies_are_there_for_a_call_of_one_row_as_soon_as_they_count() -> None:
    X, y = xor(90)
    model, blocks = JointForest(), JointForest().partial_fit(X[:32], y[:32])
    rows = [dict(enumerate(row)) for row in X.tolist()]
    for row, label in zip(rows[:32], y[:32].tolist(), strict=True):
        model.score_one(row)
        model.learn_one(row, label)
    expected = blocks.decision_function(X)
    assert [model.score_one(row) for row in rows] == expected.tolist()
    resumed = from_bytes(model.to_bytes())
    assert [resumed.score_one(row) for row in rows] == expected.tolist()


class TestCitizen:
    @pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())
    def test_splits(self, params: dict[str, Any]) -> None:
        X, y, weights = agreement.stream(500)
        for form in (np.asarray, sparse.csr_array):
            rows = form(X)
            whole = JointForest(**params)
            scores = whole.engine.learn_array(rows, y, weights)
            for edges in ([0, 1, 2, 31, 32, 117, 500], list(range(501))):
                parts = JointForest(**params)
                pieces = [
                    parts.engine.learn_array(rows[a:b], y[a:b], weights[a:b]) for a, b in itertools.pairwise(edges)
                ]
                np.testing.assert_array_equal(np.concatenate(pieces), scores)
                agreement.same_state(parts, whole)

    def test_snapshot(self) -> None:
        agreement.check_snapshot(JointForest, at=(0, 1, 32, 90, 257))

    def test_skips(self) -> None:
        agreement.check_skips(JointForest)


def test_a_new_node_is_a_leaf() -> None:
    assert Node().shape() is None
