"""Requests a second of the hot calls, beside a bare ASGI application with the same body.

    python benchmarks/bench_service.py [--seconds 2] [--connections 16]

Each server runs pinned to the first core, the client (one request at a time a connection) to the last. The bare application decodes the same body with msgspec into the same
structure and answers as many bytes; it is what the protocol alone allows here. Ratios travel
better than requests a second.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import uvloop

ROOT = Path(__file__).parents[1]
FEATURES = {f"feature_{number}": number * 0.37 - 2.0 for number in range(20)}
LEARN = json.dumps({"features": FEATURES, "label": True}).encode()
PREDICT = json.dumps({"features": FEATURES}).encode()

BARE = """
import sys
import msgspec
import uvicorn

sys.path.insert(0, {root!r})
from service.rows import LearnBody

decode = msgspec.json.Decoder(LearnBody).decode


async def app(scope, receive, send):
    if scope["type"] != "http":
        return
    message = await receive()
    if scope["method"] == "POST":
        decode(message["body"])
    body = b'{{"seq":123456,"score":-0.12345678901234567,"duplicate":false}}'
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({{"type": "http.response.start", "status": 200, "headers": headers}})
    await send({{"type": "http.response.body", "body": body}})


uvicorn.run(app, host="127.0.0.1", port={port}, loop="uvloop", http="httptools", log_level="warning",
            access_log=False, lifespan="off", server_header=False, proxy_headers=False)
"""


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def request(path: str, body: bytes, method: str = "POST") -> bytes:
    """Return the bytes of one request."""
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


def call(port: int, path: str, body: bytes, method: str) -> bytes:
    """Send one request on a connection of its own; return the answer."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(request(path, body, method))
        return connection.recv(65_536)


class Client(asyncio.Protocol):
    """One connection that asks, waits for the whole answer, and asks again."""

    def __init__(self, text: bytes, until: float, ended: asyncio.Future[None]) -> None:
        self.text = text
        self.until = until
        self.ended = ended
        self.times: list[float] = []
        self.failed = 0
        self.buffer = b""
        self.start = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ask first."""
        self.transport: Any = transport
        self._ask()

    def _ask(self) -> None:
        self.start = time.perf_counter()
        if self.start > self.until:
            self.ended.set_result(None)
            self.transport.close()
        else:
            self.transport.write(self.text)

    def data_received(self, data: bytes) -> None:
        """Note a whole answer and ask again."""
        self.buffer = buffer = self.buffer + data
        head = buffer.find(b"\r\n\r\n")
        if head < 0:
            return
        at = buffer.index(b"content-length: ") + 16
        if len(buffer) < head + 4 + int(buffer[at : buffer.index(b"\r", at)]):
            return
        self.times.append(time.perf_counter() - self.start)
        self.failed += not buffer.startswith(b"HTTP/1.1 200")
        self.buffer = b""
        self._ask()


async def ask(port: int, text: bytes, seconds: float, connections: int) -> tuple[list[float], int]:
    """Return the times of all requests, and how many failed."""
    loop = asyncio.get_running_loop()
    until = time.perf_counter() + seconds
    clients = [Client(text, until, loop.create_future()) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(lambda client=client: client, "127.0.0.1", port)  # type: ignore[misc]
    await asyncio.gather(*(client.ended for client in clients))
    return [each for client in clients for each in client.times], sum(client.failed for client in clients)


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has taken, its threads included."""
    told = Path(f"/proc/{pid}/stat").read_text()
    fields = told.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, path: str, body: bytes, seconds: float, connections: int, pid: int) -> dict[str, float]:
    """Return requests a second, latencies, and the server's processor time a request, of one call."""
    start, used = time.perf_counter(), processor_seconds(pid)
    found, failed = uvloop.run(ask(port, request(path, body), seconds, connections))
    elapsed, used = time.perf_counter() - start, processor_seconds(pid) - used
    if failed:
        raise RuntimeError(f"{failed} of {len(found)} requests to {path} were not answered 200")
    times = sorted(found)
    return {
        "rate": len(times) / elapsed,
        "cpu": used / len(times) * 1e6,
        "p50": times[len(times) // 2] * 1e3,
        "p99": times[int(len(times) * 0.99)] * 1e3,
    }


def started(arguments: list[str], port: int, path: str) -> subprocess.Popen[bytes]:
    """Start a server pinned to the first core and wait until it answers."""
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(
        arguments,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),
    )
    for _ in range(1200):
        try:
            if call(port, path, b"", "GET").startswith(b"HTTP/1.1 200"):
                return server
        except OSError:
            pass
        time.sleep(0.1)
    raise RuntimeError(f"no answer from {' '.join(arguments)}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--algorithm", default="solam")
    told = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-service-"))
    servers: list[subprocess.Popen[bytes]] = []
    targets: list[tuple[str, int, str, bytes, int]] = []
    try:
        port = free_port()
        bare = BARE.format(root=str(ROOT), port=port)
        servers.append(started([sys.executable, "-c", bare], port, "/"))
        targets.append(("bare ASGI + msgspec", port, "/", LEARN, servers[-1].pid))
        for durability in ("os", "disk"):
            port = free_port()
            flags = ["--port", str(port), "--data-dir", str(folder / durability), "--durability", durability]
            servers.append(started([sys.executable, "-m", "service.main", *flags], port, "/readyz"))
            spec = json.dumps({"algorithm": told.algorithm}).encode()
            answer = call(port, "/v1/models/bench", spec, "PUT")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(answer.decode())
            targets.append((f"learn-one, {durability}", port, "/v1/models/bench/learn-one", LEARN, servers[-1].pid))
            if durability == "disk":
                targets.append(("predict-one", port, "/v1/models/bench/predict-one", PREDICT, servers[-1].pid))
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
        found: dict[str, list[dict[str, Any]]] = {name: [] for name, *_ in targets}
        for _ in range(told.rounds):  # interleaved, so that other load meets all of them
            for name, port, path, body, pid in targets:
                found[name].append(load(port, path, body, told.seconds, told.connections, pid))
        best = {name: max(each, key=lambda one: one["rate"]) for name, each in found.items()}
        base = best["bare ASGI + msgspec"]["rate"]
        cpu = {name: min(one["cpu"] for one in each) for name, each in found.items()}
        print(
            f"{len(LEARN)} bytes a body, {len(FEATURES)} features, {told.connections} connections, best of {told.rounds}"
        )
        print(f"{'':24}{'requests/s':>12}{'of bare':>9}{'cpu us':>9}{'of bare':>9}{'p50 ms':>9}{'p99 ms':>9}")
        for name, each in best.items():
            share = cpu["bare ASGI + msgspec"] / cpu[name]
            print(
                f"{name:24}{each['rate']:12,.0f}{each['rate'] / base:9.2f}{cpu[name]:9.1f}{share:9.2f}"
                f"{each['p50']:9.2f}{each['p99']:9.2f}"
            )
    finally:
        for server in servers:
            server.terminate()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
