"""Auto against a plain transcription of its rule, and what only it promises."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
from scipy import sparse

import aucstream
from aucstream import Auto, Hashing, JointForest, Pipeline
from aucstream.block import Block, Form
from aucstream.errors import CannotMerge, InvalidParams
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.intake import array_block
from aucstream.kernels.auc import calibration
from aucstream.kernels.ledger import SIZE
from aucstream.metrics.exact import area
from aucstream.portfolio.portfolio import DEFAULT
from tests.aucstream.reference.auto import Auto as PlainAuto
from tests.aucstream.reference.auto import Calibration
from tests.aucstream.reference.buffers import Buffer
from tests.aucstream.reference.randomness import Generator


def stream(
    n: int, d: int = 6, positive: float = 0.3, seed: int = 0, noise: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y) of a logistic model whose columns have scales of their own."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    y = X[:, 0] - X[:, 1] + noise * random.logistic(size=n) > np.log(1.0 / positive - 1.0)
    return X * 10.0 ** random.integers(-2, 3, size=d), y


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Return the AUC of scores."""
    return area(np.where(y, 1.0, -1.0), scores).auc


def plain_scores(X, y, form: Form) -> np.ndarray:
    """Return what Auto serves before each row, by the plain rule over members that learn one row at a time."""
    encoder = Vocabulary()
    whole = array_block(encoder, X, np.where(y, 1.0, -1.0), np.ones(len(y)), learn=True)
    candidates = [c for c in DEFAULT if form in c.forms and c.takes(whole.width)]
    members = [c.stages(encoder, 0) for c in candidates]
    rule, draws = PlainAuto(len(members)), Generator(0)
    buffers = [Buffer(100, "reservoir", draws), Buffer(100, "reservoir", draws)]
    standing, checkpoint, scores = members, 20, []
    for i in range(len(y)):
        row = whole.rows(i, i + 1)
        now = np.array([member.score(row)[0] for member in members])
        scores.append(rule.learn(now, np.array([member.score(row)[0] for member in standing]), 1.0 if y[i] else -1.0))
        for member in members:
            member.learn(row)
        buffers[int(y[i])].offer(np.array([i]))
        if i + 1 == checkpoint:
            standing = copy.deepcopy(members)
            kept = [[int(k[0]) for k in buffer.rows] for buffer in buffers]
            checkpoint = min(i + 1 + 2048, max(i + 1 + 20, int(np.ceil((i + 1) * 1.1))))
            reservoir = tuple(
                np.array([member.score(named(whole, rows)) for member in members]).reshape(len(members), len(rows))
                for rows in kept
            )
            rule.checkpoint(reservoir, checkpoint - i - 1)
    return np.array(scores)


def named(whole: Block, rows: list[int]) -> Block:
    """Return some rows of a block as sparse rows."""
    part = whole.take(np.array(rows, dtype=np.int64))
    if part.indices is not None:
        return part
    indices = np.tile(np.arange(part.width, dtype=np.int64), len(rows))
    return Block(part.indptr, indices, part.values, part.y, part.weights, part.width, Form.NAMED)


