"""Readers: MB/s of decompressed text, next to the parsers that others would use.

    python benchmarks/speed/bench_readers.py [--mb 20] [--repeat 3]

Files are generated, so that nothing has to be fetched: sparse 0/1 rows (as a9a), bag-of-words
rows, dense decimals with up to 17 digits, tables of numbers and of words. The best of `--repeat`
runs counts. "ratio" is our speed over the peer's; a peer that does less says so.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import importlib.util
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
from sklearn.datasets import load_svmlight_file

from aucstream.io import read
from benchmarks.goals import note
from benchmarks.goals import write as write_goals

CLOSEST = ("pandas read_csv to dicts", "msgspec alone (untyped)")  # the fastest that is kept and fits
Run = Callable[[], object]


def onehot_svm(rng: np.random.Generator) -> str:
    columns = np.sort(rng.choice(123, 14, replace=False)) + 1
    return f"{rng.choice(['+1', '-1'])} " + " ".join(f"{j}:1" for j in columns)


def words_svm(rng: np.random.Generator) -> str:
    columns = np.unique(rng.integers(1, 54_877, 200))
    return f"{rng.choice(['1', '-1'])} " + " ".join(f"{j}:1" for j in columns)


def decimals_svm(rng: np.random.Generator) -> str:
    return "1 " + " ".join(f"{j}:{v!r}" for j, v in enumerate(rng.normal(size=8).tolist(), 1))


def short_decimals_svm(rng: np.random.Generator) -> str:
    return "-1 " + " ".join(f"{j}:{v:.6f}" for j, v in enumerate(rng.random(14).tolist(), 1))


def numbers_csv(rng: np.random.Generator) -> str:
    return ",".join([f"{v:.6f}" for v in rng.random(8).tolist()] + [str(rng.integers(0, 2))])


def words_csv(rng: np.random.Generator) -> str:
    words = rng.choice(["management", "technician", "retired", "blue-collar"], 6)
    return ",".join([*words, *map(str, rng.integers(0, 5000, 6)), rng.choice(["yes", "no"])])


def numbers_json(rng: np.random.Generator) -> str:
    return json.dumps(
        {
            "features": {f"x{j}": round(v, 6) for j, v in enumerate(rng.random(8).tolist())},
            "label": int(rng.integers(0, 2)),
        }
    )


def write(path: Path, line: Callable[[np.random.Generator], str], megabytes: float, header: str = "") -> int:
    rng = np.random.default_rng(0)
    some = "".join(line(rng) + "\n" for _ in range(2_000))
    path.write_text(header + some * max(1, int(megabytes * 1e6 / len(some))))
    return path.stat().st_size


def drain(chunks: Iterator[object]) -> None:
    for _ in chunks:
        pass


def seconds(run: Run, repeat: int) -> float:
    best = float("inf")
    for _ in range(repeat):
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return best


def csv_alone(path: Path) -> None:
    with path.open(newline="") as text:
        for _ in csv.reader(text):
            pass


def csv_dicts_of_floats(path: Path) -> None:
    with path.open(newline="") as text:
        for row in csv.DictReader(text):
            y = row.pop("y")
            _ = {name: float(cell) for name, cell in row.items()}, y


def msgspec_alone(path: Path) -> None:
    decode = msgspec.json.Decoder().decode
    with path.open("rb") as lines:
        for line in lines:
            decode(line)


def json_alone(path: Path) -> None:
    with path.open("rb") as lines:
        for line in lines:
            json.loads(line)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=20.0)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="bench-readers-"))
    print(f"{os.cpu_count()} CPUs; best of {options.repeat}; about {options.mb:g} MB a file\n")
    print("| file | MB/s | peer | MB/s | ratio |\n| --- | --- | --- | --- | --- |")

    def show(name: str, size: int, ours: Run, peers: dict[str, Run]) -> None:
        mine = size / seconds(ours, options.repeat) / 1e6
        for peer, run in peers.items():
            theirs = size / seconds(run, options.repeat) / 1e6
            if peer in CLOSEST:
                note(f"{name} / {peer}", [mine / theirs], 1.0)
            print(f"| {name} | {mine:.1f} | {peer} | {theirs:.1f} | {mine / theirs:.2f} |", flush=True)

    try:
        svm = {
            "one-hot": onehot_svm,
            "words": words_svm,
            "17 digits": decimals_svm,
            "6 digits": short_decimals_svm,
        }
        for name, line in svm.items():
            path = folder / "a.svm"
            size = write(path, line, options.mb)
            peers: dict[str, Run] = {"sklearn load_svmlight_file": lambda p=path: load_svmlight_file(str(p))}
            show(f"svmlight, {name}", size, lambda p=path: drain(read(p)), peers)
        packed = folder / "a.svm.gz"
        packed.write_bytes(gzip.compress(path.read_bytes(), 6))
        peers = {
            "sklearn load_svmlight_file": lambda: load_svmlight_file(str(packed)),
            "gzip alone": lambda: gzip.decompress(packed.read_bytes()),
        }
        show("svmlight, 6 digits, gzip", size, lambda: drain(read(packed)), peers)

        path = folder / "a.csv"
        size = write(path, numbers_csv, options.mb, ",".join([f"x{j}" for j in range(8)] + ["y"]) + "\n")
        peers = {
            "csv.reader alone (no numbers)": lambda: csv_alone(path),
            "csv.DictReader and float": lambda: csv_dicts_of_floats(path),
        }
        show("CSV, numbers", size, lambda: drain(read(path, label="y")), peers)
        if importlib.util.find_spec("pandas"):
            import pandas as pd

            peers = {"pandas read_csv to dicts": lambda: pd.read_csv(path).to_dict("records")}
            show("CSV, numbers", size, lambda: drain(read(path, label="y")), peers)
        words = folder / "w.csv"
        size = write(words, words_csv, options.mb, ",".join([f"x{j}" for j in range(12)] + ["y"]) + "\n")
        peers = {"csv.reader alone (no numbers)": lambda: csv_alone(words)}
        show("CSV, words", size, lambda: drain(read(words, label="y", positive="yes")), peers)

        lines = folder / "a.ndjson"
        size = write(lines, numbers_json, options.mb)
        peers = {
            "msgspec alone (untyped)": lambda: msgspec_alone(lines),
            "json alone": lambda: json_alone(lines),
        }
        show("NDJSON", size, lambda: drain(read(lines)), peers)

        if importlib.util.find_spec("pyarrow"):
            import pyarrow as pa
            import pyarrow.csv
            import pyarrow.parquet

            table = pa.csv.read_csv(path)
            parquet = folder / "a.parquet"
            pa.parquet.write_table(table, parquet)
            peers = {"pyarrow to dicts": lambda: pa.parquet.read_table(parquet).to_pylist()}
            ours = lambda: drain(read(parquet, label="y"))  # noqa: E731
            show("Parquet (MB of the CSV)", path.stat().st_size, ours, peers)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
    write_goals()


if __name__ == "__main__":
    main()
