"""What a column of a file is: one decision a column, from its first rows, for all rows.

Text becomes numbers, times or words. A column is one of these as a whole: among words a cell of digits is a word, too, and
among numbers a word is a feature of its own. The decision depends on the first `HEAD_ROWS` rows of the file and on nothing
else, and can be stored: another file is then read as the first one was.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from aucstream.errors import InvalidParams
from aucstream.features.cells import MISSING, PLAIN, Convention, number_of, time_of
from aucstream.features.columns import Columns

HEAD_ROWS = 1_000
FEW_WORDS = 10  # more in a column of numbers are no slips
OWN_SHARE = 0.9  # of the cells of a head: with so many different words a column is an id
OWN_CELLS = 50  # fewer say nothing of it

Kind = Literal["number", "category", "bool", "time", "list", "id", "ignore"]
BOOLS = {"true": True, "True": True, "false": False, "False": False}
# In the order in which they are tried; the first that reads all cells counts.
CONVENTIONS = (
    PLAIN,
    Convention(".", ","),
    Convention(",", None),
    Convention(",", "."),
    Convention(".", " "),
    Convention(",", " "),
    Convention(".", "'"),
    Convention(",", "'"),
)
NONFINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)

_LEADING_ZEROS = re.compile(r"^\s*0\d", re.ASCII | re.MULTILINE)
_LEADING_ZERO = re.compile(r"0\d", re.ASCII)
_NUMBERLIKE = re.compile(r"[-+$€£¥%\d.,'\u2019 \u00a0\u202feE]*\d[-+$€£¥%\d.,'\u2019 \u00a0\u202feE]*", re.ASCII)
_GROUPS = re.compile(r"[+-]?[1-9]\d{0,2}(\.\d{3})+", re.ASCII)
_ONE_COMMA_GROUP = re.compile(r"\D*[1-9]\d{0,2},\d{3}\D*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Decision:
    """What one column is.

    Attributes
    ----------
    kind : {"number", "category", "bool", "time", "list", "id", "ignore"}
        "bool" are `true` and `false` alone; "id" is a category with a word of its own in nearly every row.
    convention : Convention
        How its numbers are written.
    parts : tuple of {"hour", "weekday"}
        Of its times.
    is_declared : bool
        Whether an option said so: a cell that does not fit is then refused.
    note : str
        Why, where it is worth a remark.
    """

    kind: Kind
    convention: Convention = PLAIN
    parts: tuple[str, ...] = ()
    is_declared: bool = False
    note: str = field(default="", compare=False)

    @property
    def document(self) -> dict[str, Any]:
        """The decision as JSON can say it."""
        document: dict[str, Any] = {"kind": self.kind}
        if self.kind == "number" and self.convention != PLAIN:
            document |= {"decimal": self.convention.decimal, "thousands": self.convention.thousands}
        if self.parts:
            document["parts"] = list(self.parts)
        return document


def decision_of(document: Mapping[str, Any]) -> Decision:
    """Return the decision that `Decision.document` describes."""
    convention = Convention(document.get("decimal", "."), document.get("thousands"))
    return Decision(document["kind"], convention, tuple(document.get("parts", ())))


@dataclass(frozen=True, slots=True)
class Rules:
    """What options and a saved model say of columns.

    Attributes
    ----------
    columns : Columns or None
        Said by name.
    decimal, thousands : str or None
        Marks of numbers; None: the file's cells decide.
    decisions : mapping of str to Decision
        Those of another file; they come after `columns`.
    """

    columns: Columns | None = None
    decimal: str | None = None
    thousands: str | None = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)

    def __post_init__(self) -> None:
        Columns(decimal=self.decimal or ".", thousands=self.thousands)  # checks the marks

    @property
    def conventions(self) -> tuple[Convention, ...]:
        """How numbers may be written."""
        if self.decimal is None and self.thousands is None:
            return CONVENTIONS
        return (Convention(self.decimal or ".", self.thousands),)

    def kind_of(self, name: str) -> str | None:
        """Return what an option says of a column; None where none does."""
        return None if self.columns is None else self.columns.kind_of(name)

    def leaves_out(self, name: str) -> bool:
        """Return whether a column is left out."""
        known = self.known(name)
        return known is not None and known.kind == "ignore"

    def known(self, name: str) -> Decision | None:
        """Return what is decided of a column before its cells are seen; numbers whose marks nobody said are not."""
        kind = self.kind_of(name)
        if kind == "number":
            conventions = self.conventions
            return Decision("number", conventions[0], is_declared=True) if len(conventions) == 1 else None
        if kind is not None and self.columns is not None:
            parts = self.columns.parts_of(name)
            return Decision(kind, parts=parts, is_declared=True)  # type: ignore[arg-type]
        return self.decisions.get(name)


NO_RULES = Rules()


def decide(
    heads: Mapping[str, Sequence[str]], rules: Rules = NO_RULES, *, delimiter: str | None = None
) -> dict[str, Decision]:
    """Return what columns of text are, by their first cells.

    Parameters
    ----------
    heads : mapping of str to sequence of str
        Name to cells of the first rows; empty cells are missing.
    rules : Rules
        What is known before.
    delimiter : str, optional
        Of the file: where commas may be decimal marks or stand between thousands, and nothing else tells, they are decimal
        marks in a file with `;`.

    Returns
    -------
    dict of str to Decision
        Without the columns that have no cells yet.
    """
    decisions: dict[str, Decision] = {}
    open_: dict[str, _Head] = {}
    for name, cells in heads.items():
        known = rules.known(name)
        if known is not None:
            decisions[name] = known
            continue
        head = _Head(cells, rules.conventions, is_declared=rules.kind_of(name) == "number")
        if head.cells:
            open_[name] = head
    is_comma = any(head.has_decimal_comma for head in open_.values())
    is_point = any(head.has_decimal_point for head in open_.values())
    prefers_comma = is_comma or (delimiter == ";" and not is_point)
    for name, head in open_.items():
        decisions[name] = head.decision(prefers_comma=prefers_comma, has_commas=is_comma and not is_point)
    return {name: decisions[name] for name in heads if name in decisions}


class _Head:
    """The first cells of a column."""

    def __init__(self, cells: Iterable[str], conventions: tuple[Convention, ...], *, is_declared: bool) -> None:
        present = [cell for cell in cells if cell]
        self.cells = len(present)
        self.is_declared = is_declared
        self._present = present
        self._conventions = conventions
        self._counts: Counter[str] = Counter()
        self._texts: list[str] = []  # but for bools, nan and inf
        self._numberlike: list[str] = []
        self._others: list[str] = []
        self._fits: list[Convention] = [PLAIN]  # read all that looks like a number
        self._best: tuple[int, Convention] = (0, conventions[0])  # cells that it reads
        self._is_plain = (  # the usual case, without a look at each text
            conventions[0] == PLAIN
            and bool(present)
            and all_numbers(present) is not None
            and _LEADING_ZEROS.search("\n".join(present)) is None
        )
        if not self._is_plain:
            self._look()

    def _look(self) -> None:
        """Look at each text."""
        conventions = self._conventions
        counts = self._counts = Counter(text for text in map(str.strip, self._present) if text and text not in MISSING)
        self.cells = sum(counts.values())
        texts = [text for text in counts if text not in BOOLS and not NONFINITE.fullmatch(text)]
        self._texts = texts
        numberlike = self._numberlike = [text for text in texts if _NUMBERLIKE.fullmatch(text)]
        self._others = [text for text in texts if not _NUMBERLIKE.fullmatch(text)]
        self._fits = []
        for convention in conventions if numberlike else ():
            read = sum(counts[text] for text in numberlike if number_of(text, convention) is not None)
            if read > self._best[0]:
                self._best = read, convention
            if read == sum(counts[text] for text in numberlike):
                self._fits.append(convention)
                if convention == PLAIN:
                    break

    @property
    def has_decimal_comma(self) -> bool:
        """Whether the numbers of this column have a decimal comma, and can have nothing else."""
        return bool(self._fits) and not self._others and all(each.decimal == "," for each in self._fits)

    @property
    def has_decimal_point(self) -> bool:
        """Whether the numbers of this column have a decimal point, and can have nothing else."""
        if not self._fits or self._others or any(each.decimal == "," for each in self._fits):
            return False
        return any("." in text and not _GROUPS.fullmatch(text) for text in self._numberlike or self._present)

    def decision(self, *, prefers_comma: bool, has_commas: bool) -> Decision:
        """Return what the column is.

        `prefers_comma`: an ambiguous comma is a decimal mark. `has_commas`: another column has decimal commas.
        """
        if self._is_plain:
            if not has_commas:
                return Decision("number", is_declared=self.is_declared)
            self._look()
        counts, texts = self._counts, self._texts
        if not texts and not self.is_declared:
            if any(text in BOOLS for text in counts):
                return Decision("bool")
            return Decision("number")  # nan and inf alone
        if not self.is_declared:
            times = [text for text in texts if time_of(text) is not None]
            if times and self._are_most(times, [text for text in texts if time_of(text) is None]):
                return Decision("time", note=f"read as times in seconds since 1970, such as {times[0]!r}")
        convention, note = self._convention(prefers_comma=prefers_comma, has_commas=has_commas)
        numbers = [text for text in self._numberlike if number_of(text, convention) is not None]
        read = set(numbers)
        words = self._words()
        if self.is_declared or (numbers and self._are_most(numbers, [text for text in texts if text not in read])):
            zeros = next((text for text in numbers if _LEADING_ZERO.match(text)), None)
            if self.is_declared or zeros is None:
                return Decision("number", convention, is_declared=self.is_declared, note=note)
            note = f"has numbers with leading zeros, such as {zeros!r}: each cell is a word; --number reads numbers"
        elif numbers:
            share = sum(counts[text] for text in numbers) / self.cells
            note = f"has words, and numbers in {share:.1%} of its cells: each cell is a word, also {numbers[0]!r}"
        else:
            return words
        return Decision(words.kind, note=f"{note}; {words.note}" if words.note else note)

    def _are_most(self, texts: list[str], others: list[str]) -> bool:
        """Return whether others among texts of one kind are none, or few slips."""
        if not others:
            return True
        slips = sum(self._counts[text] for text in others)
        return len(others) <= FEW_WORDS and 2 * slips <= self.cells

    def _convention(self, *, prefers_comma: bool, has_commas: bool) -> tuple[Convention, str]:
        fits = self._fits
        if not fits:
            return self._best[1], ""
        convention, otherwise = fits[0], ""
        said = len(self._conventions) == 1
        if convention == PLAIN:
            dotted = [text for text in self._numberlike if "." in text]
            if has_commas and not said and dotted and all(_GROUPS.fullmatch(text) for text in dotted):
                convention = Convention(",", ".")
                otherwise = "; --decimal . says otherwise"
        elif not said and Convention(".", ",") in fits and any(each.decimal == "," for each in fits):
            if prefers_comma:
                convention = next(each for each in fits if each.decimal == ",")
            otherwise = f"; --decimal {'.' if prefers_comma else ','} says otherwise"
        example = next(
            (
                text
                for text in self._numberlike
                if number_of(text) is None or number_of(text) != number_of(text, convention)
            ),
            next((text for text in self._numberlike if text[0] in "$€£¥" or text[-1] in "$€£¥%"), None),
        )
        if example is None:
            return convention, ""
        return convention, f"read as numbers: {example!r} is {number_of(example, convention):g}{otherwise}"

    def _words(self) -> Decision:
        if self.cells >= OWN_CELLS and len(self._counts) > OWN_SHARE * self.cells:
            note = "has a word of its own in nearly every row: --ignore leaves it out"
            return Decision("id", note=note)
        return Decision("category")


class TextColumn:
    """A column of text at work: cells to values, by its decision.

    Parameters
    ----------
    name : str
    decision : Decision or None
        None: the first cell decides.

    Attributes
    ----------
    has_numbers : bool
        Whether a number was read.
    words : dict of str to None
        The first words in a column of numbers or times; no more than `FEW_WORDS` + 1.
    markers : Counter of str
        Words such as `NA` that were read as missing.
    is_complete : bool
        Whether the last cells were all numbers, none of them missing.
    grouped : str
        The first cell with marks between thousands that others do not have; "": none.
    """

    def __init__(self, name: str, decision: Decision | None, rules: Rules = NO_RULES) -> None:
        self.name = name
        self.decision = decision
        self.has_numbers = False
        self.words: dict[str, None] = {}
        self.markers: Counter[str] = Counter()
        self.grouped = ""
        self.is_complete = False
        self._rules = rules

    @property
    def is_plain(self) -> bool:
        """Whether each number as a computer writes it is read as such, and nothing else is to be done."""
        decision = self.decision
        return decision is not None and decision.kind == "number" and decision.convention.decimal == "."

    def values(self, cells: Sequence[str]) -> list[Any]:
        """Return the values of cells; a cell that is refused raises `Refusal`.

        Parameters
        ----------
        cells : sequence of str

        Returns
        -------
        list of (float, bool, str or None)

        Raises
        ------
        Refusal
            A cell does not fit a column that an option decided, or is a number that is not finite or of another writing.
        """
        if self.decision is None:
            texts = [cell.strip() for cell in cells]
            at = next((i for i, text in enumerate(texts) if text and text not in MISSING), len(texts))
            self.markers.update(text for text in texts[:at] if text)
            if at == len(texts):
                return [None] * at
            self.decision = decide({self.name: [texts[at]]}, self._rules).get(self.name)
            values = [*([None] * at), *self.values(cells[at:])]
            self.is_complete = self.is_complete and not at
            return values
        decision = self.decision
        if decision.kind == "number":
            numbers = all_numbers(cells) if decision.convention.decimal == "." else _numbers_with_commas(cells)
            self.is_complete = numbers is not None
            if numbers is not None:
                self.has_numbers = True
                return numbers
        table: dict[str, Any]
        if decision.kind in ("category", "id", "list"):
            table = {text: text.strip() or None for text in dict.fromkeys(cells)}
        else:
            table = {text: self._value(text.strip(), decision) for text in dict.fromkeys(cells)}
            for text in MISSING & table.keys():
                self.markers[text] += cells.count(text)
        return [table[text] for text in cells]

    def _value(self, text: str, decision: Decision) -> Any:
        if not text:
            return None
        kind = decision.kind
        if kind == "bool":
            return BOOLS.get(text, text)
        if kind == "time":
            seconds = time_of(text)
            if seconds is None and decision.is_declared:
                seconds = number_of(text)
            if seconds is not None:
                self.has_numbers = True
                return seconds
        elif text in BOOLS:
            return float(BOOLS[text]) if decision.is_declared else BOOLS[text]
        else:
            number = number_of(text, decision.convention)
            if number is not None:
                self.has_numbers = True
                return number
        if text in MISSING:
            return None
        if kind == "number":
            if NONFINITE.fullmatch(text) or _overflows(text):
                raise Refusal(self.name, text, "a finite number, or an empty cell if missing")
            grouped = number_of(text, Convention(".", ","))
            if decision.convention == PLAIN and grouped is not None and number_of(text, Convention(",")) is None:
                self.grouped = self.grouped or text  # can be nothing else
                self.has_numbers = True
                return grouped
            if any(number_of(text, other) is not None for other in CONVENTIONS if other != decision.convention):
                mark = decision.convention.decimal
                expected = (
                    f"a number with the decimal mark {mark!r}, as in the first rows (decimal= and thousands= say how numbers "
                    "are written, category= makes words of them)"
                )
                raise Refusal(self.name, text, expected)
        if decision.is_declared:
            what = "a number" if kind == "number" else "a date or a time"
            raise Refusal(self.name, text, f"{what}, or an empty cell if missing")
        if len(self.words) <= FEW_WORDS:
            self.words[text] = None
        return text

    @property
    def slips(self) -> list[str]:
        """The words of a column of numbers that has a few."""
        return list(self.words) if self.has_numbers and 0 < len(self.words) <= FEW_WORDS else []

    @property
    def sentences(self) -> list[str]:
        """What is worth a remark."""
        said = [] if self.decision is None or not self.decision.note else [self.decision.note]
        if self.grouped:
            said.append(f"{self.grouped!r} is read as {number_of(self.grouped, Convention('.', ',')):g}")
        if self.markers:
            markers = ", ".join(f"{word!r} ({count:,} cells)" for word, count in sorted(self.markers.items()))
            said.append(f"{markers} read as missing")
        if self.slips:
            first = self.slips[0]
            kinds = f"the word {first!r}" if len(self.words) == 1 else f"{len(self.words)} words, such as {first!r}"
            what = "times" if self.decision is not None and self.decision.kind == "time" else "numbers"
            said.append(f"has {what} and {kinds}; a word is a feature of its own, no number")
        return said


class Refusal(Exception):
    """A cell that its column does not take; the reader says where it stands."""

    def __init__(self, column: str, text: str, expected: str) -> None:
        super().__init__(column, text, expected)
        self.column = column
        self.text = text
        self.expected = expected


def _numbers_with_commas(cells: Sequence[str]) -> list[float] | None:
    """Return the cells as floats where all are finite numbers with decimal commas, and none has a point."""
    together = "\n".join(cells)
    if "." in together:
        return None
    numbers = together.replace(",", ".").split("\n")
    return all_numbers(numbers) if len(numbers) == len(cells) else None


def _overflows(text: str) -> bool:
    try:
        return abs(float(text)) == float("inf")
    except ValueError:
        return False


def all_numbers(cells: Sequence[str]) -> list[float] | None:
    """Return the cells as floats where all are plain finite numbers: the fast and usual case."""
    try:
        numbers = list(map(float, cells))
    except ValueError:
        return None
    together = "".join(cells)
    total = sum(numbers)
    if "_" in together or not together.isascii() or total - total != 0.0:
        return None  # float() reads more than we do: 1_000, digits of other scripts, nan
    return numbers


def columns_of(decisions: Mapping[str, Decision]) -> dict[str, dict[str, Any]]:
    """Return decisions as JSON can say them, by name."""
    return {name: decision.document for name, decision in decisions.items()}


def decisions_of(document: object) -> dict[str, Decision]:
    """Return the decisions that `columns_of` described; raises InvalidParams where it is none."""
    try:
        assert isinstance(document, Mapping)
        return {str(name): decision_of(each) for name, each in document.items()}
    except (AssertionError, KeyError, TypeError, AttributeError) as error:
        raise InvalidParams("columns", "decisions of columns, by name", document) from error
