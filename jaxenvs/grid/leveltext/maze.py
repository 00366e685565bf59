"""Mazes in jaxued's text format: one character per cell, without the outer wall."""

from collections.abc import Sequence

from ...core.checks import counted
from ...levels.blocks import Block, trimmed
from ...levels.cells import check_characters
from ...levels.errors import LevelError
from .picture import AGENT

# Character of a cell in a maze -> pair of characters of this cell in a picture.
PAIRS = {"#": "WG", ".": "  ", "G": "GG", **dict(zip(">v<^", AGENT, strict=True))}
KNOWN = "a maze has # wall, . path, G goal and the agent > v < ^"


def is_maze(text: str) -> bool:
    """Return whether a text has only characters of mazes, and at least one wall or path."""
    found = set(text) - {"\n"}
    return found <= PAIRS.keys() and bool(found & {"#", "."})


def block(text: str, first: int) -> Block:
    """Convert the text of a maze to a `Block` with an outer wall; raise `LevelError` if invalid.

    first: line number of the first line of `text`.
    """
    lines, first = trimmed(text.split("\n"), first)
    for number, line in enumerate(lines, first):
        if len(line) != len(lines[0]):
            raise LevelError(
                f"the row has {counted(len(line), 'character')}, the first row {len(lines[0])}; "
                "all rows are equally long, without the outer wall",
                number,
            )
        check_characters(line, number, PAIRS, KNOWN)
    edge = "WG" * (len(lines[0]) + 2)
    rows = [edge, *(f"WG{''.join(PAIRS[c] for c in line)}WG" for line in lines), edge]
    return Block((), tuple(rows), first - 1)


def drawn(rows: Sequence[str]) -> list[str]:
    """Convert the rows of a picture to the rows of a maze.

    Raises `ValueError` if the picture has anything but walls, empty cells, the goal and the agent.
    """
    letters = {pair: letter for letter, pair in PAIRS.items()}
    inner = [row[2:-2] for row in rows[1:-1]]
    pairs = [[row[i : i + 2] for i in range(0, len(row), 2)] for row in inner]
    other = next((pair for row in pairs for pair in row if pair not in letters), None)
    if other is not None:
        raise ValueError(f"form='maze' has only walls, a goal and the agent, not {other!r}")
    return ["".join(letters[pair] for pair in row) for row in pairs]
