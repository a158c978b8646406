"""A model goes back to one of its snapshots, with the ids that were learned since."""

from __future__ import annotations

import asyncio
import json
import shutil
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from aucstream.client import Client, SnapshotNotFound
from tests.service.models.test_changes import bits, killed, patched, seen_of, straight
from tests.service.models.test_restart import picture
from tests.service.proof.test_care import fsck
from tests.service.running import JSON, NDJSON, Direct, Local, Running, problem
from tests.service.stream import lines, rows


def named(bodies: list[dict[str, Any]], prefix: str) -> list[dict[str, Any]]:
    return [{**body, "id": f"{prefix}{number}"} for number, body in enumerate(bodies)]


def written(service: Direct, name: str = "m") -> int:
    """Have a snapshot written; return its seq."""
    model = service.host.models[name]
    service.loop.run_until_complete(service.host.snapshotter.write(model))
    return model.snapshot_seq


FIRST, SINCE, MORE = (
    named(rows(150, seed=8, positives=0.4), "first"),
    named(rows(90, seed=9, positives=0.4), "since"),
    named(rows(80, seed=3, positives=0.4), "more"),
)


@pytest.mark.parametrize("algorithm", ["psam", "auto", "jointforest", "fsauc"])
def test_a_model_goes_back_and_on_from_there_with_the_same_bits(data_dir: Path, algorithm: str) -> None:
    service = Direct(data_dir, snapshot_keep=4)
    for name in ("m", "other"):
        service.create(
            name, algorithm=algorithm, evaluation={"window": 60}, encoder={"kind": "vocabulary", "capacity": 50}
        )
        service.post(name, "learn-many", FIRST)
    assert written(service) == 150
    before = service.evaluation("m")
    patched(service, "m", {"pending": {"capacity": 9}, "evaluation": {"window": 70}})
    service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "waits"})
    for body in SINCE:
        service.learn("m", **body)
    answer = service.post("m", "rollback", {"snapshot": 150})
    assert answer.status_code == 200, answer.text
    assert answer.json() == {"seq": 242, "snapshot": 150, "examples": 150, "undone": 90, "restored": 0}
    found = service.describe("m")
    assert (found["examples"], found["seq"], found["pending"]) == (150, 242, 1)
    assert (found["spec"]["pending"]["capacity"], found["spec"]["evaluation"]["window"]) == (9, 60)
    assert service.evaluation("m") == before
    repeated = service.post("m", "learn-many", SINCE).json()
    assert (repeated["accepted"], repeated["duplicates"]) == (0, 90)
    assert service.post("m", "learn-one", SINCE[4]).json()["seq"] == 156
    assert service.post("m", "label-one", {"id": "waits", "label": True}).json()["seq"] == 243
    service.post("m", "learn-many", MORE)
    for body in ({"features": {"a": 1.0}, "label": True}, *MORE):
        service.learn("other", body["features"], body["label"])
    assert service.post("m", "predict-many", [MORE[0]["features"]][:0]).status_code == 200
    scores = [[service.score(name, body["features"]) for body in SINCE] for name in ("m", "other")]
    assert scores[0] == scores[1]
    service.http.delete("/v1/models/other")
    seen, state = seen_of(service), bits(service.host.models["m"])
    again = killed(service, snapshot_keep=4)
    assert (again.host.replayed, seen_of(again)) == (82, seen)  # from the state before, which was written
    assert bits(again.host.models["m"]) == state
    assert bits(straight(again.data_dir)) == state
    older = killed(again, snapshot_keep=4)
    older.stop()
    shutil.rmtree(older.data_dir / "snapshots")
    service = Direct(older.data_dir)  # all from the journal
    assert service.host.replayed == 323
    assert (seen_of(service), bits(service.host.models["m"])) == (seen, state)
    service.stop()
    assert fsck(older.data_dir, "--replay")[0] == 0


