"""The end of connections: while the service stops, over the limit, and where a body was not read; bodies in flight."""

from __future__ import annotations

import json
import signal
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.service.running import JSON, Local, Running, problem
from tests.service.stream import rows

CONNECTIONS = 30
ROW = json.dumps({"features": {"a": 1.0}}).encode()


def connected(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(20)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def head_of(method: bytes, path: bytes, length: int | None = None, more: bytes = b"") -> bytes:
    size = b"" if length is None else b"Content-Type: application/json\r\nContent-Length: %d\r\n" % length
    return b"%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s\r\n" % (method, path, size, more)


def answer_of(connection: socket.socket) -> tuple[int, dict[bytes, bytes], bytes]:
    """Return status, headers and body of the next answer; the status is 0 where the connection ends instead."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65_536)
        if not part:
            return 0, {}, data
        data += part
    head, _, body = data.partition(b"\r\n\r\n")
    first, *lines = head.split(b"\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(b": ") for line in lines)}
    while len(body) < int(headers.get(b"content-length", 0)):
        part = connection.recv(65_536)
        assert part
        body += part
    return int(first.split()[1]), headers, body


# ---- the stop ------------------------------------------------------------------------------------


class Client(threading.Thread):
    """Sends one request after the other on one connection, until an answer says that it is the last."""

    def __init__(self, port: int, number: int) -> None:
        super().__init__(daemon=True)
        self.connection = connected(port)
        self.number = number
        self.answered = 0
        self.unanswered = ""
        self.last = False

    def run(self) -> None:
        kinds = [(b"learn-one", {"features": {"a": 1.0}, "label": 1}), (b"predict-one", {"features": {"a": 1.0}})]
        while True:
            call, document = kinds[self.answered % 2]
            body = json.dumps(document).encode()
            head = head_of(b"POST", b"/v1/models/m/" + call, len(body))
            try:
                if self.number % 3:
                    self.connection.sendall(head + body)
                else:  # in parts: the head itself, too
                    self.connection.sendall(head[:20])
                    time.sleep(0.002)
                    self.connection.sendall(head[20:])
                    self.connection.sendall(body)
                status, headers, _ = answer_of(self.connection)
            except OSError as error:
                self.unanswered = f"{call!r}: {error}"
                return
            if status != 200:
                self.unanswered = f"{call!r}: status {status}"
                return
            self.answered += 1
            if headers.get(b"connection") == b"close":
                self.last = True
                self.connection.close()
                return


@pytest.mark.parametrize("drain", [0, 0.5])
def test_no_request_is_left_without_an_answer_while_the_service_stops(data_dir: Path, drain: float) -> None:
    service = Running(data_dir, drain_seconds=drain)
    service.create("m")
    clients = [Client(service.port, number) for number in range(20)]
    for client in clients:
        client.start()
    time.sleep(0.5)
    service.process.send_signal(signal.SIGTERM)
    for client in clients:
        client.join(20)
    assert [client.unanswered for client in clients] == [""] * 20
    assert all(client.last and client.answered > 3 for client in clients)
    assert service.ended() == 0, service.log


# ---- over the limit ------------------------------------------------------------------------------


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Local]:
    running = Local(tmp_path / "data", max_connections=CONNECTIONS, max_body_bytes=200_000, max_bodies_bytes=400_000)
    assert running.create("m").status_code == 201
    yield running
    running.stop()


def test_probes_are_answered_and_others_told_while_all_connections_are_at_work(small: Local) -> None:
    small.http.close()
    small.http = httpx.Client(base_url=small.http.base_url, timeout=60)
    time.sleep(0.2)
    busy = [connected(small.port) for _ in range(CONNECTIONS)]
    for connection in busy:
        connection.sendall(head_of(b"POST", b"/v1/models/m/learn-one", 100)[:60])
    time.sleep(0.2)
    silent = [connected(small.port) for _ in range(200)]  # over the limit, too
    try:
        for path in (b"/livez", b"/readyz", b"/metrics", b"/healthz"):
            with connected(small.port) as connection:
                connection.sendall(head_of(b"GET", path))
                status, headers, _ = answer_of(connection)
                assert (status, headers[b"connection"]) == (200, b"close"), path
        with connected(small.port) as connection:
            connection.sendall(head_of(b"POST", b"/v1/models/m/predict-one", len(ROW)) + ROW)
            status, headers, body = answer_of(connection)
            assert (status, headers[b"connection"]) == (503, b"close")
            assert headers[b"retry-after"]
            assert json.loads(body)["type"] == "urn:aucstream:problem:overloaded"
            assert answer_of(connection)[0] == 0
        with connected(small.port) as connection:
            connection.sendall(b"GET /v1/mod")  # its end never comes
            assert answer_of(connection)[0] == 503
    finally:
        for connection in (*busy, *silent):
            connection.close()


def test_idle_connections_give_way(small: Local) -> None:
    time.sleep(1.1)  # also that of the client
    idle = [connected(small.port) for _ in range(CONNECTIONS)]
    idle[0].sendall(head_of(b"GET", b"/livez"))
    assert answer_of(idle[0])[0] == 200
    time.sleep(1.1)
    for connection in idle[:5]:  # these are at work again
        connection.sendall(head_of(b"GET", b"/livez"))
        assert answer_of(connection)[0] == 200
    others = [connected(small.port) for _ in range(10)]
    for connection in others:
        connection.sendall(head_of(b"POST", b"/v1/models/m/predict-one", len(ROW)) + ROW)
        status, headers, _ = answer_of(connection)
        assert status == 200
        assert b"connection" not in headers
    for connection in idle[:5]:
        connection.sendall(head_of(b"GET", b"/livez"))
        assert answer_of(connection)[0] == 200
    ended = 0
    for connection in idle[5:]:
        connection.settimeout(0.05)
        try:
            ended += connection.recv(1) == b""
        except TimeoutError:
            continue
    assert ended >= 9
    gate = small.server.config.http_protocol_class.gate  # type: ignore[union-attr]
    assert gate.serving <= CONNECTIONS
    for connection in (*idle, *others):
        connection.close()
    until = time.monotonic() + 10
    while (gate.serving, gate.lingering, len(gate.idle), len(gate.over)) != (0, 0, 0, 0):
        small.http.close()
        assert time.monotonic() < until, (gate.serving, gate.lingering, len(gate.idle), len(gate.over))
        time.sleep(0.05)
    small.http = httpx.Client(base_url=small.http.base_url, timeout=60)


# ---- bodies that are not read --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "length", "more", "status"),
    [
        (b"POST", b"/v1/models/m/learn-many", 10_000_000, b"", 413),
        (b"POST", b"/v1/models/m/learn-one", 10_000_000, b"", 413),
        (b"PUT", b"/v1/models/other", 10_000_000, b"", 413),
        (b"POST", b"/v1/models/none/learn-one", 500, b"", 404),
        (b"POST", b"/v1/nowhere", 10_000_000, b"", 404),
        (b"POST", b"/v1/models/m/learn-many", 10_000_000, b"Expect: 100-continue\r\n", 413),
        (b"POST", b"/v1/models/none/learn-one", 500, b"Expect: 100-continue\r\n", 404),
        (b"DELETE", b"/v1/models/m/learn-one", 500, b"", 405),
    ],
)
def test_a_refusal_that_leaves_a_body_unread_says_that_it_is_the_last_answer(
    small: Local, method: bytes, path: bytes, length: int, more: bytes, status: int
) -> None:
    with connected(small.port) as connection:
        connection.sendall(head_of(method, path, length, more))
        found, headers, _ = answer_of(connection)
        assert found == status
        assert headers[b"connection"] == b"close"
        if not more:  # what still comes does not take the answer from the client
            connection.sendall(b" " * 300)
        assert answer_of(connection)[0] == 0


def test_an_answer_can_be_read_while_the_body_still_comes(small: Local) -> None:
    with connected(small.port) as connection:
        connection.sendall(head_of(b"POST", b"/v1/models/m/learn-many", 50_000_000))
        for _ in range(60):
            connection.sendall(b" " * 100_000)
        status, headers, _ = answer_of(connection)
        assert (status, headers[b"connection"]) == (413, b"close")


def test_a_refusal_whose_body_was_read_keeps_the_connection(small: Local) -> None:
    with connected(small.port) as connection:
        for call, body in ((b"learn-one", b"nonsense"), (b"learn-many", b"nonsense")):
            connection.sendall(head_of(b"POST", b"/v1/models/m/" + call, len(body)) + body)
            status, headers, _ = answer_of(connection)
            assert status == 422
            assert b"connection" not in headers


# ---- bodies in flight ----------------------------------------------------------------------------


def test_the_bytes_of_bodies_in_flight_have_one_bound(small: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, reading = small.app.model_host.journal, small.app.edge.reading
    commit, slow, most = journal.commit, threading.Event(), 0

    def slowly(group: Any) -> Any:
        slow.wait(30)
        return commit(group)

    monkeypatch.setattr(journal, "commit", slowly)
    body = json.dumps(rows(400))[:-1].ljust(50_000) + "]"  # as a whole in one part
    assert 40_000 < len(body) < 65_536

    def send(_: int) -> httpx.Response:
        with httpx.Client(base_url=small.http.base_url, timeout=60) as http:
            return http.post("/v1/models/m/learn-many", content=body, headers=JSON)

    def watch() -> None:
        nonlocal most
        while not slow.is_set():
            most = max(most, reading.held)
            time.sleep(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    with ThreadPoolExecutor(25) as pool:
        futures = [pool.submit(send, number) for number in range(25)]
        time.sleep(1.5)
        slow.set()
        answers = [future.result() for future in futures]
    watcher.join()
    refused = [answer for answer in answers if answer.status_code != 200]
    for answer in refused:
        problem(answer, 503, "overloaded")
        assert int(answer.headers["retry-after"]) >= 1
    assert 200_000 < most <= 400_000
    assert len(answers) - len(refused) == 400_000 // len(body)
    assert reading.held == 0
    assert send(0).status_code == 200
