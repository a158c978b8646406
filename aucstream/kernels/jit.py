"""The only place where a function is compiled.

`jit` is strict IEEE arithmetic. Compiled code is cached under a digest of all that it depends on
(`kernels.digest`): numba stamps only the file that holds the cached function, so without the digest an edit of a
callee would go unnoticed and the stale answer would be loaded.

A closure is cached like any other function. What it holds, a compiled function or a type, is part of its digest.

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
import logging
import os
import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import platformdirs
from numba.core.caching import FunctionCache, IndexDataCacheFile

from aucstream.kernels.digest import digest_of

fcntl: Any
try:
    import fcntl
except ImportError:  # no such locks on this system
    fcntl = None

_log = logging.getLogger("aucstream.jit")
_decorating = threading.Lock()  # numba's setting of the cache's directory is one for the process


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
COMPILES = not _settings.DISABLE_JIT  # else kernels run as plain Python
_types: Any = numba.types
CACHE_BASE: Path | None = _usable_cache_base()


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


def jit_holding(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile `function` as `jit` does, but for the GIL, which it keeps: it reads Python objects."""
    return _compiled(function, nogil=False)


def _compiled(
    function: Callable[..., Any], *, nogil: bool, inlined: bool = False, allocates: bool = False
) -> Callable[..., Any]:
    # nrt: numba's counting of references
    options: dict[str, Any] = {"nogil": nogil, "forceinline": inlined, "_nrt": allocates}
    compiled: Any
    if CACHE_BASE is None:
        compiled = numba.njit(**options)(function)
        return compiled  # type: ignore[no-any-return]
    # The locator reads the setting once, here; other users of numba in the process keep theirs.
    with _decorating:
        before = _settings.CACHE_DIR
        _settings.CACHE_DIR = str(CACHE_BASE)
        try:
            compiled = numba.njit(**options, cache=True)(function)
        finally:
            _settings.CACHE_DIR = before
    if hasattr(compiled, "_cache"):  # not where compiling is switched off
        compiled._cache.__class__ = _DigestCache
        compiled._cache.dispatcher = compiled
        compiled._cache.allocates = allocates
    return compiled  # type: ignore[no-any-return]


class _DigestCache(FunctionCache):
    """numba's cache of one function, named by a digest, and read and written by one process at a time.

    numba names a cached file by the first number that its index has free. Two processes that compile
    different types at once take the same number; whoever loads it next runs the other's machine code.

    The digest is taken when the function is first compiled or loaded: by then all that it refers to is defined.
    """

    dispatcher: Any
    allocates = False
    digest = ""

    def _open(self) -> None:
        if self.digest:
            return
        function = self._py_func
        digest = digest_of(self.dispatcher)
        if function.__closure__:
            # numba names machine code by qualified name, argument types and a number that begins anew in each
            # process. Two closures of one factory that come from the cache would have the same name, and a
            # function that calls both would call one of them twice.
            function.__qualname__ = f"{function.__code__.co_qualname}.{digest}"
        # numba would add a folder for the path of the source: any copy of the same source may use this one
        folder = Path(str(CACHE_BASE), function.__module__)
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.]", "", function.__code__.co_qualname)
        self._cache_path = str(folder)
        self._cache_file = IndexDataCacheFile(  # type: ignore[no-untyped-call]
            str(folder), f"{name}-{digest}", digest
        )
        self.digest = digest

    def _index_key(self, signature: Any, codegen: Any) -> Any:
        return signature, codegen.magic_tuple(), self.digest

    def load_overload(self, *arguments: Any) -> Any:
        with _cache_lock():
            self._open()
            return super().load_overload(*arguments)  # type: ignore[no-untyped-call]

    def save_overload(self, signature: Any, result: Any) -> None:
        if not self.allocates:
            _check_counts_nothing(result)
        with _cache_lock():
            self._open()
            super().save_overload(signature, result)  # type: ignore[no-untyped-call]


def _check_counts_nothing(result: Any) -> None:
    """Raise TypeError where a function of `jit` was compiled that returns an array or is given a new one: it would leak."""
    annotation = result.type_annotation
    calls = [
        call.return_type
        for expression, call in annotation.calltypes.items()
        if getattr(expression, "op", "") == "call"
        and isinstance(annotation.typemap[expression.func.name], _types.Dispatcher)
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
        Made by `jit`. Its arrays have the types of those of the first call, but for the row's columns: None or
        an array.
    *numbers : {float, int, bool}
        The types of its other arguments, in order. A number of another type is converted, so that the types of
        one call never decide what the next one means.

    Attributes
    ----------
    dense, sparse : function
        `function` for a row whose columns are None, and for one that has an array of them.
    function : function
        For compiled callers.
    """

    __slots__ = ("dense", "function", "sparse")

    def __init__(self, function: Callable[..., Any], *numbers: type) -> None:
        self.function = function
        self.dense: Callable[..., Any] = self._first("dense", function, numbers)
        self.sparse: Callable[..., Any] = self._first("sparse", function, numbers)

    def _first(self, name: str, function: Any, numbers: tuple[type, ...]) -> Callable[..., Any]:
        def first(*arguments: Any) -> Any:
            known = function
            if hasattr(function, "compile"):  # a plain function where compiling is switched off
                known = function.compile(_signature(arguments, numbers))
            setattr(self, name, known)
            return known(*arguments)

        return first


_NUMBERS = {float: _types.float64, int: _types.int64, bool: _types.boolean}


def _signature(arguments: tuple[Any, ...], numbers: tuple[type, ...]) -> tuple[Any, ...]:
    """Return the compiled types of arguments: of arrays and None their own, of numbers the declared ones."""
    declared = iter(numbers)
    own = [value is None or hasattr(value, "ctypes") for value in arguments]
    if own.count(False) != len(numbers):
        raise TypeError(f"RowCall: expected {len(numbers)} numbers, got {own.count(False)}")
    return tuple(
        numba.typeof(value) if is_own else _NUMBERS[next(declared)]  # type: ignore[no-untyped-call]
        for value, is_own in zip(arguments, own, strict=True)
    )
