"""Puzzles whose actions are places: a cursor or the mouse points at them.

The board is divided evenly into places, such as the lamps of a board or the pegs of a tower.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..core.env import Env
from ..puzzles import TSP, Hanoi, LightsOut, Minesweeper, Pancake, PegSolitaire, Sudoku
from ..puzzles.tsp import GRID
from .frames import board_shape

Place = tuple[int, int]  # row, column
JUMPS = {(-2, 0): "up", (0, 2): "right", (2, 0): "down", (0, -2): "left"}


class Pointing(NamedTuple):
    """How places become an action of an environment."""

    rows: int  # of places
    columns: int
    # The action of the place (or of two: from, to) in a state; None where there is none. With
    # `writes` also of a digit.
    action: Callable[..., int | None]
    does: str  # for the help
    pair: bool = False  # whether it takes two places
    writes: bool = False  # whether it is the digits 1 to 9 that act at the cursor

    def moved(self, place: Place, down: int, right: int) -> Place:
        """Return the place beside, around the edge."""
        return (place[0] + down) % self.rows, (place[1] + right) % self.columns


def pointing(env: Env) -> Pointing | None:
    """Return how places become actions, or None where keys say all."""
    for kind, make in _MAKERS:
        if isinstance(env, kind):
            return make(env, *board_shape(env))
    return None


def _lamps(env: LightsOut, rows: int, columns: int) -> Pointing:
    return Pointing(rows, columns, lambda _, at: at[0] * columns + at[1], "press the lamp")


def _mines(env: Minesweeper, rows: int, columns: int) -> Pointing:
    return Pointing(rows, columns, lambda _, at: at[0] * columns + at[1], "open the cell")


def _grid(env: Sudoku, rows: int, columns: int) -> Pointing | None:
    if env.guided:  # the cell is given
        return None
    return Pointing(rows, columns, _digit, "write the digit", writes=True)


def _stack(env: Pancake, rows: int, columns: int) -> Pointing:
    return Pointing(rows, 1, lambda _, at: _flip(env, at), "flip from here up")


def _map(env: TSP, rows: int, columns: int) -> Pointing:
    return Pointing(rows, columns, _nearest, "go to the nearest city")


def _towers(env: Hanoi, rows: int, columns: int) -> Pointing:
    def move(state: Any, start: Place, end: Place) -> int | None:
        return _index(env.action_names, f"{start[1]}>{end[1]}")

    return Pointing(1, env.pegs, move, "take, put", pair=True)


def _pegs(env: PegSolitaire, rows: int, columns: int) -> Pointing:
    def jump(state: Any, start: Place, end: Place) -> int | None:
        return _index(env.action_names, _jump(start, end))

    return Pointing(rows, columns, jump, "take, jump", pair=True)


_MAKERS: tuple[tuple[type, Callable[..., Pointing | None]], ...] = (
    (LightsOut, _lamps),
    (Minesweeper, _mines),
    (Sudoku, _grid),
    (Pancake, _stack),
    (TSP, _map),
    (Hanoi, _towers),
    (PegSolitaire, _pegs),
)


def _digit(state: Any, place: Place, digit: int) -> int:
    return 81 * place[0] + 9 * place[1] + digit - 1


def _flip(env: Pancake, place: Place) -> int | None:
    action = place[0] - 1  # the upper pancake alone is not flipped, nor is the plate
    return action if 0 <= action < env.num_actions else None


def _nearest(state: Any, place: Place) -> int:
    """The city nearest to the middle of a place."""
    at = (np.array((place[1], place[0])) + 0.5) / GRID
    return int(np.argmin(np.hypot(*(np.asarray(state.instance) - at).T)))


def _jump(start: Place, end: Place) -> str:
    way = JUMPS.get((end[0] - start[0], end[1] - start[1]), "")
    return f"{start[0]},{start[1]} {way}"


def _index(names: tuple[str, ...], name: str) -> int | None:
    return names.index(name) if name in names else None
