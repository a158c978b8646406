"""Each write, flush, rename and removal fails in turn: learning stops and goes on, nothing is lost and nothing is twice."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream.pipeline import Pipeline
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.journal import journal as journal_module
from aucstream_service.journal import writer as writer_module
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


def live(data_dir: Path, at: int, second: int = 0) -> Life:
    """Create a model, learn, predict, label, snapshot and stop, while one operation fails, or two.

    What is refused is sent again, until it is acknowledged.
    """
    life = Life()
    life.faults.at, life.faults.second = at, second
    VFS.faults = life.faults
    directory = DataDirectory(data_dir, files=FaultyFiles(life.faults), vfs="faulty")
    try:
        service = Direct(data_dir, directory=directory, snapshot_every_rows=9)
    except StartRefused:
        return life
    life.started = True

    def answered(send: Callable[[], httpx.Response]) -> httpx.Response:
        until = time.monotonic() + 20
        while (answer := send()).status_code == 503:
            assert life.faults.failed is not None, answer.text
            assert time.monotonic() < until, answer.text
            assert int(answer.headers["retry-after"]) >= 1
            life.stopped = True
            ready = service.http.get("/readyz")
            assert ready.status_code == 200
            if not ready.json()["learning"]:
                assert "journal" in ready.json()["why"]
            time.sleep(0.001)
        assert answer.status_code in (200, 201), answer.text
        return answer

    answered(lambda: service.create("m"))
    for number, body in enumerate(BODIES):
        if number % 6 == 5:  # the label comes later
            asked = {"features": body["features"], "id": body["id"]}
            answered(lambda asked=asked: service.post("m", "predict-one", asked))  # type: ignore[misc]
            label = {"id": body["id"], "label": body["label"]}
            answer = answered(lambda label=label: service.post("m", "label-one", label))  # type: ignore[misc]
        else:
            answer = answered(lambda body=body: service.post("m", "learn-one", body))  # type: ignore[misc]
        assert not answer.json()["duplicate"]
        assert answer.json()["seq"] == number + 1
        life.acknowledged[body["id"]] = answer.json()["seq"]
        assert service.post("m", "predict-one", {"features": body["features"]}).status_code == 200
    service.stop()
    return life


def check(data_dir: Path, life: Life) -> None:
    """Start again without faults."""
    assert not life.started or not life.faults.again, life.faults.failed
    service = Direct(data_dir)
    if service.create("m").status_code == 200 or life.acknowledged:
        assert service.host.faulted == []
        seq = service.describe("m")["seq"]
        assert seq == len(life.acknowledged)
        straight = Pipeline.from_spec({"algorithm": "solam"})
        for body in BODIES[:seq]:
            straight.engine.learn_rows([body["features"]], np.array([1.0 if body["label"] else -1.0]))
        assert [service.score("m", features) for features in PROBES] == straight.engine.score_rows(PROBES).tolist()
        for body in BODIES[:seq]:
            answer = service.post("m", "learn-one", body).json()
            assert answer["duplicate"]
            assert answer["seq"] == life.acknowledged[body["id"]]
    assert service.learn("m", {"a": 1.0}, 1)["duplicate"] is False
    service.stop()


def trial(folder: Path, at: int, second: int = 0) -> Life:
    life = live(folder / "data", at, second)
    try:
        check(folder / "data", life)
    except Exception as error:
        raise AssertionError(f"operation {at}: {life.faults.failed}") from error
    shutil.rmtree(folder / "data")
    return life


@pytest.fixture(autouse=True)
def _short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_module, "CHECKPOINT_PAGES", 40)
    monkeypatch.setattr(writer_module, "FIRST_RETRY_SECONDS", 0.001)
    monkeypatch.setattr(writer_module, "LAST_RETRY_SECONDS", 0.004)
    monkeypatch.setattr(sys, "unraisablehook", lambda _: None)  # where SQLite goes on after an error


def every(folder: Path, step: int) -> list[Any]:
    whole = trial(folder, 0)
    assert len(whole.acknowledged) == len(BODIES)
    told = [trial(folder, at, at + 1 + at % 12) for at in range(1, whole.faults.count + 1, step)]
    assert {life.stopped for life in told} == {True, False}
    return told


def test_some_operations_fail(tmp_path: Path) -> None:
    every(tmp_path, 41)


@pytest.mark.soak
def test_every_operation_fails(tmp_path: Path) -> None:
    told = every(tmp_path, 1)
    print(f"{len(told)} operations failed in turn, {sum(life.stopped for life in told)} stopped learning")
