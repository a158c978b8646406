"""Every public class, function and method says what it takes, returns and raises, in numpydoc sections."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

import pytest

import aucstream

MODULES = [aucstream, *(importlib.import_module(f"aucstream.{room}") for room in aucstream._ROOMS)]
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}$", re.MULTILINE)


def exported(module: ModuleType) -> dict[str, Any]:
    """Return the public classes and functions of a module: those of `__all__`, or else those that it defines."""
    names = getattr(module, "__all__", None)
    if names is None:
        names = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__]
    values = {name: getattr(module, name) for name in names if not name.startswith("_")}
    return {name: value for name, value in values.items() if isinstance(value, (type, FunctionType))}


def methods_of(cls: type) -> Iterator[FunctionType]:
    """Yield the public methods that a class or its bases in this package define; methods of River are River's."""
    names = {name for base in cls.__mro__ if base.__module__.startswith("aucstream") for name in vars(base)}
    for name in sorted(names):
        if name.startswith("_"):
            continue
        member = inspect.getattr_static(cls, name)
        function = inspect.unwrap(member.__func__ if isinstance(member, (classmethod, staticmethod)) else member)
        if isinstance(function, FunctionType) and function.__module__.startswith("aucstream"):
            yield function


def constructor_of(cls: type) -> FunctionType | None:
    """Return the `__init__` that a class of this package writes or generates, if it has parameters to explain."""
    for base in cls.__mro__:
        init = vars(base).get("__init__")
        if base.__module__.startswith("aucstream") and isinstance(init, FunctionType):
            return inspect.unwrap(init)
    return None


def documentation_of(cls: type, name: str | None = None) -> dict[str, str]:
    """Return the sections of a class or of its method; what they lack may stand in a base of this package."""
    merged: dict[str, str] = {}
    for base in cls.__mro__:
        if base.__module__.startswith("aucstream"):
            documented = base if name is None else vars(base).get(name)
            for heading, text in sections(getattr(documented, "__doc__", None)).items():
                merged[heading] = merged.get(heading, "") + text
    return merged


def sections(text: str | None) -> dict[str, str]:
    """Return the text of each section of a docstring by its heading."""
    parts = SECTION.split(inspect.cleandoc(text or ""))
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def names_in(section: str) -> set[str]:
    """Return the names that a section explains: what stands before the colon of each line at its margin."""
    heads = [line.partition(" : ")[0] for line in section.splitlines() if line[:1].strip()]
    return {name.strip().lstrip("*") for head in heads for name in head.split(",")}


def parameters_of(function: Callable[..., Any]) -> set[str]:
    return set(inspect.signature(function).parameters) - {"self", "cls"}


def raises(function: FunctionType) -> bool:
    """Return whether a function itself raises an error."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    errors = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc is not None]
    return any(ast.unparse(error) != "NotImplementedError" for error in errors)  # bare: a subclass writes it


def lacks_of(function: FunctionType, documented: dict[str, str]) -> set[str]:
    """Return the parameters and sections that the documentation of a function lacks."""
    lacks = parameters_of(function) - names_in(documented.get("Parameters", ""))
    if function.__annotations__.get("return") not in ("None", "NoReturn"):
        lacks |= set() if {"Returns", "Yields"} & set(documented) else {"Returns"}
    if raises(function) and "Raises" not in documented:
        lacks.add("Raises")
    return lacks


EXPORTED = {
    f"{value.__module__}.{value.__qualname__}": value for module in MODULES for value in exported(module).values()
}
CLASSES = {name: value for name, value in EXPORTED.items() if isinstance(value, type)}
FUNCTIONS = {name: value for name, value in EXPORTED.items() if isinstance(value, FunctionType)}
METHODS = {
    f"{method.__module__}.{method.__qualname__}": (cls, method)
    for cls in CLASSES.values()
    for method in methods_of(cls)
}


@pytest.mark.parametrize("name", CLASSES)
def test_classes(name: str) -> None:
    cls = CLASSES[name]
    assert cls.__doc__
    constructor = constructor_of(cls)
    if constructor is not None:
        documented = documentation_of(cls)
        names = names_in(documented.get("Parameters", "")) | names_in(documented.get("Attributes", ""))
        assert parameters_of(constructor) - names == set()


@pytest.mark.parametrize("name", METHODS)
def test_methods(name: str) -> None:
    cls, method = METHODS[name]
    assert method.__doc__
    assert lacks_of(method, documentation_of(cls, method.__name__)) == set()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    function = FUNCTIONS[name]
    assert function.__doc__
    assert lacks_of(function, sections(function.__doc__)) == set()


# -- the test's own tools ----------------------------------------------------------------------------


class Base:
    """A class."""

    def move(self, by: float, *, to: str = "") -> float:
        """Move.

        Parameters
        ----------
        by, to : float

        Returns
        -------
        float
        """
        if to:
            raise ValueError(to)
        return by

    def stop(self) -> None:
        """Stop."""


def test_what_is_lacking_is_seen() -> None:
    assert lacks_of(Base.move, sections(Base.move.__doc__)) == {"Raises"}
    assert lacks_of(Base.move, sections(Base.stop.__doc__)) == {"by", "to", "Returns", "Raises"}
    assert lacks_of(Base.stop, {}) == set()


def test_the_names_that_users_know_are_among_those_checked() -> None:
    assert {"aucstream.learners.psam.PSAM", "aucstream.pipeline.Pipeline", "aucstream.metrics.auc.AUC"} <= set(CLASSES)
    assert "aucstream.learners._base.one_row.RowClassifier.learn_one" in METHODS
    assert {"aucstream.client.sync.Client.learn_many", "aucstream.metrics.area.Area.extend"} <= set(METHODS)
    assert {"aucstream.loading.load", "aucstream.io.read"} <= set(FUNCTIONS)
