"""`aucstream evaluate --at --repeat --folds`: figures beside scikit-learn's, on the library's scores."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, brier_score_loss, log_loss, roc_auc_score, roc_curve

from aucstream.evaluate import folds, progressive, shuffled, taken
from aucstream.io import read
from aucstream.metrics import PairedAUC
from tests.data import data_path

from .running import auc, fresh, learned, refused, results, run, scored, timeless


@pytest.fixture
def guide() -> Path:
    return data_path("svmguide3.svm.gz")


def shuffled_scores(path: Path, name: str, seed: int = 0):
    y, scores = learned(fresh(name, seed=seed), shuffled(read(path), seed))
    return y > 0, scores


def test_figures_equal_scikit_learns(guide: Path) -> None:
    asked = ["--at", "fpr=0.1", "--at", "top=100", "--at", "top=0.05", "--at", "threshold=0.25"]
    got = results(guide, "--model", "solam", "--model", "psam", "--shuffle", *asked)
    for one in got:
        y, scores = shuffled_scores(guide, one["model"])
        assert one["average_precision"] == pytest.approx(average_precision_score(y, scores), abs=1e-12)
        assert one["average_precision_low"] < one["average_precision"] < one["average_precision_high"]
        by_rate, by_rows, by_share, by_score = one["at"]
        assert [point["at"] for point in one["at"]] == asked[1::2]
        fpr, tpr, _ = roc_curve(y, scores, drop_intermediate=False)
        assert by_rate["recall"] == pytest.approx(tpr[fpr <= 0.1].max(), abs=1e-12)
        assert by_rate["fpr"] <= 0.1
        assert by_rate["partial_auc_standardized"] == pytest.approx(roc_auc_score(y, scores, max_fpr=0.1), abs=1e-12)
        first = y[np.argsort(-scores, kind="stable")]
        assert by_rows["precision"] == pytest.approx(first[:100].mean(), abs=1e-12)
        assert by_rows["recall"] == pytest.approx(first[:100].sum() / y.sum(), abs=1e-12)
        assert by_share["rows"] == 63  # 5 % of 1,243, rounded up
        assert by_share["lift"] == pytest.approx(first[:63].mean() / y.mean(), abs=1e-12)
        called = scores >= 0.25
        assert by_score["rows"] == called.sum()
        assert by_score["recall"] == pytest.approx(called[y].mean(), abs=1e-12)
        assert by_score["fpr"] == pytest.approx(called[~y].mean(), abs=1e-12)
        for point in one["at"]:
            assert (scores >= point["threshold"]).sum() == point["rows"]
            for name in ("precision", "recall"):
                assert point[f"{name}_low"] <= point[name] <= point[f"{name}_high"]


def test_losses_are_those_of_probabilities_before_each_row(guide: Path) -> None:
    (one,) = results(guide, "--model", "psam", "--shuffle")
    run_ = progressive(fresh("psam"), shuffled(read(guide), 0))
    y = run_.signs > 0
    assert one["log_loss"] == pytest.approx(log_loss(y, run_.probabilities), rel=1e-12)
    assert one["brier"] == pytest.approx(brier_score_loss(y, run_.probabilities), rel=1e-12)
    # row by row, as a service answers
    model, row_by_row = fresh("psam"), []
    (whole,) = shuffled(read(guide), 0)
    for at in range(len(whole)):
        row = whole.rows(at, at + 1)
        row_by_row.append(model.engine.probabilities(model.engine.score_chunk(row)).item())
        model.engine.learn_chunk(row)
    assert one["log_loss"] == pytest.approx(log_loss(y, row_by_row), rel=0.03)
    starts = [0, 8, 16, 24, 36]  # of the parts after which the calibration is read anew
    assert np.allclose(run_.probabilities[starts], np.array(row_by_row)[starts], rtol=1e-12, atol=0.0)


def test_differences_are_paired(guide: Path) -> None:
    first, second = results(guide, "--model", "solam", "--model", "psam", "--shuffle", "--test", guide)
    assert first["difference"] is None
    y, of_first = shuffled_scores(guide, "solam")
    _, of_second = shuffled_scores(guide, "psam")
    metric = PairedAUC(window=y.size)
    metric.update_many(y, of_second, of_first)
    part = second["difference"]["progressive"]
    assert second["difference"]["to"] == "solam"
    assert part["difference"] == pytest.approx(second["progressive_auc"] - first["progressive_auc"], abs=1e-12)
    assert (part["low"], part["high"]) == pytest.approx(metric.interval(), abs=1e-12)
    assert part["p_value"] == pytest.approx(metric.p_value, abs=1e-12)
    tested = second["difference"]["test"]
    assert tested["difference"] == pytest.approx(second["test_auc"] - first["test_auc"], abs=1e-12)


def test_tables_show_the_best_model_first(guide: Path) -> None:
    ended = run("evaluate", guide, "--model", "solam", "--model", "psam", "--shuffle", "--at", "top=100")
    got = results(guide, "--model", "solam", "--model", "psam", "--shuffle", "--at", "top=100")
    for one in got:
        for number in (one["average_precision"], one["brier"], one["at"][0]["precision"]):
            assert f"{number:.4f}" in ended.out
    best = max(got, key=lambda one: one["progressive_auc"])["model"]
    rows = [line.split("│")[1].strip() for line in ended.out.splitlines() if line.startswith("│")]
    assert rows == [best, next(one["model"] for one in got if one["model"] != best)] * 2 + ["top=100"] * 2
    assert "nan" not in ended.out.lower()


def test_repeats_are_runs_in_other_orders_and_the_table_has_their_spread(guide: Path) -> None:
    got = results(guide, "--model", "solam", "--model", "psam", "--repeat", 3, "--seed", 4)
    assert [(one["run"], one["model"]) for one in got] == [(r, m) for r in (1, 2, 3) for m in ("solam", "psam")]
    for one in got:
        y, scores = shuffled_scores(guide, one["model"], seed=3 + one["run"])
        assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)
    alone = results(guide, "--model", "solam", "--model", "psam", "--shuffle", "--seed", 5)
    assert [timeless(one) | {"run": 2} for one in alone] == [timeless(one) for one in got[2:4]]
    ended = run("evaluate", guide, "--model", "solam", "--model", "psam", "--repeat", 3, "--seed", 4)
    for name in ("solam", "psam"):
        values = np.array([one["progressive_auc"] for one in got if one["model"] == name])
        assert f"{values.mean():.4f} ± {values.std(ddof=1):.4f}" in ended.out


def test_folds_hold_each_row_out_once(guide: Path) -> None:
    got = results(guide, "--model", "psam", "--folds", 3, "--shuffle", "--seed", 2)
    assert [(one["run"], one["fold"]) for one in got] == [(1, 1), (1, 2), (1, 3)]
    chunks = shuffled(read(guide), 2)
    held = 0
    for one, (learned_rows, held_rows) in zip(got, folds(chunks, 3), strict=True):
        model = fresh("psam", seed=2)
        y, scores = learned(model, learned_rows)
        assert one["progressive_auc"] == pytest.approx(auc(y, scores), abs=1e-12)
        pairs = [(np.array(chunk.y), model.engine.score_chunk(chunk)) for chunk in held_rows]
        assert one["test_auc"] == pytest.approx(auc(*map(np.concatenate, zip(*pairs, strict=True))), abs=1e-12)
        held += sum(map(len, held_rows))
    assert held == 1243
    assert len(results(guide, "--model", "psam", "--folds", 2, "--repeat", 2)) == 4


def test_a_file_of_named_rows_is_taken_in_any_order(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("a,b,label\n" + "".join(f"{row % 7},{'xyz'[row % 3]},{row % 2}\n" for row in range(40)))
    chunks = list(read(str(path), label="label"))
    order = np.array([5, 3, 39, 0])
    (part,) = taken(chunks, order)
    assert part.lines.tolist() == [7, 5, 41, 2]
    assert [row["b"] for row in part.features] == ["z", "x", "x", "x"]
    got = results(path, "--label", "label", "--model", "psam", "--folds", 2)
    assert [one["rows"] for one in got] == [20, 20]
    assert taken([], order) == taken(chunks, order[:0]) == []


def test_passes_and_a_test_file_go_with_repeats(guide: Path) -> None:
    (once,) = results(guide, "--model", "solam", "--shuffle", "--passes", 2, "--test", guide)
    first, second = results(guide, "--model", "solam", "--repeat", 2, "--passes", 2, "--test", guide)
    assert timeless(once) == timeless(first)
    assert second["test_auc"] != first["test_auc"]


def test_one_class_and_a_model_that_refuses_have_nulls(tmp_path: Path) -> None:
    path = tmp_path / "one.svm"
    path.write_text("+1 1:1\n" * 30)
    (one,) = results(path, "--model", "solam", "--at", "fpr=0.1", "--at", "top=5")
    assert [point["recall"] for point in one["at"]] == [None, 5 / 30]
    assert one["at"][0]["threshold"] is None
    path.write_text("".join(f"{'+1' if row % 3 == 0 else '-1'} {1 + row % 3}:1 {4000 + row}:1\n" for row in range(300)))
    ended = run("evaluate", path, "--model", "solam", "--model", "adaoam", "--json")
    good, bad = map(json.loads, ended.out.splitlines())
    assert good["average_precision"] is not None
    assert (bad["average_precision"], bad["log_loss"], bad["difference"]["progressive"]["low"]) == (None, None, None)
    assert run("evaluate", path, "--model", "solam", "--model", "adaoam", "--at", "top=10").status == 0


def test_a_row_that_cannot_be_used_is_named_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.ndjson"
    lines = [json.dumps({"features": {"a": row % 5, "b": "x"}, "label": row % 2}) for row in range(200)]
    lines[150] = json.dumps({"features": {"b": "x", "b=x": 1.0}, "label": 1})
    path.write_text("\n".join(lines) + "\n")
    assert "line 151" in refused("evaluate", path, "--model", "psam")


@pytest.mark.parametrize(
    "at", ["fpr", "fpr=0", "fpr=1.5", "fpr=x", "top=0", "top=2.5", "top=-1", "recall=0.5", "threshold=nan", "top:5", ""]
)
def test_a_bad_cut_is_refused_before_anything_is_read(at: str) -> None:
    assert "--at: expected fpr=RATE in (0, 1]" in refused("evaluate", "no such file.svm", "--at", at)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--repeat", 0], "--repeat: expected a whole number >= 1"),
        (["--folds", 1], "--folds: expected a whole number >= 2"),
        (["--folds", 3, "--test", "x.svm"], "--folds: expected no --test"),
        (["--repeat", 2, "--plot", "x.png"], "--plot: expected one run"),
    ],
)
def test_options_that_do_not_fit_each_other(options: list[object], told: str, guide: Path) -> None:
    assert told in refused("evaluate", guide, *options)


def test_scored_rows_of_a_test_file_are_kept(guide: Path) -> None:
    model = fresh("solam")
    result = progressive(model, read(guide), test=read(guide))
    y, scores = scored(model, guide)
    assert np.array_equal(result.test_signs, y)
    assert np.array_equal(result.test_scores, scores)
