"""Encoders, scalers and feature maps; each name is loaded when it is first used.

May import `native`, `metrics`, `kernels` and below; `maps` also the learners' base.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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

_HOMES = {
    "Arctan": "scaling.scalers",
    "AutoScale": "scaling.scalers",
    "BoundedNorm": "scaling.scalers",
    "Columns": "columns",
    "Hashing": "encoding.hashing",
    "KMeansNystroem": "maps.maps",
    "RandomFourier": "maps.maps",
    "RandomNetwork": "maps.maps",
    "RandomThresholds": "maps.maps",
    "Standardize": "scaling.scalers",
    "UnitNorm": "scaling.scalers",
    "Vocabulary": "encoding.vocabulary",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream.features' has no attribute {name!r}")
    return getattr(importlib.import_module(f"aucstream.features.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
