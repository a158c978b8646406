"""Parts without a service: rows, problems, the event reader, what importing loads."""

from __future__ import annotations

import itertools
import json
import pickle
import subprocess
import sys
import time
from decimal import Decimal
from email.utils import formatdate
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.client import BadAnswer, LearnedMany, Problem, problems
from aucstream.client.decoding import decode
from aucstream.client.problems import ServiceFault, problem_of, seconds_of
from aucstream.client.rows import Example, learn_line, plain
from aucstream.client.sse import Event, EventReader
from aucstream.errors import InvalidBlock
from aucstream.features.encoding.entries import entries_of
from aucstream.problem_types import PROBLEM_TYPES

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(10**30), 10**30),
    st.floats(width=32, allow_nan=False, allow_infinity=False).map(np.float32),
    st.integers(-(2**63), 2**63 - 1).map(np.int64),
    st.fractions(max_denominator=1000).map(Fraction),
    st.decimals(-(10**9), 10**9, places=3).map(Decimal),
)
WORDS = st.text(max_size=5)
VALUES = st.one_of(
    NUMBERS,
    st.none(),
    st.booleans(),
    st.booleans().map(np.bool_),
    WORDS,
    WORDS.map(np.str_),
    st.lists(WORDS, max_size=4),
    st.frozensets(WORDS, max_size=4),
)


@given(st.dictionaries(st.text(st.characters(codec="utf-8", exclude_characters="="), max_size=5), VALUES, max_size=6))
def test_features_mean_the_same_over_there(features: dict[str, object]) -> None:
    sent = json.loads(learn_line(Example(features, True)).data)
    assert entries_of(sent["features"]) == [(n, v, k) for n, v, k in entries_of(features)]
    assert sent["label"] is True
    assert "id" not in sent
    assert "weight" not in sent


def test_rows_of_arrays() -> None:
    assert plain(np.array([1, 2], dtype=np.int8)) == [1.0, 2.0]
    assert plain((True, 2)) == [1.0, 2.0]
    assert plain([]) == []


def test_every_problem_of_the_service_has_a_class_of_its_own() -> None:
    for entry in PROBLEM_TYPES.values():
        document = {"type": "urn:aucstream:problem:" + entry.name, "title": entry.title, "detail": "d"}
        problem = problem_of(entry.status, {"retry-after": "2"}, json.dumps(document).encode())
        assert (problem.type, problem.status, problem.title, problem.retry_after) == (
            entry.name,
            entry.status,
            entry.title,
            2,
        )
        assert problems._BY_TYPE[entry.name] is type(problem)
        by_status = problem_of(entry.status, {}, b'{"type":"urn:aucstream:problem:of-tomorrow"}')
        assert isinstance(problem, type(by_status)), entry.name
        assert by_status.type == "of-tomorrow"
        copy = pickle.loads(pickle.dumps(problem))
        assert (type(copy), vars(copy), str(copy)) == (type(problem), vars(problem), str(problem))
        assert problem.passing is entry.passes
    assert set(problems._BY_TYPE) == set(PROBLEM_TYPES)


@pytest.mark.parametrize("content", [b"", b"<html>", b"[1]", b"\xff", b'{"errors":[1,2],"type":3}', b"null"])
def test_an_answer_that_is_not_the_services_is_still_told(content: bytes) -> None:
    problem = problem_of(418, {"x-request-id": "r-1"}, content)
    assert type(problem) is ServiceFault
    assert problem.request_id == "r-1"
    assert "418" in str(problem)
    assert isinstance(problem_of(502, {}, content), Problem)
    assert problem_of(502, {}, content).passing
    with pytest.raises(BadAnswer, match="expected an answer of the service"):
        decode(LearnedMany, b"<html>")


def test_retry_after_is_seconds_or_a_date() -> None:
    assert [seconds_of(text) for text in (None, "3", " 0 ", "soon", "-1", "1.5")] == [None, 3.0, 0.0, None, None, None]
    assert 8 < (seconds_of(formatdate(time.time() + 10, usegmt=True)) or 0) <= 10
    assert seconds_of("Wed, 21 Oct 2015 07:28:00 GMT") == 0.0


STREAM = "\ufeff: comment\r\nretry: 250\r\rid: 1\ndata: é\ndata:two\n\nevent: end\ndata: {}\r\n\r\nid: 2\n\nevent: x\n\ndata\n\n"
EVENTS = [Event("message", "é\ntwo", "1"), Event("end", "{}", "1"), Event("message", "", "2")]


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12))
def test_events_are_the_same_however_the_stream_is_cut(cuts: list[int]) -> None:
    data = STREAM.encode()
    edges = [0, *sorted(cuts), len(data)]
    reader = EventReader()
    events = [e for a, b in itertools.pairwise(edges) for e in reader.feed(data[a:b])]
    assert events == EVENTS
    assert reader.retry == 0.25


def test_importing_the_client_loads_no_kernels_and_no_service() -> None:
    heavy = ["numba", "scipy", "pandas", "sklearn", "river", "fastapi", "uvicorn", "service", "pydantic"]
    program = f"import sys, aucstream.client; print([m for m in {heavy!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"


def test_without_httpx_the_extra_is_named() -> None:
    program = "import sys; sys.modules['httpx'] = None; import aucstream.client"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert 'pip install "aucstream[client]"' in ran.stderr


@pytest.mark.parametrize("weight", ["2", -1.0, float("nan"), [1.0, 2.0]])
def test_a_weight_is_a_number_and_named_with_its_row(weight: object) -> None:
    with pytest.raises(InvalidBlock, match=r"weights: expected .*, got .* - at row 7$"):
        learn_line(Example({"a": 1}, True, weight=weight), "row 7")  # type: ignore[arg-type]
