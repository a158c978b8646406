"""The references are themselves checked against mathematics: identities, invariants, closed forms."""

from __future__ import annotations

import copy
import importlib
import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from aucstream.registry import LEARNERS

from . import balls
from .adaoam import AdaOAM, project_weighted
from .asam import ASAM
from .buffers import Buffer
from .cbr import CBR
from .fsauc import FSAUC
from .ftrl import FTRL
from .mba import MBA, kkt_residual, mba_sampled, pair_moments, solve_diagonal, solve_elastic_net, solve_l2
from .minibatch import MiniBatchAUC
from .moments import ClassMoments, SketchedScatter
from .oam import OAM
from .opauc import OPAUC, SketchedMoments, pair_gradient
from .psam import PSAM, hinge_prox_gradient, psam_batch
from .randomness import Generator
from .regsolam import RegSOLAM
from .row_scale import RowScale
from .solam import SOLAM, saddle_gradient
from .spam import SPAM, prox, spam_batch, spam_slope
from .spdam import SPDAM, PrimalDual, spdam_batch
from .streams import cosine, gaussian_stream
from .univariate import OnlineLogistic, UnivariateExp, sigmoid
from .vrspam import VRSPAM, vrspam_batch

Make = Callable[..., Any]

SHARED = {"onlinelogistic": "univariate", "univariateexp": "univariate"}  # learner to the file of its reference

SADDLE: dict[str, Make] = {
    "solam-l2": lambda **k: SOLAM(norm="l2", **k),
    "solam-l1": lambda **k: SOLAM(norm="l1", **k),
    "regsolam": lambda **k: RegSOLAM(lam=1e-2, **k),
    "fsauc": lambda **k: FSAUC(n1=32, **k),
    "fsauc-n": lambda **k: FSAUC(n=4000, **k),
}
PROXIMAL: dict[str, Make] = {
    "spam": lambda **k: SPAM(beta=1e-2, **k),
    "spam-net": lambda **k: SPAM(penalty="elasticnet", beta1=1e-3, schedule="strong", **k),
    "vrspam": lambda **k: VRSPAM(n_buffer=60, inner=2, **k),
    "vrspam-net": lambda **k: VRSPAM(penalty="elasticnet", beta1=1e-3, **k),
    "spdam": lambda **k: SPDAM(n_buffer=80, **k),
}
PAIRWISE: dict[str, Make] = {
    "oam-seq": lambda **k: OAM(update="seq", capacity=20, **k),
    "oam-gra": lambda **k: OAM(update="gra", capacity=20, policy="fifo", weighting="count", **k),
    "psam": lambda **k: PSAM(capacity=30, **k),
    "psam-replay": lambda **k: PSAM(capacity=30, fresh=2, replay=3, policy="random", askip=3, **k),
    "asam": lambda **k: ASAM(capacity=30, **k),
    "asam-squared": lambda **k: ASAM(capacity=30, loss="squared_hinge", lam=1e-2, **k),
    "opauc": lambda **k: OPAUC(**k),
    "opauc-diag": lambda **k: OPAUC(diagonal=True, average=True, **k),
    "opauc-rank": lambda **k: OPAUC(rank=6, **k),
    "adaoam": lambda **k: AdaOAM(**k),
    "cbr-diag": lambda **k: CBR(capacity=10, **k),
    "cbr-full": lambda **k: CBR(capacity=10, covariance="full", policy="reservoir", **k),
}
BLOCKS: dict[str, Make] = {
    "minibatch": lambda **k: MiniBatchAUC(batch=16, **k),
    "minibatch-squared": lambda **k: MiniBatchAUC(loss="squared", eta0=0.5, batch=3, average=False, **k),
}
UNIVARIATE: dict[str, Make] = {
    "logistic": lambda **k: OnlineLogistic(lam=1e-2, **k),
    "exp": lambda **k: UnivariateExp(**k),
}
UNSCALED: dict[str, Make] = {
    "mba": lambda: MBA(),
    "mba-l1": lambda: MBA(lam1=0.02, lam2=1e-3),
    "mba-diag": lambda: MBA(moments="diag"),
    "mba-sketch": lambda: MBA(moments="sketch", sketch_size=2),
    "mba-fading": lambda: MBA(half_life=40.0, clock="global"),
    "ftrl": lambda: FTRL(),
}
ALL = {**SADDLE, **PROXIMAL, **PAIRWISE, **BLOCKS, **UNIVARIATE}
EVERY = {**ALL, **UNSCALED}
AXES = (
    "mba-l1",
    "mba-diag",
    "ftrl",
    "solam-l1",
    "fsauc",
    "fsauc-n",
    "spam-net",
    "vrspam-net",
    "opauc-diag",
    "adaoam",
    "cbr-diag",
)
ROTATES = [name for name in EVERY if name not in AXES]
# What a change of the unit of x does to each state array: weights gain the unit, rows lose it.
WEIGHTS = ("w", "wbar", "w1", "wsum", "wlast", "wt")
ROWS = ("A_pos", "A_neg", "sum_pos", "sum_neg", "m_pos_B", "m_neg_B", "M_B")


