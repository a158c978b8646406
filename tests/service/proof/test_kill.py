"""SIGKILL at random moments under load, producers that break off and retry: each event is learned once (S1, S3, S5)."""

from __future__ import annotations

import contextlib
import itertools
import json
import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aucstream.registry import mutable_params
from aucstream_service.journal.commands import ROWS, EventRecord, ModelRecord
from aucstream_service.models.model import Model
from aucstream_service.models.snapshots import Archive
from aucstream_service.storage.directory import DataDirectory
from tests.service.running import NDJSON, ROOT, Running
from tests.service.stream import lines, rows

BODIES = rows(2_000, seed=5)
PROBES = [body["features"] for body in rows(10, seed=2)]
MERGE = {"Content-Type": "application/merge-patch+json"}
PATIENCE = 0.1  # seconds before a producer tries again


class Producer(threading.Thread):
    """Sends without end until told to stop; after a broken connection it sends again what was not answered."""

    def __init__(self, town: Town, name: str) -> None:
        super().__init__(name=name)
        self.town = town
        self.sent: set[str] = set()  # what must be learned in the end
        self.acknowledged: dict[str, int] = {}  # id -> seq, where the answer told it
        self.answered = 0  # rows whose answer came
        self.highest = 0  # seq of an answer
        self.error: BaseException | None = None
        self.http = httpx.Client(timeout=20)
        self._numbers = itertools.count()
        self._random = random.Random(name)

    def run(self) -> None:
        try:
            with self.http:
                while not self.town.over.is_set():
                    self.work()
        except BaseException as error:
            self.error = error

    def post(self, call: str, content: Any, headers: dict[str, str] | None = None) -> Any:
        """Return the answer, however often the service is killed meanwhile."""
        while not self.town.abandoned:
            try:
                body = {"json": content} if headers is None else {"content": content(), "headers": headers}
                answer = self.http.post(f"{self.town.url}/v1/models/{self.town.name}/{call}", **body)
                if answer.status_code == 200:
                    return answer.json()
                # 404: the name may have changed on the way
                assert answer.status_code in (429, 503) or "model-not-found" in answer.text, answer.text
            except (httpx.TransportError, BrokenOff):
                pass
            time.sleep(PATIENCE)
        raise AssertionError("the test failed elsewhere")

    def new(self) -> dict[str, Any]:
        number = next(self._numbers)
        id_ = f"{self.name}-{number}"
        self.sent.add(id_)
        return {**BODIES[number % len(BODIES)], "id": id_}

    def took(self, answer: dict[str, Any], rows: int) -> None:
        self.highest = max(self.highest, answer["seq"])
        self.answered += rows

    def work(self) -> None:
        raise NotImplementedError


class BrokenOff(Exception):
    """The producer was killed in the middle of its request."""


class Ones(Producer):
    def work(self) -> None:
        body = self.new()
        answer = self.post("learn-one", body)
        self.acknowledged[body["id"]] = answer["seq"]
        self.took(answer, 1)


class Manies(Producer):
    """NDJSON of 60 rows; one request in four breaks off somewhere and is sent again from its beginning."""

    def work(self) -> None:
        lines = [json.dumps(self.new()).encode() + b"\n" for _ in range(60)]

        def content() -> Iterator[bytes]:
            last = self._random.randrange(60) if self._random.random() < 0.25 else None
            for at, line in enumerate(lines):
                if at == last:
                    raise BrokenOff
                yield line

        answer = self.post("learn-many", content, NDJSON)
        assert answer["accepted"] + answer["duplicates"] == 60, answer
        self.took(answer, 60)


class Labels(Producer):
    def work(self) -> None:
        body = self.new()
        first = self.post("predict-one", {"features": body["features"], "id": body["id"]})
        again = self.post("predict-one", {"features": body["features"], "id": body["id"]})
        assert again == first
        answer = self.post("label-one", {"id": body["id"], "label": body["label"]})
        self.acknowledged[body["id"]] = answer["seq"]
        self.took(answer, 1)


