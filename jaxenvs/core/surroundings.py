"""Text about the cells around the agent of a grid world: a sentence and a character map.

People and language models read it, through `describe`.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from .facts import away, drawn, listed

Cells = dict[tuple[int, int], int]  # (steps ahead of the agent, steps to its right) -> tile byte
AGENT = ">v<^"  # character that stands for the agent, by `facing`


class Scene(NamedTuple):
    """Parts of a state that a text about it needs, as NumPy arrays and Python integers."""

    # Tile bytes of the agent's view, far row first; 0 for cells that it does not see.
    view: np.ndarray
    grid: np.ndarray  # tile byte of each cell of the whole grid
    row: int  # the agent's row
    column: int
    facing: int  # the agent's direction in MiniGrid's encoding, see `gridworld`
    direction: int  # the agent's direction in the family's encoding
    carried: int  # tile byte of the object that the agent carries, 0 for none


def scene_of(env: Any, state: Any) -> Scene:
    """Return the parts of a state that a text about it needs, copied from the device.

    The function that reads these parts is compiled once per environment.
    """
    view, grid, *numbers = jax.device_get(_reader(env)(state))
    return Scene(view, grid, *map(int, numbers))


@functools.lru_cache(maxsize=64)
def _reader(env: Any) -> Callable[[Any], tuple[Any, ...]]:
    def reader(state: Any) -> tuple[Any, ...]:
        agent = state.row, state.column, state.facing, state.direction, state.carried
        return env.seen_tiles(state).T, state.grid, *agent

    return jax.jit(reader)


def cells_of(scene: Scene, whole: bool) -> Cells:
    """Return the tile bytes by position relative to the agent: (steps ahead, steps right).

    If `whole` is true, the result has the cells of the whole grid, otherwise the cells of the
    agent's view.
    """
    if not whole:
        size = len(scene.view)
        places = np.ndenumerate(scene.view)
        return {(size - 1 - row, col - size // 2): int(tile) for (row, col), tile in places}
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[scene.facing]
    cells = {}
    for (row, column), tile in np.ndenumerate(scene.grid):
        rows, columns = row - scene.row, column - scene.column
        cells[rows * down + columns * right, rows * right - columns * down] = int(tile)
    return cells


def sighted(objects: Cells, noun: Callable[[int], str]) -> str:
    """Return a sentence that lists objects and their positions, the nearest object first.

    `noun` returns the words for a tile byte.
    """
    found = [
        (abs(ahead) + abs(right), -ahead, right, tile) for (ahead, right), tile in objects.items()
    ]
    places = (f"{noun(tile)} {away(-behind, right)}" for _, behind, right, tile in sorted(found))
    return f"You see {listed(places)}." if found else "You see no objects."


def drawing(
    scene: Scene, whole: bool, sign: Callable[[int], str], meaning: Callable[[int], str]
) -> str:
    """Draw the whole grid or the agent's view as characters, with a line that explains them.

    `sign` returns the character for a tile byte, `meaning` the words that explain it.
    """
    shown, at = scene.view, (len(scene.view) - 1, len(scene.view) // 2)
    where, you = "Your view, ahead is up", AGENT[3]
    if whole:
        shown, at = scene.grid, (scene.row, scene.column)
        where, you = "The whole grid", AGENT[scene.facing]
    meanings = {sign(tile): meaning(tile) for tile in np.unique(shown).tolist()}
    picture = [[sign(tile) for tile in line] for line in shown.tolist()]
    picture[at[0]][at[1]] = you
    others = sorted({one for line in picture for one in line} - {you})
    explained = ", ".join(f"{one} {meanings[one]}" for one in others)
    return f"{where}; {you} is you, {explained}:\n{drawn(picture)}"
