"""`aucstream models`, the version and the help."""

from __future__ import annotations

import re
import subprocess
import sys

from aucstream import __version__
from aucstream.constraints import rules_of
from aucstream.registry import LEARNERS, learner_class
from tests.data import ROOT

from .running import run


def test_models_shows_every_algorithm_with_parameters_defaults_and_paper() -> None:
    ended = run("models")
    assert ended.status == 0
    assert ended.err == ""
    words = re.sub(r"[│┃\s]+", " ", ended.out)
    for name, entry in LEARNERS.items():
        cls = learner_class(name)
        assert f" {name} " in words
        assert entry.paper in ended.out
        assert entry.step in ended.out
        for param in rules_of(cls):
            assert f"{param}={getattr(cls(), param)!r}" in words


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m aucstream models | head -1"
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, check=True)
    assert done.stderr == b""
    assert done.stdout.startswith(f"{len(LEARNERS)} algorithms".encode())


def test_the_version_is_the_librarys() -> None:
    assert run("--version").out.strip() == f"aucstream {__version__}"


def test_help_names_every_command() -> None:
    told = run("--help").out
    for command in ("models", "evaluate", "train", "score", "inspect", "serve", "warm"):
        assert f" {command} " in told
    assert "--shuffle" in run("evaluate", "-h").out
