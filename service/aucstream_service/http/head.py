"""What the head of a request must be, beside what httptools refuses by itself, and what is said of bytes it refused."""

from __future__ import annotations

import http
import re

import httptools

from aucstream.errors import Description
from aucstream_service.errors.exceptions import (
    BadRequest,
    HeadTooLarge,
    NotImplementedHere,
    ServiceError,
    VersionNotSupported,
)
from aucstream_service.http.gate import Gate
from aucstream_service.http.request_context import Header

CHECKED = frozenset({b"host", b"expect", b"transfer-encoding"})
VERSIONS = ("1.1", "1.0")

# What the parser says -> what was expected. Anything else is told in its words: they quote nothing.
REASONS = {
    "Invalid character in Content-Length": ("Content-Length", "digits only"),
    "Empty Content-Length": ("Content-Length", "digits"),
    "Content-Length overflow": ("Content-Length", "a smaller number"),
    "Duplicate Content-Length": ("Content-Length", "this header once"),
    "Transfer-Encoding can't be present with Content-Length": ("Transfer-Encoding", "it or Content-Length, not both"),
    "Content-Length can't be present with Transfer-Encoding": ("Transfer-Encoding", "it or Content-Length, not both"),
    "Invalid `Transfer-Encoding` header value": ("Transfer-Encoding", "chunked, once"),
    "Empty Transfer-Encoding": ("Transfer-Encoding", "chunked"),
}
OTHER_VERSION = ("Invalid HTTP version", "Pause on PRI/Upgrade")
_REQUEST_LINE = re.compile(rb"^([!#$%&'*+.^_`|~0-9A-Za-z-]{1,40}) \S+ HTTP/\d\.\d\r$", re.MULTILINE)


def checked_head(
    gate: Gate, method: bytes, version: str, url: bytes, headers: list[Header]
) -> tuple[bytes, list[Header], bool]:
    """Return URL, headers and whether the client waits for a 100 Continue, or raise what the head is refused for."""
    if len(headers) > gate.headers:
        raise head_too_large(gate)
    if version not in VERSIONS:
        raise VersionNotSupported("HTTP version", "1.1 or 1.0", Description(version))
    if method == b"CONNECT":
        raise NotImplementedHere("method", "one that this service knows", Description("CONNECT"))
    hosts = size = 0
    waits = False
    for name, value in headers:
        size += len(name) + len(value) + 4
        if name not in CHECKED:
            continue
        if name == b"host":
            hosts += 1
        elif name == b"expect":
            waits = waits or value.lower() == b"100-continue"
        elif version == "1.0":
            raise BadRequest(name.decode(), "Content-Length alone, in HTTP/1.0", Description("both"))
        elif value.lower() != b"chunked":
            raise NotImplementedHere(name.decode(), "chunked", value.decode("latin-1"))
    if size > gate.head_bytes:
        raise head_too_large(gate)
    if hosts > 1 or (hosts == 0 and version == "1.1"):
        raise BadRequest("Host", "this header once", Description("none" if hosts == 0 else "several"))
    if url[:1] != b"/":
        url, headers = _target(url, headers)
    return url, headers, waits


def _target(target: bytes, headers: list[Header]) -> tuple[bytes, list[Header]]:
    """Return the path of a whole URL and the headers with its host, whatever `Host` says (RFC 9112, 3.2.2)."""
    try:
        url = httptools.parse_url(target)
    except httptools.HttpParserInvalidURLError:
        url = None
    if url is None or (url.schema or b"").lower() not in (b"http", b"https") or not url.host:
        raise BadRequest("target", "a path or an http URL", target.decode("latin-1"))
    host = b"[%s]" % url.host if b":" in url.host else url.host
    if url.port is not None:
        host += b":%d" % url.port
    others = [(name, value) for name, value in headers if name != b"host"]
    return (url.path or b"/") + (b"?" + url.query if url.query else b""), [*others, (b"host", host)]


def head_too_large(gate: Gate) -> HeadTooLarge:
    """Return the error for a head over the limits."""
    return HeadTooLarge("headers", f"at most {gate.headers} headers, {gate.head_bytes} bytes in all")


def refusal_of(error: httptools.HttpParserError, data: bytes) -> ServiceError:
    """Return what is told of bytes that the parser refused."""
    reason = str(error)
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        line = _REQUEST_LINE.search(data)
        if line is not None and line[1].decode() not in http.HTTPMethod.__members__:
            return NotImplementedHere("method", "one that this service knows", Description(line[1].decode()))
    if reason in OTHER_VERSION:
        return VersionNotSupported("HTTP version", "1.1 or 1.0", Description("another"))
    if isinstance(error, httptools.HttpParserCallbackError):  # raised by what took the URL apart
        return BadRequest("target", "a path or an http URL, in ASCII")
    if reason in REASONS:
        return BadRequest(*REASONS[reason])
    return BadRequest("request", "HTTP/1.1 (RFC 9112)", Description(reason[:1].lower() + reason[1:]))
