"""Where the real data sets of the tests are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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
