"""A scorer: asks a running service for the scores of examples, and for the model's running AUC.

python examples/scorer.py --url http://127.0.0.1:8000 --model phishing
"""

from __future__ import annotations

import argparse
import itertools

import httpx
from river import datasets


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="phishing")
    options = parser.parse_args()
    with httpx.Client(base_url=f"{options.url}/v1/models/{options.model}", timeout=60) as client:
        for features, label in itertools.islice(datasets.Phishing(), 5):
            answer = client.post("/predict-one", json={"features": features}).raise_for_status().json()
            print(f"score {answer['score']:+.3f}  probability {answer['probability']:.3f}  (label {label})")
        window = client.get("/evaluation").raise_for_status().json()["window"]
        print(f"AUC over the last {window['examples']} examples: {window['auc']}")


if __name__ == "__main__":
    main()
