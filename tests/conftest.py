"""Settings that all tests share."""

from __future__ import annotations

import gc

from hypothesis import HealthCheck, settings

# No deadline: the first example of a kernel may compile it. Few examples: the streams are the cost.
settings.register_profile("aucstream", deadline=None, max_examples=15, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("aucstream")


def pytest_collection_finish() -> None:
    """Take what stays until the end out of the collector's sight: River's checks collect many hundred times."""
    gc.collect()
    gc.freeze()
