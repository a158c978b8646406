"""Hashed names: fixed memory, whatever arrives."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Any

import numpy as np

from aucstream.block import Floats, Ints
from aucstream.constraints import CheckedBy, Ge, Le, Size, rules_of
from aucstream.errors import CannotMerge
from aucstream.features.encoding.crosses import ALLOWED, Crosses, checked_crosses, crosses_spec
from aucstream.features.encoding.encoder import Encoder, kind_of_columns
from aucstream.features.encoding.entries import Name
from aucstream.kernels.rows.finite import all_finite

MOST_READ = 1 << 16  # names and strings whose columns the reader knows at once


@lru_cache(maxsize=1 << 16)
def hash_of(name: Name) -> int:
    """Return a name as 64 bits, on every machine the same."""
    # A string and an integer of the same spelling are different names.
    text = f"i{name}" if isinstance(name, int) else f"s{name}"
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Hashing(Encoder):
    """Feature hashing: column = hash(name) mod 2^bits.

    Parameters
    ----------
    bits : int
        1 to 28. Memory is 2^bits columns, fixed. Names that collide share a weight; two in one row add.
    crosses : "all", list of pairs of names, or None, default=None
        Pairs of features whose values, where both are strings, make a feature `a=v&b=w` besides their own. "all": each
        pair of the first 16 such features of a row, by name.

    Notes
    -----
    Names are not kept, so `weights` by name is refused. `explain_one` names what is in the row it is given.
    """

    def __init__(
        self,
        bits: Annotated[int, Ge(1), Le(28), Size("bits")] = 18,
        crosses: Annotated[Any, CheckedBy(checked_crosses, ALLOWED)] = None,
    ) -> None:
        super().__init__()
        self.crosses: Crosses = rules_of(Hashing)["crosses"].checked("Hashing.crosses", crosses)
        self._read: list[tuple[dict[Any, int], str]] = []  # what the reader knows since the last mark
        self._read_count = 0
        self.bits: int = rules_of(Hashing)["bits"].checked("Hashing.bits", bits)
        self.width = 1 << self.bits
        self.kinds = np.zeros(self.width, dtype=np.uint8)

    @property
    def spec(self) -> dict[str, Any]:
        """The encoder as it stands in a model's spec."""
        return {"kind": "hashing", "bits": self.bits, **crosses_spec(self.crosses)}

    def _column(self, name: Name) -> int:
        return hash_of(name) & (self.width - 1)

    def check_name(self, name: Name, path: str = "") -> None:
        """Accept every name."""

    def _add(self, entries: Iterable[tuple[Name, float, int]]) -> None:
        for name, _, kind in entries:
            kind_of_columns(self.kinds, self._column(name), kind)

    def _unique(self) -> bool:
        return False

    def columns(self, n: int, *, learn: bool) -> Ints | None:
        """Return the hashed columns of array columns 0..n-1 (each its own where n fits: see Notes)."""
        columns = np.array([self._column(name) for name in range(n)], dtype=np.int64)
        if learn:
            for column in columns:
                kind_of_columns(self.kinds, int(column), 1)
        return columns

    def align(self, other: Encoder, *, partial: bool = False) -> Ints:
        """Return the column of each of `other`'s columns: the same; see `Encoder.align`."""
        if other.spec != self.spec:
            raise CannotMerge("merge", f"the same encoder in both models: {self.spec}", other.spec)
        self.kinds = np.where(self.kinds == 0, other.kinds, self.kinds)
        return np.arange(self.width, dtype=np.int64)

    def prepare(self, x: Mapping[Any, Any], *, learn: bool) -> bool:
        """Let the reader find the names of a row; see `Encoder.prepare`.

        It knows at most `MOST_READ` at once, and those of one row: then it forgets them all.
        """
        if not self.reader.is_compiled or "=" in "".join(
            map(str, x)
        ):  # the reader does not see whether such names meet
            return False
        unread = self._unread(x)
        if unread and self._read_count + len(unread) > MOST_READ:
            self._forget_read()
            unread = self._unread(x)
        if unread is None:
            return False
        for name, word, kind in unread:
            column = self._column(name if word is None else f"{name}={word}")
            if learn:
                kind_of_columns(self.kinds, column, kind)
            known: dict[Any, int] = self._index if word is None else self.reader.words.setdefault(str(name), {})
            key = str(name if word is None else word)
            known[key] = column
            self._read.append((known, key))
        self._read_count += len(unread)
        self.reader.make_room(len(x))
        return True

    def look_up(self, x: Mapping[Any, Any]) -> tuple[Ints, Floats]:
        """Read a row that is only scored; see `Encoder.look_up`."""
        row = self.reader.read(x)
        self.mark()
        try:
            if row is None and self.prepare(x, learn=False):
                row = self._read_prepared(x)
        finally:
            self.rewind(None)
        self.missed = False
        return row if row is not None and all_finite(row[1]) else self._slow(x, learn=False)

    def _forget_read(self) -> None:
        self._index.clear()
        self.reader.forget()
        self._read.clear()
        self._read_count = 0

    def _expect(self, names: Sequence[Name], idx: Ints) -> None:
        """Let the reader expect the names of a row, but where one of them may be a one-hot name of another row."""
        if "=" not in "".join(map(str, names)):
            super()._expect(names, idx)

    def standing(self) -> tuple[Any, ...]:
        """Return what kinds are known; see `Encoder.standing`."""
        return self.spec, self.kinds.copy()

    def stands_at(self, standing: tuple[Any, ...] | None) -> bool:
        """Return whether another encoder that stood so was equal; see `Encoder.stands_at`."""
        return standing is not None and standing[0] == self.spec and bool((standing[1] == self.kinds).all())

    def change_since(self, standing: tuple[Any, ...]) -> np.ndarray:
        """Return all kinds; see `Encoder.change_since`."""
        return self.kinds.copy()

    def _take_change(self, change: np.ndarray) -> None:
        self.kinds[:] = change

    def mark(self) -> None:
        """Return nothing: kinds noted by a skipped row do no harm."""
        self._read.clear()

    def rewind(self, mark: None) -> None:
        """Let the reader not know the names since the mark whose kinds were not noted."""
        for known, key in self._read:
            if self.kinds[known[key]] == 0:
                del known[key]
                self._read_count -= 1
        self._read.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_index": {}, "_read": [], "_read_count": 0}

    def state_dict(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (arrays, meta)."""
        return {"kinds": self.kinds.copy()}, self.spec

    @classmethod
    def from_state_dict(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Hashing:
        """Return the encoder that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        Hashing
        """
        encoder = cls(meta["bits"], meta.get("crosses"))
        encoder.kinds = arrays["kinds"].copy()
        return encoder
