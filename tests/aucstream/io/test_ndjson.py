"""NDJSON: all kinds of features, bad lines by line, name and JSON pointer."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.errors import BadRow, InvalidParams
from aucstream.io import Rows
from aucstream.io.ndjson import read_ndjson


def chunks(text: str | bytes, **options: object) -> list[Rows]:
    stream = io.BytesIO(text.encode() if isinstance(text, str) else text)
    stream.name = "bad.ndjson"
    return list(read_ndjson(stream, **options))


def bad(text: str | bytes) -> BadRow:
    with pytest.raises(BadRow) as caught:
        chunks(text)
    return caught.value


def test_every_kind_of_feature() -> None:
    (rows,) = chunks(
        '{"features": {"a": 1, "b": true, "c": "w", "d": ["x", "y"], "e": null}, "label": 1}\n'
        "\n  \r\n"
        '{"features": [1, 2.5], "label": false, "weight": 2, "id": "k1"}\r\n'
        '{"label": -1.0, "features": {}, "weight": 0, "id": null}'
    )
    assert list(rows.features) == [{"a": 1.0, "b": True, "c": "w", "d": ["x", "y"]}, [1.0, 2.5], {}]
    assert rows.features[0]["b"] is True
    assert rows.y.tolist() == [1, -1, -1]
    assert rows.weights.tolist() == [1, 2, 0]
    assert rows.lines.tolist() == [1, 4, 5]


@pytest.mark.parametrize("label", ["true", "1", "1.0", "1e0"])
def test_positive_labels(label: str) -> None:
    assert chunks(f'{{"features": [], "label": {label}}}')[0].y.tolist() == [1]


@pytest.mark.parametrize("label", ["false", "0", "0.0", "-0", "-1", "-1.0"])
def test_negative_labels(label: str) -> None:
    assert chunks(f'{{"features": [], "label": {label}}}')[0].y.tolist() == [-1]


BAD = [
    ('{"features": {"a": NaN}, "label": 1}', "a", "/features/a", "nan"),
    ('{"features": {"a": 1, "b": -Infinity}, "label": 1}', "b", "/features/b", "-inf"),
    ('{"features": {"a": 1, "b/c~d": 1e400}, "label": 1}', "b/c~d", "/features/b~1c~0d", "inf"),
    ('{"features": [1, 1e400], "label": 1}', "1", "/features/1", "inf"),
    ('{"features": [1, null], "label": 1}', "1", "/features/1", "None"),
    ('{"features": [true], "label": 1}', "0", "/features/0", "True"),
    ('{"features": {"a": {"b": 1}}, "label": 1}', "a", "/features/a", "{'b': 1}"),
    ('{"features": {"a": [1]}, "label": 1}', "a", "/features/a", "[1]"),
    ('{"features": 5, "label": 1}', "features", "/features", "5"),
    ('{"features": null, "label": 1}', "features", "/features", "None"),
    ('{"label": 1}', "features", "", "{'label': 1}"),
    ('{"features": {}, "label": 2}', "label", "/label", "2"),
    ('{"features": {}, "label": "1"}', "label", "/label", "'1'"),
    ('{"features": {}, "label": NaN}', "label", "/label", "nan"),
    ('{"features": {}, "label": null}', "label", "/label", "None"),
    ('{"features": {}}', "label", "/label", "None"),
    ('{"features": {}, "label": 1, "weight": -1}', "weight", "/weight", "-1.0"),
    ('{"features": {}, "label": 1, "weight": Infinity}', "weight", "/weight", "inf"),
    ('{"features": {}, "label": 1, "weight": true}', "weight", "/weight", "True"),
    ('{"features": {}, "label": 1, "id": 7}', "id", "/id", "7"),
    ('{"features": {}, "label": 1, "Weight": 1}', "Weight", "/Weight", "1"),
    ("[1, 2]", "", "", "[1, 2]"),
    ('{"features": {}, "label": 1', "", "", '\'{"features": {}, "label": 1\''),
    ('{"features": {}, "label": 1} {}', "", "", '\'{"features": {}, "label": 1} {}\''),
]


@pytest.mark.parametrize(("line", "column", "pointer", "got"), BAD)
def test_a_bad_line_names_file_line_name_value_and_pointer(line: str, column: str, pointer: str, got: str) -> None:
    error = bad('{"features": {"a": 1}, "label": 1}\n\n' + line + "\n")
    assert (error.file, error.line, error.column, error.path) == ("bad.ndjson", 3, column, pointer)
    at = f" - at {pointer}" if pointer else ""
    assert str(error).startswith("bad.ndjson, line 3" + (f", column {column}: expected" if column else ": expected"))
    assert str(error).endswith(f"got {got}{at}")


def test_an_integer_beyond_float_is_refused() -> None:
    error = bad(f'{{"features": {{"big": {"9" * 400}}}, "label": 1}}')
    assert (error.column, error.path) == ("big", "/features/big")


@pytest.mark.parametrize("features", [r'{"a": "\ud800"}', r'{"\udfff": 1}', r'{"a": ["b", "\ud800x"]}'])
def test_half_a_character_is_named_as_such(features: str) -> None:
    error = bad(f'{{"features": {features}, "label": 1}}')
    assert "half of a surrogate pair" in error.expected
    assert "truncated" not in str(error)
    assert chunks(r'{"features": {"a": "\ud83d\ude00"}, "label": 1}')[0].features == [{"a": "\U0001f600"}]


def test_hostile_lines_are_refused() -> None:
    assert bad('{"features": ' + "[" * 100_000 + "\n").line == 1
    assert bad(b'{"features": {"\xff": 1}, "label": 1}\n').line == 1
    assert bad('{"features": {"a": ' + "9" * 5_000 + '}, "label": 1}').line == 1


def test_rows_that_are_only_scored_need_no_label() -> None:
    (rows,) = chunks('{"features": [1]}\n{"features": [2], "label": 5}\n', labelled=False)
    assert list(rows.features) == [[1.0], [2.0]]
    assert rows.y.size == 0


def test_chunks_have_the_stated_size() -> None:
    text = "".join(f'{{"features": [{i}], "label": 0}}\n' for i in range(10))
    got = chunks(text, chunk_rows=4)
    assert [len(c) for c in got] == [4, 4, 2]
    assert [line for c in got for line in c.lines] == list(range(1, 11))


names = st.text(max_size=5)
values = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
    st.text(max_size=5),
    st.lists(names),
    st.none(),
)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.dictionaries(names, values, max_size=5), min_size=1, max_size=5))
def test_what_json_writes_is_read_back(table: list[dict[str, object]]) -> None:
    (rows,) = chunks("".join(json.dumps({"features": row, "label": 1}) + "\n" for row in table))
    expected = [{name: value for name, value in row.items() if value is not None} for row in table]
    assert list(rows.features) == expected
    assert repr(list(rows.features)) == repr(expected)  # 1.0 is not True


# -- flat objects, words as labels, names that stand twice -----------------------------------------------------------


def flat(data: bytes, **options: Any) -> Any:
    return read_ndjson(io.BytesIO(data), label="y", **options)


@pytest.mark.parametrize("chunk_rows", [1, 2, 100])
def test_flat_objects_with_the_name_of_the_label(chunk_rows: int) -> None:
    data = b'{"a":1,"y":0,"b":"x"}\n\n{"y":true,"b":null,"c":["u","v"],"d":false}\n{"a":2.5,"y":1.0}\n'
    chunks = list(flat(data, chunk_rows=chunk_rows))
    features = [x for chunk in chunks for x in chunk.features]
    assert features == [{"a": 1.0, "b": "x"}, {"c": ["u", "v"], "d": False}, {"a": 2.5}]
    assert [type(features[0]["a"]), type(features[1]["d"])] == [float, bool]
    assert np.concatenate([chunk.y for chunk in chunks]).tolist() == [-1, 1, 1]
    assert np.concatenate([chunk.lines for chunk in chunks]).tolist() == [1, 3, 4]
    (scored,) = flat(b'{"a":1}\n{"a":2,"y":"what"}\n', labelled=False)
    assert (list(scored.features), scored.y.size) == ([{"a": 1.0}, {"a": 2.0}], 0)


@pytest.mark.parametrize(
    ("labels", "positive", "signs"),
    [
        (b'"no" "yes" "no"', "yes", [-1, 1, -1]),
        (b"1 2 4", "2", [-1, 1, -1]),
        (b"1 2.0 4.5", "4.5", [-1, -1, 1]),
        (b"true false true", "false", [-1, 1, -1]),
    ],
)
def test_positive_names_a_label_in_both_forms(labels: bytes, positive: str, signs: list[int]) -> None:
    values = labels.split()
    flat_rows = b"".join(b'{"a":1,"y":%b}\n' % value for value in values)
    rows = b"".join(b'{"features":{"a":1},"label":%b}\n' % value for value in values)
    for reader in (flat(flat_rows, positive=positive), read_ndjson(io.BytesIO(rows), positive=positive, chunk_rows=3)):
        assert np.concatenate([chunk.y for chunk in reader]).tolist() == signs
        assert positive in reader.label_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b'{"a":1}', "column y: expected a label under 'y'"),
        (b'{"a":1,"y":null}', "column y: expected a label under 'y'"),
        (b'{"a":1,"y":3}', "column y: expected a label"),
        (b'{"a":{"b":1},"y":1}', "column a: .*at /a"),
        (b'{"features":{"b":1},"label":1}', "rows of features and label need no name of the label"),
        (b'{"a":NaN,"y":1}', "column a"),
        (b"[1]", "one JSON object of name to value"),
        (b'{"a":1,"a":2,"y":1}', "column a: expected names that stand once"),
        (b'{"a":1,"y":0,"y":1}', "column y: expected names that stand once"),
    ],
)
def test_a_bad_flat_line_is_named(line: bytes, words: str) -> None:
    with pytest.raises(BadRow, match=f"line 2, .*{words}" if "object of" not in words else f"line 2.*{words}"):
        list(flat(b'{"a":1,"y":0}\n' + line + b"\n"))


@pytest.mark.parametrize(
    "line",
    [
        b'{"features":{"a":1,"a":2},"label":1}',
        b'{"features":{"a":1},"label":1,"label":0}',
        b'{"features":{"a":1},"features":{"b":1},"label":0}',
        b'{"features":{"a":"x:y","a":"z"},"label":0}',
    ],
)
def test_a_name_that_stands_twice_is_refused(line: bytes) -> None:
    good = b'{"features":{"a":1},"label":0}\n' * 40
    with pytest.raises(BadRow, match=r"line 41, .*names that stand once"):
        list(read_ndjson(io.BytesIO(good + line + b"\n" + good)))


def test_colons_within_strings_are_no_names() -> None:
    data = b'{"features":{"a:b":"c:d","t":["12:30",":"]},"label":1,"id":"a:1"}\n'
    (chunk,) = read_ndjson(io.BytesIO(data))
    assert list(chunk.features) == [{"a:b": "c:d", "t": ["12:30", ":"]}]


def test_words_as_labels_ask_for_the_positive_one() -> None:
    with pytest.raises(InvalidParams, match=r"positive: expected one of the words .*'no', 'yes'"):
        list(flat(b'{"a":1,"y":"no"}\n{"a":2,"y":"yes"}\n'))
