"""The recipe for a new learner: the command, what it refuses, and the whole of it in a copy of the repository."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aucstream.dev.new_learner import new_learner, registry_line, with_export, with_registry_line
from aucstream.errors import InvalidParams
from tests.data import ROOT

COPIED = ("aucstream", "service", "tests", "openapi", "pyproject.toml", "CONTRIBUTING.md")
CONTRACTS = "tests/aucstream/contracts"
# What the skeleton is held to at once, with River's checks among it.
SKELETON = [
    *(f"{CONTRACTS}/test_{part}.py" for part in ("bad_input", "explain", "merge", "parameters", "river", "units")),
    "tests/aucstream/reference/test_reference.py::test_every_learner_has_a_reference",
]
# What holds when the list is done.
FINISHED = [
    f"{CONTRACTS}/test_equal_runs.py",
    "tests/aucstream/reference/test_reference.py::test_every_learner_has_a_reference",
    "tests/aucstream/golden/test_golden.py",
]
WHOLE = [
    "tests/test_public_api.py",
    "tests/aucstream/golden/test_golden.py::test_every_learner_has_a_golden_file",
    "tests/service/api/test_openapi.py::test_the_file_is_fresh",
]
# A known update in the place of the template's: the hinge loss.
UPDATES = {
    "plain": {
        "aucstream/learners/tried.py": [
            ("rate * y / (1.0 + math.exp(min(margin, 700.0)))", "rate * y if margin < 1.0 else 0.0")
        ],
        "tests/aucstream/reference/tried.py": [
            (
                "rate * sign * sigmoid(-sign * (float(self.w @ x) + self.b))",
                "rate * sign if sign * (float(self.w @ x) + self.b) < 1.0 else 0.0",
            ),
            ("from .univariate import sigmoid\n", ""),
        ],
    },
    "buffered": {
        "aucstream/learners/tried.py": [("rate if loss >= rate * zz else loss / zz", "rate")],
        "tests/aucstream/reference/tried.py": [("min(rate, loss / square)", "rate")],
    },
}


def contents(root: Path) -> dict[str, str]:
    """Return the digest of each file, but for what runs leave behind."""
    return {
        path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in root.rglob("*")
        if path.is_file() and not any(part.startswith((".", "__pycache__")) for part in path.relative_to(root).parts)
    }


def run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a copy of the repository."""
    environment = {**os.environ, "PYTHONPATH": ""}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # each of these processes would compile the same sources
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=900)


def outcomes(root: Path, *arguments: str) -> tuple[set[str], str]:
    """Run tests in the copy; return the names of those that failed, and the report."""
    ran = run(root, "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-rfE", *arguments)
    report = ran.stdout + ran.stderr
    assert ran.returncode in (0, 1), report
    assert " passed" in report, report
    return set(re.findall(r"(?m)^(?:FAILED|ERROR) (\S+)", report)), report


def allowed(name: str) -> set[str]:
    """Return the files that CONTRIBUTING.md lists for a new algorithm."""
    section = (ROOT / "CONTRIBUTING.md").read_text().split("## A new algorithm\n")[1].split("\n## ")[0]
    files = r"(?:aucstream|tests|openapi|docs)/[\w./<>]+\.\w+|CHANGELOG\.md"
    return {path.replace("<name>", name) for path in re.findall(rf"(?:`|> )({files})`", section)}


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
        else:
            shutil.copy(source, tmp_path / name)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("template", UPDATES)
