"""Tests that `jaxenvs.grid.oracle.doors` finds the fewest doors to open, by brute force."""

import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.grid import tiles
from jaxenvs.grid.oracle import bounds, doors
from jaxenvs.grid.tiles import Kind

SIZE = 8
PLACED = (tiles.EMPTY, tiles.WALL, Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR, Kind.BALL)
CLOSED = (Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)


class First(NamedTuple):
    """The fields of the first state of a level that the graph depends on."""

    grid: jax.Array
    row: jax.Array
    column: jax.Array


def first_state(grid, row, column):
    return First(jnp.asarray(grid), jnp.int32(row), jnp.int32(column))


def drawn(rng):
    """Return a random map with walls on its edge, and its free cells as (row, column)."""
    grid = np.full((SIZE, SIZE), tiles.WALL, np.uint8)
    inner = rng.choice(PLACED, (SIZE - 2, SIZE - 2), p=(0.41, 0.35, 0.03, 0.12, 0.04, 0.05))
    grid[1:-1, 1:-1] = inner
    return grid, [tuple(cell) for cell in np.argwhere(grid != tiles.WALL).tolist()]


def beside(row, column):
    return [(row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)]


def reached(grid, start, opened):
    """Return the cells that the agent can enter from `start` if it opens the doors `opened`."""
    found, todo = {start}, [start]
    while todo:
        for cell in beside(*todo.pop()):
            is_closed = grid[cell] in CLOSED and cell not in opened
            if grid[cell] != tiles.WALL and not is_closed and cell not in found:
                found.add(cell)
                todo.append(cell)
    return found


def fewest(grid, start, *targets):
    """Return the fewest doors that must be opened to face all `targets`; None if impossible."""
    shut = [
        tuple(cell) for cell in np.argwhere(np.isin(grid, CLOSED)).tolist() if tuple(cell) != start
    ]
    for count in range(len(shut) + 1):
        for opened in itertools.combinations(shut, count):
            found = reached(grid, start, opened)
            if all(found & set(beside(*target)) for target in targets):
                return count
    return None


@jax.jit
def answers(first, targets):
    """Return the fewest doors to face each target, to face any two, and the number of nodes."""
    rooms = doors.rooms_of(first, doors.MOST)
    is_closed, _ = doors.closed(rooms, first.grid)
    apart = doors.apart(rooms, is_closed)
    start = apart[rooms.node[first.row * SIZE + first.column]]
    cells = targets[:, None] == np.arange(SIZE * SIZE)
    ends = jnp.stack([doors.to_cells(rooms, apart, mask) for mask in cells])
    direct = jnp.stack([doors.to_cells(rooms, start, mask) for mask in cells])
    return direct, doors.to_any_two(start, ends), doors.nodes_of(first)[0]


def test_the_fewest_doors_equal_brute_force():
    rng, compared, shared = np.random.default_rng(0), 0, 0
    for _ in range(600):
        grid, free = drawn(rng)
        if len(free) < 3 or np.isin(grid, CLOSED).sum() > 8:
            continue
        start, *targets = (free[i] for i in rng.choice(len(free), 3, replace=False))
        first = first_state(grid, *start)
        indices = jnp.array([row * SIZE + column for row, column in targets])
        direct, both, nodes = jax.device_get(answers(first, indices))
        if nodes > doors.MOST:
            continue
        each = [fewest(grid, start, target) for target in targets]
        assert [doors.NEVER if one is None else one for one in each] == direct.tolist()
        if None not in each:
            exact = fewest(grid, start, *targets)
            assert both == exact
            compared += 1
            shared += max(each) < exact < sum(each)
    print(f"{compared} maps; on {shared} of them some doors, but not all, are on both ways")
    assert compared > 30 and shared > 0


@pytest.mark.parametrize("count", [16, 17])
def test_a_map_with_many_rooms_has_bounds_without_doors(count):
    """The graph has at most 32 nodes; here `count` rooms and `count` - 1 doors alternate."""
    grid = np.full((3, 2 * count + 1), tiles.WALL, np.uint8)
    grid[1, 1::2], grid[1, 2:-1:2] = tiles.EMPTY, Kind.CLOSED_DOOR
    first = jax.tree.map(lambda leaf: leaf[None], first_state(grid, 1, 1))
    for shared in (False, True):
        assert bounds.sizes_of(first, shared).rooms == (32 if count == 16 else 0)


def test_a_graph_without_room_for_all_nodes_has_no_doors():
    """A door is left out rather than counted at a wrong place."""
    grid = np.full((3, 9), tiles.WALL, np.uint8)
    grid[1, 1:8] = tiles.EMPTY
    grid[1, 2:7:2] = Kind.CLOSED_DOOR, Kind.LOCKED_DOOR, Kind.CLOSED_DOOR
    first = first_state(grid, 1, 7)
    for count, expected in ((7, 2), (6, 0)):
        rooms = doors.rooms_of(first, count)
        is_closed, is_locked = doors.closed(rooms, first.grid)
        apart = doors.apart(rooms, is_closed)
        target = jnp.arange(27) == 9 + 3  # the cell between the first two doors
        fewest = doors.to_cells(rooms, apart[rooms.node[9 + 7]], target)
        assert fewest == expected
        assert is_locked.any() == (expected > 0)
