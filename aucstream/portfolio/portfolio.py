"""The members that `Auto` has at its defaults, and the names by which others are asked for."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from aucstream.block import Form
from aucstream.errors import InvalidParams
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.vocabulary import Vocabulary
from aucstream.features.maps.mapping import Mapped
from aucstream.features.maps.maps import MAPS, map_of
from aucstream.features.scaling.scalers import is_scaling, resolve_auto, scaling_of
from aucstream.registry import LEARNERS, learner_class, make
from aucstream.stages import Stages

NARROW = 300  # columns up to which moments of all pairs of columns are worth their cost
SPARSE = 0.5  # rows whose entries are fewer than this share of the columns are sparse

ALL = frozenset(Form)
DENSE = frozenset({Form.NAMED, Form.DENSE})
CSR = frozenset({Form.NAMED, Form.CSR})


@dataclass(frozen=True, slots=True)
class Candidate:
    """One member before it has learned.

    Attributes
    ----------
    name : str
        SCALER/LEARNER or SCALER/MAP/LEARNER, and parameters in brackets where a part has other than defaults.
    scaler : str
        Name of its scaling.
    algorithm : str
        Registry name of its learner.
    params : dict
        Of the learner.
    cost : float
        What a row costs, in rows of PSAM. Fixed numbers, so that no decision depends on a clock.
    forms : set of Form
        Of the first row, with which it takes part.
    most_columns : int or None
        It leaves where there are more columns.
    map : dict or None
        Kind and parameters of the feature map before its learner.
    """

    name: str
    scaler: str
    algorithm: str
    params: dict[str, Any]
    cost: float = 1.0
    forms: frozenset[Form] = field(default=ALL)
    most_columns: int | None = None
    map: dict[str, Any] | None = None

    def takes(self, columns: int) -> bool:
        """Return whether it takes part where there are so many columns."""
        return self.most_columns is None or columns <= self.most_columns

    def stages(self, encoder: Encoder, seed: int) -> Stages:
        """Return a new model of this member, whose columns are those of `encoder`."""
        params = self.params
        if "seed" in learner_class(self.algorithm)._parameters:
            params = {**params, "seed": _sum(seed, params.get("seed"))}  # one that it drew would differ at each start
        is_open = self.scaler.startswith("auto")  # until the form of the first rows is known
        resolved = None if is_open else self.scaler
        scaling = scaling_of(resolve_auto(Form.NAMED, self.scaler) if is_open else self.scaler)
        learner = make(self.algorithm, params)
        mapping = None
        if self.map is not None:
            mapping = Mapped(map_of({**self.map, "seed": _sum(seed, self.map.get("seed"))}), encoder, learner)
        stages = Stages(encoder, scaling, learner, resolved, mapping)
        stages.adopt(encoder)
        return stages


def _sum(seed: int, own: Any) -> Any:
    """Return the seed of a member: that of `Auto`, and its own where it names one."""
    return (seed + own) % (1 << 63) if isinstance(own, int) else seed if own is None else own


def _part(name: str, params: Mapping[str, Any]) -> str:
    return f"{name}({';'.join(f'{name}={value}' for name, value in params.items())})" if params else name


def _candidate(
    scaler: str,
    algorithm: str,
    cost: float,
    forms: frozenset[Form] = ALL,
    most_columns: int | None = None,
    map: Mapping[str, Any] | None = None,
    **params: Any,
) -> Candidate:
    parts = [scaler, _part(algorithm, params)]
    if map is not None:
        parts.insert(1, _part(map["kind"], {name: value for name, value in map.items() if name != "kind"}))
    map = None if map is None else dict(map)
    return Candidate("/".join(parts), scaler, algorithm, params, cost, forms, most_columns, map)


THRESHOLDS = {"kind": "randomthresholds", "components": 300, "warmup": 200}
LANDMARKS = {"kind": "kmeansnystroem", "landmarks": 50, "warmup": 200}

DEFAULT: tuple[Candidate, ...] = (
    _candidate("none", "jointforest", 5.0),
    _candidate("none", "jointforest", 5.0, DENSE, seed=1),
    _candidate("auto", "psam", 1.0),
    _candidate("standard@3000+l2", "ftrl", 0.3),
    _candidate("l2", "cbr", 2.0),
    _candidate("standard+l2", "onlinelogistic", 0.2, eta0=64.0),
    _candidate("standard", "ftrl", 0.3, DENSE),
    _candidate("auto", "mba", 0.5, DENSE, NARROW),
    _candidate("arctan+bounded", "mba", 0.5, DENSE, NARROW),
    _candidate("arctan+bounded", "mba", 0.5, DENSE, NARROW, half_life=3000, clock="global"),
    _candidate("arctan+bounded", "mba", 10.0, DENSE, NARROW, map=THRESHOLDS),
    _candidate("arctan+bounded", "mba", 1.0, DENSE, NARROW, map=LANDMARKS),
    _candidate("l2", "psam", 1.0),
    _candidate("none", "ftrl", 0.3, alpha=0.1, l1=0.0),
    _candidate("auto", "ftrl", 0.3, CSR, l1=0.0),
    _candidate("l2", "ftrl", 0.3),
    _candidate("standard+l2", "cbr", 2.0, CSR),
)


PORTFOLIOS: dict[str, tuple[Candidate, ...]] = {"2026": DEFAULT}  # a later version adds others, and changes none
NEWEST = "2026"

_COSTS = {(candidate.map and candidate.map["kind"], candidate.algorithm): candidate.cost for candidate in DEFAULT}
_PART = r"\w+(?:\([^()]*\))?"
_MEMBER = re.compile(rf"(?P<scaler>[^/\s]+)(?:/(?P<map>{_PART}))?/(?P<learner>{_PART})")
_ALLOWED = "members SCALER/LEARNER or SCALER/MAP/LEARNER between spaces"


def _params_of(part: str) -> tuple[str, dict[str, Any]]:
    """Return (name, parameters) of "name(parameter=value;parameter=value)"."""
    name, _, text = part.rstrip(")").partition("(")
    params: dict[str, Any] = {}
    for item in filter(None, text.split(";")):
        key, value = map(str.strip, item.partition("=")[::2])
        if key in params:
            raise InvalidParams("Auto.portfolio", f"each parameter of {name} once", key)
        try:
            params[key] = None if value == "None" else json.loads(value)
        except ValueError:
            params[key] = value
    return name, params


def _candidate_of(text: str) -> Candidate:
    """Return the member that a text names; it costs what members of its learner and its map cost at the defaults."""
    match = _MEMBER.fullmatch(text)
    scaler = match["scaler"] if match else ""
    algorithm, params = _params_of(match["learner"] if match else "")
    kind, map_params = _params_of((match and match["map"]) or "")
    is_map = kind in MAPS or not (match and match["map"])
    if not is_scaling(scaler) or algorithm not in LEARNERS or algorithm == "auto" or not is_map:
        raise InvalidParams("Auto.portfolio", f"{list(PORTFOLIOS)}, or {_ALLOWED}", text)
    cost = _COSTS.get((kind or None, algorithm), _COSTS.get((None, algorithm), 1.0))
    return _candidate(scaler, algorithm, cost, map={"kind": kind, **map_params} if kind else None, **params)


def candidates_named(text: str) -> tuple[Candidate, ...]:
    """Return the members of a portfolio; the values of their parameters are not checked.

    Parameters
    ----------
    text : str
        The name of a portfolio, or members between spaces.

    Returns
    -------
    tuple of Candidate

    Raises
    ------
    InvalidParams
        A portfolio, a scaling or a learner of that name is none, or a member comes twice.
    """
    if text in PORTFOLIOS:
        return PORTFOLIOS[text]
    members = tuple(map(_candidate_of, text.split()))
    counts = Counter(member.name for member in members)
    if len(counts) < len(members):
        raise InvalidParams("Auto.portfolio", "each member once", counts.most_common(1)[0][0])
    if not members:
        raise InvalidParams("Auto.portfolio", f"{list(PORTFOLIOS)}, or {_ALLOWED}", text)
    return members


def candidates_of(text: str) -> tuple[Candidate, ...]:
    """Return the members of a portfolio, or raise what `candidates_named` and their parameters raise."""
    members = candidates_named(text)
    if text not in PORTFOLIOS:
        for member in members:
            member.stages(Vocabulary(), 0)  # raises where a parameter is out of its range
    return members
