"""A producer: sends labelled examples to a running service, one by one or in bulk.

aucstream serve &
python examples/producer.py --url http://127.0.0.1:8000 --model phishing --bulk
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from river import datasets

from aucstream.client import Client, Example, Retry


def examples() -> Iterator[Example]:
    # ids made of the data: a producer that was ended half-way may send all of it again
    for number, (features, label) in enumerate(datasets.Phishing()):
        yield Example(features, label, id=f"phishing-{number}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--url", default="http://127.0.0.1:8000")
    parser.add_argument("--model", default="phishing")
    parser.add_argument("--bulk", action="store_true", help="a thousand examples a request instead of one")
    options = parser.parse_args()
    # the first model of an algorithm may wait for its kernels to be compiled
    with Client(options.url, timeout=300, retry=Retry(deadline=300)) as client:
        client.create(options.model, "psam")
        if options.bulk:
            sums = client.learn_many(options.model, examples())
            print(f"{sums.accepted} learned, {sums.duplicates} known before, seq {sums.seq}")
            return
        for one in examples():
            last = client.learn_one(options.model, one.features, one.label, id=one.id)
        print(f"last: seq {last.seq}{', known before' if last.duplicate else ''}")


if __name__ == "__main__":
    main()
