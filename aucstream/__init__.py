"""Streaming AUC maximization: online learners, metrics, pipelines.

Importing the package loads nothing heavy; each public name is loaded when it is first used. The learners are those of
the registry; the imports below tell type checkers what they are.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from aucstream.registry import LEARNERS
from aucstream.version import __version__ as __version__

if TYPE_CHECKING:
    from aucstream.features.columns import Columns as Columns
    from aucstream.features.encoding.hashing import Hashing as Hashing
    from aucstream.features.encoding.vocabulary import Vocabulary as Vocabulary
    from aucstream.features.maps.maps import KMeansNystroem as KMeansNystroem
    from aucstream.features.maps.maps import RandomFourier as RandomFourier
    from aucstream.features.maps.maps import RandomNetwork as RandomNetwork
    from aucstream.features.maps.maps import RandomThresholds as RandomThresholds
    from aucstream.features.scaling.scalers import Arctan as Arctan
    from aucstream.features.scaling.scalers import AutoScale as AutoScale
    from aucstream.features.scaling.scalers import BoundedNorm as BoundedNorm
    from aucstream.features.scaling.scalers import Standardize as Standardize
    from aucstream.features.scaling.scalers import UnitNorm as UnitNorm
    from aucstream.learners.adaoam import AdaOAM as AdaOAM
    from aucstream.learners.asam import ASAM as ASAM
    from aucstream.learners.cbr import CBR as CBR
    from aucstream.learners.fsauc import FSAUC as FSAUC
    from aucstream.learners.ftrl import FTRL as FTRL
    from aucstream.learners.jointforest import JointForest as JointForest
    from aucstream.learners.mba import MBA as MBA
    from aucstream.learners.minibatch import MiniBatchAUC as MiniBatchAUC
    from aucstream.learners.oam import OAM as OAM
    from aucstream.learners.onlinelogistic import OnlineLogistic as OnlineLogistic
    from aucstream.learners.opauc import OPAUC as OPAUC
    from aucstream.learners.psam import PSAM as PSAM
    from aucstream.learners.regsolam import RegSOLAM as RegSOLAM
    from aucstream.learners.solam import SOLAM as SOLAM
    from aucstream.learners.spam import SPAM as SPAM
    from aucstream.learners.spdam import SPDAM as SPDAM
    from aucstream.learners.univariateexp import UnivariateExp as UnivariateExp
    from aucstream.learners.vrspam import VRSPAM as VRSPAM
    from aucstream.loading import from_bytes as from_bytes
    from aucstream.loading import load as load
    from aucstream.pipeline import Pipeline as Pipeline
    from aucstream.portfolio.auto import Auto as Auto

_HOMES = {
    "Arctan": "aucstream.features.scaling.scalers",
    "AutoScale": "aucstream.features.scaling.scalers",
    "BoundedNorm": "aucstream.features.scaling.scalers",
    "Columns": "aucstream.features.columns",
    "Hashing": "aucstream.features.encoding.hashing",
    "KMeansNystroem": "aucstream.features.maps.maps",
    "Pipeline": "aucstream.pipeline",
    "RandomFourier": "aucstream.features.maps.maps",
    "RandomNetwork": "aucstream.features.maps.maps",
    "RandomThresholds": "aucstream.features.maps.maps",
    "Standardize": "aucstream.features.scaling.scalers",
    "UnitNorm": "aucstream.features.scaling.scalers",
    "Vocabulary": "aucstream.features.encoding.vocabulary",
    "from_bytes": "aucstream.loading",
    "load": "aucstream.loading",
    **{entry.class_name: entry.home for entry in LEARNERS.values()},
}
_ROOMS = ("batch", "client", "errors", "evaluate", "features", "io", "metrics")

# constants first, then classes, then functions
__all__ = sorted([*_HOMES, "__version__"], key=lambda name: (not name.isupper(), not name[0].isupper(), name))


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"aucstream.{name}")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream' has no attribute {name!r}")
    value = getattr(importlib.import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_ROOMS])
