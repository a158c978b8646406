"""A scorer: asks a running service for the scores of examples, and for the model's running AUC.

python examples/scorer.py --url http://127.0.0.1:8000 --model phishing
"""

from __future__ import annotations

import argparse
import itertools

from river import datasets

from aucstream.client import Client, Retry


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="phishing")
    options = parser.parse_args()
    with Client(options.url, retry=Retry(deadline=5)) as client:
        for features, label in itertools.islice(datasets.Phishing(), 5):
            prediction = client.predict_one(options.model, features)
            print(f"score {prediction.score:+.3f}  probability {prediction.probability:.3f}  (label {label})")
        window = client.evaluation(options.model).window
        print(f"AUC over the last {window.examples} examples: {window.auc}")


if __name__ == "__main__":
    main()
