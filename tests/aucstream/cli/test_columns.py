"""Files as a bank, a shop and a sensor write them: ranked right, or told what to do; `--ignore` and the like; `inspect DATA`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from aucstream import load

from .running import refused, results, run


def table(path: Path, header: str, lines: list[str]) -> Path:
    path.write_text(header + "\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export with an index, hexadecimal ids, local numbers, shares, dates and missing cells; the amount tells."""
    random = np.random.default_rng(0)
    lines = []
    for i in range(2_500):
        y = random.random() < 0.4
        amount = f"{random.normal(1500 + 700 * y, 500):,.2f}".translate(str.maketrans(",.", ".,"))
        share = "NA" if i % 50 == 7 else f"{random.integers(0, 90)}%"
        day = f"{1 + i % 28:02}.03.2024 {i % 24:02}:{i % 60:02}"
        lines.append(f"{i};{random.integers(0, 2**32):08x};{amount};{share};{day};{'ja' if y else 'nein'}")
    return table(tmp_path_factory.mktemp("bank") / "bank.csv", ";konto;betrag;anteil;wann;kunde", lines)


OPTIONS = ("--label", "kunde", "--positive", "ja", "--model", "psam")


def said(err: str) -> list[str]:
    return [line.partition(", column ")[2] for line in err.splitlines() if ", column " in line]


def test_an_export_with_local_numbers_ranks_right_and_says_what_was_read(bank: Path) -> None:
    auc = results(bank, *OPTIONS)[0]["progressive_auc"]
    assert auc > 0.8  # the amount alone: 0.84
    ended = run("evaluate", bank, *OPTIONS)
    assert said(ended.err) == [
        "1: has no name and is left out, as the index of a frame",
        *(line for line in said(ended.err) if line.startswith("konto: has words, and numbers in ")),
        *(line for line in said(ended.err) if line.startswith("betrag: read as numbers: ")),
        *(line for line in said(ended.err) if line.startswith("anteil: read as numbers: ")),
        "anteil: 'NA' (50 cells) read as missing",
        "wann: read as times in seconds since 1970, such as '01.03.2024 00:00'",
    ]
    assert len(said(ended.err)) == 6
    assert results(bank, *OPTIONS, "--ignore", "konto")[0]["progressive_auc"] > auc - 0.005
    assert results(bank, *OPTIONS, "--ignore", "betrag", "--ignore", "k*")[0]["progressive_auc"] < 0.56
    assert results(bank, *OPTIONS, "--category", "betrag")[0]["progressive_auc"] < 0.6  # a word for each amount


def test_inspect_shows_what_columns_are(bank: Path) -> None:
    ended = run("inspect", bank, "--label", "kunde", "--json")
    assert ended.status == 0
    (facts,) = ended.objects
    assert (facts["format"], facts["rows"], facts["label"]) == ("csv", 2500, "kunde")
    columns = {column["name"]: column for column in facts["columns"]}
    assert {name: column["kind"] for name, column in columns.items()} == {
        "": "ignore",
        "konto": "id",
        "betrag": "number",
        "anteil": "number",
        "wann": "time",
    }
    assert 0 <= columns["anteil"]["low"] < 5
    assert columns["anteil"]["missing"] == pytest.approx(0.02)
    assert columns["anteil"]["distinct"] == 90
    assert columns["konto"]["distinct"] == 2500
    assert len(columns["konto"]["top"]) == 3
    assert any("--ignore" in sentence for sentence in columns["konto"]["remarks"])
    shown = run("inspect", bank, "--label", "kunde").out
    for word in ("konto", "betrag", "number", "2024-03-01T00:00:00Z to 2024-03-28T", "2.0%", "--ignore"):
        assert word in shown
    (said_to_be,) = run(
        "inspect", bank, "--json", "--category", "an*", "--ignore", "kunde", "--time", "wann:hour"
    ).objects
    kinds = {column["name"]: column["kind"] for column in said_to_be["columns"]}
    assert (kinds["anteil"], kinds["kunde"], kinds["wann.hour"]) == ("category", "ignore", "category")


