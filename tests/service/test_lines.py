from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from service.lines import LineReader


@given(
    st.lists(st.sampled_from([b"", b" ", b"a", b"bb", b"c" * 8, b"d" * 9, b"e" * 40]), max_size=12),
    st.booleans(),
    st.lists(st.integers(1, 30), min_size=1),
)
def test_lines_do_not_depend_on_how_the_body_is_cut(pieces: list[bytes], ended: bool, cuts: list[int]) -> None:
    body = b"\n".join(pieces) + (b"\n" if ended else b"")
    expected = [
        (number, None if len(piece) > 8 else piece)
        for number, piece in enumerate(body.split(b"\n"), 1)
        if piece.strip()
    ]
    reader = LineReader(8)
    found = []
    at = 0
    while at < len(body):
        cut = cuts[at % len(cuts)]
        found += reader.feed(body[at : at + cut])
        at += cut
    found += reader.end()
    assert found == expected
