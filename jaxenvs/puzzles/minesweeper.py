"""Minesweeper: open all cells without a mine (rules of Jumanji 1.1 `Minesweeper-v0`).

As in Jumanji, an action opens only the chosen cell, and even the first cell may contain a mine.
There are two differences. The observation has a separate value for an opened mine; Jumanji shows
its number of neighbouring mines. Choosing an open cell does nothing, unless the field `strict` is
set.
"""

from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8

from ..core import checks
from ..core.controls import Controls, cell_names, cells
from ..core.env import Ending, Env, Params, State, Step, Transition
from ..core.facts import Fact
from ..core.random import Key, permutation, words
from ..core.registry import register
from ..core.spaces import Box, Discrete, Space
from ..core.struct import struct
from ..core.texts import Memo, board_changes, board_text, pairs, written_by_row
from . import sprites
from .puzzle import PuzzleLevel

COVERED, MINE = 9, 10  # values of the observation; 0 to 8 are numbers of neighbouring mines
OPEN = 16  # added to a cell's entry in `MinesweeperState.cells` if the cell is open
_MEANING = f"0 to 8 mines next to an open cell, {COVERED} a covered cell, {MINE} an opened mine"


@struct
class MinesweeperState(State):
    """State of the environment: time step and minefield."""

    # Number of mines next to each cell, or `MINE`; `OPEN` is added if the cell is open.
    cells: UInt8[Array, "rows columns"]


