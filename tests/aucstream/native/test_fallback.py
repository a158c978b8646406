"""Rows that compiled code may not read are read in Python: the same columns, values, scores and errors."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aucstream import FTRL, PSAM, AutoScale, Hashing, Pipeline, Vocabulary
from aucstream.errors import AucstreamError
from aucstream.features.encoding import vocabulary
from aucstream.native import guard, reader, row_entry

MODELS = {
    "learner": lambda: PSAM(capacity=20),
    "intercept": lambda: FTRL(),
    "pipeline": lambda: Pipeline(AutoScale(), PSAM(capacity=20)),
    "hashing": lambda: Pipeline(Hashing(bits=4), AutoScale(), FTRL()),
}


class Text(str):
    """A name that equals a plain string and is of another type."""


@pytest.fixture
def in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (reader, row_entry, vocabulary):
        monkeypatch.setattr(module, "COMPILED", False)


def stream(n: int) -> list[tuple[dict[Any, Any], bool]]:
    """Return rows that mostly repeat their names, and every kind of row that does not."""
    draw = random.Random(3)
    rows: list[tuple[dict[Any, Any], bool]] = []
    for i in range(n):
        x: dict[Any, Any] = {name: draw.gauss(0, 1) for name in "abcd"}
        if i % 7 == 1:
            x["b"] = draw.randrange(-5, 5)
        if i % 7 == 2:
            x["b"] = bool(i % 2)
        if i % 11 == 3:
            x["c"] = draw.choice(["u", "v"])
        if i % 13 == 4:
            x["d"] = None
        if i % 17 == 5:
            x["list"] = ["u", "w"]
        if i % 19 == 6:
            x = dict(reversed(x.items()))
        if i % 23 == 7:
            x[f"new{i}"] = 1.0
        if i % 29 == 8:
            x["c=u"] = 2.0  # a one-hot name, literally
        if i % 31 == 9:
            x = {Text(name): value for name, value in x.items()}
        if i % 37 == 10:
            x = {}
        rows.append((x, draw.random() < 0.3))
    return rows


def outcome(model: Any, x: dict[Any, Any], y: bool) -> list[Any]:
    """Return the score before and after learning a row, or the error that it raises."""
    result: list[Any] = []
    for call in (lambda: model.score_one(x), lambda: model.learn_one(x, y), lambda: model.score_one(x)):
        try:
            result.append(call())
        except AucstreamError as error:
            result.append(str(error))
    return result


@pytest.mark.skipif(not guard.COMPILED, reason="this interpreter always reads rows in Python")
@pytest.mark.parametrize("name", MODELS)
def test_both_ways_give_the_same_bits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = stream(400)
    rows[200:200] = [
        ({"a": float("nan"), "b": 1.0, "c": 1.0, "d": 1.0}, True),
        ({"a": 10**400, "b": 1.0, "c": 1.0, "d": 1.0}, True),
        ({"a": "text", "b": object(), "c": 1.0, "d": 1.0}, True),
        ({True: 1.0, "b": 1.0, "c": 1.0, "d": 1.0}, True),
    ]
    model = MODELS[name]()
    compiled = [outcome(model, x, y) for x, y in rows]
    for module in (reader, row_entry, vocabulary):
        monkeypatch.setattr(module, "COMPILED", False)
    model = MODELS[name]()
    assert [outcome(model, x, y) for x, y in rows] == compiled


def test_a_row_with_the_names_before_it_is_read_without_looking_names_up(in_python: None) -> None:
    encoder = Vocabulary()
    encoder.learn({"a": 1.0, "b": 2.0})
    index = encoder._index
    index.clear()  # a look-up would miss now
    idx, val = encoder.learn({"a": 3, "b": True})
    assert idx.tolist() == [0, 1]
    assert val.tolist() == [3.0, 1.0]


@pytest.mark.parametrize(
    "x", [{"a": 1.0, "b": "2"}, {"b": 1.0, "a": 2.0}, {"a": 1.0}, {Text("a"): 1.0, "b": 2.0}, {"a": 1.0, "b": 10**400}]
)
def test_any_other_row_is_left_to_the_encoder(x: dict[Any, Any], in_python: None) -> None:
    encoder = Vocabulary()
    encoder.learn({"a": 1.0, "b": 2.0})
    assert encoder.reader.read(x) is None


def test_the_guard_looks_at_a_real_object(monkeypatch: pytest.MonkeyPatch) -> None:
    assert guard.has_known_layout()
    monkeypatch.setattr(guard, "FLOAT_AT", 24)
    assert not guard.has_known_layout()


def test_the_guard_knows_versions_not_ranges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "VERSIONS", frozenset())
    assert not guard.is_known_interpreter()
