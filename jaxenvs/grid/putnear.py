"""PutNear: carry one object to another (MiniGrid 3.2 `putnear.py`)."""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, Int32, UInt8, UInt32

from ..core import checks
from ..core.env import Ending
from ..core.gridworld import direction_vector
from ..core.random import Key, below, choose, distinct, words
from . import missions, tasks
from .aims import Aim, cell, has
from .env import SquareGridEnv, Verdict, register_level
from .placement import inner_cell, item, other, put_all, room
from .state import Action, GridState, Level

THINGS = 18  # number of different objects: keys, balls and boxes in six colours


@register_level("PutNear-6x6-N2-v0", size=6, objects=2)
@register_level("PutNear-8x8-N3-v0", size=8, objects=3)
class PutNear(SquareGridEnv):
    """Put an object next to another one; the mission names both.

    No two objects are alike, and none are adjacent at first, not even diagonally. The agent must
    drop the object next to the cell in which the other object was at first, even if the agent has
    moved the other object since.

    Reward: 1 - 0.9 * steps / max_steps on success. Episode ends: when the wrong object is picked
    up, when the agent tries to drop the carried object, or after 5 * size steps.
    """

    size: int = 6
    objects: int = 2  # number of keys, balls and boxes in the room
    obs: str = "dict"
    see_through_walls: bool = True

    min_size: ClassVar[int] = 6

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        # Largest number of objects that always fit into the room. Objects must not be adjacent, so
        # each object makes at most nine cells unusable: its own cell and the eight cells around it.
        most = min(((self.size - 2) ** 2 - 1) // 9 + 1, THINGS)
        checks.integer_field("PutNear", "objects", self.objects, 2, most)

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return 5 * self.size

    def generate(self, key: Key) -> Level:
        """Draw the objects, the agent, and the two objects that the mission names.

        The mission is to put one object near another one, the target. The level's task is the row,
        column and tile of the target, and the tile of the object to move.
        """
        inner, count = self.size - 2, self.objects
        cells = inner * inner
        word = words(key, 3 + count + (count + 1) * cells)
        things = item(distinct(word[3 : 3 + count], THINGS))
        rows, columns = _scattered(word[3 + count :].reshape(count + 1, cells), inner)
        grid = put_all(room(self.size, self.size), rows[:-1], columns[:-1], things)
        moved = below(word[0], count)
        target = other(word[1], count, moved)
        task = tasks.pack(rows[target], columns[target], things[target], things[moved])
        return Level.of(grid, rows[-1], columns[-1], below(word[2], 4), task=task)

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure) of a step.

        The mission is to put one object near another one, the target. A drop at most one row and
        one column away from the target's initial cell is success, any other drop is failure.
        Picking up any object but the one to move is failure.
        """
        tries = (action == Action.DROP) & (before.carried != 0)
        d_row, d_column = direction_vector(after.direction)
        rows, columns = tasks.offset(after.row + d_row, after.column + d_column, after.task)
        near = (after.carried == 0) & (rows <= 1) & (columns <= 1)
        is_other = (after.carried != 0) & (after.carried != tasks.tile(after.task, 3))
        wrong = (action == Action.PICKUP) & is_other
        return tries & near, (tries & ~near) | wrong

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary conditions of success: a pick-up, and a drop near the target."""
        row, column = tasks.part(state.task, 0), tasks.part(state.task, 1)
        moved = Aim(has(state.grid, tasks.tile(state.task, 3)), 2, state.carried == 0)
        return moved, Aim(cell(state.grid.shape, row, column, reach=1), 1)

    def ending(self, level: Level) -> Ending:
        """Return a level and two actions that end its episode.

        The agent picks up the object to move, and drops it at once.
        """
        return Ending(level.facing(tasks.tile(level.task, 3)), (Action.PICKUP, Action.DROP))

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids.

        The mission names the colours and kinds of the object to move and of the target.
        """
        moved, target = tasks.tile(state.task, 3), tasks.tile(state.task, 2)
        return missions.sentence(
            self.mission_length,
            *("put the", missions.colour_word(moved), missions.kind_word(moved)),
            *("near the", missions.colour_word(target), missions.kind_word(target)),
        )


def _scattered(
    word: UInt32[Array, "places cells"], inner: int
) -> tuple[Int32[Array, " places"], Int32[Array, " places"]]:
    """Draw the cells of all objects and, as the last entry, of the agent; return rows and columns.

    No two objects are next to each other; the agent may be on any free cell.
    """
    cell_rows, cell_columns = inner_cell(jnp.arange(inner * inner, dtype=jnp.int32), inner)
    found: list[tuple[Array, Array]] = []
    for number, row_of_words in enumerate(word):
        reach = 1 if number + 1 < word.shape[0] else 0
        allowed = jnp.ones(inner * inner, jnp.bool_)
        for row, column in found:
            away = jnp.maximum(jnp.abs(cell_rows - row), jnp.abs(cell_columns - column))
            allowed = allowed & (away > reach)
        found.append(inner_cell(choose(row_of_words, allowed), inner))
    rows, columns = zip(*found, strict=True)
    return jnp.stack(rows), jnp.stack(columns)
