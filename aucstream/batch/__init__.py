"""Batch references: exact minimisers of pairwise objectives over a fixed set of rows.

Each name is loaded when it is first used.

May import `learners/_base`, `features`, `metrics` and below.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.batch.bam import BAM as BAM
    from aucstream.batch.least_squares import LeastSquaresAUC as LeastSquaresAUC
    from aucstream.batch.rank_svm import RankSVM as RankSVM

_HOMES = {"BAM": "bam", "LeastSquaresAUC": "least_squares", "RankSVM": "rank_svm"}

__all__ = ["BAM", "LeastSquaresAUC", "RankSVM"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream.batch' has no attribute {name!r}")
    return getattr(importlib.import_module(f"aucstream.batch.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
