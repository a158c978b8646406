"""Requests whose head came before: the same answers as on the way of all requests, or that way."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aucstream_service.http.lane import MOST_BYTES, MOST_HEADS, Connection, Head, Lane
from aucstream_service.storage import api_keys as keys
from aucstream_service.storage.api_keys import Role
from tests.service.running import Local

ROW = {"a": 1.5, "b": -2.0}


class Spied(Local):
    """A server that tells which heads its lane was shown again, and whether it served them."""

    def __init__(self, data_dir: Path, **settings: Any) -> None:
        super().__init__(data_dir, **settings)
        lane = self.server.config.http_protocol_class.gate.lane  # type: ignore[union-attr]
        assert isinstance(lane, Lane)
        self.lane = lane
        self.seen: list[tuple[str, bool]] = []
        serve = lane.serve

        def spy(connection: Connection, head: Head, body: bytes) -> bool:
            served = serve(connection, head, body)
            self.seen.append((head.exchange.path.rpartition("/")[2], served))
            return served

        lane.serve = spy  # type: ignore[method-assign]


class Wire:
    """One connection; requests and answers as bytes."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.buffer = b""

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, call: str, body: Any, *, more: str = "", name: str = "m", flush: bool = True) -> bytes:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        head = f"POST /v1/models/{name}/{call} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{more}"
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

    def _more(self) -> None:
        data = self.socket.recv(65_536)
        assert data, f"closed after {self.buffer!r}"
        self.buffer += data


@pytest.fixture(scope="module")
def spied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Spied]:
    running = Spied(tmp_path_factory.mktemp("lane") / "data")
    running.create("m")
    running.learn("m", ROW, True)
    running.learn("m", ROW, False)
    yield running
    running.stop()


@pytest.fixture
def wire(spied: Spied) -> Iterator[Wire]:
    spied.seen.clear()
    spied.lane.heads.clear()
    with Wire(spied.port) as found:
        yield found


def test_the_second_time_a_head_comes_its_request_is_served_in_the_lane_with_the_same_answer(
    spied: Spied, wire: Wire
) -> None:
    before = spied.app.watch.requests
    first, second = wire.ask("predict-one", {"features": ROW}), wire.ask("predict-one", {"features": ROW})
    assert spied.seen == [("predict-one", True)]
    assert first[0] == second[0] == 200
    assert first[2] == second[2]
    moving = {"x-request-id", "traceparent", "date"}
    assert list(first[1]) == list(second[1])
    assert {k: v for k, v in first[1].items() if k not in moving} == {
        k: v for k, v in second[1].items() if k not in moving
    }
    assert first[1]["x-request-id"] != second[1]["x-request-id"]
    assert wire.ask("predict-one", {"features": {"a": 1.5, "c": -2.0}})[0] == 200
    assert spied.seen == [("predict-one", True)] * 2
    key = ("/v1/models/{name}/predict-one", "POST", "2xx")
    assert spied.app.watch.requests[key] == before.get(key, 0) + 3
    assert spied.app.watch.in_flight == 0


def test_rows_learned_in_the_lane_are_learned_in_their_order(spied: Spied, wire: Wire) -> None:
    seq = spied.describe("m")["seq"]
    told = [wire.ask("learn-one", {"features": ROW, "label": label})[2]["seq"] for label in (0, 1, 0, 1, 1)]
    assert told == [seq + k for k in range(1, 6)]
    assert spied.seen == [("learn-one", True)] * 4
    assert spied.describe("m")["examples"] == spied.describe("m")["seq"] == seq + 5