class Operator(Producer):
    """Changes the model while the others learn; what is not answered is done again, or was done."""

    def work(self) -> None:
        time.sleep(self._random.uniform(0.0, 0.1))
        number = next(self._numbers)
        settings: dict[str, Any] = {
            "evaluation": {"window": 100 + number % 50},
            "pending": {"capacity": 10_000 + number},
        }
        settings["columns"] = {"eviction": "least-recent" if number % 8 < 4 else "none"}
        if self.town.mutable is not None:
            settings["params"] = {self.town.mutable: 0.05 + number % 7}
        try:
            match number % 4:
                case 0 | 1:
                    url = f"{self.town.url}/v1/models/{self.town.name}"
                    answer = self.http.patch(url, content=json.dumps(settings), headers=MERGE)
                case 2:
                    answer = self.http.post(f"{self.town.url}/v1/models/{self.town.name}/reset-evaluation")
                case _:
                    body = {"to": f"m{number}"}
                    answer = self.http.post(f"{self.town.url}/v1/models/{self.town.name}/rename", json=body)
            assert answer.status_code in (200, 503), answer.text
            if answer.status_code == 200:
                self.highest = max(self.highest, answer.json()["seq"])
                self.town.done += 1
        except httpx.TransportError:
            time.sleep(PATIENCE)
        self.town.find_name(self.http)


class Town:
    """A service that is killed again and again, its producers, and a model that learned without a break."""

    def __init__(self, data_dir: Path, algorithm: str) -> None:
        self.data_dir = data_dir
        self.over = threading.Event()
        self.abandoned = False
        self.service = self.start()
        self.url = self.service.url
        self.name = "m"
        self.mutable = next(iter(sorted(mutable_params(algorithm))), None)
        self.done = 0  # changes that were answered
        self.changes = 0  # events of changes in the journal
        assert self.service.create("m", algorithm=algorithm, evaluation={"window": 200}).status_code == 201
        self.producers = [Ones(self, "ones"), Ones(self, "more"), Manies(self, "manies"), Labels(self, "labels")]
        self.producers.append(Operator(self, "operator"))
        self.straight: Model | None = None

    def start(self) -> Running:
        return Running(self.data_dir, snapshot_every_rows=300, snapshot_keep=25)

    def find_name(self, http: httpx.Client) -> None:
        """Look which name the model has: the answer of a rename may be lost."""
        with contextlib.suppress(httpx.TransportError):
            answer = http.get(f"{self.url}/v1/models")
            if answer.status_code == 200:
                self.name = answer.json()["models"][0]["name"]

    def kill(self) -> None:
        self.service.kill()
        told = sum(producer.answered for producer in self.producers)
        highest = max(producer.highest for producer in self.producers)
        known = {id_: seq for producer in self.producers for id_, seq in list(producer.acknowledged.items())[-5:]}
        self.service = self.start()  # nobody calls it yet
        found = self.service.http.get("/v1/models").json()["models"][0]
        self.name = found["name"]
        assert found["seq"] >= max(highest, told), "what was acknowledged is there"
        self.check(found)
        for id_, seq in known.items():
            answer = self.service.post(self.name, "label-one", {"id": id_, "label": self.label(id_)}).json()
            assert (answer["seq"], answer["duplicate"]) == (seq, True)
        self.url = self.service.url

    @staticmethod
    def label(id_: str) -> bool:
        return bool(BODIES[int(id_.rpartition("-")[2]) % len(BODIES)]["label"])

    def check(self, found: dict[str, Any]) -> None:
        """Compare with a replay of the journal by a model that never stopped, to the last bit."""
        # Whoever starts moves its log into the file, and nobody has called it since.
        with sqlite3.connect(f"file:{self.data_dir}/journal.sqlite3?immutable=1", uri=True) as db:
            events = db.execute(
                "SELECT seq_first, seq_last, kind, payload, received_at FROM events WHERE seq_last > ?"
                " AND seq_last <= ? ORDER BY seq_first",
                (0 if self.straight is None else self.straight.seq, found["seq"]),
            ).fetchall()
            if self.straight is None:
                record = ModelRecord(
                    *db.execute(
                        "SELECT model, name, spec, created_at, base_seq, seed, pruned_seq FROM models"
                    ).fetchone()
                )
                self.straight = Model(record)
        for event in events:
            assert event[0] == self.straight.seq + 1, "one after the other"
            self.straight.replay(EventRecord(*event))
            self.changes += event[2] not in ROWS
        assert self.straight.seq == found["seq"]
        assert self.straight.pipeline.examples == found["examples"]
        assert self.straight.evaluation.auc() == found["auc"]
        scores = self.straight.pipeline.engine.score_rows(PROBES).tolist()
        assert self.straight.spec.model_dump(mode="json") == found["spec"]
        assert [self.service.score(self.name, features) for features in PROBES] == scores


