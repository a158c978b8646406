"""One model at work keeps no other waiting, and what happens to it has the order that it has on the loop."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream.pipeline import Pipeline
from aucstream.registry import LEARNERS
from aucstream_service.models import model as models
from aucstream_service.telemetry.loop_lag import PERIOD, LoopLag
from tests.service.running import Local, Running
from tests.service.stream import lines, rows

MOST_LAG = 0.25  # seconds; what is wanted is 0.05, which a busy machine alone exceeds at times
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}
IDS = [{"features": {"user": f"u{i}", "a": float(i % 7), "b": 1.0}, "label": i % 3 == 0} for i in range(300)]


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    service = Local(tmp_path / "data", durability="os", snapshot_every_rows=100)
    yield service
    service.stop()


class Slow:
    """Lets each step of one model take a while, as soon as it is set."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
        self.began = threading.Event()
        self.threads: set[int] = set()
        learned_rows = models.Model._learned_rows

        def slowly(model: models.Model, *arguments: Any) -> list[float]:
            if model.name == name:
                self.began.set()
                self.threads.add(threading.get_ident())
                with model.pipeline._gate.lock:  # as a step holds it
                    time.sleep(seconds)
            return learned_rows(model, *arguments)

        is_large = models.Model.is_large
        monkeypatch.setattr(models.Model, "_learned_rows", slowly)
        monkeypatch.setattr(models.Model, "is_large", lambda model, n: model.name == name or is_large(model, n))


