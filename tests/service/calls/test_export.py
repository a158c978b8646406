"""What the journal holds of a model, and what waits for a label, as lines."""

from __future__ import annotations

import itertools
import json
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream.client import AsyncClient, Client
from aucstream.errors import InvalidParams
from aucstream.pipeline import Pipeline
from aucstream_service.journal import journal as journal_module
from tests.service.models.test_rollback import written
from tests.service.running import NDJSON, Calls, Direct, Local, problem
from tests.service.stream import lines, rows


def exported(service: Calls, what: str, name: str = "m") -> list[dict[str, Any]]:
    answer = service.http.get(f"/v1/models/{name}/export", params={"what": what})
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/x-ndjson"
    return [json.loads(line) for line in answer.text.splitlines()]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "PAGE_ROWS", 3)


def test_each_event_is_a_line_and_they_make_the_model_again(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", algorithm="ftrl", pending={"when_full": "drop-oldest", "capacity": 2})
    service.create("other")
    service.post("other", "learn-many", rows(9))
    bodies = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(40))]
    service.raw("/v1/models/m/learn-many", lines(bodies[:30]), NDJSON)
    plain = [{"features": {"a": float(n), "b": 2.0 * n}, "label": n % 2 == 0, "weight": 0.5} for n in range(30)]
    service.raw("/v1/models/m/learn-many", lines(plain), NDJSON)  # of one form: they are kept as columns
    for body in bodies[30:]:
        service.post("m", "learn-one", body)
    answers = [service.post("m", "predict-one", {"features": {"a": 1.0}, "id": f"p{n}"}).json() for n in range(3)]
    service.post("m", "label-one", {"id": "p1", "label": False})
    service.raw("/v1/models/m", '{"params":{"alpha":0.5}}', {"Content-Type": "application/merge-patch+json"}, "PATCH")
    service.http.post("/v1/models/m/reset-evaluation")
    service.post("m", "rename", {"to": "n"})
    found = exported(service, "events", "n")
    assert [row["seq"] for row in found] == list(range(1, 76))
    assert [kind for kind, _ in itertools.groupby(row["kind"] for row in found)] == [
        *("learn", "discard", "label", "spec", "reset-evaluation", "rename")
    ]
    assert found[0] == {
        "seq": 1,
        "kind": "learn",
        "received_at": found[0]["received_at"],
        **bodies[0],
    }
    assert {key: found[31][key] for key in plain[1]} == plain[1]
    assert found[70]["id"] == "p0"
    assert (found[71]["id"], found[71]["label"], found[71]["score"]) == ("p1", False, answers[1]["score"])
    assert found[72]["spec"]["params"] == {"alpha": 0.5}
    assert found[74]["to"] == "n"
    twin = Pipeline.from_spec({"algorithm": "ftrl"})
    for row in found[:72]:
        if "label" in row:
            signs, weights = np.array([1.0 if row["label"] else -1.0]), np.array([row.get("weight", 1.0)])
            twin.engine.learn_rows([row["features"]], signs, weights)
    probes = [body["features"] for body in rows(5, seed=6)]
    assert [service.score("n", features) for features in probes] == twin.engine.score_rows(probes).tolist()
    waiting = exported(service, "pending", "n")
    assert [(row["id"], row["features"], row["score"], row["seq"]) for row in waiting] == [
        ("p2", {"a": 1.0}, answers[2]["score"], answers[2]["seq"])
    ]
    assert waiting[0]["expires_at"] > waiting[0]["at"]
    service.http.delete("/v1/models/n/events", params={"id": "e3"})
    erased = exported(service, "events", "n")
    assert erased[3] == {"seq": 4, "kind": "learn", "received_at": erased[3]["received_at"], "erased": True}
    assert exported(service, "events", "other")[-1]["seq"] == 9
    service.stop()


def test_a_rollback_is_a_line_without_its_snapshot(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m", pending={"hold_early_seconds": 50})
    service.post("m", "learn-many", rows(20))
    written(service)
    service.post("m", "learn-many", rows(5))
    service.post("m", "rollback", {"snapshot": 20})
    service.post("m", "label-one", {"id": "early", "label": True})
    found = exported(service, "events")[-1]
    assert found == {"seq": 26, "kind": "rollback", "received_at": found["received_at"], "snapshot": 20}
    (waiting,) = exported(service, "pending")
    assert (waiting["id"], waiting["label"], "features" in waiting) == ("early", True, False)
    service.stop()


def test_an_export_shows_one_moment_and_no_snapshot_prunes_it(data_dir: Path) -> None:
    service = Local(data_dir, snapshot_every_rows=50, snapshot_keep=2)
    service.create("m")
    wide = {f"x{n}": 1.0 for n in range(2_000)}
    for _ in range(60):
        service.post("m", "learn-many", [{"features": wide, "label": True}, {"features": {"a": 1.0}, "label": False}])
    first = exported(service, "events")[0]["seq"]
    over = threading.Event()

    def learn() -> None:
        with httpx.Client(base_url=service.http.base_url, timeout=60) as http:
            while not over.is_set():
                http.post("/v1/models/m/learn-many", json=rows(60))

    thread = threading.Thread(target=learn)
    newest = service.describe("m")["seq"]
    with service.http.stream("GET", "/v1/models/m/export?what=events") as answer:
        parts = answer.iter_lines()
        seqs = [json.loads(next(parts))["seq"]]
        thread.start()
        while service.app.model_host.models["m"].seq < newest + 500:
            time.sleep(0.01)
        seqs += [json.loads(line)["seq"] for line in parts]
    over.set()
    thread.join()
    assert seqs == list(range(first, newest + 1))
    model = service.app.model_host.models["m"]
    assert model.exports == 0
    service.post("m", "learn-many", rows(120))
    while exported(service, "events")[0]["seq"] == first:
        time.sleep(0.02)  # pruned now
    service.stop()


def test_what_is_refused(data_dir: Path) -> None:
    service = Direct(data_dir)
    service.create("m")
    problem(service.http.get("/v1/models/m/export"), 422, "invalid-query")
    problem(service.http.get("/v1/models/m/export?what=all"), 422, "invalid-query")
    problem(service.http.get("/v1/models/other/export?what=events"), 404, "model-not-found")
    assert exported(service, "events") == exported(service, "pending") == []
    service.stop()


def test_the_clients_export(data_dir: Path) -> None:
    import asyncio

    service = Local(data_dir)
    service.create("m")
    service.post("m", "learn-many", rows(20))
    service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "p"})
    url = str(service.http.base_url)
    with Client(url) as client:
        events = list(client.export("m"))
        assert [event.seq for event in events] == list(range(1, 21))  # type: ignore[union-attr]
        assert events[0].features == rows(20)[0]["features"]
        assert [row.id for row in client.export("m", "pending")] == ["p"]
        with pytest.raises(InvalidParams):
            next(client.export("m", "all"))  # type: ignore[arg-type]

    async def ids() -> list[str | None]:
        async with AsyncClient(url) as client:
            return [row.id async for row in client.export("m", "pending")]

    assert asyncio.run(ids()) == ["p"]
    service.stop()
