"""Options that several commands share, and the checks that typer does not make."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from aucstream.errors import InvalidParams
from aucstream.features.cells import PARTS
from aucstream.features.columns import Columns
from aucstream.io.decisions import Decision

Data = Annotated[
    list[str],
    typer.Argument(
        metavar="DATA...",
        help="File of svmlight, CSV, NDJSON, Parquet or Arrow, also .gz, .bz2, .xz or .zst; - is standard input; a folder or "
        "a pattern stands for its files; several are read one after the other",
    ),
]
DEFAULT_MODEL = "auto"
Models = Annotated[
    list[str],
    typer.Option(
        "--model",
        "-m",
        help="Algorithm NAME[:param=value,…]; may be repeated; all: every algorithm; default: auto, which chooses by itself",
    ),
]
Model = Annotated[
    list[str],  # so that a second one is refused, not taken in place of the first
    typer.Option("--model", "-m", help="Algorithm NAME[:param=value,…]; one; default: auto, which chooses by itself"),
]
Scale = Annotated[
    str,
    typer.Option(
        help="Scaling of features: auto, standard+bounded, scale+bounded, arctan+bounded, "
        "standard, standard+l2, l2 or none; auto@3000, standard@3000+bounded and so on forget with that half-life"
    ),
]
Map = Annotated[
    str | None,
    typer.Option(
        "--map",
        help="Feature map KIND[:param=value,…]: kmeansnystroem, randomfourier, randomthresholds or randomnetwork; "
        "scores are 0 until its warm-up (1000 rows by default) is over, at the end of DATA at the latest",
    ),
]
Capacity = Annotated[int, typer.Option(help="Most names that the vocabulary holds at once, 1 or more")]
MinCount = Annotated[int, typer.Option(help="Rows in which a name has to be seen before it counts, 1 or more")]
EvictionChoice = Annotated[
    str,
    typer.Option(
        "--eviction",
        help="What a new name does when the vocabulary is full: none: it is left out; "
        "least-recent: it takes the place of the name that was least recently seen",
    ),
]
Ignore = Annotated[
    list[str],
    typer.Option("--ignore", help="Column to leave out, by name or pattern (*, ?, [ab]); may be repeated"),
]
Category = Annotated[
    list[str],
    typer.Option("--category", help="Column whose values are words, 7 too; name or pattern; may be repeated"),
]
Number = Annotated[
    list[str],
    typer.Option("--number", help="Column of numbers, 007 too; name or pattern; may be repeated"),
]
Time = Annotated[
    list[str],
    typer.Option(
        "--time",
        help="Column of dates or times, read as seconds since 1970; name or pattern; NAME:hour,weekday adds the hour and "
        "the weekday as words; may be repeated",
    ),
]
Decimal = Annotated[
    str | None, typer.Option(help="Decimal mark of numbers in text, . or ,; by default each column's first rows decide")
]
Thousands = Annotated[
    str | None,
    typer.Option(help="Mark between thousands of numbers in text: , . ' _ or a blank; by default as --decimal"),
]
Label = Annotated[str | None, typer.Option(help="Label column of a table")]
Positive = Annotated[
    str | None,
    typer.Option(
        help="Text, or number, of a positive label, all others are negative; needed where labels are others than 0, -1 and 1"
    ),
]
Delimiter = Annotated[
    str | None, typer.Option(help="Delimiter of a CSV file; by default it is detected among , ; tab and |")
]
Format = Annotated[
    str | None,
    typer.Option("--format", help="svmlight, csv, ndjson, parquet or arrow; by default the file's name decides"),
]
ZeroBased = Annotated[bool, typer.Option("--zero-based", help="Columns of svmlight count from 0, not from 1")]
Shuffle = Annotated[
    bool, typer.Option("--shuffle", help="Random order, drawn from --seed; all rows are held in memory")
]
Passes = Annotated[int, typer.Option(help="Passes over DATA, 1 or more")]
At = Annotated[
    list[str],
    typer.Option(
        "--at",
        help="Figures where rows are called positive up to a cut: fpr=0.01 (false-positive rate), top=100 (rows), "
        "top=0.05 (share of the rows), threshold=0.7 (score) or cost=50 (where mistakes cost least, a false negative 50 times "
        "a false positive); may be repeated",
    ),
]
Repeat = Annotated[
    int,
    typer.Option(help="Runs in as many random orders, with mean and standard deviation; above 1 it implies --shuffle"),
]
Folds = Annotated[
    int | None,
    typer.Option(help="Hold out each of so many folds in turn, row i in fold i modulo FOLDS; 2 or more"),
]
Seed = Annotated[int, typer.Option(help="Seed of the order and of the models, 0 or more")]


class DataFiles(str):
    """The files of DATA as one text, for messages.

    Attributes
    ----------
    paths : list of str
        Files, folders and patterns, as `aucstream.io.read` takes them.
    """

    paths: list[str]

    def __new__(cls, paths: list[str]) -> DataFiles:
        """Return the text of paths: the first one, and how many more there are."""
        more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
        text = super().__new__(cls, paths[0] + more)
        text.paths = paths
        return text


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How files are read; None: the reader's default.

    Attributes
    ----------
    label, positive, delimiter, format : str or None
        The options of the same names.
    columns : Columns
        What `--ignore`, `--category`, `--number` and `--time` say.
    decimal, thousands : str or None
        The options of the same names.
    decisions : mapping of str to Decision
        What the columns of another file were; see `aucstream.io.read`.
    zero_based : bool
        Whether an svmlight file counts columns from 0.
    """

    label: str | None
    positive: str | None
    delimiter: str | None
    format: str | None
    columns: Columns = field(default_factory=Columns)
    decimal: str | None = None
    thousands: str | None = None
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    zero_based: bool = False


