"""What the text of one cell means: a number as people write it, a date or a time, or nothing.

A number has one decimal mark, perhaps a mark between thousands, a sign, a currency sign (`$ € £ ¥`) on either side or a
`%` behind it. The value is the number as it is written: `5%` is 5, `$12.50` is 12.5. A time is seconds since
1970-01-01T00:00Z; one without a zone is UTC.
"""

from __future__ import annotations

import datetime
import functools
import math
import re
from typing import NamedTuple

# Words that say in a column of numbers that a number is not there.
MISSING = frozenset({"NA", "N/A", "n/a", "null", "NULL", "Null", "nan", "NaN", "NAN", "-", "?", "None"})
DECIMALS = (".", ",")
THOUSANDS = (",", ".", " ", "'", "_")
PARTS = ("hour", "weekday")
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_BLANKS = " \t\r\n\u00a0\u202f"
_CURRENCY = "[$€£¥]"
_SPACES = {" ": "[ \u00a0\u202f]", "'": "['\u2019]"}  # what is written for a mark
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_TIME = re.compile(
    r"(?:(?P<y>\d{4})(?P<mark>[-/])(?P<m>\d{1,2})(?P=mark)(?P<d>\d{1,2})|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4}))"
    r"(?:[T ](?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2})(?:[.,](?P<fraction>\d{1,9}))?)?"
    r"\s?(?P<zone>Z|z|UTC|[+-]\d{2}(?::?\d{2})?)?)?",
    re.ASCII,
)


class Convention(NamedTuple):
    """How numbers are written.

    Attributes
    ----------
    decimal : str
        "." or ",".
    thousands : str or None
        Between groups of three digits; None: nothing is.
    """

    decimal: str = "."
    thousands: str | None = None


PLAIN = Convention()


@functools.cache
def _pattern(convention: Convention) -> re.Pattern[str]:
    decimal, thousands = convention
    digits = r"\d+"
    if thousands is not None:
        mark = _SPACES.get(thousands, re.escape(thousands))
        digits = rf"(?:\d{{1,3}}(?:{mark}\d{{3}})+|\d+)"
    point = re.escape(decimal)
    number = rf"(?:{digits}(?:{point}\d*)?|{point}\d+)(?:[eE][+-]?\d+)?"
    blank = f"[{_BLANKS}]*"
    return re.compile(
        rf"(?P<sign>[+-]?){blank}{_CURRENCY}?{blank}(?P<second>[+-]?)(?P<number>{number}){blank}(?:{_CURRENCY}|%)?",
        re.ASCII,
    )


def number_of(text: str, convention: Convention = PLAIN) -> float | None:
    """Return the number that a text stands for; None where it stands for none, and where it is too large for a float.

    Parameters
    ----------
    text : str
        Blanks around it count nothing.
    convention : Convention

    Returns
    -------
    float or None
    """
    match = _pattern(convention).fullmatch(text.strip(_BLANKS))
    if match is None or (match["sign"] and match["second"]):
        return None
    digits = match["number"]
    if convention.thousands is not None:
        for mark in (convention.thousands, "\u00a0", "\u202f", "\u2019"):
            digits = digits.replace(mark, "")
    number = float(digits.replace(convention.decimal, "."))
    if not math.isfinite(number):
        return None
    return -number if "-" in (match["sign"], match["second"]) else number


def time_of(text: str) -> float | None:
    """Return the seconds since 1970 of a date or a date with a time; None where it is neither.

    Parameters
    ----------
    text : str
        `2024-03-01`, `2024-03-01T12:30`, `2024-03-01 12:30:05.25+01:00`; `2024/03/01` and `01.03.2024` likewise.

    Returns
    -------
    float or None
    """
    match = _TIME.fullmatch(text.strip(_BLANKS))
    if match is None:
        return None
    try:
        day = datetime.datetime(
            int(match["y"] or match["y2"]),
            int(match["m"] or match["m2"]),
            int(match["d"] or match["d2"]),
            int(match["hour"] or 0),
            int(match["minute"] or 0),
            int(match["second"] or 0),
            tzinfo=datetime.UTC,
        )
    except ValueError:
        return None
    seconds = float((day - _EPOCH) // datetime.timedelta(seconds=1))
    zone = match["zone"]
    if zone and zone[0] in "+-":
        digits = zone[1:].replace(":", "").ljust(4, "0")
        shift = 3600 * int(digits[:2]) + 60 * int(digits[2:])
        seconds += shift if zone[0] == "-" else -shift
    if match["fraction"]:
        seconds += float(f"0.{match['fraction']}")
    return seconds


def parts_of(seconds: float, parts: tuple[str, ...]) -> dict[str, str]:
    """Return the hour (0 to 23) and the weekday of a time, in UTC, as words.

    Parameters
    ----------
    seconds : float
        Since 1970.
    parts : tuple of {"hour", "weekday"}

    Returns
    -------
    dict of str to str
    """
    days, rest = divmod(math.floor(seconds), 86_400)
    values = {"hour": str(rest // 3600), "weekday": WEEKDAYS[(days + 3) % 7]}  # 1970-01-01 was a Thursday
    return {part: values[part] for part in parts}


def word_of(number: float) -> str:
    """Return the word for a number in a column of categories: `7` for 7 and for 7.0."""
    if isinstance(number, bool):
        return "true" if number else "false"
    if isinstance(number, float) and number.is_integer() and abs(number) < 1e15:
        return str(int(number))
    return repr(number)
