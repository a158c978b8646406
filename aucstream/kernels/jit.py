"""The only place where a function is compiled.

`jit` is strict IEEE arithmetic. Compiled code is cached in a directory whose name is a digest of the
sources of its module and of the kernels that it can reach by imports: numba stamps only the file that holds
the cached function, so without the digest an edit of a callee would go unnoticed and the stale answer
would be loaded.

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
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.caching import FunctionCache, IndexDataCacheFile

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

_PACKAGE = Path(__file__).resolve().parent.parent
_IMPORT = re.compile(
    r"^[ \t]*from (aucstream[\w.]*) import (?:\(([^)]*)\)|([^(\n]+))", re.MULTILINE
)  # ast: ten times as long
_WORD = re.compile(r"\w+")
_log = logging.getLogger("aucstream.jit")


@cache
def _imported(path: Path) -> tuple[Path, ...]:
    """Return the files of this package with kernels or their constants that a file imports."""
    found = []
    for module, many, few in _IMPORT.findall(path.read_text()):
        for name in (module, *(f"{module}.{name}" for name in _WORD.findall(many or few))):
            file = _PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py")
            if file.is_file() and (file.parent.name == "kernels" or b"@jit" in file.read_bytes()):
                found.append(file)
    return tuple(found)


@cache
def source_digest(path: Path) -> str:
    """Return a digest of a file, of the kernels that it can reach, and of numba's version."""
    reached: set[Path] = set()
    ahead = [path]
    while ahead:
        file = ahead.pop()
        if file not in reached:
            reached.add(file)
            ahead += _imported(file)
    digest = hashlib.sha256(numba.__version__.encode())
    for file in sorted(reached):
        digest.update(str(file.relative_to(_PACKAGE)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _usable_cache_base() -> Path | None:
    base = Path(os.environ.get("AUCSTREAM_CACHE_DIR") or platformdirs.user_cache_dir("aucstream"))
    try:
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            pass
    except OSError as error:
        _log.warning("kernels are compiled anew in this process: cache %s: %s", base, error)
        return None
    return base


_settings: Any = numba.config
_types: Any = numba.types
CACHE_BASE: Path | None = _usable_cache_base()


def _source(function: Callable[..., Any]) -> Path:
    return Path(sys.modules[function.__module__].__file__ or "").resolve()


def _cache_dir(function: Callable[..., Any]) -> Path | None:
    path = _source(function)
    return None if CACHE_BASE is None else CACHE_BASE / f"{path.stem}-{source_digest(path)}"


def jit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` with numba: no Python objects, releases the GIL, cached, strict IEEE.

    It makes no arrays and returns none: so references to its arrays need not be counted, which took up to a
    quarter of a step on few features.
    """
    return _compiled(function, nogil=True)


def jit_inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` as `jit` does, into its callers: a call costs more than what a short one does.

    The compiler inlines very short functions by itself.
    """
    return _compiled(function, nogil=True, inlined=True)


def jit_allocating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` as `jit` does; it may make arrays, and return them to Python or to one of its own kind."""
    return _compiled(function, nogil=True, allocates=True)


def jit_holding(function: Callable[..., Any], inner: Any = None, kinds: object = None) -> Callable[..., Any]:
    """Compile `function` as `jit` does, but for the GIL, which it keeps: it reads Python objects.

    A closure says what it holds, and the cache knows it by that: `inner`, the compiled function that it calls, by
    name and source, and `kinds`, anything that its types depend on, by its text.
    """
    key = "" if inner is None else f"{inner.__module__}.{inner.__qualname__} {source_digest(_source(inner))} {kinds}"
    return _compiled(function, nogil=False, key=key)


def _compiled(
    function: Callable[..., Any], *, nogil: bool, key: str = "", inlined: bool = False, allocates: bool = False
) -> Callable[..., Any]:
    # nrt: numba's counting of references
    told: dict[str, Any] = {"nogil": nogil, "forceinline": inlined, "_nrt": allocates}
    folder = _cache_dir(function)
    compiled: Any
    if folder is None:
        compiled = numba.njit(**told)(function)
        return compiled  # type: ignore[no-any-return]
    # The locator reads the setting once, here; other users of numba in the process keep theirs.
    before = _settings.CACHE_DIR
    _settings.CACHE_DIR = str(folder)
    try:
        compiled = numba.njit(**told, cache=True)(function)
    finally:
        _settings.CACHE_DIR = before
    if hasattr(compiled, "_cache"):  # not where compiling is switched off
        cache = compiled._cache
        cache.__class__ = _OneAtATime
        cache.key = key
        cache.allocates = allocates
        suffix = "-" + hashlib.sha256(key.encode()).hexdigest()[:16] if key else ""
        # numba would add a folder for the path of the source: any copy of the same source may use this one
        folder.mkdir(exist_ok=True)
        cache._cache_path = str(folder)
        cache._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
            str(folder), cache._impl.filename_base + suffix, folder.name
        )
    return compiled  # type: ignore[no-any-return]


class _OneAtATime(FunctionCache):
    """numba's cache of one function, read and written by one process at a time.

    numba names a cached file by the first number that its index has free. Two processes that compile
    different types at once take the same number; whoever loads it next runs the other's machine code.

    `key`, where it is not empty, stands for what a closure holds: numba would tell two of them apart by a pickle
    that differs in every process.
    """

    key = ""
    allocates = False

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        if self.key:
            return signature, codegen.magic_tuple(), self.key
        return super()._index_key(signature, codegen)  # type: ignore[no-untyped-call]

    def load_overload(self, *arguments: Any) -> Any:
        with _cache_lock():
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]

    def save_overload(self, signature: Any, result: Any) -> None:
        if not self.allocates:
            _check_counts_nothing(result)
        with _cache_lock():
            super().save_overload(signature, result)  # type: ignore[no-untyped-call]


def _check_counts_nothing(result: Any) -> None:
    """Raise TypeError where a function of `jit` was compiled that returns an array or is given a new one: it would leak."""
    found = result.type_annotation
    calls = [
        call.return_type
        for said, call in found.calltypes.items()
        if getattr(said, "op", "") == "call" and isinstance(found.typemap[said.func.name], _types.Dispatcher)
    ]
    if any(map(_has_array, (result.signature.return_type, *calls))):
        raise TypeError(f"{result.fndesc.qualname}: arrays come from, and go to, functions of `jit_allocating` only")


def _has_array(kind: Any) -> bool:
    return isinstance(kind, _types.Array) or any(map(_has_array, getattr(kind, "types", ())))


@contextlib.contextmanager
def _cache_lock() -> Iterator[None]:
    if fcntl is None:
        yield
        return
    with open(f"{CACHE_BASE}/lock", "ab") as file:
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