def test_inspect_reads_any_format(tmp_path: Path) -> None:
    svm = tmp_path / "d.svm"
    svm.write_text("+1 1:5 3:1\n-1 3:2\n")
    (facts,) = run("inspect", svm, "--json").objects
    columns = {column["name"]: column for column in facts["columns"]}
    assert columns[0]["missing"] == 0.5
    assert (columns[2]["low"], columns[2]["high"], columns[2]["kind"]) == (1.0, 2.0, "number")
    lines = tmp_path / "d.ndjson"
    lines.write_text('{"features":{"a":"1,5","l":["u","v"],"w":"x"},"label":1}\n{"features":{"a":"2,5"},"label":0}\n')
    (facts,) = run("inspect", lines, "--json").objects
    columns = {column["name"]: column for column in facts["columns"]}
    assert {name: column["kind"] for name, column in columns.items()} == {"a": "number", "l": "list", "w": "category"}
    assert columns["a"]["high"] == 2.5
    assert refused("inspect", tmp_path / "none.csv")
    copy = tmp_path / "copy.txt"
    copy.write_text("nothing\n")
    assert refused("inspect", copy, "--format", "csv", "--label", "z").startswith("aucstream: --label: ")


@pytest.mark.parametrize("kind", ["fraction", "dollar", "percent"])
def test_local_numbers_rank_as_the_plain_ones(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(1)
    plain, local = [], []
    for _ in range(1_500):
        y = int(random.random() < 0.5)
        value = round(float(random.normal(20 + 8 * y, 5)), 2)
        plain.append(f"{value};{y}")
        local.append(
            f"{f'{value}'.replace('.', ',') if kind == 'fraction' else f'${value}' if kind == 'dollar' else f'{value}%'};{y}"
        )
    figures = [
        results(table(tmp_path / f"{name}.csv", "a;y", lines), "--label", "y", "--model", "psam")[0]["progressive_auc"]
        for name, lines in (("plain", plain), ("local", local))
    ]
    assert figures[0] == figures[1]
    assert figures[0] > 0.8


def test_decisions_of_training_hold_for_the_file_that_is_scored(bank: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    ended = run("train", bank, *OPTIONS, "--ignore", "konto", "--time", "wann:hour", "--out", out)
    assert ended.status == 0, ended.err
    lines = ["0;1;1.500;12%;2024-03-05;nein", "1;2;2.500;13%;2024-03-06;ja"]  # as plain numbers: 1.5 and 2.5
    other = table(tmp_path / "other.csv", ";konto;betrag;anteil;wann;kunde", lines)
    scores = [row["score"] for row in run("score", out, other).objects]
    model = load(out)
    assert scores == [row["score"] for row in run("score", out, other, "--label", "kunde").objects]
    rows = [
        {"betrag": 1500.0, "anteil": 12.0, "wann": "2024-03-05"},
        {"betrag": 2500.0, "anteil": 13.0, "wann": "06.03.2024", "konto": 5},
    ]
    assert scores == [model.score_one(x) for x in rows]  # type: ignore[union-attr]
    assert model.spec.columns.ignore == ["konto"]  # type: ignore[union-attr]
    (facts,) = run("inspect", out, "--json").objects
    assert facts["columns"]["betrag"] == {"kind": "number", "decimal": ",", "thousands": "."}
    again = [row["score"] for row in run("score", out, other, "--decimal", ".", "--number", "betrag").objects]
    assert again != scores


def test_the_decisions_of_data_hold_for_the_test_file(tmp_path: Path) -> None:
    random = np.random.default_rng(2)

    def lines(n: int, digits: bool) -> list[str]:
        rows = []
        for _ in range(n):
            y = int(random.random() < 0.5)
            code = int(random.integers(10, 15)) + 5 * y  # 10 to 19: tens of words; as numbers they rank, too
            shuffled = (code * 7) % 10 + 10
            rows.append(f"{shuffled if digits or random.random() > 0.01 else f'x{shuffled}'},{y}")
        return rows

    words = [f"k{line}" for line in lines(1_500, digits=True)]
    data = table(tmp_path / "d.csv", "a,y", words)
    test = table(tmp_path / "t.csv", "a,y", words[:500])
    assert results(data, "--label", "y", "--model", "psam", "--test", test)[0]["test_auc"] == 1.0
    data = table(tmp_path / "d.csv", "a,y", [*(line[1:] for line in words)])
    options = ("--label", "y", "--model", "psam", "--category", "a")
    assert results(data, *options, "--test", data)[0]["test_auc"] == 1.0


def test_a_date_column_and_an_index_do_no_harm(tmp_path: Path) -> None:
    random = np.random.default_rng(3)
    lines = []
    for i in range(2_000):
        y = int(random.random() < 0.5)
        lines.append(f"{i},2024-{1 + i // 200:02}-{1 + i % 28:02},{random.normal(y)},{y}")
    data = table(tmp_path / "d.csv", "Unnamed: 0,day,x,y", lines)
    ended = run("evaluate", data, "--label", "y", "--model", "psam")
    assert "Unnamed: 0: equals the number of the row: --ignore leaves it out" in said(ended.err)
    options = ("--label", "y", "--model", "psam", "--ignore", "Unnamed*", "--ignore", "day")
    alone = table(tmp_path / "x.csv", "x,y", [line.split(",", 2)[2] for line in lines])
    assert results(data, *options)[0]["progressive_auc"] == results(alone, *options[:4])[0]["progressive_auc"]


def test_a_label_under_another_name_is_told(tmp_path: Path) -> None:
    random = np.random.default_rng(4)
    lines = []
    for i in range(3_000):
        y = int(random.random() < 0.2)
        outcome = "chargeback" if y else "settled" if i % 2 else "open"
        lines.append(f"{random.normal(y)},{y + 0.001 * random.normal()},{outcome},{'true' if y else 'false'},{y}")
    data = table(tmp_path / "d.csv", "x,fee,outcome,flag,y", lines)
    told = said(run("evaluate", data, "--label", "y", "--model", "psam").err)
    for name in ("fee", "outcome", "flag"):
        sentence = f"{name}: ranks the label by itself with AUC 1.0000: is it known before the label is? --ignore leaves it out"
        assert sentence in told
    assert not any(line.startswith("x:") for line in told)
    told = said(run("evaluate", data, "--label", "y", "--model", "psam", "--ignore", "f*", "--ignore", "outcome").err)
    assert told == []


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_a_positive_label_that_is_nearly_one_is_refused_with_those_seen(tmp_path: Path, format: str) -> None:
    if format == "csv":
        data = table(tmp_path / "d.csv", "a,y", ["1,no", "2,yes"])
    else:
        pa = pytest.importorskip("pyarrow")
        import pyarrow.parquet

        data = tmp_path / "d.parquet"
        pyarrow.parquet.write_table(pa.table({"a": [1, 2], "y": ["no", "yes"]}), data)
    sentence = refused("evaluate", data, "--label", "y", "--positive", "Yes", "--model", "psam")
    assert sentence.startswith("aucstream: --positive: ")
    assert "did you mean 'yes'?): 'no', 'yes', got 'Yes'" in sentence


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--ignore", "a", "--number", "a"], "--number: expected no name that is in --ignore, too, got 'a'"),
        (["--ignore", "a", "--ignore", "a"], "--ignore: expected each name once, got 'a'"),
        (["--category", "["], "--category: expected a pattern whose [ has a ]; [[] stands for [, got '['"),
        (["--decimal", ";"], "--decimal: expected '.' | ',', got ';'"),
        (["--thousands", "."], "--thousands: expected another mark than decimal, '.', got '.'"),
        (["--number", "b"], "d.csv, line 2, column b: expected a number, or an empty cell if missing, got 'u'"),
        (
            ["--time", "b:hour"],
            "d.csv, line 2, column b: expected a date or a time, or an empty cell if missing, got 'u'",
        ),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "inspect"])
