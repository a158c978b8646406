"""Processor time of one-row calls over HTTP, beside a bare ASGI application that decodes and answers the same bytes.

    python benchmarks/service/one_row.py [--rounds 15] [--requests 400] [--features 20] [--vocabulary 20]
                                         [--calls known,unseen,learn] [--clients httpx,http.client,one,two]
                                         [--server NAME=ROOT[:MODULE] ...]

The figure is the processor time of the server process, all threads, divided by the requests; the ratio is bare/ours of
one round. The server is pinned to the first core, the client to the last. One connection is kept, one request is under
way at a time, and every request has another row. Rounds take turns between the bare application and each server.

Calls
    known   predict-one; every name is known to the model
    unseen  predict-one; no name of the row was ever learned
    learn   learn-one at durability `os`; every name is known
Clients
    httpx        `httpx.Client`, which decides for itself how often it writes
    http.client  `http.client.HTTPConnection`, likewise
    one          a raw socket, head and body in one write
    two          a raw socket, head and body in two writes (without Nagle's delay)

The bare application runs on uvicorn with httptools and uvloop, as the service does. It decodes the body with msgspec
into a structure with the types of the call, and answers the bytes that the first server answered to such a call:
status, headers and body.

`--server` names a checkout to measure; it may be repeated, so that two versions are measured in one run. ROOT is the
checkout, whose `.venv/bin/python` is used if there is one; MODULE is the module that serves, found if it is not given.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import httpx

ROOT = Path(__file__).parents[2]
MODULES = {"service/aucstream_service": "aucstream_service.ops.main", "service": "service.main"}
HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}
CALLS = {"known": "predict-one", "unseen": "predict-one", "learn": "learn-one"}
TITLES = {
    "known": "predict-one, known names",
    "unseen": "predict-one, unseen names",
    "learn": "learn-one, durability os",
}
WANTED = {"known": 1.0, "unseen": 0.6, "learn": 0.45}
MODEL = "bench"
TAUGHT = 300  # rows that a model learns before it is measured

BARE = """
import json
import sys

import msgspec
import uvicorn


class Body(msgspec.Struct):
    features: dict[str, float]
    label: bool = False


decode = msgspec.json.Decoder(Body).decode
answers = {
    call: ([(name.encode(), value.encode()) for name, value in headers], body.encode())
    for call, (headers, body) in json.loads(sys.argv[2]).items()
}


async def app(scope, receive, send):
    body = b""
    more = True
    while more:
        message = await receive()
        body += message["body"]
        more = message["more_body"]
    if body:
        decode(body)
    headers, answer = answers[scope["path"].rpartition("/")[2]]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), loop="uvloop", http="httptools", log_level="warning",
            access_log=False, lifespan="off", server_header=False, proxy_headers=False)
"""

Send = Callable[[str, bytes], bytes]  # path and body of a POST -> body of its answer


class Target(NamedTuple):
    """A server that runs."""

    name: str
    port: int
    pid: int


# ---- rows --------------------------------------------------------------------------------------------


class RowSource:
    """Bodies of requests; none comes twice."""

    def __init__(self, features: int, vocabulary: int) -> None:
        self._random = random.Random(1)
        self._features = features
        self._names = [f"feature_{number}" for number in range(max(features, vocabulary))]
        self._unseen = 0

    def bodies(self, call: str, count: int) -> list[bytes]:
        """Return the bodies of so many requests."""
        return [json.dumps(self._body(call)).encode() for _ in range(count)]

    def _body(self, call: str) -> dict[str, Any]:
        if call == "unseen":
            self._unseen += 1
            names = [f"unseen_{self._unseen}_{number}" for number in range(self._features)]
        elif len(self._names) > self._features:
            names = self._random.sample(self._names, self._features)
        else:
            names = self._names
        values = [self._random.gauss(0.0, 1.0) for _ in names]
        body: dict[str, Any] = {"features": dict(zip(names, values, strict=True))}
        if call == "learn":
            body["label"] = sum(values) + self._random.gauss(0.0, 1.0) > 0.0
        return body


# ---- clients -----------------------------------------------------------------------------------------


@contextmanager
def httpx_client(port: int) -> Iterator[Send]:
    """Send with httpx."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", headers=JSON) as client:

        def send(path: str, body: bytes) -> bytes:
            answer = client.post(path, content=body)
            answer.raise_for_status()
            return answer.content

        yield send


