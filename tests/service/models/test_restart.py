"""Kill, stop, damage: what was acknowledged is there again, to the last bit (S1)."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from sklearn.metrics import roc_auc_score

from tests.service.running import NDJSON, Calls, Local, Running, problem
from tests.service.stream import lines, rows

PROBES = [body["features"] for body in rows(50, seed=77)]
OCTETS = {"Content-Type": "application/octet-stream"}


def picture(service: Calls, name: str = "m") -> dict[str, Any]:
    """Return everything a client can see of a model's state."""
    description = service.describe(name)
    del description["created_at"]
    return {
        "description": description,
        "evaluation": service.evaluation(name),
        "scores": service.post(name, "predict-many", [{"features": features} for features in PROBES]).json(),
        "weights": service.http.get(f"/v1/models/{name}/weights").json(),
        "roc": service.http.get(f"/v1/models/{name}/roc").json(),
    }


def test_a_killed_service_comes_back_knowing_everything(data_dir: Path) -> None:
    service = Running(data_dir)
    service.create("m")
    bodies = rows(1000)
    scores = [service.learn("m", **body)["score"] for body in bodies]
    auc = roc_auc_score([body["label"] for body in bodies], scores)
    before = picture(service)
    assert before["evaluation"]["window"]["auc"] == pytest.approx(auc, abs=1e-12)
    assert before["evaluation"]["total"]["auc"] == pytest.approx(auc, abs=1e-12)
    service.kill()

    service = Running(data_dir)
    assert service.describe("m")["seq"] == 1000
    assert picture(service) == before
    assert service.logged("1000 rows replayed"), service.log
    answer = service.raw("/v1/models/m/learn-many", lines(rows(100_000, seed=5)), NDJSON)
    assert answer.json() == {
        "accepted": 100_000,
        "duplicates": 0,
        "rejected": 0,
        "seq": 101_000,
        "errors": [],
    }
    before = picture(service)
    assert before["description"]["examples"] == 101_000
    service.kill()

    local = Local(data_dir)
    assert picture(local) == before
    local.stop()
    local = Local(data_dir)
    assert picture(local) == before
    assert local.replayed == 0  # a clean stop leaves nothing to replay
    local.stop()


def test_a_service_killed_after_a_stream_goes_on_as_if_it_never_was(data_dir: Path) -> None:
    service = Running(data_dir, snapshot_every_rows=2_000)
    service.create("m", evaluation={"window": 500})
    service.create("drawn", seed=None)
    assert service.describe("drawn")["spec"]["seed"] is None
    service.post("drawn", "learn-many", rows(500))
    drawn = picture(service, "drawn")
    bodies = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(20_000))]
    service.raw("/v1/models/m/learn-many", lines(bodies[:9_000]), NDJSON)
    for body in bodies[9_000:9_100]:
        service.post("m", "learn-one", body)
    before = picture(service)
    service.kill()

    local = Local(data_dir, snapshot_every_rows=2_000)
    assert picture(local) == before
    assert picture(local, "drawn") == drawn  # a seed that was drawn is kept
    assert 0 < local.replayed < 9_100  # snapshots were taken in the background
    again = local.raw("/v1/models/m/learn-many", lines(bodies), NDJSON).json()  # the producer retries all
    assert (again["accepted"], again["duplicates"], again["seq"]) == (10_900, 9_100, 20_000)
    local.create("straight", evaluation={"window": 500})
    local.raw("/v1/models/straight/learn-many", lines(bodies), NDJSON)
    straight, interrupted = picture(local, "straight"), picture(local)
    for each in (straight, interrupted):
        del each["description"]
    assert straight == interrupted
    local.stop()


def test_sigterm_in_the_middle_of_a_stream_that_does_not_end(data_dir: Path) -> None:
    service = Running(data_dir, shutdown_seconds=1)
    service.create("m")

    def parts() -> Iterator[bytes]:
        yield lines(rows(1000))
        while service.describe("m")["seq"] < 1000:
            time.sleep(0.05)
        service.process.terminate()
        for _ in range(400):
            time.sleep(0.05)
            yield b"\n"

    answer = httpx.post(f"{service.url}/v1/models/m/learn-many", content=parts(), headers=NDJSON, timeout=60)
    document = problem(answer, 503, "not-ready")
    assert (document["accepted"], document["seq"]) == (1000, 1000)
    start = time.monotonic()
    assert service.ended() == 0
    assert time.monotonic() - start < 10
    local = Local(data_dir)
    assert (local.describe("m")["seq"], local.replayed) == (1000, 0)
    local.stop()