@register("Puzzle-Minesweeper-10x10-v0", rows=10, columns=10, mines=10)
class Minesweeper(Env):
    """Open all cells without a mine; an open cell shows the number of neighbouring mines.

    Actions: the cell to open, row * columns + column.
    Observation: uint8 (rows, columns), 0 to 8 the number of mines next to an open cell, 9 a covered
        cell, 10 an opened mine.
    Reward: 1 for every opened cell without a mine.
    Episode ends: when a mine is opened, when all cells without a mine are open, or at the time
        limit (one step per cell); with `strict` also when an open cell is chosen.
    """

    rows: int = 10  # number of rows
    columns: int = 10  # number of columns
    mines: int = 10  # number of mines
    strict: bool = False  # whether choosing an open cell ends the episode

    reset_source: ClassVar[str] = "auto"
    reward_range: ClassVar[tuple[float, float]] = (0.0, 1.0)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        owner = type(self).__name__
        checks.integer_field(owner, "rows", self.rows, 2, 32)
        checks.integer_field(owner, "columns", self.columns, 2, 32)
        checks.integer_field(owner, "mines", self.mines, 1, self.rows * self.columns - 1)
        checks.one_of(owner, "strict", self.strict, (False, True))

    @property
    def default_params(self) -> Params:
        """The time limit: one step per cell."""
        return Params(max_steps_in_episode=np.int32(self.rows * self.columns))

    @property
    def action_space(self) -> Space:
        """One action for each cell, row by row."""
        return Discrete(self.rows * self.columns)

    @property
    def action_names(self) -> tuple[str, ...]:
        """`row,column` of the cell, both counted from 0."""
        return cell_names(self.rows, self.columns)

    @property
    def controls(self) -> Controls:
        """A click on a cell opens it."""
        return cells(self.rows, self.columns, "open the cell")

    @property
    def observation_layout(self) -> tuple[tuple[str, str], ...]:
        """Return pairs (index, meaning) that document the values of the observation."""
        return (("`[row, column]`", _MEANING),)

    @property
    def observation_space(self) -> Space:
        """Matrix of the visible values of the cells: 0 to 8 mines, 9 covered, 10 an opened mine."""
        return Box(0, MINE, (self.rows, self.columns), np.uint8)

    def draw_level(self, key: Key, params: Any) -> PuzzleLevel:
        """Choose the mined cells uniformly at random; the level's board is 1 in them, else 0."""
        rank = permutation(words(key, self.rows * self.columns))
        mined = (rank < self.mines).astype(jnp.uint8)
        return PuzzleLevel(board=mined.reshape(self.rows, self.columns))

    def reset_state(self, key: Key, level: PuzzleLevel, params: Any) -> MinesweeperState:
        """Return the initial state, in which all cells are covered."""
        mined = level.board
        cells = jnp.where(mined != 0, jnp.uint8(MINE), _neighbouring_mines(mined))
        return MinesweeperState(time=jnp.int32(0), cells=cells)

    def step_state(
        self, key: Key, state: MinesweeperState, action: Array, params: Any
    ) -> Transition:
        """Open the chosen cell, compute the reward, and decide whether the episode ends."""
        cells = np.arange(self.rows * self.columns, dtype=np.int32)
        here = (cells == action).reshape(self.rows, self.columns)
        before = state.cells.reshape(-1)[action]
        covered, mine = before < OPEN, before & (OPEN - 1) == MINE
        after = jnp.where(here, state.cells | OPEN, state.cells)
        solved = ((after >= OPEN) | (after == MINE)).all()
        ended = (covered & mine) | solved
        if self.strict:
            ended = ended | ~covered
        reward = (covered & ~mine).astype(jnp.float32)
        return Transition(state.replace(cells=after), reward, ended, {"solved": solved})

    def observe(self, state: MinesweeperState, params: Any = None) -> UInt8[Array, "rows columns"]:
        """Return the visible value of each cell."""
        shown = state.cells & jnp.uint8(OPEN - 1)
        return jnp.where(state.cells >= OPEN, shown, jnp.uint8(COVERED))

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether all cells without a mine are open."""
        return step.info["solved"]

    def action_mask(self, state: MinesweeperState, params: Any = None) -> Bool[Array, " cells"]:
        """Return for each action whether its cell is still covered."""
        return state.cells.reshape(-1) < OPEN

    def ending(self, level: PuzzleLevel) -> Ending:
        """Return a level with one mine, and two actions that end its episode.

        The first action opens a cell next to the mine, the second opens the mine.
        """
        mines = jnp.zeros_like(level.board).at[0, 0].set(1)
        return Ending(level.replace(board=mines), (1, 0))

    def facts(self, state: MinesweeperState, params: Any = None) -> tuple[Fact, ...]:
        """Return the facts that a player is shown: the number of mines."""
        return (Fact("mines", f"{self.mines}"),)

    def text_inputs(
        self, state: MinesweeperState, params: Any = None
    ) -> UInt8[Array, "rows columns"]:
        """Return the observation, which `texts` converts to text."""
        return self.observe(state)

    def texts(self, inputs: np.ndarray, detail: str = "full") -> list[str]:
        """Return the number of mines and the visible values of all cells as text."""
        legend = (
            "The field, row by row: mines next to an open cell, # a covered cell, * an open mine"
        )
        known, boards = [f"Mines: {self.mines}."], written_by_row(inputs, _ROWS)
        return [board_text(known, legend, board, detail) for board in boards]

    def text_changes(self, old: np.ndarray, new: np.ndarray) -> list[str]:
        """Return, for each field of a batch, its text rows that differ in `old` and `new`."""
        both = pairs(written_by_row(old, _ROWS), written_by_row(new, _ROWS))
        return [board_changes(*pair) for pair in both]

    def tiles(self, state: MinesweeperState) -> Int32[Array, "rows columns"]:
        """Return the index of each cell's sprite, which is the visible value of the cell."""
        return self.observe(state).astype(jnp.int32)

    def atlas(self, tile_size: int) -> np.ndarray:
        """Return one sprite for each visible value, uint8 (11, tile_size, tile_size, 3)."""
        return sprites.minesweeper(tile_size)


_SIGNS = {COVERED: "#", MINE: "*"}
_ROWS = Memo(lambda row: " ".join(_SIGNS.get(cell, f"{cell}") for cell in row))


def _neighbouring_mines(mined: UInt8[Array, "rows columns"]) -> UInt8[Array, "rows columns"]:
    """Count the mines among the eight neighbours of each cell."""
    rows, columns = mined.shape
    padded = jnp.pad(mined, 1)
    total = jnp.zeros_like(mined)
    for i in range(3):
        for j in range(3):
            if (i, j) != (1, 1):
                total = total + padded[i : i + rows, j : j + columns]
    return total
