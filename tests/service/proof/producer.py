"""A producer as a process: sends the events of a file, all of them again whenever it is started.

python -m tests.service.proof.producer URL FILE
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from aucstream.client import Client, Retry


def main() -> None:
    """Send them in small batches, and say how far it is."""
    url, file = sys.argv[1:]
    events = map(json.loads, Path(file).read_text().splitlines())
    with Client(url, retry=Retry(deadline=120, longest=0.5)) as client:
        for batch in client.learn_batches("m", events, batch_rows=50):
            print(batch.accepted, batch.duplicates, flush=True)


if __name__ == "__main__":
    main()
