"""Grids of equal rooms (MiniGrid 3.2 `core/roomgrid.py`); `plan` builds their levels.

Rooms are numbered row by row. Sides of a room are 0 right, 1 down, 2 left, 3 up. An edge is a pair
of neighbouring rooms; it holds at most one door.
"""

import functools
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from ..core import checks
from ..core.env import Ending
from . import missions, tiles
from .env import GridEnv, Verdict
from .state import Action, GridState, Level

RIGHT, DOWN, LEFT, UP = range(4)
Ranges = tuple[tuple[int, int], tuple[int, int]]


class RoomGrid(GridEnv):
    """Rooms of `room_size` cells a side, in `num_rows` rows and `num_cols` columns; neighbours
    share a wall."""

    room_size: int = 7  # cells on a side, walls included
    num_rows: int = 3  # number of rows of rooms
    num_cols: int = 3  # number of columns of rooms

    min_room_size: ClassVar[int] = 3
    rooms_allowed: ClassVar[Ranges] = ((1, 8), (1, 8))  # (fewest, most) rows, then columns
    steps_per_cell: ClassVar[int]  # time limit divided by room_size**2

    def __post_init__(self) -> None:
        """Check the fields."""
        super().__post_init__()
        owner = type(self).__name__
        checks.integer_field(owner, "room_size", self.room_size, self.min_room_size, 32)
        checks.integer_field(owner, "num_rows", self.num_rows, *self.rooms_allowed[0])
        checks.integer_field(owner, "num_cols", self.num_cols, *self.rooms_allowed[1])
        if max(self.height, self.width) > 127:
            size = f"{self.height} x {self.width} cells"
            raise ValueError(f"{owner}: the grid may have at most 127 cells per side, got {size}")

    @property
    def height(self) -> int:
        """Number of rows of cells, walls included."""
        return (self.room_size - 1) * self.num_rows + 1

    @property
    def width(self) -> int:
        """Number of columns of cells, walls included."""
        return (self.room_size - 1) * self.num_cols + 1

    @property
    def max_steps(self) -> int:
        """MiniGrid's `max_steps` for this level."""
        return self.steps_per_cell * self.room_size**2

    def room(self, column: int, row: int) -> int:
        """Return the index of the room in this column and row, MiniGrid's `(i, j)`."""
        return row * self.num_cols + column


class PickUpWorld(RoomGrid):
    """Rooms with one target to pick up; `task` is its tile, which occurs only once."""

    def ending(self, level: Level) -> Ending:
        """Return a level with the target ahead, and the action that ends it: pick up."""
        return Ending(level.facing(level.task), (Action.PICKUP,))

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return success if the agent carries the target after a pick-up action."""
        held = after.carried == after.task.astype(jnp.uint8)
        return (action == Action.PICKUP) & held, jnp.zeros((), jnp.bool_)

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids, with colour and kind of the target."""
        tile = state.task.astype(jnp.uint8)
        colour, kind = missions.colour_word(tile), missions.kind_word(tile)
        return missions.sentence(self.mission_length, "pick up the", colour, kind)


class Geometry(NamedTuple):
    """Positions of walls, rooms and edges."""

    walls: np.ndarray  # grid with every wall
    rooms: np.ndarray  # the two rooms of each edge, (edges, 2)
    upright: np.ndarray  # whether the edge's wall runs from top to bottom
    row: np.ndarray  # row of the upper or left end of the edge's wall
    column: np.ndarray  # column of the upper or left end of the edge's wall
    edge: np.ndarray  # edge on each side of each room, (rooms, 4); -1 without a neighbour
    edge_between: np.ndarray  # edge between two rooms, (rooms, rooms); -1 if not neighbours
    corner: tuple[np.ndarray, np.ndarray]  # row and column of each room's upper left corner


@functools.cache
def geometry(size: int, num_rows: int, num_cols: int) -> Geometry:
    """Compute the geometry of a grid of rooms."""
    pitch = size - 1
    walls = np.full((pitch * num_rows + 1, pitch * num_cols + 1), tiles.EMPTY, np.uint8)
    walls[::pitch], walls[:, ::pitch] = tiles.WALL, tiles.WALL
    number = np.arange(num_rows * num_cols, dtype=np.int32).reshape(num_rows, num_cols)
    edge = np.full((number.size, 4), -1, np.int32)
    between = np.full((number.size, number.size), -1, np.int32)
    rooms = []
    for (j, i), room in np.ndenumerate(number):
        for side, inside, step in (
            (RIGHT, i + 1 < num_cols, 1),
            (DOWN, j + 1 < num_rows, num_cols),
        ):
            if inside:
                neighbour = room + step
                edge[room, side] = edge[neighbour, side + 2] = len(rooms)
                between[room, neighbour] = between[neighbour, room] = len(rooms)
                rooms.append((room, neighbour))
    pairs = np.array(rooms, np.int32).reshape(-1, 2)
    number = number.ravel().astype(np.int32)
    corner = (number // num_cols * pitch, number % num_cols * pitch)
    upright = pairs[:, 1] == pairs[:, 0] + 1
    if num_cols == 1:
        upright = np.zeros(len(pairs), bool)
    row = corner[0][pairs[:, 0]] + np.where(upright, 0, pitch)
    column = corner[1][pairs[:, 0]] + np.where(upright, pitch, 0)
    row, column = row.astype(np.int32), column.astype(np.int32)
    return Geometry(walls, pairs, upright, row, column, edge, between, corner)
