"""Functions for cells of levels: parse positions and values in headers, check rows, flood-fill."""

from collections.abc import Container, Iterable

import numpy as np

from ..core.checks import suggestion
from .blocks import Header, short
from .errors import LevelError

Cell = tuple[int, int]


def cells(header: Header, text: str, shape: tuple[int, int]) -> list[Cell]:
    """Parse cells, such as `4,1; 4,4`: row and column counted from 0, inside a grid of `shape`."""
    parts = [part.strip() for part in text.split(";")] if text.strip() else []
    return [cell(header, part, shape) for part in parts]


def cell(header: Header, text: str, shape: tuple[int, int]) -> Cell:
    """Parse one cell, such as `4,1`."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() for part in parts):
        raise header.error(f"{text!r} is not a cell; write `row,column`, such as 4,1")
    # A number of 9 or more digits is out of range anyway. It is replaced by 10**8, because Python
    # refuses to convert very long numbers.
    row, column = (int(part) if len(part) < 9 else 10**8 for part in parts)
    if row >= shape[0] or column >= shape[1]:
        raise header.error(
            f"{text!r} is outside the grid; rows are 0 to {shape[0] - 1}, columns 0 to "
            f"{shape[1] - 1}"
        )
    return row, column


def written(found: Iterable[Cell]) -> str:
    """Format cells as the text that `cells` parses, such as `4,1; 4,4`."""
    return "; ".join(f"{row},{column}" for row, column in found)


def flooded(start: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Return the cells of `start`, and all cells of `free` that are reachable from them.

    Arguments and result are masks, bool (rows, columns). A step goes to one of the four adjacent
    cells.
    """
    reached = start
    while True:
        wide = np.pad(reached, 1)
        near = wide[2:, 1:-1] | wide[:-2, 1:-1] | wide[1:-1, 2:] | wide[1:-1, :-2]
        more = reached | (near & free)
        if (more == reached).all():
            return reached
        reached = more


def check_characters(row: str, line: int, known: Container[str], meaning: str) -> None:
    """Raise `LevelError` for the first character of a row that is not in `known`.

    line: line number of the row in the text. meaning: end of the error message.
    """
    for column, character in enumerate(row, 1):
        if character not in known:
            raise LevelError(f"unknown character {character!r}; {meaning}", line, column)


def named(header: Header, text: str, names: dict[str, int], kind: str = "") -> int:
    """Return the value of a name in the dict `names`, such as the tile byte of `red key`.

    Raises `LevelError` for an unknown name. The error message gives one known name as an example,
    or lists all known names if `kind` is given. `kind` is a word for a name, such as `block`.
    """
    name = " ".join(text.split())
    if name not in names:
        near = suggestion(name, names)
        known = (
            f"known are {', '.join(names)}" if kind else f"write one such as `{next(iter(names))}`"
        )
        what = kind or "object that fits here"
        raise header.error(f"{short(text)!r} is no {what}; {known}{near}")
    return names[name]


def integer(header: Header, text: str, low: int, high: int) -> int:
    """Parse a whole number from `low` to `high`; raise `LevelError` for another text."""
    digits = text.strip()
    ok = digits.removeprefix("-").isdigit() and digits.isascii() and len(digits) <= 12
    if not ok or not low <= int(digits) <= high:
        raise header.error(f"{short(text)!r} must be a whole number from {low} to {high}")
    return int(digits)


def flag(header: Header) -> bool:
    """Return True if a header's value is `yes`, False if it is `no`; else raise `LevelError`."""
    if header.value not in ("yes", "no"):
        raise header.error("write yes or no")
    return header.value == "yes"
