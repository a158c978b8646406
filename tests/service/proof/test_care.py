"""Care of data: one bad model, fsck, records removed on request or by age, backups, other versions."""

from __future__ import annotations

import contextlib
import json
import logging
import re
import shlex
import shutil
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from aucstream.cli.commands import app
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import checksums
from aucstream_service.models import recovery
from tests.service.running import NDJSON, Direct, problem
from tests.service.stream import lines, rows

SECRET = "very-private-word"


def fsck(data_dir: Path, *options: str) -> tuple[int, dict[str, Any]]:
    found = CliRunner().invoke(app, ["fsck", str(data_dir), "--json", *options])
    print(found.stderr)
    return found.exit_code, json.loads(found.stdout) if found.stdout else {}


def filled(data_dir: Path, *names: str, **settings: Any) -> Direct:
    service = Direct(data_dir, **settings)
    for seed, name in enumerate(names):
        service.create(name)
        bodies = [{**body, "id": f"{name}{number}"} for number, body in enumerate(rows(60, seed=seed))]
        for start in range(0, 60, 20):
            service.raw(f"/v1/models/{name}/learn-many", lines(bodies[start : start + 20]), NDJSON)
        service.post(name, "predict-one", {"features": {"a": 1.0}, "id": f"{name}-waits"})
    return service


