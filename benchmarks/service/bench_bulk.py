"""Rows a second of learn-many beside decoding alone, of Arrow beside NDJSON, and of the replay of what was learned.

    python benchmarks/service/bench_bulk.py [--rows 50000] [--rounds 5]

Every figure is processor time: of the server's process for a request, of a fresh process for decoding alone
(msgspec, into the very structure of a learn-one body) of the same lines. Rows of "NDJSON" and "Arrow" have the same
names and numbers only; those of "varied" 19 of 200 names each, and a word. Rounds are interleaved; a ratio is the
median of the rounds, its spread their least and greatest.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.goals import note, write
from benchmarks.service.bench_service import ROOT, free_port, processor_seconds, spread, started

NDJSON = {"Content-Type": "application/x-ndjson"}
ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
FEATURES = 20

ALONE = """
import resource, sys
sys.path[:0] = [{root!r}, {root!r} + "/service"]
import msgspec
from aucstream_service.bodies.bodies import LearnBody
decoder = msgspec.json.Decoder(LearnBody)
data = open({path!r}, "rb").read()
decoder.decode_lines(data[: data.index(b"\\n") + 1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_utime
decoder.decode_lines(data)
print(resource.getrusage(resource.RUSAGE_SELF).ru_utime - before)
"""


def rows_of(count: int, *, varied: bool = False) -> list[dict[str, object]]:
    """Return bodies of learn-one: a twentieth is positive."""
    random_ = random.Random(5)
    bodies: list[dict[str, object]] = []
    for _ in range(count):
        label = random_.random() < 0.05
        names = random_.sample(range(200), FEATURES - 1) if varied else range(FEATURES)
        features: dict[str, object] = {f"f{j}": round(random_.gauss(0.3 * label, 1), 6) for j in names}
        if varied:
            features["word"] = random_.choice("abcdefgh")
        bodies.append({"features": features, "label": label})
    return bodies


def arrow_of(bodies: list[dict[str, object]]) -> bytes:
    """Return the same rows as an Arrow stream."""
    import pyarrow as pa

    columns = {name: [body["features"][name] for body in bodies] for name in bodies[0]["features"]}  # type: ignore
    table = pa.table({**columns, "label": [bool(body["label"]) for body in bodies]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=4096)
    return bytes(sink.getvalue())


def alone(path: Path) -> float:
    """Return the processor seconds of decoding alone, in a fresh process."""
    code = ALONE.format(root=str(ROOT), path=str(path))
    return float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--durability", default="os")
    options = parser.parse_args()
    bodies = rows_of(options.rows)
    folder = Path(tempfile.mkdtemp(prefix="bench-bulk-"))
    kinds: dict[str, tuple[bytes, dict[str, str]]] = {}
    for name, rows in (("NDJSON", bodies), ("varied", rows_of(options.rows, varied=True))):
        lines = b"".join(json.dumps(body).encode() + b"\n" for body in rows)
        (folder / name).write_bytes(lines)
        kinds[name] = lines, NDJSON
    try:
        kinds["Arrow"] = arrow_of(bodies), ARROW
    except ImportError:
        print("without pyarrow: no Arrow")
    port = free_port()
    flags = [
        "--port",
        str(port),
        "--data-dir",
        str(folder / "data"),
        "--durability",
        options.durability,
        "--snapshot-every-rows",
        "100000000",
    ]
    command = [sys.executable, "-m", "aucstream_service.ops.main", *flags]
    server = started(command, port, "/readyz")
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    bases: dict[str, list[float]] = {"NDJSON": [], "varied": []}  # decoding alone
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=300) as http:
            for name in kinds:
                http.put(f"/v1/models/{name.lower()}", json={"algorithm": "solam"}).raise_for_status()
            for name, (body, headers) in kinds.items():  # what is loaded at the first request is not of the rows
                http.post(f"/v1/models/{name.lower()}/learn-many", content=body, headers=headers).raise_for_status()
            for _ in range(options.rounds):
                for name, values in bases.items():
                    values.append(alone(folder / name) / options.rows)
                for name, (body, headers) in kinds.items():
                    before = processor_seconds(server.pid)
                    answer = http.post(f"/v1/models/{name.lower()}/learn-many", content=body, headers=headers)
                    assert answer.status_code == 200, answer.text
                    assert answer.json()["accepted"] == options.rows, answer.text
                    seconds[name].append((processor_seconds(server.pid) - before) / options.rows)
            for name, values in bases.items():
                print(f"{f'decoding {name}':16}{1.0 / statistics.median(values):12,.0f} rows/s of processor time")
            for name, values in seconds.items():
                base = bases.get(name, bases["NDJSON"])
                rate = 1.0 / statistics.median(values)
                if name != "Arrow":
                    shares = [b / v for b, v in zip(base, values, strict=True)]
                    note(f"{'NDJSON, ' if name != 'NDJSON' else ''}{name} learn-many / decoding alone", shares, 0.5)
                print(
                    f"{name:16}{rate:12,.0f} rows/s of processor time, of decoding alone {spread([b / v for b, v in zip(base, values, strict=True)])}"
                )
            if "Arrow" in seconds:
                over = [n / a for n, a in zip(seconds["NDJSON"], seconds["Arrow"], strict=True)]
                note("Arrow learn-many / NDJSON", over, 4.0)
                print(
                    "Arrow over NDJSON",
                    spread([n / a for n, a in zip(seconds["NDJSON"], seconds["Arrow"], strict=True)]),
                )
        server.send_signal(signal.SIGKILL)  # all of it is to replay
        server.wait()
        learned = options.rows * (options.rounds + 1) * len(kinds)
        began = time.perf_counter()
        server = started(command, port, "/readyz")
        ready = time.perf_counter() - began
        used = processor_seconds(server.pid)
        print(f"replay of {learned} rows: ready after {ready:.1f} s, {used:.1f} s of processor time with the start")
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
    write()


if __name__ == "__main__":
    main()
