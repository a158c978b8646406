"""Conditional requests, HEAD, and what may be kept by a cache."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.service.running import Running, problem

OCTETS = {"Content-Type": "application/octet-stream"}
READS = ("", "/evaluation", "/roc", "/weights", "/snapshot")


@pytest.mark.parametrize("path", ["/", "/docs", "/openapi.json", "/static/dashboard.js", "/static/style.css"])
def test_what_stays_is_asked_for_by_its_tag(service: Running, path: str) -> None:
    first = service.http.get(path)
    assert first.status_code == 200
    assert first.headers["cache-control"] == "no-cache"
    assert "unsafe" not in first.headers["content-security-policy"]
    again = service.http.get(path, headers={"If-None-Match": f'"other", W/{first.headers["etag"]}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", first.headers["etag"])
    assert service.http.get(path, headers={"If-None-Match": '"other"'}).content == first.content


def test_a_description_is_not_sent_again_for_the_same_spec(service: Running, model: str) -> None:
    path = f"/v1/models/{model}"
    etag = service.http.get(path).headers["etag"]
    for known in (etag, "*", f'"x",{etag}'):
        answer = service.http.get(path, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert service.http.get(path, headers={"If-None-Match": '"x"'}).json()["name"] == model
    problem(service.http.get("/v1/models/none", headers={"If-None-Match": "*"}), 404, "model-not-found")


def test_every_get_takes_head_and_what_moves_is_not_stored(service: Running, model: str) -> None:
    service.learn(model, {"a": 1.0}, 1)
    paths = [f"/v1/models/{model}{read}" for read in READS] + ["/v1/models", "/livez", "/readyz", "/", "/docs"]
    for path in (*paths, "/v1/models/none", "/none", "/metrics"):
        got, head = service.http.get(path), service.http.head(path)
        assert (head.status_code, head.content) == (got.status_code, b"")
        assert head.headers["content-type"] == got.headers["content-type"]
        if path != "/metrics":
            assert abs(int(head.headers["content-length"]) - len(got.content)) < 10  # a problem names its request
        if path not in ("/", "/docs"):
            assert got.headers["cache-control"] == head.headers["cache-control"] == "no-store"


def test_changes_may_expect_what_is_there(service: Running) -> None:
    def put(headers: dict[str, str], **spec: Any) -> Any:
        return service.http.put("/v1/models/expected", json={"algorithm": "solam", **spec}, headers=headers)

    only_new, only_there = {"If-None-Match": "*"}, {"If-Match": "*"}
    problem(put(only_there), 412, "precondition-failed")
    problem(service.http.delete("/v1/models/expected", headers=only_there), 404, "model-not-found")
    created = put(only_new)
    assert created.status_code == 201
    etag = {"If-Match": created.headers["etag"]}
    problem(put(only_new), 412, "precondition-failed")
    assert put(only_there).status_code == put(etag).status_code == 200
    problem(put({"If-Match": '"other"'}), 412, "precondition-failed")
    problem(put({"If-Match": f"W/{created.headers['etag']}"}), 412, "precondition-failed")
    problem(put(etag, seed=3), 409, "spec-conflict")

    service.learn("expected", {"a": 1.0}, 1)
    snapshot = service.http.get("/v1/models/expected/snapshot").content
    for headers in ({"If-Match": '"other"'}, only_new):
        refused = service.raw("/v1/models/expected/snapshot", snapshot, {**OCTETS, **headers}, "PUT")
        problem(refused, 412, "precondition-failed")
        problem(service.http.delete("/v1/models/expected", headers={"If-Match": '"other"'}), 412, "precondition-failed")
    assert service.describe("expected")["seq"] == 1
    assert service.raw("/v1/models/expected/snapshot", snapshot, {**OCTETS, **etag}, "PUT").status_code == 200
    assert service.raw("/v1/models/other/snapshot", snapshot, {**OCTETS, **only_new}, "PUT").status_code == 201
    for name in ("expected", "other"):
        assert service.http.delete(f"/v1/models/{name}", headers=etag).status_code == 204


@pytest.mark.parametrize("slash", ["%2f", "%2F"])
def test_an_escaped_slash_is_no_step_of_the_path(service: Running, slash: str) -> None:
    service.create("slashed")
    assert service.http.get("/v1/models/slashed/evaluation").status_code == 200
    for call in (service.http.get, service.http.delete):
        for path in (f"/v1/models/slashed{slash}evaluation", f"/v1{slash}models/slashed", f"/v1/models{slash}slashed"):
            assert call(path).status_code in (404, 422), path
    body = {"features": {"a": 1}, "label": 1}
    answer = service.http.post(f"/v1/models/slashed{slash}learn-one", json=body)
    assert answer.status_code in (404, 405, 422)
    assert service.describe("slashed")["seq"] == 0
    assert service.http.delete("/v1/models/slashed").status_code == 204


def test_the_pages_name_nothing_elsewhere_and_hold_no_code_of_their_own(service: Running) -> None:
    for path in ("/", "/docs"):
        text = service.http.get(path).text
        assert not re.search(r"<script>|<style>|\son\w+=|\sstyle=|(src|href)=\"?https?:", text)
    problem(service.http.get("/static/..%2Fsettings.py"), 404, "not-found")
    problem(service.http.get("/static/none.js"), 404, "not-found")