def test_a_rollback_is_undone_by_a_rollback(data_dir: Path) -> None:
    service = Direct(data_dir, snapshot_keep=3)
    service.create("m")
    service.post("m", "learn-many", FIRST)
    written(service)
    service.post("m", "learn-many", SINCE)
    before = picture(service)
    assert service.post("m", "rollback", {"snapshot": 150}).json()["undone"] == 90
    listed = service.http.get("/v1/models/m/snapshots").json()["snapshots"]
    assert [entry["seq"] for entry in listed] == [240, 150]
    assert listed[0]["bytes"] == (data_dir / "snapshots" / "1" / "240.safetensors").stat().st_size
    answer = service.post("m", "rollback", {"snapshot": 240}).json()
    assert (answer["seq"], answer["undone"], answer["restored"], answer["examples"]) == (242, 0, 90, 240)
    after = picture(service)
    for each in (before, after):
        del each["description"]["seq"], each["description"]["last_event_at"], each["scores"]["seq"]
    assert after == before
    service.stop()
    assert fsck(data_dir, "--replay")[0] == 0


def test_what_is_refused_changes_nothing(data_dir: Path) -> None:
    service = Direct(data_dir, snapshot_keep=5)
    service.create("m")
    assert service.http.get("/v1/models/m/snapshots").json() == {"snapshots": []}
    problem(service.post("m", "rollback", {"snapshot": 1}), 404, "snapshot-not-found")
    service.post("m", "learn-many", FIRST)
    written(service)
    service.post("m", "learn-many", SINCE)
    written(service)
    service.learn("m", {"a": 1.0}, 1)
    before = picture(service)
    assert (
        "240, 150" not in problem(service.post("m", "rollback", {"snapshot": 7}), 404, "snapshot-not-found")["detail"]
    )
    for body in ({}, {"snapshot": "150"}, {"snapshot": 150, "more": 1}, {"snapshot": 1.5}):
        problem(service.post("m", "rollback", body), 422, "invalid-body")
    problem(service.post("other", "rollback", {"snapshot": 150}), 404, "model-not-found")
    answer = service.raw("/v1/models/m/rollback", '{"snapshot":150}', {**JSON, "If-Match": '"x"'})
    problem(answer, 412, "precondition-failed")
    problem(service.raw("/v1/models/m/rollback", '{"snapshot":150}', {}), 415, "unsupported-media-type")
    path = data_dir / "snapshots" / "1" / "150.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-9])
    problem(service.post("m", "rollback", {"snapshot": 150}), 422, "bad-snapshot")
    service.create("other")
    service.post("other", "learn-many", FIRST)
    written(service, "other")
    shutil.copy(data_dir / "snapshots" / "2" / "150.safetensors", path)
    problem(service.post("m", "rollback", {"snapshot": 150}), 422, "bad-snapshot")
    assert picture(service) == before
    service.stop()


def test_rows_that_were_read_before_a_rollback_are_learned_by_their_names_after_it(data_dir: Path) -> None:
    """A stream decodes rows with the columns of the model as it is: after a rollback these are others."""
    service = Direct(data_dir, snapshot_keep=9)
    service.create("m", algorithm="ftrl")
    early = [{"features": {"a": float(n), "b": 1.0}, "label": n % 3 == 0} for n in range(200)]
    forms = [("c", "d", "a"), ("c", "b"), ("d",), ("b", "d", "c")]  # lines of one form are taken another way
    late = [{"features": {name: n + len(name) / 3 for name in forms[n % 4]}, "label": n % 3 == 0} for n in range(200)]
    service.post("m", "learn-many", early)
    assert written(service) == 200
    service.post("m", "learn-many", late)  # c and d get columns
    model, host = service.host.models["m"], service.host
    body = lines(late[:60])

    async def crossed() -> list[httpx.Response]:
        transport = httpx.ASGITransport(app=service.app)
        gate = asyncio.Event()
        wait_for_room = host.wait_for_room

        async def slow(rows: int, size: int) -> None:
            gate.set()
            while model.pipeline.examples > 200:
                await asyncio.sleep(0.01)
            await host.learn(model, *_other_names())  # d comes before c now
            await wait_for_room(rows, size)

        host.wait_for_room = slow  # type: ignore[method-assign]
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            learning = asyncio.ensure_future(http.post("/v1/models/m/learn-many", content=body, headers=NDJSON))
            await gate.wait()
            back = await http.post("/v1/models/m/rollback", json={"snapshot": 200})
            return [back, await learning]

    back, learned = service.loop.run_until_complete(crossed())
    assert (back.json()["undone"], learned.json()["accepted"]) == (200, 60)
    seen = picture(service)
    assert bits(straight_of(service)) == bits(model)
    again = killed(service)
    assert picture(again) == seen
    again.stop()


