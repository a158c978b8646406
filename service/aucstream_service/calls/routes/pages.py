"""Pages: the dashboard and the description of the API. All assets are the service's own."""

from __future__ import annotations

import hashlib
import html
import json
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request, Response

from aucstream_service.api.description import resolved
from aucstream_service.errors.exceptions import RouteNotFound
from aucstream_service.http.preconditions import IfNoneMatch, unchanged

STATIC = Path(__file__).parents[2] / "static"
KINDS = {".css": "text/css", ".js": "text/javascript", ".html": "text/html"}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",  # browsers revalidate by the ETag
}


class Document:
    """Bytes that do not change while the process runs, with their entity tag."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._data = data
        self._kind = kind
        self._etag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'

    def answer(self, if_none_match: str | None) -> Response:
        """Return the document, or 304 where the client has it."""
        return unchanged(if_none_match, self._etag) or Response(
            self._data, headers={**HEADERS, "ETag": self._etag}, media_type=self._kind
        )


def _page(title: str, content: str) -> Document:
    text = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        '<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,">'
        f'<link rel="stylesheet" href="static/style.css"></head><body>{content}</body></html>'
    )
    return Document(text.encode(), "text/html")


def pages_router() -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter(include_in_schema=False)
    static = {path.name: Document(path.read_bytes(), KINDS[path.suffix]) for path in STATIC.iterdir()}
    documents: dict[str, Document] = {}

    @router.get("/", response_class=Response)
    async def dashboard(if_none_match: IfNoneMatch = None) -> Response:
        return static["dashboard.html"].answer(if_none_match)

    @router.get("/static/{file}", response_class=Response)
    async def asset(file: str, if_none_match: IfNoneMatch = None) -> Response:
        if file not in static:
            raise RouteNotFound("path", "one of those in /openapi.json", f"/static/{file[:80]}")
        return static[file].answer(if_none_match)

    @router.get("/openapi.json", response_class=Response)
    async def openapi(request: Request, if_none_match: IfNoneMatch = None) -> Response:
        if "openapi" not in documents:
            text = json.dumps(request.app.openapi(), ensure_ascii=False, separators=(",", ":"))
            documents["openapi"] = Document(text.encode(), "application/json")
        return documents["openapi"].answer(if_none_match)

    @router.get("/docs", response_class=Response)
    async def docs(request: Request, if_none_match: IfNoneMatch = None) -> Response:
        if "docs" not in documents:
            documents["docs"] = _page("aucstream API", _described(request.app.openapi()))
        return documents["docs"].answer(if_none_match)

    return router


def _described(document: dict[str, Any]) -> str:
    parts = [f"<h1>{html.escape(document['info']['title'])}, version {html.escape(document['info']['version'])}</h1>"]
    parts.append(f"<p>{html.escape(document['info'].get('summary', ''))} <a href=openapi.json>openapi.json</a></p>")
    for path, operations in document["paths"].items():
        for verb, operation in operations.items():
            parts.append(
                f"<details><summary><span class=verb>{verb.upper()}</span><code>{html.escape(path)}</code> "
                f"{html.escape(operation.get('summary', ''))}</summary>"
            )
            if operation.get("description"):
                parts.append(f"<p>{html.escape(operation['description'])}</p>")
            if "requestBody" in operation:
                parts.append(f"<p>Body: {html.escape(operation['requestBody'].get('description', ''))}</p>")
                parts.append(_content(operation["requestBody"]["content"]))
            for status, described in sorted(operation["responses"].items()):
                answer = resolved(document, described)
                parts.append(f"<p><b>{html.escape(status)}</b> {html.escape(answer['description'])}</p>")
                if status.startswith("2"):
                    parts.append(_content(answer.get("content", {})))
            parts.append("</details>")
    return "".join(parts)


def _content(content: dict[str, Any]) -> str:
    parts = []
    for kind, described in content.items():
        example = described.get("example")
        shown = "" if example is None else f"<pre>{html.escape(json.dumps(example, indent=2))}</pre>"
        parts.append(f"<p><code>{html.escape(kind)}</code></p>{shown}")
    return "".join(parts)
