"""Requests a second of the hot calls, beside a bare ASGI application with the same body.

    python benchmarks/service/bench_service.py [--seconds 0.5] [--rounds 12] [--connections 16] [--many 64]

Each server runs pinned to the first core, the client (one request at a time a connection) to the last. The bare application decodes the same body with msgspec into the same
structure and answers as many bytes; it is what the protocol alone allows here. A ratio is of one round, in which the calls
take turns; processor time is the server's, all threads.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import uvloop

from benchmarks.goals import note, write

ROOT = Path(__file__).parents[2]
FEATURES = {f"feature_{number}": number * 0.37 - 2.0 for number in range(20)}
LEARN = json.dumps({"features": FEATURES, "label": True}).encode()
PREDICT = json.dumps({"features": FEATURES}).encode()

BARE = """
import sys
import msgspec
import uvicorn

sys.path[:0] = [{root!r}, {root!r} + "/service"]
from aucstream_service.bodies.bodies import LearnBody

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


class Target(NamedTuple):
    """One call of one server."""

    name: str
    port: int
    path: str
    body: bytes
    pid: int
    connections: int


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
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def load(port: int, path: str, body: bytes, seconds: float, connections: int, pid: int) -> dict[str, float]:
    """Return requests a second, latencies, and the server's processor time a request, of one call."""
    start, used = time.perf_counter(), processor_seconds(pid)
    answered, failed = uvloop.run(ask(port, request(path, body), seconds, connections))
    elapsed, used = time.perf_counter() - start, processor_seconds(pid) - used
    if failed:
        raise RuntimeError(f"{failed} of {len(answered)} requests to {path} were not answered 200")
    times = sorted(answered)
    return {
        "rate": len(times) / elapsed,
        "cpu": used / len(times) * 1e6,
        "p50": times[len(times) // 2] * 1e3,
        "p99": times[int(len(times) * 0.99)] * 1e3,
    }


def started(arguments: list[str], port: int, path: str, pause: float = 0.1) -> subprocess.Popen[bytes]:
    """Start a server pinned to the first core and wait until it answers."""
    cores = sorted(os.sched_getaffinity(0))
    server = subprocess.Popen(
        arguments,
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, {cores[0]}),
    )
    for _ in range(int(120 / pause)):
        try:
            if call(port, path, b"", "GET").startswith(b"HTTP/1.1 200"):
                return server
        except OSError:
            pass
        time.sleep(pause)
    raise RuntimeError(f"no answer from {' '.join(arguments)}")


def spread(values: list[float]) -> str:
    """Return the median, and where the middle half of the values lies."""
    if len(values) < 4:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="of each call in each round")
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--many", type=int, default=64, help="connections of the durable learns")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--algorithm", default="solam")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-service-"))
    servers: list[subprocess.Popen[bytes]] = []
    targets: list[Target] = []
    try:
        port = free_port()
        bare = BARE.format(root=str(ROOT), port=port)
        servers.append(started([sys.executable, "-c", bare], port, "/"))
        targets.append(Target("bare", port, "/", LEARN, servers[-1].pid, options.connections))
        for durability in ("os", "disk"):
            port = free_port()
            flags = ["--port", str(port), "--data-dir", str(folder / durability), "--durability", durability]
            servers.append(started([sys.executable, "-m", "aucstream_service.ops.main", *flags], port, "/readyz"))
            spec = json.dumps({"algorithm": options.algorithm}).encode()
            answer = call(port, "/v1/models/bench", spec, "PUT")
            if not answer.startswith(b"HTTP/1.1 201"):
                raise RuntimeError(answer.decode())
            many = options.connections if durability == "os" else options.many
            model, pid = "/v1/models/bench", servers[-1].pid
            targets.append(Target(f"learn-one, {durability}", port, f"{model}/learn-one", LEARN, pid, many))
            if durability == "os":
                targets.append(Target("predict-one", port, f"{model}/predict-one", PREDICT, pid, many))
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
        figures: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
        for _ in range(options.rounds):  # interleaved, so that other load meets all of them
            for name, port, path, body, pid, many in targets:
                figures[name].append(load(port, path, body, options.seconds, many, pid))
        bare_rounds = figures["bare"]
        print(
            f"{len(LEARN)} bytes a body, {len(FEATURES)} features; median and middle half of {options.rounds} rounds."
        )
        print()
        print("| call | connections | requests/s | of bare | processor us a request | of bare | p50 ms | p99 ms |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for target in targets:
            rounds = figures[target.name]

            def middle(key: str, rounds: list[dict[str, float]] = rounds) -> float:
                return statistics.median(each[key] for each in rounds)

            pairs = list(zip(bare_rounds, rounds, strict=True))
            rates = spread([ours["rate"] / base["rate"] for base, ours in pairs])
            shares = spread([base["cpu"] / ours["cpu"] for base, ours in pairs])
            if "disk" in target.name:
                note(f"{target.name}, requests/s", [ours["rate"] for ours in rounds], 4_000)
            elif target.name != "bare":
                note(f"{target.name}, requests/s / bare", [ours["rate"] / base["rate"] for base, ours in pairs], 0.6)
            print(
                f"| {target.name} | {target.connections} | {middle('rate'):,.0f} | {rates} | {middle('cpu'):.0f} | "
                f"{shares} | {middle('p50'):.2f} | {middle('p99'):.2f} |"
            )
    finally:
        for server in servers:
            server.terminate()
            server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    write()


if __name__ == "__main__":
    main()
