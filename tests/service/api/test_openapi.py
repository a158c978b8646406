"""The document in `openapi/` is the one the application describes, and it is complete."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from aucstream_service.api.description import resolved
from aucstream_service.ops.openapi import document
from tests.service.running import ROOT, Running
from tests.service.stream import rows

DOCUMENT: dict[str, Any] = json.loads(document())
OPERATIONS = [
    (path, verb, operation) for path, operations in DOCUMENT["paths"].items() for verb, operation in operations.items()
]


def test_the_file_is_fresh() -> None:
    assert (ROOT / "openapi" / "openapi.json").read_text() == document(), (
        "python -m aucstream_service.ops.openapi > openapi/openapi.json"
    )


def test_the_service_serves_the_same(service: Running) -> None:
    assert service.http.get("/openapi.json").json() == DOCUMENT


def test_every_reference_leads_somewhere() -> None:
    text = json.dumps(DOCUMENT)
    assert len(text) < 200_000
    for part in set(re.findall(r'"\$ref": "([^"]*)"', text)):
        assert resolved(DOCUMENT, {"$ref": part})
    assert DOCUMENT["openapi"].startswith("3.1")


@pytest.mark.parametrize(("path", "verb", "operation"), OPERATIONS)
def test_every_body_has_an_example_and_every_error_is_a_problem(
    path: str, verb: str, operation: dict[str, Any]
) -> None:
    assert operation["summary"]
    if "requestBody" in operation:
        for kind, content in operation["requestBody"]["content"].items():
            assert "example" in content or kind != "application/json"
    for status, described in operation["responses"].items():
        answer = resolved(DOCUMENT, described)
        assert answer["description"]
        if status.startswith("2"):
            for kind, content in answer.get("content", {}).items():
                assert "example" in content or kind != "application/json"
        else:
            if status == "304":
                assert "content" not in answer
                continue
            assert list(answer["content"]) == ["application/problem+json"], (path, verb, status)
            examples = answer["content"]["application/problem+json"]["examples"]
            for name, example in examples.items():
                value = resolved(DOCUMENT, example)["value"]
                assert (value["type"].rpartition(":")[2], str(value["status"])) == (name, status)
            assert examples


def test_the_calls_of_version_1_are_there() -> None:
    assert {(path, verb) for path, verb, _ in OPERATIONS} == {
        ("/v1/models", "get"),
        ("/v1/models/{name}", "put"),
        ("/v1/models/{name}", "get"),
        ("/v1/models/{name}", "patch"),
        ("/v1/models/{name}/rename", "post"),
        ("/v1/models/{name}/reset-evaluation", "post"),
        ("/v1/models/{name}", "delete"),
        ("/v1/models/{name}/learn-one", "post"),
        ("/v1/models/{name}/learn-many", "post"),
        ("/v1/models/{name}/label-one", "post"),
        ("/v1/models/{name}/label-many", "post"),
        ("/v1/models/{name}/predict-one", "post"),
        ("/v1/models/{name}/predict-many", "post"),
        ("/v1/models/{name}/evaluation", "get"),
        ("/v1/models/{name}/roc", "get"),
        ("/v1/models/{name}/weights", "get"),
        ("/v1/models/{name}/snapshots", "get"),
        ("/v1/models/{name}/export", "get"),
        ("/v1/models/{name}/rollback", "post"),
        ("/v1/models/{name}/snapshot", "get"),
        ("/v1/models/{name}/snapshot", "put"),
        ("/livez", "get"),
        ("/healthz", "get"),
        ("/readyz", "get"),
        ("/metrics", "get"),
        ("/v1/models/{name}/events", "get"),
        ("/v1/models/{name}/events", "delete"),
    }


def test_the_examples_work(service: Running, model: str) -> None:
    for path, verb, operation in OPERATIONS:
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            if kind != "application/json":
                continue
            if path.endswith("/rollback"):  # of no snapshot that is there
                continue
            name = "from-example" if verb == "put" else model
            answer = service.http.request(verb, path.replace("{name}", name), json=content["example"])
            assert str(answer.status_code) in operation["responses"], answer.text
            if verb != "put":
                assert answer.status_code == 200, answer.text
            if path.endswith("/rename"):
                assert service.post(content["example"]["to"], "rename", {"to": model}).status_code == 200
    service.http.delete("/v1/models/from-example")
    assert service.post(model, "learn-many", rows(5)).status_code == 200
