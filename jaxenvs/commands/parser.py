"""Code that all commands use: the argument parser, `--set` and `--param`, and error handling."""

import argparse
import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ..core import registry
from ..core.checks import suggestion
from ..core.env import Env
from ..core.extras import MissingExtraError
from ..core.files import target
from ..core.registry import IncompleteError
from ..core.typed import PROGRAM, program
from . import fields

MOST_SIMULATIONS = 100_000
_UNKNOWN = re.compile(r"unrecognized arguments: (-[^\s=]+)")


class _Filled(argparse.HelpFormatter):
    """Help formatter that wraps each paragraph, except paragraphs that contain an indented line."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill, parts = super()._fill_text, text.split("\n\n")
        return "\n\n".join(p if "\n " in p else fill(p, width, indent) for p in parts)


class UsageError(ValueError):
    """Raised for a mistake of the user; the message says how to fix it."""


class Parser(argparse.ArgumentParser):
    """Argument parser whose error messages are one sentence.

    For an unknown option, the message suggests known options. The help ends with `examples`:
    command lines, given without the leading `jaxenvs`.
    """

    has_levels = False  # whether the command has the option `--levels FILE`

    def __init__(self, prog: str, description: str | None, examples: Sequence[str] = ()) -> None:
        lines = "".join(f"\n  {program()} {example}" for example in examples)
        super().__init__(
            prog=prog,
            description=description,
            epilog=f"examples:{lines}" if examples else None,
            formatter_class=_Filled,
            allow_abbrev=False,
        )

    def error(self, message: str) -> NoReturn:
        """Print the error message, with a suggestion if an option is unknown; exit with code 2."""
        unknown = _UNKNOWN.match(message)
        near = suggested(unknown[1], self._option_string_actions) if unknown else ""
        self.exit(
            2, f"{self.prog}: {message}{near}; `{self._typed()} --help` lists the arguments\n"
        )

    def _typed(self) -> str:
        """Return the command's name as the user can type it in this shell."""
        return self.prog.replace(PROGRAM, program(), 1)

    def add_fields(self, example: str) -> None:
        """Add the options `--set` and `--param`, whose values are passed to `make_env`."""
        words = f"set constructor fields of the environment, such as {example}"
        self._add_pairs(fields.FLAG, "fields", words)
        self.add_params()

    def add_levels(self) -> None:
        """Add the options `--levels FILE` and `--setup NAME`, short for `--set levels=FILE`, ..."""
        words = "begin episodes in the levels of this file or folder; short for --set levels=FILE"
        self.add_argument(fields.LEVELS, metavar="FILE", help=words)
        words = "setup of Craft: original, masked or eased; short for --set setup=NAME"
        self.add_argument(fields.SETUP, metavar="NAME", help=words)
        self.has_levels = True

    def add_params(self) -> None:
        """Add the option `--param`, which replaces default params of the environment."""
        words = f"set params of the environment, such as {fields.EXAMPLES[fields.PARAM]}"
        self._add_pairs(fields.PARAM, "params", words)

    def _add_pairs(self, flag: str, dest: str, words: str) -> None:
        pairs: dict[str, Any] = {"nargs": "+", "default": [], "metavar": "NAME=VALUE"}
        self.add_argument(flag, dest=dest, help=words, **pairs)

    def add_best(self) -> None:
        """Add the option `--best`, whose value is passed to `load_policy`."""
        words = "use the policy with the best evaluation during training instead of the last"
        self.add_argument("--best", action="store_true", help=words)

    def add_simulations(self) -> None:
        """Add the option `--simulations`, whose value is passed to `load_policy`."""
        words = (
            "MuZero and AlphaZero: simulations of the search per action; 0: the network alone "
            "(default: as in training)"
        )
        kind = number(0, MOST_SIMULATIONS)
        self.add_argument("--simulations", type=kind, metavar="N", help=words)

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parse the arguments; `--set` and `--param` may be repeated."""
        return self.parse_args(fields.gathered(argv, levels=self.has_levels))


def suggested(option: str, options: Iterable[str]) -> str:
    """Return the end of an error message about an unknown option: `; did you mean ...?`.

    If the letters of `option` are the initials of a known option's words, as in `--lr` for
    `--learning-rate`, this option is suggested. Otherwise options with similar names are suggested.
    """
    known = list(options)
    for name in known:
        words = name.strip("-").split("-")
        if len(words) > 1 and option.strip("-") == "".join(word[:1] for word in words):
            return f"; did you mean {name!r}?"
    return suggestion(option, known)


def whole(text: str) -> int:
    """Parse a whole number such as 100000, 100_000 or 1e5; raise `ValueError` for other text."""
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        if (value := float(text)).is_integer():
            return int(value)
    raise ValueError(f"{text!r} is not a whole number, such as 100000 or 1e5")


def check_outputs(files: Mapping[str, str | os.PathLike[str] | None]) -> None:
    """Check the output files of a command (option -> file) before its work, which would be lost.

    Raises `UsageError` if `check_output` refuses a file, or if two options name the same file.
    """
    flags: dict[Path, str] = {}
    for flag, file in files.items():
        if file is None:
            continue
        check_output(flag, file)
        other = flags.setdefault(Path(file).resolve(), flag)
        if other != flag:
            raise UsageError(f"{other} and {flag} both name {file}; give two files")


def check_output(flag: str, file: str | os.PathLike[str]) -> None:
    """Raise `UsageError` if the folder of an output file does not exist or is not writable."""
    if Path(file).is_dir() or not Path(file).name:
        raise UsageError(f"{flag} {str(file)!r} is a folder; name a file")
    try:
        path = target(file)
    except OSError as error:
        raise UsageError(f"{flag}: {error}") from error
    if not path.parent.is_dir():
        raise UsageError(f"{flag} {file}: no folder {path.parent}; create it first")
    if not os.access(path.parent, os.W_OK):
        raise UsageError(f"{flag} {file}: folder {path.parent} is not writable")


def number(low: int, high: int) -> Callable[[str], int]:
    """Return a function for argparse's `type=` that parses whole numbers from `low` to `high`."""
    return _ranged(whole, low, high, f"a whole number, {low} to {high}")


