"""From `--model NAME:param=value,…` to pipelines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

from aucstream.constraints import Rule, rules_of
from aucstream.errors import InvalidParams
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

    def pipeline(self, scale: str, seed: int) -> Pipeline:
        """Return a fresh pipeline."""
        if scale not in SCALES:
            raise InvalidParams("--scale", " | ".join(SCALES), scale)
        return Pipeline.from_spec(PipelineSpec(algorithm=self.name, params=dict(self.given), scaler=scale, seed=seed))


def chosen_models(texts: Sequence[str]) -> list[Chosen]:
    """Return the models that `--model` options name; `all` is every algorithm with its defaults."""
    models: list[Chosen] = []
    for text in texts:
        name, _, rest = text.partition(":")
        if name == "all" and not rest:
            models += [Chosen(each, {}) for each in LEARNERS]
            continue
        rules = rules_of(learner_class(name))
        given: dict[str, Any] = {}
        for item in filter(None, rest.split(",")):
            key, equals, value = item.partition("=")
            if not equals:
                raise InvalidParams(f"--model {text}", "NAME:param=value,param=value", item)
            if key not in rules:
                raise InvalidParams(f"--model {text}", f"parameters among {', '.join(rules)}", key)
            given[key] = rules[key].checked(f"--model {name}:{key}", _value(value, rules[key]))
        models.append(Chosen(name, given))
    return models


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
