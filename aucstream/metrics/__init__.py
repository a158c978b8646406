"""Metrics of ranking on streams: exact, bounded, on raw scores.

`AUC(window=n)` is exact over the last n rows; `AUC()` covers the whole stream in bounded memory, within 1e-4;
`FadingAUC` forgets smoothly; `PairedAUC` compares two scores on the same rows. The first three are River metrics.
Each is loaded when it is first used: River's metrics take a second.

May import `kernels` and below.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.metrics.auc import AUC as AUC
    from aucstream.metrics.base import Roc as Roc
    from aucstream.metrics.fading import FadingAUC as FadingAUC
    from aucstream.metrics.paired import PairedAUC as PairedAUC
    from aucstream.metrics.probabilities import ScoredProbabilities as ScoredProbabilities

_HOMES = {
    "AUC": "auc",
    "FadingAUC": "fading",
    "PairedAUC": "paired",
    "Roc": "base",
    "ScoredProbabilities": "probabilities",
}

__all__ = ["AUC", "FadingAUC", "PairedAUC", "Roc", "ScoredProbabilities"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream.metrics' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"aucstream.metrics.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
