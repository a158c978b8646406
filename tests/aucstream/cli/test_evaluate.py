"""`aucstream evaluate`: its numbers beside the library's scores and scikit-learn's AUC."""

from __future__ import annotations

import gzip
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from aucstream.evaluate import progressive, shuffled
from aucstream.io import read
from aucstream.registry import LEARNERS
from tests.data import ROOT, data_path

from .running import RESULT_KEYS, auc, fresh, learned, process, results, run, scored, timeless

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def guide() -> Path:
    return data_path("svmguide3.svm.gz")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A CSV with words, blanks and a label of words; positives are larger on average."""
    random = np.random.default_rng(5)
    lines = ["amount;country;label"]
    for row in range(300):
        good = row % 3 == 0
        amount = "" if row % 20 == 0 else f"{random.normal(1.0 if good else 0.0):.6f}"
        lines.append(f"{amount};{'NL' if row % 2 else 'FR'};{'fraud' if good else 'fine'}")
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_json_lines_have_the_documented_keys_and_scikit_learns_auc(guide: Path) -> None:
    got = results(guide, "--model", "solam", "--model", "oam:policy=fifo,capacity=20", "--test", guide)
    assert [one["model"] for one in got] == ["solam", "oam"]
    assert got[1]["params"] | {"policy": "fifo", "capacity": 20} == got[1]["params"]
    assert got[1]["params"]["C"] == 0.0625
    for one, model in zip(got, (fresh("solam"), fresh("oam", policy="fifo", capacity=20)), strict=True):
        assert list(one) == RESULT_KEYS
        y, scores = learned(model, read(guide))
        assert one["rows"] == 1243
        assert one["positives"] == 296
        assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)
        assert one["auc_low"] < one["progressive_auc"] < one["auc_high"]
        assert one["test_auc"] == pytest.approx(auc(*scored(model, guide)), abs=1e-12)
        assert one["seconds"] > 0
        assert one["rows_per_second"] == pytest.approx(1243 / one["seconds"], rel=0.2)


def test_all_is_every_algorithm_with_its_defaults(guide: Path) -> None:
    assert [one["model"] for one in results(guide, "--model", "all")] == list(LEARNERS)


def test_what_one_class_leaves_undefined_is_null_and_a_dash() -> None:
    positives = data_path("svmguide3.t.svm.gz")
    (one,) = results(positives, "--model", "solam", "--test", positives)
    assert one["rows"] == one["positives"] == 41
    assert [one[key] for key in ("progressive_auc", "auc_low", "auc_high", "test_auc")] == [None] * 4
    told = run("evaluate", positives, "--model", "solam").out
    assert "41 rows, 41 positive" in told
    assert "nan" not in told.lower()


def test_without_test_file_its_auc_is_null_and_an_empty_file_is_no_error(tmp_path: Path) -> None:
    path = tmp_path / "empty.svm"
    path.write_text("")
    (one,) = results(path, "--model", "solam")
    assert (one["rows"], one["progressive_auc"], one["test_auc"], one["rows_per_second"]) == (0, None, None, None)
    assert run("evaluate", path, "--model", "solam").status == 0


def test_a_model_that_refuses_what_others_take_is_out_of_the_race(tmp_path: Path) -> None:
    path = tmp_path / "wide.svm"
    path.write_text("".join(f"{'+1' if row % 3 == 0 else '-1'} {1 + row % 3}:1 {4000 + row}:1\n" for row in range(300)))
    ended = run("evaluate", path, "--model", "adaoam", "--model", "solam", "--json", "--test", path)
    assert ended.status == 0
    assert "adaoam is out of the comparison: features: expected at most 4096 columns" in ended.err
    refused, raced = map(json.loads, ended.out.splitlines())
    assert (refused["model"], refused["progressive_auc"], refused["test_auc"]) == ("adaoam", None, None)
    assert raced["test_auc"] == 1.0
    alone = run("evaluate", path, "--model", "adaoam")
    assert (alone.status, alone.out) == (2, "")


def test_rows_of_one_class_and_the_warm_up_of_a_map_are_remarked(tmp_path: Path, guide: Path) -> None:
    path = tmp_path / "one.svm"
    path.write_text("+1 1:1\n" * 30)
    assert "rows of one class only" in run("evaluate", path, "--model", "solam").err
    ended = run("evaluate", guide, "--model", "solam", "--model", "psam", "--test", path)
    assert "no rows of both classes" in ended.err
    best = max(results(guide, "--model", "solam", "--model", "psam"), key=lambda one: one["progressive_auc"])
    assert next(row for row in ended.out.splitlines() if row.startswith("│")).startswith(f"│ {best['model']}")
    mapped = run("evaluate", guide, "--model", "solam", "--map", "randomfourier:components=20,warmup=200")
    assert "the first 200 rows" in mapped.err


def test_the_table_shows_the_best_model_first(guide: Path) -> None:
    ended = run("evaluate", guide, "--model", "oam", "--model", "solam")
    assert ended.status == 0
    assert "1,243 rows, 296 positive; scaling scale+bounded" in " ".join(ended.out.split())
    expected = {"solam": auc(*learned(fresh("solam"), read(guide))), "oam": auc(*learned(fresh("oam"), read(guide)))}
    best = sorted(expected, key=lambda name: -expected[name])
    assert ended.out.index(f" {best[0]} ") < ended.out.index(f" {best[1]} ")
    for value in expected.values():
        assert f"{value:.4f}" in ended.out


def test_a_shuffled_run_is_a_function_of_its_seed(guide: Path) -> None:
    ordered = results(guide, "--model", "psam")
    first, again, other = (
        [timeless(one) for one in results(guide, "--model", "psam", "--shuffle", "--seed", seed)] for seed in (7, 7, 8)
    )
    assert first == again
    assert len({json.dumps(one[0]["progressive_auc"]) for one in (first, other, ordered)}) == 3
    y, scores = learned(fresh("psam", seed=7), shuffled(read(guide), 7))
    assert first[0]["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)


def test_later_passes_count_in_the_test_auc_only(guide: Path) -> None:
    once, twice = (results(guide, "--model", "solam", "--test", guide, "--passes", n)[0] for n in (1, 2))
    assert twice["rows"] == once["rows"] == 1243
    assert twice["progressive_auc"] == once["progressive_auc"]
    model = fresh("solam")
    learned(model, read(guide))
    learned(model, read(guide))
    assert twice["test_auc"] == pytest.approx(auc(*scored(model, guide)), abs=1e-12)
    assert twice["test_auc"] != once["test_auc"]


def test_shuffled_passes_have_an_order_each(guide: Path) -> None:
    (one,) = results(guide, "--model", "solam", "--test", guide, "--passes", 2, "--shuffle", "--seed", 3)
    model = fresh("solam", seed=3)
    for seed in (3, 4):
        learned(model, shuffled(read(guide), seed))
    assert one["test_auc"] == pytest.approx(auc(*scored(model, guide)), abs=1e-12)


def test_a_window_bounds_what_the_curve_looks_back_on(guide: Path) -> None:
    result = progressive(fresh("solam"), read(guide), window=150, shuffle=1)
    rows, _, last = result.curve[-1]
    assert rows == 1243
    assert last == pytest.approx(auc(result.signs[-150:], result.scores[-150:]), abs=1e-12)
    assert result.auc == pytest.approx(auc(result.signs, result.scores), abs=1e-12)


@pytest.mark.parametrize("scale", ["standard+bounded", "scale+bounded", "standard", "standard+l2", "l2", "none"])
def test_scale_names_the_scaling(guide: Path, scale: str) -> None:
    (one,) = results(guide, "--model", "solam", "--scale", scale)
    y, scores = learned(fresh("solam", scale), read(guide))
    assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)


def test_a_plot_is_a_picture(guide: Path, tmp_path: Path) -> None:
    path = tmp_path / "auc.png"
    ended = run("evaluate", guide, "--model", "solam", "--model", "fsauc", "--window", 100, "--plot", path)
    assert ended.status == 0, ended.err
    assert path.read_bytes().startswith(PNG)


def test_standard_input_is_the_same_as_the_file(guide: Path) -> None:
    expected = [timeless(one) for one in results(guide, "--model", "solam", "--passes", 2)]
    packed = guide.read_bytes()
    for data in (packed, gzip.decompress(packed)):
        ended = process("evaluate", "-", "--model", "solam", "--passes", "2", "--json", stdin=data)
        assert ended.status == 0, ended.err
        assert [timeless(one) for one in ended.objects] == expected
        assert ended.err.startswith("aucstream: - is sorted by class (2 runs of equal labels in 1,243 rows)")
        assert len(ended.err.splitlines()) == 1


def test_a_table_is_read_with_label_and_positive_and_its_delimiter_is_shown(table: Path) -> None:
    options = ("--label", "label", "--positive", "fraud")
    ended = run("evaluate", table, "--model", "psam", *options, "--json")
    assert ended.err == f"{table}: delimiter ';'\n"
    (one,) = ended.objects
    y, scores = learned(fresh("psam"), read(table, label="label", positive="fraud"))
    assert (one["rows"], one["positives"]) == (300, 100)
    assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)
    told = results(table, "--model", "psam", *options, "--delimiter", ";")
    assert timeless(told[0]) == timeless(one)
    piped = process("evaluate", "-", "--model", "psam", *options, "--shuffle", "--json", stdin=table.read_bytes())
    assert piped.err == "standard input: delimiter ';'\n"
    assert timeless(piped.objects[0]) == timeless(results(table, "--model", "psam", *options, "--shuffle")[0])


def test_rows_of_ndjson_are_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson.gz"
    random = np.random.default_rng(1)
    rows = [
        {"features": {"a": float(random.normal(i % 2)), "b": "xy"[i % 2], "c": None}, "label": i % 4 == 1}
        for i in range(200)
    ]
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    (one,) = results(path, "--model", "oam")
    y, scores = learned(fresh("oam"), read(path))
    assert (one["rows"], one["positives"]) == (200, 50)
    assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)


def test_a_format_wins_over_the_name(guide: Path, tmp_path: Path) -> None:
    path = tmp_path / "data.unknown"
    path.write_bytes(guide.read_bytes())
    expected = timeless(results(guide, "--model", "solam")[0])
    assert timeless(results(path, "--model", "solam", "--format", "svmlight")[0]) == expected


def test_the_progress_bar_is_for_terminals_only(guide: Path) -> None:
    command = [sys.executable, "-m", "aucstream", "evaluate", str(guide), "--model", "solam", "--json"]
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    done = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=side)
    os.close(side)
    seen = b""
    while True:
        try:
            piece = os.read(main, 4096)
        except OSError:  # the other side is closed
            break
        if not piece:
            break
        seen += piece
    os.close(main)
    out, _ = done.communicate()
    assert done.returncode == 0
    assert b"rows" in seen
    assert json.loads(out)["rows"] == 1243  # standard output is the result alone
    sorted_ = run("evaluate", guide, "--model", "solam", "--json").err.splitlines()
    assert ["sorted by class" in line for line in sorted_] == [True]


COUNT_KERNELS = """
import gc, sys
from numba.core.dispatcher import Dispatcher
from aucstream.evaluate import Comparison
from aucstream.io import read
from aucstream.pipeline import Pipeline, PipelineSpec

