"""Who may come in: the name that was called, and the key that was shown, before a body is read.

A page of another site can make a browser call 127.0.0.1, and by DNS rebinding even under a name of its
own. Where no key is needed, the service therefore answers only to loopback names, to addresses (which
cannot be rebound) and to the names it was told; a service with keys answers to any name, because such a
page has no key, unless names are listed. No answer carries CORS headers, so a browser lets no other
site read it, and no call that changes anything takes a content type that a form could send.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from aucstream_service.errors.exceptions import Forbidden, HostRefused, Unauthorized
from aucstream_service.http.request_context import RequestContext, key_refused
from aucstream_service.settings import Settings
from aucstream_service.storage.api_keys import Keyring, Role

OPEN = frozenset({"/", "/docs", "/openapi.json", "/livez", "/healthz", "/readyz"})
LIFE = frozenset({"rename", "reset-evaluation", "rollback"})  # POSTs that change a model, as PUT, PATCH and DELETE do
OPEN_FOLDER = "/static/"
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
        return Role.ADMIN if call == "snapshot" else Role.READ  # a snapshot is the whole model
    if method == "POST" and call not in LIFE:
        return Role.READ if call in ("predict-one", "predict-many") else Role.WRITE
    return Role.ADMIN


class Admission:
    """Checks the head of a request."""

    def __init__(self, settings: Settings, keyring: Keyring) -> None:
        self._keyring = keyring
        self._listed = bool(settings.allowed_hosts)
        self._any = "*" in settings.allowed_hosts
        self._names = {"localhost", settings.host.lower(), *(name.lower() for name in settings.allowed_hosts)}
        self._good: set[bytes] = set()

    def admit(self, context: RequestContext) -> None:
        """Set the role of a request, or raise HostRefused, Unauthorized, Forbidden."""
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
        role = self._keyring.role_of(text)
        if role is None:
            raise key_refused()
        context.role = role
        context.knows = self._keyring.knows
        require(context, needed)

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
