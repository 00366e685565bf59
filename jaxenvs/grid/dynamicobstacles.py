"""Dynamic-Obstacles: reach the goal among moving balls (MiniGrid 3.2 `dynamicobstacles.py`).

Difference from MiniGrid: a ball that has a free cell next to it always moves. In MiniGrid, a ball
does not move if 101 random draws hit occupied cells. This happens in one of 146,000 moves if one
cell next to the ball is free, and in one of 10**11 moves if two cells are free.
"""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8

from ..core import checks
from ..core.env import Ending, Params, Transition
from ..core.gridworld import direction_vector
from ..core.platforms import by_platform
from ..core.random import Key, below, distinct, words
from ..core.spaces import Discrete
from . import tasks, tiles
from .env import SquareGridEnv, register_level
from .placement import inner_cell, put, put_all, room
from .rules import SMALL_MAP
from .state import Action, GridState, Level
from .tiles import Colour, Kind

BALL = np.uint8(Kind.BALL | Colour.BLUE << 4)
AROUND = 9  # number of cells in a 3x3 neighbourhood
# Bit masks of cells in the 3x3 neighbourhood of a ball.
# The lowest bit is the upper left cell, and the bits are in row-major order.
UPPER_ROW, LOWER_ROW, LEFT_COLUMN, RIGHT_COLUMN = 0b000000111, 0b111000000, 0b001001001, 0b100100100


