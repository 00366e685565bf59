"""Registry of tables: the source files of each table and the function that builds it.

To add a table, call `of_rows` or `of_turns`, or write a function with `@table`. Then write the
markers `<!-- table: NAME -->` and `<!-- end -->` in a page.
"""

import ast
import difflib
import functools
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from .text import Column, Table, filled, tabulated
from .turns import conditions, turns

RESULTS = "benchmarks/results"
RUNS = "baselines/results"
REFERENCE = "jaxenvs/commands/reference.json"


# Function from the contents of a table's source files to the table, or to its Markdown as a string.
Build = Callable[..., Table | str]


class Source(NamedTuple):
    """A table's source files, the command that writes them, and the function that builds it."""

    # Paths relative to the checkout. For a path with `*`, the function gets a list of the contents
    # of all matching files.
    files: tuple[str, ...]
    build: Build
    command: str  # command that writes the files, or empty if the files are in the repository


TABLES: dict[str, Source] = {}


def table(name: str, *files: str, command: str = "") -> Callable:
    """Decorator: register the function that builds table `name` from the contents of `files`.

    The function gets the contents as arguments, in the order of `files`. If a file is missing but
    `command` is given, the page has a line with this command in place of the table.
    """

    def keep(build: Build) -> Build:
        if name in TABLES:
            raise ValueError(f"two tables are named {name}")
        TABLES[name] = Source(files, build, command)
        return build

    return keep


def of_rows(name: str, file: str, columns: Mapping[str, Column], full: bool = True) -> None:
    """Register a table with a row for each record of a JSON file.

    The file is a list of records, or has this list under `rows`. With `full=False`, columns whose
    cells are all empty are left out.
    """

    def build(found: Any) -> Table:
        made = tabulated(found if isinstance(found, list) else found["rows"], columns)
        return made if full else filled(made)

    table(name, file)(build)


def of_turns(name: str, file: str, columns: Mapping[str, Column], dated: bool = False) -> None:
    """Register a table of a file written by `jaxenvs bench`: a row for each id and batch size.

    Columns of packages and reset sources that were not measured are left out. With `dated`, the
    conditions of the measurement (date, machine, versions) follow below the table.
    """

    def build(bench: dict[str, Any]) -> Table:
        note = conditions(bench) if dated else ""
        return filled(tabulated(turns(bench), columns))._replace(note=note)

    table(name, file)(build)


def render(name: str, root: Path) -> str:
    """Return the Markdown of a table, without a newline at the end.

    Raises `LookupError` if no table has this name. Raises `FileNotFoundError` if a source file is
    missing and the table has no command that writes the file.
    """
    if name not in TABLES:
        near = difflib.get_close_matches(name, TABLES, 3) or sorted(TABLES)
        raise LookupError(f"no table is named {name}; near: {', '.join(near)}")
    source = TABLES[name]
    try:
        return str(source.build(*(_read(root, file) for file in source.files)))
    except FileNotFoundError:
        if not source.command:
            raise
        return f"*Not measured yet: `{source.command}` makes the figures for `{source.files[0]}`.*"


def _read(root: Path, file: str) -> Any:
    if "*" not in file:
        return _parsed(root / file)
    found = sorted(root.glob(file))
    if not found:
        raise FileNotFoundError(f"nothing matches {root / file}")
    return [_parsed(path) for path in found]


@functools.cache
def _parsed(path: Path) -> Any:
    """Return the content of a JSON file or a Python module.

    For a module this is a dict with its `name`, its `source` as text, and its `summary`, the first
    line of its docstring.
    """
    text = path.read_text("utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    name = path.parent.name if path.stem == "__main__" else path.stem
    summary = (ast.get_docstring(ast.parse(text)) or "").split("\n", 1)[0]
    return {"name": name, "source": text, "summary": summary}
