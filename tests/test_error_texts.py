"""The texts of errors that are raised on purpose: what is a description is declared as one, and is not quoted."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aucstream import snapshot
from aucstream.constraints import Ge, Le
from aucstream.errors import AucstreamError, BadSnapshot, NonFiniteStep
from aucstream_service.errors import exceptions
from tests.data import ROOT

VALUES = {"hashing", "", "skip"}  # the rejected values themselves


def kinds(kind: type[AucstreamError]) -> Iterator[str]:
    yield kind.__name__
    for derived in kind.__subclasses__():
        yield from kinds(derived)


KINDS = {*kinds(AucstreamError), *kinds(exceptions.ServiceError)} - {"RouteNotFound"}  # a path is the value
FILES = [*(ROOT / "aucstream").rglob("*.py"), *(ROOT / "service").rglob("*.py")]


def quoted_texts(path: Path) -> list[str]:
    """Return the texts that a file gives as the rejected value of an error, other than as a `Description`."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in KINDS:
            at = 4 if node.func.id == "BadRow" else 2
            got = [word.value for word in node.keywords if word.arg == "got"] + node.args[at : at + 1]
            for text in got:
                if isinstance(text, ast.JoinedStr) or (isinstance(text, ast.Constant) and isinstance(text.value, str)):
                    found.append(ast.unparse(text))
    return found


@pytest.mark.parametrize("path", [path for path in FILES if "errors." in path.read_text()], ids=lambda path: path.stem)
def test_a_description_of_a_value_is_no_value(path: Path) -> None:
    texts = {text for text in quoted_texts(path) if ast.literal_eval(text.removeprefix("f")) not in VALUES}
    assert texts == set()


@pytest.mark.parametrize(
    ("data", "got"), [(b"1234567", "7 bytes"), (b"amount,hour,y\n1", "one that begins with b'amount,h'")]
)
def test_a_foreign_snapshot_is_described_without_quotes(data: bytes, got: str) -> None:
    with pytest.raises(BadSnapshot) as caught:
        snapshot.unpack(data)
    assert str(caught.value) == f"snapshot: expected a safetensors file, got {got}"


def test_bounds_have_all_their_digits() -> None:
    assert [str(Le(bound)) for bound in (1 << 20, 100.0, 0.25, 1e-9)] == ["<= 1048576", "<= 100", "<= 0.25", "<= 1e-09"]
    assert str(Ge(-3)) == ">= -3"


def test_skipped_rows_are_named() -> None:
    assert str(NonFiniteStep("PSAM", [3], np.empty(4))) == (
        "PSAM: expected a row whose step keeps every state finite, got row 3, which was skipped"
    )
    assert str(NonFiniteStep("PSAM", [1, 3], np.empty(4))) == (
        "PSAM: expected rows whose step keeps every state finite, got row 1, 3, which were skipped"
    )
