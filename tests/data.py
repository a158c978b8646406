"""Where the real data sets of the tests are."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse

from aucstream.io.svmlight import read_svmlight

ROOT = Path(__file__).resolve().parent.parent


def data_path(name: str) -> Path:
    """Return the path of a real data set such as "a9a.svm.gz", or skip the test, saying why.

    The folder is AUCSTREAM_DATA, else `../shared/data` beside the repository.
    """
    folder = Path(os.environ.get("AUCSTREAM_DATA") or ROOT.parent / "shared" / "data")
    path = folder / name
    if not path.is_file():
        pytest.skip(f"REAL DATA IS ABSENT: {path} (set AUCSTREAM_DATA to the folder that has it)")
    return path


@cache
def stored_rows(name: str) -> tuple[sparse.csr_array, np.ndarray]:
    """Return (X, y) of an svmlight file such as "a9a.svm.gz", as it is stored."""
    blocks = list(read_svmlight(data_path(name)))
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    indices = np.concatenate([np.asarray(block.indices) for block in blocks])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    values = np.concatenate([block.values for block in blocks])
    X = sparse.csr_array((values, indices, indptr), shape=(lengths.size, blocks[-1].width))
    return X, np.concatenate([block.y for block in blocks])


@cache
def unit_rows(name: str) -> tuple[sparse.csr_array, np.ndarray]:
    """Return (X, y) of an svmlight file such as "a9a.svm.gz", each row divided by its norm."""
    X, y = stored_rows(name)
    X = X.copy()
    norms = np.repeat(np.sqrt(X.multiply(X).sum(axis=1)), np.diff(X.indptr))
    X.data = X.data / norms
    return X, y


@cache
def elec2() -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y) of elec2 in time, dense."""
    blocks = list(read_svmlight(data_path("elec2.svm.gz")))
    lengths = np.concatenate([np.diff(block.indptr) for block in blocks])
    indices = np.concatenate([np.asarray(block.indices) for block in blocks])
    X = np.zeros((lengths.size, blocks[-1].width))
    X[np.repeat(np.arange(lengths.size), lengths), indices] = np.concatenate([block.values for block in blocks])
    return X, np.concatenate([block.y for block in blocks]) > 0.0
