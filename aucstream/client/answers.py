"""Answers as the client returns them: those of the service, with what the client knows beside them.

Members that a newer service adds are ignored.
"""

from __future__ import annotations

from aucstream import answers
from aucstream.answers import Answer, RowError

MAX_ERRORS = 100  # the service lists no more


class Learned(answers.Learned, frozen=True):
    """What became of one example.

    Attributes
    ----------
    seq : int
        Number of its event.
    score : float or None
        The score before the update, or that of the prediction; None for a duplicate, for a label that waits for its
        prediction, and where the answer of an earlier attempt was lost.
    duplicate : bool
        The id came before, with this label: nothing changed.
    id : str or None
        The id that was sent.
    """

    id: str | None = None


class LearnedMany(answers.LearnedMany, frozen=True):
    """What became of many rows: their counts, the last `seq`, and the first 100 errors."""

    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    seq: int = 0
    errors: tuple[RowError, ...] = ()

    @property
    def rows(self) -> int:
        """All rows that were answered."""
        return self.accepted + self.duplicates + self.rejected

    def __add__(self, other: LearnedMany) -> LearnedMany:
        return LearnedMany(
            self.accepted + other.accepted,
            self.duplicates + other.duplicates,
            self.rejected + other.rejected,
            max(self.seq, other.seq),
            (self.errors + other.errors)[:MAX_ERRORS],
        )


class Description(answers.Description, frozen=True):
    """A model: its spec, what `auto` became, its counts, and the `etag` of its spec (None in a list)."""

    etag: str | None = None


class Page(Answer, frozen=True):
    """A page of models."""

    models: tuple[Description, ...]
    next: str | None
