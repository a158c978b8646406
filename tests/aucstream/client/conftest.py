"""One service and one awkward server before it, for all tests of the client that stop neither."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from aucstream.client import Retry
from tests.service.running import Local

from .awkward import Awkward
from .both import BOTH

_numbers = itertools.count()


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    running = Local(
        tmp_path_factory.mktemp("client") / "data",
        durability="memory",
        events_per_second=50,
        max_models=6,
    )
    yield running
    running.stop()


@pytest.fixture(scope="session")
def one_awkward(local: Local) -> Iterator[Awkward]:
    server = Awkward(str(local.http.base_url))
    yield server
    server.stop()


@pytest.fixture
def awkward(one_awkward: Awkward) -> Awkward:
    one_awkward.faults.clear()
    one_awkward.requests.clear()
    one_awkward.times.clear()
    return one_awkward


@pytest.fixture(scope="session", params=BOTH, ids=["threads", "loop"])
def client(request: pytest.FixtureRequest, one_awkward: Awkward) -> Iterator[Any]:
    with request.param(one_awkward.url, timeout=120, retry=Retry(deadline=20, first=0.01)) as instance:
        yield instance


@pytest.fixture(scope="session", params=BOTH, ids=["threads", "loop"])
def direct(request: pytest.FixtureRequest, local: Local) -> Iterator[Any]:
    """A client with no server between: the awkward one streams nothing."""
    with request.param(str(local.http.base_url), retry=Retry(deadline=20, first=0.01)) as instance:
        yield instance


@pytest.fixture
def model(local: Local) -> Iterator[str]:
    """A fresh model, deleted afterwards."""
    name = f"client-{next(_numbers)}"
    spec: dict[str, Any] = {"pending": {"ttl_seconds": 600, "hold_early_seconds": 60}}
    assert local.create(name, **spec).status_code == 201
    yield name
    local.http.delete(f"/v1/models/{name}")
