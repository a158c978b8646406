"""Memory stays flat: predictions add nothing, and a deleted model leaves nothing (S26, L13)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.service.running import NDJSON, Running
from tests.service.stream import rows

MIB = 1 << 20


def resident(service: Running) -> int:
    """Return the resident memory of the service in bytes."""
    return int(Path(f"/proc/{service.process.pid}/statm").read_text().split()[1]) * 4096


def predict(service: Running, model: str, times: int, chunk: int) -> None:
    bodies = [{"features": body["features"]} for body in rows(chunk, seed=3)]
    text = b"\n".join(json.dumps(body).encode() for body in bodies)
    for _ in range(times // chunk):
        answer = service.raw(f"/v1/models/{model}/predict-many", text, NDJSON)
        assert answer.content.count(b"\n") == chunk


def come_and_go(service: Running, models: int) -> None:
    for number in range(models):
        name = f"brief-{number}"
        assert service.create(name, evaluation={"window": 1000}).status_code == 201
        assert service.post(name, "learn-many", rows(20)).status_code == 200
        service.http.get(f"/v1/models/{name}/evaluation")
        assert service.http.delete(f"/v1/models/{name}").status_code == 204


def flat(service: Running, predictions: int, models: int, room: int) -> None:
    service.create("steady")
    service.post("steady", "learn-many", rows(500))
    predict(service, "steady", 20_000, 2_000)  # what is made once
    come_and_go(service, 20)
    service.http.get("/metrics")
    before, series = resident(service), len(service.http.get("/metrics").text.splitlines())
    predict(service, "steady", predictions, 2_000)
    after_predictions = resident(service)
    come_and_go(service, models)
    service.http.get("/metrics")
    after = resident(service)
    print(
        f"resident: {before / MIB:.1f} MiB, after {predictions} predictions {after_predictions / MIB:.1f}, "
        f"after {models} models {after / MIB:.1f}"
    )
    assert (
        len(service.http.get("/metrics").text.splitlines()) <= series + 20
    )  # statuses and buckets seen for the first time
    assert service.describe("steady")["seq"] == 500
    assert after_predictions - before < room
    assert after - before < room
    service.http.delete("/v1/models/steady")


def test_predictions_and_brief_models_leave_nothing(service: Running) -> None:
    flat(service, 20_000, 40, 12 * MIB)


@pytest.mark.soak  # a million predictions and a thousand models: minutes
def test_a_million_predictions_and_a_thousand_models_leave_nothing(data_dir: Path) -> None:
    service = Running(data_dir)
    flat(service, 1_000_000, 1_000, 24 * MIB)
    assert service.stop() == 0
