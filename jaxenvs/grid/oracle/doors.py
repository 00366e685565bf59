"""Graph of rooms and doors, from which the fewest doors that the agent must open are computed.

Walls and doors never move. The nodes of the graph are the doors, and the rooms: the connected sets
of cells without walls and doors. To reach a node behind closed doors, the agent must toggle each of
these doors, in addition to its turns and moves.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from .. import tiles
from ..tiles import Kind
from .distances import beside

MOST = 32  # largest number of nodes of a graph, because `Rooms.faced` has one bit per node
ALL = np.uint32(0xFFFFFFFF)  # bit mask of all nodes
NEVER = np.uint8(100)  # number of doors that stands for a node that cannot be reached


class Rooms(NamedTuple):
    """Graph of the rooms and doors of a level. Unused nodes have no neighbours."""

    node: Int32[Array, " cells"]  # node of each cell; -1 for walls
    faced: UInt32[Array, " cells"]  # bit mask of the nodes from which the agent can face a cell
    near: Bool[Array, "nodes nodes"]  # whether the agent can move from one node to the other
    door: Int32[Array, " nodes"]  # index of the door's cell; -1 if the node is no door


def free_cells(first: Any) -> Bool[Array, "height width"]:
    """Return a mask of the cells that are no wall in the state `first`, and the agent's cell.

    An agent can leave a cell with a wall.
    """
    return (first.grid != tiles.WALL).at[first.row, first.column].set(True)


def nodes_of(first: Any) -> tuple[Int32[Array, ""], Bool[Array, ""]]:
    """Return the number of rooms and doors of a level, and whether it has a door.

    first: the first state of the level.
    """
    label = _labels(first)
    count = (label == np.arange(label.size)).sum(dtype=jnp.int32)
    return count, _doors(first).any()


def rooms_of(first: Any, count: int) -> Rooms:
    """Return the graph of a level.

    first: the first state of the level.
    count: number of nodes of the arrays, at most `MOST`. If the level has more nodes, the graph
        has no doors, and the agent can face every cell from every node.
    """
    label, shape = _labels(first), first.grid.shape
    cells = np.arange(label.size, dtype=np.int32)
    names_node = label == cells
    rank = jnp.cumsum(names_node, dtype=jnp.int32) - 1
    node = jnp.where(label >= 0, rank[label], -1)
    (door,) = jnp.nonzero(names_node, size=count, fill_value=-1)
    door = jnp.where((door >= 0) & _doors(first).reshape(-1)[door], door, -1)
    others = jnp.stack(beside(node.reshape(shape), -1)).reshape(4, -1)
    # The node `count` of walls is outside the array, so nothing is written for it.
    one = jnp.where(node >= 0, node, count)
    other = jnp.where(others >= 0, others, count)
    near = jnp.zeros((count, count), jnp.bool_)
    near = near.at[jnp.broadcast_to(one, other.shape), other].set(True, mode="drop")
    # An agent on an edge cell that looks outwards faces its own cell.
    inner = np.zeros(shape, bool)
    inner[1:-1, 1:-1] = True
    own = jnp.where(inner.reshape(-1), -1, node)
    faced = functools.reduce(jnp.bitwise_or, map(_bit, (*others, own)))
    fits = names_node.sum() <= count
    return Rooms(
        jnp.where(fits, node, 0),
        jnp.where(fits, faced, ALL),
        near | ~fits,
        jnp.where(fits, door, -1).astype(jnp.int32),
    )


def _bit(node: Int32[Array, " cells"]) -> UInt32[Array, " cells"]:
    return jnp.where(node >= 0, jnp.uint32(1) << node.astype(jnp.uint32), jnp.uint32(0))


def _doors(first: Any) -> Bool[Array, "height width"]:
    return tiles.is_any(first.grid, Kind.DOOR, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)


def _labels(first: Any) -> Int32[Array, " cells"]:
    """Return for each cell the smallest index of a cell of its node; -1 for walls."""
    is_free = free_cells(first)
    in_room = is_free & ~_doors(first)
    outside = is_free.size
    begin = jnp.where(is_free, np.arange(is_free.size, dtype=np.int32).reshape(is_free.shape), -1)

    def goes_on(carry: tuple[Array, Array]) -> Array:
        return carry[1]

    def body(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = carry
        around = beside(jnp.where(in_room, label, outside), outside)
        least = functools.reduce(jnp.minimum, around)
        after = jnp.where(in_room, jnp.minimum(label, least), label)
        return after, (after != label).any()

    return jax.lax.while_loop(goes_on, body, (begin, jnp.bool_(True)))[0].reshape(-1)


def closed(
    rooms: Rooms, grid: UInt8[Array, "height width"]
) -> tuple[Bool[Array, " nodes"], Bool[Array, " nodes"]]:
    """Return masks of the nodes that are closed doors, locked or not, and locked doors."""
    kind = tiles.kind(grid.reshape(-1)[rooms.door])
    is_locked = (rooms.door >= 0) & (kind == Kind.LOCKED_DOOR)
    return is_locked | ((rooms.door >= 0) & (kind == Kind.CLOSED_DOOR)), is_locked


def apart(
    rooms: Rooms, costs: Bool[Array, " nodes"] | UInt8[Array, " nodes"]
) -> UInt8[Array, "nodes nodes"]:
    """Return the fewest doors that the agent must open from each node to each other node.

    costs: for each node, 1 if the agent must open it, 0 if not, `NEVER` if it cannot be entered; or
        a mask of the doors that the agent must open.

    The first node of a path does not count. The result is `NEVER` if there is no path.
    """
    count = len(rooms.door)
    fewest = jnp.where(rooms.near, costs.astype(jnp.uint8), NEVER)
    fewest = jnp.where(np.eye(count, dtype=bool), jnp.uint8(0), fewest)

    def through(node: Array, fewest: Array) -> Array:
        return jnp.minimum(fewest, fewest[:, node, None] + fewest[node])

    return jax.lax.fori_loop(0, count, through, fewest)


def to_cells(
    rooms: Rooms, apart: UInt8[Array, "*n nodes"], cells: Bool[Array, " cells"]
) -> UInt8[Array, "*n"]:
    """Return the fewest doors until the agent faces one of the cells; `NEVER` if impossible.

    apart: rows of the result of `apart`.
    """
    masks = jnp.where(cells, rooms.faced, jnp.uint32(0))
    bits = jax.lax.reduce(masks, np.uint32(0), jax.lax.bitwise_or, (0,))
    is_there = ((bits >> np.arange(len(rooms.door), dtype=np.uint32)) & 1) != 0
    return jnp.where(is_there, apart, NEVER).min(axis=-1)


def to_any_two(start: UInt8[Array, " nodes"], ends: UInt8[Array, "sets nodes"]) -> Int32[Array, ""]:
    """Return the fewest doors that the agent must open to face two sets of cells.

    start: the row of the agent's node in the result of `apart`.
    ends: for each set of cells, the result of `to_cells` for all nodes; 0 for sets that do not
        count.

    This is the largest number for any two of the sets, or 0 if a set cannot be reached. A door that
    is on both ways counts once: the ways separate at some node.
    """
    ends = ends.astype(jnp.int32)
    fewest = (start.astype(jnp.int32) + ends[:, None] + ends[None]).min(axis=-1)
    return jnp.where(fewest < np.int32(NEVER), fewest, 0).max()
