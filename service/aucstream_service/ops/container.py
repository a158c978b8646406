"""The container's entry point: give numba a cache that it may write to, then start the service.

The image carries the compiled kernels in a folder that nobody may write to, and numba refuses such a
cache. So they are copied to AUCSTREAM_CACHE_DIR (a tmpfs by default) before numba is imported. Where
nothing can be written the service starts all the same and compiles its kernels anew.

Only the standard library is imported here.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

IMAGE_CACHE = "/opt/aucstream/cache"


def prepare_cache(source: Path, target: Path) -> str:
    """Copy the image's kernels to where they may be written; return what happened, in one sentence."""
    if not source.is_dir():
        return f"cache: the image has none at {source}; kernels are compiled at start"
    try:
        target.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target):
            pass
        for entry in source.iterdir():
            # copy2 keeps modification times, by which numba knows its files
            if entry.is_dir():
                shutil.copytree(entry, target / entry.name, dirs_exist_ok=True)
            else:
                shutil.copy2(entry, target / entry.name)
        _make_writable(target)
    except OSError as error:
        return f"cache: {target} cannot be written ({error.strerror}); kernels are compiled anew at each start"
    return f"cache: kernels from {source} at {target}"


def _make_writable(folder: Path) -> None:
    """A copy of a read-only tree is read-only too; numba writes its index beside the kernels."""
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | (0o700 if path.is_dir() else 0o600))


def main(arguments: list[str]) -> None:
    """Prepare the cache and become `aucstream serve ARGUMENTS`."""
    source = Path(os.environ.get("AUCSTREAM_IMAGE_CACHE", IMAGE_CACHE))
    target = Path(os.environ.get("AUCSTREAM_CACHE_DIR") or Path(tempfile.gettempdir()) / "aucstream-cache")
    print(prepare_cache(source, target), file=sys.stderr, flush=True)
    os.environ["AUCSTREAM_CACHE_DIR"] = str(target)
    os.execv(sys.executable, [sys.executable, "-m", "aucstream", "serve", *arguments])


if __name__ == "__main__":
    main(sys.argv[1:])
