"""Latency of one model, and of /livez, while other models do the heaviest work that the service accepts.

    python benchmarks/service/stalls.py [--cases ids-opauc,weights,...] [--server ROOT] [--scale 1.0]

One thread sends predict-one to a small model and asks /livez, by turns, every five milliseconds, over connections that
are kept. Another sends the heavy work of one case. The figures are the latencies that the first one saw from the
beginning to the end of the work, and the histogram of the lag of the loop where the service has one. `--server` is the
checkout to measure.

The goal: nothing on the event loop takes longer than 50 ms.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
JSON = {"Content-Type": "application/json"}
NDJSON = {"Content-Type": "application/x-ndjson"}
EVERY = 0.005  # seconds between two probes


class Client:
    """One connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection(HOST, port, timeout=600)

    def call(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] = JSON) -> bytes:
        self._connection.request(method, path, body, headers if body is not None else {})
        answer = self._connection.getresponse()
        data = answer.read()
        if answer.status >= 300:
            raise SystemExit(f"{method} {path}: {answer.status} {data[:500]!r}")
        return data

    def create(self, name: str, **spec: Any) -> None:
        self.call("PUT", f"/v1/models/{name}", json.dumps(spec).encode())

    def learn_lines(self, name: str, rows: list[dict[str, Any]], step: int = 200) -> None:
        """Learn rows by bodies of some lines each."""
        for start in range(0, len(rows), step):
            lines = [
                json.dumps({"features": row, "label": (start + i) % 3 == 0})
                for i, row in enumerate(rows[start : start + step])
            ]
            self.call("POST", f"/v1/models/{name}/learn-many", "\n".join(lines).encode(), NDJSON)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


@contextmanager
def serving(root: Path) -> Iterator[int]:
    """Serve with the code of a checkout; yield the port."""
    port = free_port()
    python = root / ".venv" / "bin" / "python"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [
                str(python) if python.exists() else sys.executable,
                *("-m", "aucstream_service.ops.main", "--port", str(port), "--data-dir", f"{folder}/data"),
                *("--durability", "os", "--no-access-log", "--drain-seconds", "0"),
            ],
            cwd=root,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'service'}"},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until = time.monotonic() + 120
            while time.monotonic() < until:
                try:
                    Client(port).call("GET", "/readyz")
                    break
                except (OSError, SystemExit):
                    time.sleep(0.1)
            yield port
        finally:
            process.kill()
            process.wait()


