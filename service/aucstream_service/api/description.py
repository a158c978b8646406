"""Operations of the OpenAPI document: what a route declares, and what is added to all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Response

from aucstream.answers import Problem
from aucstream.problem_types import PROBLEM_TYPES, ProblemType
from aucstream_service.api.schemas import SCHEMAS, example_of, ref
from aucstream_service.http.admission import SCHEMES, role_needed
from aucstream_service.settings import MODEL_NAME_PATTERN

Content = dict[str, Any]  # by media type

# Problem types that any request may meet before a route sees it.
ANYWHERE = (
    "host-not-allowed bad-request url-too-long headers-too-large not-implemented version-not-supported overloaded "
    "not-ready internal-error"
)
HEADERS: dict[str, Any] = {
    "Aucstream-Durability": {
        "description": "what an acknowledged event survives: disk = kill and loss of power, os = kill, memory = neither",
        "schema": {"type": "string", "enum": ["disk", "os", "memory"]},
    },
    "ETag": {"description": "of the spec", "schema": {"type": "string"}},
    "Retry-After": {"description": "seconds", "schema": {"type": "string"}},
    "X-Request-ID": {"description": "as sent, or new", "schema": {"type": "string"}},
    "traceparent": {"description": "W3C trace context: the trace as sent, or new", "schema": {"type": "string"}},
}


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


COMMON_HEADERS = _headers("X-Request-ID", "traceparent", "Aucstream-Durability")


def operation(
    summary: str,
    answers: Mapping[int, tuple[str, type | Content | None]],
    problems: str = "",
    *,
    description: str | None = None,
    body: tuple[str, type | Content] | None = None,
    etag: bool = False,
) -> dict[str, Any]:
    """Return the arguments of a route that describe its operation.

    Parameters
    ----------
    summary, description : str
        Texts of the operation.
    answers : dict
        Description and content of each status that is no problem; a type stands for JSON.
    problems : str
        Names of the problem types that the route answers with, separated by spaces.
    body : tuple, optional
        Description and content of the request's body.
    etag : bool
        Whether the answers have an entity tag.
    """
    headers = {"headers": _headers("ETag")} if etag else {}
    extra: dict[str, Any] = {"x-problems": problems.split()}
    if body is not None:
        extra["requestBody"] = {"required": True, "description": body[0], "content": _content(body[1])}
    return {
        "summary": summary,
        "description": description,
        "response_class": Response,
        "responses": {
            status: {"description": text, **headers, **({} if content is None else {"content": _content(content)})}
            for status, (text, content) in answers.items()
        },
        "openapi_extra": extra,
    }


def _content(content: type | Content) -> Content:
    return {"application/json": {"schema": ref(content)}} if isinstance(content, type) else content


def complete(document: dict[str, Any]) -> None:
    """Add to a document of FastAPI what all operations have in common: problems, keys, headers, examples, schemas."""
    for path, operations in document["paths"].items():
        for method, described in operations.items():
            role = role_needed(method.upper(), path)
            names = described.pop("x-problems") + ANYWHERE.split()
            if path.startswith("/v1/"):
                names += ["invalid-request", "invalid-query"]
            if role is not None:
                names += ["unauthorized", "forbidden", "rate-limited"]
            if "requestBody" in described:
                names += ["slow-request", "bad-encoding"]
            answers = {code: answer for code, answer in described["responses"].items() if code < "400"}
            for answer in answers.values():
                answer["headers"] = COMMON_HEADERS | answer.get("headers", {})
            for part in (described.get("requestBody", {}), *answers.values()):
                for kind, content in part.get("content", {}).items():
                    if kind == "application/json":
                        content["example"] = example_of(content["schema"])
            described["responses"] = dict(sorted({**answers, **_refusals(names)}.items()))
            described["security"] = [] if role is None else [{scheme: [role.name.lower()]} for scheme in SCHEMES]
            for parameter in described.get("parameters", ()):
                if parameter["in"] == "path":
                    parameter["schema"] = {"type": "string", "pattern": MODEL_NAME_PATTERN}
    types = dict(sorted(PROBLEM_TYPES.items()))
    document["components"] = {
        "schemas": SCHEMAS,
        "responses": {name: _refusal([entry]) for name, entry in types.items()},
        "examples": {name: _example(entry) for name, entry in types.items()},
        "headers": HEADERS,
        "securitySchemes": SCHEMES,
    }


def _refusals(names: Sequence[str]) -> dict[str, Any]:
    """Return the answers for problem types by status."""
    statuses: dict[str, list[ProblemType]] = {}
    for name in dict.fromkeys(names):
        statuses.setdefault(str(PROBLEM_TYPES[name].status), []).append(PROBLEM_TYPES[name])
    return {
        status: _refusal(entries) if entries[1:] else {"$ref": f"#/components/responses/{entries[0].name}"}
        for status, entries in statuses.items()
    }


def _refusal(entries: Sequence[ProblemType]) -> dict[str, Any]:
    """Return the answer for problem types of one status."""
    examples = {entry.name: {"$ref": f"#/components/examples/{entry.name}"} for entry in entries}
    return {
        "description": "; ".join(entry.title for entry in entries),
        "headers": COMMON_HEADERS | (_headers("Retry-After") if entries[0].status in (429, 503) else {}),
        "content": {"application/problem+json": {"schema": ref(Problem), "examples": examples}},
    }


def _example(entry: ProblemType) -> dict[str, Any]:
    errors = [{"pointer": "/features/amount", "message": "expected a finite number"}] if entry.status == 422 else []
    value = {"type": entry.uri, "title": entry.title, "status": entry.status, "detail": entry.title, "errors": errors}
    return {"summary": entry.title, "description": entry.meaning, "value": {**value, "request_id": "5f0c1d2e3a4b-1"}}


def resolved(document: dict[str, Any], described: dict[str, Any]) -> dict[str, Any]:
    """Return what a description stands for: itself, or what it refers to."""
    target: Any = described
    while "$ref" in target:
        place, target = target["$ref"], document
        for part in place.removeprefix("#/").split("/"):
            target = target[part]
    return dict(target)
