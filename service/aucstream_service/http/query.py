"""Query parameters: those that a call has, each once. Anything else is a mistake that nobody would notice."""

from __future__ import annotations

from collections.abc import Collection
from typing import get_origin
from urllib.parse import parse_qsl

from fastapi import Request

from aucstream.errors import Description
from aucstream_service.errors.exceptions import InvalidQuery


def checked_query(query: bytes, known: Collection[str], repeated: Collection[str] = ()) -> dict[str, str]:
    """Return the parameters of a query, or raise InvalidQuery naming one that is unknown or comes twice.

    Of those that may be `repeated` the last is returned.
    """
    parameters: dict[str, str] = {}
    for name, value in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
        if name not in known:
            expected = f"no parameter but {', '.join(known)}" if known else "no parameter"
            raise InvalidQuery("query", expected, name)
        if name in parameters and name not in repeated:
            raise InvalidQuery(name, "this parameter once", Description("several"))
        parameters[name] = value
    return parameters


async def known_query(request: Request) -> None:
    """Check the query against the parameters of the route: a dependency of all routes under /v1."""
    if request.scope["query_string"]:
        fields = request.scope["route"].dependant.query_params
        repeated = [each.alias for each in fields if get_origin(each.field_info.annotation) is list]
        checked_query(request.scope["query_string"], [each.alias for each in fields], repeated)
