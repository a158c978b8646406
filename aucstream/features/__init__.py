"""Encoders, scalers and feature maps; each name is loaded when it is first used."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.features.hashing import Hashing as Hashing
    from aucstream.features.maps import KMeansNystroem as KMeansNystroem
    from aucstream.features.maps import RandomFourier as RandomFourier
    from aucstream.features.maps import RandomNetwork as RandomNetwork
    from aucstream.features.maps import RandomThresholds as RandomThresholds
    from aucstream.features.scalers import AutoScale as AutoScale
    from aucstream.features.scalers import BoundedNorm as BoundedNorm
    from aucstream.features.scalers import Standardize as Standardize
    from aucstream.features.scalers import UnitNorm as UnitNorm
    from aucstream.features.vocabulary import Vocabulary as Vocabulary

_HOMES = {
    "AutoScale": "scalers",
    "BoundedNorm": "scalers",
    "Hashing": "hashing",
    "KMeansNystroem": "maps",
    "RandomFourier": "maps",
    "RandomNetwork": "maps",
    "RandomThresholds": "maps",
    "Standardize": "scalers",
    "UnitNorm": "scalers",
    "Vocabulary": "vocabulary",
}

__all__ = [
    "AutoScale",
    "BoundedNorm",
    "Hashing",
    "KMeansNystroem",
    "RandomFourier",
    "RandomNetwork",
    "RandomThresholds",
    "Standardize",
    "UnitNorm",
    "Vocabulary",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'aucstream.features' has no attribute {name!r}")
    return getattr(importlib.import_module(f"aucstream.features.{home}"), name)


def __dir__() -> list[str]:
    return list(__all__)
