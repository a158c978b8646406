"""Settings that all tests share."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from tests import workers

# No deadline: the first example of a kernel may compile it. Few examples: the streams are the cost.
settings.register_profile("aucstream", deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aucstream")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker of tests of compiled functions that run as plain Python too, and with checked bounds."""
    config.addinivalue_line(
        "markers", "plain_python: kernels; also run under NUMBA_DISABLE_JIT=1 and under NUMBA_BOUNDSCHECK=1"
    )
    if os.environ.get("NUMBA_DISABLE_JIT", "0") != "0":
        np.seterr(all="ignore")  # as compiled functions do


@pytest.hookimpl(wrapper=True, tryfirst=True)  # the groups before pytest-xdist reads them, the order after all others
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    """Give each test its worker's group, and the groups their order."""
    workers.assign(items)
    yield
    workers.order(items)


def pytest_collection_finish() -> None:
    """Take what stays until the end out of the collector's sight: River's checks collect many hundred times."""
    gc.collect()
    gc.freeze()