def decimal(low: float, high: float) -> Callable[[str], float]:
    """Return a function for argparse's `type=` that parses numbers from `low` to `high`."""
    return _ranged(float, low, high, f"a number from {low:g} to {high:g}")


def _ranged(
    read: Callable[[str], Any], low: float, high: float, allowed: str
) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        with contextlib.suppress(ValueError):
            if low <= (value := read(text)) <= high:
                return value
        raise argparse.ArgumentTypeError(f"{text!r} must be {allowed}")

    return parse


def make_env(id: str, pairs: Sequence[str], params: Sequence[str] = ()) -> Env:
    """Make the environment of an id, with the pairs `NAME=VALUE` of `--set` and `--param`.

    Raises `UsageError` for an unknown id or a bad pair.
    """
    try:
        given, numbers = fields.parse(pairs), fields.parse(params, fields.PARAM)
        if given or numbers:
            fields.check_kinds(id, given, numbers)
        return registry.make(id, **given, **numbers)
    except (LookupError, TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def run_params(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse the pairs `NAME=VALUE` of `--param`, for the environment of a trained run.

    `load_policy` takes the result. Raises `UsageError` for a bad pair.
    """
    return _of_run(pairs, fields.PARAM)


def run_fields(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse the pairs `NAME=VALUE` of `--set`, as `run_params` does for `--param`."""
    return _of_run(pairs, fields.FLAG)


def _of_run(pairs: Sequence[str], flag: str) -> dict[str, Any]:
    try:
        return fields.parse(pairs, flag)
    except ValueError as error:
        raise UsageError(str(error)) from error


def unwritable(error: OSError) -> UsageError:
    """Return a `UsageError` for an `OSError` from writing a file; its message is one sentence."""
    # An error without a file name comes from `files.target`; its message is already a sentence.
    if error.filename is None:
        return UsageError(str(error))
    return UsageError(f"{error.filename} cannot be written: {error.strerror}")


def guarded(command: str, run: Callable[[list[str]], int], argv: list[str]) -> int:
    """Run a command and return its exit code.

    If the user made a mistake, print an error message of one sentence and return 2.
    """
    try:
        return run(argv)
    except (MissingExtraError, UsageError, registry.UnknownIdError, IncompleteError) as error:
        print(f"jaxenvs {command}: {error}", file=sys.stderr)
        return 2
