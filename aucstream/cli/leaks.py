"""Columns that rank the label by themselves: most likely the label under another name, or what came after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from aucstream.block import Block, Floats
from aucstream.evaluate import Chunk
from aucstream.features.number_rows import NumberRows
from aucstream.metrics.exact import area

LEAK = 0.999
CANDIDATE = 0.98  # on the first rows, to be looked at in all rows
CLASS_ROWS = 10  # of each class that first rows have
MOST_ROWS = 1 << 16  # without so many of each class, after which no column is looked at
MOST_COLUMNS = 1_000  # of a wider file none is looked at
MOST_WORDS = 50  # of a column of words; with more, a word says nothing but its row


class LeakWatch:
    """Sees the rows of the first pass over a file, and finds columns whose own AUC is above .999."""

    def __init__(self) -> None:
        self._signs: list[Floats] = []
        self._columns: dict[str, list[list[Any] | Floats]] | None = None
        self._head: list[Any] = []
        self._rows = [0, 0]  # negative, positive
        self._ended = False

    def see(self, chunk: Chunk) -> None:
        """See a chunk.

        Parameters
        ----------
        chunk : Block or Rows
            Rows of a `Block` have no names: nothing is looked for.
        """
        if self._ended or isinstance(chunk, Block) or not len(chunk):
            return
        features, signs = chunk.features, np.asarray(chunk.y)
        self._signs.append(signs)
        positives = int((signs > 0).sum())
        self._rows[0] += signs.size - positives
        self._rows[1] += positives
        if self._columns is not None:
            for name, parts in self._columns.items():
                parts.append(_values(features, name))
            return
        self._head.append(features)
        if min(self._rows) >= CLASS_ROWS:
            self._choose()
        elif sum(self._rows) > MOST_ROWS:
            self._ended = True
            self._head, self._signs = [], []

    def watched(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """Yield chunks, each once it was seen.

        Parameters
        ----------
        chunks : iterable of Block or Rows

        Yields
        ------
        Block or Rows
        """
        for chunk in chunks:
            self.see(chunk)
            yield chunk

    def _choose(self) -> None:
        names: dict[str, None] = {}
        for features in self._head:
            if isinstance(features, NumberRows):
                names |= dict.fromkeys(features.names)
            else:
                for x in features[:100]:
                    if isinstance(x, Mapping):
                        names |= {name: None for name in x if isinstance(name, str)}
        if len(names) > MOST_COLUMNS:
            names.clear()
        signs = np.concatenate(self._signs)
        step = max(1, signs.size // 4_000) if min(self._rows) >= 100 * CLASS_ROWS else 1
        self._columns = {}
        for name in names:
            parts = [_values(features, name) for features in self._head]
            if _auc(parts, signs, step) > CANDIDATE:
                self._columns[name] = parts
        self._head = []
        self._ended = not self._columns

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """(column, sentence) for each such column."""
        if self._ended or not self._columns or min(self._rows) < CLASS_ROWS:
            return []
        signs = np.concatenate(self._signs)
        remarks = []
        for name, parts in self._columns.items():
            auc = _auc(parts, signs)
            if auc > LEAK:
                sentence = f"ranks the label by itself with AUC {auc:.4f}: is it known before the label is? --ignore leaves it out"
                remarks.append((name, sentence))
        return remarks


def _values(features: Any, name: str) -> list[Any] | Floats:
    if isinstance(features, NumberRows):
        if name not in features.names:
            return [None] * len(features)
        column: Floats = features.values[:, features.names.index(name)].copy()
        return column
    return [x.get(name) if isinstance(x, Mapping) else None for x in features]


def _auc(parts: list[list[Any] | Floats], signs: Floats, step: int = 1) -> float:
    """Return the AUC of a column alone, whichever way it ranks; 0 where that cannot be said."""
    if all(isinstance(part, np.ndarray) for part in parts):
        scores = np.concatenate(parts)[::step]
        signs = signs[::step]
    else:
        values = [value for part in parts for value in part][::step]
        signs = signs[::step]
        words = sum(isinstance(value, (str, bool)) for value in values)
        if 2 * words >= len(values):
            keys = [str(value) for value in values]
            if len(set(keys)) > MOST_WORDS:
                return 0.0
            counts: dict[str, list[int]] = {}
            for key, sign in zip(keys, signs.tolist(), strict=True):
                count = counts.setdefault(key, [0, 0])
                count[0] += 1
                count[1] += sign > 0
            scores = np.array([counts[key][1] / counts[key][0] for key in keys])
        else:
            is_number = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
            if 2 * sum(is_number) < len(values):
                return 0.0
            scores = np.array([value for value, number in zip(values, is_number, strict=True) if number], dtype=float)
            signs = signs[np.array(is_number, dtype=bool)]
    if min((signs > 0).sum(), (signs < 0).sum()) < CLASS_ROWS:
        return 0.0
    auc = area(signs, scores).auc
    return max(auc, 1.0 - auc)
