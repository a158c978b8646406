"""Entries, vocabulary, hashing: from dicts to rows."""

from __future__ import annotations

import decimal
import fractions
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream import PSAM, SOLAM, AutoScale, Hashing, Pipeline, Standardize, Vocabulary
from aucstream.errors import InvalidBlock, InvalidParams, NonFiniteStep
from aucstream.features.encoding.entries import INDICATOR, NUMERIC, entries_of
from aucstream.native.guard import COMPILED

VALUES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**6), 10**6),
    st.booleans(),
    st.none(),
    st.text("abc=", max_size=3),
    st.lists(st.text("xyz", max_size=2), max_size=3),
)
ROWS = st.dictionaries(st.one_of(st.text("abc=", max_size=2), st.integers(0, 5)), VALUES, max_size=6)


def test_each_kind_of_value_becomes_its_entries():
    x = {
        "number": 2, "flag": True, "off": False, "word": "v", "tags": ["u", "v", "u"], "none": None,
        3: np.float32(0.5), "set": {"q"}, "empty": [], "np": np.bool_(True), "dec": decimal.Decimal("0.25"),
        "frac": fractions.Fraction(1, 4), "blank": "",
    }  # fmt: skip
    assert entries_of(x) == [
        ("number", 2.0, NUMERIC),
        ("flag", 1.0, INDICATOR),
        ("off", 0.0, INDICATOR),
        ("word=v", 1.0, INDICATOR),
        ("tags=u", 1.0, INDICATOR),
        ("tags=v", 1.0, INDICATOR),
        (3, 0.5, NUMERIC),
        ("set=q", 1.0, INDICATOR),
        ("np", 1.0, INDICATOR),
        ("dec", 0.25, NUMERIC),
        ("frac", 0.25, NUMERIC),
        ("blank=", 1.0, INDICATOR),
    ]


@given(ROWS)
def test_entries_have_names_that_differ_and_finite_values_or_are_refused(x):
    try:
        entries = entries_of(x)
    except InvalidBlock as error:
        refused = str(error)
        entries = []
    else:
        refused = "names that differ"
    assert "names that differ" in refused
    assert len({name for name, _, _ in entries}) == len(entries)
    assert all(math.isfinite(value) for _, value, _ in entries)


@pytest.mark.parametrize(
    "value",
    [
        np.complex128(1),
        np.datetime64("2026-01-01"),
        np.bytes_(b"x"),
        np.array([1.0]),
        object(),
        ["a", {}],
        [["a"]],
        {"a", 1},
    ],
)
def test_a_value_of_another_kind_is_refused_by_name(value):
    with pytest.raises(InvalidBlock, match=r"\['f'\]"):
        entries_of({"f": value})


@given(st.lists(ROWS, max_size=8))
def test_a_vocabulary_gives_each_name_one_column_and_a_row_back_as_it_came(rows):
    vocabulary = Vocabulary()
    for x in rows:
        try:
            entries = entries_of(x)
        except InvalidBlock:
            continue
        idx, val = vocabulary.learn(x)
        columns = range(val.size) if idx is None else idx
        got = {vocabulary.names[j]: float(v) for j, v in zip(columns, val, strict=True)}
        assert got == {name: value for name, value, _ in entries}
    assert len(set(vocabulary.names)) == len(vocabulary.names) == vocabulary.width


@given(ROWS, ROWS)
def test_looking_up_adds_nothing_and_a_preview_is_forgotten(first, second):
    vocabulary = Vocabulary()
    try:
        vocabulary.learn(first)
        entries_of(second)
    except InvalidBlock:
        return
    before = [a.tobytes() for a in vocabulary.state_dict()[0].values()], vocabulary.state_dict()[1]
    vocabulary.look_up(second)
    with vocabulary.previewed(second) as (idx, val):
        seen = vocabulary.width
        assert val.size == 0 or (max(range(val.size)) if idx is None else idx.max()) < seen
    assert ([a.tobytes() for a in vocabulary.state_dict()[0].values()], vocabulary.state_dict()[1]) == before
    assert [x.tolist() if x is not None else x for x in vocabulary.learn(first)] == [
        x.tolist() if x is not None else x for x in vocabulary.learn(first)
    ]


def test_a_full_vocabulary_leaves_new_names_out_and_counts_them():
    vocabulary = Vocabulary(capacity=2)
    vocabulary.learn({"a": 1.0, "b": 2.0, "c": 3.0})
    idx, val = vocabulary.learn({"c": 1.0, "b": 5.0})
    assert vocabulary.names == ["a", "b"]
    assert vocabulary.dropped == 2
    assert (idx.tolist(), val.tolist()) == ([1], [5.0])
    with pytest.raises(InvalidBlock, match="capacity"):
        Vocabulary(capacity=2).columns(3, learn=True)


def test_rewinding_forgets_names_and_what_they_said_of_the_model():
    vocabulary = Vocabulary()
    mark = vocabulary.mark()
    vocabulary.learn({"a": True})
    vocabulary.rewind(mark)
    assert (vocabulary.width, vocabulary.words) == (0, False)
    assert vocabulary.columns(3, learn=True) is None  # arrays are welcome again
    assert vocabulary.kinds[:3].tolist() == [NUMERIC] * 3


def test_the_kind_that_a_name_came_with_first_stays():
    vocabulary = Vocabulary()
    vocabulary.learn({"a": True, "b": 1.0})
    vocabulary.learn({"a": 3.0, "b": False})
    assert vocabulary.kinds[:2].tolist() == [INDICATOR, NUMERIC]


