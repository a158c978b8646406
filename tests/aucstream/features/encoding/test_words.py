"""Rows of strings by compiled code: the bits, names and kinds of the plain reading, whatever comes."""

from __future__ import annotations

import copy
import pickle
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from aucstream import PSAM, SOLAM, AutoScale, Hashing, Pipeline, Standardize, Vocabulary
from aucstream.errors import AucstreamError
from aucstream.features.encoding import hashing
from aucstream.native import reader
from aucstream.native.guard import COMPILED


class Awkward(dict):
    """The same features in a mapping that compiled code leaves to Python."""


NAMES = ["a", "b", "c", "a=b", "é", ""]
WORDS = ["x", "y", "b", "b=c", "c", "", "é", "=", "w" * 40, "\ud800"]
VALUES = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(WORDS),
    st.integers(0, 30).map("word {}".format),
    st.sampled_from([None, True, False, 0, 3, -0.0, 1.5, -2.25, 1e-300, float("nan"), 10**400, 2.0**70, 1e305]),
    st.lists(st.sampled_from(WORDS), max_size=2),
)
ROW = st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=5)
STREAM = st.lists(st.tuples(ROW, st.booleans(), st.integers(0, 3)), min_size=1, max_size=30)

MODELS = {
    "psam": lambda: PSAM(capacity=5),
    "scaled": lambda: Pipeline(AutoScale(), PSAM(capacity=5)),
    "full": lambda: Pipeline(Vocabulary(6), Standardize(), PSAM(capacity=5)),
    "crosses": lambda: Pipeline(Vocabulary(crosses="all"), AutoScale(), SOLAM()),
    "evicting": lambda: Pipeline(Vocabulary(6, 1, "least-recent"), Standardize(), SOLAM()),
    "waiting": lambda: Pipeline(Vocabulary(20, 2), Standardize(), SOLAM()),
    "hashed": lambda: Pipeline(Hashing(3), PSAM(capacity=5)),
    "hashed and scaled": lambda: Pipeline(Hashing(5), Standardize(), SOLAM()),
}


def outcome(call: Any, *arguments: Any) -> Any:
    try:
        return call(*arguments)
    except AucstreamError as error:
        return str(error)


def state(model: Any) -> tuple[Any, ...]:
    arrays, meta = model.state_dict()
    return {name: (array.dtype, array.shape, array.tobytes()) for name, array in arrays.items()}, str(meta)


def check_equal(fast: Any, slow: Any, rows: list[tuple[dict[str, Any], bool, int]]) -> None:
    """Check that dicts and other mappings of the same rows give the same."""
    for x, y, way in rows:
        fresh = {"".join(name): value for name, value in x.items()}
        if way != 1:  # score, then learn
            assert outcome(fast.predict_proba_one, fresh) == outcome(slow.predict_proba_one, Awkward(x))
        if way != 2:
            assert outcome(fast.learn_one, fresh, y) == outcome(slow.learn_one, Awkward(x), y)
        if way == 3:
            assert outcome(fast.score_one, fresh) == outcome(slow.score_one, Awkward(x))
    fast.learn_one({"a": "x"}, True)  # arrays are made by the first row
    slow.learn_one(Awkward({"a": "x"}), True)
    assert state(fast) == state(slow)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=60)
@given(rows=STREAM)
def test_rows_of_strings_have_the_bits_of_the_plain_reading(name: str, rows: Any) -> None:
    check_equal(MODELS[name](), MODELS[name](), rows)


@pytest.mark.parametrize("name", ["psam", "full", "evicting"])
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=STREAM)
def test_strings_that_the_reader_has_forgotten_have_them_too(name: str, rows: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(reader, "MOST_WORDS", 3)
    check_equal(MODELS[name](), MODELS[name](), rows)


def test_a_name_takes_no_more_memory_than_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "MOST_WORDS", 1000)
    n = 60_000
    for x_of in (lambda k: {"id": f"user {k:012d}"}, lambda k: {f"id=user {k:012d}": 1.0}):
        encoder = Vocabulary()
        encoder.learn(x_of(n))
        tracemalloc.start()
        for k in range(n):
            encoder.learn(x_of(k))
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(encoder) == n + 1
        assert encoder.look_up(x_of(7))[0].tolist() == [8]
        assert size / n <= 180.0


@pytest.mark.parametrize("name", ["psam", "full", "hashed"])
@settings(max_examples=40)
@given(rows=STREAM)
def test_blocks_of_strings_have_the_bits_of_single_rows(name: str, rows: Any) -> None:
    ones, blocks = MODELS[name](), MODELS[name]()
    good = [(x, y) for x, y, _ in rows if outcome(MODELS[name]().learn_one, Awkward(x), y) is None]
    good = [pair for pair in good * 3 if not any(value == 1e305 for value in pair[0].values())]
    dicts, signs = [x for x, _ in good], np.array([1.0 if y else -1.0 for _, y in good])
    for part in (slice(0, len(good) // 2), slice(len(good) // 2, None)):
        scores = blocks.engine.learn_rows(dicts[part], signs[part])
        each = []
        for x, sign in zip(dicts[part], signs[part].tolist(), strict=True):
            each.append(ones.score_one(Awkward(x)))
            ones.learn_one(Awkward(x), sign > 0)
        assert scores.tolist() == each
    assert state(ones) == state(blocks)
    assert blocks.engine.score_rows(dicts).tolist() == [ones.score_one(Awkward(x)) for x in dicts]


@pytest.mark.parametrize("name", ["scaled", "full", "hashed"])
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_copies_read_the_strings_of_their_original(name: str, copied: Any) -> None:
    random = np.random.default_rng(1)
    rows = [({"a": f"w{random.integers(9)}", "n": float(k)}, bool(random.random() < 0.5), 0) for k in range(60)]
    fast, slow = MODELS[name](), MODELS[name]()
    check_equal(fast, slow, rows)
    check_equal(copied(fast), slow, rows)


def test_what_the_reader_knows_of_hashed_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hashing, "MOST_READ", 50)
    fast, slow = (Pipeline(Hashing(6), Standardize(), SOLAM()) for _ in range(2))
    random = np.random.default_rng(2)
    for k in range(300):
        x = {"id": f"user {k}", f"n{k % 70}": 1.0, "common": f"w{random.integers(5)}"}
        check_equal(fast, slow, [(x, k % 3 == 0, 3)])
        encoder = fast.encoder
        assert len(encoder._index) + sum(map(len, encoder.reader.words.values())) <= 50


@pytest.mark.skipif(not COMPILED, reason="compiling is switched off")
def test_strings_are_read_by_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    models = [
        Pipeline(AutoScale(), PSAM()),
        Pipeline(Vocabulary(4), Standardize(), PSAM()),
        Pipeline(Hashing(8), PSAM()),
    ]
    for model in models:
        for k in range(120):
            model.learn_one({"a": f"w{k % 3}", "n": float(k % 5)}, k % 2 == 0)
        model.score_one({"a": "not yet", "new": "one", "n": 1.0})  # arrays have room for so many from now on
        monkeypatch.setattr(type(model.encoder), "_slow", lambda *_, **__: pytest.fail("the plain way"))
        entry = model._row_entry()
        known = {"a": "w1", "n": 2.0}
        assert entry.score(-id(known), entry.address).real == model.score_one(known)
        model.score_one({"a": "not yet", "new": "one", "n": 1.0})
        model.learn_one({"a": "not yet", "n": 1.0}, True)
        monkeypatch.undo()