def test_predictions_that_wait_and_their_labels_are_served_in_the_lane(spied: Spied, wire: Wire) -> None:
    seq = spied.describe("m")["seq"]
    for number in range(3):
        status, _, told = wire.ask("predict-one", {"features": ROW, "id": f"lane-{number}"})
        assert (status, told["seq"]) == (200, seq + number)
        assert wire.ask("label-one", {"id": f"lane-{number}", "label": 1})[2]["seq"] == seq + number + 1
    assert wire.ask("label-one", {"id": "lane-1", "label": 1})[2] == {"seq": seq + 2, "score": None, "duplicate": True}
    assert wire.ask("label-one", {"id": "lane-1", "label": 0})[0] == 409
    assert wire.ask("label-one", {"id": "lane-7", "label": 0})[0] == 404
    calls = [("predict-one", True), ("label-one", True)] * 2 + [("label-one", True)] * 3
    assert spied.seen == calls
    assert spied.describe("m")["pending"] == 0


@pytest.mark.parametrize(
    ("call", "good", "bad", "status"),
    [
        ("predict-one", {"features": {"a": 11}}, {"features": {"a": [2]}}, 422),
        ("predict-one", {"features": {"a": 1}}, {"features": {"a": 1}, "id": ""}, 422),
        ("learn-one", {"features": {"a": 1}, "label": 1}, {"features": {"a": 1}, "label": 7}, 422),
        ("learn-one", {"features": {"a": 1}, "label": 1}, {"features": {"a": 1}}, 422),
        ("learn-one", {"features": {"a": 1}, "label": 1}, {"features": {"a": 1}, "label": 1, "weight": -1}, 422),
    ],
)
def test_what_the_lane_does_not_answer_goes_the_way_of_all(
    spied: Spied, wire: Wire, call: str, good: Any, bad: Any, status: int
) -> None:
    texts = [json.dumps(body).encode() for body in (good, bad)]
    good, bad = (text.ljust(max(map(len, texts))) for text in texts)  # equal heads
    fresh = None
    if status != 200:
        with Wire(spied.port) as other:
            fresh = other.ask(call, bad, more="X-Request-Id: other\r\n")
    seq = spied.describe("m")["seq"]
    assert wire.ask(call, good)[0] == 200
    found = wire.ask(call, bad)
    assert spied.seen == [(call, False)]
    assert found[0] == status
    if fresh is not None:
        assert {k: v for k, v in found[2].items() if k != "request_id"} == {
            k: v for k, v in fresh[2].items() if k != "request_id"
        }
    assert wire.ask(call, good)[0] == 200
    assert spied.describe("m")["seq"] == seq + 2 * (call == "learn-one")


def test_a_row_that_the_model_skips_is_refused_in_the_lane_as_elsewhere(spied: Spied, wire: Wire) -> None:
    spied.create("raw", scaler="none")
    names = ("p", "q", "r", "s")
    for label in (0, 1) * 10:
        spied.learn("raw", dict.fromkeys(names, float(label)), label)
    good = json.dumps({"features": dict.fromkeys(names, 1.0), "label": True}).encode()
    text = json.dumps({"features": dict.fromkeys(names, 1.7e308), "label": True}).encode()
    assert wire.ask("learn-one", good.ljust(len(text)), name="raw")[0] == 200
    status, headers, problem = wire.ask("learn-one", text, name="raw")
    assert spied.seen[-1] == ("learn-one", True)
    assert (status, problem["type"].rpartition(":")[2]) == (422, "non-finite-step")
    assert headers["content-type"] == "application/problem+json"
    assert problem["request_id"] == headers["x-request-id"]
    assert wire.ask("learn-one", good.ljust(len(text)), name="raw")[0] == 200


def test_requests_sent_before_the_answer_are_answered_in_order(spied: Spied, wire: Wire) -> None:
    learn, predict = {"features": ROW, "label": 1}, {"features": ROW}
    seq = wire.ask("learn-one", learn)[2]["seq"]
    wire.ask("predict-one", predict)
    spied.seen.clear()
    for together in (True, False):
        parts = [
            wire.send(call, body, flush=False) for call, body in (("learn-one", learn), ("predict-one", predict)) * 4
        ]
        if together:
            wire.socket.sendall(b"".join(parts))
        else:
            wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for part in parts:
                wire.socket.sendall(part[:40])
                wire.socket.sendall(part[40:])
        for _ in range(4):
            seq += 1
            assert wire.answer()[2]["seq"] == seq
            assert wire.answer()[2]["seq"] == seq


