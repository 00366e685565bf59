"""What the commands of the instruments share: a parser, figures as JSON, errors in one line."""

import functools
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jaxenvs.commands.parser import Parser

from .contestants import DEFAULT, SOURCES

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
        help="where new levels come from; `default` is that of each id, `none` never resets",
    )


def write(file: Path | None, figures: dict[str, Any]) -> None:
    """Write figures to the file of `--json`, if it is given."""
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def explained(command: Command) -> Command:
    """Print what an instrument cannot measure as one line, with exit code 2."""

    @functools.wraps(command)
    def run(argv: Sequence[str] | None = None) -> int:
        try:
            return command(argv)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            print(error.args[0] if error.args else error, file=sys.stderr)
            return 2

    return run
