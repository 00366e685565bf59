"""What the commands of the instruments share: a parser, figures as JSON, errors in one line."""

import functools
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.commands.parser import Parser

from .contestants import DEFAULT, SOURCES, versions

Command = Callable[..., int]  # of the arguments, those of the process if there are none


def parser(name: str, about: str | None) -> Parser:
    """Return the parser of an instrument, which takes `--json`."""
    made = Parser(f"python -m jaxenvs.benchmarks.{name}", about)
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures there")
    return made


def add_sources(made: Parser) -> None:
    """Add `--reset-source`, which may name several."""
    made.add_argument(
        "--reset-source",
        nargs="+",
        default=[DEFAULT],
        choices=SOURCES,
        metavar="NAME",
        help=f"{{{','.join(SOURCES)}}}: where new levels come from; `default` is that of each id, "
        "`none` never resets",
    )


def dated(rows: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Figures with the date and the versions that they depend on."""
    about = {"date": time.strftime("%Y-%m-%d"), "versions": versions()}
    return {**about, **more, "rows": rows}


def write(file: Path | None, figures: dict[str, Any]) -> None:
    """Write figures to the file of `--json`, if it is given."""
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def program(command: Callable[[Sequence[str] | None], None]) -> Command:
    """Make a function the program of its module; it must be the last definition there.

    The exit code is 0, or 2 with one line about what the instrument cannot measure.
    """

    @functools.wraps(command)
    def run(argv: Sequence[str] | None = None) -> int:
        try:
            command(argv)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            print(error.args[0] if error.args else error, file=sys.stderr)
            return 2
        return 0

    if command.__module__ == "__main__":
        sys.exit(run())
    return run
