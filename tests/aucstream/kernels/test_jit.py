"""Compiled code is met again by the next process, and never where something that it depends on has changed."""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import shutil
import subprocess
import sys
from pathlib import Path
from types import FunctionType

import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher

import aucstream
from aucstream.kernels import jit
from aucstream.kernels.digest import digest_of

pytestmark = pytest.mark.skipif(bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled")

PACKAGE = Path(aucstream.__file__).parent
ROOMS = ["kernels", "kernels.rows.wide", "native", "learners._base"]

LEVELS = "SHIFT = 1.0\nUNUSED = 1.0\n"
# every form of an import, each in a step of its own: each adds the shift
STEPS = '''
import aucstream.{room}.levels
import aucstream.{room}.levels as levels_as
from aucstream.{room} import SHIFT as SHIFT_OF_PACKAGE
from aucstream.{room} import levels
from aucstream.{room}.levels import SHIFT
from aucstream.kernels.jit import jit

from . import levels as levels_here
from .levels import SHIFT as SHIFT_HERE

DERIVED = (SHIFT, 2.0 * SHIFT)


def closure_over_import():
    from aucstream.{room}.levels import SHIFT as inside

    @jit
    def closure(x):
        return x + inside

    return closure


closure = closure_over_import()


@jit
def by_name(x):
    """Return the shifted value."""
    return x + SHIFT


@jit
def by_package(x):
    return x + SHIFT_OF_PACKAGE


@jit
def by_module(x):
    return x + levels.SHIFT


@jit
def by_alias(x):
    return x + levels_as.SHIFT


@jit
def by_path(x):
    return x + aucstream.{room}.levels.SHIFT


@jit
def by_relative_name(x):
    return x + SHIFT_HERE


@jit
def by_relative_module(x):
    return x + levels_here.SHIFT


@jit
def derived(x):
    return x + DERIVED[1] - DERIVED[0]
'''
NAMES = ["by_alias", "by_module", "by_name", "by_package", "by_path", "by_relative_module", "by_relative_name"]
NAMES += ["closure", "derived"]
LOOP = """
from aucstream.{room} import steps
from aucstream.{room}.steps import by_name
from aucstream.kernels.jit import jit


@jit
def loop(n):
    x = 0.0
    for _ in range(n):
        x = by_name(x)
    return x


@jit
def modules_loop(n):
    x = 0.0
    for _ in range(n):
        x = steps.by_module(x)
    return x
"""
RUN = """
import gc, importlib, json, sys
import numba.core.dispatcher as numba_dispatcher

room, calls = sys.argv[1], sys.argv[2].split(",")
package = importlib.import_module("aucstream")
values = {}
for call in calls:
    module, name, argument = call.split(":")
    function = getattr(importlib.import_module(f"aucstream.{room}.{module}"), name)
    values[name] = function(float(argument) if "." in argument else int(argument))
compiled = [f for f in gc.get_objects() if isinstance(f, numba_dispatcher.Dispatcher)]
compiled = [f for f in compiled if f.py_func.__module__.startswith(f"aucstream.{room}.")]
print(json.dumps({
    "file": package.__file__,
    "values": values,
    "compiled": sorted(f.py_func.__code__.co_name for f in compiled if sum(f.stats.cache_misses.values())),
    "loaded": sorted(f.py_func.__code__.co_name for f in compiled if sum(f.stats.cache_hits.values())),
}))
"""
ALL = ",".join([*(f"steps:{name}:0.0" for name in NAMES), "loop:loop:10", "loop:modules_loop:10"])


class Copy:
    """A copy of the package with a few kernels more, and a cache of its own."""

    def __init__(self, folder: Path, room: str) -> None:
        self.root, self.room = folder, room
        shutil.copytree(PACKAGE, folder / "aucstream", ignore=shutil.ignore_patterns("__pycache__"))
        self.folder = folder / "aucstream" / Path(*room.split("."))
        self.folder.mkdir(parents=True, exist_ok=True)
        for parent in (self.folder, *self.folder.parents):
            if parent == folder:
                break
            (parent / "__init__.py").touch()
        with open(self.folder / "__init__.py", "a") as file:
            file.write(f"\nfrom aucstream.{room}.levels import SHIFT as SHIFT\n")
        for name, text in (("levels", LEVELS), ("steps", STEPS), ("loop", LOOP)):
            self.write(name, text.replace("{room}", room))

    def write(self, name: str, text: str) -> None:
        (self.folder / f"{name}.py").write_text(text)

    def edit(self, name: str, old: str, new: str) -> None:
        text = (self.folder / f"{name}.py").read_text()
        assert text.count(old) == 1
        self.write(name, text.replace(old, new))

    def run(self, calls: str = ALL) -> dict:
        environment = {
            **os.environ,
            "PYTHONPATH": str(self.root),
            "PYTHONDONTWRITEBYTECODE": "1",  # two edits of one size in one second look alike to the interpreter
            "AUCSTREAM_CACHE_DIR": str(self.root / "cache"),
        }
        run = subprocess.run(
            [sys.executable, "-c", RUN, self.room, calls],
            env=environment, cwd=self.root, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        answer = json.loads(run.stdout)
        assert answer.pop("file") == str(self.root / "aucstream" / "__init__.py")
        return answer


@pytest.fixture(params=ROOMS)
def copy(request, tmp_path):
    return Copy(tmp_path, request.param)


@pytest.mark.slow
def test_code_is_compiled_anew_where_a_constant_or_a_callee_changed_and_only_there(copy):
    everything = sorted([*NAMES, "loop", "modules_loop"])
    values = dict.fromkeys(NAMES, 1.0) | {"loop": 10.0, "modules_loop": 10.0}
    first = copy.run()
    assert first["values"] == values
    assert first["compiled"] == everything

    again = copy.run()
    assert again["values"] == values
    assert (again["compiled"], again["loaded"]) == ([], everything)

    copy.edit("levels", "SHIFT = 1.0\n", "SHIFT = 2.0\n")  # of two files that import it, by every form
    constant = copy.run()
    assert constant["values"] == {name: 2.0 * value for name, value in values.items()}
    assert (constant["compiled"], constant["loaded"]) == (everything, [])

    copy.edit("steps", "return x + SHIFT\n", "return x - SHIFT\n")
    step = copy.run()
    assert step["values"] == constant["values"] | {"by_name": -2.0, "loop": -20.0}
    assert step["compiled"] == ["by_name", "loop"]

    copy.edit("levels", "UNUSED = 1.0\n", "# a comment\nUNUSED = 3.0\n")
    copy.edit("steps", '"""Return the shifted value."""', '"""Return the value less the shift."""')
    copy.edit("steps", "\n\nDERIVED", "\nMESSAGE = 'expected a number'\n\n\nDERIVED")
    assert copy.run() == step | {"compiled": [], "loaded": everything}


FACTORY = """
import numpy as np

from aucstream.kernels.jit import jit


def loops(step):
    @jit
    def loop(n):
        x = 0.0
        for _ in range(n):
            x = step(x)
        return x

    return loop
"""
TWO = """
from aucstream.{room}.factory import loops
from aucstream.{room}.levels import SHIFT
from aucstream.{room}.steps import by_module
from aucstream.kernels.jit import jit


@jit
def double(x):
    return 2.0 * (x + SHIFT)


single_loop = loops(by_module)
double_loop = loops(double)


@jit
def both(n):
    return single_loop(n) + 100.0 * double_loop(n)
"""


@pytest.mark.slow
def test_closures_of_one_factory_are_cached_and_follow_the_function_that_they_hold(copy):
    copy.write("factory", FACTORY.replace("{room}", copy.room))
    copy.write("two", TWO.replace("{room}", copy.room))
    single, double = "two:single_loop:3", "two:double_loop:3"
    # each is compiled in a process that knows nothing of the other: their names in machine code could be the same
    assert copy.run(single) == {"values": {"single_loop": 3.0}, "compiled": ["by_module", "loop"], "loaded": []}
    assert copy.run(double)["values"] == {"double_loop": 14.0}
    for calls in (f"{single},{double}", f"{double},{single}"):
        both = copy.run(calls)
        assert both["values"] == {"single_loop": 3.0, "double_loop": 14.0}
        assert (both["compiled"], both["loaded"]) == ([], ["loop", "loop"])
    assert copy.run(f"{single},{double},two:both:3")["values"]["both"] == 1403.0

    copy.edit("two", "2.0 * (x + SHIFT)", "3.0 * (x + SHIFT)")
    step = copy.run(f"{single},{double}")
    assert step["values"] == {"single_loop": 3.0, "double_loop": 39.0}
    assert step["compiled"] == ["double", "loop"]

    copy.edit("levels", "SHIFT = 1.0\n", "SHIFT = 2.0\n")
    assert copy.run(f"{single},{double}")["values"] == {"single_loop": 6.0, "double_loop": 78.0}

    copy.edit("factory", "x = 0.0", "x = 1.0")
    assert copy.run(f"{single},{double}")["values"] == {"single_loop": 7.0, "double_loop": 105.0}


def dispatchers() -> list[Dispatcher]:
    for module in pkgutil.walk_packages(aucstream.__path__, "aucstream."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    return [f for f in gc.get_objects() if isinstance(f, Dispatcher) and f.py_func.__module__.startswith("aucstream.")]


DIGESTS = """
import json
from test_jit import dispatchers, digest_of
print(json.dumps(sorted([f.py_func.__module__, f.py_func.__code__.co_qualname, digest_of(f)] for f in dispatchers())))
"""


def test_every_compiled_function_has_a_digest_that_is_the_same_in_every_process():
    def digests(seed: str) -> list[list[str]]:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{PACKAGE.parent}:{Path(__file__).parent}"}
        run = subprocess.run(
            [sys.executable, "-c", DIGESTS], env=environment, capture_output=True, text=True, timeout=300
        )
        assert run.returncode == 0, run.stderr
        return json.loads(run.stdout)

    first = digests("1")
    assert len(first) > 200
    assert first == digests("2")


def test_functions_differ_in_digest_by_options_defaults_cells_and_values():
    def function(text: str, **names: object) -> FunctionType:
        space: dict[str, object] = {"__name__": "probe", **names}
        exec(text, space)
        return space["f"]  # type: ignore[return-value]

    def closure(value: object) -> FunctionType:
        def f(x):
            return x + value

        return f

    plain = "def f(x, y=1.0):\n    return x + A + y"
    module = type(sys)("probe_levels")
    other = type(sys)("probe_levels")
    module.A, other.A = 1.0, 2.0
    variants = [
        function(plain, A=1.0),
        function(plain, A=1),
        function(plain, A=True),
        function(plain, A=-0.0),
        function(plain, A=0.0),
        function(plain.replace("1.0", "2.0"), A=1.0),
        function(plain, A=(1.0, 2.0)),
        function(plain, A=(1.0, (2.0,))),
        function(plain, A=np.ones(3)),
        function(plain, A=np.ones(3, dtype=np.float32)),
        function(plain, A=np.zeros(3)),
        function(plain, A=np.float64(1.0)),
        function(plain, A={"a": 1.0}),
        function(plain, A={"b": 1.0}),
        function(plain.replace("A", "levels.A"), levels=module),
        function(plain.replace("A", "levels.A"), levels=other),
        closure(1.0),
        closure(2.0),
        closure(closure(1.0)),
        closure(closure(2.0)),
        jit.jit(closure(1.0)),
        jit.jit_inlined(closure(1.0)),
        jit.jit_allocating(closure(1.0)),
        jit.jit_holding(closure(1.0)),
    ]
    digests = [digest_of(variant) for variant in variants]
    if isinstance(variants[-1], Dispatcher):
        assert len(set(digests)) == len(variants)
    assert digest_of(function(plain, A=1.0)) == digests[0]
    assert digest_of(function(f"# a comment\n\n{plain}", A=1.0, B=2.0)) == digests[0]
    assert digest_of(function(plain.replace(":", ":\n    '''A sum.'''\n", 1), A=1.0)) == digests[0]


def test_a_module_that_two_functions_share_counts_with_the_names_of_both():
    def probe(value: float) -> FunctionType:
        levels = type(sys)("probe_levels")
        levels.A, levels.B = 1.0, value
        space: dict[str, object] = {"__name__": "probe", "levels": levels}
        exec("def g():\n    return levels.B\ndef f():\n    return levels.A + g()", space)
        return space["f"]  # type: ignore[return-value]

    assert digest_of(probe(1.0)) == digest_of(probe(1.0))
    assert digest_of(probe(1.0)) != digest_of(probe(2.0))


def test_functions_that_call_each_other_have_a_digest():
    space: dict[str, object] = {"__name__": "probe"}
    exec("def f(x):\n    return g(x)\ndef g(x):\n    return f(x) + 1.0", space)
    assert digest_of(space["f"]) != digest_of(space["g"])


def test_a_digest_is_the_same_before_and_after_a_closure_was_compiled():
    def factory(step):
        @jit.jit
        def f(x):
            return step(x)

        return f

    def shift(x):
        return x + 1.0

    inner = factory(jit.jit(shift))
    outer = factory(inner)
    before = digest_of(outer)
    assert inner(1.0) == 2.0
    assert digest_of(outer) == before
    assert outer(1.0) == 2.0


def test_a_value_that_differs_between_processes_is_refused():
    value = object()

    def f(x):
        return x + value

    with pytest.raises(TypeError, match="expected values that a digest of compiled code can describe, got <object"):
        digest_of(f)


def test_an_import_inside_a_function_is_refused():
    def f():
        from math import pi

        return pi

    with pytest.raises(TypeError, match="expected imports outside of the function, got one inside"):
        digest_of(f)
