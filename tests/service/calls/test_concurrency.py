"""Many connections at once: every event once, in order, and predictions in between."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import httpx
import numpy as np
import pytest

from aucstream.pipeline import Pipeline
from tests.service.running import NDJSON, Running
from tests.service.stream import lines, rows


def test_the_scores_are_those_of_the_events_in_order_of_seq(service: Running, model: str) -> None:  # S2
    clients, each = 50, 20
    bodies = rows(clients * each)

    async def client(number: int, http: httpx.AsyncClient) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        done = []
        for body in bodies[number::clients]:
            answer = await http.post(f"/v1/models/{model}/learn-one", json=body)
            assert answer.status_code == 200, answer.text
            done.append((answer.json(), body))
            if number % 5 == 0:
                predicted = await http.post(f"/v1/models/{model}/predict-one", json={"features": body["features"]})
                assert predicted.json()["seq"] >= answer.json()["seq"]
        return done

    async def all_clients() -> list[tuple[dict[str, Any], dict[str, Any]]]:
        limits = httpx.Limits(max_connections=clients)
        async with httpx.AsyncClient(base_url=service.url, limits=limits, timeout=60) as http:
            replies = await asyncio.gather(*(client(number, http) for number in range(clients)))
        return [pair for part in replies for pair in part]

    done = sorted(asyncio.run(all_clients()), key=lambda pair: pair[0]["seq"])
    assert [answer["seq"] for answer, _ in done] == list(range(1, clients * each + 1))
    pipeline = Pipeline.from_spec({"algorithm": "solam"})
    signs = np.array([1.0 if body["label"] else -1.0 for _, body in done])
    scores = pipeline.engine.learn_rows([body["features"] for _, body in done], signs)
    assert [answer["score"] for answer, _ in done] == scores.tolist()
    assert service.describe(model)["examples"] == clients * each


def test_one_id_at_once_is_learned_once(service: Running, model: str) -> None:
    async def race() -> list[dict[str, Any]]:
        body = {"features": {"a": 1.0}, "label": 1, "id": "same"}
        async with httpx.AsyncClient(base_url=service.url, timeout=60) as http:
            answers = await asyncio.gather(*(http.post(f"/v1/models/{model}/learn-one", json=body) for _ in range(40)))
        return [answer.json() for answer in answers]

    answers = asyncio.run(race())
    assert sum(not answer["duplicate"] for answer in answers) == 1
    assert {answer["seq"] for answer in answers} == {1}
    assert service.describe(model)["seq"] == 1


def test_the_same_model_created_at_once_is_one(service: Running) -> None:
    async def race() -> list[int]:
        async with httpx.AsyncClient(base_url=service.url, timeout=60) as http:
            answers = await asyncio.gather(
                *(http.put("/v1/models/raced", json={"algorithm": "solam"}) for _ in range(10)),
                *(http.put("/v1/models/raced", json={"algorithm": "solam", "seed": 1}) for _ in range(3)),
            )
        return [answer.status_code for answer in answers]

    statuses = asyncio.run(race())
    assert statuses.count(201) == 1
    assert set(statuses) == {200, 201, 409}
    service.http.delete("/v1/models/raced")


@pytest.mark.timing
def test_health_and_predictions_are_answered_while_a_long_body_is_learned(  # S19
    service: Running, model: str
) -> None:
    answers: list[httpx.Response] = []
    body = lines(rows(50_000))
    learner = threading.Thread(
        target=lambda: answers.append(
            httpx.post(f"{service.url}/v1/models/{model}/learn-many", content=body, headers=NDJSON, timeout=120)
        )
    )
    times = []
    seqs = []
    learner.start()
    while learner.is_alive():
        start = time.perf_counter()
        assert service.http.get("/livez").status_code == 200
        times.append(time.perf_counter() - start)
        seqs.append(service.post(model, "predict-one", {"features": {"a": 1}}).json()["seq"])
    learner.join()
    assert answers[0].json()["accepted"] == 50_000
    assert seqs == sorted(seqs)
    assert len(set(seqs)) > 10  # between slices, not after the whole body
    print(f"livez meanwhile: p50 {np.median(times) * 1e3:.1f} ms, p99 {np.quantile(times, 0.99) * 1e3:.1f} ms")
    assert np.quantile(times, 0.99) < 0.5


def test_deleting_a_model_under_load_ends_its_streams(service: Running) -> None:
    service.create("doomed")

    def parts() -> Any:
        for seed in range(20):
            yield lines(rows(200, seed=seed))
            if seed == 5:
                assert httpx.delete(f"{service.url}/v1/models/doomed", timeout=60).status_code == 204
                service.create("doomed")

    answer = service.raw("/v1/models/doomed/learn-many", parts(), NDJSON)
    assert answer.status_code == 404
    assert 0 < answer.json()["accepted"] < 4000
    assert service.describe("doomed")["seq"] == 0
    service.http.delete("/v1/models/doomed")