def siege(data_dir: Path, kills: int, seed: int, seconds: float, algorithm: str = "solam") -> str:
    town = Town(data_dir, algorithm)
    chance = random.Random(seed)
    for producer in town.producers:
        producer.start()
    try:
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, seconds))
            town.kill()
    except BaseException:
        town.abandoned = True
        raise
    finally:
        town.over.set()
        for producer in town.producers:
            producer.join()
    errors = [producer.error for producer in town.producers if producer.error is not None]
    assert not errors, errors
    sent = set().union(*(producer.sent for producer in town.producers))
    town.kill()
    found = town.service.describe(town.name)
    assert (found["examples"], found["pending"]) == (len(sent), 0)  # each exactly once
    assert found["seq"] == len(sent) + town.changes
    assert town.changes >= town.done > 0
    assert town.service.stop() == 0
    archive = Archive(DataDirectory(data_dir).snapshots, 25)
    assert not [name for name in archive.files.names(archive.of(1)) if name.endswith((".damaged", ".tmp"))]  # S3
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:
        ids = {row[0] for row in db.execute("SELECT id FROM ids")}
    assert ids == sent
    return f"{kills} kills, {len(sent)} events, {len(archive.seqs(1))} snapshots kept"


def test_killed_under_load_and_nothing_is_lost_or_learned_twice(data_dir: Path) -> None:
    siege(data_dir, 3, 1, 0.5)


@pytest.mark.soak  # a start takes seconds
def test_killed_under_load_two_hundred_times(data_dir: Path) -> None:
    print(siege(data_dir, 200, 2, 0.8))


def killed_at_both_ends(data_dir: Path, events: int, kills: int, seed: int) -> str:
    """Kill the producer and the service in turns; in the end the service has the events of the file, each once."""
    file = data_dir.with_name("events.ndjson")
    bodies = [{**body, "id": f"e{number}"} for number, body in enumerate(rows(events, seed=seed))]
    file.write_bytes(lines(bodies))
    chance = random.Random(seed)
    service = Running(data_dir, snapshot_every_rows=300)
    assert service.create("m", evaluation={"window": 500}).status_code == 201
    producer = started(service.url, file)
    died = 0
    for _ in range(kills):
        time.sleep(chance.uniform(0.2, 1.0))
        if chance.random() < 0.5:
            died += producer.poll() is None
            producer.kill()
            producer.wait()
            producer = started(service.url, file)
        else:
            service.kill()
            service = Running(data_dir, port=service.port, snapshot_every_rows=300)
    assert producer.wait(120) == 0
    found = service.describe("m")
    assert (found["seq"], found["examples"]) == (events, events)
    assert service.stop() == 0
    with sqlite3.connect(data_dir / "journal.sqlite3") as db:
        assert {row[0] for row in db.execute("SELECT id FROM ids")} == {body["id"] for body in bodies}
    return f"{kills} kills, {died} of a producer at work: {events} events, each once"


def started(url: str, file: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.service.proof.producer", url, str(file)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)


def test_a_producer_that_is_killed_over_a_service_that_is_killed(data_dir: Path) -> None:
    killed_at_both_ends(data_dir, 3_000, 3, 4)


@pytest.mark.soak
def test_a_producer_that_is_killed_over_a_service_that_is_killed_many_times(data_dir: Path) -> None:
    print(killed_at_both_ends(data_dir, 100_000, 40, 5))