@register_level("Dynamic-Obstacles-5x5-v0", size=5, obstacles=2)
@register_level("Dynamic-Obstacles-Random-5x5-v0", size=5, obstacles=2, random_start=True)
@register_level("Dynamic-Obstacles-6x6-v0", size=6, obstacles=3)
@register_level("Dynamic-Obstacles-Random-6x6-v0", size=6, obstacles=3, random_start=True)
@register_level("Dynamic-Obstacles-8x8-v0", size=8, obstacles=4, representative=True)
@register_level("Dynamic-Obstacles-16x16-v0", size=16, obstacles=8)
class DynamicObstacles(SquareGridEnv):
    """Walk to the goal in the bottom right corner without colliding with moving balls.

    Before each action the balls move one after another, each to a free cell among the eight around
    it. Walking forward is a collision if a ball or a wall was ahead of the agent before the balls
    moved. If a ball moves into an empty cell ahead in the same step, the agent stays where it is,
    without a collision.

    Actions: 0 turn left, 1 turn right, 2 forward.
    Reward: 1 - 0.9 * steps / max_steps on the goal, -1 for a collision.
    Episode ends: on the goal, on a collision, or after 4 * size**2 steps.
    """

    obstacles: int = 4  # number of moving balls
    # Whether the agent starts in a random cell, not in the top left corner.
    random_start: bool = False
    see_through_walls: bool = True

    min_size: ClassVar[int] = 5
    mission: ClassVar[str] = "get to the green goal square"
    reward_range: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        owner = "DynamicObstacles"
        checks.integer_field(owner, "obstacles", self.obstacles, 1, self.size // 2 + 1)
        checks.one_of(owner, "random_start", self.random_start, (False, True))

    @property
    def action_space(self) -> Discrete:
        """The first three actions of `Action`: turn left, turn right, forward."""
        return Discrete(Action.FORWARD + 1)

    def generate(self, key: Key) -> Level:
        """Place the agent and the balls.

        The field `task` of the level has the row and column of each ball, packed into an int32.
        """
        inner = self.size - 2
        free = inner * inner - 1  # number of inner cells without the last one, which has the goal
        word = words(key, 2 + self.obstacles)
        if self.random_start:
            cells, turn = distinct(word[1:], free), below(word[0], 4)
        else:
            others = 1 + distinct(word[2:], free - 1)
            cells, turn = jnp.concatenate([others, jnp.zeros(1, jnp.int32)]), 0
        grid = put(room(self.size, self.size), inner, inner, tiles.GOAL)
        rows, columns = inner_cell(cells, inner)
        balls = np.full(self.obstacles, BALL)
        grid = put_all(grid, rows[:-1], columns[:-1], balls)
        return Level.of(grid, rows[-1], columns[-1], turn, task=tasks.pack(rows[:-1], columns[:-1]))

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in failure.

        The action walks into a wall.
        """
        return Ending(level.posed(1, 1, 2), (Action.FORWARD,))

    def step_state(self, key: Key, state: GridState, action: Array, params: Params) -> Transition:
        """Move the balls, then the agent, and decide whether the episode ends."""
        return self.outcome(key, state, self.wandered(key, state), action, params)

    def outcome(
        self,
        key: Key,
        state: GridState,
        cells: Int32[Array, " obstacles"],
        action: Array,
        params: Params,
    ) -> Transition:
        """Move the balls to `cells`, then apply the action.

        `cells` has the row and column of each ball, packed into one int32 per ball, as in
        `state.task`. The agent collides if it walks forward and the cell ahead of it was occupied
        before the balls moved.
        """
        d_row, d_column = direction_vector(state.direction)
        ahead = state.grid[state.row + d_row, state.column + d_column]
        collides = (action == Action.FORWARD) & (ahead != tiles.EMPTY) & (ahead != tiles.GOAL)
        # The barrier makes XLA read the cell ahead of the agent before it writes the balls into the
        # grid. Otherwise XLA would have to keep a copy of the old grid.
        collides, cells, grid = jax.lax.optimization_barrier((collides, cells, state.grid))
        old, new = (
            tasks.part(balls, 0) * self.size + tasks.part(balls, 1) for balls in (state.task, cells)
        )
        moved = state.replace(grid=_with_balls(grid, old, new), task=cells)
        step = super().step_state(key, moved, action, params)
        reward = jnp.where(collides, -1.0, step.reward)
        return step._replace(reward=reward, terminated=step.terminated | collides)

    def wandered(self, key: Key, state: GridState) -> Int32[Array, " obstacles"]:
        """Draw the cell to which each ball moves in this step.

        The row and column of a cell are packed into one int32, as in `state.task`. The balls move
        one after another. A ball moves to a random free cell around it, or stays if there is none.
        """
        word = words(key, self.obstacles)
        rows, columns = tasks.part(state.task, 0), tasks.part(state.task, 1)
        bare = _bare_around(state, rows, columns)
        numbers = np.arange(self.obstacles, dtype=np.int32)

        def move(number: ArrayLike, cells: Array) -> Array:
            row, column = rows[number], columns[number]
            taken = _bit(tasks.part(cells, 0) - row, tasks.part(cells, 1) - column).sum(
                dtype=jnp.int32
            )
            taken = taken | _bit(state.row - row, state.column - column)
            free = bare[number] & ~taken
            step = _bit_of(free, below(word[number], jax.lax.population_count(free)))
            row = row + _any(step, LOWER_ROW) - _any(step, UPPER_ROW)
            column = column + _any(step, RIGHT_COLUMN) - _any(step, LEFT_COLUMN)
            return jnp.where(numbers == number, tasks.pack(row, column), cells)

        cells = state.task
        for number in range(self.obstacles):
            cells = move(number, cells)
        return cells


def _with_balls(
    grid: UInt8[Array, "height width"], old: Int32[Array, " n"], new: Int32[Array, " n"]
) -> UInt8[Array, "height width"]:
    """Move the balls from cells `old` to cells `new`, given by their row-major indices."""

    def select(flat: Array, old: Array, new: Array) -> Array:
        cells = np.arange(flat.size, dtype=np.int32)
        for number in range(old.shape[0]):
            flat = jnp.where(cells == old[number], jnp.uint8(tiles.EMPTY), flat)
        for number in range(new.shape[0]):
            flat = jnp.where(cells == new[number], BALL, flat)
        return flat

    def scatter(flat: Array, old: Array, new: Array) -> Array:
        """Empty the cells `old` and write balls to the cells `new`, by one scatter.

        If a cell is in both `old` and `new`, both of its entries write a ball, so their order does
        not matter.
        """
        taken = (old[:, None] == new[None, :]).any(axis=1)
        left = jnp.where(taken, BALL, jnp.uint8(tiles.EMPTY))
        tile = jnp.concatenate([left, np.full(new.shape, BALL)])
        return flat.at[jnp.concatenate([old, new])].set(tile, mode="promise_in_bounds")

    flat = grid.reshape(-1)
    if flat.size > SMALL_MAP:
        flat = scatter(flat, old, new)
    else:
        flat = by_platform(flat, old, new, cpu=scatter, default=select)
    return flat.reshape(grid.shape)


def _bare_around(
    state: GridState, rows: Int32[Array, " n"], columns: Int32[Array, " n"]
) -> Int32[Array, " n"]:
    """Return for each ball a bit mask of the cells around the ball that are empty or have a ball.

    The bits stand for the cells of the ball's 3x3 neighbourhood, row by row from the lowest bit.
    """
    width = state.grid.shape[1]
    d_row, d_column = np.divmod(np.arange(AROUND, dtype=np.int32), 3)
    cells = (rows * width + columns)[:, None] + (d_row - 1) * np.int32(width) + d_column - 1
    near = state.grid.reshape(-1).at[cells].get(mode="promise_in_bounds")
    bits = np.left_shift(np.int32(1), np.arange(AROUND, dtype=np.int32))
    bare = (near == tiles.EMPTY) | (near == BALL)
    return jnp.where(bare, bits, 0).sum(axis=1, dtype=jnp.int32)


def _bit(rows: Int32[Array, "*n"], columns: Int32[Array, "*n"]) -> Int32[Array, "*n"]:
    """Return the bit that stands for a cell in the bit masks of a ball's 3x3 neighbourhood.

    The cell is `rows` rows below and `columns` columns right of the ball. The result is 0 if the
    cell is outside the neighbourhood.
    """
    inside = (jnp.abs(rows) <= 1) & (jnp.abs(columns) <= 1)
    return jnp.where(inside, jnp.int32(1) << (3 * rows + columns + 4).clip(0, 8), 0)


def _bit_of(bits: Int32[Array, ""], number: Int32[Array, ""]) -> Int32[Array, ""]:
    """Return the value of 1-bit `number` of `bits`: for example, 4 for number 1 and bits 0b101.

    The 1-bits are counted from 0, starting with the lowest. The result is 0 if `bits` has too few
    1-bits. `bits` has at most eight 1-bits.
    """
    for i in range(7):
        bits = jnp.where(number > i, bits & (bits - 1), bits)
    return bits & -bits


def _any(bits: Int32[Array, ""], mask: int) -> Int32[Array, ""]:
    return ((bits & mask) != 0).astype(jnp.int32)
