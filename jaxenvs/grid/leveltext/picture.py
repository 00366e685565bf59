"""Pictures of grids: two characters per cell, as `pprint_grid` of minigrid 3.2 writes them.

The first character stands for the kind of object. The second one is the initial of its colour.
minigrid writes the initial in upper case, so `G` is grey or green, and writes `__` for an open door
of any colour. jaxenvs also has unambiguous lower-case letters: `r g b p y`, and `e` for grey.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from ...core.checks import counted
from ...levels.blocks import Block, Header
from ...levels.cells import Cell, cell, named
from ...levels.errors import LevelError, warn
from .. import tiles
from ..tiles import Colour, Kind

# First letter of a pair -> kind of object; the second letter is its colour. `_` is an open door.
KINDS = {
    "K": Kind.KEY,
    "A": Kind.BALL,
    "B": Kind.BOX,
    "F": Kind.FLOOR,
    "D": Kind.CLOSED_DOOR,
    "L": Kind.LOCKED_DOOR,
    "_": Kind.DOOR,
}
PLAIN = {"  ": tiles.EMPTY, "WG": tiles.WALL, "GG": tiles.GOAL, "VR": tiles.LAVA}
AGENT = (">>", "VV", "<<", "^^")  # pair of characters for each direction of the agent
EXACT = dict(zip("rgbpye", Colour, strict=True))
UPPER = dict(zip("RGBPYG", Colour, strict=True))
UPPER["G"] = Colour.GREEN  # G also means grey; see `_unclear`
# minigrid draws the pair `__` for an open door of any colour. The pair is read as a red door.
OPEN_RED = Kind.DOOR | Colour.RED << 4
PAIRS = {
    **PLAIN,
    **{k + c: kind | colour << 4 for k, kind in KINDS.items() for c, colour in EXACT.items()},
    **{k + c: KINDS[k] | colour << 4 for k in "KABFDL" for c, colour in UPPER.items()},
    "__": OPEN_RED,
}
MEANING = (
    "two spaces, WG wall, GG goal, VR lava, K key, A ball, B box, F floor, D closed, L locked or _ "
    "open door with a colour (RGBPY, or exactly rgbpye), or the agent >> VV << ^^"
)


class Seen(NamedTuple):
    """The grid and the agent's pose in a picture."""

    grid: np.ndarray  # uint8 (rows, columns): tile bytes; the agent's cell is empty
    cell: Cell  # the agent's row and column
    direction: int  # the agent's direction, 0 right, 1 down, 2 left, 3 up


def read(block: Block, grey: Iterable[Cell] | None, *, strict: bool) -> Seen:
    """Parse the picture of `block`, a level's text; raise `LevelError` if the picture is invalid.

    grey: cells where the ambiguous letter `G` means grey; elsewhere it means green. None if the
        text has no header `grey`: every `G` then means green, with a warning (an error if
        `strict`).
    """
    rows = [pairs(block, number) for number in range(len(block.picture))]
    row, column = _agent(block, rows)
    direction = AGENT.index(rows[row][column])
    rows[row][column] = "  "
    unclear = [
        (r, c) for r, line in enumerate(rows) for c, pair in enumerate(line) if _unclear(pair)
    ]
    grid = np.array([[PAIRS[pair] for pair in line] for line in rows], np.uint8)
    if grey is None and unclear:
        _warn_of_grey(block, unclear, strict=strict)
    for place in grey or ():
        if place not in unclear:
            raise error(block, place, "`grey:` names this cell, whose pair does not end in G")
        grid[place] = (grid[place] & 15) | Colour.GREY << 4
    return Seen(grid, (row, column), direction)


def _agent(block: Block, rows: list[list[str]]) -> Cell:
    """Return the cell of the agent; raise `LevelError` unless the picture has exactly one agent."""
    found = [(r, c) for r, row in enumerate(rows) for c, pair in enumerate(row) if pair in AGENT]
    if len(found) != 1:
        raise error(
            block,
            found[1] if found else (0, 0),
            f"the picture has {counted(len(found), 'agent')}, expected one: >> VV << or ^^",
        )
    return found[0]