@contextlib.contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Change a journal, and let go of it: a connection that is forgotten closes at some later time."""
    with contextlib.closing(sqlite3.connect(path)) as db, db:
        yield db


def picture(service: Direct, name: str) -> Any:
    scores = [service.score(name, body["features"]) for body in rows(9, seed=7)]
    return service.describe(name), scores


def test_s24_one_damaged_model_is_set_aside_and_the_others_serve(
    data_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    service = filled(data_dir, "bad", "good", "ids", "kinds")
    before = picture(service, "good")
    service.stop()
    shutil.rmtree(data_dir / "snapshots")
    assert fsck(data_dir)[0] == 0  # all is in the journal
    with opened(data_dir / "journal.sqlite3") as db:
        payload = db.execute("SELECT payload FROM events WHERE model = 1 AND seq_first = 21").fetchone()[0]
        changed = payload.replace(b'"a": ', b'"a":1', 1)
        assert changed != payload
        db.execute("UPDATE events SET payload = ? WHERE model = 1 AND seq_first = 21", (changed,))
        db.execute("UPDATE ids SET sign = -sign WHERE model = 3 AND seq = 5")
        db.execute("UPDATE events SET kind = 99 WHERE model = 4 AND seq_first = 41")
    status, report = fsck(data_dir)
    assert status == 1
    assert [bool(model["damage"]) for model in report["models"]] == [True, False, True, True]
    assert "events 21 to 40" in report["models"][0]["damage"][0]

    service = Direct(data_dir)
    assert picture(service, "good") == before
    for name in ("bad", "ids", "kinds"):
        assert f"model {name} " in caplog.text
        document = problem(service.post(name, "learn-one", rows(1)[0]), 503, "model-faulted")
        assert "fsck" in document["detail"]
        assert service.http.get(f"/v1/models/{name}").status_code == 503
        assert service.create(name).status_code == 503
    ready = service.http.get("/readyz")
    assert (ready.status_code, ready.json()["status"], ready.json()["learning"]) == (200, "ready", True)
    assert ready.json()["faulted"] == ["bad", "ids", "kinds"]
    assert 'aucstream_model_faulted{model="bad"} 1.0' in service.http.get("/metrics").text
    assert service.learn("good", {"a": 1.0}, 1)["seq"] == 61
    assert service.http.delete("/v1/models/bad").status_code == 204
    assert service.create("bad").status_code == 201
    assert service.learn("bad", {"a": 1.0}, 1)["seq"] == 1
    service.stop()

    found = CliRunner().invoke(app, ["fsck", str(data_dir), "--quarantine", "ids"])
    assert found.exit_code == 1, found.stderr  # "kinds" is still there
    assert "quarantine/ids-3" in found.stderr
    with opened(data_dir / "quarantine" / "ids-3" / "journal.sqlite3") as db:
        assert db.execute("SELECT count(*) FROM events").fetchone()[0] == 3
    assert fsck(data_dir, "--quarantine", "kinds")[0] == 0
    service = Direct(data_dir)
    assert service.http.get("/readyz").json()["faulted"] == []
    assert service.create("ids").status_code == 201
    service.stop()


def test_s6_a_missing_piece_is_named(data_dir: Path, caplog: pytest.LogCaptureFixture) -> None:
    filled(data_dir, "m", "other").stop()
    shutil.rmtree(data_dir / "snapshots" / "1")
    with opened(data_dir / "journal.sqlite3") as db:
        db.execute("DELETE FROM events WHERE model = 1 AND seq_first = 21")
    status, report = fsck(data_dir)
    assert status == 1
    assert report["models"][0]["damage"] == ["events 21 to 40: missing"]
    service = Direct(data_dir)
    assert "events 21 to 40" in caplog.text
    assert service.http.get("/readyz").json()["faulted"] == ["m"]
    service.stop()


def test_an_event_that_is_pruned_in_part_is_still_there_whole(data_dir: Path) -> None:
    filled(data_dir, "m").stop()
    shutil.rmtree(data_dir / "snapshots" / "1")
    with opened(data_dir / "journal.sqlite3") as db:
        columns = ", ".join(checksums.COVERED["models"])
        row = (*db.execute(f"SELECT {columns} FROM models").fetchone()[:-1], 10)
        db.execute("UPDATE models SET pruned_seq = 10, checksum = ?", (checksums.of_row(row),))
    assert fsck(data_dir)[0] == 0
    service = Direct(data_dir)
    assert service.describe("m")["seq"] == 60
    service.stop()


def test_fsck_tells_snapshots_and_replays_and_refuses_what_is_served(data_dir: Path) -> None:
    service = filled(data_dir, "m", snapshot_every_rows=20)
    assert CliRunner().invoke(app, ["fsck", str(data_dir)]).exit_code == 2
    service.stop()
    status, report = fsck(data_dir, "--replay")
    assert (status, report["sound"]) == (0, True)
    model = report["models"][0]
    assert model["replay"] == "equal"
    assert model["seq"] == 60
    newest = data_dir / "snapshots" / "1" / f"{model['snapshots'][-1]}.safetensors"
    newest.write_bytes(newest.read_bytes()[:-9])
    status, report = fsck(data_dir)
    assert status == 1
    assert newest.name in report["models"][0]["damage"][0]
    text = CliRunner().invoke(app, ["fsck", str(data_dir)]).stdout
    assert "model m: damaged" in text
    nothing = CliRunner().invoke(app, ["fsck", str(data_dir / "nothing")])
    assert nothing.exit_code == 2
    assert "found none at" in nothing.stderr and "expect-existing" not in nothing.stderr
    assert not (data_dir / "nothing").exists()


def raw(data_dir: Path) -> bytes:
    return b"".join(path.read_bytes() for path in data_dir.glob("journal.sqlite3*"))


def test_a_raw_record_is_removed_and_what_was_learned_stays(data_dir: Path) -> None:
    service = filled(data_dir, "m")
    service.learn("m", {"a": 1.0, "word": SECRET}, 1, id="mine")
    service.post("m", "predict-one", {"features": {"a": 2.0, "word": SECRET}, "id": "waits"})
    service.post("m", "learn-many", rows(5, seed=3))
    before = picture(service, "m")
    assert raw(data_dir).count(SECRET.encode()) >= 2

    def remove(id_: str) -> Any:
        answer = service.http.delete("/v1/models/m/events", params={"id": id_})
        assert answer.status_code == 200, answer.text
        return answer.json()["removed"]

    assert remove("unknown") == 0
    assert remove("mine") == 1
    assert remove("mine") == 0
    assert remove("waits") == 1
    for call, body in (
        ("label-one", {"label": 1}),
        ("learn-one", {"features": {"a": 2.0}, "label": 1}),
        ("predict-one", {"features": {"a": 2.0}}),
    ):
        problem(service.post("m", call, {**body, "id": "waits"}), 410, "expired")
    assert service.post("m", "learn-one", {"features": {"a": 1}, "label": 1, "id": "mine"}).json()["duplicate"]
    service.post("m", "learn-many", rows(5, seed=4))
    assert SECRET.encode() not in raw(data_dir)
    before[0]["pending"] -= 1
    after = picture(service, "m")
    assert after[0]["seq"] == before[0]["seq"] + 5
    copied, other = data_dir.with_name("copy"), data_dir.with_name("other")
    for copy in (copied, other):
        shutil.copytree(data_dir, copy, ignore=shutil.ignore_patterns("lock"))
    service.stop()
    service = Direct(copied)  # as after a kill: from the snapshot that was taken for it
    assert picture(service, "m") == after
    assert service.host.replayed == 5
    service.stop()
    shutil.rmtree(other / "snapshots" / "1")
    service = Direct(other)  # without that snapshot the record is missing, and that is said
    assert service.http.get("/readyz").json()["faulted"] == ["m"]
    assert "removed on request" in service.host.set_aside["m"].reason
    service.stop()


def test_what_is_removed_leaves_no_copy_in_the_file(data_dir: Path) -> None:
    now = 1.7e9
    service = Direct(data_dir, clock=lambda: now)
    for name in ("m", "gone"):
        service.create(name, pending={"ttl_seconds": 100})
        for number in range(200):
            features = {"iban": f"{SECRET}{number}"}
            service.post(name, "predict-one", {"features": features, "id": f"e{number}"})
            if number % 2:
                service.post(name, "label-one", {"id": f"e{number}", "label": number % 3 == 0})
    for number in range(1, 200, 2):
        answer = service.http.delete("/v1/models/m/events", params={"id": f"e{number}"})
        assert answer.json() == {"removed": 1}
    now += 200  # the others expire
    assert service.post("m", "label-one", {"id": "e0", "label": 1}).status_code == 410
    service.sweep()
    assert service.describe("m")["pending"] == 0
    assert service.http.delete("/v1/models/gone").status_code == 204
    while service.host.journal.purging:  # by the writer's thread, when it has nothing else to do
        time.sleep(0.01)
    service.stop()
    assert SECRET.encode() not in (data_dir / "journal.sqlite3").read_bytes()


def test_raw_records_are_removed_by_age_when_a_snapshot_holds_what_was_learned(data_dir: Path) -> None:
    now = 1.7e9
    service = filled(data_dir, "m", "idle", clock=lambda: now, retain_seconds=1_000)
    now += 900
    service.post("m", "learn-many", rows(5, seed=3))

    def events(name: str) -> int:
        number = service.host.models[name].number
        return service.host.journal._integer("SELECT count(*) FROM events WHERE model = ?", number)

    service.loop.run_until_complete(service.host.retention.retain(1_000))
    assert (events("m"), events("idle")) == (4, 3)
    now += 200
    before = [picture(service, name) for name in ("m", "idle")]
    service.loop.run_until_complete(service.host.retention.retain(1_000))
    assert (events("m"), events("idle")) == (1, 0)
    copied = data_dir.with_name("copy")
    shutil.copytree(data_dir, copied, ignore=shutil.ignore_patterns("lock"))
    service.stop()
    service = Direct(copied, clock=lambda: now)
    assert [picture(service, name) for name in ("m", "idle")] == before
    service.stop()


@pytest.mark.parametrize("erased", [False, True], ids=["by age", "by age and on request"])
def test_what_was_removed_is_not_compared(data_dir: Path, erased: bool) -> None:
    now = 1.7e9
    service = filled(data_dir, "m", clock=lambda: now, retain_seconds=1_000, snapshot_every_rows=20)
    if erased:
        assert service.http.delete("/v1/models/m/events?id=m50").status_code == 200
    service.post("m", "learn-many", rows(5, seed=3))
    service.loop.run_until_complete(service.host.snapshotter.write(service.host.models["m"]))
    now += 2_000
    service.loop.run_until_complete(service.host.retention.retain(1_000))
    service.stop()
    status, report = fsck(data_dir, "--replay")
    model = report["models"][0]
    assert (status, report["sound"], model["damage"]) == (0, True, [])
    assert len(model["snapshots"]) > 1
    assert model["replay"].endswith("not compared"), model["replay"]
    found = CliRunner().invoke(app, ["fsck", str(data_dir), "--replay"])
    assert found.exit_code == 0
    with opened(data_dir / "journal.sqlite3") as db:
        columns = ", ".join(checksums.COVERED["models"])
        row = (*db.execute(f"SELECT {columns} FROM models").fetchone()[:-1], 0)
        db.execute("UPDATE models SET pruned_seq = 0, checksum = ?", (checksums.of_row(row),))
    assert fsck(data_dir, "--replay")[0] == 1  # what nobody removed is missing


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "a moment of the volume"])
def test_a_backup_is_restored(data_dir: Path, stopped: bool) -> None:
    service = filled(data_dir, "m")
    before = picture(service, "m"), service.evaluation("m")
    waits = service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "m-waits"}).json()
    if stopped:
        service.stop()
    restored = data_dir.with_name("restored")
    shutil.copytree(data_dir, restored, ignore=shutil.ignore_patterns("lock"))  # nothing is written meanwhile
    if not stopped:
        service.learn("m", {"a": 1.0}, 1, id="later")
        service.stop()
    service = Direct(restored)
    assert (picture(service, "m"), service.evaluation("m")) == before
    assert service.learn("m", **rows(1)[0], id="m0")["duplicate"] is True
    assert service.post("m", "predict-one", {"features": {"a": 1.0}, "id": "m-waits"}).json() == waits
    assert service.post("m", "label-one", {"label": 1, "id": "m-waits"}).json()["score"] == waits["score"]
    assert service.learn("m", {"a": 1.0}, 1, id="later")["seq"] == 62
    service.stop()


def test_what_a_start_says_of_a_damaged_journal_is_what_helps(data_dir: Path) -> None:
    service = filled(data_dir, "m", "n")
    service.loop.run_until_complete(service.host.snapshotter.write(service.host.models["m"]))
    before = picture(service, "m"), service.evaluation("m")
    service.learn("m", {"a": 1.0}, 1, id="after")
    copied, new = data_dir.with_name("copied"), data_dir.with_name("new")
    shutil.copytree(data_dir, copied, ignore=shutil.ignore_patterns("lock"))
    service.stop()
    with opened(copied / "journal.sqlite3") as db:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        root, page = db.execute("SELECT rootpage FROM sqlite_master WHERE name = 'ids'").fetchone()[0], 4096
    data = bytearray((copied / "journal.sqlite3").read_bytes())
    data[(root - 1) * page : root * page] = b"\xa5" * page
    (copied / "journal.sqlite3").write_bytes(data)
    with pytest.raises(StartRefused) as refused:
        Direct(copied)
    assert "Restore a backup" in str(refused.value)
    match = re.search(r"`aucstream (fsck .* --salvage) NEW_DIR`", str(refused.value))
    assert match is not None
    assert fsck(copied)[0] == 1
    assert CliRunner().invoke(app, [*shlex.split(match[1]), str(data_dir)]).exit_code == 2  # not over what is there
    found = CliRunner().invoke(app, [*shlex.split(match[1]), str(new)])
    assert (found.exit_code, found.stderr) == (1, "aucstream fsck: not all models could be kept\n")
    assert found.stdout.splitlines()[:2] == ["model m: as after seq 60", "model n: lost, no snapshot of it can be read"]
    assert (copied / "journal.sqlite3").read_bytes() == data
    service = Direct(new)
    described, scores = picture(service, "m")
    assert ({**described, "pending": 1, "created_at": before[0][0]["created_at"]}, scores) == before[0]
    assert service.evaluation("m") == before[1]
    problem(service.post("m", "label-one", {"id": "m-waits", "label": 1}), 404, "unknown-id")  # as it was told
    assert service.learn("m", {"a": 1.0}, 1, id="after")["seq"] == 61
    service.stop()
    assert fsck(new)[0] == 0


def test_another_version_of_the_library_is_told(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    filled(data_dir, "m").stop()
    monkeypatch.setattr("aucstream_service.models.recovery.__version__", "9.9.9")
    monkeypatch.setattr("aucstream_service.models.model.__version__", "9.9.9")
    monkeypatch.setattr("aucstream_service.journal.journal.__version__", "9.9.9")
    assert recovery.__version__ == "9.9.9"
    with caplog.at_level(logging.WARNING, "aucstream"):
        service = Direct(data_dir)
    assert "this is 9.9.9: what is replayed may differ in the last bits" in caplog.text
    service.learn("m", {"a": 1.0}, 1)
    service.stop()
    status, report = fsck(data_dir)
    assert status == 0
    assert report["versions"][-1] == "9.9.9"
    assert len(report["versions"]) == 2
