"""One pass over an svmlight file, parsing included, beside Vowpal Wabbit's own pass over the same rows.

    python benchmarks/speed/bench_files.py [--rounds 5] [--json FILE]

Each contestant runs in a process of its own, one after the other in each round; a round's ratio is that of its two
neighbours in time. Counted is processor time, of all threads (VW parses in a second one): of VW from its start to
the end of the file, of ours from opening the file, kernels loaded, to the last row learned and every score taken
into the exact AUC (`aucstream evaluate`). VW reads its text format and has no AUC.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.goals import note
from benchmarks.goals import write as write_goals

SHAPES = {"14 of 123": (50_000, 14, 123), "100 of 1,000": (20_000, 100, 1_000)}
OURS = ("SOLAM", "PSAM")
VW = "VW"


def write(folder: Path, shape: str) -> None:
    """Write the rows as NAME.svm and NAME.vw."""
    rng = np.random.default_rng(0)
    n, nnz, d = SHAPES[shape]
    columns = np.sort(rng.integers(1, d - nnz + 2, size=(n, nnz)), axis=1) + np.arange(nnz)
    values = rng.normal(size=(n, nnz)).round(4)
    labels = np.where((values[:, :3].sum(axis=1) + rng.normal(size=n)) > 0, 1, -1)
    with (folder / "rows.svm").open("w") as svm, (folder / "rows.vw").open("w") as vw:
        for label, row, at in zip(labels.tolist(), values.tolist(), columns.tolist(), strict=True):
            entries = " ".join(f"{j}:{x}" for j, x in zip(at, row, strict=True))
            svm.write(f"{label:+d} {entries}\n")
            vw.write(f"{label} | {entries}\n")


def contest(name: str, folder: Path) -> float:
    """Return seconds of processor time of one pass."""
    if name == VW:
        from vowpalwabbit import pyvw

        start = time.process_time()
        pyvw.Workspace(f"--quiet --loss_function logistic -d {folder / 'rows.vw'}")
        return time.process_time() - start
    import aucstream
    from aucstream.io import read
    from aucstream.metrics import AUC

    def one_pass() -> None:
        model, auc = getattr(aucstream, name)(), AUC()
        for chunk in read(folder / "rows.svm"):
            auc.update_many(chunk.y, model.engine.learn_chunk(chunk))
        auc.get()

    one_pass()
    start = time.process_time()
    one_pass()
    return time.process_time() - start


def main() -> None:
    """Run the contests and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--contest", nargs=2, metavar=("NAME", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contest:
        print(contest(options.contest[0], Path(options.contest[1])))
        return
    lines = []
    print("| rows | model | us a row | VW | times as fast |\n| --- | --- | --: | --: | --- |")
    for shape, (n, _, _) in SHAPES.items():
        seconds: dict[str, list[float]] = {}
        with tempfile.TemporaryDirectory(prefix="bench-files-") as folder:
            write(Path(folder), shape)
            for _ in range(options.rounds):
                for name in (OURS[0], VW, *OURS[1:]):
                    command = [sys.executable, __file__, "--contest", name, folder]
                    process = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
                    seconds.setdefault(name, []).append(float(process.stdout.split()[-1]))
        for name in OURS:
            ratios = [b / a for a, b in zip(seconds[name], seconds[VW], strict=True)]
            line = {
                "rows": shape,
                "model": name,
                "us": min(seconds[name]) / n * 1e6,
                "vw_us": min(seconds[VW]) / n * 1e6,
                "ratio": {"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
            }
            lines.append(line)
            if name == OURS[0]:
                note(f"evaluate, {shape}, {name} / VW", ratios, 3.0)
            spread = f"**{statistics.median(ratios):.2f}** ({min(ratios):.2f} to {max(ratios):.2f})"
            print(f"| {shape} | {name} | {line['us']:.2f} | {line['vw_us']:.2f} | {spread} |", flush=True)
    write_goals()
    if options.json:
        options.json.write_text(json.dumps(lines, indent=1) + "\n")


if __name__ == "__main__":
    main()
