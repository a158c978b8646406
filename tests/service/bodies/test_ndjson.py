from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from aucstream_service.bodies.bodies import Call, RowLimits
from aucstream_service.bodies.ndjson import LineReader, accepts
from aucstream_service.journal.row_batch import RowBatch

CUTS = st.lists(st.integers(1, 30), min_size=1)


def fed(reader: LineReader, body: bytes, cuts: list[int]) -> list[Any]:
    """Return the parts of a body that comes in pieces of these lengths."""
    found: list[Any] = []
    at = turn = 0
    while at < len(body):
        cut = cuts[turn % len(cuts)]
        found += reader.feed(body[at : at + cut])
        at, turn = at + cut, turn + 1
    return [*found, *reader.end()]


def lines(body: bytes, most: int) -> list[tuple[int, bytes | None]]:
    pieces = enumerate(body.split(b"\n"), 1)
    return [
        (number, None if len(piece) > most else piece) for number, piece in pieces if piece.strip() or len(piece) > most
    ]


@given(
    st.lists(
        st.sampled_from([b"", b" ", b"a", b"bb", b"c" * 8, b"d" * 9, b"e" * 40, b" " * 8, b"\t" * 9]), max_size=12
    ),
    st.booleans(),
    CUTS,
)
def test_lines_do_not_depend_on_how_the_body_is_cut(pieces: list[bytes], ended: bool, cuts: list[int]) -> None:
    body = b"\n".join(pieces) + (b"\n" if ended else b"")
    assert [item for part in fed(LineReader(8), body, cuts) for item in part] == lines(body, 8)


ROWS = [
    b'{"features": {"a": 1, "b": 0.5}, "label": true}',
    b'{"features": {"a": -1e3, "b": 7}, "label": false}',
    b'{"features": {"a": 1, "b": 0.5}, "label": 1, "weight": 2, "id": "x"}',
    b'{"features":{"b":2,"a":3},"label":0}',
    b'{"features": {"a": 1%s, "b": 2}, "label": true}' % (b"0" * 40),  # over the limit
    b'{"features": {"a": 1, "b": "word"}, "label": true}',
    b'{"features": {"a": 1, "a": 2}, "label": true}',  # refused
    b'{"features": {"a": 1, "b": 2, "c": 3}, "label": true}',  # too many
    b'{"features": {"a": 1, "bbbbb": 2}, "label": true}',  # too long a name
    b"[1]",
    b"",
]


def check_plain(runs: list[tuple[bytes, int]], cuts: list[int]) -> int:
    """Check that matrices and lines are the rows of a body; return how many rows came as matrices."""
    body = b"".join((line + b"\n") * times for line, times in runs)
    reader = LineReader(78, accepts(Call.LEARN, RowLimits(2, 4)))
    found: list[tuple[int, bytes | None]] = []
    plain = 0
    for part in fed(reader, body, cuts):
        if isinstance(part, RowBatch):
            plain += len(part)
            rows = [json.loads(line or b"") for _, line in part.as_lines()]
            assert [number for number, _ in part.as_lines()] == list(part.places)
            assert list(part.features) == [row["features"] for row in rows]
            assert part.signs.tolist() == [1.0 if row["label"] else -1.0 for row in rows]
            assert part.weights is None or part.weights.tolist() == [row["weight"] for row in rows]
            assert part.ids is None or part.ids == [row["id"] for row in rows]
            found += part.as_lines()
        else:
            found += part
    assert found == lines(body, 78)
    return plain


@given(
    st.lists(st.tuples(st.sampled_from(ROWS), st.integers(1, 80)), max_size=6),
    st.lists(st.integers(1, 9000), min_size=1),
)
def test_plain_lines_are_the_rows_that_they_say(runs: list[tuple[bytes, int]], cuts: list[int]) -> None:
    check_plain(runs, cuts)


def test_plain_lines_come_as_matrices_where_they_are_many() -> None:
    good, over, other, field, twice, order = (ROWS[at] for at in (0, 4, 1, 2, 6, 3))
    runs = [(good, 200), (over, 1), (other, 70), (twice, 1), (field, 90), (over, 2), (order, 63)]
    assert check_plain(runs, [10**6]) == 200 + 70 + 90
    assert check_plain([(good, 15)], [10**6]) == 0
    assert check_plain([(good, 17)], [10**6]) == 17
