"""SOLAM's compiled block of dense rows beside the same step in C (`step.c`, gcc -O3 -march=native).

    python benchmarks/speed/bench_step.py [--repeat 60]

Both run in one process in turns on the same arrays, and end with the same scores, to rounding; the least processor
time of each counts. Needs gcc.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from aucstream import SOLAM
from aucstream.block import Block, Form
from benchmarks.goals import note, write

ROWS = 1000


def compiled(folder: str) -> Any:
    """Return the function that `step.c` defines."""
    library = Path(folder) / "step.so"
    source = Path(__file__).with_name("step.c")
    flags = ["-O3", "-march=native", "-ffp-contract=off", "-shared", "-fPIC"]
    subprocess.run(["gcc", *flags, str(source), "-o", str(library), "-lm"], check=True)
    learn = ctypes.CDLL(str(library)).learn
    learn.restype = None
    learn.argtypes = [ctypes.c_void_p] * 7 + [ctypes.c_ssize_t] * 2 + [ctypes.c_double] * 3
    return learn


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=60)
    options = parser.parse_args()
    print("| dense features | SOLAM, ns a row | C | times C's |\n| --: | --: | --: | --: |")
    with tempfile.TemporaryDirectory(prefix="bench-step-") as folder:
        learn = compiled(folder)
        for d in (20, 123, 1000):
            rng = np.random.default_rng(0)
            X = rng.normal(size=(ROWS, d))
            y = np.where(X[:, 0] + rng.normal(size=ROWS) > 0, 1.0, -1.0)
            block = Block(np.arange(ROWS + 1, dtype=np.int64) * d, None, X.reshape(-1), y, np.ones(ROWS), d, Form.DENSE)
            model = SOLAM()
            state = [np.zeros(d), np.zeros(d), np.zeros(10), np.zeros(14)]
            state[2][7] = 1.0
            out = np.empty(ROWS)
            addresses = [array.ctypes.data for array in (*state, X, y, out)]
            best = [float("inf"), float("inf")]
            for number in range(options.repeat):
                start = time.thread_time_ns()
                scores = model._learn(block)
                middle = time.thread_time_ns()
                learn(*addresses, ROWS, d, 30.0, 10.0, 0.25)
                end = time.thread_time_ns()
                if number == 0:
                    np.testing.assert_allclose(scores, out, rtol=1e-6, atol=1e-9)
                else:
                    best = [min(best[0], middle - start), min(best[1], end - middle)]
            note(f"step, {d} dense features / C", [best[0] / best[1]], 1.3, at_most=True)
            print(f"| {d} | {best[0] / ROWS:.0f} | {best[1] / ROWS:.0f} | {best[0] / best[1]:.2f} |", flush=True)
    write()


if __name__ == "__main__":
    main()
