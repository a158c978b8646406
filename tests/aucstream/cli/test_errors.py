"""Refusals: one sentence on standard error, naming the value and what is allowed; exit status 2."""

from __future__ import annotations

from pathlib import Path

import pytest

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
        (["--model", "solam:Q=1"], ["'Q'", "norm, R, zeta, cap, kappa"]),
        (["--model", "solam:R=-1"], ["solam:R", "> 0", "-1.0"]),
        (["--model", "solam:R=many"], ["solam:R", "'many'"]),
        (["--model", "solam:R"], ["'R'", "param=value"]),
        (["--model", "solam:norm=l3"], ["'l1'", "'l2'", "'l3'"]),
        (["--model", "oam:capacity=1.5"], ["capacity", "an integer", "1.5"]),
        (["--model", "oam:average=perhaps"], ["average", "true or false", "'perhaps'"]),
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
        ("d.csv", "a,y\n1,0\nnan,1\n", ["--label", "y"], ["line 3", "column a", "nan"]),
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
    for arguments in (("evaluate", data), ("evaluate", data, "--colour", "red"), ("sing",), ("evaluate",)):
        ended = run(*arguments)
        assert ended.status == 2
        assert "Usage" in ended.err
        assert "Traceback" not in ended.err


def test_a_process_ends_with_the_same_sentence_and_status(data: Path) -> None:
    ended = process("evaluate", data, "--model", "salam")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.startswith("aucstream: ")
    assert len(ended.err.splitlines()) == 1