@contextmanager
def standard_client(port: int) -> Iterator[Send]:
    """Send with http.client."""
    client = http.client.HTTPConnection(HOST, port)

    def send(path: str, body: bytes) -> bytes:
        client.request("POST", path, body, JSON)
        answer = client.getresponse()
        data = answer.read()
        assert answer.status == 200, data
        return data

    yield send
    client.close()


def raw_client(writes: int) -> Callable[[int], Any]:
    """Return a client on a raw socket that sends head and body in so many writes."""

    @contextmanager
    def client(port: int) -> Iterator[Send]:
        with socket.create_connection((HOST, port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

            def send(path: str, body: bytes) -> bytes:
                head = (
                    f"POST {path} HTTP/1.1\r\nHost: {HOST}\r\nContent-Type: application/json\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n"
                ).encode()
                if writes == 1:
                    connection.sendall(head + body)
                else:
                    connection.sendall(head)
                    connection.sendall(body)
                data = b""
                while True:
                    data += connection.recv(65_536)
                    lines, end, rest = data.partition(b"\r\n\r\n")
                    if end:
                        at = lines.lower().index(b"content-length: ") + 16
                        if len(rest) >= int(lines[at:].partition(b"\r")[0]):
                            assert data.startswith(b"HTTP/1.1 200"), data
                            return rest

            yield send

    return client


CLIENTS: dict[str, Callable[[int], Any]] = {
    "httpx": httpx_client,
    "http.client": standard_client,
    "one": raw_client(1),
    "two": raw_client(2),
}


def writes_of(client: str, port: int, path: str, body: bytes) -> int:
    """Return how often a client writes to its socket for one request."""
    count = 0

    def counted(write: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal count
            count += 1
            return write(*arguments)

        return call

    with CLIENTS[client](port) as send:
        send(path, body)  # connects
        with ExitStack() as stack:
            for name in ("send", "sendall", "sendmsg"):
                method = counted(getattr(socket.socket, name))
                stack.enter_context(mock.patch.object(socket.socket, name, method))
            send(path, body)
    return count


# ---- servers -----------------------------------------------------------------------------------------


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def served(command: list[str], port: int, cwd: Path, core: int) -> Iterator[int]:
    """Run a server pinned to a core until the end; yield its process id when it listens."""
    server = subprocess.Popen(
        command,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, {core}),
    )
    try:
        for _ in range(1200):
            if server.poll() is not None:
                assert server.stderr is not None
                raise RuntimeError(server.stderr.read().decode())
            try:
                socket.create_connection((HOST, port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield server.pid
    finally:
        server.terminate()
        server.wait()


def command_of(root: Path, module: str) -> list[str]:
    """Return the command that serves from a checkout."""
    python = root / ".venv/bin/python"
    if not module:
        module = next(name for folder, name in MODULES.items() if (root / folder).is_dir())
    return [str(python if python.exists() else sys.executable), "-m", module]


def ready(port: int) -> None:
    """Wait until a service answers that it is ready, then make its model and teach it."""
    with httpx.Client(base_url=f"http://{HOST}:{port}", timeout=120) as client:
        while client.get("/readyz").status_code != 200:
            time.sleep(0.1)
        client.put(f"/v1/models/{MODEL}", json={"algorithm": "solam"}).raise_for_status()


def answer_of(port: int, call: str, body: bytes) -> tuple[list[tuple[str, str]], str]:
    """Return headers, without those that uvicorn adds, and body of an answer."""
    answer = httpx.post(f"http://{HOST}:{port}/v1/models/{MODEL}/{CALLS[call]}", content=body, headers=JSON)
    answer.raise_for_status()
    return [(name, value) for name, value in answer.headers.items() if name != "date"], answer.text


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and all its threads, in seconds, to the nanosecond.

    The clock of another process has the number that `clock_getcpuclockid` computes: ~pid * 8 + CPUCLOCK_SCHED.
    """
    return time.clock_gettime((~pid << 3) | 2)


def microseconds(target: Target, client: str, call: str, bodies: list[bytes]) -> float:
    """Return the processor time of a server, in microseconds a request."""
    path = f"/v1/models/{MODEL}/{CALLS[call]}"
    with CLIENTS[client](target.port) as send:
        for body in bodies[:20]:
            send(path, body)
        before = processor_seconds(target.pid)
        for body in bodies[20:]:
            send(path, body)
        time.sleep(0.002)  # what the server does after the last answer
        return (processor_seconds(target.pid) - before) / (len(bodies) - 20) * 1e6


def spread(values: list[float]) -> str:
    """Return the median, and where the middle half of the values lies."""
    if len(values) < 4:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def arguments_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """Return what the command line says."""
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--requests", type=int, default=400, help="of each call in each round")
    parser.add_argument("--features", type=int, default=20, help="of each row")
    parser.add_argument("--vocabulary", type=int, default=0, help="known names that rows draw from (default: as many)")
    parser.add_argument("--calls", default=",".join(CALLS))
    parser.add_argument("--clients", default=",".join(CLIENTS))
    parser.add_argument("--server", action="append", metavar="NAME=ROOT[:MODULE]")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    told = arguments_of(
        argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    )
    cores = sorted(os.sched_getaffinity(0))
    source = RowSource(told.features, told.vocabulary)
    folder = Path(tempfile.mkdtemp(prefix="one-row-"))
    calls, clients = told.calls.split(","), told.clients.split(",")
    with ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        targets: list[Target] = []
        for each in told.server or [f"ours={ROOT}"]:
            name, _, rest = each.partition("=")
            root, _, module = rest.partition(":")
            port = free_port()
            flags = ["--port", str(port), "--data-dir", str(folder / name), "--durability", "os"]
            command = [*command_of(Path(root), module), *flags]
            pid = stack.enter_context(served(command, port, Path(root), cores[0]))
            ready(port)
            with httpx_client(port) as send:
                for body in source.bodies("learn", TAUGHT):
                    send(f"/v1/models/{MODEL}/learn-one", body)
            targets.append(Target(name, port, pid))
        answers = {CALLS[call]: answer_of(targets[0].port, call, source.bodies(call, 1)[0]) for call in calls}
        port = free_port()
        pid = stack.enter_context(
            served([sys.executable, "-c", BARE, str(port), json.dumps(answers)], port, ROOT, cores[0])
        )
        bare = Target("bare", port, pid)
        os.sched_setaffinity(0, {cores[-1]})
        path, body = f"/v1/models/{MODEL}/predict-one", source.bodies("known", 1)[0]
        writes = {client: writes_of(client, port, path, body) for client in clients if client not in ("one", "two")}
        rounds: dict[tuple[str, str], list[dict[str, float]]] = {
            (call, client): [] for call in calls for client in clients
        }
        for number in range(told.rounds):
            for (call, client), found in rounds.items():
                order = [bare, *targets] if number % 2 == 0 else [*targets, bare]
                found.append(
                    {each.name: microseconds(each, client, call, source.bodies(call, told.requests)) for each in order}
                )
    print(
        f"{told.features} features a row, {told.requests - 20} requests a round; median and middle half of "
        f"{told.rounds} rounds; processor microseconds of the server a request."
    )
    for client, count in writes.items():
        print(f"{client} writes head and body in {count} write{'s' if count != 1 else ''}.")
    names = [target.name for target in targets]
    print()
    print("| call | client | bare us |" + "".join(f" {name} us | bare/{name} |" for name in names) + " wanted |")
    print("| --- | --- | --- |" + " --- | --- |" * len(names) + " --- |")
    for (call, client), found in rounds.items():
        title = {"one": "raw socket, one write", "two": "raw socket, two writes"}.get(client, client)
        cells = [TITLES[call], title, f"{statistics.median(each['bare'] for each in found):.1f}"]
        for name in names:
            cells.append(f"{statistics.median(each[name] for each in found):.1f}")
            cells.append(spread([each["bare"] / each[name] for each in found]))
        print(f"| {' | '.join(cells)} | {WANTED[call]:.2f} |")


if __name__ == "__main__":
    main()
