"""Errors that aucstream raises on purpose.

    AucstreamError
    ├── InvalidParams   (ValueError)      a constructor argument, a spec, an option
    ├── InvalidBlock    (ValueError)      features, shapes, weights
    │   └── BadRow                        the same, in a file: name, line, column
    ├── InvalidLabel    (ValueError)      a label that is not one of the two classes
    ├── NonFiniteStep   (ArithmeticError) a row whose step would leave a state non-finite
    ├── UnknownLearner  (LookupError)     a name that the registry does not have
    ├── BadSnapshot     (ValueError)      a damaged or foreign snapshot
    │   └── NewerSnapshot                 made by a newer version
    ├── CannotMerge     (ValueError)      a merge that would not be exact
    └── NotConverged    (UserWarning)     a batch fit that its iteration limit ended: warned, not raised

One sentence for all: *where: expected what, got value - at path*.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from aucstream.problem_types import PROBLEM_TYPES, ProblemType

SHOWN_CHARACTERS = 80


def shown(value: object) -> str:
    """Return the text of a value for a message.

    Parameters
    ----------
    value : object

    Returns
    -------
    str
        `repr(value)`, cut at 80 characters; numpy scalars as plain numbers.
    """
    if isinstance(value, np.generic):
        value = value.item()
    text = repr(value)
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 1] + "…"


def pip_install(extra: str) -> str:
    """Return the command that installs an extra of the distribution, as a message names it.

    Parameters
    ----------
    extra : str
        Its name, such as "arrow".

    Returns
    -------
    str
        With quotes: shells read brackets as patterns.
    """
    return f'pip install "aucstream[{extra}]"'


class Description(str):
    """A description of a rejected value; a message shows it without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class AucstreamError(Exception):
    """Base of all errors that aucstream raises on purpose.

    Attributes
    ----------
    where : str
        The argument, field or file that is wrong.
    expected : str
        What is valid there.
    got : object
        The rejected value; `...` where a message shows none.
    path : str
        Place of the value within `where`, such as `[3]["amount"]`.
    problem_type : ProblemType
        How the HTTP service answers this error.
    """

    problem_type: ProblemType = PROBLEM_TYPES["invalid-request"]

    def __init_subclass__(cls, *, problem: str | None = None) -> None:
        if problem is not None:
            cls.problem_type = PROBLEM_TYPES[problem]
            if cls.__doc__ is None:
                cls.__doc__ = f"{cls.problem_type.title}.\n\n{cls.problem_type.meaning}"

    def __init__(self, where: str, expected: str, got: object = ..., *, path: str = "") -> None:
        self.where = where
        self.expected = expected
        self.got = got
        self.path = path
        super().__init__(self.message)

    @property
    def message(self) -> str:
        """The sentence, without the path."""
        got = "" if self.got is ... else f", got {shown(self.got)}"
        at = f" - at {self.path}" if self.path else ""
        return f"{self.where}: expected {self.expected}{got}{at}"

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by attributes (exceptions cross process borders)."""
        return (_rebuild, (type(self), dict(self.__dict__), self.args))


def _rebuild(kind: type[AucstreamError], attributes: dict[str, object], args: tuple[object, ...]) -> AucstreamError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InvalidParams(AucstreamError, ValueError, problem="invalid-params"):
    """A parameter of a constructor, a spec or a command is out of its range."""


class InvalidBlock(AucstreamError, ValueError, problem="invalid-features"):
    """Features, shapes or weights cannot be used; nothing was changed."""


class BadRow(InvalidBlock):
    """A row of a file cannot be used.

    Attributes
    ----------
    file : str
    line : int
        From 1.
    column : str
        Its name; empty where the row as a whole is wrong.
    """

    def __init__(self, file: str, line: int, column: str, expected: str, got: object = ..., *, path: str = "") -> None:
        self.file = file
        self.line = line
        self.column = column
        place = f"{file}, line {line}" + (f", column {column}" if column else "")
        super().__init__(place, expected, got, path=path)


class InvalidLabel(AucstreamError, ValueError, problem="invalid-label"):
    """A label is neither negative (False, 0, 0.0, -1, -1.0) nor positive (True, 1, 1.0)."""


class NonFiniteStep(AucstreamError, ArithmeticError, problem="non-finite-step"):
    """Rows were skipped whole, because their step would have made a state non-finite.

    Attributes
    ----------
    rows : tuple of int
        Numbers of the skipped rows in the block.
    scores : ndarray (n,)
        Scores before each update; NaN where a row was skipped.
    """

    def __init__(self, where: str, rows: Sequence[int], scores: NDArray[np.float64], *, path: str = "") -> None:
        self.rows = tuple(int(row) for row in rows)
        self.scores = scores
        some = ", ".join(map(str, self.rows[:10])) + (", …" if len(self.rows) > 10 else "")
        noun, were = ("a row", "was") if len(self.rows) == 1 else ("rows", "were")
        skipped = Description(f"row {some}, which {were} skipped")
        super().__init__(where, f"{noun} whose step keeps every state finite", skipped, path=path)


class UnknownLearner(AucstreamError, LookupError, problem="unknown-algorithm"):
    """No learner has that name; the message names near misses.

    Parameters
    ----------
    name : str
    known : iterable of str
        The names that there are.
    """

    def __init__(self, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        near = difflib.get_close_matches(name.lower(), known, n=3)  # all are lower case
        hint = f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
        super().__init__("learner", f"one of {', '.join(known)}{hint}", name)


class BadSnapshot(AucstreamError, ValueError, problem="bad-snapshot"):
    """A snapshot is damaged, cut, or not one of ours."""


class NewerSnapshot(BadSnapshot, problem="newer-snapshot"):
    """A snapshot was made by a newer version, whose format this one does not know."""


class CannotMerge(AucstreamError, ValueError, problem="cannot-merge"):
    """Two models have no exact merge, or differ in class or parameters."""


class NotConverged(AucstreamError, UserWarning):
    """The iteration limit ended a batch fit before its tolerance was met; the model has the best weights found."""
