"""The examples, run as a user runs them."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.data import ROOT
from tests.service.running import Running

pytestmark = pytest.mark.slow

PHISHING_ROWS = 1250


def example(name: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, f"examples/{name}.py", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(tmp_path_factory.mktemp("examples") / "data")
    yield running
    assert running.stop() == 0, running.log


def test_the_quick_start_learns_is_killed_and_comes_back_knowing_everything() -> None:
    told = example("quickstart")
    shown = re.findall(r"(\d+) rows learned +AUC (\S+) +95 % interval (\S+) to (\S+)", told)
    assert [int(rows) for rows, *_ in shown] == [250, 500, 750, 1000, 1250]
    for _, auc, low, high in shown:
        assert float(low) < float(auc) < float(high)
    assert float(shown[-1][1]) > 0.93
    assert "kill -9" in told
    assert f"{PHISHING_ROWS} rows known" in told


def test_river_scripts_take_the_learners_unchanged() -> None:
    shown = re.findall(r"(?m)^(.+?) +AUC (\S+) +95 % interval (\S+) to (\S+)$", example("river_progressive"))
    assert len(shown) == 6
    for name, auc, low, high in shown:
        assert 0.9 < float(low) < float(auc) < float(high) <= 1, name


def test_a_producer_that_sends_one_by_one_may_send_all_of_it_again(service: Running) -> None:
    model = "one-by-one"
    arguments = ("--url", service.url, "--model", model)
    assert example("producer", *arguments) == f"last: seq {PHISHING_ROWS}\n"
    assert example("producer", *arguments) == f"last: seq {PHISHING_ROWS}, known before\n"
    assert service.describe(model)["examples"] == PHISHING_ROWS


def test_a_producer_in_bulk_may_send_all_of_it_again_and_a_scorer_asks(service: Running) -> None:
    model = "bulk"
    arguments = ("--url", service.url, "--model", model, "--bulk")
    assert example("producer", *arguments) == f"{PHISHING_ROWS} learned, 0 known before, seq {PHISHING_ROWS}\n"
    assert example("producer", *arguments) == f"0 learned, {PHISHING_ROWS} known before, seq {PHISHING_ROWS}\n"
    told = example("scorer", "--url", service.url, "--model", model)
    shown = re.findall(r"score ([+-]\S+)  probability (\S+)  \(label (True|False)\)", told)
    assert len(shown) == 5
    assert all(0 <= float(probability) <= 1 for _, probability, _ in shown)
    assert f"AUC over the last {PHISHING_ROWS} examples: 0.9" in told


def test_every_example_is_run_here() -> None:
    text = Path(__file__).read_text()
    for path in (ROOT / "examples").glob("*.py"):
        assert f'example("{path.stem}"' in text
