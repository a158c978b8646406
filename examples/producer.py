"""A producer: sends labelled examples to a running service, one by one or as NDJSON in bulk.

aucstream serve &
python examples/producer.py --url http://127.0.0.1:8000 --model phishing --bulk
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import httpx
from river import datasets


def lines() -> Iterator[bytes]:
    for number, (features, label) in enumerate(datasets.Phishing()):
        yield json.dumps({"id": f"phishing-{number}", "features": features, "label": label}).encode() + b"\n"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="phishing")
    parser.add_argument("--bulk", action="store_true", help="one streamed NDJSON request instead of one each")
    options = parser.parse_args()
    model = f"/v1/models/{options.model}"
    # the first model of an algorithm may wait for its kernels to be compiled
    with httpx.Client(base_url=options.url, timeout=300) as client:
        client.put(model, json={"algorithm": "psam"}).raise_for_status()
        if options.bulk:
            headers = {"Content-Type": "application/x-ndjson"}
            answer = client.post(f"{model}/learn-many", content=lines(), headers=headers).raise_for_status()
            print(answer.json())
            return
        last = None
        for line in lines():
            # every example carries an id, so a producer that is not sure may send it again
            last = client.post(f"{model}/learn-one", content=line, headers={"Content-Type": "application/json"})
            last.raise_for_status()
        print(last.json() if last else "nothing to send")


if __name__ == "__main__":
    main()
