"""Optional packages: which extra of the distribution installs them, and the refusal where they are missing."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from aucstream.errors import InvalidParams, pip_install

# The modules that each extra installs, beside the core's; `pyproject.toml` has the distributions.
EXTRAS: dict[str, tuple[str, ...]] = {
    "service": (
        "apsw",
        "fastapi",
        "httptools",
        "prometheus_client",
        "pydantic_settings",
        "starlette",
        "uvicorn",
        "uvloop",
    ),
    "plot": ("matplotlib",),
}
UNAVAILABLE = ("uvloop",) if sys.platform == "win32" else ()


def require_extra(where: str, extra: str) -> None:
    """Raise where the modules of an extra are not installed. Nothing is imported.

    Parameters
    ----------
    where : str
        The command or option that needs them.
    extra : {"service", "plot"}
        Name of the extra.

    Raises
    ------
    InvalidParams
        A module is missing. The message has the command that installs it.
    """
    missing = [module for module in EXTRAS[extra] if module not in UNAVAILABLE and find_spec(module) is None]
    if missing:
        packages = f"package{'s' if len(missing) > 1 else ''} {', '.join(missing)}"
        raise InvalidParams(where, f"the {packages}, which {pip_install(extra)} installs")
