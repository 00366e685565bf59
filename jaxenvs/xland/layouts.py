"""Level generation of XLand-MiniGrid 0.9.3 (`xminigrid/envs/xland.py`).

A layout fixes the walls, and the cells of the walls where doors can be. Doors replace wall cells,
so the floor cells are the same in every episode. The objects and the agent are put on distinct
random floor cells.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Int32, UInt8

from ..core.platforms import by_platform
from ..core.random import Key, below, distinct, words
from . import tiles
from .state import Level
from .tiles import Kind

LARGEST = 127  # largest size of a grid; a row or a column must fit into int8


class Doors(NamedTuple):
    """Possible cells of one door: `cells` adjacent cells of a wall.

    The first cell is (row, column); the next cells are below or right of it.
    """

    row: int
    column: int
    down: int  # 1 if the cells are in one column, 0 if they are in one row
    cells: int


class Plan(NamedTuple):
    """Walls of a layout on a grid of a certain size, and the cells where doors can be."""

    # Pairs (rows, columns) of indices or slices into the grid; the cells that they select are
    # walls.
    walls: tuple[tuple[slice | int, slice | int], ...]
    doors: tuple[Doors, ...]


class Layout(NamedTuple):
    """Arrangement of rooms: a function from the size of the grid to a `Plan`, and allowed sizes."""

    plan: Callable[[int], Plan]
    smallest: int  # smallest allowed number of cells per side of the grid
    odd: bool = False  # whether the size of the grid must be odd


class Map(NamedTuple):
    """Arrays that describe a layout on a grid of a certain size."""

    # Tile bytes (kind and colour) of walls and floor, without doors, uint8 (size, size).
    grid: np.ndarray
    free: np.ndarray  # row-major indices of the floor cells
    first: np.ndarray  # for each door: row-major index of the first cell where the door can be
    # For each door: difference of the row-major indices of successive cells where it can be.
    step: np.ndarray
    cells: np.ndarray  # for each door: number of cells where the door can be


def _one_room(size: int) -> Plan:
    return Plan((), ())


def _two_rooms(size: int) -> Plan:
    middle = size // 2
    return Plan(((slice(None), middle),), (Doors(1, middle, 1, size - 2),))


def _four_rooms(size: int) -> Plan:
    middle, count = size // 2, size // 2 - 1
    starts = ((middle, 1, 0), (middle, middle + 1, 0), (1, middle, 1), (middle + 1, middle, 1))
    walls = ((slice(None), middle), (middle, slice(None)))
    return Plan(walls, tuple(Doors(*start, count) for start in starts))


def _six_rooms(size: int) -> Plan:
    """Return the plan with three rooms on either side of a corridor."""
    left, right, third = size // 2 - 2, size // 2 + 2, size // 3
    rows = (size // 2 - third, size // 2, size // 2 + third)
    sides = [
        (row, cells) for row in (third, 2 * third) for cells in (slice(left), slice(right, -1))
    ]
    doors = tuple(Doors(row, column, 1, 1) for column in (left, right) for row in rows)
    return Plan(((slice(None), left), (slice(None), right), *sides), doors)


def _nine_rooms(size: int) -> Plan:
    third = size // 3
    lines = (third, 2 * third)
    upright = [Doors(row * third + 1, line, 1, third - 1) for line in lines for row in range(3)]
    level = [Doors(line, col * third + 1, 0, third - 1) for line in lines for col in range(3)]
    walls = [(slice(None), line) for line in lines] + [(line, slice(None)) for line in lines]
    return Plan(tuple(walls), (*upright, *level))


LAYOUTS = {  # name of a layout ("R" and the number of rooms) -> layout
    "R1": Layout(_one_room, 5),
    "R2": Layout(_two_rooms, 5),
    "R4": Layout(_four_rooms, 5, odd=True),  # with an even size, a door could lie in the border
    "R6": Layout(_six_rooms, 9),
    "R9": Layout(_nine_rooms, 7),
}
SIZES = {  # grid sizes of each layout for which ids are registered
    **dict.fromkeys(("R1", "R2", "R4"), (9, 11, 13, 15, 17)),
    "R6": (13, 17, 19),
    "R9": (16, 19, 25),
}


@functools.cache
def drawn(layout: str, size: int) -> Map:
    """Return the arrays of a layout for a grid of `size` by `size` cells."""
    plan = LAYOUTS[layout].plan(size)
    grid = np.full((size, size), tiles.WALL, np.uint8)
    grid[1:-1, 1:-1] = tiles.FLOOR
    for rows, columns in plan.walls:
        grid[rows, columns] = tiles.WALL
    rows, columns, down, count = np.array(plan.doors, np.int32).reshape(-1, 4).T
    free = np.flatnonzero(grid == tiles.FLOOR).astype(np.int32)
    return Map(grid, free, rows * size + columns, np.where(down, size, 1).astype(np.int32), count)


def generate(key: Key, layout: str, size: int, init_tiles: UInt8[ArrayLike, " tiles"]) -> Level:
    """Draw a level: the doors, and distinct floor cells for the objects and the agent.

    init_tiles: tile byte of each object; entries 0 are padding.
    """
    plan = drawn(layout, size)
    doors, things = len(plan.first), np.shape(init_tiles)[0]
    word = words(key, 2 * doors + things + 2)
    at, painted, lies, turn = jnp.split(word, np.cumsum([doors, doors, things + 1]))
    colour = tiles.DOOR_COLOURS[0] + below(painted, len(tiles.DOOR_COLOURS))
    rank = distinct(lies, plan.free.size)
    narrow = np.min_scalar_type(plan.grid.size - 1)  # narrowest dtype that holds every cell index
    free = jnp.asarray(plan.free.astype(narrow))
    door = plan.first + plan.step * below(at, plan.cells)
    index = jnp.concatenate([door.astype(narrow), free[rank[:-1]]])
    tile = jnp.concatenate([tiles.byte(Kind.CLOSED_DOOR, colour), init_tiles])
    index, tile = jax.lax.optimization_barrier((index, tile))
    grid, index = jnp.asarray(plan.grid), index.astype(jnp.int32)
    grid = by_platform(grid, index, tile, cpu=_put_together, default=_put_one_by_one)
    agent = free[rank[-1]].astype(jnp.int32)
    return Level.of(grid, agent // size, agent % size, below(turn[0], 4))


def _put_together(
    grid: UInt8[Array, "size size"], index: Int32[Array, " n"], tile: UInt8[Array, " n"]
) -> UInt8[Array, "size size"]:
    """Write tiles to distinct cells by one scatter, which ignores tiles that are 0."""
    nowhere = grid.size + np.arange(index.shape[0], dtype=np.int32)
    index = jnp.where(tile == tiles.NOTHING, nowhere, index)
    cells = grid.reshape(-1).at[index].set(tile, mode="drop", unique_indices=True)
    return cells.reshape(grid.shape)


def _put_one_by_one(
    grid: UInt8[Array, "size size"], index: Int32[Array, " n"], tile: UInt8[Array, " n"]
) -> UInt8[Array, "size size"]:
    """Write tiles one by one, each with a `jnp.where` over the whole grid.

    XLA fuses these `jnp.where` into one kernel, together with the `jnp.where` by which the
    auto-reset selects the new or the old grid.
    """
    cells = np.arange(grid.size, dtype=np.int32).reshape(grid.shape)
    for number in range(index.shape[0]):
        put = (cells == index[number]) & (tile[number] != tiles.NOTHING)
        grid = jnp.where(put, tile[number], grid)
    return grid
