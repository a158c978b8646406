"""Which worker runs what."""

from __future__ import annotations

import pytest

from .agreement import FORMS


@pytest.hookimpl(tryfirst=True)  # before pytest-xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give all forms of a variant to one worker: they share the reference's run, which can take half a minute."""
    for item in items:
        if isinstance(item, pytest.Function) and item.originalname == "test_equals_the_reference":
            variant = [part for part in item.callspec.id.split("-") if part not in FORMS]
            item.add_marker(pytest.mark.xdist_group(f"{item.path.stem}-{'-'.join(variant)}"))
