"""Levels as drawings: one word per cell, without the border of walls.

    .  empty      #  wall       G  goal      ~  lava
    k  key        o  ball       x  box       f  floor
    D  open door  C  closed     L  locked    > v < ^  the agent, before its tile's letter

A colour follows the letter: r g b p y, and e for grey.
"""

import numpy as np

from jaxenvs.grid import Colour, Kind, Level, tiles

PLAIN = {".": tiles.EMPTY, "#": tiles.WALL, "G": tiles.GOAL, "~": tiles.LAVA}
KINDS = {
    "k": Kind.KEY,
    "o": Kind.BALL,
    "x": Kind.BOX,
    "f": Kind.FLOOR,
    "D": Kind.DOOR,
    "C": Kind.CLOSED_DOOR,
    "L": Kind.LOCKED_DOOR,
}
COLOURS = dict(zip("rgbpye", Colour, strict=True))
AGENT = ">v<^"


def code(word):
    """Return the tile byte of a word; the word must not begin with the agent's character."""
    return PLAIN[word] if word in PLAIN else KINDS[word[0]] | COLOURS[word[1]] << 4


def word(byte):
    """Return the word of a tile byte, the inverse of `code`."""
    for letter, plain in PLAIN.items():
        if byte == plain:
            return letter
    kind = next(letter for letter, kind in KINDS.items() if kind == byte & 15)
    return kind + next(letter for letter, colour in COLOURS.items() if colour == byte >> 4)


def parse(drawing):
    """Convert a drawing to a level."""
    lines = [line.split() for line in drawing.strip().splitlines()]
    grid = np.full((len(lines) + 2, len(lines[0]) + 2), tiles.WALL, np.uint8)
    pose = None
    for row, line in enumerate(lines, start=1):
        for column, cell in enumerate(line, start=1):
            if cell[0] in AGENT:
                pose = (row, column, AGENT.index(cell[0]))
                cell = cell[1:] or "."
            grid[row, column] = code(cell)
    return Level.of(grid, *pose)


def draw(state):
    """Convert the grid and the agent of a state to a drawing."""
    grid = np.asarray(state.grid)
    rows, columns = grid.shape
    lines = []
    for row in range(1, rows - 1):
        cells = [word(int(grid[row, column])) for column in range(1, columns - 1)]
        if row == state.row:
            column = int(state.column) - 1
            under = "" if cells[column] == "." else cells[column]
            cells[column] = AGENT[int(state.direction)] + under
        lines.append(" ".join(cells))
    return "\n".join(lines)


def tidy(drawing):
    """Return a drawing with one space between words, and without empty lines at its ends."""
    return "\n".join(" ".join(line.split()) for line in drawing.strip().splitlines())
