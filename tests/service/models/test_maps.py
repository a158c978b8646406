"""Models with a feature map: created, learned through the warm-up, killed, and back to the last bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from tests.service.running import Local, Running, problem

MAP = {"kind": "kmeansnystroem", "landmarks": 30, "warmup": 200}


def rings(n: int, seed: int = 0) -> list[dict[str, Any]]:
    """Return bodies of rows that no line tells apart."""
    random = np.random.default_rng(seed)
    angle, radius = random.uniform(0, 2 * np.pi, n), random.integers(1, 3, n)
    a, b = radius * np.cos(angle), radius * np.sin(angle)
    return [
        {"features": {"a": x, "b": z}, "label": bool(label)}
        for x, z, label in zip(a.tolist(), b.tolist(), radius == 2, strict=True)
    ]


PROBES = [{"features": body["features"]} for body in rings(100, seed=1)]
LABELS = [body["label"] for body in rings(100, seed=1)]


def scores(service: Any, name: str) -> list[float]:
    return [each["score"] for each in service.post(name, "predict-many", PROBES).json()["predictions"]]


@pytest.mark.parametrize("kind", ["kmeansnystroem", "randomfourier", "randomthresholds", "randomnetwork"])
def test_a_mapped_model_ranks_what_no_line_can(service: Running, kind: str) -> None:
    assert service.create("mapped", algorithm="psam", map={"kind": kind, "warmup": 200}).status_code == 201
    bodies = rings(1000)
    first = service.post("mapped", "learn-many", bodies[:199]).json()
    assert first["accepted"] == 199
    assert scores(service, "mapped") == [0.0] * 100
    assert service.post("mapped", "predict-one", PROBES[0]).json()["probability"] == 0.5
    described = service.describe("mapped")
    assert (described["examples"], described["seq"]) == (199, 199)
    assert described["positives"] == sum(body["label"] for body in bodies[:199])
    assert service.learn("mapped", **bodies[199])["score"] == 0.0
    service.post("mapped", "learn-many", bodies[200:])
    assert service.describe("mapped")["examples"] == 1000
    assert roc_auc_score(LABELS, scores(service, "mapped")) > 0.95
    problem(service.http.get("/v1/models/mapped/weights"), 409, "weights-unavailable")
    service.http.delete("/v1/models/mapped")


def test_a_killed_service_goes_on_in_the_warm_up_and_after_it(data_dir: Path) -> None:
    bodies = rings(600)
    service = Running(data_dir)
    service.create("m", algorithm="psam", map=MAP)
    service.create("straight", algorithm="psam", map=MAP)
    service.create("drawn", algorithm="psam", map={**MAP, "seed": None}, seed=None)
    service.post("m", "learn-many", bodies[:150])
    service.kill()

    local = Local(data_dir, snapshot_every_rows=100)
    assert local.describe("m")["examples"] == 150
    local.post("m", "learn-many", bodies[150:180])
    local.stop()  # a snapshot in the middle of the warm-up
    local = Local(data_dir, snapshot_every_rows=100)
    assert local.replayed == 0
    for body in bodies[180:210]:
        local.learn("m", **body)
    local.post("m", "learn-many", bodies[210:])
    local.post("straight", "learn-many", bodies)
    local.post("drawn", "learn-many", bodies)
    before, drawn = scores(local, "m"), scores(local, "drawn")
    assert before == scores(local, "straight")
    assert before != drawn
    snapshot = local.http.get("/v1/models/m/snapshot").content
    local.stop()

    local = Local(data_dir)
    assert scores(local, "m") == before
    assert scores(local, "drawn") == drawn
    headers = {"Content-Type": "application/octet-stream"}
    assert local.raw("/v1/models/copy/snapshot", snapshot, headers, "PUT").status_code == 201
    assert scores(local, "copy") == before
    for name in ("m", "copy"):
        local.post(name, "learn-many", rings(50, seed=3))
    assert scores(local, "copy") == scores(local, "m")
    local.stop()


def test_the_same_map_is_the_same_spec(service: Running) -> None:
    assert service.create("maps", map=MAP).status_code == 201
    assert service.create("maps", map={**MAP, "landmarks": 30.0}).status_code == 200
    problem(service.create("maps", map={**MAP, "landmarks": 31}), 409, "spec-conflict")
    problem(service.create("maps"), 409, "spec-conflict")
    assert service.describe("maps")["spec"]["map"] == MAP
    service.http.delete("/v1/models/maps")


@pytest.mark.parametrize(
    ("map_", "kind", "pointer"),
    [
        ({"kind": "spam"}, "invalid-params", "/map/kind"),
        ({}, "invalid-params", "/map/kind"),
        ("kmeansnystroem", "invalid-body", "/map"),
        ({"kind": "randomfourier", "components": -1}, "invalid-params", "/map/components"),
        ({"kind": "randomfourier", "bandwidth": "wide"}, "invalid-params", "/map/bandwidth"),
        ({"kind": "randomfourier", "landmarks": 3}, "invalid-params", "/map/landmarks"),
        ({"kind": "randomfourier", "components": 10**12}, "invalid-params", "/map/components"),
        ({"kind": "kmeansnystroem", "landmarks": 5000}, "invalid-params", "/map/landmarks"),
        ({"kind": "randomthresholds", "warmup": 50_000}, "invalid-params", "/map/warmup"),
        ({"kind": "randomnetwork", "components": 1000}, "invalid-params", "/map/max_columns"),
        ({"kind": "randomnetwork", "max_columns": 10**6}, "invalid-params", "/map/max_columns"),
    ],
)
def test_a_map_that_cannot_be_or_is_boundless_is_refused_by_field(
    service: Running, map_: Any, kind: str, pointer: str
) -> None:
    document = problem(service.create("bad-map", map=map_), 422, kind)
    assert [error["pointer"] for error in document["errors"]] == [pointer]
    problem(service.http.get("/v1/models/bad-map"), 404, "model-not-found")


def test_a_map_within_the_limits_is_taken(service: Running) -> None:
    spec = {"kind": "randomnetwork", "components": 1000, "max_columns": 8000, "warmup": 5000}
    assert service.create("large-map", map=spec).status_code == 201
    service.http.delete("/v1/models/large-map")
