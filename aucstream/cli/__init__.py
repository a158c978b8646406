"""The command line: `aucstream models | evaluate | train | score | inspect | serve | keys | fsck | warm`."""

from __future__ import annotations

import sys

from aucstream.errors import AucstreamError

FAILED = 1
REFUSED = 2


def main() -> None:
    """Run the command line; every expected failure is one sentence on standard error and status 2."""
    from aucstream.cli.commands import app

    try:
        app()
    except AucstreamError as error:
        print(f"aucstream: {error}", file=sys.stderr)
        raise SystemExit(REFUSED) from None
    except MemoryError as error:
        print(f"aucstream: memory: expected room for the data and the models ({error})", file=sys.stderr)
        raise SystemExit(FAILED) from None
    except OSError as error:
        print(f"aucstream: {error}", file=sys.stderr)
        raise SystemExit(FAILED) from None
