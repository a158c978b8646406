"""`--map`: evaluate, train, score and inspect with a feature map."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from aucstream import load
from aucstream.io import read
from aucstream.pipeline import Pipeline

from .running import RESULT_KEYS, refused, results, run

MAP = "kmeansnystroem:landmarks=30,warmup=200"


@pytest.fixture(scope="module")
def rings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of rows that no line tells apart."""
    random = np.random.default_rng(0)
    angle, radius = random.uniform(0, 2 * np.pi, 900), random.integers(1, 3, 900)
    path = tmp_path_factory.mktemp("rings") / "rings.csv"
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["a", "b", "y"])
        table.writerows(zip(radius * np.cos(angle), radius * np.sin(angle), radius - 1, strict=True))
    return path


def test_evaluate_scores_zero_in_the_warm_up_and_then_bends(rings: Path) -> None:
    plain = results(rings, "--label", "y", "--model", "psam")[0]
    bent = results(rings, "--label", "y", "--model", "psam", "--map", MAP, "--test", rings)[0]
    assert list(bent) == RESULT_KEYS
    assert plain["progressive_auc"] < 0.6
    assert bent["progressive_auc"] > 0.75
    assert bent["test_auc"] > 0.99
    told = run("evaluate", rings, "--label", "y", "--model", "psam", "--map", MAP).out
    assert f"map {MAP}" in " ".join(told.split())


@pytest.mark.parametrize("warmup", [200, 5000])  # within the file; longer than it
def test_a_trained_model_scores_as_the_pipeline_does(rings: Path, tmp_path: Path, warmup: int) -> None:
    out = tmp_path / "model.safetensors"
    given = f"randomfourier:components=40,warmup={warmup},seed=3"
    ended = run("train", rings, "--label", "y", "--model", "solam", "--map", given, "--out", out)
    assert ended.status == 0, ended.err
    spec = {"kind": "randomfourier", "components": 40, "warmup": warmup, "seed": 3}
    twin = Pipeline.from_spec({"algorithm": "solam", "map": spec})
    for chunk in read(str(rings), label="y"):
        twin.engine.learn_chunk(chunk)
    twin.engine.end_warmup()
    model = load(out)
    chunk = next(iter(read(str(rings), label="y")))
    assert model.engine.score_chunk(chunk).tolist() == twin.engine.score_chunk(chunk).tolist()
    assert np.ptp(model.engine.score_chunk(chunk)) > 0
    assert run("score", out, rings, "--label", "y").status == 0
    facts = run("inspect", out, "--json").objects[0]
    assert facts["map"] == {"max_columns": 10000, "bandwidth": None, **spec}
    assert facts["encoder"]["kind"] == "vocabulary"
    assert facts["encoder"]["width"] == 2
    assert (facts["examples"], facts["weights"]) == (900, [])


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ("spam", "'kmeansnystroem'"),
        ("kmeansnystroem:landmarks", "param=value"),
        ("kmeansnystroem:components=3", "landmarks"),
        ("kmeansnystroem:landmarks=0", "landmarks"),
        ("randomfourier:bandwidth=-1", "bandwidth"),
    ],
)
def test_a_map_that_cannot_be_is_one_sentence(rings: Path, given: str, word: str) -> None:
    for command in (("evaluate",), ("train", "--out", "x")):
        told = refused(command[0], rings, "--label", "y", "--model", "solam", "--map", given, *command[1:])
        assert told.startswith("aucstream: --map")
        assert word in told
