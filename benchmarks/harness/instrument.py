"""Shared code of the benchmarks' commands: options, JSON with a header, one-line errors."""

import argparse
import functools
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax

from jaxenvs.commands.parser import Parser

from .contestants import DEFAULT, SOURCES, processor, versions

Command = Callable[..., int]  # function of the command-line arguments (default: sys.argv)
POLICY = "uniform random actions drawn in the compiled program; a pool is drawn anew every rollout"


def parser(name: str, about: str | None) -> Parser:
    """Return the parser of a benchmark, with the option `--json`."""
    made = Parser(f"python -m jaxenvs.benchmarks.{name}", about)
    made.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    return made


def add_sources(made: Parser) -> None:
    """Add the option `--reset-source`, which takes one or more reset sources."""
    made.add_argument(
        "--reset-source",
        nargs="+",
        default=[DEFAULT],
        choices=SOURCES,
        metavar="NAME",
        help=f"{{{','.join(SOURCES)}}}: where new levels come from; `default` is the id's own, "
        "`none` never resets",
    )


def add_repeats(made: Parser, seconds: float, repeats: int) -> None:
    """Add the options `--seconds` and `--repeats` with the defaults `seconds` and `repeats`."""
    made.add_argument("--seconds", type=float, default=seconds, help="length of one repeat")
    made.add_argument("--repeats", type=int, default=repeats, help="repeats; medians are reported")


def about() -> dict[str, Any]:
    """Return date, versions, machine, load, XLA flags and whether compilation is cached."""
    device = jax.devices()[0]
    return {
        "date": time.strftime("%Y-%m-%d %H:%M"),
        "versions": versions(),
        "device": f"{device.platform}: {device.device_kind}",
        "processor": processor(),
        "cpus": os.cpu_count(),
        "load_before": os.getloadavg()[0],
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "compilation_cache": bool(jax.config.values["jax_compilation_cache_dir"]),
    }


def header(args: argparse.Namespace) -> dict[str, Any]:
    """Return the header of a benchmark that times batches of environments in turns."""
    timed = {"seconds": args.seconds, "repeats": args.repeats}
    return {**about(), "policy": POLICY, "unroll": 1, **timed}


def dated(rows: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """Return `rows` and `more` under a header with the date and the package versions."""
    return {"date": time.strftime("%Y-%m-%d"), "versions": versions(), **more, "rows": rows}


def write(file: Path | None, figures: dict[str, Any]) -> None:
    """Write figures to `file`, the value of `--json`; without a file, do nothing."""
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")


def use_one_core() -> None:
    """Pin this process and its child processes to one CPU core."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def program(command: Callable[[Sequence[str] | None], int | None]) -> Command:
    """Decorator: run the function at once if its module is run as a program (`python -m`).

    Decorate only the last definition of a module: the function runs before any later definition
    exists. The exit code is the function's result (0 for None). After an error, the message is
    printed in one line, and the exit code is 2.
    """

    @functools.wraps(command)
    def run(argv: Sequence[str] | None = None) -> int:
        try:
            return command(argv) or 0
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            print(error.args[0] if error.args else error, file=sys.stderr)
            return 2

    if command.__module__ == "__main__":
        sys.exit(run())
    return run