def test_options_that_cannot_be_are_refused(tmp_path: Path, options: list[str], sentence: str, command: str) -> None:
    data = table(tmp_path / "d.csv", "a,b,y", ["1,u,0", "2,v,1"])
    assert sentence in refused(command, data, "--label", "y", *options)


def test_a_number_of_another_writing_names_the_options(tmp_path: Path) -> None:
    data = table(tmp_path / "d.csv", "a;y", [*(f"{i}.5;{i % 2}" for i in range(1_100)), "1,25;0"])
    sentence = refused("evaluate", data, "--label", "y", "--model", "psam")
    assert "line 1102, column a: expected a number with the decimal mark '.', as in the first rows" in sentence
    assert "--decimal and --thousands say how numbers are written, --category makes words of them" in sentence


def test_a_model_file_without_decisions_reads_files_by_their_own_rows(tmp_path: Path) -> None:
    data = table(tmp_path / "d.csv", "a,y", [f"{i % 5},{i % 2}" for i in range(100)])
    out = tmp_path / "m.safetensors"
    assert run("train", data, "--label", "y", "--model", "psam", "--out", out).status == 0
    model: Any = load(out)
    model.save(tmp_path / "n.safetensors")
    scores = run("score", tmp_path / "n.safetensors", data, "--label", "y").objects
    assert scores == run("score", out, data).objects
    assert len(scores) == 100
    assert json.dumps(scores[0])