def test_a_damaged_snapshot_falls_back_to_the_one_before(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    service = Local(data_dir, snapshot_every_rows=1_000)
    service.create("m")
    for seed in range(5):
        service.post("m", "learn-many", rows(1_000, seed=seed))
    service.learn("m", {"a": 1.0}, 1)
    before = picture(service)
    service.stop()
    files = sorted((data_dir / "snapshots" / "1").glob("*.safetensors"), key=lambda path: int(path.stem))
    assert len(files) == 2
    assert files[-1].stem == "5001"
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:  # pruned only behind the oldest kept
        first, last = db.execute("SELECT seq_first, seq_last FROM events ORDER BY seq_first").fetchone()
        assert first <= int(files[0].stem) + 1 <= last
    data = files[-1].read_bytes()
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 4
    for number, damaged in enumerate((bytes(flipped), data[:-100], b"")):
        copy = data_dir.with_name(f"copy-{number}")
        shutil.copytree(data_dir, copy)
        (copy / "snapshots" / "1" / "5001.safetensors").write_bytes(damaged)
        service = Local(copy)
        assert picture(service) == before
        assert service.replayed > 0
        assert (copy / "snapshots" / "1" / "5001.damaged").exists()
        assert service.learn("m", {"a": 1.0}, 1)["seq"] == 5_002
        service.stop()
    for path in files:
        path.write_bytes(b"")
    service = Local(data_dir)
    assert "model m (number 1) is set aside" in caplog.text
    assert "events 1 to" in caplog.text  # the gap is named
    problem(service.post("m", "learn-one", rows(1)[0]), 503, "model-faulted")
    service.stop()


def test_a_snapshot_of_another_model_is_not_taken(data_dir: Path) -> None:
    service = Local(data_dir)
    for name in ("m", "other"):
        service.create(name)
    service.post("m", "learn-many", rows(100))
    service.post("other", "learn-many", rows(200, seed=1))
    before = picture(service)
    service.stop()
    folder = data_dir / "snapshots"
    shutil.copy(folder / "2" / "200.safetensors", folder / "1" / "200.safetensors")
    service = Local(data_dir)
    assert picture(service) == before
    service.stop()


def test_a_failed_start_ends_the_process_with_the_reason(data_dir: Path) -> None:  # S4, S6
    service = Local(data_dir)
    service.create("m")
    service.learn("m", {"a": 1.0}, 1)
    service.stop()
    (data_dir / "journal.sqlite3").unlink()
    failing = Running(data_dir, wait=False)
    assert failing.ended() == 1
    assert "restore journal.sqlite3" in failing.log  # beside snapshots, no empty start
    assert "Traceback" not in failing.log
    (data_dir / "journal.sqlite3").write_bytes(b"not a database, but long enough to be looked at" * 100)
    service = Local(data_dir)
    assert "a readable journal" in service.fatal
    service.stop()


def test_deleted_and_replaced_models_stay_so(data_dir: Path) -> None:
    service = Running(data_dir)
    for name in ("kept", "gone", "replaced"):
        service.create(name)
        service.post(name, "learn-many", rows(200))
    snapshot = service.http.get("/v1/models/kept/snapshot").content
    service.http.delete("/v1/models/gone")
    service.post("replaced", "learn-many", rows(100, seed=8))
    service.raw("/v1/models/replaced/snapshot", snapshot, OCTETS, "PUT")
    service.raw("/v1/models/new/snapshot", snapshot, OCTETS, "PUT")
    for name in ("kept", "replaced", "new"):
        service.post(name, "learn-many", rows(100, seed=9))
    pretty = json.dumps(rows(3), indent=2).encode()
    service.raw("/v1/models/kept/learn-many", pretty)
    before = {name: picture(service, name) for name in ("kept", "new", "replaced")}
    assert before["replaced"]["scores"] == before["new"]["scores"]
    service.kill()
    local = Local(data_dir)
    names = [model["name"] for model in local.http.get("/v1/models").json()["models"]]
    assert names == ["kept", "new", "replaced"]
    assert {name: picture(local, name) for name in names} == before
    local.stop()
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:  # any SQLite reads it; deleted rows are purged
        assert db.execute("SELECT count(DISTINCT model) FROM events").fetchone()[0] == 3
        assert db.execute("SELECT count(*) FROM models").fetchone()[0] == 3
        payload = db.execute("SELECT payload FROM events WHERE model = 1 AND seq_last = 303").fetchone()[0]
    assert [json.loads(line) for line in payload.splitlines()] == rows(3)


@pytest.mark.parametrize("durability", ["os", "memory"])
def test_weaker_levels_of_durability(data_dir: Path, durability: str) -> None:
    def some(n: int, seed: int) -> list[dict[str, Any]]:
        return [{**body, "id": f"{seed}-{number}"} for number, body in enumerate(rows(n, seed=seed))]

    local = Local(data_dir, durability=durability)
    local.create("m")
    assert local.http.get("/livez").headers["aucstream-durability"] == durability
    local.post("m", "learn-many", some(300, 0))
    stopped = picture(local)
    local.stop()
    service = Running(data_dir, durability=durability)
    assert picture(service) == stopped  # a clean stop keeps everything at every level
    service.post("m", "learn-many", some(50, 1))
    after = picture(service)
    service.kill()
    local = Local(data_dir, durability=durability)
    assert picture(local) == (after if durability == "os" else stopped)
    again = local.post("m", "learn-many", some(50, 1)).json()
    assert again["duplicates"] == (50 if durability == "os" else 0)
    assert local.describe("m")["seq"] == 350
    local.stop()
