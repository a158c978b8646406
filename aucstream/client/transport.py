"""What both clients share around httpx: its options and its errors."""

from __future__ import annotations

from typing import Any

import httpx

from aucstream.client.calls import Calls, base_of, headers_of
from aucstream.client.flow import Reply, Send
from aucstream.client.problems import ClientClosed, ConnectionFailed
from aucstream.client.retry import Retry
from aucstream.errors import InvalidParams

CONNECT_SECONDS = 5.0
# Below what servers keep an idle connection for: one that is closed just as it is used again loses the request.
LIMITS = httpx.Limits(max_connections=100, max_keepalive_connections=20, keepalive_expiry=2.0)

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


class Common:
    """Address, key and calls of a client."""

    def __init__(self, base_url: str, api_key: str | None, timeout: float, retry: Retry | None) -> None:
        if not timeout > 0:
            raise InvalidParams("timeout", "seconds > 0", timeout)
        self.base_url = base_of(base_url)
        self._headers = headers_of(api_key)
        self._calls = Calls(Retry() if retry is None else retry, timeout)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    def _options(self, effect: Send) -> dict[str, Any]:
        """Return the arguments of httpx for a request."""
        request = effect.request
        return {
            "method": request.method,
            "url": self.base_url + request.path,
            "content": request.content or None,
            "headers": {**self._headers, **(request.headers or {})},
            "timeout": httpx.Timeout(effect.timeout, connect=min(CONNECT_SECONDS, effect.timeout)),
        }


def check_open(is_closed: bool) -> None:
    """Raise ClientClosed where httpx would say that it cannot send."""
    if is_closed:
        raise ClientClosed("expected an open client, got one that was closed")


def connection_failure(error: httpx.RequestError) -> ConnectionFailed:
    """Return the ConnectionFailed for an error of httpx."""
    reason = str(error) or type(error).__name__
    failure = ConnectionFailed(f"expected an answer, got {reason}", sent=not isinstance(error, _NOT_SENT))
    failure.__cause__ = error
    return failure


def reply_of(answer: httpx.Response, content: bytes) -> Reply:
    """Return the Reply of an answer of httpx."""
    return Reply(answer.status_code, answer.headers, content)
