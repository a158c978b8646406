"""Write the golden snapshots that are missing: `python -m tests.aucstream.golden.make`.

What is there was written by the format's first version, and stays.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from aucstream import SOLAM, AutoScale, Hashing, Pipeline, RandomFourier, Standardize, UnitNorm
from aucstream.learners._base.estimator import RankingClassifier
from aucstream.registry import LEARNERS, learner_class, make

FOLDER = Path(__file__).parent / "v1"

PROBES = [
    {"a": 1.0, "b": 2.0, "word": "x", "flag": True},
    {"a": -1.0, "b": 0.5, "tags": ["u", "v"]},
    {"a": 0.25, "new": 3.0},
    {},
]


def models() -> dict[str, RankingClassifier]:
    """Return the models before they have learned."""
    sizes = ("capacity", "n_buffer")
    small = {name: {size: 6 for size in sizes if size in learner_class(name)._parameters} for name in LEARNERS}
    made: dict[str, RankingClassifier] = {name: make(name, params) for name, params in small.items()}
    made["opauc-rank"] = make("opauc", {"rank": 3})
    made["pipeline"] = Pipeline(AutoScale(), make("psam", {"capacity": 6}))
    made["pipeline-hashing"] = Pipeline(Hashing(4), Standardize(), UnitNorm(), SOLAM(norm="l1"), calibration="none")
    made["pipeline-map"] = Pipeline(AutoScale(), RandomFourier(components=8, warmup=40), SOLAM())
    return made


def learn(model: RankingClassifier) -> None:
    """Learn the rows that all golden models have learned."""
    random = np.random.default_rng(2026)
    for i in range(120):
        y = bool(random.random() < 0.4)
        x = {"a": float(random.normal() + y), "b": float(random.normal()), "flag": i % 3 == 0}
        x |= {"word": "xyz"[i % 3]} if i % 2 else {"tags": ["u", "w"]}
        model.learn_one(x, y)


def main() -> None:
    """Write one file a new model, and the scores of the probes."""
    recorded = json.loads((FOLDER / "scores.json").read_text())
    for name, model in models().items():
        if name in recorded:
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
