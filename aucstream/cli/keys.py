"""`aucstream keys create | list | revoke`: the API keys of a data directory, whether or not a service runs on it.

The commands use no package of the extra `service`.
"""

from __future__ import annotations

import json
import math
import re
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from aucstream.errors import InvalidParams

if TYPE_CHECKING:
    from aucstream_service.storage.api_keys import Key

keys = typer.Typer(
    name="keys",
    help="API keys of a data directory: create, list, revoke. A running service reads a change at once.",
    no_args_is_help=True,
)

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="AUCSTREAM_DATA_DIR", help="Data directory of the service")]


ROLES = ("read", "write", "admin")
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}


def _keys_file(data_dir: Path) -> Path:
    from aucstream_service.storage.directory import DataDirectory

    return DataDirectory(data_dir).keys


@keys.command()
def create(
    data_dir: DataDir = Path("aucstream-data"),
    role: Annotated[
        str,
        typer.Option(
            metavar="|".join(ROLES), help="read: predict and read; write: learn and label, too; admin: everything"
        ),
    ] = "read",
    name: Annotated[str, typer.Option(help="What the key is for")] = "",
    models: Annotated[
        list[str] | None,
        typer.Option("--models", help="Name or pattern (shell glob) of the models it is for; may be repeated"),
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="When it expires: 90d, 12h, 30m, or a time such as 2030-01-31T12:00:00Z")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Requests a second at most; beyond it 429")] = None,
    burst: Annotated[
        int | None, typer.Option(help="Requests at once at most, with --rate; default: those of a second")
    ] = None,
) -> None:
    """Create a key and print it on standard output; it is not shown again."""
    from aucstream_service.storage import api_keys

    if role not in ROLES:
        raise InvalidParams("--role", " | ".join(map(repr, ROLES)), role)
    if rate is not None and not 0.0 < rate < math.inf:
        raise InvalidParams("--rate", "a finite number > 0", rate)
    if burst is not None and (burst < 1 or rate is None):
        raise InvalidParams("--burst", "a whole number >= 1, with --rate", burst)
    for pattern in models or ():
        if not pattern or "/" in pattern:
            raise InvalidParams("--models", "the name of a model, or a pattern such as shop-*", pattern)
    key, text = api_keys.create(
        _keys_file(data_dir),
        api_keys.Role[role.upper()],
        name,
        models=models or None,
        expires_at=None if expires is None else _moment(expires),
        rate=rate,
        burst=burst,
    )
    typer.echo(text)
    print(f"key {key.id}, role {role}; it is not shown again, only its hash is kept", file=sys.stderr)


def _moment(text: str) -> datetime:
    """Return the time that `--expires` says, with its time zone, or raise InvalidParams."""
    now = datetime.now(UTC)
    match = re.fullmatch(r"([0-9]{1,6})([dhms])", text)
    if match is not None:
        moment = now + timedelta(**{_UNITS[match[2]]: int(match[1])})
    else:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            expected = "a time to live such as 90d or 12h, or a time such as 2030-01-31T12:00:00Z"
            raise InvalidParams("--expires", expected, text) from None
    if moment.tzinfo is None:
        raise InvalidParams("--expires", "a time with its zone, such as 2030-01-31T12:00:00Z", text)
    if moment <= now:
        raise InvalidParams("--expires", "a time that is to come", text)
    return moment


@keys.command(name="list")
def list_(
    data_dir: DataDir = Path("aucstream-data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per key and line")] = False,
) -> None:
    """List the keys: id, role, name, time of creation, and the limits that a key has; as a table on a terminal, else a line each with tabs."""
    from aucstream_service.storage import api_keys

    entries = api_keys.read(_keys_file(data_dir))
    if as_json:
        for key in entries:
            facts: dict[str, Any] = {"id": key.id, "role": key.role.name.lower(), "name": key.name}
            facts["created_at"] = key.created_at
            limits = {"models": key.models, "expires_at": key.expires_at, "rate": key.rate, "burst": key.burst}
            typer.echo(json.dumps(facts | {name: limit for name, limit in limits.items() if limit is not None}))
        return
    limited = any(key.limited for key in entries)
    rows = [(key.id, key.role.name.lower(), key.name, key.created_at, *_limits(key, limited)) for key in entries]
    if not sys.stdout.isatty():  # for cut, awk and the like
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table("id", "role", "name", "created", *(("models", "expires", "rate") if limited else ()))
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def _limits(key: Key, limited: bool) -> tuple[str, ...]:
    """Return the columns of a key's limits; there are none where no key has limits."""
    if not limited:
        return ()
    rate = "-" if key.rate is None else f"{key.rate:g}/s"
    if key.burst is not None:
        rate += f", {key.burst} at once"
    expires = key.expires_at or "-"
    if key.expiry <= datetime.now(UTC).timestamp():
        expires += " (expired)"
    return (" ".join(key.models or ("*",)), expires, rate)


@keys.command()
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `aucstream keys list` shows it")],
    data_dir: DataDir = Path("aucstream-data"),
) -> None:
    """Revoke a key; a running service refuses it from the next request on."""
    from aucstream_service.storage import api_keys

    key = api_keys.revoke(_keys_file(data_dir), id_)
    print(f"key {key.id} revoked", file=sys.stderr)