def compiled():
    return {(f.py_func.__module__, f.py_func.__name__, str(s)) for f in gc.get_objects()
            if isinstance(f, Dispatcher) and f.py_func.__module__.startswith("aucstream.learners") for s in f.signatures}

chunks = list(read(sys.argv[1]))
models = [Pipeline.from_spec(PipelineSpec(algorithm=name)) for name in ("fsauc", "oam")]
states = [model.to_bytes() for model in models]
comparison = Comparison(models)
comparison.compile(chunks[0])
assert comparison.warm
assert [model.to_bytes() for model in models] == states, "a model has learned"
before = compiled()
comparison.learn(chunks[0])
comparison.end_pass()
comparison.test(chunks)
assert before
assert compiled() == before, compiled() - before
"""


def test_kernels_are_compiled_before_the_clock_starts_and_no_model_learns_from_it(guide: Path) -> None:
    subprocess.run([sys.executable, "-c", COUNT_KERNELS, str(guide)], cwd=ROOT, check=True)


@pytest.mark.parametrize("command", ["evaluate", "train"])
def test_rows_that_are_sorted_by_class_get_a_remark(command: str, tmp_path: Path) -> None:
    labels = [0] * 200 + [1] * 100
    options = ("--label", "y", "--model", "solam", *(("--out", tmp_path / "m") if command == "train" else ()))

    def told(order: list[int], *more: str) -> str:
        data = tmp_path / "d.csv"
        data.write_text("a,y\n" + "".join(f"{row % 7},{label}\n" for row, label in enumerate(order)))
        return run(command, data, *options, *more).err

    assert "sorted by class (2 runs of equal labels in 300 rows)" in told(labels)
    assert "sorted by class" not in told(labels, "--shuffle")
    assert "sorted by class" not in told([row % 3 == 0 for row in range(300)])
    assert "sorted by class" not in told([0] * 290 + [1] * 9)  # too few to tell
