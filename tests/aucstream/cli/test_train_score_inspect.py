"""`aucstream train`, `score` and `inspect`: what the library does, to the last bit."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import aucstream
from aucstream import MBA
from aucstream.io import read
from aucstream.io.svmlight import read_svmlight
from tests.data import ROOT, data_path

from .running import auc, fresh, learned, process, refused, run


@pytest.fixture(scope="module")
def guide() -> Path:
    return data_path("svmguide3.svm.gz")


@pytest.fixture(scope="module")
def saved(guide: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    ended = run("train", guide, "--model", "psam:capacity=50", "--out", path, "--seed", 4)
    assert ended.status == 0, ended.err
    assert "psam:capacity=50, 1,243 rows, progressive AUC 0." in ended.out
    return path


def test_a_trained_model_is_the_one_that_the_library_trains(guide: Path, saved: Path) -> None:
    model = fresh("psam", seed=4, capacity=50)
    learned(model, read(guide))
    loaded = aucstream.load(saved)
    assert loaded.to_bytes() == model.to_bytes()
    ended = run("score", saved, guide)
    assert ended.status == 0, ended.err
    assert all(list(one) == ["score", "probability"] for one in ended.objects)
    (chunk,) = read_svmlight(guide)
    scores = model.engine.score_chunk(chunk)
    assert np.array_equal([one["score"] for one in ended.objects], scores)
    assert np.array_equal([one["probability"] for one in ended.objects], model.engine.probabilities(scores))


def test_a_threshold_adds_what_is_called_positive(guide: Path, saved: Path) -> None:
    plain = run("score", saved, guide).objects
    threshold = sorted(one["score"] for one in plain)[-100]
    marked = run("score", saved, guide, "--threshold", repr(threshold)).objects
    assert marked == [{**one, "positive": one["score"] >= threshold} for one in plain]
    assert sum(one["positive"] for one in marked) == 100
    assert "--threshold: expected a finite score, got nan" in refused("score", saved, guide, "--threshold", "nan")


def test_scores_go_to_a_file_or_to_standard_output(guide: Path, saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "scores.ndjson"
    ended = run("score", saved, guide, "--out", path)
    assert (ended.status, ended.out) == (0, "")
    piped = process("score", saved, "-", stdin=guide.read_bytes())
    assert piped.out == path.read_text() == run("score", saved, guide).out


def test_rows_are_scored_without_labels(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.svm"
    path.write_text("1:0.5 3:0.25\n")
    with_label = tmp_path / "labelled.svm"
    with_label.write_text("+1 1:0.5 3:0.25\n")
    assert run("score", saved, path).out == run("score", saved, with_label).out != ""


def test_the_label_column_of_a_table_is_no_feature(tmp_path: Path) -> None:
    table, bare, model = tmp_path / "t.csv", tmp_path / "bare.csv", tmp_path / "m.safetensors"
    rows = [(f"{i % 7}", "uvw"[i % 3], "yes" if i % 5 == 0 else "no") for i in range(60)]
    table.write_text("a,b,y\n" + "".join(",".join(row) + "\n" for row in rows))
    bare.write_text("a,b\n" + "".join(",".join(row[:2]) + "\n" for row in rows))
    ended = run("train", table, "--label", "y", "--positive", "yes", "--model", "solam", "--out", model)
    assert ended.status == 0, ended.err
    scores = run("score", model, table, "--label", "y")
    assert scores.err == f"{table}: delimiter ','\n"
    assert len(scores.objects) == 60
    assert run("score", model, bare).out == scores.out
    weights = json.loads(run("inspect", model, "--json").out)["weights"]
    assert {one["name"] for one in weights} == {"a", "b=u", "b=v", "b=w"}


def test_a_model_without_calibration_gives_no_probability(guide: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    model = aucstream.Pipeline(aucstream.AutoScale(), aucstream.SOLAM(), calibration="none")
    learned(model, read(guide))
    model.save(path)
    assert {one["probability"] for one in run("score", path, guide).objects} == {None}


def test_inspect_shows_algorithm_rows_auc_and_the_largest_weights(guide: Path, saved: Path) -> None:
    facts = json.loads(run("inspect", saved, "--json", "--top", 3).out)
    model = fresh("psam", seed=4, capacity=50)
    y, scores = learned(model, read(guide))
    assert facts["algorithm"] == "psam"
    assert facts["params"]["capacity"] == 50
    assert facts["params"]["seed"] == 4
    assert facts["scaler"] == {"scaler": "scale+bounded"} or facts["scaler"] == "scale+bounded"
    assert (facts["examples"], facts["positives"]) == (1243, 296)
    assert facts["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)
    assert facts["auc_low"] < facts["progressive_auc"] < facts["auc_high"]
    largest = sorted(model.weights.items(), key=lambda item: -abs(item[1]))[:3]
    assert [(one["name"], one["weight"]) for one in facts["weights"]] == largest
    told = run("inspect", saved).out
    for text in ("psam", "1243", f"{facts['progressive_auc']:.4f}", f"{largest[0][1]:+.6g}"):
        assert text in told


def test_names_from_data_are_shown_as_they_are(tmp_path: Path) -> None:
    rows, path = tmp_path / "rows.ndjson", tmp_path / "m.safetensors"
    names = ["[/red]", "[bold]x", ":smile:"]
    rows.write_text(
        "".join(json.dumps({"features": dict.fromkeys(names, i), "label": i % 2}) + "\n" for i in range(20))
    )
    assert run("train", rows, "--model", "solam", "--out", path).status == 0
    told = run("inspect", path)
    assert told.status == 0, told.err
    for name in names:
        assert name in told.out


def test_a_model_of_the_library_alone_is_inspected_too(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    model = aucstream.OAM()
    model.learn_one({"a": 1.0}, True)
    model.learn_one({"a": -1.0}, False)
    model.save(path)
    facts = json.loads(run("inspect", path, "--json").out)
    assert (facts["class"], facts["algorithm"], facts["progressive_auc"]) == ("OAM", "oam", None)
    told = run("inspect", path)
    assert told.status == 0
    assert "None" not in told.out.split("progressive_auc")[1].splitlines()[0]


@pytest.mark.parametrize("command", ["score", "inspect"])
def test_a_damaged_file_is_named_in_one_sentence(command: str, guide: Path, saved: Path, tmp_path: Path) -> None:
    whole = saved.read_bytes()
    flipped = bytearray(whole)
    flipped[-9] ^= 4
    rest = (guide,) if command == "score" else ()
    for name, data, said in (
        ("flipped", bytes(flipped), "the file is damaged"),
        ("cut", whole[:-100], "undamaged"),
        ("short", whole[:100], "the file is cut"),
        ("empty", b"", "a safetensors file"),
        ("text", b"a,b,y\n1,2,0\n3,4,1\n", "a safetensors file"),
        ("other", guide.read_bytes(), "expected"),
    ):
        path = tmp_path / f"{name}.safetensors"
        path.write_bytes(data)
        sentence = refused(command, path, *rest)
        assert str(path) in sentence
        assert said in sentence
    sentence = refused(command, tmp_path / "absent", *rest)
    assert str(tmp_path / "absent") in sentence
    assert "No such file" in sentence


def test_a_reader_that_goes_away_is_no_error(guide: Path, saved: Path) -> None:
    done = subprocess.run(
        f"{sys.executable} -m aucstream score {saved} {guide} | head -1",
        shell=True,
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == b""


def test_a_failed_training_leaves_the_old_file(saved: Path, tmp_path: Path) -> None:
    path, bad = tmp_path / "m.safetensors", tmp_path / "bad.svm"
    path.write_bytes(saved.read_bytes())
    bad.write_text("+1 1:1\n-1 1:x\n")
    sentence = refused("train", bad, "--model", "solam", "--out", path)
    assert "line 2" in sentence
    assert path.read_bytes() == saved.read_bytes()
    assert sorted(tmp_path.iterdir()) == [bad, path]


def test_a_model_that_nobody_chose_is_auto_and_shows_its_members(guide: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    ended = run("train", guide, "--out", path)
    assert ended.status == 0, ended.err
    facts = json.loads(run("inspect", path, "--json").out)
    assert facts["algorithm"] == "auto"
    assert facts["weights"] == []
    assert sum(member["local_weight"] for member in facts["members"]) == pytest.approx(1.0)
    shown = run("inspect", path).out
    assert all(member["name"] in shown for member in facts["members"])


def test_inspect_says_that_a_model_has_never_solved(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    MBA().partial_fit(np.eye(3), [True] * 3).save(path)
    assert "never solved for after 3 rows" in run("inspect", path).out
    (facts,) = run("inspect", path, "--json").objects
    assert len(facts["remarks"]) == 1


@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_ids_stand_beside_the_scores_as_the_file_writes_them(tmp_path: Path, kind: str) -> None:
    ids = ["007", "7", "a1", "00e1"]
    rows = tmp_path / f"rows.{kind}"
    if kind == "csv":
        rows.write_text("account,a\n" + "".join(f"{each},{i}\n" for i, each in enumerate(ids)))
    elif kind == "ndjson":
        lines = [json.dumps({"features": {"account": each, "a": i}}) for i, each in enumerate(ids)]
        rows.write_text("\n".join(lines))
    else:
        pq.write_table(pa.table({"account": ids, "a": [0.0, 1.0, 2.0, 3.0]}), rows)
    train = tmp_path / "train.csv"
    train.write_text("account,a,y\n" + "".join(f"x{i},{i % 5},{i % 2}\n" for i in range(60)))
    model = tmp_path / "model.safetensors"
    plain = tmp_path / "plain.safetensors"
    for out, more in ((model, ["--ignore", "account"]), (plain, [])):
        assert run("train", train, "--label", "y", "-m", "psam", "--out", out, *more).status == 0
    scored = run("score", model, rows, "--id", "account", "--threshold", "0").objects
    assert [line["id"] for line in scored] == ids
    assert list(scored[0]) == ["id", "score", "probability", "positive"]
    without = run("score", model, rows, "--ignore", "account").objects
    assert [line["score"] for line in scored] == [line["score"] for line in without]
    assert "train it with --ignore" in refused("score", plain, rows, "--id", "account")
    if kind != "ndjson":
        assert "'account', 'a'" in refused("score", model, rows, "--id", "acount")
    assert "another column than the label" in refused("score", model, rows, "--id", "a", "--label", "a")
