"""What an answer says of a value that it refuses, in the words of JSON.

Features are private, and so is a name that is too long (it may be anything): an answer says of which kind they
are. Labels, ids, parameters and settings are quoted, shortly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aucstream.errors import AucstreamError, Description, InvalidBlock, InvalidLabel, shown

LONGEST_NAME = 1024  # characters of a name in a pointer; a longer one is told by its length
LONGEST_LABEL = 40

_KINDS = {"int": "a number", "float": "a number", "str": "a string", "bool": "a boolean", "null": "null"}
_KINDS |= {"object": "an object", "array": "an array"}

_PYDANTIC = [
    (re.compile(pattern), told)
    for pattern, told in (
        (r"^Input should be (?=greater|less)", "a number "),
        (r"^Input should be ", ""),
        (r"^String should have ", "a string of "),
        (r", unable to parse .*| or instance of \w+", ""),
        (r"a valid dictionary", "an object"),
        (r"a valid integer", "an integer"),
        (r"\ba valid ", "a "),
        (r"^Field required$", "this field, which is missing"),
        (r"^Extra inputs are not permitted$", "no other fields than the described ones"),
    )
]

_PYTHON = re.compile(r"\b(?:None|True|False|a bool|[Aa] dict|a list)\b")
_IN_JSON = {
    "None": "null",
    "True": "true",
    "False": "false",
    "a bool": "a boolean",
    "a dict": "an object",
    "a list": "an array",
}


def kind_of(value: object) -> str:
    """Return of which kind a value is; nothing of the value itself."""
    if isinstance(value, Description):
        return in_json(value)
    if isinstance(value, np.generic):
        value = value.item()
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return kind_of_number(value)
    if isinstance(value, str):
        return f"a string of {_counted(len(value), 'character')}"
    if isinstance(value, Mapping):
        return f"an object of {_counted(len(value), 'name')}"
    if isinstance(value, Sequence):
        return f"an array of {_counted(len(value), 'value')}"
    return f"a {type(value).__name__}"


def kind_of_number(value: float | str) -> str:
    """Return of which kind a number is, or the text of a number in a body."""
    if isinstance(value, str) and value.lstrip("-") in ("NaN", "Infinity"):
        return value
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        if isinstance(value, float):
            return "Infinity" if value > 0 else "-Infinity"
        return "a number too large for a double"
    return "a number"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_json(text: str) -> str:
    """Return a sentence of the library with JSON's names for what Python calls otherwise."""
    return _PYTHON.sub(lambda found: _IN_JSON[found[0]], text)


def quoted(value: object) -> str:
    """Return a value that is not a feature, cut at 80 characters; of an object or an array its kind."""
    if isinstance(value, (dict, list)):
        return kind_of(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return shown(value)


def _label(value: object) -> str:
    return kind_of(value) if isinstance(value, str) and len(value) > LONGEST_LABEL else quoted(value)


def got(error: AucstreamError) -> str:
    """Return what was found, as an answer may say it; empty where there is nothing to say."""
    if error.got is ...:
        return ""
    if isinstance(error, InvalidBlock):
        return kind_of(error.got)
    return _label(error.got) if isinstance(error, InvalidLabel) else quoted(error.got)


def sentence(error: AucstreamError) -> str:
    """Return *expected what, got what*."""
    found = got(error)
    return f"expected {in_json(error.expected)}{', got ' if found else ''}{found}"


def of_validator(what: str) -> str:
    """Return what msgspec says of a value in this service's words; it names kinds, never values."""
    match = re.match(r"Expected `([^`]*)`(?:, got `([^`]*)`)?$", what)
    if match is None:
        return what[:1].lower() + what[1:]
    names, found = match.groups()
    told = " or ".join(_KINDS.get(name, name) for name in names.split(" | "))
    return told if found is None else f"{told}, got {_KINDS.get(found, found)}"


def of_pydantic(what: str) -> str:
    """Return what pydantic expected in this service's words."""
    for pattern, told in _PYDANTIC:
        what = pattern.sub(told, what)
    return what


def names_in(tokens: Sequence[Any]) -> list[Any]:
    """Return the tokens of a pointer up to the first name that is too long to be told."""
    for at, token in enumerate(tokens):
        if isinstance(token, str) and len(token) > LONGEST_NAME:
            return list(tokens[:at])
    return list(tokens)
