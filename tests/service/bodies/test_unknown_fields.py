"""Fields that a body does not have: refused by name, or passed over where the model says so."""

from __future__ import annotations

import json

import pytest

from tests.service.running import JSON, NDJSON, Running, problem

ENVELOPE = {"source": "/gate", "specversion": "1.0", "time": "2026-11-29T12:00:00Z"}


def lines(rows: list[dict[str, object]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def test_an_unknown_field_is_refused_by_name(service: Running) -> None:
    service.create("strict")
    row = {"features": {"a": 1}, "label": 1, **ENVELOPE}
    for call, body in (("learn-one", row), ("predict-one", {"features": {"a": 1}, **ENVELOPE})):
        document = problem(
            service.raw(f"/v1/models/strict/{call}", json.dumps(body).encode(), JSON), 422, "invalid-body"
        )
        assert "source" in document["detail"]
    assert service.describe("strict")["seq"] == 0
    assert "unknown_fields" not in service.describe("strict")["spec"]


def test_a_model_may_pass_them_over_in_every_call(service: Running) -> None:
    assert service.create("open", unknown_fields="ignore").status_code == 201
    assert service.describe("open")["spec"]["unknown_fields"] == "ignore"
    service.create("plain")
    for number in range(40):
        row = {"features": {"a": number, "b": f"w{number % 3}"}, "label": number % 2, "id": f"e{number}"}
        answers = [
            service.raw("/v1/models/plain/learn-one", json.dumps(row).encode(), JSON).json(),
            service.raw("/v1/models/open/learn-one", json.dumps({**ENVELOPE, **row}).encode(), JSON).json(),
        ]
        assert answers[0] == answers[1]
    features = {"features": {"a": 3, "b": "w1"}}
    for model, more in (("plain", {}), ("open", ENVELOPE)):
        path = f"/v1/models/{model}"
        one = service.raw(f"{path}/predict-one", json.dumps({**more, **features, "id": "p"}).encode(), JSON).json()
        label = service.raw(f"{path}/label-one", json.dumps({**more, "id": "p", "label": 1}).encode(), JSON).json()
        rows = [{**more, **features, "label": k % 2, "id": f"m{k}"} for k in range(30)]
        as_lines = service.raw(f"{path}/learn-many", lines(rows), NDJSON).json()
        as_array = service.raw(f"{path}/predict-many", json.dumps([{**more, **features}] * 3).encode(), JSON).json()
        scored = service.raw(f"{path}/predict-many", lines([{**more, **features}] * 3), NDJSON).text
        predicted = service.raw(
            f"{path}/predict-one", json.dumps({**more, **features, "id": "q"}).encode(), JSON
        ).json()
        labels = service.raw(f"{path}/label-many", lines([{**more, "id": "q", "label": 0}]), NDJSON).json()
        if model == "plain":
            expected = (one, label, as_lines, as_array, scored, predicted, labels)
        else:
            assert (one, label, as_lines, as_array, scored, predicted, labels) == expected
    events = service.raw("/v1/models/open/export?what=events", None, {}, "GET").text
    assert "specversion" not in events


def test_what_is_wrong_is_still_refused(service: Running) -> None:
    service.create("still", unknown_fields="ignore")
    for body, words in (
        ({**ENVELOPE, "data": {"features": {"a": 1}, "label": 1}}, "features"),
        ({**ENVELOPE, "features": {"a": 1}}, "label"),
        ({**ENVELOPE, "features": {"a": [1]}, "label": 1}, "a"),
    ):
        answer = service.raw("/v1/models/still/learn-one", json.dumps(body).encode(), JSON)
        assert answer.status_code == 422
        assert words in answer.text
    for raw in (b'{"features":{"a":1},"label":1,"x":1,"x":2}', b'{"features":{"a":1,"a":2},"label":1,"x":1}'):
        assert service.raw("/v1/models/still/learn-one", raw, JSON).status_code == 422
    assert service.describe("still")["seq"] == 0


@pytest.mark.parametrize(("before", "after"), [("refuse", "ignore"), ("ignore", "refuse")])
def test_it_can_be_changed_while_the_model_serves(service: Running, before: str, after: str) -> None:
    name = f"changing-{before}"
    service.create(name, unknown_fields=before)
    row = json.dumps({"features": {"a": 1}, "label": 1, **ENVELOPE}).encode()
    expected = {"refuse": 422, "ignore": 200}
    assert service.raw(f"/v1/models/{name}/learn-one", row, JSON).status_code == expected[before]
    patch = {"Content-Type": "application/merge-patch+json"}
    body = json.dumps({"unknown_fields": after}).encode()
    assert service.raw(f"/v1/models/{name}", body, patch, "PATCH").status_code == 200
    assert service.raw(f"/v1/models/{name}/learn-one", row, JSON).status_code == expected[after]
    wrong = json.dumps({"unknown_fields": "keep"}).encode()
    assert "unknown_fields" in json.dumps(
        problem(service.raw(f"/v1/models/{name}", wrong, patch, "PATCH"), 422, "invalid-body")
    )
