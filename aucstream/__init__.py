"""Streaming AUC maximization: online learners, metrics, pipelines.

Importing the package loads nothing heavy; each public name is loaded when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.learners.solam import SOLAM as SOLAM

__version__ = "0.1.0"

_HOMES = {
    "SOLAM": "aucstream.learners.solam",
}

__all__ = ["SOLAM", "__version__"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
