"""What the service does at a multiple of the load it can sustain.

    python benchmarks/service/overload.py [--seconds 10] [--times 4] [--rows 100]

First it measures how many learn-many requests a second are answered when a few connections each wait
for their answers. Then it offers `--times` as many, at their times whether or not earlier ones were
answered, each on a connection of its own. It prints what was offered and what was answered by status,
the resident memory before, at the most and after, and compares the examples that the model counts with
the rows of the requests that were answered 200. Meanwhile an operator changes settings of the model (eviction
among them), begins its evaluation anew, renames another model and rolls it back. The exit status is 1 where they differ.
"""

from __future__ import annotations

import argparse
import asyncio
import collections
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

import httpx

ROOT = Path(__file__).parents[2]
FLAGS = ["--max-queue-rows", "20000", "--max-connections", "200"]


def free_port() -> int:
    """Return a free loopback port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    with open(f"/proc/{pid}/statm", encoding="ascii") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def request_of(rows: int) -> bytes:
    """Return the bytes of one learn-many request."""
    bodies = [
        {"features": {f"f{k}": (row * 7 + k) % 13 / 3 for k in range(20)}, "label": row % 10 == 0}
        for row in range(rows)
    ]
    body = json.dumps(bodies).encode()
    head = (
        "POST /v1/models/m/learn-many HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body


async def ask(port: int, text: bytes, answers: collections.Counter[str], retry_after: list[bool]) -> None:
    """Send one request on a connection of its own; count its answer."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError as error:
        answers[f"no connection ({type(error).__name__})"] += 1
        return
    try:
        writer.write(text)
        answer = await asyncio.wait_for(reader.read(), 120)
        status = answer[9:12].decode() if answer.startswith(b"HTTP/1.1 ") else "closed without an answer"
        answers[status] += 1
        if status in ("429", "503"):
            retry_after.append(b"\r\nretry-after: " in answer.lower())
    except OSError as error:
        answers[f"no answer ({type(error).__name__})"] += 1
    finally:
        writer.close()


async def sustained(port: int, text: bytes, seconds: float, answers: collections.Counter[str]) -> float:
    """Return the requests a second of a few clients that wait for their answers."""
    until = time.perf_counter() + seconds

    async def client() -> int:
        completed = 0
        while time.perf_counter() < until:
            await ask(port, text, answers, [])
            completed += 1
        return completed

    start = time.perf_counter()
    completed = sum(await asyncio.gather(*(client() for _ in range(8))))
    return completed / (time.perf_counter() - start)


async def offer(
    port: int, text: bytes, rate: float, seconds: float, pid: int, answers: collections.Counter[str]
) -> tuple[int, float, list[bool]]:
    """Offer requests at their times; return how many, the most resident memory, and who told when to come again."""
    tasks: set[asyncio.Task[None]] = set()
    retry_after: list[bool] = []
    start = time.perf_counter()
    offered = 0
    most = 0.0
    while (elapsed := time.perf_counter() - start) < seconds:
        while offered < elapsed * rate:
            task = asyncio.create_task(ask(port, text, answers, retry_after))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
            offered += 1
        most = max(most, resident(pid))
        await asyncio.sleep(0.005)
    while tasks:
        most = max(most, resident(pid))
        await asyncio.wait(tasks, timeout=0.05)
    return offered, most, retry_after


async def operate(port: int, seconds: float, answers: collections.Counter[str]) -> None:
    """Change the model that is offered too much, and rename another one and roll it back."""
    until, name, number = time.perf_counter() + seconds, "a", 0
    merge = {"Content-Type": "application/merge-patch+json"}
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", timeout=120) as http:
        while time.perf_counter() < until or name != "a":
            number += 1
            try:
                match number % 4:
                    case 0:
                        what, answer = "reset-evaluation", await http.post("/v1/models/m/reset-evaluation")
                    case 1:
                        columns = {"eviction": "least-recent" if number % 8 == 1 else "none"}
                        patch = json.dumps({"evaluation": {"window": 100 + number % 50}, "columns": columns})
                        what, answer = "PATCH", await http.patch("/v1/models/m", content=patch, headers=merge)
                    case 2:
                        other = "b" if name == "a" else "a"
                        what, answer = "rename", await http.post(f"/v1/models/{name}/rename", json={"to": other})
                        name = other if answer.is_success else name
                    case _:
                        listed = await http.get(f"/v1/models/{name}/snapshots")
                        if not listed.is_success:
                            what, answer = "snapshots", listed
                        else:
                            body = {"snapshot": listed.json()["snapshots"][0]["seq"]}
                            what, answer = "rollback", await http.post(f"/v1/models/{name}/rollback", json=body)
                answers[f"{what} {answer.status_code}"] += 1
            except httpx.TransportError as error:
                answers[f"a change: {type(error).__name__}"] += 1
            await asyncio.sleep(0.05)


async def both(
    port: int, text: bytes, rate: float, seconds: float, pid: int, answers: collections.Counter[str]
) -> tuple[int, float, list[bool]]:
    """Offer requests while an operator changes models."""
    operator = asyncio.create_task(operate(port, seconds, answers))
    offered = await offer(port, text, rate, seconds, pid, answers)
    await operator
    return offered


def main() -> int:
    """Print the table; return 1 if an acknowledged row is not counted, or one that was not is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--times", type=float, default=4.0)
    parser.add_argument("--rows", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="overload-"))
    port = free_port()
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "aucstream_service.ops.main",
            "--port",
            str(port),
            "--data-dir",
            str(folder / "data"),
            *FLAGS,
        ],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        http = httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=120, transport=httpx.HTTPTransport(retries=3))
        until = time.monotonic() + 300
        while time.monotonic() < until:
            try:
                if http.get("/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.1)
        http.put("/v1/models/m", json={"algorithm": "psam"}).raise_for_status()
        http.put("/v1/models/a", json={"algorithm": "solam"}).raise_for_status()
        few = [{"features": {"x": float(row)}, "label": row % 2 == 0} for row in range(5_000)]
        while not http.get("/v1/models/a/snapshots").json()["snapshots"]:
            http.post("/v1/models/a/learn-many", json=few).raise_for_status()
        text = request_of(options.rows)
        first: collections.Counter[str] = collections.Counter()
        rate = asyncio.run(sustained(port, text, options.seconds / 2, first))
        print(f"{len(text):,} bytes and {options.rows} rows a request; sustained {rate:.0f} requests/s")
        acknowledged = first["200"]
        every = True
        for _ in range(options.rounds):
            before = resident(server.pid)
            answers: collections.Counter[str] = collections.Counter()
            offered, most, retry_after = asyncio.run(
                both(port, text, rate * options.times, options.seconds, server.pid, answers)
            )
            acknowledged += answers["200"]
            every &= all(retry_after)
            print(f"offered {offered} in {options.seconds:.0f} s, {offered / options.seconds / rate:.1f} times as many")
            for status, count in sorted(answers.items()):
                print(f"  {status:28}{count:8}")
            print(f"  429 and 503 with Retry-After {sum(retry_after):7} of {len(retry_after)}")
            print(f"  resident MiB: {before:.0f} before, {most:.0f} at most, {resident(server.pid):.0f} after")
        acknowledged *= options.rows
        described: dict[str, Any] = http.get("/v1/models/m").json()
        print(f"rows acknowledged {acknowledged}, examples counted {described['examples']}, seq {described['seq']}")
        return 0 if acknowledged == described["examples"] and every else 1
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
