"""Threads that share a model: see `shared`, which runs in processes of its own, so that a crash is a failed test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aucstream import SOLAM, Pipeline
from aucstream.exclusive import Exclusive
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.registry import LEARNERS, learner_class

SCRIPT = Path(__file__).with_name("shared.py")
SHORT = 0.15  # seconds a model


def run(part: str, seconds: float, *names: str, timeout: float = 1800.0) -> None:
    done = subprocess.run(
        [sys.executable, str(SCRIPT), part, str(seconds), *names],
        capture_output=True,
        text=True,
        timeout=timeout,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stderr[-3000:]}"
    assert json.loads(done.stdout) == []


@pytest.mark.slow
@pytest.mark.parametrize("part", ["scoring", "learning", "everything", "arrays", "merging", "metrics", "transformers"])
def test_threads_may_share_a_model(part):
    run(part, SHORT if part not in ("learning", "merging") else 9.0)


@pytest.mark.soak
@pytest.mark.parametrize("part", ["scoring", "learning", "everything", "arrays"])
@pytest.mark.parametrize(
    "name", ["solam 0", "cbr 0", "auto 0", "jointforest 0", "scaled psam", "scaled mba", "hashed", "landmarks"]
)
def test_threads_share_a_model_for_a_minute(part, name):
    if part == "arrays" and name in ("hashed", "landmarks"):
        pytest.skip("learns named rows")
    run(part, 60.0, name)


def test_every_public_method_of_what_threads_may_share_is_guarded():
    def below(cls: type) -> list[type]:
        return [cls, *(deeper for child in cls.__subclasses__() for deeper in below(child))]

    assert set(map(learner_class, LEARNERS)) <= set(below(Exclusive))
    seen = 0
    for cls in below(Exclusive):
        for name, member in vars(cls).items():
            for part in (member.fget, member.fset) if isinstance(member, property) else (member,):
                if not name.startswith("_") and callable(part) and not isinstance(part, (type, staticmethod)):
                    assert getattr(part, "is_guarded", False), f"{cls.__name__}.{name}"
                    seen += 1
    assert seen > 60


@pytest.mark.parametrize("make", [SOLAM, Pipeline])
def test_a_call_that_was_fetched_before_the_model_changed_does_nothing(make):
    def states(model: RankingClassifier) -> bytes:
        return model.to_bytes()

    model = make()
    x = {"a": 1.0, "b": 2.0}
    for i in range(40):
        model.learn_one(x, i % 2 == 0)
    old = model._entry
    model.learn_one({f"n{i}": 1.0 for i in range(100)}, True)  # the arrays grow
    before = states(model)
    score = old.learn(id(x), old.address, 1.0, 1.0)
    assert score != score
    assert old.score(id(x), old.address) != old.score(id(x), old.address)
    assert states(model) == before
    with model._gate.lock:  # another method is at work
        model._gate.cell[0] = -1
        now = model._entry
        assert now.learn(id(x), now.address, 1.0, 1.0) != now.learn(id(x), now.address, 1.0, 1.0)
        model._gate.cell[0] = model._gate.version
    assert states(model) == before
