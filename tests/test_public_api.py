"""The public names: complete, sorted, and cheap to import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import aucstream
import aucstream.client
import aucstream.features
import aucstream.metrics
from aucstream.registry import LEARNERS

HEAVY = [
    "numba",
    "scipy",
    "pandas",
    "sklearn",
    "river.metrics",
    "fastapi",
    "uvicorn",
    "service",
    "typer",
    "rich",
    "httpx",
]


@pytest.mark.parametrize(
    "module", [aucstream, aucstream.client, aucstream.features, aucstream.metrics], ids=lambda m: m.__name__
)
def test_all_names_exist_and_are_sorted(module):
    names = list(module.__all__)
    order = sorted(
        names, key=lambda name: (0 if name.isupper() and name != "__version__" else 1 if name[0].isupper() else 2, name)
    )
    assert names == order
    assert len(set(names)) == len(names)
    for name in names:
        assert getattr(module, name) is not None
    assert set(names) <= set(dir(module))


def test_every_learner_is_exported_under_its_own_name():
    assert {entry.class_name for entry in LEARNERS.values()} <= set(aucstream.__all__)
    for name in aucstream.__all__:
        value = getattr(aucstream, name)
        if isinstance(value, type):
            assert value.__name__ == name
            assert value.__doc__


def test_type_checkers_see_the_names_that_are_loaded():
    tree = ast.parse(Path(aucstream.__file__).read_text())
    (guard,) = [node for node in tree.body if isinstance(node, ast.If)]
    imports = {alias.asname: node.module for node in guard.body for alias in node.names}
    assert imports == aucstream._HOMES


def test_an_unknown_name_is_an_attribute_error():
    for module in (aucstream, aucstream.features):
        with pytest.raises(AttributeError, match="spam"):
            _ = module.spam


def test_importing_the_package_loads_nothing_heavy():
    program = f"import sys, aucstream; print([m for m in {HEAVY!r} if m in sys.modules])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert ran.stdout.strip() == "[]"
