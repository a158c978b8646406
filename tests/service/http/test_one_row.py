"""Calls of one row, which a connection serves without ASGI: the same answers as by ASGI, and as strict."""

from __future__ import annotations

import ast
import inspect
import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from uvicorn.protocols.http import flow_control, httptools_impl
from uvicorn.server import ServerState

from aucstream_service.http import protocol
from aucstream_service.http.gate import Call
from aucstream_service.storage import api_keys as keys
from aucstream_service.storage.api_keys import Role
from tests.service.running import ROOT, Local

ROW = {"a": 1.5, "b": -2.0}
PREDICT = {"features": ROW}
LEARN = {"features": ROW, "label": 1}
CLOSE = "Connection: close\r\n"  # such a request goes by ASGI


class Spied(Local):
    """A server that tells what became of the requests that it took without ASGI."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        super().__init__(data_dir, **settings)
        gate = self.server.config.http_protocol_class.gate  # type: ignore[union-attr]
        call_of = gate.call_of
        assert call_of is not None
        self.seen: list[tuple[str, str]] = []  # call, and what was done with it

        def spied(url: bytes, headers: list[tuple[bytes, bytes]]) -> Call | None:
            call = call_of(url, headers)
            return None if call is None else Witness(url.decode().rpartition("/")[2], call, self.seen)

        gate.call_of = spied


class Witness:
    """A call that notes what is done with it."""

    def __init__(self, name: str, call: Call, seen: list[tuple[str, str]]) -> None:
        self._name = name
        self._call = call
        self._seen = seen

    def __getattr__(self, method: str) -> Callable[..., None]:
        self._seen.append((self._name, method))
        found: Callable[..., None] = getattr(self._call, method)
        return found


class DirectConnection:
    """One connection; requests and answers as bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.buffer = b""

    def __enter__(self) -> DirectConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(
        self,
        call: str,
        body: Any,
        *,
        more: str = "",
        name: str = "m",
        flush: bool = True,
        kind: str = "application/json",
    ) -> bytes:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST /v1/models/{name}/{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\n{more}"
        data = f"{head}Content-Length: {len(text)}\r\n\r\n".encode() + text
        if flush:
            self.socket.sendall(data)
        return data

    def answer(self) -> tuple[int, dict[str, str], Any]:
        while b"\r\n\r\n" not in self.buffer:
            self._more()
        head, _, rest = self.buffer.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        length = int(headers["content-length"])
        self.buffer = rest
        while len(self.buffer) < length:
            self._more()
        body, self.buffer = self.buffer[:length], self.buffer[length:]
        return int(status.split(" ")[1]), headers, json.loads(body)

    def ask(self, call: str, body: Any, **more: Any) -> tuple[int, dict[str, str], Any]:
        self.send(call, body, **more)
        return self.answer()

    def closed(self) -> bool:
        """Return whether the server ends the connection without another byte."""
        return self.buffer == b"" and self.socket.recv(1) == b""

    def _more(self) -> None:
        data = self.socket.recv(65_536)
        assert data, f"closed after {self.buffer!r}"
        self.buffer += data


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spied]:
    running = Spied(
        tmp_path_factory.mktemp("one-row") / "data",
        max_body_bytes=50_000,
        body_seconds=1.0,
        head_seconds=1.0,
        idle_seconds=3.0,
    )
    running.create("m")
    running.learn("m", ROW, True)
    running.learn("m", ROW, False)
    yield running
    running.stop()


@pytest.fixture
def wire(spied: Spied) -> Iterator[DirectConnection]:
    spied.seen.clear()
    with DirectConnection(spied.port) as found:
        yield found


def counted(spied: Spied, call: str, outcome: str) -> int:
    return spied.app.watch.requests.get((f"/v1/models/{{name}}/{call}", "POST", outcome), 0)


def fixed(headers: dict[str, str]) -> dict[str, str]:
    return {k: v for k, v in headers.items() if k not in ("x-request-id", "traceparent", "date", "connection")}


