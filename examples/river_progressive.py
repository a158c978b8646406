"""River's progressive validation with aucstream's learners, unchanged.

python examples/river_progressive.py
"""

from __future__ import annotations

from river import datasets, evaluate, linear_model, preprocessing

from aucstream import FSAUC, OAM, PSAM, SOLAM, AutoScale, Pipeline
from aucstream.metrics import AUC


def main() -> None:
    models = {
        "StandardScaler | LogisticRegression (River)": preprocessing.StandardScaler()
        | linear_model.LogisticRegression(),
        "StandardScaler | PSAM": preprocessing.StandardScaler() | PSAM(),
        "StandardScaler | SOLAM": preprocessing.StandardScaler() | SOLAM(),
        "StandardScaler | FSAUC": preprocessing.StandardScaler() | FSAUC(),
        "StandardScaler | OAM": preprocessing.StandardScaler() | OAM(),
        "Pipeline(AutoScale(), PSAM())": Pipeline(AutoScale(), PSAM()),
    }
    for name, model in models.items():
        metric = evaluate.progressive_val_score(datasets.Phishing(), model, AUC())
        low, high = metric.interval()
        print(f"{name:45s} AUC {metric.get():.4f}   95 % interval {low:.4f} to {high:.4f}")


if __name__ == "__main__":
    main()
