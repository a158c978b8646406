"""`--capacity`, `--min-count`, `--eviction`: names that come and go in files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from aucstream import load

from .running import refused, results, run


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Rows whose one good name comes after three others."""
    random = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("late") / "late.ndjson"
    with path.open("w") as file:
        for number in range(600):
            y = bool(random.random() < 0.5)
            names = (
                {"abc"[number]: 1.0} if number < 3 else {"good": (1.0 if y else -1.0) + 0.1 * float(random.normal())}
            )
            if number == 300:
                names["once"] = 1.0
            file.write(json.dumps({"features": names, "label": y}) + "\n")
    return path


def test_a_full_vocabulary_is_named_and_eviction_goes_on(late: Path) -> None:
    options = ("--model", "psam", "--capacity", 3)
    assert results(late, *options)[0]["progressive_auc"] < 0.55
    told = run("evaluate", late, *options).err
    assert "psam left out 2 names beyond 3: --capacity or --eviction least-recent makes room" in told
    assert results(late, *options, "--eviction", "least-recent")[0]["progressive_auc"] > 0.95
    assert "left out" not in run("evaluate", late, *options, "--eviction", "least-recent").err


def test_a_trained_model_keeps_its_names_and_how_they_come(late: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    assert (
        run("train", late, "--out", out, "--model", "ftrl", "--min-count", 2, "--eviction", "least-recent").status == 0
    )
    model = load(out)
    assert set(model.weights) == {"good"}
    assert model.usage.waiting == 4
    assert model.spec.columns.model_dump() == {"min_count": 2, "eviction": "least-recent"}


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--capacity", 0, "--capacity: expected a whole number >= 1, got 0"),
        ("--min-count", 0, "--min-count: expected a whole number >= 1, got 0"),
        ("--eviction", "oldest", "--eviction: expected 'none' | 'least-recent', got 'oldest'"),
    ],
)
def test_what_the_options_cannot_be_is_refused(late: Path, option: str, value: object, message: str) -> None:
    assert message in refused("evaluate", late, option, value)
