"""Rows to learn: two numbers and a word, a few positives, the same at each call."""

from __future__ import annotations

import json
from typing import Any

import numpy as np


def rows(n: int, seed: int = 0, positives: float = 0.2) -> list[dict[str, Any]]:
    """Return n learn bodies."""
    random = np.random.default_rng(seed)
    labels = random.random(n) < positives
    a = random.normal(0, 1, n) + 1.5 * labels
    b = random.normal(0, 1, n)
    words = random.integers(0, 5, n)
    return [
        {"features": {"a": x, "b": y, "word": f"w{word}"}, "label": label}
        for x, y, word, label in zip(a.tolist(), b.tolist(), words.tolist(), labels.tolist(), strict=True)
    ]


def lines(bodies: list[dict[str, Any]]) -> bytes:
    """Return bodies as NDJSON."""
    return b"\n".join(json.dumps(body).encode() for body in bodies) + b"\n"