def columns_choice(
    ignore: list[str],
    category: list[str],
    number: list[str],
    time: list[str],
    decimal: str | None,
    thousands: str | None,
) -> Columns:
    """Return what the options of columns say.

    Parameters
    ----------
    ignore, category, number, time : list of str
        Names or patterns; of times with parts behind a colon.
    decimal, thousands : str or None
        Marks of numbers.

    Returns
    -------
    Columns

    Raises
    ------
    InvalidParams
        A pattern or a mark is none, or a name stands twice.
    """
    try:
        return Columns(ignore, category, number, [_time(text) for text in time], decimal or ".", thousands)
    except InvalidParams as error:
        option = error.where.removeprefix("columns.").partition(".")[0]
        expected = error.expected.replace("`", "--", 1).replace("`", "", 1)
        raise InvalidParams(f"--{option}", expected, error.got) from None


def _time(text: str) -> Any:
    name, colon, parts = text.rpartition(":")
    if not colon or not all(part in PARTS for part in parts.split(",")):
        return text
    return {"name": name, "parts": parts.split(",")}


def check_numbers(**options: int | None) -> None:
    """Raise where an option is below its least value: 0 for `seed`, 1 for the others.

    Parameters
    ----------
    **options : int or None
        Values by option name; None is not checked.

    Raises
    ------
    InvalidParams
        An option is below its least value.
    """
    for name, value in options.items():
        least = 0 if name == "seed" else 1
        if value is not None and value < least:
            raise InvalidParams(f"--{name.replace('_', '-')}", f"a whole number >= {least}", value)


def check_output(path: Path) -> None:
    """Raise where `--out` cannot be written, before any work is done.

    Parameters
    ----------
    path : Path
        Value of the option.

    Raises
    ------
    InvalidParams
        The folder does not exist, or the path is a folder.
    """
    if not path.resolve().parent.is_dir() or path.is_dir():
        raise InvalidParams(f"--out {path}", "a file in a folder that exists")
