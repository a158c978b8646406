"""`aucstream keys create | list | revoke`: the API keys of a data directory, whether or not a service runs on it.

The commands use no package of the extra `service`.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from aucstream.errors import InvalidParams

keys = typer.Typer(
    name="keys",
    help="API keys of a data directory: create, list, revoke. A running service reads a change at once.",
    no_args_is_help=True,
)

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="AUCSTREAM_DATA_DIR", help="Data directory of the service")]


ROLES = ("read", "write", "admin")


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
) -> None:
    """Create a key and print it on standard output; it is not shown again."""
    from aucstream_service.storage import api_keys

    if role not in ROLES:
        raise InvalidParams("--role", " | ".join(map(repr, ROLES)), role)
    key, text = api_keys.create(_keys_file(data_dir), api_keys.Role[role.upper()], name)
    typer.echo(text)
    print(f"key {key.id}, role {role}; it is not shown again, only its hash is kept", file=sys.stderr)


@keys.command(name="list")
def list_(
    data_dir: DataDir = Path("aucstream-data"),
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per key and line")] = False,
) -> None:
    """List the keys: id, role, name, time of creation; as a table on a terminal, else a line each with tabs."""
    from aucstream_service.storage import api_keys

    entries = api_keys.read(_keys_file(data_dir))
    if as_json:
        for key in entries:
            facts = {"id": key.id, "role": key.role.name.lower(), "name": key.name, "created_at": key.created_at}
            typer.echo(json.dumps(facts))
        return
    rows = [(key.id, key.role.name.lower(), key.name, key.created_at) for key in entries]
    if not sys.stdout.isatty():  # for cut, awk and the like
        for row in rows:
            typer.echo("\t".join(row))
        return
    table = Table("id", "role", "name", "created")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


@keys.command()
def revoke(
    id_: Annotated[str, typer.Argument(metavar="ID", help="Id of the key, as `aucstream keys list` shows it")],
    data_dir: DataDir = Path("aucstream-data"),
) -> None:
    """Revoke a key; a running service refuses it from the next request on."""
    from aucstream_service.storage import api_keys

    key = api_keys.revoke(_keys_file(data_dir), id_)
    print(f"key {key.id} revoked", file=sys.stderr)
