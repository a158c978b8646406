"""Metrics of ranking and of calibration on streams: exact or bounded, with intervals.

`AUC(window=n)` is exact over the last n rows; `AUC()` covers the whole stream in bounded memory, within 1e-4;
`FadingAUC` forgets smoothly; `PairedAUC` compares two scores on the same rows. `AveragePrecision`, `PartialAUC`,
`RecallAtFPR`, `PrecisionAtK`, `RecallAtK`, `Lift` and `CutCost` read the same ranking; `LogLoss`, `Brier` and
`ExpectedCalibrationError` judge probabilities. All but `PairedAUC` are River metrics. Each is loaded when it is first used: River's metrics take a second.

May import `kernels` and below.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.metrics.auc import AUC as AUC
    from aucstream.metrics.base import Roc as Roc
    from aucstream.metrics.calibrated import Brier as Brier
    from aucstream.metrics.calibrated import ExpectedCalibrationError as ExpectedCalibrationError
    from aucstream.metrics.calibrated import LogLoss as LogLoss
    from aucstream.metrics.calibrated import Reliability as Reliability
    from aucstream.metrics.calibrated import reliability as reliability
    from aucstream.metrics.fading import FadingAUC as FadingAUC
    from aucstream.metrics.paired import PairedAUC as PairedAUC
    from aucstream.metrics.probabilities import ScoredProbabilities as ScoredProbabilities
    from aucstream.metrics.ranked import AveragePrecision as AveragePrecision
    from aucstream.metrics.ranked import CutCost as CutCost
    from aucstream.metrics.ranked import Lift as Lift
    from aucstream.metrics.ranked import PartialAUC as PartialAUC
    from aucstream.metrics.ranked import PrecisionAtK as PrecisionAtK
    from aucstream.metrics.ranked import RecallAtFPR as RecallAtFPR
    from aucstream.metrics.ranked import RecallAtK as RecallAtK
    from aucstream.metrics.ranking import PrecisionRecall as PrecisionRecall

_HOMES = {
    "AUC": "auc",
    "AveragePrecision": "ranked",
    "Brier": "calibrated",
    "CutCost": "ranked",
    "ExpectedCalibrationError": "calibrated",
    "FadingAUC": "fading",
    "Lift": "ranked",
    "LogLoss": "calibrated",
    "PairedAUC": "paired",
    "PartialAUC": "ranked",
    "PrecisionAtK": "ranked",
    "PrecisionRecall": "ranking",
    "RecallAtFPR": "ranked",
    "RecallAtK": "ranked",
    "Reliability": "calibrated",
    "Roc": "base",
    "ScoredProbabilities": "probabilities",
    "reliability": "calibrated",
}

__all__ = [
    "AUC",
    "AveragePrecision",
    "Brier",
    "CutCost",
    "ExpectedCalibrationError",
    "FadingAUC",
    "Lift",
    "LogLoss",
    "PairedAUC",
    "PartialAUC",
    "PrecisionAtK",
    "PrecisionRecall",
    "RecallAtFPR",
    "RecallAtK",
    "Reliability",
    "Roc",
    "ScoredProbabilities",
    "reliability",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream.metrics' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"aucstream.metrics.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
