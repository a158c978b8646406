"""Pages for people: the models with their AUC, and the description of the API. No assets from elsewhere."""

from __future__ import annotations

import html
import json
from typing import Any

from fastapi import APIRouter, Request, Response

from service.host import ModelHost

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 2rem auto; max-width: 60rem; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
code, pre { font: 14px/1.4 ui-monospace, monospace; } pre { overflow: auto; background: #8881; padding: .6rem; }
summary { cursor: pointer; padding: .2rem 0; } .verb { display: inline-block; width: 5rem; font-weight: 600; }
"""
_SCRIPT = """
const cell = (row, text, n) => { const c = row.insertCell(); c.textContent = text; if (n) c.className = 'n'; };
const show = v => v === null ? '\\u2013' : v.toFixed(4);
async function refresh() {
  const state = document.getElementById('state');
  try {
    const answer = await fetch('v1/models?limit=100');
    const page = await answer.json();
    if (!answer.ok) { state.textContent = page.detail; return; }
    const body = document.createElement('tbody');
    for (const m of page.models) {
      const e = await (await fetch(`v1/models/${m.name}/evaluation`)).json();
      const row = body.insertRow();
      cell(row, m.name); cell(row, m.spec.algorithm);
      cell(row, m.seq.toLocaleString(), 1); cell(row, m.positives.toLocaleString(), 1);
      cell(row, show(e.window.auc), 1);
      cell(row, e.window.auc_low === null ? '\\u2013' : `${show(e.window.auc_low)} \\u2013 ${show(e.window.auc_high)}`, 1);
      cell(row, show(e.total.auc), 1); cell(row, m.last_event_at ?? '\\u2013');
    }
    document.querySelector('tbody').replaceWith(body);
    state.textContent = page.models.length ? '' : 'no models yet';
  } catch { state.textContent = 'no answer from the service'; }
}
refresh(); setInterval(refresh, 2000);
"""


def _page(title: str, content: str, script: str = "") -> Response:
    document = (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_STYLE}</style></head>'
        f"<body>{content}<script>{script}</script></body></html>"
    )
    return Response(
        document,
        headers={
            "Content-Security-Policy": "default-src 'self' 'unsafe-inline'",
            "Cache-Control": "no-store",
        },
        media_type="text/html",
    )


def pages_router(host: ModelHost) -> APIRouter:
    """Return the routes of the pages."""
    router = APIRouter(include_in_schema=False)

    @router.get("/", response_class=Response)
    async def dashboard() -> Response:
        content = (
            "<h1>aucstream</h1><p id=state></p><table><thead><tr><th>model<th>algorithm<th class=n>seq"
            "<th class=n>positives<th class=n>AUC (window)<th class=n>95 %<th class=n>AUC (all)<th>last event</tr></thead>"
            f"<tbody></tbody></table><p>durability: {html.escape(host.settings.durability)} · "
            '<a href="docs">API</a> · <a href="openapi.json">openapi.json</a></p>'
        )
        return _page("aucstream", content, _SCRIPT)

    @router.get("/docs", response_class=Response)
    async def docs(request: Request) -> Response:
        return _page("aucstream API", _described(request.app.openapi()))

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
            for status, answer in sorted(operation["responses"].items()):
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