def test_others_are_answered_while_a_model_takes_a_long_step(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("heavy", "light"):
        assert local.create(name, algorithm="psam").status_code == 201
        local.learn(name, {"a": 1.0}, 1)
        local.learn(name, {"a": -1.0}, 0)
    before = local.describe("heavy")
    slow = Slow(monkeypatch, "heavy", 2.0)
    with ThreadPoolExecutor(2) as pool, httpx.Client(base_url=local.http.base_url, timeout=60) as other:
        learned = pool.submit(other.post, "/v1/models/heavy/learn-one", json={"features": {"a": 2.0}, "label": 1})
        assert slow.began.wait(10)
        own = pool.submit(local.score, "heavy", {"a": 1.0})
        begun = time.perf_counter()
        with httpx.Client(base_url=local.http.base_url, timeout=60) as third:
            score = third.post("/v1/models/light/predict-one", json={"features": {"a": 1.0}})
            answers = [score, *(third.get(path) for path in ("/livez", "/readyz", "/metrics", "/v1/models"))]
            learned_light = third.post("/v1/models/light/learn-one", json={"features": {"a": 0.5}, "label": 1})
            description = third.get("/v1/models/heavy").json()
        seconds = time.perf_counter() - begun
        assert not learned.done() and not own.done()
        assert [answer.status_code for answer in (*answers, learned_light)] == [200] * 6
        assert description == before
        assert seconds < 1.6
        assert learned.result().json()["seq"] == 3
        own.result()
    assert slow.threads.isdisjoint({local._thread.ident})
    assert local.describe("heavy")["seq"] == 3


@pytest.mark.parametrize("algorithm", ["auto", "mba", "opauc", "jointforest"])
def test_what_is_learned_apart_is_what_is_learned_on_the_loop(
    local: Local, algorithm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "SLOW_BYTES", -1)
    assert local.create("m", algorithm=algorithm).status_code == 201
    bodies = rows(240, positives=0.4)

    async def client(http: httpx.AsyncClient, number: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        done = []
        for at, body in enumerate(bodies[number:120:6]):
            answer = (await http.post("/v1/models/m/learn-one", json=body)).json()
            done.append((answer, body))
            guess = (await http.post("/v1/models/m/predict-one", json={"features": body["features"]})).json()
            assert guess["seq"] >= answer["seq"]
            if at % 5 == number % 5:
                path = ("evaluation", "snapshot", "roc", "weights", "")[number % 5]
                assert (await http.get(f"/v1/models/m/{path}".rstrip("/"))).status_code in (200, 409)
        return done

    async def run() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        async with httpx.AsyncClient(base_url=local.http.base_url, timeout=60) as http:
            parts = await asyncio.gather(*(client(http, number) for number in range(6)))
        return [pair for part in parts for pair in part]

    done = sorted(asyncio.run(run()), key=lambda pair: pair[0]["seq"])
    assert [answer["seq"] for answer, _ in done] == list(range(1, 121))
    assert (
        local.raw("/v1/models/m/learn-many", lines(bodies[120:]), {"Content-Type": "application/x-ndjson"}).json()[
            "accepted"
        ]
        == 120
    )
    order = [body for _, body in done] + bodies[120:]
    monkeypatch.undo()
    pipeline = Pipeline.from_spec({"algorithm": algorithm})
    scores = [
        pipeline.engine.learn_row(body["features"], 1.0 if body["label"] else -1.0, body.get("weight", 1.0))
        for body in order
    ]
    assert [answer["score"] for answer, _ in done] == scores[:120]
    probe = {"features": bodies[0]["features"], "explain": False}
    assert local.post("m", "predict-one", probe).json()["score"] == pipeline.engine.score_rows([probe["features"]])[0]
    assert local.app.model_host.waiting_rows == 0


def test_a_fault_of_a_step_in_a_thread_sets_the_model_aside(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    local.create("bad", algorithm="psam")
    local.create("good", algorithm="psam")

    def broken(model: models.Model, *arguments: Any) -> list[float]:
        raise ZeroDivisionError

    monkeypatch.setattr(models, "SLOW_BYTES", -1)
    monkeypatch.setattr(models.Model, "_learned_rows", broken)
    answer = local.post("bad", "learn-one", {"features": {"a": 1.0}, "label": 1})
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:aucstream:problem:model-faulted")
    monkeypatch.undo()
    local.learn("good", {"a": 1.0}, 1)
    assert local.http.get("/readyz").json()["faulted"] == ["bad"]
    assert local.app.model_host.waiting_rows == 0


@pytest.fixture(scope="module")
def apart(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A service in a process of its own: what clients do does not hold its interpreter."""
    running = Running(tmp_path_factory.mktemp("stalls") / "data", durability="os", snapshot_every_rows=100)
    yield running
    running.stop()


class Watchdog:
    """Fails where the loop of a service was later than a bound while it watched."""

    def __init__(self, service: Running) -> None:
        self._service = service

    def __enter__(self) -> Watchdog:
        self._before = self._late()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            late = self._late()
            new = {bound: late[bound] - self._before[bound] for bound in late}
            assert new[MOST_LAG] == 0, f"lags of the loop above so many seconds: {new}"

    def _late(self) -> dict[float, float]:
        """Return how many ticks came later than each bound."""
        bucket = r'aucstream_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)'
        counts = {float(le): float(n) for le, n in re.findall(bucket, self._service.http.get("/metrics").text)}
        assert counts[float("inf")] > 0
        return {bound: counts[float("inf")] - count for bound, count in counts.items()}


def test_no_callback_is_long_with_models_of_all_kinds_at_work(apart: Running) -> None:
    maps = [{"algorithm": "psam", "map": {"kind": kind, "warmup": 150}} for kind in ("kmeansnystroem", "randomfourier")]
    specs = [{"algorithm": name} for name in LEARNERS] + maps
    names = [f"m{number}" for number, spec in enumerate(specs) if apart.create(f"m{number}", **spec).status_code == 201]
    assert len(names) >= 20

    def work(name: str) -> None:
        with httpx.Client(base_url=apart.http.base_url, timeout=120) as http:
            for start in range(0, len(IDS), 60):
                body = "".join(json.dumps(row) + "\n" for row in IDS[start : start + 60])
                answer = http.post(
                    f"/v1/models/{name}/learn-many?on_error=skip",
                    content=body,
                    headers={"Content-Type": "application/x-ndjson"},
                )
                assert answer.status_code == 200, answer.text
                for path in ("weights?top=5", "evaluation", "snapshot"):
                    assert http.get(f"/v1/models/{name}/{path}").status_code in (200, 409)
            assert http.get("/metrics").status_code == 200

    work(names[0])  # what is loaded once
    with Watchdog(apart), ThreadPoolExecutor(6) as pool:
        list(pool.map(work, names))


def test_a_row_of_many_new_names_and_a_list_of_many_weights_hold_nobody(apart: Running) -> None:
    apart.create("wide", algorithm="psam", scaler="none")
    names = {f"name{i}": 1.0 for i in range(60_000)}
    apart.learn("wide", {"a": 1.0}, 1)
    with Watchdog(apart):
        strings = dict.fromkeys(list(names)[:40_000], "new")
        assert apart.post("wide", "predict-one", {"features": strings}).status_code == 200
        apart.learn("wide", names, 1)
        apart.learn("wide", names, 0)
        assert len(apart.http.get("/v1/models/wide/weights?top=10").json()["weights"]) == 10
        answer = apart.post("wide", "predict-one", {"features": names, "explain": True, "id": "x"})
        assert len(answer.json()["contributions"]) == 60_000
        patch = b'{"evaluation":{"window":50000}}'
        assert apart.raw("/v1/models/wide", patch, MERGE_PATCH, method="PATCH").status_code == 200


def test_the_lag_of_a_loop_is_what_a_callback_holds_it() -> None:
    async def run() -> LoopLag:
        lag = LoopLag()
        lag.start()
        await asyncio.sleep(5 * PERIOD)
        time.sleep(0.2)
        await asyncio.sleep(2 * PERIOD)
        lag.stop()
        count = sum(lag.histogram.counts)
        await asyncio.sleep(3 * PERIOD)
        assert sum(lag.histogram.counts) == count
        return lag

    lag = asyncio.run(run())
    assert lag.longest >= 0.2 - 2 * PERIOD
    assert lag.histogram.sum >= lag.longest


def test_metrics_tell_the_lag(local: Local) -> None:
    time.sleep(0.2)
    text = local.http.get("/metrics").text
    count = next(line for line in text.splitlines() if line.startswith("aucstream_loop_lag_seconds_count"))
    assert float(count.split()[1]) > 0


@pytest.mark.parametrize("algorithm", sorted(LEARNERS))
def test_rows_that_let_others_have_the_gil_give_the_same_bits(algorithm: str) -> None:
    bodies = rows(150, positives=0.4)
    states = []
    for at_once in (True, False):
        engine = (pipeline := Pipeline.from_spec({"algorithm": algorithm})).engine
        for body in bodies:
            sign = np.array([1.0 if body["label"] else -1.0])
            engine.learn_rows([body["features"]], sign, at_once=at_once)
        states.append(pipeline.state_dict()[0])
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*map(dict.values, states), strict=True))


def test_bytes_of_a_step_grow_with_the_columns() -> None:
    engine = Pipeline.from_spec({"algorithm": "opauc"}).engine
    assert engine.bytes_at(3_000) >= 2 * 8 * 3_000**2 > 1_000 * engine.bytes_at(1)
    linear = Pipeline.from_spec({"algorithm": "solam"}).engine
    assert linear.bytes_at(3_000) < 1 << 20


@pytest.mark.parametrize("most", [1, 3, 8, 40])
def test_the_largest_weights_are_the_first_of_all_in_order(most: int) -> None:
    chance = np.random.default_rng(most)
    pipeline = Pipeline.from_spec({"algorithm": "solam", "scaler": "none"})
    names = [f"n{i}" for i in range(15)]
    for row in range(40):
        picked = chance.choice(names, 4, replace=False).tolist()
        twins = {f"twin-{name}": 1.0 for name in picked}  # as large as those
        pipeline.learn_one({**dict.fromkeys(picked, 1.0), **twins}, row % 2 == 0)
    wanted = sorted(pipeline.weights.items(), key=lambda item: (-abs(item[1]), str(item[0])))
    assert len({abs(weight) for _, weight in wanted}) <= len(wanted) // 2
    assert pipeline.largest_weights(most) == wanted[:most]
