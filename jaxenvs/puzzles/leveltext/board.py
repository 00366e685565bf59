"""Levels of puzzles as text: the board as the puzzle's `text` writes it."""

from typing import Any

from ...levels.blocks import GRID, Block, Header, trimmed
from ...levels.errors import LevelError
from ..puzzle import Puzzle, PuzzleLevel
from . import painting

FORMS = (None,)
palette, unpacked, packed = painting.palette, painting.unpacked, painting.packed
sprites, place = painting.sprites, painting.place


def names(env: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the headers that only this family has: there are none."""
    return (), ()


def block(text: str, first: int, form: str | None) -> Block | None:
    """Return a text without the line `grid:` as a board; None for other texts."""
    lines = text.split("\n")
    return None if any(line.rstrip() == GRID for line in lines) else board(lines, first)


def board(lines: list[str], first: int, headers: tuple[Header, ...] = ()) -> Block:
    """Return a block with these rows, without the empty ones at both ends."""
    picture, first = trimmed(lines, first)
    return Block(headers, tuple(picture), first)


def read(env: Puzzle, block: Block, *, strict: bool) -> PuzzleLevel:
    """Return the level of a block; raise `LevelError` where the puzzle cannot read the board."""
    try:
        return env.read_level("\n".join(block.picture))
    except LevelError:
        raise
    except ValueError as error:
        raise LevelError(str(error), block.line) from None


def write(env: Puzzle, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return no headers, and the rows of the board of a level or state."""
    return [], env.text(value.instance, value.board).split("\n")
