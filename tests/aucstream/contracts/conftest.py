"""The learner that is no part of the library is registered while a contract runs."""

from __future__ import annotations

import sys

import pytest

from aucstream.registry import LEARNERS, Entry

from . import nonlinear


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aucstream.learners.tanhsum", nonlinear)
    monkeypatch.setitem(LEARNERS, "tanhsum", Entry("TanhSum", "tanhsum", "O(d)", "O(d)", "none"))
