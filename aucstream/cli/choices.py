"""The models and the feature map that `--model` and `--map` name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from aucstream.cli.options import check_numbers
from aucstream.constraints import Rule, rules_of
from aucstream.errors import InvalidParams
from aucstream.features.columns import Columns
from aucstream.features.encoding.turnover import Eviction
from aucstream.features.maps.maps import map_class
from aucstream.features.scaling.scalers import OFFERED, is_scaling
from aucstream.pipeline import ColumnsSpec, Pipeline, PipelineSpec
from aucstream.registry import LEARNERS, learner_class

EVICTIONS: tuple[str, ...] = get_args(Eviction)


@dataclass(frozen=True, slots=True)
class VocabularyChoice:
    """Which names have columns.

    Attributes
    ----------
    encoder : dict
        As in a spec.
    columns : ColumnsSpec
    """

    encoder: dict[str, Any]
    columns: ColumnsSpec


def vocabulary_choice(capacity: int, min_count: int, eviction: str, said: Columns | None = None) -> VocabularyChoice:
    """Return what `--capacity`, `--min-count`, `--eviction` and the options of columns name.

    Parameters
    ----------
    capacity, min_count : int
        Values of the options, 1 or more.
    eviction : str
        Value of the option.
    said : Columns, optional
        What columns are.

    Returns
    -------
    VocabularyChoice

    Raises
    ------
    InvalidParams
        A value is out of its range.
    """
    check_numbers(capacity=capacity, min_count=min_count)
    if eviction not in EVICTIONS:
        raise InvalidParams("--eviction", " | ".join(map(repr, EVICTIONS)), eviction)
    columns = ColumnsSpec.of(Columns() if said is None else said).model_copy(
        update={"min_count": min_count, "eviction": cast("Eviction", eviction)}
    )
    return VocabularyChoice({"kind": "vocabulary", "capacity": capacity}, columns)


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """One model of the command line.

    Attributes
    ----------
    name : str
        Registry name of the learner.
    params : dict of str to object
        The parameters that the option sets; the others keep their defaults.
    """

    name: str
    params: dict[str, Any]

    @property
    def label(self) -> str:
        """The option's text: NAME:param=value,…"""
        items = ",".join(f"{param}={value}" for param, value in self.params.items())
        return f"{self.name}:{items}" if items else self.name

    def pipeline(
        self, scale: str, seed: int, map_spec: dict[str, Any] | None = None, vocabulary: VocabularyChoice | None = None
    ) -> Pipeline:
        """Return a new pipeline of this model.

        Parameters
        ----------
        scale : str
            Name of the scaling.
        seed : int
            Seed of the learner, 0 or more.
        map_spec : dict, optional
            Specification of the feature map; None: no map.
        vocabulary : VocabularyChoice, optional
            Which names have columns; None: the default.

        Returns
        -------
        Pipeline

        Raises
        ------
        InvalidParams
            `scale` is not the name of a scaling.
        """
        if not is_scaling(scale):
            raise InvalidParams("--scale", f"{' | '.join(OFFERED)} (one that forgets: standard@3000+bounded)", scale)
        spec = PipelineSpec(algorithm=self.name, params=dict(self.params), scaler=scale, map=map_spec, seed=seed)
        if vocabulary is not None:
            spec = spec.model_copy(update={"encoder": vocabulary.encoder, "columns": vocabulary.columns})
        return Pipeline.from_spec(spec)


def model_choices(texts: Sequence[str]) -> list[ModelChoice]:
    """Return the models that `--model` options name; `all` is every algorithm with its defaults.

    Parameters
    ----------
    texts : sequence of str
        Values of the option, NAME[:param=value,…] each.

    Returns
    -------
    list of ModelChoice

    Raises
    ------
    InvalidParams, UnknownLearner
        A name is not in the registry, or a parameter is not one of the learner's or out of its range.
    """
    choices: list[ModelChoice] = []
    for text in texts:
        name, _, rest = text.partition(":")
        if name == "all" and not rest:
            choices += [ModelChoice(learner, {}) for learner in LEARNERS]
        else:
            choices.append(ModelChoice(name, _params("--model", name, rest, rules_of(learner_class(name)))))
    return choices


def map_spec(text: str | None) -> dict[str, Any] | None:
    """Return the specification of the feature map that `--map KIND[:param=value,…]` names.

    Parameters
    ----------
    text : str or None
        Value of the option; None, "none" and "null": no map.

    Returns
    -------
    dict or None

    Raises
    ------
    InvalidParams
        The kind is unknown, or a parameter is not one of the map's or out of its range.
    """
    if text is None or text.lower() in ("none", "null"):
        return None
    kind, _, rest = text.partition(":")
    return {"kind": kind, **_params("--map", kind, rest, rules_of(map_class(kind, "--map")))}


def _params(option: str, name: str, text: str, rules: dict[str, Rule]) -> dict[str, Any]:
    """Parse `param=value,param=value` and check each value."""
    params: dict[str, Any] = {}
    for item in filter(None, text.split(",")):
        param, equals, value = item.partition("=")
        if not equals:
            raise InvalidParams(f"{option} {name}:{text}", "NAME:param=value,param=value", item)
        if param not in rules:
            raise InvalidParams(f"{option} {name}:{text}", f"parameters among {', '.join(rules)}", param)
        params[param] = rules[param].checked(f"{option} {name}:{param}", _value(value, rules[param]))
    return params


def _value(text: str, rule: Rule) -> Any:
    """Convert a parameter's text to the rule's type; text that does not convert is left to the rule's check."""
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
