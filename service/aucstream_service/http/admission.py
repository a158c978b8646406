"""Who may come in: the name that was called, and the key that was shown, before a body is read.

A page of another site can make a browser call 127.0.0.1, and by DNS rebinding even under a name of its
own. Where no key is needed, the service therefore answers only to loopback names, to addresses (which
cannot be rebound) and to the names it was told; a service with keys answers to any name, because such a
page has no key, unless names are listed. No answer carries CORS headers, so a browser lets no other
site read it, and no call that changes anything takes a content type that a form could send.
"""

from __future__ import annotations

import ipaddress
import math
import time
from typing import Any

from aucstream_service.errors.exceptions import Forbidden, HostRefused, RateLimited, Unauthorized
from aucstream_service.http.request_context import RequestContext, key_refused
from aucstream_service.settings import Settings
from aucstream_service.storage.api_keys import Keyring, Role

OPEN = frozenset({"/", "/docs", "/openapi.json", "/livez", "/healthz", "/readyz"})
LIFE = frozenset({"rename", "reset-evaluation", "rollback"})  # POSTs that change a model, as PUT, PATCH and DELETE do
OPEN_FOLDER = "/static/"
MODELS = "/v1/models/"
KEPT_HOSTS = 256  # checked values of Host that are remembered

SCHEMES: dict[str, Any] = {
    "bearer": {
        "type": "http",
        "scheme": "bearer",
        "description": "A key of `aucstream keys create`. Roles: read (predict without an id, GET), write (learn, "
        "label, predict with an id), admin (models and their changes, snapshots, raw events); each includes the ones before. "
        "A service on a loopback address without keys takes every call.",
    },
    "header": {"type": "apiKey", "in": "header", "name": "X-API-Key", "description": "the same key"},
}


def role_needed(method: str, path: str) -> Role | None:
    """Return the least role for a call, None for what is open; what is not known is not open."""
    if path in OPEN or path.startswith(OPEN_FOLDER):
        return None
    call = path.rpartition("/")[2]
    if method in ("GET", "HEAD", "OPTIONS"):
        return Role.ADMIN if call in ("snapshot", "export") else Role.READ  # the whole model, and raw features
    if method == "POST" and call not in LIFE:
        return Role.READ if call in ("predict-one", "predict-many") else Role.WRITE
    return Role.ADMIN


class Bucket:
    """A token bucket.

    Parameters
    ----------
    rate : float
        Tokens a second.
    burst : int, optional
        Tokens at most; default: those of a second, 1 at least.
    """

    __slots__ = ("_at", "_most", "rate", "tokens")

    def __init__(self, rate: float, burst: int | None = None) -> None:
        self.rate = rate
        self._most = max(1.0, rate) if burst is None else float(burst)
        self.tokens = self._most
        self._at = time.monotonic()

    def spend(self) -> float:
        """Take a token; return 0, or the seconds until there is one."""
        now = time.monotonic()
        self.tokens = min(self._most, self.tokens + (now - self._at) * self.rate)
        self._at = now
        if self.tokens < 1.0:
            return (1.0 - self.tokens) / self.rate
        self.tokens -= 1.0
        return 0.0


class Admission:
    """Checks the head of a request."""

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        self._keyring = keyring
        self._listed = bool(settings.allowed_hosts)
        self._any = "*" in settings.allowed_hosts
        self._names = {"localhost", settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        self._good: set[bytes] = set()
        self._buckets: dict[str, Bucket] = {}  # by the id of a key that has a rate

    def admit(self, context: RequestContext) -> None:
        """Set the key of a request, or raise HostRefused, Unauthorized, Forbidden; its rate is looked at by `spend`."""
        keyed = self._keyring.needed
        if not (self._any or (keyed and not self._listed)):
            for host in context.hosts:
                if host not in self._good:
                    self._check_host(host)
        if not keyed:
            return
        needed = role_needed(context.method, context.path)
        if needed is None:
            return
        text = context.key
        if text is None:
            raise Unauthorized(
                "key",
                "an API key, as `Authorization: Bearer KEY` or `X-API-Key: KEY`",
                headers={"WWW-Authenticate": 'Bearer realm="aucstream"'},
            )
        key = self._keyring.key_of(text)
        if key is None:
            raise key_refused()
        context.entry = key
        context.knows = self._keyring.knows
        require(context, needed)
        if key.models is not None and context.path != "/v1/models":  # the list has those that it may be used for
            path = context.path
            require_model(context, path[len(MODELS) :].partition("/")[0] if path.startswith(MODELS) else "")

    def spend(self, context: RequestContext) -> None:
        """Count a request against the rate of its key, or raise RateLimited."""
        key = context.entry
        if key is None or key.rate is None:
            return
        bucket = self._buckets.get(key.id)
        if bucket is None or bucket.rate != key.rate:
            bucket = self._buckets[key.id] = Bucket(key.rate, key.burst)
        seconds = bucket.spend()
        if seconds > 0.0:
            after = str(max(1, math.ceil(seconds)))
            raise RateLimited("key", f"at most {key.rate:g} requests a second", headers={"Retry-After": after})

    def restore(self, context: RequestContext) -> None:
        """Take back what `spend` counted: the request is served, and counted, elsewhere."""
        bucket = None if context.entry is None else self._buckets.get(context.entry.id)
        if bucket is not None:
            bucket.tokens += 1.0

    def _check_host(self, host: bytes) -> None:
        name = _name_of(host.decode("latin-1")).lower()
        if name not in self._names and not _is_address(name):
            raise HostRefused(
                "Host",
                "localhost, an address, or a name that the service was told (--allowed-hosts)",
                name[:80],
            )
        if len(self._good) < KEPT_HOSTS:
            self._good.add(host)


def require_model(context: RequestContext, name: str) -> None:
    """Raise Forbidden if the key of a request may not be used for a model of this name ("": for no single model)."""
    if not context.may_use(name):
        raise Forbidden(
            "key",
            "one that may be used for this model" if name else "one that is not for single models",
            headers={"WWW-Authenticate": 'Bearer realm="aucstream", error="insufficient_scope"'},
        )


def require(context: RequestContext, needed: Role) -> None:
    """Raise Forbidden if the key of a request has a lesser role."""
    role = context.role
    if role is not None and role < needed:
        name = needed.name.lower()
        raise Forbidden(
            "key",
            f"one with the role {name}",
            role.name.lower(),
            headers={"WWW-Authenticate": f'Bearer realm="aucstream", error="insufficient_scope", scope="{name}"'},
        )


def _name_of(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
