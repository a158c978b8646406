"""One compiled call for all members of `Auto` does what its plain way does, to the last bit."""

from __future__ import annotations

import copy
import math
import pickle
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import aucstream
from aucstream import Auto, Hashing, Pipeline, Vocabulary
from aucstream.errors import AucstreamError
from aucstream.native.guard import COMPILED
from aucstream.native.row_entry import NO_ENTRY
from tests.aucstream.portfolio.test_auto import stream as arrays

Row = tuple[dict[Any, Any], bool, float]

PORTFOLIOS = {
    "default": "2026",
    "forgetful": "none/jointforest auto@50/psam(capacity=20) standard@80/ftrl arctan+bounded/mba l2/cbr",
    "steps": "none/onlinelogistic none/solam standard/oam(capacity=5) scale+bounded/spam l2/vrspam auto/fsauc",
    "maps": "arctan+bounded/randomthresholds(components=20;warmup=30)/mba l2/kmeansnystroem(landmarks=6;warmup=40)/mba "
    "none/randomnetwork(components=6;warmup=25)/jointforest standard/randomfourier(components=8;warmup=20)/psam(capacity=9)",
    "moving maps": "auto@50/randomthresholds(components=9;warmup=30)/mba standard@80/kmeansnystroem(landmarks=4;warmup=20)/psam "
    "standard@40+bounded/randomfourier(components=5;warmup=20)/ftrl auto/psam(capacity=20)",
}
LENGTHS = {"default": 260}  # its maps are fitted at row 200, those of the others at row 40 at the latest
ENCODERS = {
    "names": lambda: Vocabulary(),
    "few names": lambda: Vocabulary(9),
    "leaving names": lambda: Vocabulary(7, eviction="least-recent"),
    "hashed": lambda: Hashing(bits=4),
}


def plainly(model: Any) -> Any:
    """Return a model whose rows never take the compiled call."""
    model._new_entry = lambda *arguments: NO_ENTRY
    return model


def outcome(call: Any, *arguments: Any) -> Any:
    """Return what a call returns, or the error that it raises."""
    try:
        return call(*arguments)
    except AucstreamError as error:
        return type(error).__name__, str(error)


def both(portfolio: str, encoder: str = "names", **params: Any) -> tuple[Pipeline, Pipeline]:
    """Return two equal models, the second of which takes the plain way."""
    one, other = (Pipeline(ENCODERS[encoder](), Auto(portfolio=PORTFOLIOS[portfolio], **params)) for _ in range(2))
    return one, plainly(other)


def step(model: Pipeline, row: Row) -> tuple[Any, ...]:
    """Return what a model says of a row before and after it learns it, and how learning it went."""
    x, y, weight = row
    before = outcome(model.predict_proba_one, x)
    said = outcome(model.learn_one, x, y, weight)
    return before, said, outcome(model.score_one, x)


