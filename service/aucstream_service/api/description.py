"""Building blocks of the OpenAPI document: bodies, answers and problems with their examples."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from aucstream.errors import AucstreamError
from aucstream.registry import LEARNERS
from aucstream_service.api.schemas import DESCRIBED
from aucstream_service.errors import exceptions as errors
from aucstream_service.errors.problems import INTERNAL, TABLE, TYPE_PREFIX, Entry

REF = "#/components/schemas/{model}"

COMMON_HEADERS: dict[str, Any] = {
    "X-Request-ID": {"description": "as sent, or new", "schema": {"type": "string"}},
    "traceparent": {
        "description": "W3C trace context: the trace as sent, or new",
        "schema": {"type": "string"},
    },
    "Aucstream-Durability": {
        "description": "what an acknowledged event survives: disk = kill and loss of power, os = kill, memory = neither",
        "schema": {"type": "string", "enum": ["disk", "os", "memory"]},
    },
}


def ref(model: type[BaseModel]) -> dict[str, str]:
    """Return a reference to a described model."""
    return {"$ref": REF.format(model=model.__name__)}


def examples_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the first example of a model, as `example`."""
    extra: Any = model.model_config.get("json_schema_extra")
    return {"example": extra["examples"][0]} if extra else {}


def json_content(model: type[BaseModel], *, many: bool = False) -> dict[str, Any]:
    """Return content of one object, or of an array of them, with an example."""
    example = examples_of(model)
    if not many:
        return {"schema": ref(model), **example}
    content: dict[str, Any] = {"schema": {"type": "array", "items": ref(model)}}
    if example:
        content["example"] = [example["example"]]
    return content


def answer(description: str, content: dict[str, Any] | None = None, **headers: Any) -> dict[str, Any]:
    """Return the description of one answer."""
    described: dict[str, Any] = {"description": description, "headers": {**COMMON_HEADERS, **headers}}
    if content is not None:
        described["content"] = content
    return described


def problems(*kinds: type[AucstreamError]) -> dict[int | str, dict[str, Any]]:
    """Return the answers for what a call may raise, grouped by status, each with an example."""
    described: dict[int | str, dict[str, Any]] = {}
    entries = [TABLE[kind] for kind in (*kinds, errors.NotReady)]
    for entry in (*entries, INTERNAL):
        there = described.setdefault(entry.status, _problem_answer(entry))
        there["content"]["application/problem+json"]["examples"][entry.type] = {"value": _example(entry)}
        titles = [
            example["value"]["title"] for example in there["content"]["application/problem+json"]["examples"].values()
        ]
        there["description"] = "; ".join(titles)
    return described


def add_problems(operation: dict[str, Any], *kinds: type[AucstreamError]) -> None:
    """Add what an operation may be refused with to its answers."""
    responses = operation["responses"]
    for status, more in problems(*kinds).items():
        there = responses.setdefault(str(status), more)
        content = there["content"]["application/problem+json"]
        content["examples"].update(more["content"]["application/problem+json"]["examples"])
        there["description"] = "; ".join(example["value"]["title"] for example in content["examples"].values())
    operation["responses"] = dict(sorted(responses.items()))


def _problem_answer(entry: Entry) -> dict[str, Any]:
    headers: dict[str, Any] = {}
    if entry.status in (429, 503):
        headers["Retry-After"] = {"description": "seconds", "schema": {"type": "string"}}
    return answer(
        entry.title,
        {"application/problem+json": {"schema": {"$ref": REF.format(model="Problem")}, "examples": {}}},
        **headers,
    )


def _example(entry: Entry) -> dict[str, Any]:
    return {
        "type": TYPE_PREFIX + entry.type,
        "title": entry.title,
        "status": entry.status,
        "detail": entry.title,
        "errors": [{"pointer": "/features/amount", "message": "expected a finite number"}]
        if entry.status == 422
        else [],
        "request_id": "5f0c1d2e3a4b-1",
    }


def body(description: str, content: dict[str, Any]) -> dict[str, Any]:
    """Return `openapi_extra` that describes a request body."""
    return {"requestBody": {"required": True, "description": description, "content": content}}


def components() -> dict[str, Any]:
    """Return the schemas of everything described."""
    schemas: dict[str, Any] = {}
    for mode in ("validation", "serialization"):
        _, definitions = models_json_schema([(model, mode) for model in DESCRIBED], ref_template=REF)
        for name, schema in definitions.get("$defs", {}).items():
            schemas.setdefault(name, schema)
    schemas["ModelSpec"]["properties"]["algorithm"]["enum"] = list(LEARNERS)
    return dict(sorted(schemas.items()))


def shared(document: dict[str, Any]) -> None:
    """Move what many operations repeat into components: headers, examples of problems, whole answers."""
    headers: dict[str, Any] = {}
    examples: dict[str, Any] = {}
    answers: dict[str, list[dict[str, Any]]] = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, described in operation["responses"].items():
                for name, header in described.get("headers", {}).items():
                    if headers.setdefault(name, header) == header:
                        described["headers"][name] = {"$ref": f"#/components/headers/{name}"}
                for content in described.get("content", {}).values():
                    for name, example in content.get("examples", {}).items():
                        examples[name] = example
                        content["examples"][name] = {"$ref": f"#/components/examples/{name}"}
                alike = answers.setdefault(status, [])
                if described not in alike and not status.startswith(("2", "3")):
                    alike.append(described)
    responses: dict[str, Any] = {}
    for operations in document["paths"].values():
        for operation in operations.values():
            for status, described in operation["responses"].items():
                if described in answers[status]:
                    name = f"{status}-{answers[status].index(described) + 1}"
                    responses[name] = described
                    operation["responses"][status] = {"$ref": f"#/components/responses/{name}"}
    parts = {"responses": responses, "examples": examples, "headers": headers}
    document["components"].update({kind: dict(sorted(part.items())) for kind, part in parts.items()})


def resolved(document: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Return what a description stands for: itself, or what it refers to."""
    found: Any = described
    while "$ref" in found:
        place, found = found["$ref"], document
        for part in place.removeprefix("#/").split("/"):
            found = found[part]
    return dict(found)
