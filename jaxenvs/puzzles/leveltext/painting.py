"""Edit the boards of puzzles in the level editor.

The editor's palette has one tool for each character that a board can contain.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ...levels.blocks import Block
from ...levels.cells import Cell
from ...levels.palette import Headers, Palette, Picture, Tool, joined, split
from ..puzzle import Puzzle, PuzzleState

PLAYER = {"@": (0, " "), "+": (0, ".")}


class Signs(NamedTuple):
    """Characters of a puzzle's boards, and the editor's tools that paint them."""

    tools: tuple[Tool, ...]
    empty: str
    order: str  # characters in the order of the puzzle's sprites
    outside: str = ""
    has_player: bool = False


DIGITS = tuple(Tool(f"digit {digit}", str(digit), (str(digit),)) for digit in range(1, 10))
SIGNS = {
    "LightsOut": Signs((Tool("dark", "d", (".",)), Tool("lit", "l", ("O",))), ".", ".O"),
    "Maze": Signs(
        (Tool("floor", "f", (" ",)), Tool("wall", "w", ("#",)), Tool("target", "g", (".",))),
        *(" ", " #.@+"),
        has_player=True,
    ),
    "PegSolitaire": Signs((Tool("hole", "o", (".",)), Tool("peg", "k", ("O",))), ".", " .O", " "),
    "Sokoban": Signs(
        (
            Tool("floor", "f", (" ",)),
            Tool("wall", "w", ("#",)),
            Tool("box", "b", ("$",)),
            Tool("target", "g", (".",)),
            Tool("box on a target", "d", ("*",)),
        ),
        *(" ", " #.$*@+"),
        has_player=True,
    ),
    "Sudoku": Signs((Tool("empty", "0", (".",)), *DIGITS), ".", ".123456789"),
}


def _signs(env: Puzzle) -> Signs:
    """Return a puzzle's `Signs`; raise `NotImplementedError` if single cells cannot be edited."""
    for kind in type(env).__mro__:
        if kind.__name__ in SIGNS and kind.__module__.startswith(_PUZZLES):
            return SIGNS[kind.__name__]
    if not env.characters:
        raise NotImplementedError(
            f"levels of {type(env).__name__} cannot be edited cell by cell, because no sign of "
            "their text stands for a cell that can change alone; change the text of the file"
        )
    tools = (Tool(sign, "", (sign,)) for sign in env.characters)
    return Signs(tuple(tools), env.characters[0], env.characters)


_PUZZLES = __name__.removesuffix("leveltext.painting")  # "jaxenvs.puzzles."


def palette(env: Puzzle) -> Palette:
    """Return a puzzle's palette; raise `NotImplementedError` if single cells cannot be edited."""
    return _palette(_signs(env))


@functools.cache
def _palette(signs: Signs) -> Palette:
    agents = PLAYER if signs.has_player else {}
    return Palette(signs.tools, signs.empty, 1, signs.outside, agents, "player")


def unpacked(env: Puzzle, block: Block) -> Picture:
    """Convert a `Block` to a `Picture` for the editor; raise `LevelError` for a second player."""
    headers = tuple((header.name, header.value) for header in block.headers)
    return split(palette(env), block, headers)


def packed(env: Puzzle, picture: Picture) -> tuple[Headers, list[str]]:
    """Convert a `Picture` of the editor to the headers and the text rows of a level."""
    rows = joined(palette(env), picture)
    outside = _signs(env).outside
    return picture.headers, [row.rstrip(outside) for row in rows] if outside else rows


def sprites(env: Puzzle, picture: Picture, level: Any) -> np.ndarray:
    """Return the sprite index of each cell of `level`; of `picture` if `level` is None.

    An unknown character of `picture` gets sprite 0.
    """
    if level is not None:
        state = PuzzleState(time=jnp.int32(0), board=level.board, instance=level.instance)
        return np.asarray(jax.device_get(env.tiles(state)))
    order, rows = _signs(env).order, joined(palette(env), picture)
    return np.array([[max(0, order.find(sign)) for sign in row] for row in rows], np.int32)


def place(env: Puzzle, state: PuzzleState) -> Cell | None:
    """Return the row and the column of the player in a state; None without a player."""
    rows, order = np.asarray(env.observe_board(state.instance, state.board)), _signs(env).order
    found = [order.find(sign) for sign in palette(env).agents]
    cells = np.argwhere(np.isin(rows, found)).tolist()
    return (cells[0][0], cells[0][1]) if cells else None
