"""API keys: made, listed and revoked by command, looked up by the service in the file as it is now.

DIR/keys.json (0600)   {"format": 1, "keys": [{"id", "name", "role", "created_at", "sha256"}]}
                       format 2, where a key has limits: also "models", "expires_at", "rate", "burst", null without
                       (a version that does not know them must not take such a key for one without)

A key is `auc_<id>_<secret>` and is shown once; the file keeps its SHA-256. The secret is 256 random
bits, not a word that a person chose: there is nothing to guess, so a slow hash would protect nothing
and would cost every request what it costs a stranger who sends wrong keys.

The file is replaced as a whole (temporary file, fsync, rename, fsync of the folder), so a reader sees
the old keys or the new ones, and a new stamp of the file tells a running service to read it again: it
looks at each request, but not twice within `REST_SECONDS`.
Once there is a file, keys are needed, even when the last one has been revoked.
"""

from __future__ import annotations

import base64
import contextlib
import enum
import fcntl
import fnmatch
import hashlib
import hmac
import json
import logging
import math
import os
import secrets
import time
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from aucstream.errors import AucstreamError
from aucstream_service.errors.exceptions import StartRefused
from aucstream_service.storage.files import PRIVATE

log = logging.getLogger("aucstream")

FORMAT = 1
LIMITS_FORMAT = 2
PREFIX = "auc_"
ID_BYTES = 5  # 8 letters of base32
SECRET_BYTES = 32
REST_SECONDS = 0.02  # a look costs a request as much as decoding its body
MIN_OWN_KEY = 32  # letters of a key that an operator brings: it must be random, too


class Role(enum.IntEnum):
    """What a key may do; each role may also do what the ones before it may."""

    READ = 1  # predict without an id, read everything but snapshots
    WRITE = 2  # learn, label, predict with an id
    ADMIN = 3  # create, replace and delete models, snapshots, raw events


class Key(NamedTuple):
    """One key, without its secret."""

    id: str
    name: str
    role: Role
    created_at: str
    sha256: str
    models: tuple[str, ...] | None = None  # patterns (shell globs) of the models it may be used for; None: all
    expires_at: str | None = None  # RFC 3339; None: never
    rate: float | None = None  # requests a second; None: any
    burst: int | None = None  # requests at once; None: those of a second, 1 at least

    @property
    def limited(self) -> bool:
        """Whether a version that knows roles alone would take it for more than it is."""
        return (self.models, self.expires_at, self.rate) != (None, None, None)

    @property
    def expiry(self) -> float:
        """When it expires, in seconds since 1970."""
        return math.inf if self.expires_at is None else datetime.fromisoformat(self.expires_at).timestamp()

    def may_use(self, model: str) -> bool:
        """Return whether it is a key for a model of this name."""
        return self.models is None or any(fnmatch.fnmatchcase(model, pattern) for pattern in self.models)


class BadKeys(AucstreamError):
    """The file of keys, or what it was asked for, is not right."""


# ---- the file ---------------------------------------------------------------------------------


def create(
    path: Path,
    role: Role,
    name: str,
    *,
    models: Sequence[str] | None = None,
    expires_at: datetime | None = None,
    rate: float | None = None,
    burst: int | None = None,
) -> tuple[Key, str]:
    """Make a key; return it and the text that is shown once.

    Parameters
    ----------
    path : Path
        The file of keys.
    role : Role
    name : str
        What it is for.
    models : sequence of str, optional
        Patterns (shell globs) of the models that it may be used for; default: all.
    expires_at : datetime, optional
        With a time zone. Default: never.
    rate : float, optional
        Requests a second, above 0; default: any.
    burst : int, optional
        Requests at once, 1 or more; default: those of a second, 1 at least.
    """
    id_ = _base32(ID_BYTES)
    text = f"{PREFIX}{id_}_{_base32(SECRET_BYTES)}"
    now = _rfc3339(datetime.now(UTC))
    expires = None if expires_at is None else _rfc3339(expires_at)
    digest = hashlib.sha256(text.encode()).hexdigest()
    key = Key(id_, name, role, now, digest, None if models is None else tuple(models), expires, rate, burst)
    with _writing(path):
        _write(path, [*read(path), key])
    return key, text


def revoke(path: Path, id_: str) -> Key:
    """Remove a key; raise BadKeys if there is none of that id."""
    with _writing(path):
        keys = read(path)
        for key in keys:
            if key.id == id_:
                _write(path, [other for other in keys if other is not key])
                return key
    raise BadKeys("keys revoke", "the id of a key (`aucstream keys list` shows them)", id_[:40])


