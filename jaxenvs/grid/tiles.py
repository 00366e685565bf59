"""Tile bytes: a cell's kind in the lower four bits, its colour in the three bits above.

Kinds, colours and door states have the numbers of MiniGrid 3.2 (`minigrid/core/constants.py`). A
tile byte has no field for the state of a door, so closed and locked doors are separate kinds. A
grey box with a key inside is a separate kind, too; observations show it as a grey box.
"""

import functools
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, UInt8


class Kind(IntEnum):
    """Kind of object in a cell, with MiniGrid's numbers up to `AGENT`."""

    UNSEEN = 0
    EMPTY = 1
    WALL = 2
    FLOOR = 3
    DOOR = 4  # an open door
    KEY = 5
    BALL = 6
    BOX = 7
    GOAL = 8
    LAVA = 9
    AGENT = 10  # the agent; occurs only in the observation `full`
    CLOSED_DOOR = 11
    LOCKED_DOOR = 12
    KEY_BOX = 13  # a grey box; the byte's colour is the colour of the key inside


class Colour(IntEnum):
    """Colours, with MiniGrid's numbers."""

    RED = 0
    GREEN = 1
    BLUE = 2
    PURPLE = 3
    YELLOW = 4
    GREY = 5


NUM_CODES = 128
EMPTY, WALL, GOAL, LAVA = 0x01, 0x52, 0x18, 0x09  # tile bytes of kinds that have only one colour
# Names of tiles whose name does not include a colour.
_NAMES = {EMPTY: "", GOAL: "goal", LAVA: "lava", WALL: "wall"}
_DOOR_STATES = {Kind.DOOR: "open ", Kind.CLOSED_DOOR: "closed ", Kind.LOCKED_DOOR: "locked "}


def tile(kind: ArrayLike, colour: ArrayLike) -> UInt8[Array, "..."]:
    """Return the tile byte of a kind and a colour."""
    kind, colour = jnp.asarray(kind, jnp.uint8), jnp.asarray(colour, jnp.uint8)
    return kind | (colour << jnp.uint8(4))


def kind(code: UInt8[Array, "..."]) -> UInt8[Array, "..."]:
    """Return the kind of a tile byte."""
    return code & jnp.uint8(15)


def colour(code: UInt8[Array, "..."]) -> UInt8[Array, "..."]:
    """Return the colour of a tile byte."""
    return code >> jnp.uint8(4)


def is_any(code: UInt8[Array, "..."], *kinds: Kind) -> Bool[Array, "..."]:
    """Return a mask of the tiles of the kinds `kinds`, by a single bit test for all kinds."""
    table = jnp.uint32(sum(1 << k for k in kinds))
    return ((table >> kind(code).astype(jnp.uint32)) & jnp.uint32(1)).astype(jnp.bool_)


def is_walkable(code: UInt8[Array, "..."]) -> Bool[Array, "..."]:
    """Return whether the agent can enter the cell: empty, floor, goal, lava or an open door."""
    return is_any(code, Kind.EMPTY, Kind.FLOOR, Kind.GOAL, Kind.LAVA, Kind.DOOR)


def is_portable(code: UInt8[Array, "..."]) -> Bool[Array, "..."]:
    """Return whether the agent can pick the object up: a key, a ball or a box."""
    return is_any(code, Kind.KEY, Kind.BALL, Kind.BOX, Kind.KEY_BOX)


def is_opaque(code: UInt8[Array, "..."]) -> Bool[Array, "..."]:
    """Return whether the cell blocks sight: a wall, a closed or a locked door."""
    return is_any(code, Kind.WALL, Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)


# `jit` caches the trace, so JAX traces `encode` once per shape.
@functools.partial(jax.jit, inline=True)
def encode(code: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells 3"]:
    """Convert tile bytes to MiniGrid's triples (object, colour, door state)."""
    thing, painted = kind(code).astype(jnp.uint32), colour(code).astype(jnp.uint32)
    door = thing > Kind.AGENT
    state = jnp.where(door, thing - Kind.AGENT, 0)
    triple = jnp.where(door, jnp.uint32(Kind.DOOR), thing) | (painted << 8) | (state << 16)
    triple = jnp.where(thing == Kind.KEY_BOX, jnp.uint32(Kind.BOX | Colour.GREY << 8), triple)
    # On a CPU, extracting three bytes from one uint32 is cheaper than stacking three arrays.
    return (triple[..., None] >> np.array([0, 8, 16], np.uint32)).astype(jnp.uint8)


def decode(image: np.ndarray) -> np.ndarray:
    """Convert MiniGrid's triples (NumPy, last axis 3) to tile bytes; the inverse of `encode`.

    Triples lack the contents of boxes, so every box becomes a tile of kind `BOX`.
    """
    thing, colour_, state = (np.asarray(image)[..., i].astype(np.uint8) for i in range(3))
    shut_door = (thing == Kind.DOOR) & (state > 0)
    return np.where(shut_door, Kind.AGENT + state, thing).astype(np.uint8) | (colour_ << 4)


def shown_colour(code: int) -> Colour:
    """Return the visible colour of a tile byte.

    A box with a key is always grey, although its tile byte has the colour of the key.
    """
    return Colour.GREY if code & 15 == Kind.KEY_BOX else Colour(code >> 4)


def name(code: int) -> str:
    """Return the name of a visible tile, such as `locked red door`.

    The name of an empty or unseen cell is "".
    """
    kind = Kind(code & 15)
    if code in _NAMES or kind == Kind.UNSEEN:
        return _NAMES.get(code, "")
    noun = "door" if kind in _DOOR_STATES else "box" if kind == Kind.KEY_BOX else kind.name.lower()
    return f"{_DOOR_STATES.get(kind, '')}{shown_colour(code).name.lower()} {noun}"
