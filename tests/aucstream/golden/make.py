"""Write the golden snapshots that are missing: `python -m tests.aucstream.golden.make`.

What is there, a file and its scores, was written by the format's first version, and stays. A model that lacks one of
the two gets both anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from aucstream import SOLAM, AutoScale, Hashing, Pipeline, RandomFourier, Standardize, UnitNorm, load
from aucstream.constraints import rules_of
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.registry import LEARNERS, learner_class, make

FOLDER = Path(__file__).parent / "v1"
FIRST: dict[str, dict[str, Any]] = {"solam": {"cap": 0.25}, "regsolam": {"cap": 0.25}}  # defaults of the recorded scores

PROBES = [
    {"a": 1.0, "b": 2.0, "word": "x", "flag": True},
    {"a": -1.0, "b": 0.5, "tags": ["u", "v"]},
    {"a": 0.25, "new": 3.0},
    {},
]


def _params(name: str) -> dict[str, Any]:
    """Return the parameters of a learner's golden file; of one that has none yet, buffers of 6 rows."""
    path = FOLDER / f"{name}.safetensors"
    if path.exists():
        return load(path)._params()
    rules = rules_of(learner_class(name))
    sizes = {param: 6 for param, rule in rules.items() if rule.size and rule.size.kind == "buffered rows"}
    return {**sizes, **FIRST.get(name, {})}


def models() -> dict[str, RankingClassifier]:
    """Return the models before they have learned."""
    made: dict[str, RankingClassifier] = {name: make(name, _params(name)) for name in LEARNERS}
    made["opauc-rank"] = make("opauc", {"rank": 3})
    made["pipeline"] = Pipeline(AutoScale(), make("psam", {"capacity": 6}))
    made["pipeline-hashing"] = Pipeline(Hashing(4), Standardize(), UnitNorm(), SOLAM(norm="l1", cap=0.25), calibration="none")
    made["pipeline-map"] = Pipeline(AutoScale(), RandomFourier(components=8, warmup=40), SOLAM(cap=0.25))
    return made


def learn(model: RankingClassifier) -> None:
    """Learn the rows that all golden models have learned."""
    random = np.random.default_rng(2026)
    for i in range(120):
        y = bool(random.random() < 0.4)
        x = {"a": float(random.normal() + y), "b": float(random.normal()), "flag": i % 3 == 0}
        x |= {"word": "xyz"[i % 3]} if i % 2 else {"tags": ["u", "w"]}
        model.learn_one(x, y)


def is_whole(name: str, recorded: dict[str, Any]) -> bool:
    """Return whether a model has both its file and its scores; one without the other shows nothing."""
    return name in recorded and (FOLDER / f"{name}.safetensors").exists()


def main() -> None:
    """Write the file and the scores of the probes of each model that lacks one of the two."""
    recorded = json.loads((FOLDER / "scores.json").read_text())
    for name, model in models().items():
        if is_whole(name, recorded):
            continue
        learn(model)
        model.save(FOLDER / f"{name}.safetensors")
        recorded[name] = {
            "scores": [model.score_one(x) for x in PROBES],
            "probabilities": [model.predict_proba_one(x)[True] for x in PROBES],
            "examples": model.examples,
        }
    (FOLDER / "scores.json").write_text(json.dumps(recorded, indent=1) + "\n")


if __name__ == "__main__":
    main()
