"""Test AUC on a9a, official split, unit rows, shuffled: what the reference figures are given for."""

from __future__ import annotations

from functools import cache
from typing import Any

from aucstream import Pipeline, UnitNorm, evaluate
from aucstream.block import Block, joined
from aucstream.io import read
from tests.data import data_path


@cache
def _rows(name: str) -> Block:
    return joined(list(read(data_path(name))))


def a9a_auc(model: Any, seed: int = 0) -> float:
    """Return the test AUC after one pass in the order of `seed`."""
    chunks, test = [_rows("a9a.svm.gz")], [_rows("a9a.t.svm.gz")]
    result = evaluate.progressive(Pipeline(UnitNorm(), model), chunks, test=test, shuffle=seed)
    assert result.test is not None
    return result.test.auc