def test_the_whole_recipe_in_a_copy(copy: Path, template: str) -> None:
    before = contents(copy)
    options = ["--buffered"] if template == "buffered" else []
    done = run(copy, "aucstream.dev.new_learner", "Tried", *options, "--paper", "Nobody, 2026")
    assert done.returncode == 0, done.stderr
    written = {name for name, digest in contents(copy).items() if before.get(name) != digest}
    assert written == set(done.stdout.split("\nWhat is left")[0].splitlines())
    assert written == {
        *("aucstream/__init__.py", "aucstream/registry.py", "aucstream/learners/tried.py"),
        *("tests/aucstream/reference/tried.py", "tests/aucstream/learners/test_tried.py"),
    }
    own = "tests/aucstream/learners/test_tried.py"
    failed, report = outcomes(copy, own, *SKELETON, "-k", "tried")
    assert failed
    assert {name.split("[")[0] for name in failed} == {f"{own}::test_equals_the_reference"}
    reasons = re.findall(r"(?m)^write the update of Tried: learners/tried.py:1, ", report)
    assert len(failed) == len(reasons)

    for name, changes in UPDATES[template].items():
        text = (copy / name).read_text()
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        (copy / name).write_text(text.replace("WRITE: ", ""))
    assert run(copy, "tests.aucstream.golden.make").returncode == 0
    document = run(copy, "aucstream_service.ops.openapi")
    assert document.returncode == 0, document.stderr
    (copy / "openapi" / "openapi.json").write_text(document.stdout)
    assert outcomes(copy, own, *FINISHED, "-k", "tried")[0] == set()
    assert outcomes(copy, *WHOLE)[0] == set()
    for check in (["check"], ["format", "--check"]):
        ran = run(copy, "ruff", *check, "--no-cache", *sorted(written))
        assert ran.returncode == 0, ran.stdout

    changed = {name for name, digest in contents(copy).items() if before.get(name) != digest}
    assert before.keys() <= contents(copy).keys()
    assert changed >= written | {"openapi/openapi.json", "tests/aucstream/golden/v1/tried.safetensors"}
    assert changed <= allowed("tried"), changed - allowed("tried")


def test_every_file_of_the_list_exists_or_is_written() -> None:
    listed = {path for path in allowed("<name>") if "<name>" not in path}
    assert len(listed) > 5
    assert {path for path in listed if not (ROOT / path).is_file()} == set()
    assert {path for path in allowed("psam") if not (ROOT / path).is_file()} == set()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("psam2 ", "a class name of letters and digits"),
        ("tried", "a class name of letters and digits"),
        ("Not-One", "a class name of letters and digits"),
        ("", "a class name of letters and digits"),
        ("Ünder", "a class name of letters and digits"),
        ("PSAM", "a name that is not taken, got 'PSAM'"),
        ("Psam", "a name that is not taken, got 'Psam'"),
        ("Load", "a name that is not taken"),
        ("Metrics", "a name that is not taken"),
        ("Class", "a name that is not taken"),
        ("MiniBatch", r"a name that is not taken, got 'aucstream/learners/minibatch\.py'"),
        ("Streams", r"a name that is not taken, got 'tests/aucstream/reference/streams\.py'"),
    ],
)
def test_a_name_that_cannot_be_taken_is_refused_and_nothing_is_written(name: str, words: str) -> None:
    with pytest.raises(InvalidParams, match=f"^NAME: expected {words}"):
        new_learner(name)


def test_a_folder_that_is_no_checkout_and_a_paper_of_two_lines_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidParams, match=r"^root: expected a checkout of aucstream"):
        new_learner("Tried", root=tmp_path)
    for paper in ("two\nlines", 'a "quote"', "a \\"):
        with pytest.raises(InvalidParams, match=r"^--paper: expected one line"):
            new_learner("Tried", paper=paper, root=tmp_path)
    assert not any(tmp_path.iterdir())


def test_lines_go_where_they_belong_in_the_formatters_layout() -> None:
    registry, exports = (ROOT / "aucstream/registry.py").read_text(), (ROOT / "aucstream/__init__.py").read_text()
    added = with_registry_line(registry, registry_line("Tried", "Nobody, 2026", False))
    (line,) = set(added.splitlines()) - set(registry.splitlines())
    assert line == '    "tried": Entry("Tried", "tried", "O(d)", "O(nnz)", "Nobody, 2026"),'
    assert registry_line("Tried", "x" * 100, True).splitlines()[0] == '    "tried": Entry('
    for name, neighbour in (("Aaa", "adaoam"), ("Tried", "univariateexp"), ("Zzz", "aucstream.loading")):
        lines = with_export(exports, name).splitlines()
        at = lines.index(f"    from aucstream.learners.{name.lower()} import {name} as {name}")
        assert neighbour in lines[at + 1]
        assert [*lines[:at], *lines[at + 1 :]] == exports.splitlines()
    with pytest.raises(InvalidParams, match=r"registry\.py: expected the table LEARNERS"):
        with_registry_line("x = 1\n", line)
