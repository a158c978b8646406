"""The members that `Auto` has at its defaults, and the names by which others are asked for."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from aucstream.block import Form
from aucstream.errors import InvalidParams
from aucstream.features.encoding.encoder import Encoder
from aucstream.features.encoding.vocabulary import Vocabulary
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
        SCALER/LEARNER, and parameters in brackets where it has other than defaults.
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
    """

    name: str
    scaler: str
    algorithm: str
    params: dict[str, Any]
    cost: float = 1.0
    forms: frozenset[Form] = field(default=ALL)
    most_columns: int | None = None

    def takes(self, columns: int) -> bool:
        """Return whether it takes part where there are so many columns."""
        return self.most_columns is None or columns <= self.most_columns

    def stages(self, encoder: Encoder, seed: int) -> Stages:
        """Return a new model of this member, whose columns are those of `encoder`."""
        params = self.params
        if "seed" in learner_class(self.algorithm)._parameters and params.get("seed") is None:
            params = {**params, "seed": seed}  # one that it drew would be another after each start
        is_open = self.scaler.startswith("auto")  # until the form of the first rows is known
        resolved = None if is_open else self.scaler
        scaling = scaling_of(resolve_auto(Form.NAMED, self.scaler) if is_open else self.scaler)
        stages = Stages(encoder, scaling, make(self.algorithm, params), resolved)
        stages.adopt(encoder)
        return stages


def _candidate(
    scaler: str,
    algorithm: str,
    cost: float,
    forms: frozenset[Form] = ALL,
    most_columns: int | None = None,
    **params: Any,
) -> Candidate:
    brackets = f"({';'.join(f'{name}={value}' for name, value in params.items())})" if params else ""
    return Candidate(f"{scaler}/{algorithm}{brackets}", scaler, algorithm, params, cost, forms, most_columns)


DEFAULT: tuple[Candidate, ...] = (
    _candidate("none", "jointforest", 8.0),
    _candidate("auto", "psam", 1.0),
    _candidate("standard+l2", "ftrl", 0.3),
    _candidate("l2", "cbr", 2.0),
    _candidate("standard+l2", "onlinelogistic", 0.2, eta0=64.0),
    _candidate("standard", "ftrl", 0.3, DENSE),
    _candidate("auto", "mba", 0.5, DENSE, NARROW),
    _candidate("arctan+bounded", "mba", 0.5, DENSE, NARROW),
    _candidate("l2", "psam", 1.0),
    _candidate("auto", "ftrl", 0.3, CSR, l1=0.0),
    _candidate("l2", "ftrl", 0.3),
    _candidate("standard+l2", "cbr", 2.0, CSR),
)


PORTFOLIOS: dict[str, tuple[Candidate, ...]] = {"2026": DEFAULT}  # a later version adds others, and changes none
NEWEST = "2026"

_MEMBER = re.compile(r"(?P<scaler>[^/\s]+)/(?P<algorithm>\w+)(?:\((?P<params>[^()]*)\))?")


def _candidate_of(text: str) -> Candidate:
    """Return the member that SCALER/LEARNER or SCALER/LEARNER(param=value;param=value) names; its cost is 1."""
    match = _MEMBER.fullmatch(text)
    scaler, algorithm = (match["scaler"], match["algorithm"]) if match else ("", "")
    if not is_scaling(scaler) or algorithm not in LEARNERS or algorithm == "auto":
        raise InvalidParams("Auto.portfolio", f"{list(PORTFOLIOS)}, or members SCALER/LEARNER between spaces", text)
    params: dict[str, Any] = {}
    for item in filter(None, ((match and match["params"]) or "").split(";")):
        name, _, value = item.partition("=")
        try:
            params[name.strip()] = json.loads(value)
        except ValueError:
            params[name.strip()] = value.strip()
    return _candidate(scaler, algorithm, 1.0, **params)


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
        raise InvalidParams("Auto.portfolio", f"{list(PORTFOLIOS)}, or members SCALER/LEARNER between spaces", text)
    return members


def candidates_of(text: str) -> tuple[Candidate, ...]:
    """Return the members of a portfolio, or raise what `candidates_named` and their parameters raise."""
    members = candidates_named(text)
    if text not in PORTFOLIOS:
        for member in members:
            member.stages(Vocabulary(), 0)  # raises where a parameter is out of its range
    return members
