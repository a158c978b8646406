"""`aucstream fsck`: check a data directory of the service while it is not served."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def fsck(
    data_dir: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="data directory of the service")],
    as_json: Annotated[bool, typer.Option("--json", help="the whole report as one object")] = False,
    replay: Annotated[
        bool, typer.Option("--replay", help="make each newest snapshot again from the one before, and compare")
    ] = False,
    quarantine: Annotated[
        str | None, typer.Option(metavar="MODEL", help="move this model to DATA_DIR/quarantine: its name is free then")
    ] = None,
    salvage: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW_DIR",
            help="make a new data directory of the newest readable snapshots: where the journal is beyond repair",
        ),
    ] = None,
) -> None:
    """Check a data directory: exit 0 if it is sound, 1 if it is damaged, 2 if it cannot be checked."""
    module: Any = importlib.import_module("aucstream_service.ops.fsck")
    errors: Any = importlib.import_module("aucstream_service.errors.exceptions")
    whole = True
    try:
        if salvage is not None:
            lines, whole = module.salvage(data_dir, salvage)
            for line in lines:
                typer.echo(line)
            data_dir = salvage
        if quarantine is not None:
            print(f"model {quarantine} moved to {module.quarantine(data_dir, quarantine)}", file=sys.stderr)
        check = module.Check(data_dir, replay=replay)
        status = check.run()
    except errors.JournalDamaged as error:
        print(f"aucstream fsck: expected {error.message}", file=sys.stderr)
        raise typer.Exit(module.DAMAGED) from None
    except errors.StartRefused as error:
        print(f"aucstream fsck: expected {error.message}", file=sys.stderr)
        raise typer.Exit(module.CANNOT) from None
    if as_json:
        typer.echo(json.dumps(check.report))
        raise typer.Exit(status if whole else module.DAMAGED)
    for line in check.report["journal"]:
        typer.echo(f"journal: {line}")
    for model in check.report["models"]:
        told = f", replay {model['replay']}" if "replay" in model else ""
        state = "damaged" if model["damage"] else "sound"
        typer.echo(f"model {model['name']}: {state}, seq {model['seq']}, snapshots {model['snapshots']}{told}")
        for line in model["damage"]:
            typer.echo(f"  {line}")
    typer.echo("sound" if status == module.SOUND else "damaged")
    if not whole:
        print("aucstream fsck: not all models could be kept", file=sys.stderr)
    raise typer.Exit(status if whole else module.DAMAGED)
