"""Describes rejected values without leaking features, in the terms of JSON.

Features are private, and so is a name that is too long, which may hold anything: an answer names their kind. Labels,
ids, parameters and settings are quoted, cut at 80 characters.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from aucstream.errors import AucstreamError, Description, InvalidBlock, InvalidLabel, shown

LONGEST_NAME = 1024  # characters of a name in a pointer; a longer name is left out
LONGEST_LABEL = 40

_KINDS = {"int": "a number", "float": "a number", "str": "a string", "bool": "a boolean", "null": "null"}
_KINDS |= {"object": "an object", "array": "an array"}

_PYDANTIC = [
    (re.compile(pattern), text)
    for pattern, text in (
        (r"^Input should be (?=greater|less)", "a number "),
        (r"^Input should be ", ""),
        (r"^Value error, ", ""),
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
    """Return the kind of a value, without the value itself."""
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
        return f"a string of {_count(len(value), 'character')}"
    if isinstance(value, Mapping):
        return f"an object of {_count(len(value), 'name')}"
    if isinstance(value, Sequence):
        return f"an array of {_count(len(value), 'value')}"
    return f"a {type(value).__name__}"


def kind_of_number(value: float | str) -> str:
    """Return the kind of a number, or of the text of a number in a body."""
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def in_json(text: str) -> str:
    """Return a sentence of the library with the names of JSON for types and constants of Python."""
    return _PYTHON.sub(lambda match: _IN_JSON[match[0]], text)


def quoted(value: object) -> str:
    """Return a value that is no feature, cut at 80 characters; an object or an array is described by its kind."""
    if isinstance(value, (dict, list)):
        return kind_of(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return shown(value)


def _label(value: object) -> str:
    return kind_of(value) if isinstance(value, str) and len(value) > LONGEST_LABEL else quoted(value)


def got(error: AucstreamError) -> str:
    """Return the rejected value as an answer may show it; empty where the error has none."""
    if error.got is ...:
        return ""
    if isinstance(error, InvalidBlock):
        return kind_of(error.got)
    return _label(error.got) if isinstance(error, InvalidLabel) else quoted(error.got)


def sentence(error: AucstreamError) -> str:
    """Return *expected what, got what*."""
    value = got(error)
    return f"expected {in_json(error.expected)}{', got ' if value else ''}{value}"


def of_validator(message: str) -> str:
    """Return a message of msgspec in the terms of this service; it names kinds, never values."""
    match = re.match(r"Expected `([^`]*)`(?:, got `([^`]*)`)?$", message)
    if match is None:
        return message[:1].lower() + message[1:]
    names, kind = match.groups()
    expected = " or ".join(_KINDS.get(name, name) for name in names.split(" | "))
    return expected if kind is None else f"{expected}, got {_KINDS.get(kind, kind)}"


def of_pydantic(message: str) -> str:
    """Return a message of pydantic in the terms of this service."""
    for pattern, text in _PYDANTIC:
        message = pattern.sub(text, message)
    return message


def names_in(tokens: Sequence[Any]) -> list[Any]:
    """Return the tokens of a pointer before the first name that is too long to be shown."""
    for at, token in enumerate(tokens):
        if isinstance(token, str) and len(token) > LONGEST_NAME:
            return list(tokens[:at])
    return list(tokens)
