"""Refusals: one sentence on standard error, naming the value and what is allowed; exit status 2."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from aucstream.cli import main, passes
from aucstream.evaluate import Comparison
from aucstream.registry import LEARNERS

from .running import process, refused, run


@pytest.fixture
def data(tmp_path: Path) -> Path:
    path = tmp_path / "data.svm"
    path.write_text("+1 1:1\n-1 2:1\n")
    return path


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--model", "salam"], ["'salam'", "did you mean 'solam'", *LEARNERS]),
        (["--model", "solam:Q=1"], ["'Q'", "norm, R, zeta, cap, half_life, kappa"]),
        (["--model", "solam:R=-1"], ["solam:R", "> 0", "-1.0"]),
        (["--model", "solam:R=many"], ["solam:R", "'many'"]),
        (["--model", "solam:R"], ["'R'", "param=value"]),
        (["--model", "solam:norm=l3"], ["'l1'", "'l2'", "'l3'"]),
        (["--model", "oam:capacity=1.5"], ["capacity", "an integer", "1.5"]),
        (["--model", "oam:average=perhaps"], ["average", "true or false", "'perhaps'"]),
        (["--model", "psam:capacity=1000000000000"], ["PSAM.capacity", "memory", "1000000000000"]),
        (["--model", "all:R=1"], ["'all'"]),
        (["--model", "solam", "--scale", "big"], ["--scale", "standard+bounded", "'big'"]),
        (["--model", "solam", "--seed", "-1", "--shuffle"], ["--seed", ">= 0", "-1"]),
        (["--model", "solam", "--passes", "0"], ["--passes", ">= 1", "0"]),
        (["--model", "solam", "--window", "0"], ["--window", ">= 1", "0"]),
        (["--model", "solam", "--plot", "auc.txt"], ["--plot", ".png", "auc.txt"]),
        (["--model", "solam", "--plot", "/no/such/folder/auc.png"], ["--plot", "folder"]),
        (["--model", "solam", "--format", "xml"], ["format", "svmlight", "'xml'"]),
        (["--model", "solam", "--label", "y"], ["label", "'y'"]),
        (["--model", "solam", "--test", "absent.svm"], ["'absent.svm'", "No such file"]),
    ],
)
def test_a_bad_option_is_named_with_what_is_allowed(data: Path, options: list[str], said: list[str]) -> None:
    sentence = refused("evaluate", data, *options)
    for text in said:
        assert text in sentence


def test_a_bad_file_is_named(tmp_path: Path) -> None:
    assert "'absent.svm'" in refused("evaluate", "absent.svm", "--model", "solam")
    assert str(tmp_path) in refused("evaluate", tmp_path, "--model", "solam")
    unknown = tmp_path / "data.xyz"
    unknown.write_text("?")
    sentence = refused("evaluate", unknown, "--model", "solam")
    assert str(unknown) in sentence
    assert ".svmlight" in sentence
    cut = tmp_path / "cut.svm.gz"
    cut.write_bytes(b"\x1f\x8b\x08\x00")
    assert "gzip" in refused("evaluate", cut, "--model", "solam")
    folder = tmp_path / "folder.svm"
    folder.mkdir()
    assert str(folder) in refused("evaluate", folder, "--model", "solam")


@pytest.mark.parametrize(
    ("name", "text", "options", "said"),
    [
        ("d.svm", "+1 1:1\n-1 3:abc\n", [], ["line 2", "column 3", "abc"]),
        ("d.svm", "+1 1:1\n2 1:1\n", [], ["line 2", "2"]),
        ("d.csv", "a,y\n1,0\ninf,1\n", ["--label", "y"], ["line 3", "column a", "inf"]),
        ("d.csv", "a,y\n1,0\n1,7\n", ["--label", "y"], ["line 3", "column y", "7"]),
        ("d.csv", "a,y\n1,0\n", ["--label", "z"], ["'z'", "'a'", "'y'"]),
        ("d.csv", "a,y\n1,no\n2,yes\n", ["--label", "y"], ["positive", "'no'", "'yes'"]),
        ("d.csv", "a,y\n1,0\n", ["--label", "y", "--delimiter", "ab"], ["one character", "'ab'"]),
        ("d.ndjson", '{"features":{"a":1},"label":1}\n{"features":{"a":{}},"label":0}\n', [], ["line 2", "column a"]),
        ("d.ndjson", '{"features":{"a":1},"label":"x"}\n', [], ["line 1", "label", "'x'"]),
        ("d.ndjson", "{\n", [], ["line 1", "'{'"]),
        (
            "d.ndjson",
            '{"features":{"a":1},"label":1}\n{"features":{"c":"a","c=a":1},"label":0}\n',
            [],
            ["d.ndjson, line 2", "'c=a'"],
        ),
    ],
)
def test_a_bad_row_is_named_by_file_line_column_and_value(
    tmp_path: Path, name: str, text: str, options: list[str], said: list[str]
) -> None:
    path = tmp_path / name
    path.write_text(text)
    sentence = refused("evaluate", path, "--model", "solam", *options)
    for part in said:
        assert part in sentence
    if "line" in said[0]:
        assert str(path) in sentence


def test_train_wants_one_model_and_a_place_for_it(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    assert "'all'" in refused("train", data, "--model", "all", "--out", out)
    assert "/no/such" in refused("train", data, "--model", "solam", "--out", "/no/such/m.safetensors")
    assert str(tmp_path) in refused("train", data, "--model", "solam", "--out", tmp_path)
    assert "--passes" in refused("train", data, "--model", "solam", "--out", out, "--passes", 0)
    assert not out.exists()


def test_a_missing_or_unknown_option_is_a_usage_error(data: Path) -> None:
    for arguments in (("train", data), ("evaluate", data, "--colour", "red"), ("sing",), ("evaluate",)):
        ended = run(*arguments)
        assert ended.status == 2
        assert "Usage" in ended.err
        assert "Traceback" not in ended.err


def test_a_process_ends_with_the_same_sentence_and_status(data: Path) -> None:
    ended = process("evaluate", data, "--model", "salam")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("aucstream: ")
    assert len(ended.err.splitlines()) == 1


@pytest.mark.parametrize("command", ["train", "evaluate"])
def test_a_positive_text_that_no_cell_equals_is_refused(command: str, tmp_path: Path) -> None:
    data, out = tmp_path / "d.csv", tmp_path / "m.safetensors"
    data.write_text("a,y\n1,no\n2,yes\n3,no\n")
    options = ("--label", "y", "--model", "solam", *(("--out", out) if command == "train" else ()))
    sentence = refused(command, data, *options, "--positive", "fraud")
    for text in ("--positive: ", "'y'", str(data), "(the first are 'no', 'yes')", "'fraud'"):
        assert text in sentence
    sentence = refused(command, data, *options, "--positive", "YES")
    for text in ("--positive: ", str(data), "did you mean 'yes'"):
        assert text in sentence
    sentence = refused(command, data, *options)
    for text in ("--positive: ", str(data), "'no', 'yes'"):
        assert text in sentence
    assert "None" not in sentence
    assert not out.exists()


@pytest.mark.parametrize(("name", "text"), [("d.csv", "a,y\n"), ("d.ndjson", ""), ("d.svm", "# none\n")])
def test_a_file_without_rows_trains_no_model(tmp_path: Path, name: str, text: str) -> None:
    data, out = tmp_path / name, tmp_path / "m.safetensors"
    data.write_text(text)
    options = ("--label", "y") if name == "d.csv" else ()
    sentence = refused("train", data, "--model", "solam", "--out", out, *options)
    assert sentence == f"aucstream: {data}: expected rows to learn, got none"
    assert not out.exists()


def test_training_on_one_class_is_said(tmp_path: Path) -> None:
    data, out = tmp_path / "d.csv", tmp_path / "m.safetensors"
    data.write_text("a,y\n1,1\n2,1\n")
    ended = run("train", data, "--label", "y", "--model", "solam", "--out", out)
    assert ended.status == 0
    assert f"aucstream: {data} has rows of one class only" in ended.err
    assert out.exists()


def test_a_second_model_is_refused(data: Path, tmp_path: Path) -> None:
    out = tmp_path / "m.safetensors"
    sentence = refused("train", data, "--model", "psam", "--model", "mba", "--out", out)
    assert sentence == "aucstream: --model: expected one algorithm, got ['psam', 'mba']"
    assert not out.exists()


def test_a_row_of_another_kind_is_named_by_file_and_line(tmp_path: Path) -> None:
    named, listed = '{"features":{"a":1},"label":1}\n', '{"features":[1],"label":0}\n'
    data, svm, out = tmp_path / "d.ndjson", tmp_path / "d.svm", tmp_path / "m.safetensors"
    svm.write_text("1 1:1\n0 2:1\n")
    for rows in (named + listed, listed + named):
        data.write_text(rows)
        assert refused("train", data, "--model", "solam", "--out", out).startswith(
            f"aucstream: {data}, line 2: expected"
        )
    data.write_text(named + named.replace("1}\n", "0}\n"))
    assert run("train", data, "--model", "solam", "--out", out).status == 0
    data.write_text(named + listed)
    assert refused("evaluate", data, "--model", "solam").startswith(f"aucstream: {data}, line 2: expected")
    ended = run("score", out, data)
    assert ended.status == 2
    assert ended.err.startswith(f"aucstream: {data}, line 2: expected")
    for command in (("score", out, svm), ("evaluate", tmp_path / "good.ndjson", "--model", "solam", "--test", svm)):
        (tmp_path / "good.ndjson").write_text(named + named.replace("1}\n", "0}\n"))
        assert refused(*command).startswith(f"aucstream: {svm}: expected named features")


def test_errors_of_readers_name_options_of_the_command(tmp_path: Path) -> None:
    data, svm = tmp_path / "d.csv", tmp_path / "d.svm"
    data.write_text("a,y\n1,0\n2,yes\n")
    sentence = refused("evaluate", data, "--model", "solam", "--label", "y")
    assert "or --positive VALUE, got 'yes'" in sentence
    svm.write_text("1 0:1\n")
    sentence = refused("evaluate", svm, "--model", "solam")
    assert "an index >= 1" in sentence
    assert "zero_based" not in sentence
    assert refused("evaluate", data, "--model", "solam", "--label", "z").startswith("aucstream: --label: ")
    assert refused("evaluate", svm, "--model", "solam", "--label", "z").startswith("aucstream: --label: ")


def test_score_refuses_a_label_that_is_no_column_and_names_a_file_without_the_models_columns(tmp_path: Path) -> None:
    data, other, out = tmp_path / "d.csv", tmp_path / "other.csv", tmp_path / "m.safetensors"
    data.write_text("a,b,y\n1,u,0\n2,v,1\n")
    assert run("train", data, "--label", "y", "--model", "solam", "--out", out).status == 0
    sentence = refused("score", out, data, "--label", "Y")
    assert "did you mean 'y'" in sentence
    for text in ("q,r\n1,2\n", "b\nw\n"):
        other.write_text(text)
        ended = run("score", out, other)
        assert (ended.status, len(ended.objects)) == (0, 1)
        assert f"aucstream: {other} has no column of the model" in ended.err
    other.write_text("q,a\n1,2\nu,\n")
    assert "no column" not in run("score", out, other).err


def test_a_column_of_numbers_with_a_few_words_is_named_with_an_example(tmp_path: Path) -> None:
    data, out = tmp_path / "d.csv", tmp_path / "m.safetensors"
    rows = [
        f"{i},{'NA' if i == 40 else '1_0' if i == 70 else i},w{i},x{i % 2},{i if i % 2 else f'w{i}'},{i % 2}"
        for i in range(300)
    ]
    data.write_text("plain,mixed,many,few,codes,y\n" + "\n".join(rows) + "\n")
    own = "has a word of its own in nearly every row: --ignore leaves it out"
    said = [
        f"aucstream: {data}, column {sentence}"
        for sentence in (
            "mixed: 'NA' (1 cells) read as missing",
            "mixed: has numbers and the word '1_0'; a word is a feature of its own, no number",
            f"many: {own}",
            f"codes: has words, and numbers in 50.0% of its cells: each cell is a word, also '1'; {own}",
            "plain: equals the number of the row: --ignore leaves it out",
        )
    ]
    for command in (
        ("evaluate", data, "--label", "y", "--model", "solam", "--passes", 2),
        ("train", data, "--label", "y", "--model", "solam", "--out", out),
        ("score", out, data, "--label", "y"),
    ):
        ended = run(*command)
        assert ended.status == 0, ended.err
        lines = [line for line in ended.err.splitlines() if ", column " in line]
        if command[0] != "score":
            leak = "ranks the label by itself with AUC 1.0000: is it known before the label is? --ignore leaves it out"
            assert lines.pop() == f"aucstream: {data}, column few: {leak}"
        assert lines == (said if command[0] != "score" else [*said[:2], said[4]])


def test_an_unknown_role_is_named_with_those_there_are(tmp_path: Path) -> None:
    sentence = refused("keys", "create", "--role", "boss", "--data-dir", tmp_path / "data")
    assert sentence == "aucstream: --role: expected 'read' | 'write' | 'admin', got 'boss'"
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("is_slow", [True, False])
def test_compiling_that_takes_long_is_said_once_where_no_bar_shows_it(
    is_slow: bool, data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compile_slowly(self: Comparison, chunk: object, done: object = None) -> None:
        time.sleep(0.2)
        self.warm = True

    monkeypatch.setattr(passes, "PATIENCE", 0.02 if is_slow else 60.0)
    monkeypatch.setattr(Comparison, "compile", compile_slowly)
    monkeypatch.setattr("sys.argv", ["aucstream", "evaluate", str(data), "--model", "solam"])
    with pytest.raises(SystemExit):
        main()
    said = [line for line in capsys.readouterr().err.splitlines() if "compiling" in line]
    assert said == ["aucstream: compiling the kernels, which are kept: `aucstream warm` does it beforehand"] * is_slow