def error(block: Block, place: Cell, message: str) -> LevelError:
    """Return a `LevelError` about the cell `place` of the picture; the caller raises it."""
    return LevelError(message, block.line + place[0], 1 + 2 * place[1])


def _unclear(pair: str) -> bool:
    """Return whether a pair of characters can mean both a green and a grey object."""
    return pair[0] in KINDS and pair[1] == "G"


def _warn_of_grey(block: Block, unclear: list[Cell], *, strict: bool) -> None:
    listed = "; ".join(f"{row},{column}" for row, column in unclear)
    row, column = unclear[0]
    warn(
        f"G is grey or green in the cells {listed}, read as green; add the line `grey:` with the "
        "grey cells, or write g or e",
        block.line + row,
        1 + 2 * column,
        strict=strict,
    )


def pairs(block: Block, number: int) -> list[str]:
    """Split row `number` of the picture into pairs of characters; raise `LevelError` if invalid."""
    line, width, place = block.picture[number], len(block.picture[0]), block.line + number
    if len(line) % 2:
        raise LevelError(
            f"the row has {counted(len(line), 'character')}, an odd number; a cell is two "
            "characters, an empty one two spaces",
            place,
            len(line),
        )
    if len(line) != width:
        raise LevelError(
            f"the row has {counted(len(line), 'character')}, the first row {width}; all rows are "
            "equally long, and empty cells at their end are spaces",
            place,
            min(len(line), width) + 1,
        )
    found = [line[i : i + 2] for i in range(0, width, 2)]
    for column, pair in enumerate(found):
        if pair not in PAIRS and pair not in AGENT:
            raise LevelError(f"unknown pair {pair!r}; known are {MEANING}", place, 1 + 2 * column)
    return found


def write(grid: np.ndarray, agent: Cell, direction: int, *, minigrid: bool = False) -> list[str]:
    """Return the rows of the picture of a grid.

    minigrid: whether to draw the picture exactly as minigrid does, with ambiguous colours. By
        default, every colour is unambiguous.

    Raises `ValueError` for a tile byte that no pair of characters represents.
    """
    table = _MINIGRID if minigrid else OURS
    rows = [[_pair(table, int(code)) for code in row] for row in np.asarray(grid)]
    rows[agent[0]][agent[1]] = AGENT[direction]
    return ["".join(row) for row in rows]


def _pair(table: dict[int, str], code: int) -> str:
    if code & 15 == Kind.KEY_BOX:
        code = Kind.BOX | Colour.GREY << 4
    if code not in table:
        raise ValueError(f"the tile byte {code:#04x} is no object of a level")
    return table[code]


def _letters(*, minigrid: bool) -> Iterator[tuple[int, str]]:
    yield from ((code, pair) for pair, code in PLAIN.items())
    for letter, kind in KINDS.items():
        for small, colour in EXACT.items():
            clear = colour not in (Colour.GREEN, Colour.GREY) and letter != "_"
            upper = colour.name[0] if clear or minigrid else small
            opened = letter == "_" and minigrid
            yield kind | colour << 4, "__" if opened else letter + upper


# Tile byte -> pair of characters: first with unambiguous letters, then as minigrid writes it.
OURS, _MINIGRID = dict(_letters(minigrid=False)), dict(_letters(minigrid=True))
# Name of a tile -> tile byte, for headers such as `under: open red door`.
NAMES = {tiles.name(code): code for code in OURS if tiles.name(code)}
PORTABLE = {
    name: code for name, code in NAMES.items() if code & 15 in (Kind.KEY, Kind.BALL, Kind.BOX)
}


def content_of(header: Header, shape: tuple[int, int]) -> tuple[Cell, int]:
    """Return the cell of a box and the tile byte of its contents, from a header `contents`."""
    place, _, name = header.value.partition(" ")
    return cell(header, place, shape), named(header, name, PORTABLE)