def stream(n: int, seed: int = 0) -> list[Row]:
    """Return rows of the same six names, whose labels change their meaning half way."""
    draw = random.Random(seed)
    rows: list[Row] = []
    for i in range(n):
        x = {name: draw.gauss(0, 10.0**k) for k, name in enumerate("abcdef")}
        y = x["a"] - x["b"] / 10.0 + draw.gauss(0, 0.2) > 0.5
        rows.append((x, y != (i > n // 2), 1.0))
    return rows


NUMBERS = st.floats(-1e3, 1e3) | st.integers(-50, 50) | st.booleans() | st.none() | st.sampled_from([0.0, 1e30, -1e200])
WORDS = st.sampled_from(["u", "v", "w"])
BAD = st.sampled_from([math.nan, math.inf, -math.inf, 10**400, object])
NAMES = st.sampled_from([*"abcdefgh", 7, "c=u"])
ODD_ROWS = st.tuples(
    st.dictionaries(NAMES, NUMBERS | WORDS, max_size=9) | st.dictionaries(NAMES, NUMBERS | WORDS | BAD, max_size=9),
    st.booleans(),
    st.sampled_from([1.0, 1.0, 0.0, 0.3, 7.0, 1e200]),
)


@pytest.mark.skipif(not COMPILED, reason="this interpreter has the plain way alone")
@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize("portfolio", PORTFOLIOS)
@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(odd=st.lists(st.tuples(st.integers(0, 400), ODD_ROWS), max_size=40), seed=st.integers(0, 3))
def test_any_stream_of_dicts_gives_the_bits_of_the_plain_way(portfolio, encoder, odd, seed):
    n = LENGTHS.get(portfolio, 130)
    rows = stream(n, seed)
    for at, row in odd:
        rows.insert(at * n // 260, row)
    one, other = both(portfolio, encoder)
    for row in rows:
        assert repr(step(one, row)) == repr(step(other, row))
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.skipif(not COMPILED, reason="this interpreter has the plain way alone")
@pytest.mark.parametrize("cost", [None, 3.0])
def test_members_that_rest_and_wake_are_the_same(cost):
    X, y = arrays(5600, seed=4, noise=0.3)
    y[5000:] = ~y[5000:]
    one, other = both("default", cost=cost)
    for x, label in zip(X.tolist(), y.tolist(), strict=True):
        row = dict(zip("abcdef", x, strict=True)), label, 1.0
        assert step(one, row) == step(other, row)
    assert one.learner.alarms == 1
    assert one.learner.members == other.learner.members
    assert one.to_bytes() == other.to_bytes()


@pytest.mark.skipif(not COMPILED, reason="this interpreter has the plain way alone")
@pytest.mark.parametrize("portfolio", ["default", "maps"])
def test_most_rows_take_the_compiled_call(portfolio, monkeypatch):
    model, slow = Auto(portfolio=PORTFOLIOS[portfolio]), []
    learn_row = Auto._learn_row
    monkeypatch.setattr(Auto, "_learn_row", lambda *arguments: slow.append(1) or learn_row(*arguments))
    rows = stream(1500)
    for x, y, _ in rows[:1000]:
        model.learn_one(x, y)
    del slow[:]
    for x, y, _ in rows[1000:]:
        model.learn_one(x, y)
    assert len(slow) < 25
    monkeypatch.setattr(Auto, "_score_row", None)
    for x, _, _ in rows[:50]:
        model.predict_proba_one(x)


COPIES = {
    "deepcopy": copy.deepcopy,
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "clone": lambda model: model.clone(include_attributes=True),
    "bytes": lambda model: aucstream.from_bytes(model.to_bytes()),
}


@pytest.mark.parametrize("at", [21, 150, 215, 330])  # while rows are judged, and not; before maps are fitted, and after
@pytest.mark.parametrize("portfolio", ["default", "moving maps"])
def test_a_copy_goes_on_alone(portfolio, at):
    rows = stream(400)
    model = Auto(portfolio=PORTFOLIOS[portfolio])
    for x, y, _ in rows[:at]:
        model.learn_one(x, y)
    copies = {way: make(model) for way, make in COPIES.items()}
    before = model.to_bytes()
    for way, copied in copies.items():
        for x, y, _ in rows[at:]:
            copied.learn_one(x, y)
        assert model.to_bytes() == before, way
    for x, y, _ in rows[at:]:
        model.learn_one(x, y)
    for way, copied in copies.items():
        assert model.to_bytes() == copied.to_bytes(), way


@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_compiled_rows_goes_on_as_the_plain_way_does(way):
    rows = stream(900)
    one, other = both("default", "leaving names")
    for x, y, _ in rows[:450]:
        one.learn_one(x, y)
        other.learn_one(x, y)
    copied = COPIES[way](one)
    assert copied.to_bytes() == other.to_bytes()
    for i, (x, y, _) in enumerate(rows[450:]):
        x = {**x, f"new{i // 100}": float(i)} if i % 7 == 0 else x
        assert repr(step(copied, (x, y, 1.0))) == repr(step(other, (x, y, 1.0)))
    assert copied.to_bytes() == other.to_bytes()


def test_blocks_and_single_rows_may_take_turns():
    rows = stream(900)
    one, other = Auto(), plainly(Auto())
    for start in range(0, 900, 90):
        for model in (one, other):
            part = rows[start : start + 90]
            model.engine.learn_rows(
                [x for x, _, _ in part[:40]], np.array([1.0 if y else -1.0 for _, y, _ in part[:40]])
            )
            for x, y, _ in part[40:]:
                model.learn_one(x, y)
    assert one.to_bytes() == other.to_bytes()
