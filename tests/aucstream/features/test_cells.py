"""The text of one cell: numbers as people write them, dates and times."""

from __future__ import annotations

import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aucstream.features.cells import PLAIN, WEEKDAYS, Convention, number_of, parts_of, time_of, word_of

COMMA = Convention(",")
GERMAN = Convention(",", ".")
ENGLISH = Convention(".", ",")


@pytest.mark.parametrize(
    ("text", "convention", "number"),
    [
        ("1234.5", PLAIN, 1234.5),
        (" +.5 ", PLAIN, 0.5),
        ("-1.5e3", PLAIN, -1500.0),
        ("12,50", COMMA, 12.5),
        ("1.234,56", GERMAN, 1234.56),
        ("-1.234.567", GERMAN, -1234567.0),
        ("1,234.50", ENGLISH, 1234.5),
        ("1234.50", ENGLISH, 1234.5),
        ("$12.50", PLAIN, 12.5),
        ("-$12.50", PLAIN, -12.5),
        ("$-12.50", PLAIN, -12.5),
        ("12,50 €", COMMA, 12.5),
        ("£ 1,234", ENGLISH, 1234.0),
        ("5%", PLAIN, 5.0),
        ("5,5 %", COMMA, 5.5),
        ("1 234,5", Convention(",", " "), 1234.5),
        ("1\u202f234,5", Convention(",", " "), 1234.5),
        ("1'234.5", Convention(".", "'"), 1234.5),
        ("12,50", PLAIN, None),
        ("12,50", ENGLISH, None),
        ("1.5", COMMA, None),
        ("1,23,456", ENGLISH, None),
        ("1.234.5", GERMAN, None),
        ("nan", PLAIN, None),
        ("1e400", PLAIN, None),
        ("--1", PLAIN, None),
        ("1_000", PLAIN, None),
        ("٣", PLAIN, None),
        ("", PLAIN, None),
        ("%", PLAIN, None),
        ("12 50", PLAIN, None),
    ],
)
def test_a_number_as_people_write_it(text: str, convention: Convention, number: float | None) -> None:
    assert number_of(text, convention) == number


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_plain_number_is_what_python_reads(number: float) -> None:
    assert number_of(repr(number)) == number


@given(st.integers(-(10**9), 10**9), st.integers(0, 99))
def test_thousands_and_decimals_are_told_apart(whole: int, cents: int) -> None:
    english = f"{whole:,}.{cents:02}"
    german = english.translate(str.maketrans(",.", ".,"))
    assert number_of(english, ENGLISH) == number_of(german, GERMAN) == float(f"{whole}.{cents:02}")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2024-03-01", (2024, 3, 1)),
        ("2024/3/1", (2024, 3, 1)),
        ("01.03.2024", (2024, 3, 1)),
        ("2024-03-01T12:30", (2024, 3, 1, 12, 30)),
        ("2024-03-01 12:30:05", (2024, 3, 1, 12, 30, 5)),
        ("2024-03-01T12:30:05Z", (2024, 3, 1, 12, 30, 5)),
        ("2024-03-01T12:30:05+01:00", (2024, 3, 1, 11, 30, 5)),
        ("2024-03-01T12:30:05-0530", (2024, 3, 1, 18, 0, 5)),
        ("01.03.2024 12:30", (2024, 3, 1, 12, 30)),
        ("1969-12-31", (1969, 12, 31)),
    ],
)
def test_a_time_is_seconds_since_1970(text: str, moment: tuple[int, ...]) -> None:
    assert time_of(text) == datetime.datetime(*moment, tzinfo=datetime.UTC).timestamp()  # type: ignore[arg-type]


def test_fractions_of_a_second() -> None:
    assert time_of("1970-01-01T00:00:01.250Z") == 1.25


@pytest.mark.parametrize(
    "text", ["2024-13-01", "2024-02-30", "20240301", "2024-03/01", "12:30", "1.5", "", "03/01/2024"]
)
def test_what_is_no_time(text: str) -> None:
    assert time_of(text) is None


@given(st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1), timezones=st.just(datetime.UTC)))
def test_hour_and_weekday_in_utc(moment: datetime.datetime) -> None:
    seconds = time_of(moment.isoformat())
    assert seconds == pytest.approx(moment.timestamp(), abs=1e-5)
    assert parts_of(seconds, ("hour", "weekday")) == {"hour": str(moment.hour), "weekday": WEEKDAYS[moment.weekday()]}


@pytest.mark.parametrize(("number", "word"), [(7, "7"), (7.0, "7"), (7.5, "7.5"), (True, "true"), (1e22, "1e+22")])
def test_the_word_of_a_number(number: float, word: str) -> None:
    assert word_of(number) == word