@pytest.mark.parametrize("form", [Form.DENSE, Form.CSR])
def test_equals_the_plain_rule(form):
    X, y = stream(900, positive=0.2)
    if form is Form.CSR:
        X = sparse.csr_array(np.where(np.random.default_rng(1).random(X.shape) < 0.5, X, 0.0))
    scores = Auto().engine.learn_array(X, y)
    np.testing.assert_allclose(scores, plain_scores(X, y, form), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("served", [False, True])
@pytest.mark.parametrize("positive", [0.01, 0.5])
def test_a_calibration_equals_the_plain_one(positive, served):
    random = np.random.default_rng(0)
    line, plain = np.zeros(SIZE), Calibration(served=served)
    calibration.start_calibration(line)
    for _ in range(1500):
        y = 1.0 if random.random() < positive else -1.0
        score = random.normal() + 1.5 * (y > 0.0)
        calibration.observe(line, score, y, 1.0, float(served))
        plain.observe(score, y, 1.0)
        assert calibration.calibrated(line, score) == pytest.approx(plain.line(score), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("form", ["dense", "csr", "dicts"])
def test_any_split_and_a_save_at_any_row_give_the_same_bits(form):
    X, y = stream(1500)
    rows = sparse.csr_array(X) if form == "csr" else X
    if form == "dicts":
        rows = [dict(zip("abcdef", row, strict=True)) | {"word": f"w{i % 7}"} for i, row in enumerate(X.tolist())]

    def learn(model, a, b):
        if form == "dicts":
            return model.engine.learn_rows(rows[a:b], np.where(y[a:b], 1.0, -1.0))
        return model.engine.learn_array(rows[a:b], y[a:b])

    whole = Auto()
    expected = learn(whole, 0, 1500)
    cuts = [0, 1, 19, 20, 21, 50, 137, 138, 200, 201, 700, 701, 1100, 1500]
    parts, resumed = Auto(), Auto()
    split = np.concatenate([learn(parts, a, b) for a, b in itertools.pairwise(cuts)])
    saved = []
    for a, b in itertools.pairwise(cuts):
        saved.append(learn(resumed, a, b))
        resumed = aucstream.from_bytes(resumed.to_bytes())
    assert np.array_equal(split, expected)
    assert np.array_equal(np.concatenate(saved), expected)
    assert parts.to_bytes() == whole.to_bytes() == resumed.to_bytes()


@pytest.mark.parametrize("k", [0, 333, 1000])
def test_no_label_reaches_a_score_of_its_own_row_or_of_one_before(k):
    X, y = stream(1500)
    flipped = np.where(np.arange(1500) < k, y, ~y)
    expected, scores = Auto().engine.learn_array(X, y), Auto().engine.learn_array(X, flipped)
    assert np.array_equal(scores[: k + 1], expected[: k + 1])
    assert not np.array_equal(scores[k + 1 :], expected[k + 1 :])


def test_it_ranks_as_its_best_member_does():
    X, y = stream(4000, seed=3)
    scores = Auto().engine.learn_array(X, y)
    for candidate in DEFAULT:
        if Form.DENSE in candidate.forms:
            member = Pipeline.from_spec(
                {"algorithm": candidate.algorithm, "params": candidate.params, "scaler": candidate.scaler}
            )
            own = member.engine.learn_array(X, y)
            assert auc(y[300:], scores[300:]) > auc(y[300:], own[300:]) - 0.004, candidate.name


def test_labels_that_flip_give_an_alarm_wake_all_members_and_the_ranking_comes_back():
    X, y = stream(9000, seed=4, noise=0.3)
    y[5000:] = ~y[5000:]
    whole = Auto().partial_fit(X, y)
    assert whole.alarms == 1
    assert 5000 < whole.last_alarm < 5100
    model = Auto(cost=3.0)  # which has given one at row 1195
    scores = model.engine.learn_array(X[:5000], y[:5000])
    before = model.alarms
    scores = np.concatenate([scores, model.engine.learn_array(X[5000:], y[5000:])])
    assert model.alarms == before + 1
    assert 5000 < model.last_alarm < 5100
    assert auc(y[8000:], scores[8000:]) > auc(y[4000:5000], scores[4000:5000]) - 0.05


def test_the_table_of_members_says_what_each_is_worth():
    X, y = stream(600)
    model = Auto().partial_fit(X, y)
    table = model.members
    assert [row["name"] for row in table] == [c.name for c in DEFAULT if Form.DENSE in c.forms]
    for column in ("local_weight", "global_weight"):
        assert sum(row[column] for row in table) == pytest.approx(1.0)
    assert all(0.5 < row["auc"] <= 1.0 for row in table)
    assert all(row["resting_since"] is None for row in table)


def test_a_budget_lets_the_members_rest_that_it_cannot_pay():
    X, y = stream(600)
    model = Auto(cost=1.0).partial_fit(X, y)
    active = [row for row in model.members if row["resting_since"] is None]
    assert sum(row["cost"] for row in active) <= 1.0
    assert len(active) < len(model.members)
    model.cost = 100.0
    assert Auto(cost=0.01).partial_fit(X, y).examples == 600
    with pytest.raises(InvalidParams, match="cost"):
        Auto(cost=0.0)


def test_members_that_do_not_fit_the_rows_leave():
    X, y = stream(400, d=30)
    sparse_rows = [{f"word{(7 * i + k * k) % 500}": 1.0 for k in range(5)} for i in range(400)]
    numbers, words = Auto(), Auto()
    for i in range(400):
        numbers.learn_one(dict(enumerate(X[i].tolist())), y[i])
        words.learn_one(sparse_rows[i], y[i])
    assert {row["name"] for row in numbers.members} == {c.name for c in DEFAULT if Form.DENSE in c.forms}
    assert {row["name"] for row in words.members} == {c.name for c in DEFAULT if Form.CSR in c.forms}


def test_contributions_add_up_to_the_score():
    X, y = stream(500)
    model = Auto()
    rows = [dict(zip("abcdef", row, strict=True)) for row in X.tolist()]
    model.engine.learn_rows(rows, np.where(y, 1.0, -1.0))
    for x in (rows[3], {"a": 2.0, "new": 1.0}, {}):
        parts = model.explain_one(x)
        assert sum(parts.values()) == pytest.approx(model.score_one(x), abs=1e-9)
        members = {f"({row['name']})" for row in model.members}  # behind a map, whose features have no names
        assert set(parts) - {"(intercept)", "(fourier)", "(mixture)", *members} <= set("abcdef")


def test_memory_does_not_grow_with_rows():
    model = Pipeline(Hashing(4), Auto())
    sizes = []
    for start in range(0, 12_000, 2000):
        rows = [{"user": f"u{i}"} for i in range(start, start + 2000)]
        model.engine.learn_rows(rows, np.where(np.arange(2000) % 2, 1.0, -1.0))
        sizes.append(len(model.to_bytes()))
    assert max(sizes[-2:]) <= 1.1 * max(sizes[1:4])


def test_two_models_do_not_merge():
    X, y = stream(100)
    with pytest.raises(CannotMerge, match="one Auto that learns both streams"):
        Auto().partial_fit(X, y).merge(Auto().partial_fit(X, y))


@pytest.mark.parametrize(
    "text",
    [
        "psam",
        "standard/auto",
        "standard/nothing",
        "wrong/psam",
        "",
        "auto/psam(",
        "2025",
        "auto/nothing/psam",
        "auto/ftrl/psam",
    ],
)
def test_a_member_that_is_none_is_refused(text):
    with pytest.raises(InvalidParams, match=r"Auto.portfolio: expected .*members SCALER/LEARNER or SCALER/MAP/LEARNER"):
        Auto(portfolio=text)


@pytest.mark.parametrize(
    "text",
    [
        "auto/psam(capacity=0)",
        "auto/psam(speed=3)",
        "auto/randomfourier(components=0)/psam",
        "none/jointforest(seed=a)",
    ],
)
def test_a_parameter_of_a_member_is_checked(text):
    with pytest.raises(InvalidParams, match=r"PSAM|map\.components|JointForest\.seed"):
        Auto(portfolio=text)


def test_a_member_that_is_named_twice_is_refused():
    with pytest.raises(InvalidParams, match=r"Auto.portfolio: expected each member once, got 'l2/psam'"):
        Auto(portfolio="l2/psam auto/psam l2/psam")


def test_a_portfolio_is_named_by_its_members():
    X, y = stream(300)
    text = (
        "standard+l2/ftrl auto/psam(capacity=20;fresh=3) auto@500/solam none/jointforest none/jointforest(seed=4) "
        "arctan@500+bounded/randomthresholds(components=30;warmup=40)/mba(lam2=0.01)"
    )
    model = Auto(portfolio=text).partial_fit(X, y)
    assert [row["name"] for row in model.members] == text.split()
    resumed = aucstream.from_bytes(model.to_bytes())
    assert resumed.portfolio == text
    assert np.array_equal(resumed.decision_function(X), model.decision_function(X))


@pytest.mark.parametrize("model", [Auto, lambda: Auto(cost=1.0), JointForest])
def test_rows_without_features_are_learned_and_others_after_them(model):
    one, array = model(), model()
    for i in range(60):
        one.learn_one({"a": None} if i % 2 else {}, i % 3 == 0)
    array.partial_fit(np.zeros((60, 0)), np.arange(60) % 3 == 0)
    for i in range(300):
        one.learn_one({"a": float(i % 7)}, i % 7 > 3)
    assert one.score_one({"a": 6.0}) > one.score_one({"a": 0.0})
    assert np.isfinite(array.decision_function(np.zeros((2, 0)))).all()


def test_a_resting_member_is_saved_with_room_for_the_names_that_came_since():
    model = Auto(cost=1.0)
    for i in range(60):
        model.learn_one({"a": float(i % 7), "b": 1.0}, i % 3 == 0)
    assert any(row["resting_since"] for row in model.members)
    model.learn_one({f"n{k}": 1.0 for k in range(30)}, True)
    resumed = aucstream.from_bytes(model.to_bytes())
    assert resumed.to_bytes() == model.to_bytes()
    for i in range(400):
        for copied in (model, resumed):
            copied.learn_one({"a": float(i % 7), f"n{i % 40}": 1.0}, i % 3 == 0)
    assert resumed.score_one({"a": 3.0, "n3": 1.0}) == model.score_one({"a": 3.0, "n3": 1.0})
    assert resumed.to_bytes() == model.to_bytes()


def test_a_larger_budget_calls_members_back_at_the_next_checkpoint():
    X, y = stream(600)
    model = Auto(cost=1.0).partial_fit(X[:200], y[:200])
    resting = sum(row["resting_since"] is not None for row in model.members)
    assert resting > 5
    model.mutate({"cost": None})
    model.partial_fit(X[200:], y[200:])
    assert not any(row["resting_since"] for row in model.members)


def test_a_member_that_is_named_costs_what_it_costs_at_the_defaults():
    text = "none/jointforest auto/psam arctan+bounded/randomthresholds(components=9)/mba auto/mba l2/solam"
    assert [row["cost"] for row in Auto(portfolio=text).members] == [5.0, 1.0, 10.0, 0.5, 1.0]
    with pytest.raises(InvalidParams, match="each parameter of psam once, got 'capacity'"):
        Auto(portfolio="auto/psam(capacity=9;capacity=8)")
    assert Auto(portfolio="none/jointforest(seed=None)").members