@given(ROWS)
def test_hashing_is_stable_and_adds_what_collides(x):
    try:
        entries = entries_of(x)
    except InvalidBlock:
        return
    tiny = Hashing(1)
    idx, val = tiny.learn(x)
    total = sum(value for _, value, _ in entries)
    assert val.sum() == pytest.approx(total, rel=1e-9, abs=1e-9 * sum(abs(v) for _, v, _ in entries))
    assert tiny.width == 2
    assert idx is None or len(set(idx.tolist())) == idx.size
    again = Hashing(1).look_up(x)
    assert again[1].tolist() == val.tolist()


def test_hashing_keeps_a_string_and_an_integer_apart_and_its_columns_for_ever():
    hashing = Hashing(18)
    assert hashing._column("3") != hashing._column(3)
    assert [hashing._column(name) for name in ("a", "user=7", 0)] == [255396, 151491, 62330]


@pytest.mark.parametrize("make", [lambda v: Hashing(v), lambda v: Vocabulary(v)], ids=["hashing", "vocabulary"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "8", None, True, math.nan])
def test_sizes_out_of_bounds_are_refused(make, value):
    with pytest.raises(InvalidParams, match="expected an integer"):
        make(value)
    with pytest.raises(InvalidParams, match="28"):
        Hashing(29)


class Awkward(dict):
    """No plain dict, so that a row of it goes the slow way."""


@given(st.lists(ROWS, max_size=12), st.integers(0, 3), st.sampled_from([Vocabulary, Hashing]))
def test_compiled_reading_gives_the_rows_of_the_slow_way(rows, shuffled, make):
    def row_of(encoder, x, learn):
        try:
            idx, val = encoder.learn(x) if learn else encoder.look_up(x)
        except InvalidBlock as error:
            return str(error)
        return np.asarray(idx).tolist(), val.tolist(), encoder.missed and not learn

    fast, slow = make(), make()
    rows = [row | dict(zip(row, [10**400, math.nan, 10**30, -1][: shuffled + 1], strict=False)) for row in rows] + rows
    for number, x in enumerate(rows * 2):
        x = dict(reversed(x.items())) if number % (shuffled + 2) == 0 else dict(x)
        learn = number % 3 > 0
        assert row_of(fast, x, learn) == row_of(slow, Awkward(x), learn)
    assert (fast.kinds == slow.kinds).all()


@pytest.mark.parametrize(
    "make",
    [SOLAM, lambda: Pipeline(Standardize(), SOLAM()), lambda: Pipeline(AutoScale(), PSAM(seed=1))],
    ids=["bare", "standardized", "auto-scaled"],
)
@settings(max_examples=40)
@given(rows=st.lists(st.tuples(ROWS, st.booleans(), st.booleans()), min_size=1, max_size=25))
def test_rows_with_new_names_are_scored_and_learned_as_on_the_slow_way(make, rows):
    def outcome(call, *arguments):
        try:
            return repr(call(*arguments))
        except (InvalidBlock, NonFiniteStep) as error:
            return type(error)

    fast, slow = make(), make()
    start = {f"n{k}": float(k) for k in range(8)}  # beside which a few new names are few
    for x, y, learn in [(start, True, True), ({"w": "v"}, False, True), *rows]:
        x = {**start, **x}
        names = list(fast._encoder.names)
        assert outcome(fast.score_one, x) == outcome(slow.score_one, Awkward(x))
        assert fast._encoder.names == names
        if learn:
            assert outcome(fast._learn_dict, x, 2.0 * y - 1.0, 1.0) == outcome(
                slow._learn_dict, Awkward(x), 2.0 * y - 1.0, 1.0
            )
    assert fast._encoder.names == slow._encoder.names
    assert (fast._encoder.kinds == slow._encoder.kinds).all()
    arrays, others = fast.state_dict()[0], slow.state_dict()[0]
    assert all((array == others[name]).all() for name, array in arrays.items())


@pytest.mark.skipif(not COMPILED, reason="compiling is switched off")
def test_only_a_dict_of_plain_names_and_values_is_read_by_the_compiled_way():
    encoder = Vocabulary()
    encoder.learn({"a": 1.0, 7: 2.0})
    read = encoder.reader.read

    class Text(str):
        __slots__ = ()

    assert [
        part.tolist()
        for part in read(
            {
                7: True,
                "".join(["a"]): -3,
            }
        )
    ] == [[1, 0], [1.0, -3.0]]
    assert [part.tolist() for part in read({"a": None})] == [[], []]
    for x in (
        {"b": 1.0},
        {Text("a"): 1.0},
        {True: 1.0},
        {"a": np.float64(1.0)},
        {"a": "v"},
        Awkward(a=1.0),
        [1.0],
        "a",
        1,
    ):
        assert read(x) is None, x


@pytest.mark.skipif(not COMPILED, reason="compiling is switched off")
def test_strings_seen_before_are_read_by_the_compiled_way_but_not_beside_their_literal_names():
    encoder = Vocabulary()
    for x in ({"a": "b=c"}, {"a=b": "c"}, {"d": "e", "f": 1.0}):
        encoder.learn(x)
    read = encoder.reader.read
    assert [part.tolist() for part in read({"f": 2.0, "d": "e", "a": "b=c"})] == [[2, 1, 0], [2.0, 1.0, 1.0]]
    for x in ({"a=b": "c"}, {"d=e": 1.0}, {"d": "e", "d=e": 1.0}, {"d": "new"}, {"f": "e"}, {"d": ["e"]}):
        assert read(x) is None, x
    mark = encoder.mark()
    encoder.learn({"d": "late"})
    assert read({"d": "late"}) is not None
    encoder.rewind(mark)
    assert read({"d": "late"}) is None
