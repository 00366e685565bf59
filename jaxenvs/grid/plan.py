"""Construction of levels that consist of rooms.

MiniGrid 3.2 (`core/roomgrid.py`) places objects by rejection sampling. A `Plan` draws only among
the allowed cells, which gives the same distributions without a loop. If an object has no allowed
cell, the level is rejected.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.carries import varying_like
from ..core.random import Key, below, choose, distinct, hashed
from . import tiles
from .placement import item, lines, other, put
from .rooms import RoomGrid, geometry
from .state import Level
from .tiles import Colour, Kind

KINDS = (Kind.KEY, Kind.BALL, Kind.BOX)  # kinds of objects that can be drawn at random
NUM_COLOURS = len(Colour)
STRIDE = 4  # number of iterations of the reachability search between two tests for convergence
# Cost, in `connect_all`, of a pair of neighbouring rooms whose wall must not get a door.
NEVER = np.uint32(0xFFFFFFFF)


class Thing(NamedTuple):
    """Tile and cell of an object or a door: scalars, or arrays with one entry per object."""

    tile: UInt8[Array, "*things"]
    row: Int32[Array, "*things"]
    column: Int32[Array, "*things"]


class Plan:
    """A level under construction, which exists only while JAX traces `generate`.

    Methods have the names of MiniGrid's `RoomGrid`, and sample from the same distributions. Until
    `place_agent` is called, the agent is assumed to be in the centre of the middle room.

    An edge is a pair of neighbouring rooms; the wall between them can have one door.
    """

    def __init__(self, env: RoomGrid, key: Key) -> None:
        """Create the walls of all rooms, without doors.

        Draws for each pair of neighbouring rooms the position that a door between them would have.
        """
        self.env, self._key, self._counter = env, key, 0
        self.num_rooms = env.num_rows * env.num_cols
        self._geometry = where = geometry(env.room_size, env.num_rows, env.num_cols)
        self.grid: Array = jnp.asarray(where.walls)
        places = 1 + below(self.words(len(where.rooms)), env.room_size - 2)
        self.door_rows = where.row + jnp.where(where.upright, places, 0)
        self.door_columns = where.column + jnp.where(where.upright, 0, places)
        # For each edge (pair of neighbouring rooms): tile of the door between the rooms, or 0.
        self.doors: Array = jnp.zeros(len(where.rooms), jnp.uint8)
        # For each edge: whether a door or an opening joins the two rooms.
        self.joined: Array = jnp.zeros(len(where.rooms), jnp.bool_)
        # For each room: whether the last door that `add_door` gave this room is locked.
        self.locked: Array = jnp.zeros(self.num_rooms, jnp.bool_)
        self.middle = env.room(env.num_cols // 2, env.num_rows // 2)
        half = env.room_size // 2
        self.row: Array = jnp.int32((env.num_rows // 2) * (env.room_size - 1) + half)
        self.column: Array = jnp.int32((env.num_cols // 2) * (env.room_size - 1) + half)
        self.direction: Array = jnp.int32(0)
        self.objects: list[Thing] = []  # objects that have been placed in rooms
        self.accepted: Array = jnp.ones((), jnp.bool_)

    # Methods that return random values.

    def words(self, count: int) -> UInt32[Array, " {count}"]:
        """Return `count` random uint32; no two calls return the same values."""
        start, self._counter = self._counter, self._counter + count
        return hashed(self._key, jnp.arange(start, start + count, dtype=jnp.uint32))

    def below(self, bound: ArrayLike) -> Int32[Array, ""]:
        """Return a uniform integer in [0, bound)."""
        return below(self.words(1)[0], bound)

    def coin(self) -> Bool[Array, ""]:
        """Return True with probability 1/2."""
        return self.below(2) == 0

    def pick(self, allowed: Bool[Array, "*shape"]) -> Int32[Array, ""]:
        """Return the flat index of a uniformly drawn True entry of the mask `allowed`.

        Rejects the level if all entries are False.
        """
        self.accepted = self.accepted & allowed.any()
        return choose(self.words(allowed.size), allowed.reshape(-1))

    def pick_each(self, allowed: Bool[Array, "rows size"]) -> Int32[Array, " rows"]:
        """Return the index of a uniformly drawn True entry of each row; 0 for a row without one."""
        return jax.vmap(choose)(self.words(allowed.size).reshape(allowed.shape), allowed)

    def colour(self) -> Int32[Array, ""]:
        """Return a uniformly drawn colour."""
        return self.below(NUM_COLOURS)

    def colours(self, count: int) -> Int32[Array, " {count}"]:
        """Return `count` distinct colours in random order."""
        return self.sample(NUM_COLOURS, count)

    def sample(self, bound: int, count: int) -> Int32[Array, " {count}"]:
        """Return `count` distinct integers in [0, bound) in random order."""
        return distinct(self.words(count), bound)

    # Methods that change walls and doors.

    def put(
        self, row: ArrayLike, column: ArrayLike, tile: ArrayLike, present: ArrayLike = True
    ) -> None:
        """Write one or several tiles; where `present` is False, keep the old tile."""
        # Where `present` is False, use a row outside the grid: JAX drops a write to this row.
        row = jnp.where(present, jnp.asarray(row, jnp.int32), self.env.height)
        if row.ndim == 0:
            self.grid = put(self.grid, row, column, tile)
        else:
            self.grid = self.grid.at[row, column].set(jnp.asarray(tile, jnp.uint8), mode="drop")

    def add_door(
        self,
        room: ArrayLike,
        side: ArrayLike | None = None,
        colour: ArrayLike | None = None,
        locked: ArrayLike | None = None,
        *,
        present: ArrayLike = True,
    ) -> Thing:
        """Add a door to a wall of the room and return it.

        Arguments that are None are drawn at random; `locked` is then True with probability 1/2. If
        `present` is False, the door is drawn and returned, but not added to the level.
        """
        edges = jnp.asarray(self._geometry.edge)[room]
        if side is None:
            side = self.pick((edges >= 0) & ~self.joined[edges])
        if colour is None:
            colour = self.colour()
        if locked is None:
            locked = self.coin()
        edge = edges[side]
        kind = jnp.where(jnp.asarray(locked), Kind.LOCKED_DOOR, Kind.CLOSED_DOOR)
        tile = tiles.tile(kind, colour)
        door = Thing(tile, self.door_rows[edge], self.door_columns[edge])
        self.put(door.row, door.column, tile, present)
        here = present & (np.arange(len(self.joined), dtype=np.int32) == edge)
        self.joined = self.joined | here
        self.doors = jnp.where(here, tile, self.doors)
        there = present & (np.arange(self.num_rooms, dtype=np.int32) == jnp.asarray(room))
        self.locked = jnp.where(there, jnp.asarray(locked, jnp.bool_), self.locked)
        return door

    def remove_wall(self, room: int, side: int) -> None:
        """Remove the wall between two rooms; the two end cells of the wall remain."""
        edge = self._geometry.edge[room, side]
        along = np.arange(1, self.env.room_size - 1, dtype=np.int32)
        upright = self._geometry.upright[edge]
        row = self._geometry.row[edge] + (along if upright else 0 * along)
        column = self._geometry.column[edge] + (0 * along if upright else along)
        self.put(row, column, tiles.EMPTY)
        self.joined = self.joined | (np.arange(len(self.joined), dtype=np.int32) == edge)

    def connect_all(self, avoid: ArrayLike | None = None) -> None:
        """Add unlocked doors to random edges until all rooms are connected.

        An edge is a pair of neighbouring rooms. MiniGrid adds doors one by one, in random order.
        Here doors with the same distribution are drawn without a loop. Each edge gets a random
        cost. An edge gets a door if its cost is at most a threshold: the smallest threshold that
        connects all rooms. No new door has the colour `avoid`; None or 6 allows every colour.
        """
        a, b = self._geometry.rooms.T
        count = len(a)
        allowed = ~self.joined & ~self.locked[a] & ~self.locked[b]
        word = jnp.clip(self.words(count), jnp.uint32(1), jnp.uint32(NEVER - 1))
        cost = jnp.where(self.joined, jnp.uint32(0), jnp.where(allowed, word, NEVER))
        # Compute for each pair of rooms the smallest threshold that connects them, by the
        # Floyd-Warshall algorithm: the minimum, over all paths between the two rooms, of the
        # largest edge cost on the path.
        apart = jnp.append(cost, NEVER)[self._geometry.edge_between]
        apart = jnp.where(np.eye(self.num_rooms, dtype=bool), jnp.uint32(0), apart)
        for via in range(self.num_rooms):
            detour = jnp.maximum(apart[:, via, None], apart[None, via, :])
            apart = jnp.minimum(apart, detour)
        enough = apart[0].max()
        self.accepted = self.accepted & (enough < NEVER)
        new = allowed & (cost <= enough)
        colours = self.words(count)
        painted = below(colours, NUM_COLOURS)
        if avoid is not None:
            without = other(colours, NUM_COLOURS, avoid)
            painted = jnp.where(jnp.asarray(avoid) < NUM_COLOURS, without, painted)
        tile = tiles.tile(Kind.CLOSED_DOOR, painted)
        self.put(self.door_rows, self.door_columns, tile, new)
        self.doors = jnp.where(new, tile, self.doors)
        self.joined = self.joined | new

    def open_all_doors(self) -> None:
        """Open every door, also the locked ones."""
        kind = tiles.kind(self.grid)
        shut = (kind == Kind.CLOSED_DOOR) | (kind == Kind.LOCKED_DOOR)
        opened = (self.grid & jnp.uint8(0xF0)) | jnp.uint8(Kind.DOOR)
        self.grid = jnp.where(shut, opened, self.grid)
        self.doors = jnp.where(
            self.doors == 0, self.doors, (self.doors & jnp.uint8(0xF0)) | jnp.uint8(Kind.DOOR)
        )

    # Methods that place objects and the agent.

    def place(self, room: ArrayLike, tile: ArrayLike, *, present: ArrayLike = True) -> Thing:
        """Place an object on a free cell of the room and return it.

        The cell is at least two steps from the agent. If the room has no cell like this, the level
        is rejected. If `present` is False, the cell is drawn, but the object is not placed and has
        tile 0.
        """
        cell = self._place(self.words(self.env.room_size**2), self.grid, room)
        self.accepted = self.accepted & cell.found
        self.put(cell.row, cell.column, tile, present)
        tile = jnp.where(present, jnp.asarray(tile, jnp.uint8), jnp.uint8(0))
        thing = Thing(tile, cell.row, cell.column)
        self.objects.append(thing)
        return thing

    def add_object(
        self, room: ArrayLike, kind: ArrayLike | None = None, colour: ArrayLike | None = None
    ) -> Thing:
        """Place a key, a ball or a box in the room; kind and colour are drawn if they are None."""
        if kind is None:
            kind = KINDS[0] + self.below(len(KINDS))
        return self.place(room, tiles.tile(kind, self.colour() if colour is None else colour))

    def add_distractors(
        self, count: int, rooms: ArrayLike | None = None, *, unique: bool = True
    ) -> Thing:
        """Place `count` random keys, balls and boxes.

        rooms: one room for all objects, one room for each object, or None to draw a room for each
            object.
        unique: whether no two objects of the level may have the same kind and colour.
        """
        room_words, looks_words = self.words(count), self.words(count * 18).reshape(count, 18)
        if rooms is None:
            rooms = below(room_words, self.num_rooms)
        rooms = jnp.broadcast_to(jnp.asarray(rooms, jnp.int32), (count,))
        # Each iteration of the scan draws the `cells` random numbers that it needs. This saves the
        # memory of an array with all `count * cells` numbers.
        start, cells = self._counter, self.env.room_size**2
        self._counter += count * cells

        def add(carry: tuple, xs: tuple) -> tuple[tuple, Thing]:
            grid, used, accepted = carry
            number, room, words = xs
            look = choose(words, ~used)
            if unique:
                accepted = accepted & ~used.all()
                used = used | (np.arange(18, dtype=np.int32) == look)
            tile = item(look)
            counter = start + number * cells + np.arange(cells, dtype=np.int32)
            cell = self._place(hashed(self._key, counter), grid, room)
            grid = grid.at[cell.row, cell.column].set(tile, mode="promise_in_bounds")
            carry = (grid, used, accepted & cell.found)
            return carry, Thing(tile, cell.row, cell.column)

        used = self._looks() if unique else jnp.zeros(18, jnp.bool_)
        carry = (self.grid, used, self.accepted)
        carry = jax.tree.map(lambda leaf: varying_like(self._key, leaf), carry)
        numbers = jnp.arange(count, dtype=jnp.int32)
        carry, things = jax.lax.scan(add, carry, (numbers, rooms, looks_words))
        self.grid, _, self.accepted = carry
        self.objects.append(things)
        return things

    def _looks(self) -> Bool[Array, "18"]:
        """Mask of the 18 (kind, colour) pairs that objects of the level already have."""
        used = jnp.zeros(18, jnp.bool_)
        for thing in self.objects:
            kind, colour = (x.astype(jnp.int32) for x in (tiles.kind(thing.tile), thing.tile >> 4))
            look = (kind - KINDS[0]) * NUM_COLOURS + colour
            used = used | (np.arange(18, dtype=np.int32) == look[..., None]).reshape(-1, 18).any(
                axis=0
            )
        return used

    def _place(self, words: UInt32[Array, " cells"], grid: Array, room: ArrayLike) -> "_Cell":
        """Draw a free cell of the room, at least two steps from the agent.

        `words` has one random uint32 for each cell of a room, walls included.
        """
        size = self.env.room_size
        row, column = (x[room] for x in map(jnp.asarray, self._geometry.corner))
        inside = jax.lax.dynamic_slice(grid, (row, column), (size, size))
        rows, columns = lines(size, size)
        far = abs(rows + row - self.row) + abs(columns + column - self.column) >= 2
        allowed = (inside == tiles.EMPTY) & far
        cell = choose(words, allowed.reshape(-1))
        return _Cell(row + cell // size, column + cell % size, allowed.any())

    def place_agent(
        self, room: ArrayLike | None = None, *, avoid_room: ArrayLike | None = None
    ) -> None:
        """Place the agent on a free cell of a room, with a free cell or a wall in front of it.

        room: index of the room; None draws a random room.
        avoid_room: index of a room that is not drawn; None: every room can be drawn.
        """
        if room is None and avoid_room is not None:
            room = self.pick(jnp.arange(self.num_rooms, dtype=np.int32) != avoid_room)
        elif room is None:
            room = self.below(self.num_rooms)
        size = self.env.room_size
        row, column = (x[room] for x in map(jnp.asarray, self._geometry.corner))
        wide = jnp.pad(self.grid, 1, constant_values=tiles.WALL)
        around = jax.lax.dynamic_slice(wide, (row, column), (size + 2, size + 2))
        fine = (around == tiles.EMPTY) | (around == tiles.WALL)
        # One mask per direction (right, down, left, up): the cells where an agent with this
        # direction has a free cell or a wall ahead.
        ahead = jnp.stack([fine[1:-1, 2:], fine[2:, 1:-1], fine[1:-1, :-2], fine[:-2, 1:-1]])
        pose = self.pick(ahead & (around[1:-1, 1:-1] == tiles.EMPTY))
        self.direction, cell = pose // size**2, pose % size**2
        self.row, self.column = row + cell // size, column + cell % size

    # Methods that query the level.

    def all_objects(self) -> Thing:
        """Return all objects, then the door of each edge (pair of rooms); tile 0 means no door."""
        doors = Thing(self.doors, jnp.asarray(self.door_rows), jnp.asarray(self.door_columns))
        parts = [*self.objects, doors]
        return Thing(
            *(
                jnp.concatenate([jnp.atleast_1d(x) for x in part])
                for part in zip(*parts, strict=True)
            )
        )

    @property
    def has_neighbour(self) -> Bool[Array, "rooms 4"]:
        """Mask of the sides on which each room has a neighbouring room."""
        return jnp.asarray(self._geometry.edge >= 0)

    def inside(self, room: ArrayLike, things: Thing) -> Bool[Array, "*things"]:
        """Return a mask of the objects in the room or in its walls.

        All entries are False if `room` is -1, which stands for no room.
        """
        row, column = (jnp.asarray(x)[room] for x in self._geometry.corner)
        rows, columns = things.row - row, things.column - column
        pitch = self.env.room_size - 1
        within = (rows >= 0) & (rows <= pitch) & (columns >= 0) & (columns <= pitch)
        return within & (jnp.asarray(room) >= 0)

    def all_reachable(self) -> Bool[Array, ""]:
        """Return whether the agent can walk next to every object and door without moving an object.

        Every door counts as passable, even if it is locked.
        """
        kind = tiles.kind(self.grid)
        door = (kind == Kind.DOOR) | (kind == Kind.CLOSED_DOOR) | (kind == Kind.LOCKED_DOOR)
        free = _bits((kind == Kind.EMPTY) | door)
        thing = _bits((kind != Kind.EMPTY) & (kind != Kind.WALL))
        rows, columns = lines(*self.grid.shape)
        start = _bits((rows == self.row) & (columns == self.column))

        def step(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            further = carry[0]
            for _ in range(STRIDE):
                further = further | (_adjacent(further) & free)
            return further, (further != carry[0]).any()

        reached = jax.lax.while_loop(lambda carry: carry[1], step, (start, (start != 0).any()))[0]
        return ((thing & ~(reached | _adjacent(reached))) == 0).all()

    def level(self, **more: Any) -> Level:
        """Return the finished level; `more` are additional fields of `Level`, such as `task`."""
        return Level.of(self.grid, self.row, self.column, self.direction, **more)


class _Cell(NamedTuple):
    row: Array
    column: Array
    found: Array


def _bits(cells: Bool[Array, "height width"]) -> UInt32[Array, "height words"]:
    """Pack each row of cells into uint32 words; the first cell of a word is its lowest bit."""
    height, width = cells.shape
    words = -(-width // 32)
    wide = jnp.pad(cells, ((0, 0), (0, words * 32 - width))).reshape(height, words, 32)
    weights = np.left_shift(np.uint32(1), np.arange(32, dtype=np.uint32))
    return jnp.where(wide, weights, np.uint32(0)).sum(axis=-1, dtype=jnp.uint32)


def _adjacent(bits: UInt32[Array, "height words"]) -> UInt32[Array, "height words"]:
    """Return the packed mask of the neighbours of the cells in the packed mask `bits`.

    `_bits` packs the masks.
    """
    tall = jnp.pad(bits, ((1, 1), (0, 0)))
    left, right = bits << 1, bits >> 1
    if bits.shape[1] > 1:  # shift the bits at the ends of a word into the neighbouring words
        wide = jnp.pad(bits, ((0, 0), (1, 1)))
        left, right = left | (wide[:, :-2] >> 31), right | (wide[:, 2:] << 31)
    return tall[2:] | tall[:-2] | left | right
