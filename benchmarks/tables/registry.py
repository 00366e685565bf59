"""Which table is made of which JSON, and how.

A new table is one function with `@table`, or one line with `of_rows` or `of_turns`, and one pair of
markers in a page.
"""

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


Build = Callable[..., Table | str]  # of the contents of files; a string is Markdown


class Source(NamedTuple):
    """A table: its files below the repository, the function of their contents, what makes them."""

    files: tuple[str, ...]  # a name with `*` stands for any number of files and gives a list
    build: Build
    command: str  # writes the files; empty where they are in the repository


TABLES: dict[str, Source] = {}


def table(name: str, *files: str, command: str = "") -> Callable:
    """Register the function that makes a table of the contents of `files`, in their order.

    With a `command` the files may be missing: the table is then one line that names the command.
    """

    def keep(build: Build) -> Build:
        if name in TABLES:
            raise ValueError(f"two tables are named {name}")
        TABLES[name] = Source(files, build, command)
        return build

    return keep


def of_rows(name: str, file: str, columns: Mapping[str, Column]) -> None:
    """Register a table of a file's `rows` as they are."""
    table(name, file)(lambda found: tabulated(found["rows"], columns))


def of_turns(name: str, file: str, columns: Mapping[str, Column], dated: bool = False) -> None:
    """Register a table of a file of `jaxenvs bench`, a line for each id and batch size.

    Columns of contestants that took no part are left out. `dated` adds the conditions below.
    """

    def build(bench: dict[str, Any]) -> Table:
        note = conditions(bench) if dated else ""
        return filled(tabulated(turns(bench), columns))._replace(note=note)

    table(name, file)(build)


def render(name: str, root: Path) -> str:
    """Return the Markdown of a table, without a newline at the end.

    Raises `LookupError` for a name that no table has, `FileNotFoundError` for a file that should
    be in the repository.
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
    return json.loads(path.read_text("utf-8"))
