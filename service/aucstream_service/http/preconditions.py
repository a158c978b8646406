"""Conditional requests (RFC 9110, section 13): entity tags in `If-Match` and `If-None-Match`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Header, Response

from aucstream_service.errors.exceptions import PreconditionFailed

IfMatch = Annotated[str | None, Header(description="ETag that the model must have; `*`: it must be there")]
IfNoneMatch = Annotated[str | None, Header(description="ETag that is known already: 304 while it is the same")]
IfNoneThere = Annotated[str | None, Header(description="`*`: only where no model of that name is there")]


def listed(header: str, etag: str, *, weakly: bool = True) -> bool:
    """Return whether a list of entity tags names this one; `*` names every one."""
    tags = (item.strip() for item in header.split(","))
    return any((tag.removeprefix("W/") if weakly else tag) in ("*", etag) for tag in tags)


def unchanged(header: str | None, etag: str) -> Response | None:
    """Return the answer 304 where the client knows this tag."""
    if header is None or not listed(header, etag):
        return None
    return Response(status_code=304, headers={"ETag": etag})


@dataclass(frozen=True, slots=True)
class Preconditions:
    """What a request that changes something expects to find."""

    match: str | None = None
    none_match: str | None = None

    def check(self, etag: str | None) -> None:
        """Raise PreconditionFailed unless what is there (None: nothing) is what was expected."""
        if self.match is not None and (etag is None or not listed(self.match, etag, weakly=False)):
            raise PreconditionFailed(
                "If-Match", f"the ETag of the model as it is ({etag or 'there is none'})", self.match
            )
        if self.none_match is not None and etag is not None and listed(self.none_match, etag):
            raise PreconditionFailed("If-None-Match", f"a model with another ETag than {etag}", self.none_match)


ANY = Preconditions()