def run(learner: Any, X: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Learn all rows; return the scores given before each."""
    om = np.ones(y.size) if weights is None else weights
    return np.array([learner.learn(X[i], y[i], om[i]) for i in range(y.size)])


def output(learner: Any) -> np.ndarray:
    """Return the output weights of a learner."""
    return learner.output if hasattr(learner, "output") else learner.wbar


@pytest.fixture(scope="module")
def small() -> tuple[np.ndarray, np.ndarray]:
    """A short stream with outlier rows, in raw units."""
    g = gaussian_stream(300, d=4, p=0.3, seed=5, largest=None)
    X = 3.0 * g.X
    X[::37] *= 9.0
    return X, g.y


# ---------------------------------------------------------------- randomness and buffers


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_has_a_reference(name):
    entry = LEARNERS[name]
    reference = importlib.import_module(f"{__package__}.{SHARED.get(name, entry.module)}")
    assert isinstance(getattr(reference, entry.class_name), type)


def test_splitmix_known_answers() -> None:
    rng = Generator(0)
    assert rng.state == 0
    assert [rng.next() for _ in range(3)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]


def test_bounded_draws_are_uniform() -> None:
    rng = Generator(1)
    counts = np.bincount([rng.below(7) for _ in range(14000)], minlength=7)
    assert float(((counts - 2000.0) ** 2 / 2000.0).sum()) < 22.5  # chi-square, 6 degrees, .999
    k = (1 << 31) - 1
    draws = [rng.below(k) for _ in range(2000)]
    assert max(draws) < k and abs(np.mean(draws) / k - 0.5) < 0.03
    before = rng.state
    assert rng.below(1) == 0 and rng.state != before


def test_normal_draws() -> None:
    rng = Generator(2)
    z = np.array([rng.normal() for _ in range(20000)])
    assert abs(z.mean()) < 0.03 and abs(z.var() - 1.0) < 0.05 and abs((z**4).mean() - 3.0) < 0.3


def test_reservoir_holds_each_row_equally_often() -> None:
    held, trials = np.zeros(40), 3000
    rng = Generator(3)
    for _ in range(trials):
        buffer = Buffer(10, "reservoir", rng)
        for i in range(40):
            buffer.offer(np.array([float(i)]))
        held[[int(row[0]) for row in buffer.rows]] += 1
    expected, variance = trials * 0.25, trials * 0.25 * 0.75
    assert float(((held - expected) ** 2 / variance).sum()) < 73.4  # about chi-square, 40 degrees, .999


def test_fifo_and_random_buffers() -> None:
    rng = Generator(4)
    fifo, random = Buffer(3, "fifo", rng), Buffer(3, "random", rng)
    for i in range(8):
        fifo.offer(np.array([float(i)]))
        random.offer(np.array([float(i)]))
        assert any(row[0] == i for row in random.rows)
    assert [row[0] for row in fifo.rows] == [6.0, 7.0, 5.0]


# ---------------------------------------------------------------- scale


def test_scale_is_the_root_mean_square() -> None:
    X = np.random.default_rng(0).normal(size=(200, 30))
    scale = RowScale()
    for i, x in enumerate(X):
        unit, factor = scale.see(x)
        assert unit == pytest.approx(math.sqrt((np.linalg.norm(X[: i + 1], axis=1) ** 2).mean()), rel=1e-12)
        assert factor == 1.0
    assert scale.mean_square == pytest.approx(scale.unit**2)


def test_scale_of_unit_rows_zero_rows_and_doubled_rows() -> None:
    scale, doubled = RowScale(), RowScale()
    X = np.random.default_rng(1).normal(size=(50, 3)) * np.random.default_rng(2).lognormal(size=(50, 1))
    for x in X:
        one, two = scale.see(x), doubled.see(2.0 * x)
        assert (2.0 * one[0], one[1]) == two
        assert scale.see(np.zeros(3)) == (one[0], 1.0)
    axis = RowScale()
    for _ in range(9):
        assert axis.see(np.array([0.0, -1.0])) == (1.0, 1.0)
    assert RowScale().see(np.zeros(2)) == (1.0, 1.0)
    literal = RowScale(5.0)
    assert literal.see(np.array([1e3])) == (1.0, 1.0) and literal.bound == 5.0


def test_scale_survives_huge_rows() -> None:
    first = RowScale()
    assert first.see(np.array([1e300, 0.0])) == pytest.approx((1e150, 2e-150))
    assert first.see(np.array([1.0, 0.0])) == (1.0, 1.0) and first.count == 1
    assert first.restart == pytest.approx(1e-150)
    later = RowScale()
    for _ in range(30):
        later.see(np.array([1.0]))
    unit, factor = later.see(np.array([1e150]))
    assert unit == pytest.approx(math.sqrt(34 / 31)) and factor * 1e150 == pytest.approx(2.0 * unit)
    frozen = RowScale()
    for _ in range(20):
        frozen.see(np.array([1e6]))
    assert frozen.see(np.array([1.0]))[0] > 1e5  # the first of two rows of one scale is no outlier
    normal = RowScale()
    for norm in (1.0, 1e-5, 1.0, 1.1):
        normal.see(np.array([norm]))
    assert normal.count == 2 and 1.0 < normal.unit < 1.1


@pytest.mark.parametrize("name", ALL)
def test_scaled_step_is_the_literal_step_on_scaled_rows(name: str, small: tuple[np.ndarray, np.ndarray]) -> None:
    """At every step the learner with kappa=None moves as the one with kappa = 1 does on x/kappa_t."""
    X, y = small
    learner = ALL[name]()
    for i in range(150):
        twin = copy.deepcopy(learner)
        unit, factor = twin.scale.see(X[i])
        twin.scale = RowScale(1.0)
        for attributes, gain in ((WEIGHTS, unit), (ROWS, 1.0 / unit)):
            for attribute in attributes:
                if attribute in vars(twin):
                    setattr(twin, attribute, getattr(twin, attribute) * gain)
        for side in ("pos", "neg"):
            if hasattr(twin, side):
                getattr(twin, side).rescale(1.0 / unit)
        if hasattr(twin, "rows"):
            twin.rows = [row / unit for row in twin.rows]
        learner.learn(X[i], y[i])
        twin.learn(X[i] * factor / unit, y[i])
        np.testing.assert_allclose(twin.w / unit, learner.w, rtol=1e-9, atol=1e-13)
        np.testing.assert_allclose(output(twin) / unit, output(learner), rtol=1e-9, atol=1e-13)
        if hasattr(learner, "alpha"):
            assert (twin.a, twin.b, twin.alpha) == pytest.approx((learner.a, learner.b, learner.alpha), rel=1e-9)


# ---------------------------------------------------------------- mathematics of the saddle function


def test_pairwise_square_loss_and_saddle_function_identities() -> None:
    g = gaussian_stream(120, d=4, p=0.3, seed=1)
    X, y = g.X, g.y
    pos, neg = X[y > 0], X[y < 0]
    p = len(pos) / len(X)
    q = 1.0 - p
    m_pos, m_neg = pos.mean(0), neg.mean(0)
    mu = m_pos - m_neg
    S = np.cov(pos.T, bias=True) + np.cov(neg.T, bias=True)
    w = np.random.default_rng(0).normal(size=4)
    pairs = np.mean([(1.0 - w @ (u - v)) ** 2 for u in pos for v in neg])
    assert pairs == pytest.approx((1.0 - w @ mu) ** 2 + w @ S @ w, rel=1e-13)

    def f(v: np.ndarray) -> float:
        return float(p * q * ((1.0 - v @ mu) ** 2 + v @ S @ v))

    def F(v: np.ndarray, a: float, b: float, alpha: float, x: np.ndarray, label: float) -> float:
        s = v @ x
        if label > 0:
            return float(q * (s - a) ** 2 - 2 * (1 + alpha) * q * s - p * q * alpha**2)
        return float(p * (s - b) ** 2 + 2 * (1 + alpha) * p * s - p * q * alpha**2)

    a, b = float(w @ m_pos), float(w @ m_neg)
    alpha = b - a
    mean_F = np.mean([F(w, a, b, alpha, x, label) for x, label in zip(X, y, strict=True)])
    assert mean_F + p * q == pytest.approx(f(w), rel=1e-13)
    gradient = 2 * p * q * ((S + np.outer(mu, mu)) @ w - mu)
    G = [saddle_gradient(float(w @ x), label, p, a, b, alpha)[0] * x for x, label in zip(X, y, strict=True)]
    np.testing.assert_allclose(np.mean(G, axis=0), gradient, rtol=1e-12, atol=1e-14)
    h = 1e-5
    for j in range(4):
        e = h * np.eye(4)[j]
        assert (f(w + e) - f(w - e)) / (2 * h) == pytest.approx(gradient[j], rel=1e-8, abs=1e-10)
    # the partial derivatives of F at a point where nothing is optimal
    a, b, alpha = 0.3, -0.4, 0.7
    for x, label in zip(X[:6], y[:6], strict=True):
        c, da, db, dalpha = saddle_gradient(float(w @ x), label, p, a, b, alpha)
        for j in range(4):
            e = h * np.eye(4)[j]
            numeric = (F(w + e, a, b, alpha, x, label) - F(w - e, a, b, alpha, x, label)) / (2 * h)
            assert numeric == pytest.approx(c * x[j], rel=1e-7, abs=1e-9)
        values = [
            (F(w, a + u * h, b + v * h, alpha + t * h, x, label) - F(w, a - u * h, b - v * h, alpha - t * h, x, label))
            for u, v, t in np.eye(3)
        ]
        np.testing.assert_allclose(np.array(values) / (2 * h), [da, db, dalpha], rtol=1e-7, atol=1e-9)


# ---------------------------------------------------------------- projections


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_projection_onto_a_ball(norm: str) -> None:
    rng = np.random.default_rng(0)
    project = balls.project_l1 if norm == "l1" else balls.project_l2
    size = (lambda v: np.abs(v).sum()) if norm == "l1" else np.linalg.norm
    for _ in range(200):
        u, v = 2.0 * rng.normal(size=6), 2.0 * rng.normal(size=6)
        pu, pv = project(u, 1.3), project(v, 1.3)
        assert size(pu) <= 1.3 * (1 + 1e-12)
        np.testing.assert_allclose(project(pu, 1.3), pu, atol=1e-14)
        assert np.linalg.norm(pu - pv) <= np.linalg.norm(u - v) * (1 + 1e-12)
        feasible = rng.normal(size=6)
        feasible *= rng.random() * 1.3 / size(feasible)
        assert (u - pu) @ (feasible - pu) <= 1e-12
    inside = np.array([0.1, -0.2])
    assert project(inside, 1.3) is inside


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_projection_onto_the_intersection_is_dykstras(norm: str) -> None:
    rng = np.random.default_rng(1)
    radius, box, active = 1.0, 0.8, 0
    for _ in range(40):
        w1, a1, b1 = balls.project_omega1(rng.normal(size=4), rng.normal(), rng.normal(), norm, radius, box)
        v = (2.0 * rng.normal(size=4), 2.0 * rng.normal(), 2.0 * rng.normal())
        r = rng.uniform(0.1, 1.5)
        w, a, b = balls.project_omega1_ball(v, (w1, a1, b1), r, norm, radius, box)
        active += balls.distance(balls.project_omega1(v[0], v[1], v[2], norm, radius, box), (w1, a1, b1)) > r
        centre = np.r_[w1, a1, b1]

        def omega1(u: np.ndarray) -> np.ndarray:
            x = balls.project_omega1(u[:4], u[4], u[5], norm, radius, box)
            return np.r_[x[0], x[1], x[2]]

        def around(u: np.ndarray, centre: np.ndarray = centre, r: float = r) -> np.ndarray:
            return centre + balls.project_l2(u - centre, r)

        nearest = balls.dykstra(np.r_[v[0], v[1], v[2]], [omega1, around])
        np.testing.assert_allclose(np.r_[w, a, b], nearest, atol=1e-8)
    assert active > 10


def test_projection_in_raw_units_is_the_scaled_one() -> None:
    rng = np.random.default_rng(2)
    for _ in range(50):
        unit, r = rng.lognormal(), rng.uniform(0.1, 1.5)
        w1, a1, b1 = balls.project_omega1(rng.normal(size=4), rng.normal(), rng.normal(), "l1", 1.0, 0.8)
        w, a, b = 2.0 * rng.normal(size=4), 2.0 * rng.normal(), 2.0 * rng.normal()
        scaled = balls.project_omega1_ball((w, a, b), (w1, a1, b1), r, "l1", 1.0, 0.8)
        raw = balls.project_omega1_ball((w / unit, a, b), (w1 / unit, a1, b1), r, "l1", 1.0 / unit, 0.8, unit)
        np.testing.assert_allclose(raw[0] * unit, scaled[0], atol=1e-10)
        assert raw[1:] == pytest.approx(scaled[1:], abs=1e-10)


# ---------------------------------------------------------------- feasibility of the saddle learners


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("kappa", [None, 2.0])
def test_solam_stays_feasible(norm: str, kappa: float | None) -> None:
    g = gaussian_stream(1500, seed=2, largest=2.0)
    R, active = 0.4, 0
    learner = SOLAM(norm=norm, R=R, cap=0.5, kappa=kappa)
    size = (lambda v: np.abs(v).sum()) if norm == "l1" else np.linalg.norm
    for x, y in zip(g.X, g.y, strict=True):
        learner.learn(x, y)
        radius, box = R / learner.kappa_t, R * learner.scale.bound
        assert size(learner.w) <= radius * (1 + 1e-12)
        assert abs(learner.a) <= box and abs(learner.b) <= box and abs(learner.alpha) <= 2 * box
        active += int(size(learner.w) > radius * (1 - 1e-9))
        if kappa is not None:
            assert size(learner.wbar) <= R * (1 + 1e-12)
    assert active > 100


@pytest.mark.parametrize("n", [None, 3000])
@pytest.mark.parametrize("kappa", [None, 1.0])
def test_fsauc_stays_feasible(n: int | None, kappa: float | None) -> None:
    g = gaussian_stream(800, seed=3, largest=1.0)
    R, active = 0.5, 0
    learner = FSAUC(R=R, n=n, n1=50, kappa=kappa)
    learner.r, learner.D = 0.3, 0.2
    for x, y in zip(g.X, g.y, strict=True):
        learner.learn(x, y)
        unit, box = learner.kappa_t, R * learner.scale.bound
        assert np.abs(learner.w).sum() <= R / unit * (1 + 1e-12)
        assert abs(learner.a) <= box and abs(learner.b) <= box and abs(learner.alpha) <= 2 * box
        distance = balls.distance((learner.w, learner.a, learner.b), (learner.w1, learner.a1, learner.b1), unit)
        assert distance <= learner.r * (1 + 1e-12)
        assert abs(learner.alpha - learner.alpha1) <= learner.D
        active += distance > learner.r * (1 - 1e-9)
        if kappa is not None:
            assert np.abs(learner.wbar).sum() <= R * (1 + 1e-12)
    assert active > 20


def test_fsauc_stages_of_a_known_length() -> None:
    g = gaussian_stream(5000, seed=4)
    learner = FSAUC(n=5000, kappa=1.0)
    m = math.floor(0.5 * math.log2(2 * 5000 / math.log2(5000))) - 1
    assert (learner.m, learner.length) == (m, 5000 // m) == (3, 1666)
    iterates: list[np.ndarray] = []
    etas = []
    for i, (x, y) in enumerate(zip(g.X, g.y, strict=True)):
        if learner.position == 0:
            iterates = []
            etas.append((i, learner.eta, learner.r))
        iterates.append(learner.w if learner.w.size else np.zeros(5))
        learner.learn(x, y)
        if learner.position == 0:
            np.testing.assert_allclose(learner.w1, np.mean(iterates, axis=0), rtol=1e-12, atol=1e-15)
            np.testing.assert_array_equal(learner.wbar, learner.w1)
            plug_in = (learner.A_neg / learner.T_neg - learner.A_pos / learner.T_pos) @ learner.w1
            assert learner.alpha == learner.alpha1 == pytest.approx(plug_in)
    R0 = 2 * math.sqrt(3) * 100
    assert etas == [(k * 1666, 0.25 * 0.5**k, pytest.approx(R0 * 0.5**k)) for k in range(3)]
    np.testing.assert_allclose(learner.wbar, np.mean(iterates, axis=0), rtol=1e-12)


def test_fsauc_anytime_output_is_continuous() -> None:
    g = gaussian_stream(1200, seed=6)
    learner = FSAUC(n1=64)
    before, starts = np.zeros(5), []
    for i, (x, y) in enumerate(zip(g.X, g.y, strict=True)):
        learner.learn(x, y)
        if learner.position == 0:
            starts.append(i + 1)
            last = learner.wbar
            np.testing.assert_array_equal(last, learner.w1)
        elif i > 200:
            assert np.linalg.norm(learner.wbar - before) < 0.05 * (1 + np.linalg.norm(before))
        before = learner.wbar
    assert starts == [64, 192, 448, 960]
    assert learner.eta == pytest.approx(0.25 * 2.0 ** (-0.25 * 4))


def test_fsauc_eta_rules() -> None:
    g = gaussian_stream(4000, p=0.45, seed=7)
    kinds = {rule: FSAUC(n=400000, eta_rule=rule, kappa=1.0) for rule in ("halve", "lemma1", "lemma1_min")}
    for learner in kinds.values():
        learner.length = 2000
        run(learner, g.X[:2000], g.y[:2000])
    p = float((g.y[:2000] > 0).mean())
    log = math.log(120.0)
    lam = 2 + math.sqrt(2 * log)
    beta = 9 + 288 * lam**2 / (min(p, 1 - p) - math.sqrt(2 * log / 2000))
    assert kinds["lemma1"].beta == pytest.approx(beta)
    assert kinds["lemma1"].eta == pytest.approx(0.125 * math.sqrt(beta / 9))
    assert (kinds["halve"].eta, kinds["lemma1_min"].eta) == (0.125, 0.25)
    r = math.sqrt(3) * 100
    slack = 4 * math.sqrt(2) * lam * 300 / math.sqrt(min(p, 1 - p) * 2000 - math.sqrt(4000 * log))
    assert pytest.approx(2 * math.sqrt(2) * r + slack) == kinds["halve"].D


# ---------------------------------------------------------------- invariances


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (*UNIVARIATE, "ftrl")])
@pytest.mark.parametrize("label", [1.0, -1.0])
def test_one_class_only(name: str, label: float, small: tuple[np.ndarray, np.ndarray]) -> None:
    learner = EVERY[name]()
    scores = run(learner, small[0][:60], np.full(60, label))
    assert not scores.any() and not learner.w.any()
    if hasattr(learner, "t") and name not in SADDLE:
        assert learner.t == 0


@pytest.mark.parametrize("name", EVERY)
def test_weight_zero_changes_nothing(name: str, small: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = small
    om = np.ones(300)
    om[::3] = 0.0
    all_rows, kept = EVERY[name](), EVERY[name]()
    scores = run(all_rows, X, y, om)
    np.testing.assert_array_equal(scores[om > 0], run(kept, X[om > 0], y[om > 0]))
    np.testing.assert_array_equal(all_rows.w, kept.w)


def test_weights_multiply_the_step_and_the_counts(small: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = small
    twice = np.full(300, 2.0)
    pairs = [
        (SOLAM(zeta=5.0, cap=0.05), SOLAM(cap=0.1)),
        (FSAUC(eta1=0.125, n1=32), FSAUC(n1=32)),
        (OAM(C=0.01, kappa=1.0), OAM(C=0.02, kappa=1.0)),
        (PSAM(lam=0.02, t0=50, rskip=10**6), PSAM(lam=0.01, t0=50, rskip=10**6)),
    ]
    for weighted, plain in pairs:
        np.testing.assert_allclose(run(weighted, X, y, twice), run(plain, X, y), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "mba-l1"])
def test_features_permuted_rotated_padded_and_rescaled(name: str, small: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = small
    base = EVERY[name]()
    scores = run(base, X, y)
    order = np.array([2, 0, 3, 1])
    permuted = EVERY[name]()
    np.testing.assert_allclose(run(permuted, X[:, order], y), scores, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(output(permuted), output(base)[order], rtol=1e-9, atol=1e-10)
    padded = EVERY[name]()
    np.testing.assert_allclose(run(padded, np.c_[X, np.zeros(300)], y), scores, rtol=1e-9, atol=1e-10)
    assert output(padded)[-1] == 0.0
    if name != "ftrl":
        np.testing.assert_array_equal(run(EVERY[name](), 2.0 * X, y), scores)
        np.testing.assert_allclose(run(EVERY[name](), 3.7 * X, y), scores, rtol=1e-8, atol=1e-9)
    if name in ROTATES:
        Q = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
        rotated = EVERY[name]()
        np.testing.assert_allclose(run(rotated, X @ Q.T, y), scores, rtol=1e-8, atol=1e-9)
        np.testing.assert_allclose(output(rotated), Q @ output(base), rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("name", [name for name in EVERY if name != "psam-replay"])
def test_swapping_labels_negates_the_weights(name: str, small: tuple[np.ndarray, np.ndarray]) -> None:
    """Replayed pairs are drawn positive first, so that only they break the symmetry."""
    X, y = small
    one, other = EVERY[name](), EVERY[name]()
    np.testing.assert_allclose(run(one, X, y), -run(other, X, -y), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(one.w, -other.w, rtol=1e-11, atol=1e-12)
    if name in SADDLE:
        assert (one.a, one.b, one.alpha) == pytest.approx((-other.b, -other.a, other.alpha), rel=1e-11)


@pytest.mark.parametrize("name", [name for name in EVERY if name not in (*UNIVARIATE, "ftrl")])
def test_zero_rows_move_no_weight(name: str, small: tuple[np.ndarray, np.ndarray]) -> None:
    learner = EVERY[name]()
    for label in (1.0, -1.0, 1.0):
        assert learner.learn(np.zeros(4), label) == 0.0
    assert not learner.w.any()
    scores = run(learner, *small)
    assert np.isfinite(scores).all()
    if name in SADDLE and name != "regsolam":
        w, unit = learner.w.copy(), learner.kappa_t
        learner.learn(np.zeros(4), 1.0)
        np.testing.assert_array_equal(learner.w, w)
        assert learner.kappa_t == unit


@pytest.mark.parametrize("name", ALL)
def test_one_huge_first_row_does_not_freeze_learning(name: str) -> None:
    g = gaussian_stream(400, d=4, p=0.4, seed=8)
    X = g.X.copy()
    X[0] *= 1e150 / np.linalg.norm(X[0])
    learner = ALL[name]()
    run(learner, X, g.y)
    assert g.auc(output(learner)) > g.auc(g.minimiser()) - 0.05


# ---------------------------------------------------------------- pairwise learners


def test_hinge_prox() -> None:
    rng = np.random.default_rng(0)
    kinds = [0, 0, 0]
    for _ in range(300):
        w, z = rng.normal(size=4), rng.normal(size=4)
        eta = rng.lognormal(-1.0, 1.0)
        v = w - eta * hinge_prox_gradient(float(w @ z), eta, float(z @ z)) * z
        theta = float((w - v) @ z / (z @ z)) / eta
        np.testing.assert_allclose((w - v) / eta, theta * z, atol=1e-12)
        margin = float(v @ z)
        if margin < 1.0 - 1e-12:
            assert theta == pytest.approx(-1.0, abs=1e-12)
            kinds[0] += 1
        elif margin > 1.0 + 1e-12:
            assert theta == pytest.approx(0.0, abs=1e-12) and w @ z > 1.0
            kinds[1] += 1
        else:
            assert -1.0 - 1e-12 <= theta <= 1e-12
            np.testing.assert_allclose(v, w + (1.0 - w @ z) / (z @ z) * z, atol=1e-12)
            kinds[2] += 1
        u = rng.normal(size=4)
        pu = u - eta * hinge_prox_gradient(float(u @ z), eta, float(z @ z)) * z
        assert np.linalg.norm(v - pu) <= np.linalg.norm(w - u) * (1 + 1e-12)

        def objective(x: np.ndarray, z: np.ndarray = z, w: np.ndarray = w, eta: float = eta) -> float:
            return eta * max(0.0, 1.0 - float(x @ z)) + 0.5 * float((x - w) @ (x - w))

        assert all(objective(v) <= objective(v + 1e-3 * rng.normal(size=4)) for _ in range(5))
    assert min(kinds) > 20
    assert hinge_prox_gradient(0.0, 1.0, 0.0) == 0.0


@pytest.mark.parametrize("kappa", [1.0, None])
def test_replay_over_all_rows_is_the_papers_algorithm(
    kappa: float | None, small: tuple[np.ndarray, np.ndarray]
) -> None:
    X, y = small
    options: dict[str, Any] = {"lam": 1e-2, "t0": 3.0, "rskip": 7, "askip": 3, "kappa": kappa, "seed": 11}
    stream = PSAM(fresh=0, replay=0, capacity=300, **options)
    run(stream, X, y)
    assert stream.t == 0
    stream.replay_pairs(500)
    w, wbar = psam_batch(X, y, 500, **options)
    np.testing.assert_array_equal(stream.w, w)
    np.testing.assert_array_equal(stream.output, wbar)
    w, wbar = psam_batch(X, y, 2, **options)
    np.testing.assert_array_equal(w, wbar)


def test_oam_steps() -> None:
    """Uncapped seq lands on margin 1 for the last pair; gra is C/2 times the sum of active pairs."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(6, 3))
    seq, gra = (OAM(update=update, C=1e9 if update == "seq" else 0.1, kappa=1.0) for update in ("seq", "gra"))
    for learner in (seq, gra):
        run(learner, X[:5], np.full(5, -1.0))
        learner.learn(X[5], 1.0)
        assert learner.t == 1
    z = X[5] - X[:5]
    assert seq.w @ z[-1] >= 1.0 - 1e-12
    np.testing.assert_allclose(gra.w, 0.05 * z.sum(axis=0), rtol=1e-12)
    counting = OAM(C=0.1, capacity=2, weighting="count", update="gra", kappa=1.0, policy="fifo")
    run(counting, X[:5], np.full(5, -1.0))
    counting.learn(X[5], 1.0)
    np.testing.assert_allclose(counting.w, 0.05 * 2.5 * (z[3] + z[4]), rtol=1e-12)


def test_oam_average_and_duplicates() -> None:
    X = np.random.default_rng(4).normal(size=(40, 3))
    y = np.where(np.arange(40) % 3 == 0, 1.0, -1.0)
    last, mean = OAM(average=False), OAM()
    iterates = []
    for x, label in zip(X, y, strict=True):
        last.learn(x, label)
        mean.learn(x, label)
        if last.t > 0:
            iterates.append(last.w)
    np.testing.assert_allclose(mean.output, np.mean(iterates, axis=0), rtol=1e-12)
    same = OAM()
    same.learn(X[0], 1.0)
    same.learn(X[0], -1.0)
    assert not same.w.any() and same.t == 1


# ---------------------------------------------------------------- proximal and primal-dual learners


def test_elastic_net_prox() -> None:
    rng = np.random.default_rng(0)
    zeros = 0
    for _ in range(100):
        u, (eta, beta, beta1) = rng.normal(size=5), rng.random(3)
        w = prox(u, eta, beta, beta1)
        subgradient = -(w - u + eta * beta * w)
        np.testing.assert_allclose(subgradient[w != 0], eta * beta1 * np.sign(w[w != 0]), atol=1e-14)
        assert (np.abs(subgradient[w == 0]) <= eta * beta1).all()
        zeros += int((w == 0).sum())
    assert zeros > 20


def quadratic(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Return (S + mu mu', mu, p q) of a fixed set."""
    p = float((y > 0).mean())
    mu = X[y > 0].mean(axis=0) - X[y <= 0].mean(axis=0)
    S = np.cov(X[y > 0].T, bias=True) + np.cov(X[y <= 0].T, bias=True)
    return S + np.outer(mu, mu), mu, p * (1.0 - p)


def fista(H: np.ndarray, mu: np.ndarray, pq: float, beta: float, beta1: float) -> np.ndarray:
    """Return the minimiser of p q (w'Hw - 2 w'mu) + beta/2 |w|^2 + beta1 |w|_1."""
    step = 1.0 / (2.0 * pq * float(np.linalg.eigvalsh(H)[-1]))
    w = z = np.zeros(mu.size)
    k = 1.0
    for _ in range(4000):
        new = prox(z - step * 2.0 * pq * (H @ z - mu), step, beta, beta1)
        k_new = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * k * k))
        z, w, k = new + (k - 1.0) / k_new * (new - w), new, k_new
    return w


def test_vrspam_and_spdam_converge_to_the_closed_form() -> None:
    g = gaussian_stream(400, d=6, p=0.3, seed=1)
    H, mu, pq = quadratic(g.X, g.y)
    best = np.linalg.solve(H + 0.05 / (2 * pq) * np.eye(6), mu)
    errors = [np.linalg.norm(vrspam_batch(g.X, g.y, epochs, beta=0.05, kappa=1.0) - best) for epochs in (2, 4, 16)]
    assert errors[2] < 1e-6 and errors[0] > errors[1] > errors[2]
    scaled = vrspam_batch(4.0 * g.X, g.y, 16, beta=0.05 / 16.0 * 0.1, eta=0.25)
    assert np.isfinite(scaled).all()
    best = np.linalg.solve(H + 0.05 * np.eye(6), mu)
    for batch in (1, 16, 400):
        passes = 400 if batch == 400 else 40
        problem = spdam_batch(g.X, g.y, passes, lam=0.05, batch=batch, kappa=1.0)
        assert problem is not None
        np.testing.assert_allclose(problem.w, best, atol=1e-6)
        np.testing.assert_allclose(problem.be, problem.xbar @ best, atol=1e-4)
        np.testing.assert_allclose(problem.u, problem.xbar.T @ problem.be / 400, atol=1e-12)
        m, s, k2 = problem.m, problem.sigma, problem.kbar**2
        assert 4 * m * k2 * s * s - 2 * (400 - m) * 0.05 * s == pytest.approx(400 * 0.05, rel=1e-12)
        assert 1.0 / (2 * problem.tau) == pytest.approx(problem.theta * (0.05 + 1.0 / (2 * problem.tau)))
        assert (1 + 1 / (2 * s)) * (1 - problem.theta) / m == pytest.approx(1 / 400)
    assert spdam_batch(g.X, np.ones(400)) is None
    assert not vrspam_batch(g.X, np.ones(400)).any()


def test_elastic_net_against_fista() -> None:
    g = gaussian_stream(400, d=6, p=0.3, seed=2)
    H, mu, pq = quadratic(g.X, g.y)
    best = fista(H, mu, pq, 0.02, 0.01)
    assert 0 < int((best == 0).sum()) < 6
    w = vrspam_batch(g.X, g.y, 30, penalty="elasticnet", beta=0.02, beta1=0.01, eta=0.5, kappa=1.0)
    np.testing.assert_allclose(w, best, atol=1e-6)
    np.testing.assert_array_equal(w == 0, best == 0)


def test_spam_slope_is_unbiased_and_batch_reaches_the_closed_form() -> None:
    g = gaussian_stream(400, d=5, p=0.3, seed=3)
    H, mu, pq = quadratic(g.X, g.y)
    w = np.random.default_rng(0).normal(size=5)
    means = (float((g.y > 0).mean()), g.X[g.y > 0].mean(axis=0), g.X[g.y <= 0].mean(axis=0))
    G = [spam_slope(w, x, label, *means) * x for x, label in zip(g.X, g.y, strict=True)]
    np.testing.assert_allclose(np.mean(G, axis=0), 2 * pq * (H @ w - mu), atol=1e-13)
    best = np.linalg.solve(H + 0.01 / (2 * pq) * np.eye(5), mu)
    _, wbar = spam_batch(g.X, g.y, 40, beta=0.01, C=10.0, cap=0.5, kappa=1.0)
    assert cosine(wbar, best) > 0.999


def test_primal_dual_value_with_weights() -> None:
    g = gaussian_stream(60, d=3, p=0.4, seed=4)
    om = np.random.default_rng(0).lognormal(size=60)
    w = np.random.default_rng(1).normal(size=3)
    problem = PrimalDual(g.X, g.y, om, 0.1, 8)
    pos, neg = g.y > 0, g.y <= 0
    losses = (1.0 - (g.X[pos] @ w)[:, None] + g.X[neg] @ w) ** 2
    loss = float(om[pos] @ losses @ om[neg] / om[pos].sum() / om[neg].sum())
    assert problem.value(w) == pytest.approx(0.5 * (loss - 1.0) + 0.05 * w @ w, rel=1e-12)
    rng = Generator(0)
    for _ in range(20):
        rows = problem.subset(rng)
        assert len(set(rows)) == 8
        problem.iterate(rows)
    np.testing.assert_allclose(problem.u, problem.xbar.T @ problem.be / 60, atol=1e-12)


def test_streaming_spdam_solves_and_averages() -> None:
    g = gaussian_stream(900, d=4, p=0.3, seed=5)
    learner = SPDAM(n_buffer=100)
    previous, weighted, total = learner.w, np.zeros(4), 0
    at = 0
    for i, (x, y) in enumerate(zip(g.X, g.y, strict=True)):
        solves = learner.solves
        learner.learn(x, y)
        if learner.solves > solves:
            weighted, total, at = weighted + (i + 1 - at) * learner.w, total + i + 1 - at, i + 1
            previous = learner.w
        else:
            assert learner.w is previous or learner.solves == 0
    np.testing.assert_allclose(learner.wbar, weighted / total, rtol=1e-10)
    assert learner.solves > 30


def test_streaming_spdam_never_freezes() -> None:
    """Every solve ends below the window's P(0) = 0 and P(w_before), and most move w."""
    g = gaussian_stream(3000, d=5, p=0.3, seed=11)
    X = g.X / np.linalg.norm(g.X, axis=1)[:, None]
    learner = SPDAM(n_buffer=300)
    moved = 0
    for x, y in zip(X, g.y, strict=True):
        before, solves = learner.w, learner.solves
        learner.learn(x, y)
        if learner.solves > solves:
            window = PrimalDual(np.array(learner.rows), np.array(learner.labels), np.ones(len(learner.rows)), 3e-3, 16)
            assert window.value(learner.w) <= min(window.value(before), 0.0) + 1e-12
            moved += int(cosine(before, learner.w) < 1.0 - 1e-6) if before.any() else 1
    assert moved > 0.5 * learner.solves


# ---------------------------------------------------------------- moments and second-order learners


def test_class_moments() -> None:
    rng = np.random.default_rng(0)
    X, om = rng.normal(size=(50, 3)) + 2.0, rng.lognormal(size=50)
    fit = ClassMoments(3)
    parts = [ClassMoments(3) for _ in range(3)]
    for i in range(50):
        fit.add(X[i], om[i])
        parts[i % 3].add(X[i], om[i])
    np.testing.assert_allclose(fit.m, np.average(X, axis=0, weights=om), rtol=1e-13)
    np.testing.assert_allclose(fit.S, np.cov(X.T, aweights=om, bias=True), rtol=1e-12, atol=1e-14)
    merged = ClassMoments(3)
    for part in parts:
        merged.merge(part)
    merged.merge(ClassMoments(3))
    np.testing.assert_allclose(merged.M, fit.M, rtol=1e-11)
    fading, aged, rho = ClassMoments(3), ClassMoments(3), 0.9
    for i in range(50):
        fading.decay(rho)
        fading.add(X[i])
        aged.add(X[i], rho ** (49 - i))
    np.testing.assert_allclose(fading.M, aged.M, rtol=1e-12, atol=1e-13)
    assert fading.n == pytest.approx(aged.n)


def test_opauc_gradient_is_that_of_the_mean_over_pairs() -> None:
    rng = np.random.default_rng(1)
    others, x, w = rng.normal(size=(30, 4)), rng.normal(size=4), rng.normal(size=4)
    opposite = ClassMoments(4)
    for row in others:
        opposite.add(row)
    for sign in (1.0, -1.0):
        gradient = pair_gradient(w, x, sign, opposite)

        def value(v: np.ndarray, sign: float = sign) -> float:
            return 0.5 * float(((1.0 - sign * (v @ x - others @ v)) ** 2).mean())

        numeric = [(value(w + 1e-5 * e) - value(w - 1e-5 * e)) / 2e-5 for e in np.eye(4)]
        np.testing.assert_allclose(gradient, numeric, rtol=1e-7, atol=1e-8)


def test_sketched_covariance_is_unbiased() -> None:
    rng, draws = np.random.default_rng(2), Generator(5)
    X = rng.normal(size=(40, 3)) @ np.diag([1.0, 2.0, 0.5]) + 3.0
    om = rng.lognormal(size=40)
    estimates = []
    for _ in range(300):
        sketch = SketchedMoments(3, 8)
        for x, c in zip(X, om, strict=True):
            sketch.add(x, c, np.array([draws.normal() for _ in range(8)]) / math.sqrt(8.0))
        estimates.append(np.array([sketch.times(e) for e in np.eye(3)]))
        assert np.linalg.eigvalsh(estimates[-1]).min() > -1e-10
    error = np.std(estimates, axis=0) / math.sqrt(300)
    truth = np.cov(X.T, aweights=om, bias=True)
    assert (np.abs(np.mean(estimates, axis=0) - truth) < 4.0 * error).all()


def test_adaptive_projection() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        u, h = 3.0 * rng.normal(size=5), rng.lognormal(size=5)
        w = project_weighted(u, h, 0.7)
        assert np.linalg.norm(w) == pytest.approx(0.7, rel=1e-10)
        multipliers = h * (u - w) / w
        np.testing.assert_allclose(multipliers, multipliers[0], rtol=1e-9)
    assert project_weighted(u, h, 1e3) is u


@pytest.mark.parametrize("covariance", ["diag", "full"])
def test_cbr_steps(covariance: str) -> None:
    """An uncapped step makes the constraint tight (full covariance); S stays positive."""
    rng = np.random.default_rng(4)
    learner = CBR(covariance=covariance, C=math.inf, kappa=1.0)
    learner.w, learner.S = rng.normal(size=4), np.ones(4) if covariance == "diag" else np.eye(4)
    tight = 0
    for _ in range(100):
        z = rng.normal(size=4)
        before = learner.w
        learner._step(z, 1.0, math.inf)
        if covariance == "full":
            assert np.linalg.eigvalsh(learner.S).min() > 0.0
            if learner.w is not before:
                assert learner.w @ z == pytest.approx(learner.phi * math.sqrt(z @ learner.S @ z), rel=1e-9)
                tight += 1
        else:
            assert (learner.S > 0.0).all()
            tight += learner.w is not before
    assert tight > 20


def test_asam_pair_step() -> None:
    X = np.array([[1.0, 0.0], [0.0, 0.5]])
    for loss, g in (("hinge", 1.0), ("squared_hinge", 0.8)):
        learner = ASAM(lam=0.1, t0=9.0, loss=loss, fresh=1, kappa=1.0)
        run(learner, X, np.array([1.0, -1.0]))
        np.testing.assert_allclose(learner.w, g * (X[0] - X[1]), rtol=1e-12)
        learner.learn(X[0], 1.0)
        expected = 0.0 if loss == "hinge" else min(0.0, learner.wbar @ (X[0] - X[1]) - 1.0)
        assert expected == 0.0 and learner.t == 2


# ---------------------------------------------------------------- MBA, blocks, univariate learners


def test_moments_of_all_pairs() -> None:
    g = gaussian_stream(60, d=3, p=0.4, seed=6)
    pos, neg = ClassMoments(3), ClassMoments(3)
    for x, y in zip(g.X, g.y, strict=True):
        (pos if y > 0 else neg).add(x)
    mu, V = pair_moments(pos, neg)
    Z = np.array([u - v for u in g.X[g.y > 0] for v in g.X[g.y <= 0]])
    np.testing.assert_allclose(mu, Z.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(V + np.outer(mu, mu), Z.T @ Z / len(Z), rtol=1e-11, atol=1e-14)


def test_frequent_directions() -> None:
    rng = np.random.default_rng(4)
    X, om = rng.normal(size=(200, 10)) @ np.diag(0.7 ** np.arange(10)) + 1.0, rng.lognormal(size=200)
    exact = ClassMoments(10)
    sketches = {ell: SketchedScatter(10, ell) for ell in (3, 6, 10)}
    for x, c in zip(X, om, strict=True):
        exact.add(x, c)
        for ell, sketch in sketches.items():
            sketch.add(x, c)
            assert len(sketch.table) < 2 * ell
    for ell, sketch in sketches.items():
        gap = np.linalg.eigvalsh(exact.M - sketch.M)
        assert sketch.trace == pytest.approx(np.trace(exact.M), rel=1e-12)
        assert gap.min() >= -1e-10 and gap.max() <= sketch.trace / ell
    np.testing.assert_allclose(sketches[10].M, exact.M, atol=1e-10)
    assert np.linalg.eigvalsh(exact.M - sketches[3].M).max() > 1.0
    g = gaussian_stream(300, d=4, p=0.3, seed=2)
    full, sketched = MBA(), MBA(moments="sketch", sketch_size=4)
    np.testing.assert_allclose(run(full, g.X, g.y), run(sketched, g.X, g.y), rtol=1e-8, atol=1e-10)


def test_mba_solvers() -> None:
    rng = np.random.default_rng(7)
    A = rng.normal(size=(8, 8))
    V, mu = A @ A.T / 8.0, rng.normal(size=8)
    Sigma = V + np.outer(mu, mu)
    ridge = solve_l2(mu, Sigma, 0.1)
    np.testing.assert_allclose((Sigma + 0.1 * np.eye(8)) @ ridge, mu, atol=1e-12)
    assert cosine(ridge, np.linalg.solve(V + 0.1 * np.eye(8), mu)) == pytest.approx(1.0, abs=1e-13)
    zero = np.zeros(8)
    np.testing.assert_allclose(solve_elastic_net(mu, Sigma, 0.0, 0.1, zero, 1e-12, 20000), ridge, atol=1e-9)
    counts = []
    for lam1 in (0.01, 0.1, 0.5):
        w = solve_elastic_net(mu, Sigma, lam1, 0.1, zero, 1e-11, 20000)
        assert kkt_residual(w, mu - Sigma @ w, lam1, 0.1) < 1e-9
        counts.append(int((w != 0).sum()))
    assert counts[0] >= counts[1] >= counts[2] < 8
    assert not solve_elastic_net(mu, Sigma, float(np.abs(mu).max()), 0.1, zero).any()
    v = rng.random(8)
    v[3] = 0.0
    for lam1, lam2 in ((0.0, 0.0), (0.1, 0.2)):
        w = solve_diagonal(mu, v, lam1, lam2)
        keep = v + lam2 > 0
        residual = kkt_residual(w[keep], (mu - v * w - mu * float(mu @ w))[keep], lam1, lam2)
        assert residual < 1e-13 and (w[~keep] == 0.0).all()
    np.testing.assert_allclose(solve_l2(np.array([1.0, 0.0]), np.diag([2.0, 0.0]), 0.0), [0.5, 0.0], atol=1e-12)


@pytest.mark.parametrize("clock", ["class", "global"])
def test_mba_solves_the_weighted_problem(clock: str) -> None:
    g = gaussian_stream(70, d=3, p=0.4, seed=8)
    om = np.random.default_rng(0).lognormal(size=70)
    learner = MBA(half_life=20.0, clock=clock)
    run(learner, g.X, g.y, om)
    learner.solve()
    rho, age = 2.0 ** (-1.0 / 20.0), 69.0 - np.arange(70)
    if clock == "class":
        age = np.array([(g.y[i + 1 :] == g.y[i]).sum() for i in range(70)])
    c = om * rho**age
    u, v = c * (g.y > 0), c * (g.y <= 0)
    pairs = np.outer(u, v) / (u.sum() * v.sum())
    Z = g.X[:, None, :] - g.X[None, :, :]
    mu = np.einsum("ij,ijk->k", pairs, Z)
    Sigma = np.einsum("ij,ijk,ijl->kl", pairs, Z, Z)
    lam2 = 0.3 * np.trace(Sigma) * (1.0 / u.sum() + 1.0 / v.sum())
    np.testing.assert_allclose(learner.w, np.linalg.solve(Sigma + lam2 * np.eye(3), mu), rtol=1e-9)


def test_mba_schedule_and_sampled_pairs() -> None:
    g = gaussian_stream(2000, d=5, p=0.3, seed=9)
    learner = MBA()
    solved = []
    for i, (x, y) in enumerate(zip(g.X, g.y, strict=True)):
        w = learner.w
        learner.learn(x, y)
        if learner.w is not w and i > 0:
            solved.append(i + 1)
    steps = np.diff(solved)
    assert steps.min() >= 1 and steps[-1] == 20 and {16, 32} <= set(solved)
    late = [events for events in solved if events > 64]
    assert all(b - a >= max(1.25, a / 100.0) for a, b in pairwise(late))
    w, _, _ = mba_sampled(g.X, g.y, 20, 200, 1e-3)
    assert cosine(w, g.minimiser(1e-3)) > 0.95


@pytest.mark.parametrize("loss", ["hinge", "squared"])
def test_minibatch_step_is_the_gradient_over_all_pairs(loss: str) -> None:
    g = gaussian_stream(12, d=3, p=0.4, seed=1)
    om = np.random.default_rng(0).lognormal(size=12)
    learner = MiniBatchAUC(loss=loss, eta0=0.7, lam=0.1, batch=12, average=False, kappa=2.0)
    learner.w = learner.wbar = w = np.array([0.4, -1.0, 2.0])

    def value(v: np.ndarray) -> float:
        pos, neg = g.y > 0, g.y <= 0
        gap = 1.0 - ((g.X[pos] @ v)[:, None] - g.X[neg] @ v)
        losses = np.maximum(gap, 0.0) if loss == "hinge" else 0.5 * gap**2
        share = np.outer(om[pos], om[neg])
        return float(om.mean() * (share * losses).sum() / share.sum() + 0.05 * v @ v)

    run(learner, g.X, g.y, om)
    gradient = np.array([(value(w + 1e-6 * e) - value(w - 1e-6 * e)) / 2e-6 for e in np.eye(3)])
    np.testing.assert_allclose(learner.w, w - 0.7 * gradient, atol=1e-7)


def test_minibatch_blocks_of_one_class() -> None:
    X = np.random.default_rng(2).normal(size=(9, 2))
    learner = MiniBatchAUC(batch=3, kappa=1.0, lam=0.0, average=False)
    run(learner, X[:3], np.full(3, -1.0))
    assert learner.t == 0 and not learner.w.any() and len(learner.neg) == 3
    rng = Generator(0)
    partners = X[[rng.below(3) for _ in range(3)]]
    run(learner, X[3:6], np.ones(3))
    np.testing.assert_allclose(learner.w, (X[3:6] - partners).mean(axis=0), rtol=1e-12)
    assert learner.t == 1 and len(learner.pos) == 3


def test_ftrl_without_penalties_is_adaptive_gradient_descent() -> None:
    g = gaussian_stream(200, d=4, p=0.3, seed=3)
    X = np.where(np.abs(g.X) < 0.05, 0.0, g.X)
    learner = FTRL(alpha=0.5, beta=0.3, l1=0.0)
    w, n, b, n_b = np.zeros(4), np.zeros(4), 0.0, 0.0
    om = 2.0 * np.random.default_rng(0).random(200)  # as they are up to 2
    for x, y, c in zip(X, g.y, om, strict=True):
        r = sigmoid(float(w @ x) + b) - float(y > 0)
        n, n_b = n + (r * x) ** 2, n_b + r * r
        w = w - c * 0.5 * r * x / (0.3 + np.sqrt(n))
        b -= c * 0.5 * r / (0.3 + math.sqrt(n_b))
        learner.learn(x, y, c)
        np.testing.assert_allclose(learner.w, w, rtol=1e-11, atol=1e-13)
        assert learner.b == pytest.approx(b, rel=1e-11)
    counts = []
    for l1 in (0.0, 1.0, 10.0):
        sparse = FTRL(l1=l1)
        run(sparse, g.X, g.y)
        assert (sparse.w[np.abs(sparse.z) <= l1] == 0.0).all()
        counts.append(int((sparse.w != 0).sum()))
    assert counts[0] == 4 >= counts[1] >= counts[2] < 4


def test_univariate_slopes_are_derivatives() -> None:
    assert sigmoid(-800.0) == 0.0 and sigmoid(800.0) == 1.0
    logistic, exp = OnlineLogistic(), UnivariateExp(clip=1.0)
    for y in (1.0, -1.0):
        for s in (-2.0, -0.3, 0.4, 3.0):
            numeric = (math.log1p(math.exp(-y * (s + 1e-6))) - math.log1p(math.exp(-y * (s - 1e-6)))) / 2e-6
            assert logistic._slope(s, y, 1.0) == pytest.approx(numeric, rel=1e-7)
    assert exp._slope(0.3, 1.0, 2.0) == pytest.approx(-math.exp(-0.3))
    assert exp._slope(-0.3, -1.0, 1.0) == pytest.approx(math.exp(-0.3))
    assert exp._slope(-5.0, 1.0, 1.0) == pytest.approx(-1.0 / 3.0 * math.exp(1.0))


# ---------------------------------------------------------------- closed forms


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("name", ["solam-l2", "solam-l1", "regsolam", "fsauc", "fsauc-n", "spam", "spam-net", "vrspam"])
def test_saddle_and_proximal_learners_reach_the_closed_form(name: str, scaled: bool) -> None:
    g = gaussian_stream(15000, seed=9)
    kappa = None if scaled else 1.0
    make: dict[str, Make] = {
        "solam-l2": lambda: SOLAM(norm="l2", R=100.0, zeta=30.0, cap=0.5, kappa=kappa),
        "solam-l1": lambda: SOLAM(norm="l1", R=100.0, zeta=30.0, cap=0.5, kappa=kappa),
        "regsolam": lambda: RegSOLAM(lam=1e-5, zeta=30.0, cap=0.5, kappa=kappa),
        "fsauc": lambda: FSAUC(eta1=0.5, kappa=kappa),
        "fsauc-n": lambda: FSAUC(eta1=0.5, n=15000, kappa=kappa),
        "spam": lambda: SPAM(beta=1e-5, C=30.0, cap=0.5, kappa=kappa),
        "spam-net": lambda: SPAM("elasticnet", beta=1e-5, C=30.0, cap=0.5, kappa=kappa),
        "vrspam": lambda: VRSPAM(beta=1e-5, eta=0.5, kappa=kappa),
    }
    learner = make[name]()
    run(learner, 5.0 * g.X if scaled else g.X, g.y)
    assert cosine(learner.wbar, g.minimiser()) > 0.98
    assert g.auc(learner.wbar) > g.auc(g.minimiser()) - 0.002


@pytest.mark.parametrize(
    "name", ["oam-seq", "oam-gra", "psam", "asam", "opauc", "adaoam", "cbr-full", "spdam", "mba", "minibatch"]
)
def test_pairwise_learners_reach_the_closed_form(name: str) -> None:
    """The expected hinge of a Gaussian w'z depends on w'mu and w'Sw only: its direction is S^-1 mu."""
    g = gaussian_stream(4000, p=0.3, seed=10)
    make: dict[str, Make] = {
        "oam-seq": lambda: OAM(update="seq", capacity=30, policy="fifo"),
        "oam-gra": lambda: OAM(update="gra", capacity=30, policy="fifo"),
        "psam": lambda: PSAM(),
        "asam": lambda: ASAM(),
        "opauc": lambda: OPAUC(average=True),
        "adaoam": lambda: AdaOAM(),
        "cbr-full": lambda: CBR(covariance="full", capacity=10),
        "spdam": lambda: SPDAM(lam=1e-3),
        "mba": lambda: MBA(),
        "minibatch": lambda: MiniBatchAUC(loss="squared", batch=10),
    }
    learner = make[name]()
    run(learner, g.X, g.y)
    assert g.auc(output(learner)) > g.auc(g.minimiser()) - (0.005 if name == "spdam" else 0.002)
    assert cosine(output(learner), g.minimiser()) > 0.98
