"""MultiRoom: a chain of rooms with closed doors (MiniGrid 3.2 `multiroom.py`).

A chain is complete if it has the number of rooms of the environment. MiniGrid draws chains one by
one until a chain is complete. Here `CHAINS` chains are drawn in parallel, and the first complete
one becomes the level. If none is complete, the level is rejected and drawn again.
"""

from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ..core.bits import cut, join
from ..core.random import Key, below, words
from . import tiles
from .env import FixedGridEnv, register_level
from .placement import digits, inner_cell, other, put
from .state import Level
from .tiles import Kind

SIZE = 25
# Smallest and largest side of a room, walls included.
# A side has 4 bits in `Room.packed`, so 15 is the largest possible value.
SMALLEST, LARGEST = 4, 15
TRIES = 8  # number of random rooms that are tried as the next room of a chain
WORDS = 2  # number of random uint32 from which one room is drawn
CHAINS = 8  # number of chains drawn in parallel for a level
RIGHT, BELOW, LEFT, ABOVE = range(4)  # indices of the four walls of a room


class Room(NamedTuple):
    """A room, walls included, and the door through which the agent enters it.

    `row` and `column` are the cell of the room's upper left corner.
    """

    row: Int32[Array, "*tries"]
    column: Int32[Array, "*tries"]
    door_row: Int32[Array, "*tries"]
    door_column: Int32[Array, "*tries"]
    height: Int32[Array, "*tries"]
    width: Int32[Array, "*tries"]

    def packed(self) -> Int32[Array, "*tries"]:
        """Pack the six fields into the lower 28 bits of an int32."""
        return join(*zip(reversed(self), reversed(_BITS), strict=True))

    @classmethod
    def unpacked(cls, word: Int32[Array, ""]) -> "Room":
        """Return the room that `packed` encoded in the lower 28 bits of `word`."""
        return cls(*reversed(cut(word, *reversed(_BITS))))

    @property
    def entry(self) -> Int32[Array, ""]:
        """Index of the wall that has the entrance.

        The first room of a chain has no entrance; for it, the index is LEFT.
        """
        wall = jnp.where(self.door_row == self.row, jnp.int32(ABOVE), jnp.int32(BELOW))
        wall = jnp.where(self.door_column == self.column + self.width - 1, RIGHT, wall)
        return jnp.where(self.door_column == self.column, LEFT, wall)

    @property
    def fits(self) -> Bool[Array, "*tries"]:
        """True if the room lies inside the grid.

        As in MiniGrid, the last row of the grid must stay free.
        """
        inside = (self.row >= 0) & (self.row + self.height < SIZE)
        return inside & (self.column >= 0) & (self.column + self.width <= SIZE)

    def clear_of(self, earlier: "Room") -> Bool[Array, "*tries"]:
        """Return whether this room does not overlap `earlier`, a room that was placed before it.

        As in MiniGrid, the test treats this room as one row taller and one column wider than it is.
        """
        beside = self.column + self.width < earlier.column
        beside = beside | (earlier.column + earlier.width <= self.column)
        over = self.row + self.height < earlier.row
        return beside | over | (earlier.row + earlier.height <= self.row)


_BITS = (5, 5, 5, 5, 4, 4)  # number of bits of each field of a `Room` in `Room.packed`
_ROOM_BITS = sum(_BITS)