def _other_names() -> tuple[Any, ...]:
    from aucstream_service.journal.commands import Mode
    from aucstream_service.journal.row_batch import RowBatch

    body = {"features": {"d": 5.0, "c": 1.0}, "label": True}
    return RowBatch([body["features"]], [1.0], lines=[json.dumps(body).encode()]), "named", Mode.ALL


def straight_of(service: Direct) -> Any:
    """Return a model that learned all of a running service's journal."""
    copy = service.data_dir.with_name("straight")
    shutil.copytree(service.data_dir, copy, ignore=shutil.ignore_patterns("lock", "snapshots"))
    other = Direct(copy)
    model = other.host.models["m"]
    other.stop()
    return model


def test_killed_between_rollbacks_under_load(data_dir: Path) -> None:
    service = Running(data_dir, snapshot_every_rows=150, snapshot_keep=4)
    service.create("m", algorithm="ftrl")
    over = threading.Event()
    sent: dict[str, int] = {}

    def learn() -> None:
        number = 0
        with httpx.Client(timeout=20) as http:
            while not over.is_set():
                body = {**FIRST[number % 150], "id": f"n{number}"}
                try:
                    answer = http.post(f"{service.url}/v1/models/m/learn-one", json=body)
                except httpx.TransportError:
                    return
                if answer.status_code == 200:
                    sent[body["id"]] = answer.json()["seq"]
                    number += 1

    for _ in range(2):
        over.clear()
        thread = threading.Thread(target=learn)
        thread.start()
        done = 0
        while done < 3:
            listed = service.http.get("/v1/models/m/snapshots").json()["snapshots"]
            if listed and service.describe("m")["seq"] > listed[0]["seq"] + 40:
                answer = service.post("m", "rollback", {"snapshot": listed[-1]["seq"]})
                assert answer.status_code in (200, 404), answer.text
                done += answer.status_code == 200
        service.kill()
        over.set()
        thread.join()
        service = Running(data_dir, snapshot_every_rows=150, snapshot_keep=4)
        found = service.describe("m")
        assert found["seq"] >= max(sent.values())
        for id_, seq in list(sent.items())[-30:]:
            label = FIRST[int(id_[1:]) % 150]["label"]
            again = service.post("m", "label-one", {"id": id_, "label": label}).json()
            assert (again["duplicate"], again["seq"]) == (True, seq)
    assert service.stop() == 0
    assert fsck(data_dir, "--replay")[0] == 0


def test_the_client_goes_back(data_dir: Path) -> None:
    service = Local(data_dir, snapshot_every_rows=20)
    with Client(str(service.http.base_url)) as client:
        client.create("m", "ftrl")
        for number in range(25):
            client.learn_one("m", {"a": float(number)}, number % 2 == 0, id=f"e{number}")
        while not client.snapshots("m"):
            pass
        newest = client.snapshots("m")[0]
        answer = client.rollback("m", newest.seq, if_match=client.describe("m").etag)
        assert (answer.examples, answer.snapshot) == (newest.seq, newest.seq)
        assert client.learn_one("m", {"a": 24.0}, True, id="e24").duplicate
        with pytest.raises(SnapshotNotFound):
            client.rollback("m", 3)
    service.stop()
