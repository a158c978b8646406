"""Run every benchmark; write `benchmarks/out/NAME.md`, `NAME.json` and one report.

    python benchmarks/run.py [--quick] [names ...]

Names: learn, cost, step, files, imports, strings, auc, readers, service, bulk, life; all where none is given. The report is
`benchmarks/out/report.md`, with what is wanted of the figures drawn in `goals.svg`.
`docs/performance.md` holds the results of the last full run that was looked into.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks import goals

FOLDER = Path(__file__).parent
OUT = FOLDER / "out"
QUICK = {
    "learn": ["--rounds", "1", "--seconds", "0.05"],
    "cost": ["--seconds", "0.05"],
    "step": ["--repeat", "20"],
    "files": ["--rounds", "1"],
    "imports": ["--rounds", "1"],
    "strings": ["--rows", "5000", "--rounds", "1"],
    "auc": ["--windows", "10000", "--river-rows", "50", "--rows", "20000"],
    "readers": ["--mb", "2", "--repeat", "1"],
    "service": ["--seconds", "0.2", "--rounds", "4"],
    "bulk": ["--rows", "10000", "--rounds", "2"],
    "life": ["--starts", "2", "--rows", "10000", "--bulks", "2"],
}
ROOMS = {name: "service" if name in ("service", "bulk", "life") else "speed" for name in QUICK}
PACKAGES = ("numpy", "numba", "river", "scikit-learn", "msgspec", "uvicorn")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    model = platform.processor()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(": ")[1] for line in lines if line.startswith("model name")), model)
    return {
        "date": datetime.now(UTC).isoformat(timespec="minutes"),
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "load": list(os.getloadavg()),
        "python": platform.python_version(),
        **{name: version(name) for name in PACKAGES},
    }


def run(name: str, options: list[str]) -> dict[str, Any]:
    """Run one benchmark; return its output, seconds of wall and processor, and figures where it writes them."""
    figures = OUT / f"{name}.figures.json"
    reached = OUT / f"{name}.goals.json"
    for path in (figures, reached):
        path.unlink(missing_ok=True)
    script = f"{ROOMS[name]}/bench_{name}.py"
    command = [sys.executable, str(FOLDER / script), *options]
    if name in ("learn", "files"):
        command += ["--json", str(figures)]
    start, before = time.perf_counter(), os.times()
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, goals.FILE: str(reached)})
    after = os.times()
    record: dict[str, Any] = {
        "command": " ".join(["python", f"benchmarks/{script}", *options]),
        "exit": process.returncode,
        "wall_seconds": time.perf_counter() - start,
        "processor_seconds": after.children_user
        + after.children_system
        - before.children_user
        - before.children_system,
        "machine": machine(),
        "output": process.stdout,
    }
    record["goals"] = goals.read(reached)
    reached.unlink(missing_ok=True)
    if figures.exists():
        record["figures"] = json.loads(figures.read_text())
        figures.unlink()
    (OUT / f"{name}.json").write_text(json.dumps(record, indent=1) + "\n")
    return record


def section(name: str, record: dict[str, Any]) -> str:
    """Return one benchmark's part of the report."""
    text = record["output"].strip()
    if name in ("auc", "bulk", "life"):  # columns of plain text
        text = f"```\n{text}\n```"
    spent = f"{record['wall_seconds']:.0f} s of wall, {record['processor_seconds']:.0f} s of processor time"
    failed = "" if record["exit"] == 0 else f"\n\n**Failed with exit code {record['exit']}.**"
    return f"## {name}\n\n`{record['command']}`: {spent}.{failed}\n\n{text}\n"


def main() -> int:
    """Run them and write the report; return 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=", ".join(QUICK))
    parser.add_argument("--quick", action="store_true", help="a look in a few minutes, not figures to quote")
    options = parser.parse_args()
    unknown = set(options.names) - set(QUICK)
    if unknown:
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    OUT.mkdir(exist_ok=True)
    parts = ["# Benchmarks\n\n" + ", ".join(f"{k} {v}" for k, v in machine().items()) + "\n"]
    failed = 0
    reached: list[goals.Goal] = []
    for name in options.names or QUICK:
        record = run(name, QUICK[name] if options.quick else [])
        failed |= record["exit"] != 0
        parts.append(section(name, record))
        reached += record["goals"]
    if reached:
        parts[1:1] = [f"## Goals\n\n{goals.table(reached)}\n![Goals](goals.svg)\n"]
        goals.draw(reached, OUT / "goals.svg")
    report = "\n".join(parts)
    (OUT / "report.md").write_text(report)
    print(report)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
