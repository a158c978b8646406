"""Names that come and go: every column, count and eviction as the plain vocabulary has them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream import FTRL, Pipeline, Vocabulary
from aucstream.errors import InvalidParams
from aucstream.features.encoding.distinct import MOST, DistinctCount
from aucstream.features.encoding.hashing import hash_of
from tests.aucstream.reference.vocabulary import PlainVocabulary

ROWS = st.lists(st.lists(st.sampled_from("abcdefghij"), unique=True, max_size=5), max_size=40)


def taken(vocabulary: Vocabulary, names: list[str]) -> tuple[dict[str, int], list[int]]:
    """Return what `PlainVocabulary.learn` returns."""
    idx, val = vocabulary.learn({name: float(ord(name)) for name in names})
    vacated = vocabulary.vacated().tolist()
    vocabulary.commit()
    return {chr(int(value)): column for column, value in zip(idx.tolist(), val.tolist(), strict=True)}, vacated


def counts(plain: PlainVocabulary) -> tuple[int, ...]:
    return (
        len(plain.column),
        plain.capacity,
        len(plain.dropped),
        plain.entries_dropped,
        plain.evictions,
        len(plain.waiting),
    )


@settings(max_examples=300, deadline=None)
@given(ROWS, st.integers(1, 6), st.integers(1, 4), st.sampled_from(["none", "least-recent"]), st.data())
def test_every_row_has_the_columns_of_the_plain_vocabulary(rows, capacity, min_count, eviction, data):
    vocabulary = Vocabulary(capacity, min_count, eviction)
    plain = PlainVocabulary(capacity, min_count, eviction)
    for names in rows:
        if data.draw(st.booleans()):  # scoring, saving and copying change nothing
            with vocabulary.scored({"a": 1.0, "z": 2.0, "y": 3.0}):
                pass
            vocabulary = Vocabulary.from_state_dict(*vocabulary.state_dict())
        if not vocabulary.selects:
            idx, val = vocabulary.learn({name: float(ord(name)) for name in names})
            shown = {chr(int(value)): column for column, value in zip(idx.tolist(), val.tolist(), strict=True)}
            assert (shown, []) == plain.learn(names)
        else:
            assert taken(vocabulary, names) == plain.learn(names)
        assert dict(zip(vocabulary.names, range(capacity), strict=False)) == plain.column
        assert vocabulary.usage == counts(plain)


@pytest.mark.parametrize("min_count", [1, 3])
@pytest.mark.parametrize("capacity", [3, 20, 100])
def test_long_streams_have_the_columns_of_the_plain_vocabulary(capacity, min_count):
    random = np.random.default_rng(capacity)
    vocabulary = Vocabulary(capacity, min_count, "least-recent")
    plain = PlainVocabulary(capacity, min_count, "least-recent")
    for _ in range(3000):
        names = list(
            dict.fromkeys(chr(97 + int(code)) for code in random.geometric(1.0 / capacity, random.integers(6)))
        )
        assert taken(vocabulary, names) == plain.learn(names)
        assert vocabulary.usage[:4] == counts(plain)[:4]


@settings(max_examples=100, deadline=None)
@given(ROWS, st.integers(1, 6), st.integers(1, 3))
def test_a_row_that_is_taken_back_leaves_nothing(rows, capacity, min_count):
    mine, other = (Vocabulary(capacity, min_count, "least-recent") for _ in range(2))
    for number, names in enumerate(rows):
        mark = other.mark()
        other.learn(dict.fromkeys(rows[-1 - number], 1.0))
        other.rewind(mark)
        taken(mine, names)
        taken(other, names)
        for (name, array), theirs in zip(mine.state_dict()[0].items(), other.state_dict()[0].values(), strict=True):
            assert np.array_equal(array, theirs), name
        assert mine.state_dict()[1] == other.state_dict()[1]


def test_a_name_of_the_row_at_hand_never_leaves():
    vocabulary = Vocabulary(2, eviction="least-recent")
    taken(vocabulary, ["a", "b"])
    assert taken(vocabulary, ["c", "a", "d"]) == ({"c": 1, "a": 0}, [1])
    assert vocabulary.usage.names_dropped == 1


def test_strings_of_names_that_left_are_read_as_new_ones():
    model = Pipeline(Vocabulary(2, eviction="least-recent"), FTRL(l1=0.0, intercept=False))
    for word in ["u", "v", "w", "u", "w", "v"] * 3:
        model.learn_one({"word": word}, word == "u")
        assert f"word={word}" in model.weights
        assert len(model.weights) <= 2
    assert set(model.weights) == {"word=w", "word=v"}
    # "a=b=c" is the one-hot name of a: "b=c" and of a=b: "c"
    model.learn_one({"a": "b=c"}, True)
    model.learn_one({"x": 1.0, "y": 1.0}, True)
    assert model.score_one({"a": "b=c"}) == model.score_one({"a=b": "c"}) == 0.0


def test_columns_of_arrays_are_neither_counted_nor_evicted():
    model = Pipeline(Vocabulary(3, 5, "least-recent"), FTRL(l1=0.0))
    model.partial_fit(np.eye(3), [1, 0, 1])
    model.learn_one({0: 1.0}, True)
    model.learn_one({7: 1.0}, True)
    assert set(model.weights) == {0, 1, 2}
    assert model.usage[:3] == (3, 3, 1)


@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"min_count": 0}, "Vocabulary.min_count: expected an integer >= 1, got 0"),
        ({"eviction": "oldest"}, "Vocabulary.eviction: expected 'none' | 'least-recent', got 'oldest'"),
        ({"capacity": 1}, "Vocabulary.capacity: expected at least 2, the names in use, got 1"),
    ],
)
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(kwargs, message):
    vocabulary = Vocabulary(5)
    vocabulary.learn({"a": 1.0, "b": 1.0})
    with pytest.raises(InvalidParams) as caught:
        vocabulary.change(**kwargs)
    assert str(caught.value) == message
    assert vocabulary.spec == {"kind": "vocabulary", "capacity": 5}


def test_a_live_change_lets_a_full_vocabulary_go_on():
    model = Pipeline(Vocabulary(2), FTRL(l1=0.0, intercept=False))
    for name in "aabbc":
        model.learn_one({name: 1.0}, True)
    assert model.usage == (2, 2, 1, 1, 0, 0)
    model.change_columns(eviction="least-recent")
    model.learn_one({"b": 1.0}, True)
    model.learn_one({"c": 1.0}, True)
    assert set(model.weights) == {"b", "c"}
    model.change_columns(capacity=3, min_count=2)
    model.learn_one({"d": 1.0}, True)
    assert set(model.weights) == {"b", "c"}
    model.learn_one({"d": 1.0}, True)
    assert set(model.weights) == {"b", "c", "d"}
    model.change_columns(min_count=1, eviction="none")
    model.learn_one({"e": 1.0}, True)
    assert model.usage == (3, 3, 1, 2, 1, 0) or model.usage.names_dropped == 2
    assert set(model.weights) == {"b", "c", "d"}


def test_the_spec_has_columns_and_keeps_its_text_without_them():
    plain = Pipeline.from_spec({"algorithm": "ftrl"})
    assert "columns" not in json.loads(plain.spec.model_dump_json())
    document = {
        "algorithm": "ftrl",
        "encoder": {"kind": "vocabulary", "capacity": 2},
        "columns": {"min_count": 2, "eviction": "least-recent"},
    }
    model = Pipeline.from_spec(document)
    assert model.spec.model_dump(mode="json")["columns"] == document["columns"]
    for name in "aabbccd":
        model.learn_one({name: 1.0}, True)
    assert set(model.weights) == {"b", "c"}
    assert model.usage == (2, 2, 0, 0, 1, 1)
    with pytest.raises(
        InvalidParams, match=r"columns\.min_count: expected 1 with an encoder that keeps no names, got 2"
    ):
        Pipeline.from_spec({"encoder": {"kind": "hashing"}, "columns": {"min_count": 2}})
    with pytest.raises(InvalidParams, match="belongs to `columns`"):
        Pipeline.from_spec({"encoder": {"kind": "vocabulary", "min_count": 2}})


@pytest.mark.parametrize("names", [0, 10, MOST - 1, 5_000, 100_000])
def test_distinct_names_are_counted_in_bounded_memory(names):
    count, twin = DistinctCount(), DistinctCount()
    for name in range(names):
        count.add(hash_of(f"name {name}"))
    for name in reversed(range(names)):
        for _ in range(2):
            twin.add(hash_of(f"name {name}"))
    assert int(count) == names if names < MOST else abs(int(count) / names - 1.0) < 0.1
    assert int(twin) == int(count)
    assert count.hashes.size <= MOST
    resumed = DistinctCount()
    resumed.update(count.hashes)
    assert int(resumed) == int(count)
