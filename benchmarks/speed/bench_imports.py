"""What an import costs, and the state of each learner in bytes a feature.

    python benchmarks/speed/bench_imports.py [--rounds 5]

Each import in a fresh interpreter, with compiled kernels cached; seconds of wall and of processor, the least and
the median. The state: what a learner's saved arrays grow by from 1,000 to 2,000 features, its buffered rows aside.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys

import numpy as np

from benchmarks.goals import note, write

IMPORTS = ("import aucstream", "from aucstream import SOLAM", "from aucstream import Pipeline", "import river.metrics")
WANTED = {"import aucstream": 0.3, "from aucstream import SOLAM": 1.2}  # seconds
_CODE = """
import sys, time
a, b = time.perf_counter(), time.process_time()
{}
print(time.perf_counter() - a, time.process_time() - b, *sorted({{"numba", "scipy"}} & set(sys.modules)))
"""


def imports(rounds: int) -> None:
    """Print what the imports cost."""
    print("| import | s | processor s | median | loads |\n| --- | --: | --: | --: | --- |")
    for line in IMPORTS:
        walls, times, loaded = [], [], ""
        for _ in range(rounds):
            process = subprocess.run([sys.executable, "-c", _CODE.format(line)], check=True, stdout=-1, text=True)
            wall, own, *names = process.stdout.split()
            walls.append(float(wall))
            times.append(float(own))
            loaded = ", ".join(names)
        if line in WANTED:
            note(f"{line}, s", walls, WANTED[line], at_most=True)
        print(f"| `{line}` | {min(walls):.2f} | {min(times):.2f} | {statistics.median(times):.2f} | {loaded} |")


def state_bytes() -> None:
    """Print each learner's bytes a feature: saved, and in memory with working space."""
    from aucstream.learners._base.state import PoolIdx, PoolVal, Scratch, Slots
    from aucstream.registry import LEARNERS, learner_class

    print("\n| learner | state, bytes a feature | with working space |\n| --- | --: | --: |")
    for name in LEARNERS:
        sizes = []
        for width in (1000, 2000):
            model = learner_class(name)()
            parts = model._program.parts.values()
            arrays = model._program.made(width, 0, model._sizes())
            saved = whole = 0
            for part, array in zip(parts, arrays, strict=True):
                if isinstance(part, (Slots, PoolIdx, PoolVal)):
                    continue
                whole += array.nbytes
                saved += 0 if isinstance(part, Scratch) else array.nbytes
            sizes.append(np.array([saved, whole]))
        saved, whole = (sizes[1] - sizes[0]) / 1000
        note = " (at 1,500 features: grows with their square)" if saved > 1000 else ""
        print(f"| {name} | {saved:.0f}{note} | {whole:.0f} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    imports(parser.parse_args().rounds)
    state_bytes()
    write()


if __name__ == "__main__":
    main()