@register_level("MultiRoom-N2-S4-v0", rooms=2, max_room_size=4)
@register_level("MultiRoom-N4-S5-v0", rooms=6, max_room_size=5)
@register_level("MultiRoom-N4-S5-v1", rooms=4, max_room_size=5)
@register_level("MultiRoom-N6-v0", rooms=6)
class MultiRoom(FixedGridEnv):
    """Walk through a chain of rooms, each entered by a door, to the goal in the last room.

    A door never has the same colour as the previous one. `N4-S5-v0` has six rooms, a bug of
    MiniGrid that is reproduced on purpose; `v1` has four.

    Reward: 1 - 0.9 * steps / max_steps on the goal. Episode ends: on the goal, or after 20 * rooms
    steps.

    Resets: a chain is complete with probability 0.87 (`N2-S4`), 0.51 (`N4-S5-v0`), 0.67 (`v1`) or
    0.22 (`N6`), measured over 100,000 chains. If all chains of a level are incomplete, the level is
    drawn again in a loop. On a CPU, the default reset source is `exact`: its loop ends as soon as
    every environment that is done has a level; it draws no levels for the other environments. On a
    GPU, the default is `stock`, which prepares many levels at a time and uses each of them once.
    `pool` draws from levels that were prepared in advance; its resets have no loop, but levels
    repeat.
    """

    rooms: int = 6  # number of rooms in the chain
    max_room_size: int = 10  # largest number of cells per side of a room, walls included

    bounds: ClassVar[dict[str, tuple[int, int]]] = {
        "rooms": (2, 8),
        "max_room_size": (SMALLEST, LARGEST),
    }
    shape: ClassVar[tuple[int, int]] = (SIZE, SIZE)
    # Maximum number of levels that are drawn per reset. All of them are rejected in 1 of 10**22
    # resets with rooms=8 and max_room_size=15.
    level_budget: ClassVar[int] = 4096
    reset_source: ClassVar[str] = "exact"
    mission: ClassVar[str] = "traverse the rooms to get to the goal"

    @property
    def max_steps(self) -> int:
        """Time limit of an episode, in steps: MiniGrid's `max_steps` for this level."""
        return 20 * self.rooms

    def generate(self, key: Key) -> Level:
        """Draw chains of rooms, take the first complete one, and draw doors, goal and agent."""
        doors, single = self.rooms - 1, 3 + self.rooms - 1
        word = words(key, single + CHAINS * WORDS * (1 + doors * TRIES))
        of_firsts, of_tries = jnp.split(word[single:], [CHAINS * WORDS])
        chains, complete = jax.vmap(self._chain)(
            of_firsts.reshape(CHAINS, WORDS), of_tries.reshape(CHAINS, doors, TRIES, WORDS)
        )
        number = np.arange(CHAINS, dtype=np.int32)
        first = jnp.where(complete, number, CHAINS - 1).min()
        rooms = [Room.unpacked(room) for room in jax.lax.optimization_barrier(chains[first])]
        grid = self._grid(rooms, word[3:single])
        agent, goal = _inside(rooms[0], word[0]), _inside(rooms[-1], word[1])
        grid = put(grid, *goal, tiles.GOAL)
        return Level.of(grid, *agent, below(word[2], 4), accepted=complete.any())

    def _chain(
        self, of_first: UInt32[Array, " words"], of_tries: UInt32[Array, "doors tries words"]
    ) -> tuple[Int32[Array, " rooms"], Bool[Array, ""]]:
        """Draw a chain; return its rooms, packed by `Room.packed`, and whether it is complete.

        `of_first` are random uint32 for the first room. `of_tries` are random uint32 for the
        `TRIES` attempts to place each of the other rooms.
        """
        sizes = self.max_room_size - SMALLEST + 1
        row, column = digits(of_first[0], SIZE - 2, SIZE - 2)
        height, width = digits(of_first[1], sizes, sizes)
        first = Room(row, column, row, column, SMALLEST + height, SMALLEST + width)
        chain, complete = [first.packed()], first.fits
        for word in of_tries:
            found = self._next([Room.unpacked(packed) for packed in chain], word)
            complete = complete & (found >= 0)
            chain.append(found)
        return jnp.stack(chain), complete

    def _next(self, rooms: list[Room], word: UInt32[Array, "tries words"]) -> Int32[Array, ""]:
        """Draw the next room of a chain, and return it packed (see `Room.packed`); -1 if none fits.

        `TRIES` rooms are drawn in parallel. The first room that lies inside the grid and overlaps
        no earlier room is returned. The bits of the result above the packed room hold only the
        order in which rooms are tried; `Room.unpacked` ignores these bits.
        """
        last, sizes = rooms[-1], self.max_room_size - SMALLEST + 1
        wall, height, width = digits(word[:, 0], 3, sizes, sizes)
        # Convert the random number 0, 1 or 2 to one of the three walls without the entrance.
        wall = wall + (wall >= last.entry).astype(jnp.int32)
        height, width = SMALLEST + height, SMALLEST + width
        sideways = (wall == RIGHT) | (wall == LEFT)
        along, shift = digits(
            word[:, 1],
            jnp.where(sideways, last.height, last.width) - 2,
            jnp.where(sideways, height, width) - 2,
        )
        edge_row = jnp.where(wall == BELOW, last.row + last.height - 1, last.row)
        edge_column = jnp.where(wall == RIGHT, last.column + last.width - 1, last.column)
        door_row = jnp.where(sideways, last.row + 1 + along, edge_row)
        door_column = jnp.where(sideways, edge_column, last.column + 1 + along)
        back_row = jnp.where(sideways, 1 + shift, jnp.where(wall == ABOVE, height - 1, 0))
        back_column = jnp.where(sideways, jnp.where(wall == LEFT, width - 1, 0), 1 + shift)
        room = Room(
            *(door_row - back_row, door_column - back_column),
            *(door_row, door_column, height, width),
        )
        valid = room.fits
        for earlier in rooms[:-1]:
            valid = valid & room.clear_of(earlier)
        order = np.arange(TRIES - 1, -1, -1, dtype=np.int32) << _ROOM_BITS
        return jnp.where(valid, order | room.packed(), -1).max()

    def _grid(self, rooms: list[Room], of_colours: UInt32[Array, " doors"]) -> Array:
        """Return the grid with the walls and the doors of all rooms."""
        # For each row of the grid, a bit mask of the columns that have a wall.
        lines = jnp.zeros(SIZE, jnp.uint32)
        rows = np.arange(SIZE, dtype=np.int32)
        for room in rooms:
            near, far = room.column, room.column + room.width - 1
            ends = _bit(near) | _bit(far)
            whole = ends | (_bit(far) - _bit(near))
            edge = (rows == room.row) | (rows == room.row + room.height - 1)
            crosses = (rows >= room.row) & (rows < room.row + room.height)
            lines = lines | jnp.where(crosses, jnp.where(edge, whole, ends), jnp.uint32(0))
        is_wall = (lines[:, None] >> np.arange(SIZE, dtype=np.uint32)) & jnp.uint32(1)
        grid = jnp.where(is_wall != 0, jnp.uint8(tiles.WALL), jnp.uint8(tiles.EMPTY))
        colour = jnp.int32(0)
        for number, room in enumerate(rooms[1:]):
            word = of_colours[number]
            colour = other(word, 6, colour) if number else below(word, 6)
            door = tiles.tile(Kind.CLOSED_DOOR, colour)
            grid = put(grid, room.door_row, room.door_column, door)
        return grid


def _bit(place: Int32[Array, ""]) -> UInt32[Array, ""]:
    return jnp.uint32(1) << place.astype(jnp.uint32)


def _inside(room: Room, word: UInt32[Array, ""]) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Return (row, column) of a uniformly drawn cell inside the walls of a room."""
    row, column = inner_cell(below(word, (room.height - 2) * (room.width - 2)), room.width - 2)
    return room.row + row, room.column + column
