"""Five cases from the field (Q1 to Q5): what each learner does at its defaults, and with what it has against them.

    python benchmarks/quality/cases.py > cases.md

Q1: 20,000 rows, 4 % positive, an amount N(1.5 y, 1) and one of 300 words that say nothing: AUC of the second half,
    less that of the amount alone. Holds: -.010 or more.
Q2: 31,000 negatives of 3 heavy-tailed numbers, then equal positives far from them: the share of the last 5,000 negatives
    below the lowest score of rows 21 to 999 of the burst. Holds: .99.
Q3: two columns N(y, 1), 2 % positive, 30,000 rows, the second times 10, or 1,000, from row 10,000: AUC from row 13,000,
    less that without the change. Holds: -.010.
Q4: one column N(1.5 y, 1), one of noise, 2 % positive, 20,000 rows, and the row's number as a third: AUC of the second
    half, less that without it. Holds: -.010.
Q5: elec2 in time: progressive AUC. Auto's best looked-up peer has .957.

A second line of a learner is that with its parameters and a scaling that forget.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from stream_sets import stream_of

from aucstream.metrics.exact import area
from aucstream.pipeline import Pipeline, PipelineSpec
from aucstream.registry import LEARNERS

FORGETTING: dict[str, dict[str, Any]] = {
    **{name: {"half_life": 3000.0} for name in ("psam", "asam", "oam", "solam", "spam", "mba")},
    "onlinelogistic": {"eta_min": 0.1},
}

Model = Callable[[], Pipeline]


def progressive(model: Pipeline, X: Any, y: np.ndarray) -> np.ndarray:
    """Return what a model says of each row before it learns it."""
    return np.nan_to_num(model.engine.learn_array(X, y))


def auc(y: np.ndarray, scores: np.ndarray) -> float:
    """Return the AUC of scores."""
    return area(np.where(y, 1.0, -1.0), scores).auc


def q1(model: Model) -> float:
    """Return the AUC with a word that says nothing less that of the telling column alone."""
    random = np.random.default_rng(0)
    n, words = 20_000, 300
    y = random.random(n) < 0.04
    amount = random.normal(size=n) + 1.5 * y
    columns = np.column_stack([np.zeros(n, dtype=np.int64), 1 + random.integers(words, size=n)])
    values = np.column_stack([amount, np.ones(n)])
    X = sparse.csr_array((values.ravel(), columns.ravel(), np.arange(0, 2 * n + 1, 2)), shape=(n, words + 1))
    half = slice(n // 2, n)
    return auc(y[half], progressive(model(), X, y)[half]) - auc(y[half], amount[half])


def q2(model: Model) -> float:
    """Return the share of the last negatives that a burst has all below it from its 21st row on."""
    random = np.random.default_rng(0)
    quiet, attack = random.standard_t(3, size=(31_000, 3)), np.tile([20.0, -15.0, 12.0], (999, 1))
    X = np.vstack([quiet, [[-6.0, 8.0, 3.0]], attack])
    y = np.arange(len(X)) >= 31_000
    scores = progressive(model(), X, y)
    return float((scores[26_000:31_000] < scores[31_021:].min()).mean())


def q3(model: Model, factor: float) -> float:
    """Return the AUC after a column has changed its unit, less that without the change."""
    random = np.random.default_rng(10)
    y = random.random(30_000) < 0.02
    X = random.normal(size=(y.size, 2)) + 1.0 * y[:, None]
    after = slice(13_000, None)
    expected = auc(y[after], progressive(model(), X, y)[after])
    X[10_000:, 1] *= factor
    return auc(y[after], progressive(model(), X, y)[after]) - expected


def q4(model: Model) -> float:
    """Return the AUC with a column that counts the rows, less that without it."""
    random = np.random.default_rng(20_000)
    n = 20_000
    y = random.random(n) < 0.02
    X = random.normal(size=(n, 2))
    X[:, 0] += 1.5 * y
    half = slice(n // 2, n)
    with_number = progressive(model(), np.column_stack([X, np.arange(n, dtype=float)]), y)
    return auc(y[half], with_number[half]) - auc(y[half], progressive(model(), X, y)[half])


def q5(model: Model) -> float:
    """Return the progressive AUC on elec2 in time."""
    X, y, held, held_y = stream_of("elec2", "own", None)
    del held, held_y
    return auc(y, progressive(model(), X, y))


CASES: dict[str, tuple[Callable[[Model], float], float]] = {
    "Q1": (q1, -0.010),
    "Q2": (q2, 0.99),
    "Q3, x 10": (lambda model: q3(model, 10.0), -0.010),
    "Q3, x 1,000": (lambda model: q3(model, 1000.0), -0.010),
    "Q4": (q4, -0.010),
    "Q5": (q5, 0.957),
}


def main() -> None:
    """Print the table; what holds is bold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(LEARNERS), help="names between commas")
    names = parser.parse_args().models.split(",")
    print("| learner |", " | ".join(CASES), "|")
    print("|---" * (len(CASES) + 1) + "|")
    for name in names:
        specs = [(f"`{name}`", PipelineSpec(algorithm=name))]
        if name not in ("auto", "jointforest"):
            params = FORGETTING.get(name, {})
            text = ", ".join(["auto@3000", *(f"{key}={value:g}" for key, value in params.items())])
            specs.append((f"`{name}`, {text}", PipelineSpec(algorithm=name, params=params, scaler="auto@3000")))
        for label, spec in specs:
            cells = []
            for case, least in CASES.values():
                value = case(lambda spec=spec: Pipeline.from_spec(spec))  # type: ignore[misc]
                cells.append(f"**{value:.3f}**" if value >= least else f"{value:.3f}")
            print(f"| {label} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
