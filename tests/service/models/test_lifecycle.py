"""From the first look to the last: readiness, the first call, and a quiet stop (S20, S22, S23)."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.settings import Settings
from tests.service.running import Local, Running, problem
from tests.service.stream import rows

LAST = json.dumps({"features": {"a": 1.0}, "label": 1, "id": "last"}).encode()


class SlowUpload:
    """A learn-one whose body has begun and goes on when told."""

    def __init__(self, port: int) -> None:
        self.connection = socket.create_connection(("127.0.0.1", port))
        head = f"POST /v1/models/m/learn-one HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {len(LAST)}\r\n\r\n"
        self.connection.sendall(head.encode() + LAST[:10])

    def finish(self) -> bytes:
        with self.connection:
            self.connection.sendall(LAST[10:])
            answer = b""
            while part := self.connection.recv(65_536):
                answer += part
            return answer


def copied(data_dir: Path, rows_: int) -> Path:
    """Return a data directory as a kill leaves it: a model, its rows in the journal, no snapshot."""
    local = Local(data_dir)
    local.create("m")
    local.post("m", "learn-many", rows(rows_))
    copy = data_dir.with_name("copy")
    shutil.copytree(data_dir, copy)
    local.stop()
    return copy


@pytest.mark.timing
def test_the_life_of_a_process(data_dir: Path) -> None:
    service = Running(copied(data_dir, 3000), wait=False, shutdown_seconds=10, drain_seconds=0.5)
    live, early = 0, []
    while True:
        assert service.process.poll() is None, service.log
        try:
            ready = service.http.get("/readyz")
        except httpx.TransportError:
            time.sleep(0.02)
            continue
        if ready.status_code == 200:
            break
        early.append(problem(ready, 503, "not-ready"))
        assert ready.headers["retry-after"]
        refused = service.post("m", "predict-one", {"features": {}})
        if refused.status_code != 200:  # ready since the look above
            problem(refused, 503, "not-ready")
            assert refused.headers["retry-after"]
        assert service.http.get("/livez").status_code == 200
        live += 1
    assert live > 0  # S22
    assert early[0]["missing"] == ["replayed", "warm"]
    assert early[0]["models"]["of"] in (0, 1)

    body = {"features": rows(1)[0]["features"]}
    times = []
    for _ in range(1001):
        start = time.perf_counter()
        assert service.post("m", "predict-one", body).status_code == 200
        times.append(time.perf_counter() - start)
    print(f"first predict-one {times[0] * 1e3:.2f} ms, median of the next {np.median(times[1:]) * 1e3:.2f} ms")
    assert times[0] < 5 * np.median(times[1:]) + 0.1  # S23; a compilation takes longer on any machine

    upload = SlowUpload(service.port)
    seen: list[str] = []

    def follow() -> None:
        with httpx.stream("GET", f"{service.url}/v1/models/m/events", timeout=60) as stream:
            seen.extend(stream.iter_lines())

    reader = threading.Thread(target=follow)
    reader.start()
    while "id: 3000" not in seen:
        time.sleep(0.01)
    start = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    while (answer := service.http.get("/readyz")).status_code == 200:
        assert time.monotonic() - start < 0.5
    assert problem(answer, 503, "not-ready")["missing"] == ["running"]
    assert service.learn("m", {"a": 1.0}, 1)["seq"] == 3001  # drain_seconds: what still comes is served
    reader.join(10)
    assert seen[-3:] == ["event: end", 'data: {"reason":"stopping"}', ""]
    answered = upload.finish()
    assert answered.startswith(b"HTTP/1.1 200")
    assert b'{"seq":3002,' in answered
    assert service.ended() == 0, service.log
    elapsed = time.monotonic() - start
    print(f"from SIGTERM to the end {elapsed:.1f} s, of which 0.5 s to drain")
    assert elapsed < 5  # S20; 1 s on a quiet machine
    local = Local(service.data_dir)
    assert (local.describe("m")["seq"], local.replayed) == (3002, 0)
    local.stop()


def test_a_second_signal_ends_at_once_and_loses_nothing(data_dir: Path) -> None:
    service = Running(copied(data_dir, 200), shutdown_seconds=120)
    service.learn("m", {"a": 1.0}, 1)
    upload = SlowUpload(service.port)
    time.sleep(0.2)
    service.process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert service.process.poll() is None  # it waits for the upload
    start = time.monotonic()
    service.process.send_signal(signal.SIGTERM)
    assert service.ended() == 0, service.log
    assert time.monotonic() - start < 30  # shutdown_seconds would be 120
    upload.connection.close()
    assert not list((service.data_dir / "snapshots").glob("*/*"))
    local = Local(service.data_dir)
    assert (local.describe("m")["seq"], local.replayed) == (201, 201)
    local.stop()


def test_what_is_not_in_time_is_replayed(data_dir: Path) -> None:
    local = Local(data_dir, shutdown_seconds=0.001)
    for name in ("m", "n"):
        local.create(name)
        local.post(name, "learn-many", rows(100))
    local.stop()
    again = Local(data_dir)
    assert again.replayed > 0
    assert [again.describe(name)["seq"] for name in ("m", "n")] == [100, 100]
    again.stop()


def test_the_time_to_drain_is_part_of_the_time_to_stop() -> None:
    Settings(shutdown_seconds=10, drain_seconds=5).check_start()
    with pytest.raises(StartRefused, match="drain_seconds"):
        Settings(shutdown_seconds=10, drain_seconds=6).check_start()
