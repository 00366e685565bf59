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
    """Return the names of headers, and the names that may be repeated; puzzles have none."""
    return (), ()


def block(text: str, first: int, form: str | None) -> Block | None:
    """Return the block of a text that is only a board; None if the text has a line `grid:`."""
    lines = text.split("\n")
    return None if any(line.rstrip() == GRID for line in lines) else board(lines, first)


def board(lines: list[str], first: int, headers: tuple[Header, ...] = ()) -> Block:
    """Return a block with the rows `lines`, without empty rows at the start and at the end."""
    picture, first = trimmed(lines, first)
    return Block(headers, tuple(picture), first)


def read(env: Puzzle, block: Block, *, strict: bool) -> PuzzleLevel:
    """Return the level of a block; raise `LevelError` if the puzzle cannot read its board."""
    try:
        return env.read_level("\n".join(block.picture))
    except LevelError:
        raise
    except ValueError as error:
        raise LevelError(str(error), block.line) from None


def write(env: Puzzle, value: Any, form: str | None) -> tuple[list[tuple[str, str]], list[str]]:
    """Return an empty list of headers, and the text rows of the board of a level or state."""
    return [], env.text(value.instance, value.board).split("\n")
