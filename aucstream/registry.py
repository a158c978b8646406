"""The algorithms, one line each, from which the library's names are made too.

Importing it loads nothing but the table: `import aucstream` reads it.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from aucstream.learners._base.learner import Learner


@dataclass(frozen=True, slots=True)
class Entry:
    """What the command line, the documentation and the tests need to know of a learner."""

    class_name: str
    module: str
    memory: str
    step: str
    paper: str
    room: str = "learners"

    @property
    def home(self) -> str:
        """The module that defines the class."""
        return f"aucstream.{self.room}.{self.module}"


LEARNERS: dict[str, Entry] = {
    "auto": Entry("Auto", "auto", "of its members", "of its members", "docs/auto.md", room="portfolio"),
    "solam": Entry("SOLAM", "solam", "O(d)", "O(nnz)", "Ying, Wen, Lyu, NIPS 2016"),
    "regsolam": Entry("RegSOLAM", "regsolam", "O(d)", "O(nnz)", "Natole, Ying, Lyu, 2019"),
    "fsauc": Entry("FSAUC", "fsauc", "O(d)", "O(nnz)", "Liu et al., ICML 2018"),
    "spam": Entry("SPAM", "spam", "O(d)", "O(nnz)", "Natole, Ying, Lyu, ICML 2018"),
    "vrspam": Entry("VRSPAM", "vrspam", "O(n_buffer nnz + d)", "O(nnz), elastic net O(d)", "Dan, Sahoo, 2021"),
    "spdam": Entry("SPDAM", "spdam", "O(n_buffer nnz + d)", "O(nnz)", "Natole, Ying, Lyu, 2019"),
    "psam": Entry("PSAM", "psam", "O(capacity nnz + d)", "O(fresh nnz)", "Khalid, Ray, Chitsaz, 2018"),
    "asam": Entry("ASAM", "asam", "O(capacity nnz + d)", "O(fresh nnz)", "Khalid, Ray, Chitsaz, ECML-PKDD 2018"),
    "cbr": Entry("CBR", "cbr", "O(capacity nnz + d)", "O(capacity nnz)", "Khalid, Ray, Chitsaz, ADMA 2016"),
    "minibatchauc": Entry(
        "MiniBatchAUC", "minibatch", "O(batch nnz + d)", "O(nnz + log batch)", "Gultekin, Saha, Ratnaparkhi, Paisley"
    ),
    "mba": Entry("MBA", "mba", "O(d^2), or O(d) with moments=diag", "O(nnz^2), or O(nnz)", "Gultekin et al., 2018"),
    "oam": Entry("OAM", "oam", "O(capacity nnz + d)", "O(capacity nnz)", "Zhao, Hoi, Jin, Yang, ICML 2011"),
    "onlinelogistic": Entry("OnlineLogistic", "onlinelogistic", "O(d)", "O(nnz)", "Zinkevich, ICML 2003"),
    "univariateexp": Entry("UnivariateExp", "univariateexp", "O(d)", "O(nnz)", "Kotlowski et al., ICML 2011"),
    "ftrl": Entry("FTRL", "ftrl", "O(d)", "O(nnz)", "McMahan et al., KDD 2013"),
    "opauc": Entry("OPAUC", "opauc", "O(d^2), O(rank d)", "O(d^2), O(rank d)", "Gao, Jin, Zhu, Zhou, ICML 2013"),
    "adaoam": Entry("AdaOAM", "adaoam", "O(d^2)", "O(d^2)", "Ding, Zhao, Hoi, Ong, AAAI 2015"),
    "jointforest": Entry(
        "JointForest",
        "jointforest",
        "O(trees nodes + d)",
        "O(trees depth + nnz)",
        "a mixture of online models, this project",
    ),
}


def learner_class(name: str) -> type[Learner]:
    """Return the class of a registry name, or raise UnknownLearner naming near misses."""
    entry = LEARNERS.get(name)
    if entry is None:
        from aucstream.errors import UnknownLearner

        raise UnknownLearner(name, LEARNERS)
    cls: type[Learner] = getattr(importlib.import_module(entry.home), entry.class_name)
    return cls


def mutable_params(name: str) -> frozenset[str]:
    """Return the parameters of an algorithm that may change while it learns: read at each step, of no array's shape."""
    return learner_class(name)._steps_and_penalties


def make(name: str, params: Mapping[str, Any]) -> Learner:
    """Return a learner by registry name; every parameter is checked, unknown ones are named."""
    from aucstream.constraints import rules_of
    from aucstream.errors import InvalidParams

    cls = learner_class(name)
    rules = rules_of(cls)
    for param in params:
        if param not in rules:
            raise InvalidParams(cls.__name__, f"parameters among {', '.join(rules)}", param)
    return cls(**{param: rules[param].checked(f"{cls.__name__}.{param}", value) for param, value in params.items()})
