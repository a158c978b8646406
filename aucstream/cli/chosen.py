"""From `--model NAME:param=value,…` and `--map KIND:param=value,…` to pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from aucstream.constraints import Rule, rules_of
from aucstream.errors import InvalidParams
from aucstream.features.maps.maps import map_class
from aucstream.pipeline import Pipeline, PipelineSpec, ScalerName
from aucstream.registry import LEARNERS, learner_class

SCALES = get_args(ScalerName)


@dataclass(frozen=True, slots=True)
class Chosen:
    """A model asked for on the command line."""

    name: str
    given: dict[str, Any]

    @property
    def label(self) -> str:
        """The model as the user wrote it."""
        return self.name + "".join((":" if i == 0 else ",") + f"{k}={v}" for i, (k, v) in enumerate(self.given.items()))

    def pipeline(self, scale: str, seed: int, map_: dict[str, Any] | None = None) -> Pipeline:
        """Return a fresh pipeline."""
        if scale not in SCALES:
            raise InvalidParams("--scale", " | ".join(SCALES), scale)
        return Pipeline.from_spec(
            PipelineSpec(algorithm=self.name, params=dict(self.given), scaler=scale, map=map_, seed=seed)
        )


def chosen_models(texts: Sequence[str]) -> list[Chosen]:
    """Return the models that `--model` options name; `all` is every algorithm with its defaults."""
    models: list[Chosen] = []
    for text in texts:
        name, _, rest = text.partition(":")
        if name == "all" and not rest:
            models += [Chosen(each, {}) for each in LEARNERS]
            continue
        models.append(Chosen(name, _given("--model", name, rest, rules_of(learner_class(name)))))
    return models


def chosen_map(text: str | None) -> dict[str, Any] | None:
    """Return the spec of the map that `--map KIND:param=value,…` names."""
    if text is None or text.lower() in ("none", "null"):
        return None
    kind, _, rest = text.partition(":")
    return {"kind": kind, **_given("--map", kind, rest, rules_of(map_class(kind, "--map")))}


def _given(option: str, name: str, rest: str, rules: dict[str, Rule]) -> dict[str, Any]:
    """Return the parameters in `param=value,param=value`, each checked."""
    given: dict[str, Any] = {}
    for item in filter(None, rest.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise InvalidParams(f"{option} {name}:{rest}", "NAME:param=value,param=value", item)
        if key not in rules:
            raise InvalidParams(f"{option} {name}:{rest}", f"parameters among {', '.join(rules)}", key)
        given[key] = rules[key].checked(f"{option} {name}:{key}", _value(value, rules[key]))
    return given


def _value(text: str, rule: Rule) -> Any:
    if text.lower() in ("none", "null") and rule.optional:
        return None
    if rule.words or rule.kind is str:
        return text
    if rule.kind is bool:
        return {"true": True, "false": False, "1": True, "0": False}.get(text.lower(), text)
    try:
        return int(text) if rule.kind is int else float(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return text
