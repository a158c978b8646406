"""The models and streams that the contracts go over: every learner of the registry, and one that is not linear.

A contract names the capabilities that it needs. A learner that does not declare them is not held to it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from aucstream import AutoScale, Pipeline, from_bytes
from aucstream.constraints import rules_of
from aucstream.learners._base.capabilities import Capability
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.learners._base.learner import Learner
from aucstream.registry import LEARNERS, learner_class, make
from aucstream.snapshot import unpack

from .nonlinear import TanhSum

Make = Callable[..., RankingClassifier]

SHIPPED = tuple(LEARNERS)
# `conftest.py` registers the last one while a contract runs.
CLASSES: dict[str, type[Learner]] = {**{name: learner_class(name) for name in SHIPPED}, "tanhsum": TanhSum}

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    " ".join([name, *(f"{key}={value}" for key, value in params.items())]): (name, params)
    for name, cls in CLASSES.items()
    for params in cls._unit_test_params()
}


def can(variant: str, *needed: Capability) -> bool:
    """Return whether the learner of a variant declares capabilities."""
    return set(needed) <= CLASSES[VARIANTS[variant][0]]._capabilities


def bare(variant: str, **changed: Any) -> RankingClassifier:
    """Return the learner of a variant, alone."""
    name, params = VARIANTS[variant]
    return make(name, {**params, **changed})


def piped(variant: str, **changed: Any) -> RankingClassifier:
    """Return the learner of a variant behind the default scaling."""
    return Pipeline(AutoScale(), bare(variant, **changed))


def literal(variant: str, kappa: float) -> RankingClassifier:
    """Return the learner of a variant, alone, with a fixed scale of rows where it has one to fix."""
    has_kappa = "kappa" in CLASSES[VARIANTS[variant][0]]._parameters
    return bare(variant, **({"kappa": kappa} if has_kappa else {}))


FORMS: dict[str, Make] = {"alone": bare, "piped": piped}
_NEEDS = {"alone": Capability.BARE_ROWS, "piped": Capability.PIPELINE}


def forms_of(variant: str) -> list[Make]:
    """Return the forms in which the learner of a variant can be used."""
    return [make_form for form, make_form in FORMS.items() if can(variant, _NEEDS[form])]


def _pairs(argument: str, variants: Iterable[str], needed: tuple[Capability, ...]) -> pytest.MarkDecorator:
    cases = [(variant, form) for variant in variants for form in FORMS if can(variant, _NEEDS[form], *needed)]
    return pytest.mark.parametrize((argument, "form"), cases, ids=[f"{form}-{variant}" for variant, form in cases])


def learners(*needed: Capability) -> pytest.MarkDecorator:
    """Run a test for every learner with these capabilities, at its defaults: argument `name`."""
    return pytest.mark.parametrize("name", [name for name in CLASSES if can(name, *needed)])


def variants(*needed: Capability) -> pytest.MarkDecorator:
    """Run a test for every variant of every learner with these capabilities: argument `variant`."""
    return pytest.mark.parametrize("variant", [variant for variant in VARIANTS if can(variant, *needed)])


def learners_in_forms(*needed: Capability) -> pytest.MarkDecorator:
    """Run a test for every such learner alone and in a pipeline: arguments `name` and `form`."""
    return _pairs("name", CLASSES, needed)


def variants_in_forms(*needed: Capability) -> pytest.MarkDecorator:
    """Run a test for every such variant alone and in a pipeline: arguments `variant` and `form`."""
    return _pairs("variant", VARIANTS, needed)


def buffer_sizes(name: str, rows: int) -> dict[str, int]:
    """Return parameters for buffers of so many rows, and trees of so many nodes, where a learner has any."""
    rules = rules_of(CLASSES[name])
    return {param: rows for param, rule in rules.items() if rule.size and rule.size.kind in ("buffered rows", "nodes")}


def names_of(model: RankingClassifier) -> set[Any]:
    """Return the names that a model has learned."""
    return set(model._names())


def stream(
    n: int, d: int = 4, positive: float = 0.3, seed: int = 0, zeros: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return (X, y): column 0 tells the classes apart, columns have scales of their own, some entries are 0."""
    random = np.random.default_rng(seed)
    y = random.random(n) < positive
    X = random.normal(size=(n, d))
    X[:, 0] += 1.5 * y
    X *= 2.0 ** (np.arange(d) % 5)
    X[random.random((n, d)) < zeros] = 0.0
    return X, y


def dicts(X: np.ndarray) -> list[dict[str, float]]:
    """Return rows as dicts with names c0, c1, …"""
    return [{f"c{j}": value for j, value in enumerate(row)} for row in X.tolist()]


def frame(X: np.ndarray) -> pd.DataFrame:
    """Return rows as a frame with columns c0, c1, …"""
    return pd.DataFrame(X, columns=[f"c{j}" for j in range(X.shape[1])])


def learn_dicts(model: RankingClassifier, X: np.ndarray, y: Sequence[Any] | np.ndarray) -> RankingClassifier:
    """Learn rows one by one as dicts."""
    for x, label in zip(dicts(X), np.asarray(y).tolist(), strict=True):
        model.learn_one(x, label)
    return model


def scores_of(model: RankingClassifier, X: np.ndarray) -> np.ndarray:
    """Return the scores of rows as dicts."""
    return np.array([model.score_one(x) for x in dicts(X)])


def csr(X: np.ndarray) -> sparse.csr_array:
    """Return rows in scipy's form, zeros left out."""
    return sparse.csr_array(X)


def same(got: np.ndarray, expected: np.ndarray, tolerance: float = 1e-12) -> bool:
    """Return whether scores agree, relative to the largest, and there is something to compare."""
    largest = float(np.abs(expected).max())
    assert largest > 0.0, "all scores are zero: nothing is compared"
    return bool(np.abs(got - expected).max() <= tolerance * largest)


def state(model: RankingClassifier) -> bytes:
    """Return all that a model is, without working space: its bytes as a loaded model writes them."""
    return from_bytes(model.to_bytes()).to_bytes()


def assert_finite(model: RankingClassifier) -> None:
    """Fail where an array of the state holds NaN or infinity."""
    arrays, meta = unpack(model.to_bytes())
    for name, array in arrays.items():
        if array.dtype == np.float64:
            assert np.isfinite(array).all(), name
    json.dumps(meta, allow_nan=False)
