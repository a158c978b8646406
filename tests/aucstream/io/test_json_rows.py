"""Lines of one shape: whatever the compiled reader takes, msgspec takes, with the same values to the last bit."""

from __future__ import annotations

import json
import struct

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aucstream.io.json_rows import COMPILED, JsonRows, PlainRows
from aucstream.io.ndjson import Row

pytestmark = pytest.mark.skipif(not COMPILED, reason="only compiled code reads lines of one shape")

SIGNS = {False: -1.0, -1: -1.0, True: 1.0}


def read(lines: list[bytes], start: int = 0) -> PlainRows | None:
    """Learn the first line; return what is read from line `start` on."""
    reader = JsonRows()
    reader.learn(lines[0])
    return reader.read(b"\n".join(lines), sum(len(line) + 1 for line in lines[:start]))


def bits(numbers: list[object]) -> list[bytes]:
    return [struct.pack("d", number) for number in numbers]


def check(lines: list[bytes], rows: PlainRows) -> None:
    """Compare rows with what msgspec makes of their lines."""
    data = b"\n".join(lines)
    for i in range(len(rows)):
        line = data[rows.starts[i] : rows.starts[i + 1]]
        typed, plain = msgspec.json.decode(line, type=Row), msgspec.json.decode(line)
        assert set(plain) <= {"features", "label", "weight", "id"}
        for features in (typed.features, plain["features"]):
            values = list(features.values()) if isinstance(features, dict) else features
            assert rows.names == (list(features) if isinstance(features, dict) else None)
            assert bits(values) == bits(rows.values[i].tolist()), line
            assert not any(isinstance(value, bool) for value in values)
        assert ("label" in plain) == (rows.signs is not None)
        if rows.signs is not None:
            assert SIGNS[plain["label"]] == SIGNS[typed.label] == rows.signs[i]
        assert ("weight" in plain) == (rows.weights is not None)
        if rows.weights is not None:
            assert bits([typed.weight]) == bits([plain["weight"]]) == bits([rows.weights[i]])
            assert 0.0 <= rows.weights[i] < np.inf
        id_ = None if rows.ids is None else data[rows.ids[i, 0] : rows.ids[i, 1]].decode()
        assert (None if typed.id is msgspec.UNSET else typed.id) == id_


TOKENS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.floats(-1e6, 1e6).map(lambda value: repr(round(value, 6))),
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-(10**18), 10**18).map(str),
    st.from_regex(r"-?(0|[1-9][0-9]{0,20})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,4})?", fullmatch=True),
    st.text("0123456789+-.eE", min_size=1, max_size=12),
    st.sampled_from(["-0", "-0.0", "0e5", "-0e1", "01", "1.", ".5", "+1", "1e5", "1E+05", "1e", "1e400", "4e-320"]),
    st.sampled_from(["true", "false", "null", '"a"', "[1]", "{}", "NaN", "Infinity", "9007199254740993", "", "0x1"]),
)
NAMES = st.lists(st.text(max_size=12), min_size=1, max_size=4, unique=True)


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_what_is_taken_is_what_msgspec_reads(data: st.DataObject) -> None:
    names = data.draw(st.none() | NAMES)
    blank = data.draw(st.sampled_from(["", "", " ", "\t "]))
    fields = data.draw(st.permutations(["features", "label", "weight", "id"]))
    fields = [name for name in fields if name == "features" or data.draw(st.booleans())]
    ascii_ = data.draw(st.booleans())
    width = data.draw(st.integers(1, 4)) if names is None else len(names)

    def line(tokens: list[str], label: str, weight: str, id_: str) -> bytes:
        if names is not None:
            tokens = [f"{json.dumps(n, ensure_ascii=ascii_)}:{blank}{t}" for n, t in zip(names, tokens, strict=True)]
        together = f",{blank}".join(tokens)
        parts = {
            "features": f"[{together}]" if names is None else f"{{{blank}{together}}}",
            "label": label,
            "weight": weight,
            "id": id_,
        }
        body = f",{blank}".join(f'"{name}"{blank}:{parts[name]}' for name in fields)
        return f"{blank}{{{body}}}{blank}".encode(errors="surrogatepass")

    lines = [line(["1"] * width, "0", "1", '"a"')]
    for _ in range(data.draw(st.integers(1, 4))):
        number = TOKENS if data.draw(st.booleans()) else st.floats(-9, 9).map(repr)
        made = line(
            [data.draw(number) for _ in range(width)],
            data.draw(st.sampled_from(["true", "false", "0", "1", "-1", "1.0", "-1e0", "0.0", "0.5"]) | TOKENS),
            data.draw(st.sampled_from(["1", "0.5", "0", "0.0", "-0.0", "-1"]) | TOKENS),
            data.draw(
                st.sampled_from(["a", "k-1", "x" * 256, "x" * 257, "", "a b", "é", 'a"']).map(json.dumps) | TOKENS
            ),
        )
        if data.draw(st.integers(0, 9)) == 0:  # a byte changed
            at = data.draw(st.integers(0, len(made)))
            made = made[:at] + data.draw(st.binary(max_size=1)) + made[at + 1 :]
        lines.append(made)
    for start in range(len(lines)):
        rows = read(lines, start)
        if rows is not None:
            check(lines, rows)