class Probe(threading.Thread):
    """Asks for a score of a small model, and /livez, by turns."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(port)
        self._over = threading.Event()
        self.scores: list[float] = []
        self.lives: list[float] = []

    def run(self) -> None:
        body = json.dumps({"features": {f"x{i}": i / 20 for i in range(20)}}).encode()
        while not self._over.is_set():
            begun = time.perf_counter()
            self._client.call("POST", "/v1/models/small/predict-one", body)
            scored = time.perf_counter()
            self._client.call("GET", "/livez")
            lived = time.perf_counter()
            self.scores.append(scored - begun)
            self.lives.append(lived - scored)
            time.sleep(EVERY)

    def end(self) -> None:
        self._over.set()
        self.join()


def ids(algorithm: str, params: dict[str, Any], rows: int) -> Callable[[Client, random.Random, float], Iterator[None]]:
    """Return the case of a new string id in every row."""

    def case(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
        client.create("heavy", algorithm=algorithm, params=params)
        count = int(rows * scale)
        made = [{"user": f"u{i}", "a": draw.gauss(0, 1), "b": draw.gauss(0, 1)} for i in range(count)]
        yield
        client.learn_lines("heavy", made, 100)

    return case


def predict(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    client.create("heavy", algorithm="psam")
    client.learn_lines("heavy", [{"a": draw.gauss(0, 1)} for _ in range(300)])
    body = json.dumps({"features": {f"n{i}": f"v{i}" for i in range(int(100_000 * scale))}}).encode()
    yield
    for _ in range(3):
        client.call("POST", "/v1/models/heavy/predict-one", body)


def many_names(client: Client, scale: float) -> None:
    client.create("heavy", algorithm="psam", scaler="none")
    width = 10_000
    for part in range(int(100 * scale)):
        client.learn_lines("heavy", [{f"name{part * width + i}": 1.0 for i in range(width)}])


def learn_names(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    yield
    many_names(client, scale)


def weights(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    many_names(client, scale)
    yield
    for _ in range(3):
        client.call("GET", "/v1/models/heavy/weights?top=10")


def download(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    many_names(client, scale)
    yield
    for _ in range(3):
        client.call("GET", "/v1/models/heavy/snapshot")


def scrape(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    for number in range(int(990 * scale)):
        client.create(f"m{number}", algorithm="psam")
        client.learn_lines(f"m{number}", [{"a": draw.gauss(0, 1), "b": 1.0} for _ in range(20)])
    yield
    for _ in range(5):
        client.call("GET", "/metrics")


def sparse_auto(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    client.create("heavy", algorithm="auto")
    rows = [{f"w{draw.randrange(100_000)}": 1.0 for _ in range(200)} for _ in range(int(2_000 * scale))]
    yield
    client.learn_lines("heavy", rows[:64], 1)
    client.learn_lines("heavy", rows[64:], 100)


def wide_auto(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    client.create("heavy", algorithm="auto")
    yield
    for _ in range(5):
        row = {f"w{i}": round(draw.gauss(0, 1), 2) for i in range(int(60_000 * scale))}
        client.learn_lines("heavy", [row, {"w0": 1.0}], 1)


def window(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    client.create("heavy", algorithm="psam", evaluation={"window": int(900_000 * scale)})
    rows = [{"a": draw.gauss(0, 1), "b": draw.gauss(0, 1)} for _ in range(10_000)]
    lines = "\n".join(json.dumps({"features": row, "label": row["a"] > 0}) for row in rows).encode()
    for _ in range(int(90 * scale)):
        client.call("POST", "/v1/models/heavy/learn-many", lines, NDJSON)
    yield
    for size in (800_000, 1_000_000, 700_000):
        patch = json.dumps({"evaluation": {"window": int(size * scale)}}).encode()
        client.call("PATCH", "/v1/models/heavy", patch, {"Content-Type": "application/merge-patch+json"})
        client.call("GET", "/v1/models/heavy/evaluation")


def nothing(client: Client, draw: random.Random, scale: float) -> Iterator[None]:
    yield
    time.sleep(5)


CASES: dict[str, Callable[[Client, random.Random, float], Iterator[None]]] = {
    "nothing": nothing,
    "ids-opauc": ids("opauc", {}, 2_000),
    "ids-adaoam": ids("adaoam", {}, 2_000),
    "ids-cbr": ids("cbr", {"covariance": "full"}, 1_500),
    "ids-mba": ids("mba", {}, 2_000),
    "predict": predict,
    "learn-names": learn_names,
    "weights": weights,
    "download": download,
    "scrape": scrape,
    "auto-sparse": sparse_auto,
    "auto-wide": wide_auto,
    "window": window,
}


def figures(values: list[float]) -> str:
    """Return median, 99th percentile and maximum in milliseconds."""
    values = sorted(values)
    return " ".join(f"{1e3 * values[min(len(values) - 1, int(q * len(values)))]:8.1f}" for q in (0.5, 0.99, 1.0))


def counters(client: Client) -> tuple[float, dict[str, float]]:
    """Return the processor seconds of the service, and how often its loop was late by at most each bound."""
    text = client.call("GET", "/metrics").decode()
    spent = re.search(r"process_cpu_seconds_total ([\d.e+]+)", text)
    found = re.findall(r'aucstream_loop_lag_seconds_bucket\{le="([^"]+)"\} ([\d.e+]+)', text)
    return float(spent[1]) if spent else 0.0, {bound: float(count) for bound, count in found}


def lag(before: dict[str, float], after: dict[str, float]) -> str:
    """Return how often the loop was later than each bound, where the service tells."""
    if not after:
        return "-"
    counts = {bound: after[bound] - before[bound] for bound in after}
    late = {bound: counts["+Inf"] - counts[bound] for bound in ("0.01", "0.025", "0.05", "0.1", "0.25", "1.0")}
    return " ".join(f">{float(bound) * 1e3:g}:{count:g}" for bound, count in late.items())


def main() -> None:
    """Measure the cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--server", type=Path, default=ROOT)
    parser.add_argument("--scale", type=float, default=1.0, help="of the size of the work")
    told = parser.parse_args()
    print(
        f"{'case':12} {'seconds':>8} {'cpu':>8} | predict-one p50 p99 max ms | /livez p50 p99 max ms | lags of the loop above ms"
    )
    for name in told.cases.split(","):
        with serving(told.server) as port:
            client = Client(port)
            client.create("small", algorithm="psam")
            draw = random.Random(0)
            client.learn_lines("small", [{f"x{i}": draw.gauss(0, 1) for i in range(20)} for _ in range(300)])
            steps = CASES[name](client, draw, told.scale)
            next(steps)
            spent, before = counters(client)
            probe = Probe(port)
            probe.start()
            time.sleep(0.3)
            begun = time.perf_counter()
            for _ in steps:
                pass
            seconds = time.perf_counter() - begun
            probe.end()
            spent_after, after = counters(client)
            print(
                f"{name:12} {seconds:8.1f} {spent_after - spent:8.1f} | {figures(probe.scores)} | {figures(probe.lives)} | {lag(before, after)}",
                flush=True,
            )


if __name__ == "__main__":
    main()
