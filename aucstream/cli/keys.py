"""`aucstream keys create | list | revoke`: the API keys of a data directory, whether or not it is served."""

from __future__ import annotations

import enum
import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

keys = typer.Typer(
    name="keys",
    help="API keys of a data directory: create, list, revoke. A running service takes note at once.",
    no_args_is_help=True,
)

DataDir = Annotated[Path, typer.Option("--data-dir", envvar="AUCSTREAM_DATA_DIR", help="data directory of the service")]


class RoleName(enum.StrEnum):
    """What a key may do."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


def _module() -> Any:
    return importlib.import_module("aucstream_service.storage.api_keys")


def _file(data_dir: Path) -> Path:
    file: Path = importlib.import_module("aucstream_service.storage.directory").DataDirectory(data_dir).keys
    return file


@keys.command()
def create(
    data_dir: DataDir = Path("aucstream-data"),
    role: Annotated[
        RoleName, typer.Option(help="read: predict, look; write: learn and label, too; admin: everything")
    ] = RoleName.READ,
    name: Annotated[str, typer.Option(help="what it is for")] = "",
) -> None:
    """Make a key and print it, this once, on standard output."""
    module = _module()
    key, text = module.create(_file(data_dir), module.Role[role.name], name)
    typer.echo(text)
    print(f"key {key.id}, role {role.value}; it is not shown again, only its hash is kept", file=sys.stderr)


@keys.command(name="list")
def list_(
    data_dir: DataDir = Path("aucstream-data"),
    as_json: Annotated[bool, typer.Option("--json", help="one object a line")] = False,
) -> None:
    """List the keys: id, role, name, when they were made; a line each, between tabs, where no terminal reads it."""
    found = _module().read(_file(data_dir))
    if as_json:
        for key in found:
            facts = {"id": key.id, "role": key.role.name.lower(), "name": key.name, "created_at": key.created_at}
            typer.echo(json.dumps(facts))
        return
    rows = [(key.id, key.role.name.lower(), key.name, key.created_at) for key in found]
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
    id_: Annotated[str, typer.Argument(metavar="ID", help="as `aucstream keys list` shows it")],
    data_dir: DataDir = Path("aucstream-data"),
) -> None:
    """Revoke a key; a running service refuses it from the next request on."""
    key = _module().revoke(_file(data_dir), id_)
    print(f"key {key.id} revoked", file=sys.stderr)
