"""Metrics of ranking on streams: exact, bounded, on raw scores.

`AUC(window=n)` is exact over the last n rows; `AUC()` covers the whole stream in bounded memory,
within 1e-4; `FadingAUC` forgets smoothly; `PairedAUC` compares two scores on the same rows.
The first three are River metrics.
"""

from aucstream.metrics.auc import AUC
from aucstream.metrics.base import Roc
from aucstream.metrics.fading import FadingAUC
from aucstream.metrics.paired import PairedAUC
from aucstream.metrics.probabilities import ScoredProbabilities

__all__ = ["AUC", "FadingAUC", "PairedAUC", "Roc", "ScoredProbabilities"]
