"""Tile bytes: the low four bits are the kind of the object in a cell, the high four its colour.

Kinds and colours have the values of XLand-MiniGrid 0.9.3 (`xminigrid/core/constants.py`). Actions
depend only on the kind of a tile, except that a key opens only locked doors of its colour. Rules
and goals compare whole bytes.
"""

import functools
from enum import IntEnum

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, UInt8


class Kind(IntEnum):
    """Kind of object in a cell."""

    NOTHING = 0  # cell outside the grid, empty pocket, or padding of a ruleset
    FLOOR = 1
    WALL = 2
    BALL = 3
    SQUARE = 4
    PYRAMID = 5
    GOAL = 6
    KEY = 7
    LOCKED_DOOR = 8
    CLOSED_DOOR = 9
    OPEN_DOOR = 10
    HEX = 11
    STAR = 12


class Colour(IntEnum):
    """Colours of tiles. In generated levels floors are black and walls are grey."""

    NONE = 0
    RED = 1
    GREEN = 2
    BLUE = 3
    PURPLE = 4
    YELLOW = 5
    GREY = 6
    BLACK = 7
    ORANGE = 8
    WHITE = 9
    BROWN = 10
    PINK = 11


NOTHING, FLOOR, WALL = 0x00, 0x71, 0x62
# Kinds of objects that the agent can carry.
THINGS = (Kind.BALL, Kind.SQUARE, Kind.PYRAMID, Kind.KEY, Kind.HEX, Kind.STAR)
WALKABLE = (Kind.FLOOR, Kind.GOAL, Kind.OPEN_DOOR)
OPAQUE = (Kind.WALL, Kind.LOCKED_DOOR, Kind.CLOSED_DOOR)
KIND_NAMES = {kind: kind.name.lower().replace("_", " ") for kind in Kind} | {Kind.GOAL: "goal tile"}
DOOR_STATES = {Kind.LOCKED_DOOR: "locked", Kind.CLOSED_DOOR: "closed", Kind.OPEN_DOOR: "open"}
DOOR_COLOURS = tuple(Colour)[1:7]  # colours of the doors between rooms


def byte(kind: ArrayLike, colour: ArrayLike) -> UInt8[Array, "..."]:
    """Return the tile bytes of kinds and colours."""
    kind, colour = jnp.asarray(kind, jnp.uint8), jnp.asarray(colour, jnp.uint8)
    return kind | (colour << jnp.uint8(4))


def is_any(code: Array, kinds: tuple[Kind, ...]) -> Bool[Array, "..."]:
    """Return a mask of the tile bytes whose kind is in `kinds`, by a single bit test."""
    table = jnp.uint32(sum(1 << k for k in kinds))
    return ((table >> (code.astype(jnp.uint32) & jnp.uint32(15))) & jnp.uint32(1)) != 0


@functools.partial(jax.jit, inline=True)  # `jit` caches the trace: one trace of `encode` per shape
def encode(code: UInt8[Array, "*cells"]) -> UInt8[Array, "*cells 2"]:
    """Return the pairs (kind, colour) of tile bytes, as in xminigrid's observations."""
    return jnp.stack([code & jnp.uint8(15), code >> jnp.uint8(4)], axis=-1)


def decode(pairs: ArrayLike) -> np.ndarray:
    """Return the tile bytes of NumPy pairs (kind, colour) on the last axis; inverts `encode`."""
    kind, colour = np.moveaxis(np.asarray(pairs).astype(np.uint8), -1, 0)
    return kind | colour << 4


def name(code: int) -> str:
    """Return a tile's name, such as `closed red door`; floor, wall and nothing have no colour."""
    kind, colour = Kind(code & 15), Colour(code >> 4).name.lower()
    if code in (NOTHING, FLOOR, WALL):
        return kind.name.lower()
    if kind in DOOR_STATES:
        return f"{DOOR_STATES[kind]} {colour} door"
    return f"{colour} {KIND_NAMES[kind]}"
