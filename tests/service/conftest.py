"""One service for all tests that do not stop it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from .running import Running

_numbers = itertools.count()


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    running = Running(
        tmp_path_factory.mktemp("service") / "data",
        max_body_bytes=1 << 20,
        max_line_bytes=20_000,
        max_rows=2_000,
        max_features=500,
        max_name_length=100,
        max_models=40,
    )
    yield running
    assert running.stop() == 0, running.log


@pytest.fixture
def model(service: Running) -> Iterator[str]:
    """A fresh model, deleted afterwards."""
    name = f"model-{next(_numbers)}"
    assert service.create(name).status_code == 201
    yield name
    service.http.delete(f"/v1/models/{name}")


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"
