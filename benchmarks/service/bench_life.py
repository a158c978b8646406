"""How long the service takes to start, what it weighs, and what a bulk of rows does to a prediction meanwhile.

    python benchmarks/service/bench_life.py [--starts 5] [--rows 50000] [--bulks 5]

Starts are of an empty data directory with warm kernels, each a fresh process beside an import of FastAPI and
numba alone. Latencies are of predict-one on one connection, every 5 ms: quiet, and while one learn-many of
`rows` NDJSON lines is taken by the same process. The p99 of each round stands against the quiet one before it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

from benchmarks.goals import note, write
from benchmarks.service.bench_bulk import NDJSON, rows_of
from benchmarks.service.bench_service import PREDICT, free_port, processor_seconds, request, spread, started

PEER = "import fastapi, uvicorn, numba, numpy"


def start_once(folder: Path) -> tuple[float, float, float]:
    """Return seconds of wall and processor until ready, and MiB resident then."""
    port = free_port()
    began = time.perf_counter()
    command = [sys.executable, "-m", "aucstream_service.ops.main", "--port", str(port), "--data-dir", str(folder)]
    server = started(command, port, "/readyz", pause=0.01)
    wall, used = time.perf_counter() - began, processor_seconds(server.pid)
    resident = int(Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
    server.terminate()
    server.wait()
    return wall, used, resident


def import_once() -> float:
    """Return the seconds that importing what the service stands on takes."""
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", PEER], check=True)
    return time.perf_counter() - began


def latencies(port: int, until: threading.Event | float) -> list[float]:
    """Return the milliseconds of predictions, one every 5 ms, until a moment or an event."""
    text = request("/v1/models/m/predict-one", PREDICT)
    latencies: list[float] = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while not (until.is_set() if isinstance(until, threading.Event) else time.perf_counter() > until):
            began = time.perf_counter()
            connection.sendall(text)
            connection.recv(65_536)
            latencies.append((time.perf_counter() - began) * 1e3)
            time.sleep(0.005)
    return latencies


def p99(values: list[float]) -> float:
    """Return the 99th percentile."""
    return sorted(values)[int(len(values) * 0.99)]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--bulks", type=int, default=5)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-life-"))
    lines = b"".join(json.dumps(body).encode() + b"\n" for body in rows_of(options.rows))
    try:
        start_once(folder / "first")  # kernels are compiled here, if they are not
        starts, imports = [], []
        for number in range(options.starts):
            imports.append(import_once())
            starts.append(start_once(folder / f"start{number}"))
        walls, used, resident = (list(each) for each in zip(*starts, strict=True))
        ratio = spread([wall / alone for wall, alone in zip(walls, imports, strict=True)])
        print(f"ready after {spread(walls)} s of wall, {spread(used)} s of processor time; {ratio} x the imports alone")
        note("service ready, s", walls, 2.0, at_most=True)
        note("service idle, MiB", resident, 250.0, at_most=True)
        print(f"idle: {spread(resident)} MiB resident")
        port = free_port()
        command = [
            sys.executable,
            "-m",
            "aucstream_service.ops.main",
            "--port",
            str(port),
            "--data-dir",
            str(folder / "data"),
        ]
        server = started([*command, "--durability", "os", "--no-access-log"], port, "/readyz")
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[-1]})
        try:
            with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=600) as http:
                http.put("/v1/models/m", json={"algorithm": "solam"}).raise_for_status()
                http.post("/v1/models/m/learn-many", content=lines, headers=NDJSON).raise_for_status()
                pairs = []
                for _ in range(options.bulks):
                    quiet = latencies(port, time.perf_counter() + 1.5)
                    over = threading.Event()

                    def bulk(over: threading.Event = over) -> None:
                        http.post("/v1/models/m/learn-many", content=lines, headers=NDJSON).raise_for_status()
                        over.set()

                    thread = threading.Thread(target=bulk)
                    thread.start()
                    busy = latencies(port, over)
                    thread.join()
                    pairs.append((p99(quiet), p99(busy)))
            note("p99 of predict-one under learn-many / quiet", [b / q for q, b in pairs], 5.0, at_most=True)
            print(
                f"p99 of predict-one: quiet {spread([quiet for quiet, _ in pairs])} ms, under a learn-many of {options.rows} "
                f"rows {spread([busy for _, busy in pairs])} ms; ratio {spread([busy / quiet for quiet, busy in pairs])}"
            )
        finally:
            server.terminate()
            server.wait()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write()


if __name__ == "__main__":
    main()