# ---- what is answered -------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_each_request_is_served_without_asgi_and_answered_as_by_it(
    spied: Spied, wire: DirectConnection, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol.Protocol, "look", lambda *_: None)  # it leaves a request in parts to ASGI
    before = counted(spied, "predict-one", "2xx")
    with DirectConnection(spied.port) as other:
        by_asgi = other.ask("predict-one", PREDICT, more=CLOSE)
        assert other.closed()
    assert spied.seen == []
    found = []
    for _ in range(2):
        data = wire.send("predict-one", PREDICT, flush=False)
        size = data.index(b"\r\n\r\n") + 4 if parts == 2 else -(-len(data) // parts)
        for start in range(0, len(data), size):
            wire.socket.sendall(data[start : start + size])
            time.sleep(0.01)
        found.append(wire.answer())
    assert spied.seen == [("predict-one", "serve")] * 2
    for status, headers, body in found:
        assert (status, body) == (200, by_asgi[2])
        assert fixed(headers) == fixed(by_asgi[1])
        assert [name for name in headers if name != "connection"] == [n for n in by_asgi[1] if n != "connection"]
    assert found[0][1]["x-request-id"] != found[1][1]["x-request-id"]
    assert counted(spied, "predict-one", "2xx") == before + 3
    assert spied.app.watch.in_flight == 0


def test_rows_are_learned_in_their_order(spied: Spied, wire: DirectConnection) -> None:
    seq = spied.describe("m")["seq"]
    told = [wire.ask("learn-one", {"features": ROW, "label": label})[2]["seq"] for label in (0, 1, 0, 1, 1)]
    assert told == [seq + k for k in range(1, 6)]
    assert spied.seen == [("learn-one", "serve")] * 5
    assert spied.describe("m")["examples"] == spied.describe("m")["seq"] == seq + 5


def test_predictions_that_wait_and_their_labels(spied: Spied, wire: DirectConnection) -> None:
    seq = spied.describe("m")["seq"]
    for number in range(3):
        status, _, told = wire.ask("predict-one", {"features": ROW, "id": f"one-{number}"})
        assert (status, told["seq"]) == (200, seq + number)
        assert wire.ask("label-one", {"id": f"one-{number}", "label": 1})[2]["seq"] == seq + number + 1
    assert wire.ask("label-one", {"id": "one-1", "label": 1})[2] == {"seq": seq + 2, "score": None, "duplicate": True}
    assert wire.ask("label-one", {"id": "one-1", "label": 0})[0] == 409
    assert wire.ask("label-one", {"id": "one-7", "label": 0})[0] == 404
    assert spied.seen == [("predict-one", "serve"), ("label-one", "serve")] * 3 + [("label-one", "serve")] * 3
    assert spied.describe("m")["pending"] == 0


@pytest.mark.parametrize(
    ("call", "body", "status"),
    [
        ("predict-one", {"features": {"a": [2]}}, 422),
        ("predict-one", {"features": {"a": 1}, "id": ""}, 422),
        ("predict-one", b"", 422),
        ("predict-one", b'{"features":', 422),
        ("learn-one", {"features": {"a": 1}, "label": 7}, 422),
        ("learn-one", {"features": {"a": 1}}, 422),
        ("learn-one", {"features": {"a": 1}, "label": 1, "weight": -1}, 422),
        ("label-one", {"id": "never-seen", "label": 1}, 404),
    ],
)
def test_a_body_is_refused_as_by_asgi(spied: Spied, wire: DirectConnection, call: str, body: Any, status: int) -> None:
    with DirectConnection(spied.port) as other:
        by_asgi = other.ask(call, body, more=CLOSE)
    seq = spied.describe("m")["seq"]
    refused = dict(spied.app.model_host.models["m"].counts.refused)
    found = wire.ask(call, body)
    assert spied.seen == [(call, "serve")]
    assert found[0] == by_asgi[0] == status
    assert {**found[2], "request_id": ""} == {**by_asgi[2], "request_id": ""}
    assert found[2]["request_id"] == found[1]["x-request-id"]
    lengths = [int(headers.pop("content-length")) - len(headers["x-request-id"]) for headers in (found[1], by_asgi[1])]
    assert lengths[0] == lengths[1]  # the document has the id, which grows by a digit now and then
    assert fixed(found[1]) == fixed(by_asgi[1])
    assert sum(spied.app.model_host.models["m"].counts.refused.values()) == sum(refused.values()) + 1
    assert wire.ask("predict-one", PREDICT)[0] == 200
    assert spied.describe("m")["seq"] == seq


def test_a_row_that_the_model_skips_is_refused(spied: Spied, wire: DirectConnection) -> None:
    spied.create("raw", scaler="none")
    names = ("p", "q", "r", "s")
    for label in (0, 1) * 10:
        spied.learn("raw", dict.fromkeys(names, float(label)), label)
    good = {"features": dict.fromkeys(names, 1.0), "label": True}
    assert wire.ask("learn-one", good, name="raw")[0] == 200
    status, headers, problem = wire.ask("learn-one", {**good, "features": dict.fromkeys(names, 1.7e308)}, name="raw")
    assert spied.seen[-1] == ("learn-one", "serve")
    assert (status, problem["type"].rpartition(":")[2]) == (422, "non-finite-step")
    assert headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == headers["x-request-id"]
    assert wire.ask("learn-one", good, name="raw")[0] == 200


def test_a_fault_is_answered_and_the_connection_goes_on(
    spied: Spied, wire: DirectConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("features of a client")

    one = spied.app.edge._one
    monkeypatch.setitem(one, "predict-one", (broken, one["predict-one"][1]))
    status, headers, problem = wire.ask("predict-one", PREDICT)
    assert (status, problem["status"]) == (500, 500)
    assert headers["content-type"] == "application/problem+json"
    assert "features of a client" not in json.dumps(problem)
    monkeypatch.undo()
    assert wire.ask("predict-one", PREDICT)[0] == 200


@pytest.mark.parametrize("more", ["X-Request-Id: mine\r\n", f"traceparent: 00-{'1' * 32}-{'2' * 16}-01\r\n"])
def test_a_request_with_a_name_of_its_own_keeps_it(spied: Spied, wire: DirectConnection, more: str) -> None:
    for _ in range(2):
        _, headers, _ = wire.ask("predict-one", PREDICT, more=more)
        assert more.split(": ")[1].strip()[3:30] in headers["x-request-id"] + headers["traceparent"]
    assert spied.seen == [("predict-one", "serve")] * 2


# ---- the order of requests and answers ----------------------------------------------------------------


def test_requests_sent_before_the_answer_are_answered_in_order(spied: Spied, wire: DirectConnection) -> None:
    seq = wire.ask("learn-one", LEARN)[2]["seq"]
    for together in (True, False):
        parts = [
            wire.send(call, body, flush=False) for call, body in (("learn-one", LEARN), ("predict-one", PREDICT)) * 4
        ]
        if together:
            wire.socket.sendall(b"".join(parts))
        else:
            for part in parts:
                wire.socket.sendall(part[:40])
                wire.socket.sendall(part[40:])
        for _ in range(4):
            seq += 1
            assert wire.answer()[2]["seq"] == seq
            assert wire.answer()[2]["seq"] == seq
    assert spied.app.watch.in_flight == 0


def test_other_requests_between_are_answered_in_order(spied: Spied, wire: DirectConnection) -> None:
    learn = wire.send("learn-one", LEARN, flush=False)
    readiness = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    wire.socket.sendall(learn + readiness + learn + wire.send("predict-many", [PREDICT], flush=False) + learn)
    answers = [wire.answer() for _ in range(5)]
    assert [status for status, _, _ in answers] == [200] * 5
    first = answers[0][2]["seq"]
    assert answers[2][2]["seq"] == first + 1
    assert answers[4][2]["seq"] == first + 2
    assert len(answers[3][2]["predictions"]) == 1


def test_what_is_no_request_is_refused_after_the_answer_that_is_due(spied: Spied, wire: DirectConnection) -> None:
    wire.socket.sendall(wire.send("learn-one", LEARN, flush=False) + b"NONSENSE\r\n\r\n")
    assert [wire.answer()[0] for _ in range(2)] == [200, 400]
    assert wire.closed()


@pytest.mark.parametrize("before", [b"\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_body_in_parts_does_not_tie_its_call_to_what_came_before_its_head(
    spied: Spied, wire: DirectConnection, before: bytes
) -> None:
    body = json.dumps(PREDICT).encode().ljust(300)
    whole = wire.send("predict-one", body, flush=False)
    wire.socket.sendall(before + whole[:300])  # as many bytes behind the first empty line as the body has
    time.sleep(0.05)
    wire.socket.sendall(whole[300:])
    answers = [wire.answer() for _ in range(1 + before.startswith(b"GET"))]
    assert answers[-1][0] == 200
    assert "score" in answers[-1][2]
    wire.socket.sendall(before + body)  # no request at all, after it
    assert [wire.answer()[0] for _ in answers][-1] == 400


# ---- the end of a connection ----------------------------------------------------------------------------


def test_a_client_that_ends_its_side_gets_its_answer(spied: Spied, wire: DirectConnection) -> None:
    wire.ask("learn-one", LEARN)
    wire.send("learn-one", LEARN)
    wire.socket.shutdown(socket.SHUT_WR)
    status, headers, _ = wire.answer()
    assert (status, headers["connection"]) == (200, "close")
    assert wire.closed()
    assert spied.seen == [("learn-one", "serve")] * 2


def test_a_client_that_leaves_before_its_body_is_counted_and_nothing_is_learned(
    spied: Spied, wire: DirectConnection
) -> None:
    seq, left = spied.describe("m")["seq"], counted(spied, "learn-one", "none")
    wire.socket.sendall(wire.send("learn-one", LEARN, flush=False)[:-3])
    until = time.monotonic() + 10
    while spied.app.watch.in_flight != 1:
        assert time.monotonic() < until
        time.sleep(0.01)
    wire.socket.close()
    while counted(spied, "learn-one", "none") == left:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert spied.seen == [("learn-one", "abandon")]
    assert spied.app.watch.in_flight == 0
    assert spied.describe("m")["seq"] == seq


def test_a_client_that_leaves_before_its_answer_is_learned_and_counted(spied: Spied, wire: DirectConnection) -> None:
    seq, learned = spied.describe("m")["seq"], counted(spied, "learn-one", "2xx")
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
    wire.send("learn-one", LEARN)
    wire.socket.close()
    until = time.monotonic() + 10
    while spied.describe("m")["seq"] == seq and spied.seen:
        assert time.monotonic() < until
        time.sleep(0.01)
    assert spied.app.watch.in_flight <= 1  # the last description may not have been counted yet
    assert counted(spied, "learn-one", "2xx") - learned == len(spied.seen)


def test_an_idle_connection_is_kept_for_its_time_and_then_closed(spied: Spied, wire: DirectConnection) -> None:
    wire.ask("predict-one", PREDICT)
    time.sleep(2.0)  # longer than a head and a body may take
    wire.ask("predict-one", PREDICT)
    begun = time.monotonic()
    assert wire.closed()
    assert 2.5 < time.monotonic() - begun < 8.0
    assert spied.seen == [("predict-one", "serve")] * 2


def test_a_head_that_does_not_end_is_refused_on_a_connection_that_was_answered(
    spied: Spied, wire: DirectConnection
) -> None:
    wire.ask("predict-one", PREDICT)
    time.sleep(1.5)
    wire.socket.sendall(b"POST /v1/models/m/predict-one HTTP/1.1\r\nHo")
    assert wire.answer()[0] == 408
    assert wire.closed()


def test_an_answer_that_is_due_is_given_when_the_service_stops(tmp_path: Path) -> None:
    running = Spied(tmp_path / "data")
    running.create("m")
    with DirectConnection(running.port) as idle, DirectConnection(running.port) as wire:
        idle.ask("predict-one", PREDICT)
        wire.send("learn-one", LEARN)
        while not running.seen[1:]:
            time.sleep(0.001)
        running.stop()
        assert wire.answer()[0] == 200
        assert wire.closed()
        assert idle.closed()


# ---- what goes by ASGI --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "status"),
    [
        ("Connection: close\r\n", 200),
        ("Expect: 100-continue\r\n", 200),
        ("Content-Encoding: gzip\r\n", 415),
    ],
)
def test_a_head_that_asks_for_more_goes_by_asgi(spied: Spied, wire: DirectConnection, more: str, status: int) -> None:
    data = wire.send("predict-one", PREDICT, more=more, flush=False)
    if more.startswith("Expect"):
        end = data.index(b"\r\n\r\n") + 4
        wire.socket.sendall(data[:end])
        while b"\r\n\r\n" not in wire.buffer:
            wire._more()
        assert wire.buffer == b"HTTP/1.1 100 Continue\r\n\r\n"
        wire.buffer, data = b"", data[end:]
    wire.socket.sendall(data)
    assert wire.answer()[0] == status
    assert spied.seen == []


def test_a_body_in_chunks_and_a_request_of_http_1_0_go_by_asgi(spied: Spied, wire: DirectConnection) -> None:
    head = b"POST /v1/models/m/predict-one HTTP/1.%d\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body = json.dumps(PREDICT).encode()
    wire.socket.sendall(head % 1 + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    assert wire.answer()[0] == 200
    wire.socket.sendall(head % 0 + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
    assert wire.answer()[0] == 200
    assert wire.closed()
    assert spied.seen == []


@pytest.mark.parametrize(
    ("head", "status", "kind"),
    [
        ({"name": "none-of-it"}, 404, "model-not-found"),
        ({"kind": "text/plain"}, 415, "unsupported-media-type"),
        ({"call": "predict-one?x=1"}, 422, "invalid-query"),
        ({"more": "Host: again\r\n"}, 400, "bad-request"),
    ],
)
def test_a_head_that_is_refused_is_refused_before_its_body_comes(
    spied: Spied, wire: DirectConnection, head: dict[str, str], status: int, kind: str
) -> None:
    data = wire.send(**{"call": "predict-one", **head}, body=PREDICT, flush=False)
    wire.socket.sendall(data[: data.index(b"\r\n\r\n") + 4])
    found = wire.answer()
    assert (found[0], found[2]["type"].rpartition(":")[2]) == (status, kind)
    assert spied.seen == []


def test_a_body_over_its_limit_is_refused_before_it_comes(spied: Spied, wire: DirectConnection) -> None:
    data = wire.send("predict-one", b" " * 50_001, flush=False)
    wire.socket.sendall(data[:200])
    assert wire.answer()[0] == 413
    assert spied.seen == []


def test_a_body_that_does_not_come_is_refused_by_asgi(spied: Spied, wire: DirectConnection) -> None:
    data = wire.send("learn-one", LEARN, flush=False)
    wire.socket.sendall(data[:-5])
    status, headers, problem = wire.answer()
    assert (status, problem["type"].rpartition(":")[2], headers["connection"]) == (408, "slow-request", "close")
    assert spied.seen == [("learn-one", "withdraw")]
    assert spied.app.watch.in_flight == 0


def test_a_body_that_comes_late_but_comes_is_served_once(spied: Spied, wire: DirectConnection) -> None:
    seq = spied.describe("m")["seq"]
    data = wire.send("learn-one", LEARN, flush=False)
    wire.socket.sendall(data[:-5])
    time.sleep(0.8)  # the connections are looked at about twice a second
    wire.socket.sendall(data[-5:])
    assert wire.answer()[2]["seq"] == seq + 1
    assert wire.ask("learn-one", LEARN)[2]["seq"] == seq + 2
    assert spied.seen == [("learn-one", "withdraw"), ("learn-one", "serve")]
    assert spied.app.watch.in_flight == 0


# ---- who may call ---------------------------------------------------------------------------------------------


def test_a_deleted_model_and_one_that_takes_its_name(spied: Spied, wire: DirectConnection) -> None:
    for _ in range(2):
        spied.seen.clear()
        spied.create("brief")
        assert wire.ask("learn-one", LEARN, name="brief")[2]["seq"] == 1
        assert wire.ask("learn-one", LEARN, name="brief")[2]["seq"] == 2
        spied.http.delete("/v1/models/brief")
        assert wire.ask("learn-one", LEARN, name="brief")[0] == 404
        assert spied.seen == [("learn-one", "serve")] * 2


def test_a_model_that_is_deleted_before_the_body_comes_learns_nothing(spied: Spied, wire: DirectConnection) -> None:
    spied.create("brief")
    data = wire.send("learn-one", LEARN, name="brief", flush=False)
    wire.socket.sendall(data[:-5])
    time.sleep(0.05)
    spied.http.delete("/v1/models/brief")
    wire.socket.sendall(data[-5:])
    assert wire.answer()[0] == 404


def test_keys_and_roles_are_asked_at_each_request(tmp_path: Path) -> None:
    file = tmp_path / "data" / "keys.json"
    admin = keys.create(file, Role.ADMIN, "admin")[1]
    number, key = keys.create(file, Role.WRITE, "writer")
    reader = keys.create(file, Role.READ, "reader")[1]
    running = Spied(tmp_path / "data")
    running.http.headers["Authorization"] = f"Bearer {admin}"
    running.create("m")
    more, reads = f"Authorization: Bearer {key}\r\n", f"X-API-Key: {reader}\r\n"
    with DirectConnection(running.port) as wire:
        for _ in range(3):
            assert wire.ask("learn-one", LEARN, more=more)[0] == 200
        assert running.seen == [("learn-one", "serve")] * 3
        running.seen.clear()
        assert wire.ask("learn-one", LEARN)[0] == 401
        assert wire.ask("learn-one", LEARN, more=reads)[0] == 403
        assert running.seen == []
        assert wire.ask("predict-one", PREDICT, more=reads)[0] == 200
        assert wire.ask("predict-one", {**PREDICT, "id": "x"}, more=reads)[0] == 403
        assert running.seen == [("predict-one", "serve")] * 2
        keys.revoke(file, number.id)
        time.sleep(0.1)
        assert wire.ask("learn-one", LEARN, more=more)[0] == 401
    assert running.describe("m")["seq"] == 3
    running.stop()


# ---- what is used of uvicorn -----------------------------------------------------------------------------------

CYCLE = {  # attributes of a cycle that uvicorn or the connection reads or sets
    *("body", "disconnected", "keep_alive", "message_event", "more_body", "on_response", "response_complete"),
    *("response_started", "scope", "transport", "waiting_for_100_continue"),
}
FLOW = {"pause_reading", "read_paused", "resume_reading", "write_paused"}
STATE = {"connections", "default_headers", "total_requests"}
OVERRIDDEN = {  # methods that replace or extend those of uvicorn
    *("_start_asgi_task", "connection_lost", "connection_made", "data_received", "eof_received", "on_body"),
    *("on_header", "on_headers_complete", "on_message_begin", "on_message_complete", "on_response_complete", "on_url"),
    "shutdown",
}
USED = {  # attributes of uvicorn's protocol
    *("_unset_keepalive_if_required", "cycle", "expect_100_continue", "flow", "headers", "loop", "parser", "pipeline"),
    *("scope", "server_state", "timeout_keep_alive", "timeout_keep_alive_task", "transport", "url"),
}
SERVER = {"capture_signals", "handle_exit", "on_tick", "shutdown", "force_exit", "lifespan", "should_exit", "started"}


def test_the_private_names_of_uvicorn_are_there() -> None:
    config = uvicorn.Config(lambda: None, lifespan="off", log_config=None)  # type: ignore[arg-type]
    found = httptools_impl.HttpToolsProtocol(config, ServerState(), {}, _loop=object())  # type: ignore[arg-type]
    source = inspect.getsource(httptools_impl.HttpToolsProtocol)
    assert {
        name for name in {*OVERRIDDEN, *USED} if not hasattr(found, name) and f"self.{name} =" not in source
    } == set()
    assert 200 in httptools_impl.STATUS_LINE
    cycle = inspect.getsource(httptools_impl.RequestResponseCycle.__init__)
    assert {name for name in CYCLE if f"self.{name}" not in cycle} == set()
    flow = inspect.getsource(flow_control.FlowControl)
    assert {name for name in FLOW if name not in flow} == set()
    assert {name for name in STATE if not hasattr(ServerState(), name)} == set()
    running = uvicorn.Server(config)
    source = inspect.getsource(uvicorn.Server)
    assert {name for name in SERVER if not hasattr(running, name) and f"self.{name}" not in source} == set()


def test_no_other_private_name_of_uvicorn_is_used() -> None:
    tree = ast.parse(inspect.getsource(protocol))
    own = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Protocol")
    methods = {node.name for node in own.body if isinstance(node, ast.FunctionDef)}
    read, written = set[str](), set[str]()
    for node in ast.walk(own):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
            (written if isinstance(node.ctx, ast.Store) else read).add(node.attr)
    theirs = set(dir(httptools_impl.HttpToolsProtocol))
    assert methods & theirs == OVERRIDDEN
    assert (read | written) - methods - {"gate"} - {name for name in written if name not in USED} <= USED
    assert read | written >= USED
    assert {name for name in written if name in theirs} == set()
    instance = inspect.getsource(httptools_impl.HttpToolsProtocol)
    assert {name for name in written - USED if f"self.{name} " in instance or f"self.{name}:" in instance} == set()


def test_uvicorn_s_modules_are_imported_by_one_file() -> None:
    importers = []
    for file in sorted((ROOT / "service").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("uvicorn."):
                importers.append(file.name)
    assert set(importers) == {"protocol.py"}


def test_the_versions_whose_private_names_are_used_are_bounded() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    for name in ("uvicorn", "numba"):
        line = next(line for line in text.splitlines() if line.strip().startswith(f'"{name}>='))
        assert ",<" in line, line


def test_a_server_without_calls_serves_all_by_asgi(tmp_path: Path) -> None:
    running = Local(tmp_path / "data")
    running.server.config.http_protocol_class.gate.call_of = None  # type: ignore[union-attr]
    running.create("m")
    assert running.learn("m", ROW, True)["seq"] == 1
    running.stop()
