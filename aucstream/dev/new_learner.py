"""Write a new learner from a template: `python -m aucstream.dev.new_learner NAME [--buffered]`.

What it writes runs at once. Lines marked `WRITE:` are what the author puts in their place: the mathematics, and what is
said of it. CONTRIBUTING.md lists what is left to do.
"""

from __future__ import annotations

import argparse
import keyword
import re
import string
import sys
from collections.abc import Sequence
from pathlib import Path

import aucstream
from aucstream.errors import Description, InvalidParams
from aucstream.registry import LEARNERS

TEMPLATES = Path(__file__).parent / "templates"
LINE_LENGTH = 120


class Checkout:
    """The files of a repository that a learner is part of.

    Parameters
    ----------
    root : Path
        Folder of the repository.

    Raises
    ------
    InvalidParams
        It is no checkout of the project.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.registry = root / "aucstream" / "registry.py"
        self.exports = root / "aucstream" / "__init__.py"
        for path in (self.registry, self.exports, root / "tests" / "aucstream" / "reference"):
            if not path.exists():
                raise InvalidParams("root", "a checkout of aucstream, with its tests", str(root))

    def new_files(self, name: str, buffered: bool) -> dict[Path, Path]:
        """Return each file that is written, with its template."""
        kind = "_buffered" if buffered else ""
        return {
            self.root / "aucstream" / "learners" / f"{name}.py": TEMPLATES / f"learner{kind}.py.txt",
            self.root / "tests" / "aucstream" / "reference" / f"{name}.py": TEMPLATES / f"reference{kind}.py.txt",
            self.root / "tests" / "aucstream" / "learners" / f"test_{name}.py": TEMPLATES / f"test{kind}.py.txt",
        }


def check_name(class_name: str) -> None:
    """Raise InvalidParams where a learner cannot have a class of this name."""
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", class_name):
        raise InvalidParams("NAME", "a class name of letters and digits, a capital first, such as PSAM", class_name)
    name = class_name.lower()
    exports = {export.lower() for export in dir(aucstream)}
    if name in exports or name in LEARNERS or keyword.iskeyword(name) or name in keyword.softkwlist:
        raise InvalidParams("NAME", "a name that is not taken", class_name)


def registry_line(class_name: str, paper: str, buffered: bool) -> str:
    """Return the learner's line of the registry, as the formatter lays it out."""
    memory, step = ("O(capacity nnz + d)", "O(pairs nnz)") if buffered else ("O(d)", "O(nnz)")
    values = (class_name, class_name.lower(), memory, step, paper)
    arguments = ", ".join(f'"{value}"' for value in values)
    line = f'    "{class_name.lower()}": Entry({arguments}),\n'
    if len(line) <= LINE_LENGTH + 1:
        return line
    return f'    "{class_name.lower()}": Entry(\n        {arguments}\n    ),\n'


def with_registry_line(text: str, line: str) -> str:
    """Return the text of `registry.py` with one more line at the end of `LEARNERS`."""
    return _inserted(text, r"LEARNERS: dict\[str, Entry\] = \{\n(?:(?: .*)?\n)*?(?=\})", line, "registry.py")


def with_export(text: str, class_name: str) -> str:
    """Return the text of `__init__.py` with the import of one more learner for type checkers, in order."""
    module = f"aucstream.learners.{class_name.lower()}"
    line = f"    from {module} import {class_name} as {class_name}\n"
    lines = text.splitlines(keepends=True)
    imports = [number for number, each in enumerate(lines) if each.startswith("    from aucstream.")]
    if not imports:
        raise InvalidParams("__init__.py", "imports for type checkers", Description("none"))
    after = [number for number in imports if lines[number].split()[1] > module]
    at = after[0] if after else imports[-1] + 1
    return "".join([*lines[:at], line, *lines[at:]])


def _inserted(text: str, before: str, line: str, where: str) -> str:
    match = re.search(before, text)
    if match is None:
        raise InvalidParams(where, "the table LEARNERS", Description("none"))
    return text[: match.end()] + line + text[match.end() :]


def new_learner(
    class_name: str,
    *,
    buffered: bool = False,
    paper: str = "WRITE: authors, venue, year",
    root: Path = TEMPLATES.parents[2],
) -> list[Path]:
    """Write a learner, its reference, its test and its lines in the registry and the exports.

    Parameters
    ----------
    class_name : str
        Its lower-case form is the name in the registry and of the files.
    buffered : bool
        Whether the template is a learner that pairs each row with buffered rows of the other class.
    paper : str
        Authors, venue and year.
    root : Path
        Folder of the checkout.

    Returns
    -------
    list of Path
        The files that were written, then those that have one more line.

    Raises
    ------
    InvalidParams
        The name cannot be taken, a file is there, or `root` is no checkout; nothing was written.
    """
    check_name(class_name)
    if not paper.isprintable() or set(paper) & set('"\\'):
        raise InvalidParams("--paper", "one line of text without double quotes and backslashes", paper)
    checkout = Checkout(root)
    name = class_name.lower()
    files = checkout.new_files(name, buffered)
    for path in files:
        if path.exists():
            raise InvalidParams("NAME", "a name that is not taken", str(path.relative_to(root)))
    texts = {
        path: string.Template(template.read_text()).substitute(Class=class_name, name=name)
        for path, template in files.items()
    }
    line = registry_line(class_name, paper, buffered)
    changed = {
        checkout.registry: with_registry_line(checkout.registry.read_text(), line),
        checkout.exports: with_export(checkout.exports.read_text(), class_name),
    }
    for path, text in texts.items():
        with path.open("x") as file:
            file.write(text)
    for path, text in changed.items():
        path.write_text(text)
    return [*texts, *changed]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m aucstream.dev.new_learner", description=__doc__.split("\n\n")[0])
    parser.add_argument("name", metavar="NAME", help="class name, such as PSAM")
    parser.add_argument("--buffered", action="store_true", help="a learner with a buffer of rows of each class")
    parser.add_argument("--paper", default="WRITE: authors, venue, year", help="authors, venue, year")
    options = parser.parse_args(arguments)
    try:
        paths = new_learner(options.name, buffered=options.buffered, paper=options.paper)
    except InvalidParams as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    for path in paths:
        print(path.relative_to(TEMPLATES.parents[2]))
    print("What is left to do: CONTRIBUTING.md, A new algorithm. Lines to replace are marked WRITE:")
    return 0


if __name__ == "__main__":
    sys.exit(main())
