"""Each write, flush, rename and removal fails in turn: learning stops or goes on, nothing acknowledged is lost."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream.pipeline import Pipeline
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import journal as journal_module
from aucstream_service.storage.directory import DataDirectory
from tests.service.running import Direct
from tests.service.stream import rows

from .faults import Faults, FaultyFiles, FaultyVFS

VFS = FaultyVFS("faulty")
BODIES = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(36))]
PROBES = [body["features"] for body in rows(5, seed=2)]


@dataclass
class Life:
    acknowledged: dict[str, int] = field(default_factory=dict)  # id -> seq
    started: bool = False
    stopped: bool = False  # learning answered 503
    faults: Faults = field(default_factory=Faults)


def live(data_dir: Path, at: int) -> Life:
    """Create a model, learn, predict, label, snapshot and stop, while one operation fails."""
    life = Life()
    life.faults.at = at
    VFS.faults = life.faults
    directory = DataDirectory(data_dir, files=FaultyFiles(life.faults), vfs="faulty")
    try:
        service = Direct(data_dir, directory=directory, snapshot_every_rows=9)
    except StartRefused:
        return life
    life.started = True
    service.create("m")
    for number, body in enumerate(BODIES):
        if number % 6 == 5:  # the label comes later
            asked = {"features": body["features"], "id": body["id"]}
            answers = [
                service.post("m", "predict-one", asked),
                service.post("m", "label-one", {"id": body["id"], "label": body["label"]}),
            ]
        else:
            answers = [service.post("m", "learn-one", body)]
        for answer in answers:
            assert answer.status_code == 200 or life.faults.failed is not None, answer.text
            assert answer.status_code in (200, 503, 404), answer.text
            assert answer.status_code != 200 or not life.stopped
        life.stopped |= answers[0].status_code == 503
        if answers[-1].status_code == 200:
            life.acknowledged[body["id"]] = answers[-1].json()["seq"]
        if "m" in service.host.models:
            assert service.post("m", "predict-one", {"features": body["features"]}).status_code == 200
    if life.stopped:
        assert service.http.get("/readyz").status_code == 503
    service.stop()
    return life


def check(data_dir: Path, life: Life) -> None:
    """Start again without faults."""
    assert not life.started or not life.faults.again, life.faults.failed
    service = Direct(data_dir)
    if service.create("m").status_code == 200 or life.acknowledged:
        assert service.host.faulted == []
        seq = service.describe("m")["seq"]
        assert seq in (len(life.acknowledged), len(life.acknowledged) + 1)
        straight = Pipeline.from_spec({"algorithm": "solam"})
        for body in BODIES[:seq]:
            straight.engine.learn_rows([body["features"]], np.array([1.0 if body["label"] else -1.0]))
        assert [service.score("m", features) for features in PROBES] == straight.engine.score_rows(PROBES).tolist()
        for body in BODIES[:seq]:
            answer = service.post("m", "learn-one", body).json()
            assert answer["duplicate"]
            assert answer["seq"] == life.acknowledged.get(body["id"], seq)
    assert service.learn("m", {"a": 1.0}, 1)["duplicate"] is False
    service.stop()


def trial(folder: Path, at: int) -> Life:
    life = live(folder / "data", at)
    try:
        check(folder / "data", life)
    except Exception as error:
        raise AssertionError(f"operation {at}: {life.faults.failed}") from error
    shutil.rmtree(folder / "data")
    return life


@pytest.fixture(autouse=True)
def _short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CHECKPOINT_PAGES", 40)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # where SQLite goes on after an error


def every(folder: Path, step: int) -> list[Any]:
    whole = trial(folder, 0)
    assert len(whole.acknowledged) == len(BODIES)
    told = [trial(folder, at) for at in range(1, whole.faults.count + 1, step)]
    assert {life.stopped for life in told} == {True, False}
    return told


def test_some_operations_fail(tmp_path: Path) -> None:
    every(tmp_path, 41)


@pytest.mark.soak
def test_every_operation_fails(tmp_path: Path) -> None:
    told = every(tmp_path, 1)
    print(f"{len(told)} operations failed in turn, {sum(life.stopped for life in told)} stopped learning")
