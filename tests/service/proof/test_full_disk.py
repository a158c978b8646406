"""A disk that fills and empties again under load: learning stops and goes on by itself, scoring goes on throughout."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.running import NDJSON, Local, Running
from tests.service.stream import lines, rows

BODIES = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(30_000))]
CHUNK = 50
PROBES = [body["features"] for body in rows(5, seed=2)]


@contextlib.contextmanager
def small_disk(path: Path, mebibytes: int) -> Iterator[None]:
    """Mount a file system in memory of so many MiB, or skip the test."""
    path.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("a file system can be mounted by root alone")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


class Producer(threading.Thread):
    """Sends chunks of rows with ids in order, each until it is acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.acknowledged = 0
        self.refused = 0
        self.stopping = threading.Event()
        self.wrong: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as http:
            while not self.stopping.is_set() and self.acknowledged < len(BODIES):
                chunk = BODIES[self.acknowledged : self.acknowledged + CHUNK]
                answer = http.post("/v1/models/m/learn-many", content=lines(chunk), headers=NDJSON)
                if answer.status_code == 503:
                    self.refused += 1
                    time.sleep(0.05)
                elif answer.status_code == 200 and (done := answer.json())["accepted"] + done["duplicates"] == CHUNK:
                    self.acknowledged += CHUNK
                else:
                    self.wrong.append(answer.text)
                    return


class Scorer(threading.Thread):
    """Scores without a pause."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.url = url
        self.statuses: dict[int, int] = {}
        self.stopping = threading.Event()

    def run(self) -> None:
        with httpx.Client(base_url=self.url, timeout=30) as http:
            while not self.stopping.is_set():
                answer = http.post("/v1/models/m/predict-one", json={"features": PROBES[0]})
                self.statuses[answer.status_code] = self.statuses.get(answer.status_code, 0) + 1
                time.sleep(0.005)


def until(condition: Any, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def fill(disk: Path) -> Path:
    """Take all that is free of a disk."""
    ballast = disk / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return ballast


def test_a_disk_fills_and_empties_again_under_load(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, 24):
        service = Running(disk / "data", snapshot_every_rows=5_000, max_ids=100_000)
        service.create("m")
        producer, scorer = Producer(service.url), Scorer(service.url)
        producer.start()
        scorer.start()
        for _ in range(3):
            before = producer.acknowledged
            until(lambda before=before: producer.acknowledged > before + 500 or not producer.is_alive())
            refused = producer.refused
            ballast = fill(disk)
            until(lambda refused=refused: producer.refused > refused + 10)
            stood = producer.acknowledged
            ready = service.http.get("/readyz")
            assert ready.status_code == 200
            if not ready.json()["learning"]:
                assert service.http.get("/readyz?for=learning").status_code in (200, 503)
            ballast.unlink()
            until(lambda stood=stood: producer.acknowledged > stood + 500 or not producer.is_alive())
        producer.stopping.set()
        scorer.stopping.set()
        producer.join()
        scorer.join()
        assert producer.wrong == []
        assert producer.refused > 30
        assert set(scorer.statuses) == {200}
        count = producer.acknowledged
        described = service.describe("m")
        assert (described["examples"], described["seq"]) == (count, count)
        scores = [service.score("m", features) for features in PROBES]
        evaluation = service.evaluation("m")
        service.kill()

        again = Running(disk / "data")
        assert again.describe("m")["examples"] == count
        assert [again.score("m", features) for features in PROBES] == scores
        assert again.evaluation("m") == evaluation
        answer = again.raw("/v1/models/m/learn-many", lines(BODIES[:count]), NDJSON).json()
        assert (answer["accepted"], answer["duplicates"]) == (0, count)
        assert again.stop() == 0

    straight = Local(tmp_path / "straight")
    straight.create("m")
    straight.raw("/v1/models/m/learn-many", lines(BODIES[:count]), NDJSON)
    assert [straight.score("m", features) for features in PROBES] == scores
    straight.stop()


@pytest.mark.parametrize("clean", [False, True], ids=["killed", "stopped"])
def test_a_start_on_a_full_disk_scores_and_learns_when_there_is_space(tmp_path: Path, clean: bool) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, 24):
        service = Running(disk / "data", snapshot_every_rows=1_000_000)
        service.create("m")
        for start in range(0, 2_000, CHUNK):
            answer = service.raw("/v1/models/m/learn-many", lines(BODIES[start : start + CHUNK]), NDJSON)
            assert answer.json()["accepted"] == CHUNK
        scores = [service.score("m", features) for features in PROBES]
        evaluation = service.evaluation("m")
        if clean:
            assert service.stop() == 0
        else:
            service.kill()
            assert (disk / "data" / "journal.sqlite3-wal").stat().st_size > 1 << 18
        ballast = fill(disk)

        for attempt in range(2):  # a start that changed nothing is followed by another
            again = Running(disk / "data", log_path=tmp_path / "service.log")
            assert [again.score("m", features) for features in PROBES] == scores
            assert again.evaluation("m") == evaluation
            ready = again.http.get("/readyz")
            assert (ready.status_code, ready.json()["learning"]) == (200, False)
            assert "journal" in ready.json()["why"]
            assert again.http.get("/readyz?for=learning").status_code == 503
            refused = again.raw("/v1/models/m/learn-many", lines(BODIES[:CHUNK]), NDJSON)
            assert refused.status_code == 503
            assert refused.json()["type"].endswith("journal-unavailable")
            assert int(refused.headers["Retry-After"]) >= 1
            if attempt == 0:
                again.kill()

        ballast.unlink()
        until(lambda: again.http.get("/readyz?for=learning").status_code == 200)
        assert again.http.get("/readyz").json()["learning"] is True
        answer = again.raw("/v1/models/m/learn-many", lines(BODIES[1_000:3_000]), NDJSON).json()
        assert (answer["accepted"], answer["duplicates"]) == (1_000, 1_000)
        scores = [again.score("m", features) for features in PROBES]
        evaluation = again.evaluation("m")
        again.kill()

        last = Running(disk / "data", log_path=tmp_path / "service.log")
        assert (last.describe("m")["examples"], last.describe("m")["seq"]) == (3_000, 3_000)
        assert [last.score("m", features) for features in PROBES] == scores
        assert last.evaluation("m") == evaluation
        assert last.stop() == 0

    straight = Local(tmp_path / "straight")
    straight.create("m")
    straight.raw("/v1/models/m/learn-many", lines(BODIES[:3_000]), NDJSON)
    assert [straight.score("m", features) for features in PROBES] == scores
    straight.stop()


def test_a_new_directory_on_a_full_disk_is_refused_with_its_path_and_what_to_do(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    with small_disk(disk, 1):
        fill(disk)
        service = Running(disk / "data", log_path=tmp_path / "service.log", wait=False)
        assert service.ended() != 0
        assert f"start: room to write {disk / 'data' / 'journal.sqlite3'}" in service.log
        assert "free space on its disk, then start again" in service.log


if os.geteuid() != 0:
    pytestmark = pytest.mark.skip("a file system can be mounted by root alone")
