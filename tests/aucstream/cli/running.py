"""The command line, run in this process or in one of its own, and what it should have answered."""

from __future__ import annotations

import contextlib
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from aucstream.cli import main
from aucstream.evaluate import Chunk
from aucstream.io import read
from aucstream.pipeline import Pipeline, PipelineSpec
from tests.data import ROOT

Floats = NDArray[np.float64]

RESULT_KEYS = [
    "model",
    "params",
    "rows",
    "positives",
    "progressive_auc",
    "auc_low",
    "auc_high",
    "test_auc",
    "seconds",
    "rows_per_second",
    "average_precision",
    "average_precision_low",
    "average_precision_high",
    "log_loss",
    "brier",
    "expected_calibration_error",
    "at",
    "difference",
    "run",
    "fold",
]


@dataclass
class Ended:
    """Exit status and the two outputs of a command."""

    status: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """The output, one JSON object a line."""
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: object) -> Ended:
    """Run `aucstream ARGUMENTS` in this process: the kernels are loaded once."""
    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["aucstream", *map(str, arguments)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as ended:
            main()
    finally:
        sys.argv = before
    code = ended.value.code
    return Ended(code if isinstance(code, int) else 0, out.getvalue(), _settled(err.getvalue()))


def process(*arguments: object, stdin: bytes = b"", env: dict[str, str] | None = None) -> Ended:
    """Run `python -m aucstream ARGUMENTS`."""
    done = subprocess.run(
        [sys.executable, "-m", "aucstream", *map(str, arguments)],
        cwd=ROOT,
        input=stdin,
        env={**os.environ, **(env or {})},
        capture_output=True,
        check=False,
    )
    return Ended(done.returncode, done.stdout.decode(), _settled(done.stderr.decode()))


def _settled(err: str) -> str:
    """Return standard error without the line that only a cache without kernels brings."""
    return "".join(line for line in err.splitlines(keepends=True) if not line.startswith("aucstream: compiling "))


def refused(*arguments: object) -> str:
    """Run a command that must be refused in one sentence; return it."""
    ended = run(*arguments)
    assert ended.status == 2, ended
    assert ended.out == ""
    sentences = [line for line in ended.err.splitlines() if ": delimiter " not in line]
    assert len(sentences) == 1, ended.err
    assert sentences[0].startswith("aucstream: ")
    return sentences[0]


def results(*arguments: object) -> list[dict[str, Any]]:
    """Run `aucstream evaluate ARGUMENTS --json`."""
    ended = run("evaluate", *arguments, "--json")
    assert ended.status == 0, ended.err
    return ended.objects


def timeless(result: dict[str, Any]) -> dict[str, Any]:
    """Leave out what differs between equal runs."""
    return {key: value for key, value in result.items() if key not in ("seconds", "rows_per_second")}


def fresh(name: str, scale: str = "auto", seed: int = 0, **params: Any) -> Pipeline:
    return Pipeline.from_spec(PipelineSpec(algorithm=name, params=params, scaler=scale, seed=seed))  # type: ignore[arg-type]


def learned(model: Pipeline, chunks: Iterable[Chunk]) -> tuple[Floats, Floats]:
    """Let a model learn; return the labels (+1, -1) and the scores before each step."""
    pairs = [(np.array(chunk.y), model.engine.learn_chunk(chunk)) for chunk in chunks]
    return np.concatenate([y for y, _ in pairs]), np.concatenate([scores for _, scores in pairs])


def scored(model: Pipeline, path: Path, **options: Any) -> tuple[Floats, Floats]:
    pairs = [(np.array(chunk.y), model.engine.score_chunk(chunk)) for chunk in read(path, **options)]
    return np.concatenate([y for y, _ in pairs]), np.concatenate([scores for _, scores in pairs])


def auc(y: Floats, scores: Floats) -> float:
    """Return scikit-learn's AUC."""
    return float(roc_auc_score(y > 0, scores))
