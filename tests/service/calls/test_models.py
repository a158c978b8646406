from __future__ import annotations

import re

import pytest

from tests.service.running import Running, problem


def test_create_is_201_then_200_with_the_same_spec_and_409_with_another(service: Running) -> None:
    created = service.create("registry", params={"zeta": 5})
    assert created.status_code == 201
    body = created.json()
    assert body["name"] == "registry"
    assert body["spec"]["algorithm"] == "solam"
    assert body["spec"]["params"] == {"zeta": 5}
    assert body["spec"]["evaluation"] == {"window": 10000}
    assert body["spec"]["pending"]["ttl_seconds"] == 604800
    assert (body["resolved"], body["examples"], body["positives"], body["seq"]) == (None, 0, 0, 0)
    assert (body["pending"], body["auc"], body["last_event_at"]) == (0, None, None)
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$", body["created_at"])

    again = service.create("registry", params={"zeta": 5.0})
    assert again.status_code == 200
    assert again.json() == body
    assert again.headers["etag"] == created.headers["etag"]
    filled = service.create("registry", params={"zeta": 5}, scaler="auto", seed=0)
    assert filled.status_code == 200

    conflict = problem(service.create("registry", params={"zeta": 6}), 409, "spec-conflict")
    said = "expected 5, as model 'registry' was created with (delete it to change it), got 6"
    assert conflict["detail"] == f"spec: {said} - at /params/zeta"
    assert conflict["errors"] == [{"pointer": "/params/zeta", "message": said}]
    assert service.describe("registry") == body
    assert service.http.get("/v1/models/registry").headers["etag"] == created.headers["etag"]
    assert service.http.delete("/v1/models/registry").status_code == 204
    problem(service.http.get("/v1/models/registry"), 404, "model-not-found")
    problem(service.http.delete("/v1/models/registry"), 404, "model-not-found")


def test_a_model_created_again_begins_anew(service: Running) -> None:
    service.create("again")
    service.learn("again", {"a": 1}, 1, id="x")
    service.http.delete("/v1/models/again")
    assert service.create("again", params={"zeta": 3}).status_code == 201
    assert service.learn("again", {"a": 1}, 0, id="x") == {"seq": 1, "score": 0.0, "duplicate": False}
    service.http.delete("/v1/models/again")


def test_models_are_listed_by_name_in_pages(service: Running) -> None:
    names = [f"page-{number}" for number in range(5)]
    for name in reversed(names):
        service.create(name)
    listed_names: list[str] = []
    cursor = None
    while True:
        query = {"limit": 2} if cursor is None else {"limit": 2, "cursor": cursor}
        page = service.http.get("/v1/models", params=query).json()
        assert len(page["models"]) <= 2
        listed_names += [model["name"] for model in page["models"]]
        cursor = page["next"]
        if cursor is None:
            break
        assert listed_names[-1] not in cursor
        service.http.delete(f"/v1/models/{listed_names[-1]}")  # the next page begins after it all the same
    assert listed_names == sorted(listed_names)
    assert set(names) <= set(listed_names)
    for name in names:
        service.http.delete(f"/v1/models/{name}")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=x",
        "limit=1001",
        "cursor=" + "x" * 129,
        "cursor=x",
        "cursor=page-1",
        "cursor=YWZ0ZXI6QQ",
        "limit=1&limit=2",
        "top=1",
    ],
)
def test_a_bad_query_is_named(service: Running, query: str) -> None:
    document = problem(service.http.get(f"/v1/models?{query}"), 422, "invalid-query")
    assert query.split("=")[0] in document["detail"]


@pytest.mark.parametrize("name", ["A", "a.b", "a" * 65, "é", "a%20b"])
def test_a_bad_name_is_refused(service: Running, name: str) -> None:
    problem(service.create(name), 422, "invalid-name")
    problem(service.http.get(f"/v1/models/{name}"), 404, "model-not-found")


@pytest.mark.parametrize(
    ("spec", "kind", "pointer"),
    [
        ({"algorithm": "solm"}, "unknown-algorithm", "/algorithm"),
        ({"params": {"zeta": -1}}, "invalid-params", "/params/zeta"),
        ({"params": {"zetta": 1}}, "invalid-params", "/params/zetta"),
        ({"scaler": "minmax"}, "invalid-body", "/scaler"),
        ({"encoder": {"kind": "x"}}, "invalid-params", "/encoder/kind"),
        ({"seed": "0"}, "invalid-body", "/seed"),
        ({"evaluation": {"window": 0}}, "invalid-body", "/evaluation/window"),
        ({"evaluation": {"window": 10**9}}, "invalid-body", "/evaluation/window"),
        ({"evaluation": {"windows": 1}}, "invalid-body", "/evaluation/windows"),
        ({"pending": {"on_expiry": "positive"}}, "invalid-body", "/pending/on_expiry"),
        ({"colour": 1}, "invalid-body", "/colour"),
    ],
)
def test_a_bad_spec_names_the_field(service: Running, spec: dict[str, object], kind: str, pointer: str) -> None:
    document = problem(service.create("bad-spec", **spec), 422, kind)
    assert [error["pointer"] for error in document["errors"]] == [pointer]
    problem(service.http.get("/v1/models/bad-spec"), 404, "model-not-found")


def test_near_misses_of_an_algorithm_are_named(service: Running) -> None:
    for name, near in (("solm", "'solam'"), ("PSAM", "'psam'"), ("OnlineLogistic", "'onlinelogistic'")):
        assert near in problem(service.create("bad-spec", algorithm=name), 422, "unknown-algorithm")["detail"]
    assert "got null" in problem(service.create("bad-spec", algorithm=None), 422, "invalid-body")["detail"]


def test_a_name_with_a_typo_names_near_misses(service: Running, model: str) -> None:  # S18
    for answer in (
        service.http.get(f"/v1/models/{model}x"),
        service.post(f"{model}x", "learn-one", {"features": {}, "label": 1}),
        service.post(f"{model}x", "predict-one", {"features": {}}),
    ):
        document = problem(answer, 404, "model-not-found")
        assert model in document["near"]
        assert repr(model) in document["detail"]


def test_the_number_of_models_is_limited(service: Running) -> None:
    count = len(service.http.get("/v1/models?limit=1000").json()["models"])
    for number in range(count, 40):
        assert service.create(f"many-{number}").status_code == 201
    refused = service.create("one-too-many")
    problem(refused, 429, "too-many-models")
    assert refused.headers["retry-after"]
    for number in range(count, 40):
        service.http.delete(f"/v1/models/many-{number}")
