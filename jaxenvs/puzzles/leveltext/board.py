"""Levels of puzzles as text, in the format that the puzzle's method `text` writes."""

from typing import Any

from ...levels.blocks import GRID, Block, Header, trimmed
from ...levels.errors import LevelError
from ..puzzle import Puzzle, PuzzleLevel
from . import painting

FORMS = (None,)
palette, unpacked, packed = painting.palette, painting.unpacked, painting.packed
sprites, place = painting.sprites, painting.place


def names(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (names of headers that may occur once, names that may repeat): here there are none."""
    return (), ()


def block(text: str, first: int, form: str | None) -> Block | None:
    """Return the lines of `text` as a `Block` without headers.

    Return None if a line is `grid:`, which separates headers from a picture. The caller then parses
    the text with `levels.blocks.parse`. first: line number of the text's first line in its file.
    """
    lines = text.split("\n")
    return None if any(line.rstrip() == GRID for line in lines) else board(lines, first)


def board(lines: list[str], first: int, headers: tuple[Header, ...] = ()) -> Block:
    """Return a `Block` with the rows `lines`; empty rows at the start and the end are removed."""
    picture, first = trimmed(lines, first)
    return Block(headers, tuple(picture), first)


def read(env: Puzzle, block: Block, *, strict: bool) -> PuzzleLevel:
    """Parse the rows of a `Block` as a level; raise `LevelError` if the puzzle cannot."""
    try:
        return env.read_level("\n".join(block.picture))
    except LevelError:
        raise
    except ValueError as error:
        raise LevelError(str(error), block.line) from None


def write(env: Puzzle, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return ([], rows): no headers, and the board of a level or state as rows of text."""
    return [], env.text(value.instance, value.board).split("\n")
