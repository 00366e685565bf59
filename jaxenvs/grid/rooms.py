"""Grids of equal rooms (MiniGrid 3.2 `core/roomgrid.py`); the module `plan` builds their levels.

Rooms are numbered row by row. The sides of a room are 0 right, 1 down, 2 left, 3 up. An edge is a
pair of neighbouring rooms; the wall between them has at most one door.
"""

import functools
from typing import ClassVar, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from ..core import checks
from ..core.env import Ending
from . import missions, tiles
from .aims import Aim, has
from .env import GridEnv, Verdict
from .state import Action, GridState, Level

RIGHT, DOWN, LEFT, UP = range(4)
Ranges = tuple[tuple[int, int], tuple[int, int]]


class RoomGrid(GridEnv):
    """Base class of levels that consist of rooms.

    The rooms have `room_size` cells per side and are arranged in `num_rows` rows and `num_cols`
    columns. Neighbouring rooms share a wall.
    """

    room_size: int = 7  # number of cells per side of a room, walls included
    num_rows: int = 3  # number of rows of rooms
    num_cols: int = 3  # number of columns of rooms

    min_room_size: ClassVar[int] = 3
    # Allowed (minimum, maximum) of the fields num_rows and num_cols.
    rooms_allowed: ClassVar[Ranges] = ((1, 8), (1, 8))
    steps_per_cell: ClassVar[int]  # the time limit is steps_per_cell * room_size**2

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
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
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return self.steps_per_cell * self.room_size**2

    def room(self, column: int, row: int) -> int:
        """Return the index of the room in this column and row (MiniGrid's `(i, j)`)."""
        return row * self.num_cols + column


class PickUpWorld(RoomGrid):
    """Base class of levels in which the agent must pick up a target.

    The level's task is the tile byte of the target, which encodes its kind and its colour. No other
    object has the same tile byte.
    """

    def aims(self, state: GridState) -> tuple[Aim, ...]:
        """Return the necessary condition of success: to pick up the target."""
        target = state.task.astype(jnp.uint8)
        return (Aim(has(state.grid, target), 1, ~has(state.carried, target)),)

    def ending(self, level: Level) -> Ending:
        """Return a level and an action that ends its episode in success.

        The target is in front of the agent, and the action picks it up.
        """
        return Ending(level.facing(level.task), (Action.PICKUP,))

    def judge(self, before: GridState, after: GridState, action: Array, front: Array) -> Verdict:
        """Return (success, failure): success if the agent picks up the target, never failure."""
        held = after.carried == after.task.astype(jnp.uint8)
        return (action == Action.PICKUP) & held, jnp.zeros((), jnp.bool_)

    def mission_words(self, state: GridState) -> UInt8[Array, " words"]:
        """Return the mission as word ids; it names the colour and the kind of the target."""
        tile = state.task.astype(jnp.uint8)
        colour, kind = missions.colour_word(tile), missions.kind_word(tile)
        return missions.sentence(self.mission_length, "pick up the", colour, kind)


class Geometry(NamedTuple):
    """Positions of the walls, rooms and edges (pairs of neighbouring rooms) of a grid of rooms."""

    walls: np.ndarray  # uint8 (height, width): grid with the walls of all rooms
    # int32 (edges, 2): indices of the two neighbouring rooms that each edge connects.
    rooms: np.ndarray
    # bool (edges,): whether the wall between the two neighbouring rooms of each edge is vertical.
    upright: np.ndarray
    # int32 (edges,): row of the upper or left end of the wall between the two rooms that each edge
    # connects.
    row: np.ndarray
    # int32 (edges,): column of the upper or left end of the wall between an edge's two rooms.
    column: np.ndarray
    # int32 (rooms, 4): for each room and side, index of the edge between the room and its neighbour
    # on this side; -1 if there is no neighbour.
    edge: np.ndarray
    # int32 (rooms, rooms): for each pair of rooms, index of the edge between them; -1 if they
    # are not neighbours.
    edge_between: np.ndarray
    corner: tuple[np.ndarray, np.ndarray]  # row and column of each room's upper left corner


@functools.cache
def geometry(size: int, num_rows: int, num_cols: int) -> Geometry:
    """Compute the positions of walls, rooms and edges for rooms of `size` cells per side."""
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
