"""The steps of a pipeline before its learner: from objects to names, and from specs to objects."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from aucstream.constraints import rules_of
from aucstream.errors import InvalidParams
from aucstream.features.columns import Columns
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.hashing import Hashing
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.maps.base import FeatureMap
from aucstream.features.scaling.scalers import (
    SCALERS,
    Arctan,
    AutoScale,
    BoundedNorm,
    Scaler,
    Standardize,
    UnitNorm,
    with_half_life,
    without_half_life,
)
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.learner import Learner

ENCODERS: dict[str, type[Encoder]] = {"vocabulary": Vocabulary, "hashing": Hashing}


def sorted_steps(steps: tuple[Any, ...]) -> tuple[Columns | None, Encoder, str, FeatureMap | None, Learner]:
    """Return (columns, encoder, name of the scaling, map, learner) of a pipeline's steps."""
    rest = list(steps)
    columns: Columns | None = rest.pop(0) if isinstance(rest[0], Columns) else None
    if not isinstance(rest[-1], Learner):
        raise InvalidParams("Pipeline", "a learner as its last step", rest[-1])
    learner = rest.pop()
    if Capability.PIPELINE not in learner._capabilities:
        raise InvalidParams("Pipeline", "a learner that takes the place of a last step", type(learner).__name__)
    encoder: Encoder = rest.pop(0) if rest and isinstance(rest[0], Encoder) else Vocabulary()
    if columns is not None:
        encoder = encoder_under(columns, encoder)
    map_: FeatureMap | None = rest.pop() if rest and isinstance(rest[-1], FeatureMap) else None
    if not all(isinstance(step, Scaler) for step in rest):
        wrong = next(step for step in rest if not isinstance(step, Scaler))
        raise InvalidParams("Pipeline", "steps columns, encoder, scalers, map, learner", wrong)
    words = []
    for step in rest:
        if isinstance(step, AutoScale):
            words.append(with_half_life("auto", step.half_life))
        elif isinstance(step, Standardize):
            words.append(with_half_life("standard" if step.with_mean else "scale", step.half_life))
        elif isinstance(step, Arctan):
            words.append("arctan")
        elif isinstance(step, BoundedNorm):
            words.append("bounded")
        elif isinstance(step, UnitNorm):
            words.append("l2")
    name = "+".join(words) or "none"
    plain, _ = without_half_life(name)
    if plain != "auto" and plain not in SCALERS:
        raise InvalidParams(
            "Pipeline",
            "scalers AutoScale, or Standardize and then one of BoundedNorm, UnitNorm, or Arctan and BoundedNorm",
            name,
        )
    return columns, encoder, name, map_, learner


def encoder_under(columns: Columns, encoder: Encoder) -> Encoder:
    """Return an encoder with the `min_count` and the `eviction` that columns ask for; another one where they do."""
    values: dict[str, Any] = {"min_count": columns.min_count, "eviction": columns.eviction}
    defaults = {name: rules_of(Vocabulary)[name].default for name in values}
    asked = {name: value for name, value in values.items() if value != defaults[name]}
    if not asked:
        return encoder
    if not isinstance(encoder, Vocabulary):
        name, value = next(iter(asked.items()))
        raise InvalidParams(f"columns.{name}", f"{defaults[name]!r} with an encoder that keeps no names", value)
    encoder = copy.deepcopy(encoder)
    encoder.change(**asked)
    return encoder


def steps_of(name: str) -> list[Scaler]:
    """Return the scalers that a name stands for."""
    name, half_life = without_half_life(name)
    scalers: dict[str, Scaler] = {
        "auto": AutoScale(half_life),
        "standard": Standardize(half_life=half_life),
        "scale": Standardize(with_mean=False, half_life=half_life),
        "arctan": Arctan(),
        "bounded": BoundedNorm(),
        "l2": UnitNorm(),
    }
    return [scalers[word] for word in name.split("+") if word != "none"]


def encoder_of(spec: Mapping[str, Any]) -> Encoder:
    """Return the encoder that `{"kind": …}` describes; every parameter is checked."""
    kind = spec.get("kind")
    cls = ENCODERS.get(kind) if isinstance(kind, str) else None
    if cls is None:
        raise InvalidParams("encoder.kind", "'vocabulary' | 'hashing'", kind)
    allowed = {"kind", *rules_of(cls)}
    unknown = set(spec) - allowed
    if unknown:
        raise InvalidParams("encoder", f"only {', '.join(sorted(allowed))}", sorted(unknown)[0])
    encoder: Encoder = cls(**{name: value for name, value in spec.items() if name != "kind"})
    return encoder