def read(path: Path) -> list[Key]:
    """Return the keys of a file, none if it is not there; raise BadKeys."""
    try:
        document = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise BadKeys("keys", f"to read {path}: {error.strerror}") from error
    except ValueError as error:
        raise BadKeys("keys", f"JSON in {path}") from error
    try:
        if document["format"] not in (FORMAT, LIMITS_FORMAT):
            raise BadKeys("keys", f"format {FORMAT} or {LIMITS_FORMAT} in {path}", document["format"])
        return [
            Key(
                str(entry["id"]),
                str(entry["name"]),
                Role[entry["role"].upper()],
                str(entry["created_at"]),
                str(entry["sha256"]),
                *_limits_of(entry),
            )
            for entry in document["keys"]
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadKeys("keys", f"a file made by `aucstream keys` at {path}") from error


def _rfc3339(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _limits_of(entry: dict[str, Any]) -> tuple[tuple[str, ...] | None, str | None, float | None, int | None]:
    models, expires_at = entry.get("models"), entry.get("expires_at")
    rate, burst = entry.get("rate"), entry.get("burst")
    if expires_at is not None:
        datetime.fromisoformat(expires_at)
    return (
        None if models is None else tuple(map(str, models)),
        expires_at,
        None if rate is None else float(rate),
        None if burst is None else int(burst),
    )


def _entry_of(key: Key) -> dict[str, Any]:
    entry = {**key._asdict(), "role": key.role.name.lower()}
    if not key.limited:
        for name in ("models", "expires_at", "rate", "burst"):
            del entry[name]
    return entry


def _write(path: Path, keys: list[Key]) -> None:
    version = LIMITS_FORMAT if any(key.limited for key in keys) else FORMAT
    document = {"format": version, "keys": list(map(_entry_of, keys))}
    temporary = path.with_suffix(".tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        os.fchmod(descriptor, 0o600)
        folder = path.parent.stat()
        if os.geteuid() == 0 and folder.st_uid != 0:  # made by root for a service that is not
            os.fchown(descriptor, folder.st_uid, folder.st_gid)
        json.dump(document, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """One command at a time changes the file (the folder itself is locked: it is always there)."""
    path.parent.mkdir(mode=PRIVATE, parents=True, exist_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _base32(size: int) -> str:
    return base64.b32encode(secrets.token_bytes(size)).decode().rstrip("=").lower()


# ---- the service's look-up --------------------------------------------------------------------

Stamp = tuple[int, int, int]
OWN = Key("own", "the operator's own", Role.ADMIN, "", "")
_NOBODY = hashlib.sha256(b"").hexdigest()


class Keyring:
    """The keys of a data directory, always those of the file as it is now.

    Parameters
    ----------
    path : Path
        The file; need not be there.
    own : str, optional
        An admin key that the operator brings (`AUCSTREAM_ADMIN_KEY`, `AUCSTREAM_ADMIN_KEY_FILE`).
    rest : float
        Seconds after a look at the file in which it is not looked at again.
    """

    def __init__(self, path: Path, own: str | None = None, rest: float = 0.0) -> None:
        self._path = path
        self._own = None if own is None else hashlib.sha256(own.encode()).hexdigest()
        self._keys: dict[str, Key] = {}
        self._expiries: dict[str, float] = {}
        self._stamp: Stamp | None = None
        self._rest = rest
        self._next_look = 0.0
        self._needed = own is not None

    @property
    def needed(self) -> bool:
        """Whether a request needs a key; once true it stays true in this process."""
        self._refresh()
        return self._needed

    def check(self) -> bool:
        """Return whether there is a key to call with; raise StartRefused if the file cannot be used."""
        try:
            return bool(read(self._path)) or self._own is not None
        except BadKeys as error:
            raise StartRefused(error.expected) from error

    def knows(self, text: bytes) -> bool:
        """Return whether a key is good now."""
        self._refresh()
        return self.key_of(text) is not None

    def key_of(self, text: bytes) -> Key | None:
        """Return a key; None for one that has expired, or was unknown or revoked when `needed` last looked."""
        digest = hashlib.sha256(text).hexdigest()
        if self._own is not None and hmac.compare_digest(digest, self._own):
            return OWN
        end = len(PREFIX) + 8
        key = self._keys.get(text[len(PREFIX) : end].decode("latin-1"))
        same = hmac.compare_digest(digest, _NOBODY if key is None else key.sha256)
        if key is None or not same or time.time() >= self._expiries[key.id]:
            return None
        return key

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._next_look:
            return
        self._next_look = now + self._rest
        try:
            status = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            self._stamp = None
            self._keys = {}
            return
        except OSError as error:
            self._refuse_all((-1, 0, 0), str(error.strerror))
            return
        stamp = (status.st_ino, status.st_mtime_ns, status.st_size)
        if stamp == self._stamp:
            return
        self._needed = True
        try:
            self._keys = {key.id: key for key in read(self._path)}
            self._expiries = {key.id: key.expiry for key in self._keys.values()}
        except BadKeys as error:
            self._refuse_all(stamp, error.message)
            return
        self._stamp = stamp

    def _refuse_all(self, stamp: Stamp, reason: str) -> None:
        self._needed = True
        self._keys = {}
        if stamp != self._stamp:
            log.error("keys: %s; no key of it is accepted until it can be read", reason)
        self._stamp = stamp
