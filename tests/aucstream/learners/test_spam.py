"""SPAM: equal to its reference step by step, values and zeros, equal to Algorithm 1 in `fit`, and a good citizen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.spam import SPAM as Plain
from reference.spam import spam_batch
from reference.streams import cosine, gaussian_stream
from scipy import sparse
from sklearn.metrics import roc_auc_score

from aucstream import SPAM
from aucstream.errors import InvalidParams, NonFiniteStep
from aucstream.kernels.weights import elasticnet, l1ball
from aucstream.learners._families import proximal
from tests.data import unit_rows

from . import agreement

NET = {"penalty": "elasticnet"}
VARIANTS: dict[str, dict[str, Any]] = {
    "l2": {},
    "l2-folding": {"beta": 2.0, "cap": 0.3},
    "l2-literal": {"kappa": 20.0, "cap": 1e-3, "schedule": "strong", "beta": 5.0},
    "l2-fading": {"half_life": 60.0},
    "l2-fading-fast": {"half_life": 1.0, "beta": 0.5, "cap": 0.05},
    "net": NET,
    "net-sparse": {**NET, "beta": 0.01, "beta1": 0.05},
    "net-folding": {**NET, "beta": 2.0, "beta1": 0.02, "cap": 0.3},
    "net-l1-only": {**NET, "beta": 0.0, "beta1": 0.03, "cap": 0.3},
    "net-dead": {**NET, "beta1": 0.3, "schedule": "strong"},
    "net-literal": {**NET, "kappa": 20.0, "cap": 1e-3, "beta": 0.1, "beta1": 0.5},
}
each_variant = pytest.mark.parametrize("params", VARIANTS.values(), ids=VARIANTS.keys())


def iterate(model: SPAM) -> np.ndarray:
    """Return the last iterate."""
    if model.penalty == "l2":
        return model._field("v") * model._field("scalars")[proximal.SCALE]
    ball, z = model._field("ball"), model._field("z")
    return ball[elasticnet.PI] * np.sign(z) * np.where(z == 0.0, 0.0, np.abs(z) - ball[l1ball.TH])


def tracked(model: SPAM) -> np.ndarray:
    """Return the products of the class sums with the iterate, as the state holds them."""
    if model.penalty == "l2":
        scalars = model._field("scalars")
        return scalars[[proximal.DOT_POS, proximal.DOT_NEG]] * scalars[proximal.SCALE] / proximal.growth_of(scalars)
    ball = model._field("ball")
    z, sign = ball[[elasticnet.ZSUM_POS, elasticnet.ZSUM_NEG]], ball[[elasticnet.SIGN_POS, elasticnet.SIGN_NEG]]
    return ball[elasticnet.PI] * (z - ball[l1ball.TH] * sign)


def sums(model: SPAM) -> np.ndarray:
    """Return the class sums, the newest row counting for 1."""
    growth = proximal.growth_of(model._field("scalars"))
    return np.array([model._field("sums_pos"), model._field("sums_neg")]) / growth


@each_variant
@pytest.mark.parametrize("form", agreement.FORMS)
def test_equals_the_reference(params: dict[str, Any], form: str) -> None:
    model, plain = agreement.check_agreement(SPAM, Plain, params, form)
    scalars = model._field("scalars")
    agreement.close(scalars[proximal.STEPS], plain.t)
    agreement.close(
        scalars[[proximal.N_POS, proximal.N_NEG]] / proximal.growth_of(scalars), [plain.n_pos, plain.n_neg], "counts"
    )
    if form in ("dense", "csr"):
        w = iterate(model)[: plain.w.size]
        agreement.close(w, plain.w, "iterate")
        np.testing.assert_array_equal(w == 0.0, plain.w == 0.0)
        agreement.close(sums(model)[:, : plain.w.size], [plain.sum_pos, plain.sum_neg], "class sums")
    np.testing.assert_allclose(
        tracked(model), sums(model) @ iterate(model), rtol=1e-9, atol=1e-11 * np.abs(sums(model)).max()
    )


@pytest.mark.parametrize(
    "params",
    [
        {"beta": 0.5},
        {**NET, "beta": 0.5, "beta1": 0.01},
        {**NET, "beta": 0.0, "beta1": 0.02, "schedule": "strong"},
        {**NET, "beta": 1e-4, "beta1": 0.1, "cap": 0.3, "C": 1e3},
    ],
    ids=["l2", "net", "l1", "net-slow"],
)
def test_long_streams_that_fold_often_are_the_reference_dense_and_sparse(params: dict[str, Any]) -> None:
    g = gaussian_stream(10_000, d=12, p=0.3, largest=None)
    random = np.random.default_rng(0)
    X = np.where(random.random(g.X.shape) < 0.6, 0.0, g.X * np.exp(2.0 * random.normal(size=12)))
    plain = Plain(**params)
    theirs = [plain.learn(x, y) for x, y in zip(X, g.y, strict=True)]
    for form in (np.asarray, sparse.csr_array):
        model = SPAM(**params)
        scores, zeros = [], 0
        for a in range(0, 10_000, 2500):
            scores.append(model.engine.learn_array(form(X[a : a + 2500]), g.y[a : a + 2500]))
            zeros += int((iterate(model)[:12] == 0.0).sum())
        agreement.close(np.concatenate(scores), theirs)
        agreement.close(iterate(model)[:12], plain.w)
        np.testing.assert_array_equal(iterate(model)[:12] == 0.0, plain.w == 0.0)
        assert (zeros > 0) == (params.get("beta1", 0.0) > 0.0)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    penalties=st.lists(
        st.tuples(st.sampled_from([0.0, 1e-3, 0.5, 8.0]), st.sampled_from([0.0, 1e-3, 0.02, 0.3])),
        min_size=1,
        max_size=5,
    ),
    kappa=st.sampled_from([None, 5.0]),
)
def test_penalties_may_change_at_any_row(seed: int, penalties: list[tuple[float, float]], kappa: float | None) -> None:
    X, y, weights = agreement.stream(150, seed=seed)
    if kappa is not None:
        X[0] /= 1e5
        X /= 20.0
    model, plain = SPAM(**NET, kappa=kappa, cap=0.02), Plain(**NET, kappa=kappa, cap=0.02)
    for part, (beta, beta1) in zip(np.array_split(np.arange(150), len(penalties)), penalties, strict=True):
        model.mutate({"beta": beta, "beta1": beta1})
        plain.beta, plain.beta1 = beta, beta1
        scores = model.engine.learn_array(sparse.csr_array(X[part]), y[part], weights[part])
        agreement.close(scores, [plain.learn(X[i], y[i], weights[i]) for i in part])
        agreement.close(iterate(model)[:7], plain.w)
        np.testing.assert_array_equal(iterate(model)[:7] == 0.0, plain.w == 0.0)


@pytest.mark.parametrize("name", ["beta", "C", "cap"])
def test_l2_penalty_and_step_may_change(name: str) -> None:
    X, y, weights = agreement.stream(300)
    model, plain = SPAM(), Plain()
    for part, value in ((np.arange(150), 0.02), (np.arange(150, 300), 0.3)):
        setattr(model, name, value)
        setattr(plain, name, value)
        scores = model.engine.learn_array(X[part], y[part], weights[part])
        agreement.close(scores, [plain.learn(X[i], y[i], weights[i]) for i in part])
    for fixed in ("penalty", "schedule", "kappa"):
        with pytest.raises(AttributeError):
            setattr(model, fixed, getattr(model, fixed))


@each_variant
def test_a_step_is_the_proximal_step(params: dict[str, Any]) -> None:
    """0 is in w - u + eta (beta w + beta1 sign(w)) at the new w, u = w_old - eta c x."""
    X, y, _ = agreement.stream(120)
    model = SPAM(**params)
    beta1 = model.beta1 if model.penalty == "elasticnet" else 0.0
    for i in range(120):
        before = iterate(model)[:7] if i else np.zeros(7)
        model.engine.learn_array(X[i : i + 1], y[i : i + 1])
        scalars = model._field("scalars")
        t = scalars[proximal.STEPS]
        if t == 0.0:
            continue
        step = model.C / np.sqrt(t) if model.schedule == "sqrt" else 1.0 / (model.beta * (t + 1.0))
        eta = min(model.cap, step)
        unit = 1.0 if model.kappa else np.sqrt(model._ledger[2])
        norm = np.linalg.norm(X[i])
        x = X[i] * (1.0 if model.kappa else min(1.0, 2.0 * unit / max(norm, 1e-300)))
        counts = scalars[[proximal.N_POS, proximal.N_NEG]] / proximal.growth_of(scalars)
        means = sums(model)[:, :7] / counts[:, None]
        p = scalars[proximal.N_POS] / scalars[[proximal.N_POS, proximal.N_NEG]].sum()
        if y[i] > 0:
            c = 2.0 * (1.0 - p) * (before @ (x - means[1]) - 1.0)
        else:
            c = 2.0 * p * (before @ (x - means[0]) + 1.0)
        w = iterate(model)[:7]
        left = w - (before - eta * c * x / unit**2) + eta * model.beta * w
        room = eta * beta1 / unit
        slack = 1e-9 * (np.abs(w).max() + np.abs(before).max() + room)
        np.testing.assert_allclose(left[w != 0.0], -room * np.sign(w[w != 0.0]), atol=slack)
        assert (np.abs(left[w == 0.0]) <= room + slack).all()


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "csr"])
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"beta": 0.5, "schedule": "strong", "kappa": 20.0, "cap": 1e-3},
        {**NET, "beta": 0.05, "beta1": 0.02},
        {**NET, "beta": 0.0, "beta1": 0.2, "cap": 0.02},
    ],
    ids=["l2", "l2-literal", "net", "l1"],
)
def test_fit_is_algorithm_1(params: dict[str, Any], form: Any) -> None:
    X, y, _ = agreement.stream(400)
    if "kappa" in params:
        X[0] /= 1e5
    model = SPAM(**params).fit(form(X), y, epochs=3)
    random = np.random.default_rng(0)
    order = np.concatenate([random.permutation(400) for _ in range(3)])
    w, wbar = spam_batch(X, y, order=order, **params)
    agreement.close(model.coefficients(), wbar, "output")
    agreement.close(iterate(model)[:7], w, "iterate")
    np.testing.assert_array_equal(iterate(model)[:7] == 0.0, w == 0.0)
    scalars = model._field("scalars")
    assert scalars[[proximal.STEPS, proximal.N_POS, proximal.N_NEG]].tolist() == [1200, (y > 0).sum(), (y < 0).sum()]
    assert model.examples == 400
    assert model.engine.calibration_line is not None
    model.partial_fit(form(X), y)  # goes on from there
    assert model.examples == 800


def test_fit_of_one_class_bad_epochs_and_steps_that_diverge() -> None:
    X, y, _ = agreement.stream(40)
    for params in ({}, NET):
        assert not SPAM(**params).fit(X, np.ones(40)).coefficients().any()
        with pytest.raises(InvalidParams, match="epochs"):
            SPAM(**params).fit(X, y, epochs=0)
        for rows, cap in ((1e200 * X, 0.1), (X, 1e9)):
            model = SPAM(**params, kappa=1.0, cap=cap, C=1e9)
            with pytest.raises(NonFiniteStep, match="row"):
                model.fit(rows, y, epochs=20)
            assert model.examples == 0
            assert not model._field("sums_pos").any()


def test_fit_reaches_one_minimiser_whatever_the_order_of_rows() -> None:
    g = gaussian_stream(400, d=6, p=0.4, seed=3)
    p = float((g.y > 0).mean())
    pos, neg = g.X[g.y > 0], g.X[g.y < 0]
    mu = pos.mean(axis=0) - neg.mean(axis=0)
    S = np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True)
    beta = 0.01
    best = np.linalg.solve(S + np.outer(mu, mu) + beta / (2.0 * p * (1.0 - p)) * np.eye(6), mu)
    for order in (np.arange(400), np.argsort(g.y)):
        model = SPAM(beta=beta, cap=0.5, kappa=1.0).fit(g.X[order], g.y[order], epochs=300)
        assert np.linalg.norm(model.coefficients() - best) < 0.02 * np.linalg.norm(best)


@each_variant
def test_one_class_moves_nothing(params: dict[str, Any]) -> None:
    X, _, weights = agreement.stream(50)
    for label in (1.0, -1.0):
        model = SPAM(**params)
        assert not model.engine.learn_array(X, np.full(50, label), weights).any()
        assert model._field("scalars")[proximal.STEPS] == 0.0
        assert not iterate(model).any()


@each_variant
def test_swapped_labels_turn_the_weights(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    one, other = SPAM(**params), SPAM(**params)
    one.engine.learn_array(X, y, weights)
    other.engine.learn_array(X, -y, weights)
    agreement.close(other.coefficients(), -one.coefficients())


@each_variant
def test_permuted_turned_empty_and_longer_columns(params: dict[str, Any]) -> None:
    X, y, weights = agreement.stream(300)
    d = X.shape[1]
    random = np.random.default_rng(0)
    order, turn = random.permutation(d), np.linalg.qr(random.normal(size=(d, d)))[0]
    model = SPAM(**params)
    model.engine.learn_array(X, y, weights)
    w = model.coefficients()
    pairs = [(X[:, order], w[order]), (np.hstack([X, np.zeros((300, 1))]), np.append(w, 0.0))]
    if model.penalty == "l2":
        pairs.append((X @ turn, w @ turn))
    if model.kappa is None:
        pairs.append((2.0 * X, w / 2.0))
    for Z, expected in pairs:
        model = SPAM(**params)
        model.engine.learn_array(Z, y, weights)
        agreement.close(model.coefficients(), expected)


@pytest.mark.parametrize("kappa", [1.0, None])
@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_reaches_the_closed_form(penalty: Any, kappa: float | None) -> None:
    g = gaussian_stream(30_000, d=5, p=0.2)
    model = SPAM(penalty=penalty, beta=1e-5, C=30.0, cap=0.5, kappa=kappa).partial_fit(g.X, g.y)
    w = model.coefficients()
    assert cosine(w, g.minimiser()) > 0.98
    assert abs(g.auc(w) - g.auc(g.minimiser())) < 0.002


@pytest.mark.parametrize("penalty", ["l2", "elasticnet"])
def test_a9a_is_ranked_as_the_reference_ranks_it(penalty: Any) -> None:
    (X, y), (Z, labels) = unit_rows("a9a.svm.gz"), unit_rows("a9a.t.svm.gz")
    order = np.random.default_rng(0).permutation(y.size)
    model = SPAM(penalty=penalty).partial_fit(X[order], y[order])
    assert roc_auc_score(labels, model.decision_function(Z)) > 0.8988


CITIZENS = {
    "l2": {"beta": 0.5},
    "net": {**NET, "beta": 0.1, "beta1": 0.02},
}


@pytest.mark.parametrize("params", CITIZENS.values(), ids=CITIZENS.keys())
class TestCitizen:
    def test_splits(self, params: dict[str, Any]) -> None:
        agreement.check_splits(lambda: SPAM(**params))

    def test_snapshot(self, params: dict[str, Any]) -> None:
        agreement.check_snapshot(lambda: SPAM(**params))

    def test_skips(self, params: dict[str, Any]) -> None:
        agreement.check_skips(lambda: SPAM(**params, kappa=1.0, cap=1e-3))

    def test_units(self, params: dict[str, Any]) -> None:
        agreement.check_units(lambda: SPAM(**params))

    def test_rescaled(self, params: dict[str, Any]) -> None:
        agreement.check_rescaled(lambda: SPAM(**params))


def test_a_half_life_follows_a_stream_that_turns_around_and_is_of_the_l2_penalty_alone() -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(24_000, 3))
    y = X[:, 0] + 0.5 * random.normal(size=24_000) > 0.0
    y[20_000:] = ~y[20_000:]
    after = {}
    for half_life in (None, 300.0):
        scores = SPAM(half_life=half_life).engine.learn_array(X, y)
        after[half_life] = float(np.corrcoef(scores[22_000:], y[22_000:])[0, 1])
    assert after[300.0] > 0.6 > 0.0 > after[None]
    with pytest.raises(InvalidParams, match=r"^SPAM\.half_life: expected None with penalty='elasticnet', got 300\.0$"):
        SPAM(half_life=300.0, **NET)
