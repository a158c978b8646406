"""Files of every released format load and give the scores recorded with them."""

from __future__ import annotations

import json
import shutil

import pytest

import aucstream
from aucstream.registry import LEARNERS

from . import make
from .make import FOLDER, PROBES, learn, models

pytestmark = pytest.mark.plain_python

RECORDED = json.loads((FOLDER / "scores.json").read_text())


@pytest.mark.parametrize("name", RECORDED)
def test_a_golden_file_loads_and_gives_the_recorded_scores(name):
    model = aucstream.load(FOLDER / f"{name}.safetensors")
    assert [model.score_one(x) for x in PROBES] == pytest.approx(RECORDED[name]["scores"], rel=1e-12, abs=1e-15)
    probabilities = [model.predict_proba_one(x)[True] for x in PROBES]
    assert probabilities == pytest.approx(RECORDED[name]["probabilities"], rel=1e-12)
    assert model.examples == RECORDED[name]["examples"] == 120
    model.learn_one(PROBES[0], True)
    assert model.examples == 121


@pytest.mark.parametrize("name", RECORDED)
def test_a_model_that_learns_the_same_rows_today_gives_the_recorded_scores(name):
    model = models()[name]
    learn(model)
    assert [model.score_one(x) for x in PROBES] == pytest.approx(RECORDED[name]["scores"], rel=1e-9, abs=1e-12)


def test_every_learner_has_a_golden_file():
    assert set(RECORDED) >= {*LEARNERS, "pipeline"}


@pytest.mark.parametrize("lost", ["file", "scores"])
def test_a_model_that_lacks_its_file_or_its_scores_gets_both_and_no_other_changes(lost, tmp_path, monkeypatch):
    folder = shutil.copytree(FOLDER, tmp_path / "v1")
    monkeypatch.setattr(make, "FOLDER", folder)
    path, others = folder / "solam.safetensors", sorted(folder.glob("[!s]*.safetensors"))
    before = [other.read_bytes() for other in others]
    if lost == "file":
        path.unlink()
        stale = {**RECORDED, "solam": {"scores": [], "probabilities": [], "examples": 0}}
        (folder / "scores.json").write_text(json.dumps(stale))
    else:
        path.write_bytes(b"stale")
        (folder / "scores.json").write_text(json.dumps({k: v for k, v in RECORDED.items() if k != "solam"}))
        monkeypatch.setattr(make, "_params", lambda name: aucstream.load(FOLDER / f"{name}.safetensors")._params())
    make.main()
    written = json.loads((folder / "scores.json").read_text())
    assert written["solam"]["scores"] == pytest.approx(RECORDED["solam"]["scores"], rel=1e-9, abs=1e-12)
    assert {k: v for k, v in written.items() if k != "solam"} == {k: v for k, v in RECORDED.items() if k != "solam"}
    assert [aucstream.load(path).score_one(x) for x in PROBES] == written["solam"]["scores"]
    assert [other.read_bytes() for other in others] == before
