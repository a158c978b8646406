"""The only place where a function is compiled.

`jit` is strict IEEE arithmetic. Compiled code is cached in a directory whose
name is a digest of every kernel source: numba stamps only the file that holds
the cached function, so without the digest an edit of a callee would go
unnoticed and the stale answer would be loaded.

Environment
-----------
AUCSTREAM_CACHE_DIR
    Where compiled kernels are kept; default: the user's cache directory.
    Where it cannot be written, kernels are compiled anew in every process.
NUMBA_DISABLE_JIT
    1 runs the same source as plain Python (coverage, debugger).
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.caching import FunctionCache

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

_PACKAGE = Path(__file__).resolve().parent.parent
_KERNEL_ROOMS = ("kernels", "learners", "features", "metrics")
_log = logging.getLogger("aucstream.jit")


def source_digest() -> str:
    """Return a digest of all kernel sources and of numba's version."""
    digest = hashlib.sha256(numba.__version__.encode())
    for room in _KERNEL_ROOMS:
        for path in sorted((_PACKAGE / room).glob("*.py")):
            digest.update(path.name.encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def _usable_cache_dir() -> Path | None:
    base = os.environ.get("AUCSTREAM_CACHE_DIR") or platformdirs.user_cache_dir("aucstream")
    path = Path(base) / f"kernels-{source_digest()}"
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as error:
        _log.warning("kernels are compiled anew in this process: cache %s: %s", path, error)
        return None
    return path


_settings: Any = numba.config
CACHE_DIR: Path | None = _usable_cache_dir()


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with numba: no Python objects, releases the GIL, cached, strict IEEE."""
    if CACHE_DIR is None:
        return numba.njit(nogil=True)(function)
    # The locator reads the setting once, here; other users of numba in the process keep theirs.
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(CACHE_DIR)
    try:
        compiled: Any = numba.njit(nogil=True, cache=True)(function)
    finally:
        _settings.CACHE_DIR = before
    if hasattr(compiled, "_cache"):  # not where compiling is switched off
        compiled._cache.__class__ = _OneAtATime
    return compiled  # type: ignore[no-any-return]


class _OneAtATime(FunctionCache):
    """numba's cache of one function, read and written by one process at a time.

    numba names a cached file by the first number that its index has free. Two processes that compile
    different types at once take the same number; whoever loads it next runs the other's machine code.
    """

    def load_overload(self, *arguments: Any) -> Any:
        with _cache_lock():
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]

    def save_overload(self, *arguments: Any) -> None:
        with _cache_lock():
            super().save_overload(*arguments)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def _cache_lock() -> Iterator[None]:
    if fcntl is None:
        yield
        return
    with open(f"{CACHE_DIR}/lock", "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


class RowCall:
    """A compiled function of one row, called from Python without numba's look-up of types (half the price).

    Parameters
    ----------
    function : function
        Made by `jit`. Every call must give arguments of the types of the first one, but for the row's
        columns: None or an array.

    Attributes
    ----------
    dense, sparse : function
        `function` for a row whose columns are None, and for one that has an array of them.
    """

    __slots__ = ("dense", "sparse")

    def __init__(self, function: Callable[..., Any]) -> None:
        self.dense: Callable[..., Any] = self._first("dense", function)
        self.sparse: Callable[..., Any] = self._first("sparse", function)

    def _first(self, name: str, function: Any) -> Callable[..., Any]:
        def first(*arguments: Any) -> Any:
            known = function
            if hasattr(function, "compile"):  # a plain function where compiling is switched off
                known = function.compile(tuple(map(numba.typeof, arguments)))
            setattr(self, name, known)
            return known(*arguments)

        return first
