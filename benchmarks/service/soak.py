"""A long run of the service: rows learned and predicted without end, and what its memory and files do meanwhile.

python benchmarks/service/soak.py --rows 10000000 --predictions 1000000 --minutes 15
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

PART = 50_000  # rows of one learn-many
ASKED = 1_000  # rows of one predict-many


def line(random_: random.Random, number: int) -> bytes:
    label = random_.random() < 0.05
    features = {"a": random_.gauss(1.5 * label, 1), "b": random_.gauss(0, 1), "w": f"w{random_.randrange(1000)}"}
    return json.dumps({"features": features, "label": label, "id": f"r{number}"}).encode() + b"\n"


def resident(pid: int) -> float:
    """Return the resident memory of a process in MiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--predictions", type=int, default=1_000_000)
    parser.add_argument("--minutes", type=float, default=15)
    parser.add_argument("--port", type=int, default=8123)
    options = parser.parse_args()
    random_ = random.Random(1)
    bodies = [line(random_, 0).rpartition(b', "id"')[0] for _ in range(PART)]
    questions = b"".join(
        b'{"features": %s}\n' % json.dumps(json.loads(body + b"}")["features"]).encode() for body in bodies[:ASKED]
    )
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        flags = ["--port", str(options.port), "--data-dir", str(data), "--max-ids", "200000", "--no-access-log"]
        process = subprocess.Popen(
            [sys.executable, "-m", "aucstream_service.ops.main", *flags], stderr=subprocess.DEVNULL
        )
        http = httpx.Client(base_url=f"http://127.0.0.1:{options.port}", timeout=300)
        ndjson = {"Content-Type": "application/x-ndjson"}
        while process.poll() is None:
            try:
                if http.get("/readyz").status_code == 200:
                    break
            except httpx.TransportError:
                pass
            time.sleep(0.2)
        http.put("/v1/models/m", json={"algorithm": "solam"}).raise_for_status()
        began = time.monotonic()
        learned = predicted = 0
        print("seconds      rows  predictions  RSS MiB  files MiB", flush=True)
        while learned < options.rows and time.monotonic() - began < 60 * options.minutes:

            def content(start: int = learned) -> Iterator[bytes]:
                for at in range(0, PART, 500):
                    numbered = enumerate(bodies[at : at + 500], start + at)
                    yield b"".join(body + b', "id": "r%d"}\n' % number for number, body in numbered)

            answer = http.post("/v1/models/m/learn-many", content=content(), headers=ndjson).raise_for_status().json()
            learned += answer["accepted"]
            for _ in range(min(PART // 10, options.predictions - predicted) // ASKED):
                http.post("/v1/models/m/predict-many", content=questions, headers=ndjson).raise_for_status()
                predicted += ASKED
            seconds = time.monotonic() - began
            print(
                f"{seconds:7.0f} {learned:9} {predicted:12} {resident(process.pid):8.0f} {size(data):10.0f}", flush=True
            )
        assert http.get("/v1/models/m").json()["seq"] == learned
        process.terminate()
        print(f"exit status {process.wait(60)}")


if __name__ == "__main__":
    main()
