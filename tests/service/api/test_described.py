"""Schemathesis over the whole API description: no 5xx, and every answer is one of those described.

For each operation bodies, parameters and headers that fit the description (they must be taken) and that
do not (they must be refused). The long run: `pytest -m soak tests/service/api/test_described.py`.
"""

from __future__ import annotations

import collections
import json
from collections.abc import Iterator
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import CHECKS
from schemathesis.generation.modes import GenerationMode

from aucstream_service.ops.openapi import document
from tests.service.running import Local

NAME = "described"
QUICK, LONG = 12, 200  # examples of an operation in each mode
REFUSALS = {410, 412, 413}  # beside those that Schemathesis takes for a refusal
STREAMS = {("get", "/v1/models/{name}/events")}  # does not end by itself: test_streams.py
ALWAYS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
]

_values = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.lists(st.text(max_size=3))
)
_lines = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "features": st.dictionaries(st.text(max_size=3), _values, max_size=3) | st.lists(st.floats(), max_size=3),
            "label": st.sampled_from([True, False, 0, 1, -1, 2, "x", None]),
            "id": st.text(max_size=3),
            "weight": st.floats(),
        },
    ),
    max_size=5,
).map(lambda rows: "\n".join(map(json.dumps, rows)).encode())
schemathesis.openapi.media_type("application/x-ndjson", _lines | st.binary())
schemathesis.openapi.media_type("application/octet-stream", st.binary())
schemathesis.openapi.media_type("application/vnd.safetensors", st.binary())


def _tried() -> dict[str, Any]:
    """The description, for a service without keys, with algorithms that are quick to make."""
    described: dict[str, Any] = json.loads(document())
    del described["components"]["securitySchemes"]
    for operations in described["paths"].values():
        for operation in operations.values():
            del operation["security"]
    described["components"]["schemas"]["ModelSpec"]["properties"]["algorithm"]["enum"] = ["solam", "psam"]
    return described


SCHEMA = schemathesis.openapi.from_dict(_tried())
MODES = {
    GenerationMode.POSITIVE: CHECKS.get_by_names(ALWAYS),
    GenerationMode.NEGATIVE: CHECKS.get_by_names([*ALWAYS, "negative_data_rejection"]),
}
OPERATIONS = [result.ok() for result in SCHEMA.get_all_operations()]
TRIED = [operation for operation in OPERATIONS if (operation.method, operation.path) not in STREAMS]


class Described(Local):
    """A service, and what it answered."""

    def __init__(self, data_dir: Any) -> None:
        super().__init__(data_dir, max_models=100, max_body_bytes=200_000)
        self.session = requests.Session()
        self.answers: collections.Counter[str] = collections.Counter()

    def attempt(self, case: Any, mode: GenerationMode) -> None:
        if not self.create(NAME).is_success:
            self.http.delete(f"/v1/models/{NAME}")
            self.create(NAME)
        answer = case.call(base_url=str(self.http.base_url), session=self.session, timeout=60)
        self.answers[f"{case.method} {case.path} {answer.status_code}"] += 1
        refused = answer.status_code in REFUSALS
        case.validate_response(answer, checks=MODES[GenerationMode.POSITIVE if refused else mode])


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    running = Described(tmp_path_factory.mktemp("described") / "data")
    yield running
    running.session.close()
    running.stop()
    for line, count in sorted(running.answers.items()):
        print(line, count)


def familiar(case: Any, ids: list[str]) -> Any:
    """Give some rows an id that other calls use, too, so that labels meet predictions."""
    rows = case.body if isinstance(case.body, list) else [case.body]
    for row, id_ in zip(rows, ids, strict=False):
        if isinstance(row, dict) and "id" in row:
            row["id"] = id_
    return case


IDS = st.lists(st.sampled_from(["a", "b", "c"]), max_size=3)


def attempts(described: Described, operation: Any, mode: GenerationMode, examples: int) -> None:
    profile = settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=examples == QUICK,
        suppress_health_check=list(HealthCheck),
    )

    def run(case: Any, ids: list[str]) -> None:
        if mode is GenerationMode.POSITIVE:
            case = familiar(case, ids)
        described.attempt(case, mode)

    anywhere = operation.as_strategy(generation_mode=mode)
    if "{name}" not in operation.path:
        profile(given(anywhere, IDS)(run))()
        return
    profile(given(operation.as_strategy(generation_mode=mode, path_parameters={"name": NAME}), IDS)(run))()
    settings(profile, max_examples=max(2, examples // 6))(given(anywhere, IDS)(run))()


def test_every_operation_is_tried() -> None:
    operations = {(operation.method, operation.path) for operation in OPERATIONS}
    assert operations >= STREAMS
    assert len(TRIED) == len(operations) - len(STREAMS) >= 19


@pytest.mark.parametrize("mode", list(MODES), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", TRIED, ids=lambda operation: operation.label)
def test_an_answer_is_one_of_those_described(described: Described, operation: Any, mode: GenerationMode) -> None:
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        pytest.skip("nothing of it can be wrong")
    attempts(described, operation, mode, QUICK)


@pytest.mark.soak
@pytest.mark.parametrize("mode", list(MODES), ids=lambda mode: mode.value)
@pytest.mark.parametrize("operation", TRIED, ids=lambda operation: operation.label)
def test_an_answer_is_one_of_those_described_at_length(
    described: Described, operation: Any, mode: GenerationMode
) -> None:
    if mode is GenerationMode.NEGATIVE and not (operation.body or operation.query):
        pytest.skip("nothing of it can be wrong")
    attempts(described, operation, mode, LONG)