def test_a_client_that_ends_its_side_gets_its_answer(spied: Spied, wire: Wire) -> None:
    learn = {"features": ROW, "label": 1}
    wire.ask("learn-one", learn)
    wire.send("learn-one", learn)
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.answer()[0] == 200
    assert wire.socket.recv(1) == b""
    assert spied.seen == [("learn-one", True)]


@pytest.mark.parametrize("more", ["X-Request-Id: mine\r\n", f"traceparent: 00-{'1' * 32}-{'2' * 16}-01\r\n"])
def test_a_request_with_a_name_of_its_own_keeps_it(spied: Spied, wire: Wire, more: str) -> None:
    for _ in range(2):
        _, headers, _ = wire.ask("predict-one", {"features": ROW}, more=more)
        assert more.split(": ")[1].strip()[3:30] in headers["x-request-id"] + headers["traceparent"]
    assert spied.lane.heads == {}


@pytest.mark.parametrize("before", [b"\r\n\r\n", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_a_body_in_parts_does_not_tie_its_call_to_what_came_before_its_head(
    spied: Spied, wire: Wire, before: bytes
) -> None:
    body = json.dumps({"features": ROW}).encode().ljust(300)
    whole = wire.send("predict-one", body, flush=False)
    wire.socket.sendall(before + whole[:300])  # as many bytes behind the first empty line as the body has
    time.sleep(0.05)
    wire.socket.sendall(whole[300:])
    answers = [wire.answer() for _ in range(1 + before.startswith(b"GET"))]
    assert answers[-1][0] == 200
    assert "score" in answers[-1][2]
    assert spied.lane.heads == {}
    wire.socket.sendall(before + body)  # no request at all, after it
    assert [wire.answer()[0] for _ in answers][-1] == 400
    assert spied.seen == []


def test_what_is_remembered_is_bounded(spied: Spied, wire: Wire) -> None:
    wire.ask("predict-one", {"features": ROW}, more=f"X-Long: {'x' * MOST_BYTES}\r\n")
    assert spied.lane.heads == {}
    _, _, _ = wire.ask("predict-one", {"features": ROW})
    known = next(iter(spied.lane.heads.values()))
    spied.lane.heads.update({b"%d" % number: known for number in range(MOST_HEADS - 1)})
    wire.ask("predict-one", {"features": {"a": 1}})
    assert len(spied.lane.heads) == 1


def test_a_deleted_model_and_one_that_takes_its_name(spied: Spied, wire: Wire) -> None:
    body = {"features": ROW, "label": 1}
    for seq in (1, 2):
        spied.create("brief")
        assert wire.ask("learn-one", body, name="brief")[2]["seq"] == 1
        assert wire.ask("learn-one", body, name="brief")[2]["seq"] == 2
        spied.http.delete("/v1/models/brief")
        assert wire.ask("learn-one", body, name="brief")[0] == 404
        assert spied.seen.count(("learn-one", True)) == 2 * seq - 1


def test_a_key_that_is_revoked_ends_in_the_lane_too(tmp_path: Path) -> None:
    file = tmp_path / "data" / "keys.json"
    admin = keys.create(file, Role.ADMIN, "admin")[1]
    number, key = keys.create(file, Role.WRITE, "writer")
    running = Spied(tmp_path / "data")
    running.http.headers["Authorization"] = f"Bearer {admin}"
    running.create("m")
    more = f"Authorization: Bearer {key}\r\n"
    with Wire(running.port) as wire:
        for _ in range(3):
            assert wire.ask("learn-one", {"features": ROW, "label": 1}, more=more)[0] == 200
        assert running.seen == [("learn-one", True)] * 2
        keys.revoke(file, number.id)
        time.sleep(0.1)
        assert wire.ask("learn-one", {"features": ROW, "label": 1}, more=more)[0] == 401
    assert running.describe("m")["seq"] == 3
    running.stop()
