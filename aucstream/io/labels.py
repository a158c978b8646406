"""The label column of a table: finding it, and reading its cells as the two classes."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from aucstream.block import NEGATIVE, POSITIVE
from aucstream.errors import BadRow, InvalidParams

SHOWN_NAMES = 20
SHOWN_WORDS = 10
EXPECTED = "negative (0, -1, false) or positive (1, true)"
_WORDS = {"false": NEGATIVE, "False": NEGATIVE, "true": POSITIVE, "True": POSITIVE}
_NUMBERS = {0.0: NEGATIVE, -1.0: NEGATIVE, 1.0: POSITIVE}


def some(words: Sequence[str], at_most: int) -> str:
    """Return words as a list for a sentence, cut after `at_most`."""
    rest = f", … ({len(words):,} in all)" if len(words) > at_most else ""
    return ", ".join(map(repr, words[:at_most])) + rest


def column_of(label: str | None, columns: Sequence[str], file: str, *, needed: bool) -> int | None:
    """Return the number of the label column, or raise naming the columns and near misses.

    None where it is not needed and not there.
    """
    if label in columns:
        return columns.index(label)
    if not needed:
        return None
    folded = {name.casefold(): name for name in columns}
    near = [folded[key] for key in difflib.get_close_matches((label or "").casefold(), folded, n=3)]
    hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
    raise InvalidParams("label", f"a column of {file}{hint}: {some(columns, SHOWN_NAMES)}", label)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


class Labels:
    """Reads cells of the label column as +1.0 or -1.0.

    Parameters
    ----------
    file, column : str
        Named in errors.
    positive : str or None
        The text of a positive cell; every other text is negative. None: numbers 0, -1 and 1,
        and false and true.
    """

    def __init__(self, file: str, column: str, positive: str | None) -> None:
        self._file = file
        self._column = column
        self._positive = positive
        self._first = True
        self._is_seen = positive is None
        self._seen: set[str] = set()  # labels so far, until the positive one was among them
        self.words: tuple[str, ...] = ()  # distinct cells of the first chunk

    def signs(self, cells: Sequence[str], lines: Sequence[int]) -> NDArray[np.float64]:
        """Return the signs of a chunk of cells; `lines` names the bad ones."""
        distinct = dict.fromkeys(cells)
        signs = {text: self._sign(text) for text in distinct}
        if self._first and distinct:
            self._first = False
            self.words = tuple(sorted(text for text in distinct if text))
            self._check_first(list(distinct), signs)
        if not self._is_seen:
            self._look_for_positive(distinct)
        if None in signs.values():
            at = next(i for i, text in enumerate(cells) if signs[text] is None)
            hint = ", or positive=VALUE that names the class" if self._positive is None and cells[at] else ""
            raise BadRow(self._file, lines[at], self._column, f"a label: {EXPECTED}{hint}", cells[at])
        return np.array([signs[text] for text in cells], dtype=np.float64)

    def _sign(self, text: str) -> float | None:
        if not text:
            return None
        if self._positive is not None:
            return POSITIVE if text == self._positive else NEGATIVE
        if text in _WORDS:
            return _WORDS[text]
        number = _number(text)
        return None if number is None else _NUMBERS.get(number)

    def _check_first(self, distinct: list[str], signs: dict[str, float | None]) -> None:
        words = sorted(text for text in distinct if text)
        if self._positive is not None or not words:
            return
        if all(signs[text] is None and _number(text) is None for text in words):
            expected = f"one of the words in label column {self._column!r}: {some(words, SHOWN_WORDS)}"
            raise InvalidParams("positive", expected, path=self._file)

    def _look_for_positive(self, distinct: Iterable[str]) -> None:
        """Raise where a label is nearly the positive one, which no row has had so far."""
        assert self._positive is not None
        new = [text for text in distinct if text and text not in self._seen]
        self._is_seen = self._positive in new
        if self._is_seen:
            return
        self._seen.update(new)
        number = _number(self._positive)
        near = [
            text
            for text in sorted(new)
            if text.casefold() == self._positive.strip().casefold() or (number is not None and _number(text) == number)
        ]
        if near:
            seen = some(sorted(self._seen), SHOWN_WORDS)
            expected = f"the text of a cell in label column {self._column!r} (did you mean {near[0]!r}?): {seen}"
            raise InvalidParams("positive", expected, self._positive, path=self._file)