def row(x: float, y: float = 1.0, **fields: object) -> bytes:
    return json.dumps({"features": {"x": x, "y": y}, **fields}).encode()


def test_all_plain_lines_are_taken_and_the_first_other_one_stops() -> None:
    random = np.random.default_rng(0)
    numbers = [random.normal() * 10.0**e for e in range(-12, 12)] + [0, -0.0, 2**53 + 1, -(10**17), 0.1, 1e22, 5]
    some = [row(float(x) if i % 2 else round(x, 6), i, label=i % 2 == 0, id=f"k{i}") for i, x in enumerate(numbers)]
    for end in (b"", b"\n", b"\r\n"):
        lines = [line + end.removesuffix(b"\n") for line in some]
        rows = read([*lines, b""][: len(lines) + bool(end)])
        assert rows is not None and len(rows) == len(some)
        check(lines, rows)
    rows = read([*some, row(1.0, label=True), *some])
    assert rows is not None and len(rows) == len(some) and rows.end == sum(map(len, some)) + len(some)
    assert list(rows.columns) == [json.loads(line, parse_int=float)["features"] for line in some]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"[1]",
        row(True),
        b'{"features": {"x": "w"}}',
        b'{"features": {"x": null}}',
        b'{"features": {"x": [1]}}',
        b'{"features": {"x": 1, "x": 2}}',
        b'{"features": {"x": 1, "\\u0078": 2}}',
        b'{"features": {"x": 1}, "label": null}',
        b'{"features": {"x": 1}, "label": 1, "label": 0}',
        b'{"features": {"x": 1}, "l\\u0061bel": 1}',
        b'{"features": {"x": 1}, "explain": true}',
        b'{"features": {}}',
        b'{"features": []}',
        b'{"features": [[1]]}',
    ],
)
def test_other_lines_have_no_shape(line: bytes) -> None:
    reader = JsonRows()
    assert not reader.learn(line)
    assert not reader.ready
    assert reader.read(line) is None


def test_a_call_takes_no_more_rows_than_asked_for() -> None:
    lines = [row(i, label=True) for i in range(10)]
    reader, data = JsonRows(), b"\n".join(lines)
    assert reader.learn(lines[0])
    got, at = [], 0
    while (rows := reader.read(data, at, 4)) is not None:
        got.append(rows.values[:, 0].tolist())
        at = rows.end
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert at == len(data)


def test_where_every_line_has_another_shape_few_are_learned() -> None:
    reader = JsonRows()
    tried = 0
    for i in range(1_000):
        line = json.dumps({"features": {f"n{i}": 1.5}}).encode()
        tried += reader.ready
        assert reader.read(line) is None
        reader.learn(line)
    assert 0 < tried < 200
