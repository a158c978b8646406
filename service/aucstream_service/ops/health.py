"""The container's health check: is /livez 200? Only the standard library; exit status 0 or 1."""

from __future__ import annotations

import os
import sys
import urllib.error
import urllib.request

TIMEOUT_SECONDS = 3.0


def alive(port: str) -> bool:
    """Return whether the service on this machine answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/livez", timeout=TIMEOUT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    sys.exit(0 if alive(os.environ.get("AUCSTREAM_PORT", "8000")) else 1)
