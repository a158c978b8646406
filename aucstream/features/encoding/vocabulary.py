"""Exact names: every new name gets the next column, up to a capacity."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np

from aucstream.block import Ints
from aucstream.constraints import Ge, Size, rules_of
from aucstream.errors import CannotMerge, Description, InvalidBlock
from aucstream.features.encoding.encoder import Encoder, kind_of_columns
from aucstream.features.encoding.entries import NUMERIC, Name
from aucstream.native.guard import COMPILED

DEFAULT_CAPACITY = 1 << 20


class Vocabulary(Encoder):
    """Exact, growing, capped vocabulary.

    Parameters
    ----------
    capacity : int, default=1048576
        Most names that are ever kept, >= 1. When it is reached, names not yet known are left out of
        every row and counted in `dropped`; what is known goes on learning.

    Attributes
    ----------
    names : list of (str or int)
        Name of each column.
    most : int
        The capacity, or what the learner behind it can hold if that is less.
    dropped : int
        Entries left out of learned rows because the vocabulary was full.

    Notes
    -----
    Column j of an array is the integer name j. A model whose rows were arrays refuses string names,
    and one that has string names refuses arrays. Memory: the names, and about 100 bytes each
    (one-hot names twice: they are looked up by name and string).
    """

    def __init__(self, capacity: Annotated[int, Ge(1), Size("names")] = DEFAULT_CAPACITY) -> None:
        super().__init__()
        self.capacity: int = rules_of(Vocabulary)["capacity"].checked("Vocabulary.capacity", capacity)
        self.most = self.capacity
        self._advice = "the vocabulary's capacity"
        self.width = 0
        self.names: list[Name] = []
        self.kinds = np.zeros(8, dtype=np.uint8)
        self.dropped = 0
        self.arrays = False  # rows were arrays
        self.words = False  # a name is a string
        self._identity = True  # column j is the integer name j, for all j

    def __len__(self) -> int:
        return len(self.names)

    @property
    def spec(self) -> dict[str, Any]:
        """The encoder as it stands in a model's spec."""
        return {"kind": "vocabulary", "capacity": self.capacity}

    def narrow(self, most: int, advice: str) -> None:
        """Allow at most `most` names from now on; see `Encoder.narrow`."""
        super().narrow(most, advice)
        if most < self.most:
            self.most, self._advice = most, advice

    def resize(self, capacity: int) -> None:
        """Keep so many names at most from now on; names that are known stay.

        Parameters
        ----------
        capacity : int
            At least 1.
        """
        self.capacity = rules_of(Vocabulary)["capacity"].checked("Vocabulary.capacity", capacity)
        self.most, self._advice = self.capacity, "the vocabulary's capacity"

    def _column(self, name: Name) -> int:
        return self._index.get(name, -1)

    def _columns_of(self, names: Sequence[Name]) -> list[int]:
        column = self._index.get
        return [column(name, -1) for name in names]

    def check_name(self, name: Name, path: str = "") -> None:
        """Raise InvalidBlock for a string name in a model of arrays."""
        if self.arrays and (isinstance(name, str) or name < 0):
            raise InvalidBlock(
                "feature name",
                "an integer >= 0: this model's rows are arrays, whose columns are named 0, 1, 2, …",
                name,
                path=path,
            )

    def _append(self, name: Name, kind: int) -> None:
        if len(self.names) >= self.most:
            if self.dropped == 0 and self.most < self.capacity:
                warnings.warn(
                    f"features: at most {self.most} ({self._advice}); {name!r} and further new ones count nothing",
                    RuntimeWarning,
                    stacklevel=2,
                )
            self.dropped += 1
            return
        column = len(self.names)
        if name != column:
            self._identity = False
        if isinstance(name, str):
            self.words = True
        self.names.append(name)
        self.width = column + 1
        self._index[name] = column
        if column >= self.kinds.size:
            self.kinds = np.concatenate([self.kinds, np.zeros(self.kinds.size, dtype=np.uint8)])
        kind_of_columns(self.kinds, column, kind)

    def _add(self, entries: Iterable[tuple[Name, float, int]]) -> None:
        for name, _, kind in entries:
            if name not in self._index:
                self._append(name, kind)

    def prepare(self, x: Mapping[Any, Any]) -> bool:
        """Give columns to the few new names of a row; see `Encoder.prepare`.

        A row most of whose names are new is none of those before: it is taken the slow way, which expects more of it.
        """
        if not COMPILED:
            return False
        entries = self._checked(x)
        new = [entry for entry in entries if entry[0] not in self._index]
        if 2 * len(new) > len(entries) or len(self.names) + len(new) > self.most:
            return False
        self._add(new)
        self.reader.make_room(len(entries))
        self.reader.note(x)
        return True

    def next_column(self, entries: int) -> int | None:
        """Return the column that the next new name gets; see `Encoder.next_column`."""
        return None if self.arrays or self.width + entries > self.most else self.width

    def check_scored_array(self, n: int) -> None:
        """Raise InvalidBlock for more columns than the largest one learned, or a model of names."""
        self._check_no_words(n)
        most = self.width if self._identity else 1 + max(int(name) for name in self.names)
        self._check_columns(n, most)

    def _check_no_words(self, n: int) -> None:
        if self.words:
            raise InvalidBlock(
                "features", "named features: this model has learned names", Description(f"an array of {n} columns")
            )

    def columns(self, n: int, *, learn: bool) -> Ints | None:
        """Return the columns of array columns 0..n-1; None where that is the identity."""
        self._check_no_words(n)
        if learn:
            self.arrays = True
            if n > self.most:
                raise InvalidBlock(
                    "features", f"at most {self.most} columns ({self._advice})", Description(f"{n} columns")
                )
            if not (self._identity and len(self.names) >= n):
                for name in range(n):
                    if name not in self._index:
                        self._append(name, NUMERIC)
        if self._identity and n <= len(self.names):
            return None
        return np.array([self._index.get(name, -1) for name in range(n)], dtype=np.int64)

    def align(self, other: Encoder, *, partial: bool = False) -> Ints:
        """Return the column of each of `other`'s columns, by name; see `Encoder.align`."""
        if not isinstance(other, Vocabulary):
            raise CannotMerge("merge", "encoders of one kind: a vocabulary", other.spec["kind"])
        if (self.arrays and other.words) or (self.words and other.arrays):
            raise CannotMerge(
                "merge", "rows that are arrays in both models, or named in both", Description("one of each")
            )
        new = [(name, kind) for name, kind in zip(other.names, other.kinds, strict=False) if name not in self._index]
        if len(self.names) + len(new) > self.most and not partial:
            raise CannotMerge("merge", f"at most {self.most} names in all", len(self.names) + len(new))
        for name, kind in new:
            self._append(name, int(kind))
        self.arrays = self.arrays or other.arrays
        self.dropped += other.dropped
        return np.array([self._index.get(name, -1) for name in other.names], dtype=np.int64)

    def mark(self) -> tuple[int, int, bool, bool, bool]:
        """Return a mark for `rewind`."""
        self.reader.mark(len(self.names))
        return len(self.names), self.dropped, self.arrays, self.words, self._identity

    def rewind(self, mark: tuple[int, int, bool, bool, bool]) -> None:
        """Forget the names added since `mark`."""
        length, self.dropped, self.arrays, self.words, self._identity = mark
        if length == len(self.names):
            return
        for name in self.names[length:]:
            del self._index[name]
        self.kinds[length : len(self.names)] = 0
        del self.names[length:]
        self.width = length
        self.reader.rewind(length)

    def state_dict(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return (arrays, meta); names as JSON bytes, absent where they are just 0, 1, 2, …"""
        arrays = {"kinds": self.kinds[: self.width].copy()}
        if not self._identity:
            text = json.dumps(self.names, ensure_ascii=True).encode()
            arrays["names"] = np.frombuffer(text, dtype=np.uint8).copy()
        meta = {**self.spec, "dropped": self.dropped, "arrays": self.arrays, "width": self.width}
        return arrays, meta

    @classmethod
    def from_state_dict(cls, arrays: dict[str, np.ndarray], meta: dict[str, Any]) -> Vocabulary:
        """Return the vocabulary that `state_dict` described.

        Parameters
        ----------
        arrays : dict of ndarray
        meta : dict
            Both as `state_dict` returned them.

        Returns
        -------
        Vocabulary
        """
        encoder = cls(meta["capacity"])
        if "names" in arrays:
            names: list[Name] = json.loads(arrays["names"].tobytes())
        else:
            names = list(range(meta["width"]))
        encoder.names = names
        encoder.width = len(names)
        encoder._index.update((name, column) for column, name in enumerate(names))
        encoder._identity = "names" not in arrays
        encoder.words = any(isinstance(name, str) for name in names)
        encoder.kinds = np.zeros(max(8, len(names)), dtype=np.uint8)
        encoder.kinds[: len(names)] = arrays["kinds"]
        encoder.dropped = meta["dropped"]
        encoder.arrays = meta["arrays"]
        return encoder

    def copy(self) -> Vocabulary:
        """Return an independent copy.

        Returns
        -------
        Vocabulary
        """
        return Vocabulary.from_state_dict(*self.state_dict())
