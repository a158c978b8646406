"""Server-Sent Events of a model."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from aucstream_service.calls import event_stream as streams
from aucstream_service.calls.event_stream import EventStream, Streams
from tests.service.running import Local, problem
from tests.service.stream import rows


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(
        tmp_path_factory.mktemp("events") / "data",
        max_event_streams=2,
        events_per_second=20,
        event_heartbeat_seconds=0.3,
    )
    yield running
    running.stop()


Event = dict[str, str]


def events(answer: httpx.Response) -> Iterator[Event]:
    """Yield the blocks of a stream by field; a comment has the field ''."""
    block: Event = {}
    for line in answer.iter_lines():
        if line:
            name, _, text = line.partition(":")
            block[name] = text.strip()
        else:
            yield block
            block = {}


def opened(local: Local, name: str, **headers: str) -> Any:
    return local.http.stream("GET", f"/v1/models/{name}/events", headers=headers)


def test_a_stream_tells_the_newest_numbers_at_a_bounded_rate(local: Local) -> None:
    local.create("told")
    local.post("told", "learn-many", rows(50))
    with opened(local, "told") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        received = events(answer)
        assert next(received) == {"retry": "2000"}
        first = next(received)
        numbers = json.loads(first["data"])
        evaluation = local.evaluation("told")
        assert (first["id"], numbers["seq"], numbers["examples"], numbers["pending"]) == ("50", 50, 50, 0)
        assert (numbers["window"], numbers["total"]) == (evaluation["window"], evaluation["total"])
        start = time.monotonic()
        for body in rows(100, seed=1):
            local.post("told", "learn-one", body)
        seqs = []
        for event in received:
            if "id" in event:
                seqs.append(int(event["id"]))
            if seqs and seqs[-1] == 150:
                break
        assert seqs == sorted(set(seqs))
        assert len(seqs) <= 2 + 20 * (time.monotonic() - start)
        assert next(received) == {"": "still here"}
    with opened(local, "told", **{"Last-Event-ID": "150"}) as answer:
        received = events(answer)
        assert next(received) == {"retry": "2000"}
        assert next(received) == {"": "still here"}  # nothing new: no event
        local.learn("told", {"a": 1.0}, 1)
        assert next(event for event in received if "id" in event)["id"] == "151"
    with opened(local, "told", **{"Last-Event-ID": "junk"}) as answer:
        received = events(answer)
        next(received)
        assert next(received)["id"] == "151"
    local.http.delete("/v1/models/told")


def test_an_alarm_comes_before_the_numbers_that_count_it(local: Local) -> None:
    local.create("turned")
    bodies = rows(900, positives=0.4)
    turned = [{**body, "label": not body["label"]} for body in bodies]
    local.post("turned", "learn-many", bodies)
    before = local.evaluation("turned")["drift"]
    with opened(local, "turned") as answer:
        received = events(answer)
        first = [next(received) for _ in range(2)]
        assert [sorted(event) for event in first] == [["retry"], ["data", "id"]]
        local.post("turned", "learn-many", turned[:200])
        drift = local.evaluation("turned")["drift"]
        assert drift["alarms"] == before["alarms"] + 1
        event = next(event for event in received if event.get("event") == "alarm")
        assert "id" not in event
        alarm = json.loads(event["data"])
        assert alarm.pop("strength") > 4.0
        assert alarm == {"name": "turned", "seq": drift["last_alarm_seq"], "alarms": drift["alarms"]}
        assert 900 < alarm["seq"] <= 1_100
        numbers = next(event for event in received if "id" in event)
        assert (numbers["id"], json.loads(numbers["data"])["drift"]) == ("1100", drift)
        local.learn("turned", {"a": 1.0}, 1)
        assert "event" not in next(event for event in received if "data" in event)  # told once
    for last, kinds in (("900", ["alarm", "message"]), (str(drift["last_alarm_seq"]), ["message"])):
        with opened(local, "turned", **{"Last-Event-ID": last}) as answer:
            received = events(answer)
            next(received)
            assert [next(received).get("event", "message") for _ in kinds] == kinds
    samples = local.http.get("/metrics").text
    assert f'aucstream_model_drift_alarms_total{{model="turned"}} {float(drift["alarms"])}' in samples
    strength = local.evaluation("turned")["drift"]["strength"]
    assert f'aucstream_model_drift_strength{{model="turned"}} {strength}' in samples
    local.create("mute", calibration="none")
    assert 'drift_strength{model="mute"}' not in local.http.get("/metrics").text
    for name in ("turned", "mute"):
        local.http.delete(f"/v1/models/{name}")


def test_a_stream_ends_with_its_model_and_streams_are_limited(local: Local) -> None:
    local.create("doomed")
    snapshot = local.http.get("/v1/models/doomed/snapshot").content
    with opened(local, "doomed") as one, opened(local, "doomed") as two:
        for answer in (one, two):
            assert answer.status_code == 200
        refused = local.http.get("/v1/models/doomed/events")
        problem(refused, 429, "too-many-streams")
        assert refused.headers["retry-after"]
        local.raw("/v1/models/doomed/snapshot", snapshot, {"Content-Type": "application/octet-stream"}, "PUT")
        for answer in (one, two):
            assert list(events(answer))[-1] == {"event": "end", "data": '{"reason":"replaced"}'}
    with opened(local, "doomed") as answer:
        received = events(answer)
        next(received)
        local.http.delete("/v1/models/doomed")
        assert list(received)[-1] == {"event": "end", "data": '{"reason":"deleted"}'}
    problem(local.http.get("/v1/models/doomed/events"), 404, "model-not-found")
    local.create("doomed")
    head = local.http.head("/v1/models/doomed/events")
    assert (head.status_code, head.headers["content-type"].split(";")[0]) == (200, "text/event-stream")
    local.http.delete("/v1/models/doomed")
    assert local.app.streams.open == 0


def test_a_reader_that_takes_nothing_is_dropped(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "SLOW_SECONDS", 0.05)
    local.create("stuck")
    host = local.app.model_host

    async def drop() -> list[str]:
        done: list[str] = []
        parts: list[bytes] = []
        registry = Streams(host)

        async def receive() -> dict[str, Any]:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: dict[str, Any]) -> None:
            parts.append(message.get("body", b""))
            if len(parts) == 3:
                await asyncio.Event().wait()  # the reader's window is full

        stream = EventStream(registry, host.models["stuck"], None, lambda: True)
        await stream({"type": "http", "aucstream.abort": lambda: done.append("aborted")}, receive, send)
        assert len(parts) == 3  # nothing was kept for later
        return [*done, f"{registry.dropped} dropped", f"{registry.open} open"]

    assert asyncio.run(drop()) == ["aborted", "1 dropped", "0 open"]
    local.http.delete("/v1/models/stuck")
