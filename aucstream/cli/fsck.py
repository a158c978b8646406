"""`aucstream fsck`: check a data directory of the service while no service runs on it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from aucstream.cli.extras import require_extra


def fsck(
    data_dir: Annotated[Path, typer.Argument(metavar="DATA_DIR", help="Data directory of the service")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole report as one JSON object")] = False,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Compute each model's newest snapshot again from the one before, and compare"),
    ] = False,
    quarantine: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="Move this model to DATA_DIR/quarantine; its name is free afterwards"),
    ] = None,
    salvage: Annotated[
        Path | None,
        typer.Option(
            metavar="NEW_DIR",
            help="Make a new data directory of the newest readable snapshots, for a journal that is beyond repair",
        ),
    ] = None,
) -> None:
    """Check a data directory; exit 0 if it is sound, 1 if it is damaged, 2 if it cannot be checked."""
    require_extra("fsck", "service")
    from aucstream_service.errors.exceptions import JournalDamaged, StartRefused
    from aucstream_service.ops import fsck as checks

    complete = True
    try:
        if salvage is not None:
            lines, complete = checks.salvage(data_dir, salvage)
            for line in lines:
                typer.echo(line)
            data_dir = salvage
        if quarantine is not None:
            print(f"model {quarantine} moved to {checks.quarantine(data_dir, quarantine)}", file=sys.stderr)
        check = checks.Check(data_dir, replay=replay)
        status = check.run()
    except JournalDamaged as error:
        print(f"aucstream fsck: expected {error.message}", file=sys.stderr)
        raise typer.Exit(checks.DAMAGED) from None
    except StartRefused as error:
        print(f"aucstream fsck: expected {error.message}", file=sys.stderr)
        raise typer.Exit(checks.CANNOT) from None
    except OSError as error:
        print(f"aucstream fsck: expected a disk that can be read and written, got {error}", file=sys.stderr)
        raise typer.Exit(checks.CANNOT) from None
    if as_json:
        typer.echo(json.dumps(check.report))
        raise typer.Exit(status if complete else checks.DAMAGED)
    for line in check.report["journal"]:
        typer.echo(f"journal: {line}")
    for model in check.report["models"]:
        state = "damaged" if model["damage"] else "sound"
        replayed = f", replay {model['replay']}" if "replay" in model else ""
        typer.echo(f"model {model['name']}: {state}, seq {model['seq']}, snapshots {model['snapshots']}{replayed}")
        for line in model["damage"]:
            typer.echo(f"  {line}")
    typer.echo("sound" if status == checks.SOUND else "damaged")
    if not complete:
        print("aucstream fsck: not all models could be kept", file=sys.stderr)
    raise typer.Exit(status if complete else checks.DAMAGED)
