"""Limits of one request and of all: heads, bodies, time, connections (S16 and its kinds)."""

from __future__ import annotations

import gzip
import json
import random
import re
import select
import socket
import time
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import zstandard

from aucstream_service.errors.exceptions import BadEncoding, BodyTooLarge
from aucstream_service.http.inflate import PIECE, ZSTD_STEP, Inflater
from tests.service.running import JSON, NDJSON, Local, problem
from tests.service.stream import lines, rows

MIB = 1 << 20
LEARN = b'{"features":{"a":1},"label":1}'
CONNECTIONS = 12


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A service with small limits and little patience."""
    running = Local(
        tmp_path_factory.mktemp("small") / "data",
        max_body_bytes=MIB,
        max_bodies_bytes=MIB + MIB // 2,
        max_line_bytes=100_000,
        max_spool_bytes=100_000,
        max_url_bytes=500,
        max_header_bytes=2_000,
        max_headers=20,
        max_connections=CONNECTIONS,
        head_seconds=1.0,
        body_seconds=1.0,
        stream_bytes_per_second=200,
        inflate=True,
    )
    assert running.create("m").status_code == 201
    yield running
    running.stop()


def connected(service: Local) -> socket.socket:
    port = service.http.base_url.port
    assert port is not None
    connection = socket.create_connection(("127.0.0.1", port))
    connection.settimeout(20)
    return connection


def rest(connection: socket.socket) -> bytes:
    """Return what comes until the other side closes."""
    found = b""
    while part := connection.recv(1 << 16):
        found += part
    return found


def raw_problem(answer: bytes, status: int, kind: str) -> dict[str, Any]:
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:200]
    assert b"content-type: application/problem+json" in head.lower()
    document: dict[str, Any] = json.loads(body)
    assert document["type"] == f"urn:aucstream:problem:{kind}"
    assert document["status"] == status
    return document


# ---- the head ------------------------------------------------------------------------------------

GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n%s\r\n"


@pytest.mark.parametrize(
    ("request_", "status", "kind"),
    [
        (GET % (b"/livez?" + b"x" * 600, b""), 414, "url-too-long"),
        (GET % (b"/livez?" + b"x" * 200_000, b""), 414, "url-too-long"),
        (b"GET /" + b"x" * 600, 414, "url-too-long"),  # its end never comes
        (GET % (b"/livez", b"X-Long: " + b"y" * 2_100 + b"\r\n"), 431, "headers-too-large"),
        (GET % (b"/livez", b"X-A: b\r\n" * 20), 431, "headers-too-large"),
        (b"GET /livez HTTP/1.1\r\nX-Long: " + b"y" * 3_000, 431, "headers-too-large"),  # its end never comes
        (b"GET /livez HTTP/1.1\r\n" + b"Y" * 3_000, 431, "headers-too-large"),
    ],
)
def test_a_head_over_its_limit_is_refused(small: Local, request_: bytes, status: int, kind: str) -> None:
    with connected(small) as connection:
        connection.sendall(request_)
        raw_problem(rest(connection), status, kind)


POST = b"POST /v1/models/m/predict-one HTTP/1.1\r\nHost: localhost\r\nX-Request-ID: mine\r\n%s\r\n\r\nabc"


@pytest.mark.parametrize(
    ("request_", "status", "told"),
    [
        (b"\x00\x01\x02\r\n\r\n", 400, "invalid method"),
        (b"NONSENSE\r\n\r\n", 400, "invalid method"),
        (b"BREW /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, "got BREW"),
        (b"CONNECT localhost:80 HTTP/1.1\r\nHost: localhost\r\n\r\n", 501, "got CONNECT"),
        (b"PROPFIND /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 405, "GET, HEAD"),
        (b"GET /livez HTTP/9.9\r\n\r\n", 505, "1.1 or 1.0"),
        (b"GET /livez HTTP/2.0\r\nHost: localhost\r\n\r\n", 505, "got 2.0"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505, "1.1 or 1.0"),
        (b"GET /livez\r\n\r\n", 505, "got 0.9"),
        (b"GET /livez HTTP/1.1\r\n\r\n", 400, "Host"),
        (GET % (b"/livez", b"Host: localhost\r\n"), 400, "got several"),
        (GET % (b"/livez", b"A b: c\r\n"), 400, "invalid header token"),
        (GET % (b"*", b""), 400, "target"),
        (GET % (b"ftp://localhost/livez", b""), 400, "target"),
        (GET % (b"/\xff", b""), 400, "url"),
        (POST % b"Content-Length: -1", 400, "Content-Length: expected digits"),
        (POST % b"Content-Length: 3, 3", 400, "Content-Length: expected digits"),
        (POST % b"Content-Length:", 400, "Content-Length: expected digits"),
        (POST % b"Content-Length: 3\r\nContent-Length: 4", 400, "Content-Length: expected this header once"),
        (POST % b"Content-Length: 99999999999999999999", 400, "a smaller number"),
        (POST % b"Content-Length: 3\r\nTransfer-Encoding: chunked", 400, "not both"),
        (POST % b"Transfer-Encoding: chunked\r\nContent-Length: 3", 400, "not both"),
        (POST % b"Transfer-Encoding: gzip, chunked", 501, "expected chunked"),
        (POST % b"Transfer-Encoding: gzip", 501, "expected chunked"),
        (POST % b"Transfer-Encoding: identity", 501, "expected chunked"),
        (POST % b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked", 400, "chunked, once"),
        (POST.replace(b"/1.1", b"/1.0") % b"Transfer-Encoding: chunked", 400, "HTTP/1.0"),
    ],
)
def test_what_is_not_http_is_told_what_is_wrong(small: Local, request_: bytes, status: int, told: str) -> None:
    before = dict(small.app.watch.requests)
    with connected(small) as connection:
        connection.sendall(request_)
        answer = rest(connection)
    names = {400: "bad-request", 405: "method-not-allowed", 501: "not-implemented", 505: "version-not-supported"}
    document = raw_problem(answer, status, names[status])
    assert told in document["detail"]
    head = answer.partition(b"\r\n\r\n")[0].lower()
    assert b"\r\ndate: " in head
    assert b"\r\nconnection: close" in head
    assert b"\r\nx-request-id: %s\r\n" % document["request_id"].encode() in head
    assert document["request_id"] == "mine" or b"mine" not in request_
    counted = {key: n - before.get(key, 0) for key, n in small.app.watch.requests.items() if n != before.get(key, 0)}
    assert [(key[2], n) for key, n in counted.items()] == [(f"{status // 100}xx", 1)]


def test_a_whole_url_is_taken_and_names_the_host(small: Local) -> None:
    close = b"Connection: close\r\n"
    for target, status in ((b"http://localhost:1/livez?x", b"200"), (b"http://other.example/livez", b"421")):
        with connected(small) as connection:
            connection.sendall(GET % (target, close))
            assert rest(connection).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("protocol", [b"h2c", b"websocket"])
def test_a_request_that_asks_for_another_protocol_is_answered_in_this_one(small: Local, protocol: bytes) -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: %s\r\nHTTP2-Settings: AAMAAABk\r\n" % protocol
    body = b"Content-Type: application/json\r\nContent-Length: %d\r\n" % len(LEARN)
    request = b"POST /v1/models/m/learn-one HTTP/1.1\r\nHost: localhost\r\n" + upgrade + body + b"\r\n" + LEARN
    with connected(small) as connection:
        connection.sendall(request * 2 + request[:-10])
        time.sleep(0.1)
        connection.sendall(request[-10:] + GET % (b"/readyz", b"Connection: Close, Upgrade\r\nUpgrade: x\r\n"))
        assert re.findall(rb"HTTP/1.1 (\d+)", rest(connection)) == [b"200"] * 4


@pytest.mark.parametrize("call", [b"learn-one", b"learn-many"])
def test_a_client_that_ends_its_side_is_still_answered(small: Local, call: bytes) -> None:
    body = LEARN if call == b"learn-one" else b"[%s]" % LEARN
    head = b"POST /v1/models/m/%s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" % call
    with connected(small) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        connection.shutdown(socket.SHUT_WR)
        assert rest(connection).startswith(b"HTTP/1.1 200")


def test_what_follows_a_good_request_is_refused_after_its_answer(small: Local) -> None:
    with connected(small) as connection:
        connection.sendall(GET % (b"/readyz", b"") * 2 + b"NONSENSE\r\n\r\n" + GET % (b"/readyz", b""))
        found = rest(connection)
    assert re.findall(rb"HTTP/1.1 (\d+)", found) == [b"200", b"200", b"400"]


def test_a_stream_whose_chunks_break_keeps_what_came(small: Local) -> None:
    start = b"POST /v1/models/m/learn-many HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    with connected(small) as connection:
        chunk = b"%x\r\n%s\n\r\n" % (len(LEARN) + 1, LEARN)
        connection.sendall(start + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + b"zz\r\n")
        assert raw_problem(rest(connection), 400, "bad-request")["accepted"] == 1


def test_a_head_within_its_limits_is_answered(small: Local) -> None:
    with connected(small) as connection:
        connection.sendall(GET % (b"/livez?" + b"x" * 400, b"X-Long: " + b"y" * 1_800 + b"\r\nConnection: close\r\n"))
        assert rest(connection).startswith(b"HTTP/1.1 200")


# ---- time ----------------------------------------------------------------------------------------


def test_a_slow_head_a_silent_body_and_a_dripping_one_are_ended(small: Local) -> None:
    silent = connected(small)
    head = connected(small)
    head.sendall(b"GET /livez HTTP/1.1\r\nHo")
    body = connected(small)
    start = b"POST /v1/models/m/learn-one HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    body.sendall(start + b"Content-Length: 100\r\n\r\n{")
    stream, crumbs = connected(small), connected(small)
    for lines_ in (stream, crumbs):
        lines_.sendall(
            start.replace(b"learn-one", b"learn-many").replace(b"/json", b"/x-ndjson")
            + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\n\r\n" % (len(LEARN) + 1, LEARN)
        )
    drip = connected(small)
    drip.sendall(start + b"Content-Length: 1000\r\n\r\n")
    begun = time.monotonic()
    refused, cut = b"", []
    drip.settimeout(0.2)
    while not refused and time.monotonic() - begun < 20:
        try:
            if not cut:
                crumbs.sendall(b"1\r\n \r\n")
                cut = select.select([crumbs], [], [], 0)[0]
            drip.sendall(b" ")
            refused = drip.recv(4096)
        except TimeoutError:
            continue
    raw_problem(refused, 408, "slow-request")
    assert rest(silent) == b""
    raw_problem(rest(head), 408, "slow-request")
    raw_problem(rest(body), 408, "slow-request")
    for lines_ in (stream, crumbs):
        assert raw_problem(rest(lines_), 408, "slow-request")["accepted"] == 1  # what came is learned, and told
    assert time.monotonic() - begun < 15
    for connection in (silent, head, body, stream, crumbs, drip):
        connection.close()


def test_an_answer_that_nobody_reads_is_given_up(small: Local) -> None:
    with connected(small) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        gate = small.server.config.http_protocol_class.gate
        before = gate.refused.get("slow-request", 0)
        connection.sendall((GET % (b"/openapi.json", b"")) * 400)
        begun = time.monotonic()
        while gate.refused.get("slow-request", 0) == before and time.monotonic() - begun < 20:
            time.sleep(0.1)
        assert gate.refused["slow-request"] == before + 1
        while gate.serving > 1 and time.monotonic() - begun < 20:  # the fixture's own may be there
            time.sleep(0.1)
        assert gate.serving <= 1


def test_a_connection_that_pauses_between_requests_is_kept(small: Local) -> None:
    with connected(small) as connection:
        for _ in range(2):
            connection.sendall(GET % (b"/livez", b""))
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            time.sleep(1.7)  # longer than head and body may take
        connection.sendall(GET % (b"/livez", b"Connection: close\r\n"))
        assert rest(connection).startswith(b"HTTP/1.1 200")


# ---- connections ------------------------------------------------------------------------------------


def test_a_connection_too_many_is_told_so(small: Local) -> None:
    small.http.close()
    small.http = httpx.Client(base_url=small.http.base_url, timeout=60)
    time.sleep(0.2)
    held = [connected(small) for _ in range(CONNECTIONS)]
    for connection in held:
        connection.sendall(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n")
    try:
        for _ in range(2):  # one of them is refused when another test's connection still ends
            answer = httpx.get(f"{small.http.base_url}/v1/models")
        problem_without_id(answer, 503, "overloaded")
        assert answer.headers["retry-after"]
        assert answer.headers["connection"] == "close"
        assert httpx.get(f"{small.http.base_url}/livez").status_code == 200
    finally:
        for connection in held:
            connection.close()
    time.sleep(0.2)
    assert small.http.get("/livez").status_code == 200


def problem_without_id(answer: httpx.Response, status: int, kind: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"urn:aucstream:problem:{kind}"


def test_bodies_at_once_are_bounded(small: Local) -> None:
    start = b"POST /v1/models/m/learn-many HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with connected(small) as first:
        first.sendall(start + b"Content-Length: %d\r\n\r\n" % MIB + b" " * (MIB - 10))
        time.sleep(0.3)
        answer = small.raw("/v1/models/m/learn-many", b" " * (MIB - 10))
        problem(answer, 503, "overloaded")
        assert answer.headers["retry-after"]
        first.sendall(b" " * 10)
        first.settimeout(20)
        assert first.recv(65_536).startswith(b"HTTP/1.1 422")
    answer = small.raw("/v1/models/m/learn-many", b" " * (MIB - 10))
    assert answer.status_code == 422  # the place of the first is free again


def test_answers_that_wait_on_disk_are_bounded(small: Local) -> None:
    row = b'{"features":{"a":1}}\n'
    refused = small.raw("/v1/models/m/predict-many", row * 20_000, NDJSON)
    problem(refused, 503, "overloaded")
    for _ in range(2):  # the place of the refused one, and of the first, is free again
        answer = small.raw("/v1/models/m/predict-many", row * 1_000, NDJSON)
        assert answer.status_code == 200
        assert answer.text.count("\n") == 1_000


# ---- compressed bodies --------------------------------------------------------------------------------


def zipped(data: bytes, encoding: str) -> bytes:
    return gzip.compress(data) if encoding == "gzip" else zstandard.ZstdCompressor().compress(data)


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_compressed_bodies_are_taken_where_that_is_enabled(small: Local, encoding: str) -> None:
    name = f"zipped-{encoding}"
    small.create(name)
    told = {"Content-Encoding": encoding}
    assert small.raw(f"/v1/models/{name}/learn-one", zipped(LEARN, encoding), {**JSON, **told}).json()["seq"] == 1
    half = zipped(lines(rows(500)), encoding)
    answer = small.raw(f"/v1/models/{name}/learn-many", half + half, {**NDJSON, **told})  # two members are one body
    assert answer.json()["accepted"] == 1000
    whole = zipped(json.dumps(rows(1000)).encode(), encoding)
    assert small.raw(f"/v1/models/{name}/learn-many", whole, {**JSON, **told}).json()["accepted"] == 1000
    for bad in (whole[:-10], whole[:40], b"", b"plain", whole + b"junk", zlib.compress(LEARN)):
        problem(small.raw(f"/v1/models/{name}/learn-many", bad, {**JSON, **told}), 422, "bad-encoding")
    assert small.describe(name)["seq"] == 2001
    cut = small.raw(f"/v1/models/{name}/learn-many", half + half[:-10], {**NDJSON, **told})
    assert problem(cut, 422, "bad-encoding")["accepted"] >= 500
    odd = small.raw(f"/v1/models/{name}/learn-one", LEARN, {**JSON, "Content-Encoding": "br"})
    problem(odd, 415, "unsupported-media-type")
    assert "gzip" in odd.headers["accept-encoding"]


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
@pytest.mark.parametrize("letter", [b" ", b"\n", b"x"])
def test_a_bomb_is_refused_while_it_is_inflated(small: Local, encoding: str, letter: bytes) -> None:
    bomb = zipped(letter * (64 * MIB), encoding)
    assert len(bomb) < MIB
    for kind in (JSON, NDJSON):
        answer = small.raw("/v1/models/m/learn-many", bomb, {**kind, "Content-Encoding": encoding})
        problem(answer, 413, "body-too-large")


@pytest.mark.parametrize("encoding", ["gzip", "zstd"])
def test_no_piece_is_larger_than_its_bound(encoding: str) -> None:
    data = zipped(random.Random(0).randbytes(200_000) + b"x" * (32 * MIB), encoding)
    inflater = Inflater(encoding.encode())
    largest = 0
    try:
        for piece in inflater.feed(data):
            largest = max(largest, len(piece))
    except BodyTooLarge:
        pass
    assert largest > 0
    assert largest <= PIECE + (ZSTD_STEP // 3 + 2) * 131_072


@pytest.mark.parametrize("encoding", [b"gzip", b"zstd"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_inflating_does_not_depend_on_how_the_body_is_cut(encoding: bytes, step: int) -> None:
    data = lines(rows(200))
    packed = zipped(data, encoding.decode())
    inflater = Inflater(encoding)
    found = b"".join(b"".join(inflater.feed(packed[at : at + step])) for at in range(0, len(packed), step))
    inflater.end()
    assert found == data
    short = Inflater(encoding)
    list(short.feed(packed[:-1]))
    with pytest.raises(BadEncoding):
        short.end()


def test_a_frame_that_asks_for_a_huge_window_is_refused() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, compression_level=1)
    data = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    packed = data.compress(bytes(range(256)) * 4096) + data.flush()
    with pytest.raises(BadEncoding):
        list(Inflater(b"zstd").feed(packed))
