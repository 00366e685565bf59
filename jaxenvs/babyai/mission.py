"""Missions of BabyAI as data: up to four instructions, each packed into one uint32.

A mission has one or two sides. A side is one instruction, or two joined by "and". Two sides form a
sequence: the left side, then the right one; or the left side after the right one. Instructions 0
and 1 are the left side, 2 and 3 the right side; an absent instruction is 0.

Fields of an instruction from the lowest bit, each with its number of bits: verb (3), strict (1),
description of the object (10), description of the object to put it next to (10), `AFTER` (1, in
instruction 2), contents of plain boxes as a tile (7, in instruction 0).
Fields of a description: kind (3, 0 for any), colour (3, `ANY_COLOUR` for any), place (3, 0 for
any), and whether exactly one object fits it ("the", 1).
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.gridworld import direction_vector
from ..grid import missions, tiles
from ..grid.tiles import Colour, Kind

NOTHING, GO_TO, OPEN, PICK_UP, PUT_NEXT = range(5)  # verbs
ANYWHERE, FRONT, BEHIND, ON_LEFT, ON_RIGHT = range(5)  # places, as seen by the agent at the start
ANY_KIND, ANY_COLOUR = 0, len(Colour)
STRICT, FIRST, SECOND, AFTER, CONTENTS = 3, 4, 14, 24, 25  # lowest bit of each field
UNIQUE = 9  # bit of a description: whether exactly one object fits it
LENGTH = 4 * 18 + 4  # number of word ids of a mission in the observation


def description(
    kind: ArrayLike = ANY_KIND, colour: ArrayLike = ANY_COLOUR, place: ArrayLike = ANYWHERE
) -> UInt32[Array, "*batch"]:
    """Pack a description by kind (a `tiles.Kind`: door, key, ball or box), colour and place."""
    kind, colour, place = (jnp.asarray(x).astype(jnp.uint32) for x in (kind, colour, place))
    short = jnp.where(kind == 0, jnp.uint32(0), kind - jnp.uint32(3))
    return short | (colour << 3) | (place << 6)


def like(tile: UInt8[Array, "*batch"], place: ArrayLike = ANYWHERE) -> UInt32[Array, "*batch"]:
    """Pack a description of objects with the kind and colour of a tile."""
    triple = tiles.encode(tile)
    return description(triple[..., 0], triple[..., 1], place)


def kind_of(tile: UInt8[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Pack a description of objects with the kind of a tile, of any colour."""
    return description(tiles.encode(tile)[..., 0])


def instruction(
    verb: ArrayLike, first: Array, second: Array | None = None, *, strict: bool = False
) -> UInt32[Array, "*batch"]:
    """Pack an instruction; `second` describes the object to put the first one next to."""
    word = jnp.asarray(verb).astype(jnp.uint32) | (first << FIRST) | (int(strict) << STRICT)
    return word if second is None else word | (second << SECOND)


def go_to(what: Array) -> UInt32[Array, "*batch"]:
    """Return the instruction to go to an object, that is, to stand next to it and face it."""
    return instruction(GO_TO, what)


def open_door(what: Array, *, strict: bool = False) -> UInt32[Array, "*batch"]:
    """Return the instruction to open a door; if `strict`, toggling another door fails it."""
    return instruction(OPEN, what, strict=strict)


def pick_up(what: Array, *, strict: bool = False) -> UInt32[Array, "*batch"]:
    """Return the instruction to pick up an object; if `strict`, picking up another one fails it."""
    return instruction(PICK_UP, what, strict=strict)


def put_next(what: Array, where: Array) -> UInt32[Array, "*batch"]:
    """Return the instruction to drop an object in a cell next to another one."""
    return instruction(PUT_NEXT, what, where)


def single(a: Array) -> UInt32[Array, "1"]:
    """Return the mission of one instruction."""
    return jnp.stack([a])


def sequence(a: Array, b: Array, *, after: ArrayLike = False) -> UInt32[Array, "3"]:
    """Return the mission `a`, then `b`; or `a` after `b`."""
    bit = jnp.asarray(after).astype(jnp.uint32) << AFTER
    return jnp.stack([a, jnp.zeros_like(a), b | bit])


def verb(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Return the verb of an instruction."""
    return word & 7


def is_strict(word: UInt32[Array, "*batch"]) -> Bool[Array, "*batch"]:
    """Return whether acting on the wrong object fails the mission."""
    return ((word >> STRICT) & 1) != 0


def contents(mission: UInt32[Array, " instructions"]) -> UInt8[Array, ""]:
    """Return the tile inside plain boxes, `tiles.EMPTY` by default."""
    tile = (mission[0] >> CONTENTS).astype(jnp.uint8)
    return jnp.where(tile == 0, jnp.uint8(tiles.EMPTY), tile)


def comes_after(mission: UInt32[Array, " instructions"]) -> Bool[Array, ""]:
    """Return whether the right side must be done first."""
    return ((mission[2] >> AFTER) & 1) != 0 if len(mission) > 2 else jnp.zeros((), jnp.bool_)


def navigations(mission: UInt32[Array, " instructions"]) -> Int32[Array, ""]:
    """Return how many places the agent must go to: BabyAI's measure of a mission's length."""
    verbs = verb(mission)
    return jnp.where(verbs == PUT_NEXT, 2, (verbs != NOTHING).astype(jnp.int32)).sum(
        dtype=jnp.int32
    )


def descriptions(mission: UInt32[Array, " instructions"]) -> UInt32[Array, " descriptions"]:
    """Return both descriptions of each instruction; the second is used by `PUT_NEXT` only."""
    both = jnp.stack([mission >> FIRST, mission >> SECOND], axis=-1) & 0x3FF
    return both.reshape(-1)


class Pose(NamedTuple):
    """The agent's pose at the start, to which the places in descriptions are relative."""

    row: Array
    column: Array
    direction: Array
    pitch: int  # distance in cells from one room to the next


def fits(
    what: UInt32[Array, " descriptions"],
    tile: UInt8[Array, "*cells"],
    row: ArrayLike,
    column: ArrayLike,
    pose: Pose,
) -> Bool[Array, "descriptions *cells"]:  # noqa: F821 - a shape that parses as Python
    """Return which tiles fit which descriptions.

    Closed and locked doors count as doors, and walls belong to their room. As in MiniGrid, a wall
    fits as a grey object where a description names no kind.
    """
    shape = what.shape + (1,) * tile.ndim
    narrow = what.astype(jnp.uint8), (what >> 3).astype(jnp.uint8), (what >> 6).astype(jnp.uint8)
    kind, colour, place = (x.reshape(shape) & jnp.uint8(7) for x in narrow)
    named, painted = _seen(tile)
    alike = ((kind == 0) | (kind + jnp.uint8(3) == named)) & (named > jnp.uint8(Kind.EMPTY))
    alike = alike & ((colour == jnp.uint8(ANY_COLOUR)) | (colour == painted))
    return alike & (((_places(row, column, pose) >> place) & jnp.uint8(1)) != 0)


def _seen(tile: UInt8[Array, "*cells"]) -> tuple[UInt8[Array, "*cells"], UInt8[Array, "*cells"]]:
    """Return kind and colour in MiniGrid's numbers: one kind for all doors, one for all boxes."""
    kind, colour = tiles.kind(tile), tiles.colour(tile)
    shut = (kind == jnp.uint8(Kind.CLOSED_DOOR)) | (kind == jnp.uint8(Kind.LOCKED_DOOR))
    full = kind == jnp.uint8(Kind.KEY_BOX)
    kind = jnp.where(shut, jnp.uint8(Kind.DOOR), jnp.where(full, jnp.uint8(Kind.BOX), kind))
    return kind, jnp.where(full, jnp.uint8(Colour.GREY), colour)


def _places(row: ArrayLike, column: ArrayLike, pose: Pose) -> UInt8[Array, "..."]:
    """Return a bit mask: bit p is set if the cell lies at place p, bit `ANYWHERE` always."""
    down, across = row - pose.row, column - pose.column
    d_row, d_column = direction_vector(pose.direction)
    ahead, right = down * d_row + across * d_column, down * d_column - across * d_row
    top, left = pose.row // pose.pitch * pose.pitch, pose.column // pose.pitch * pose.pitch
    inside = (row >= top) & (row <= top + pose.pitch) & (column >= left)
    inside = inside & (column <= left + pose.pitch)
    bits = jnp.uint8(1 << ANYWHERE)
    sides = ((FRONT, ahead > 0), (BEHIND, ahead < 0), (ON_LEFT, right < 0), (ON_RIGHT, right > 0))
    for place, there in sides:
        bits = bits | jnp.where(inside & there, jnp.uint8(1 << place), jnp.uint8(0))
    return bits


def with_articles(
    mission: UInt32[Array, " instructions"], unique: Array
) -> UInt32[Array, " instructions"]:
    """Set the bit `UNIQUE` of the descriptions that fit exactly one object.

    unique: flags in the order of `descriptions`.
    """
    bits = unique.reshape(-1, 2).astype(jnp.uint32)
    return mission | (bits[:, 0] << (FIRST + UNIQUE)) | (bits[:, 1] << (SECOND + UNIQUE))


def _table(*phrases: str, width: int) -> np.ndarray:
    return np.stack([missions.ids(phrase, width) for phrase in phrases])


_VERBS = _table("", "go to", "open", "pick up", "put", width=2)
_PLACES = _table("", "in front of you", "behind you", "on your left", "on your right", width=4)
_KINDS = _table("object", "door", "key", "ball", "box", width=1)[:, 0]
_COLOURS = np.append(missions.COLOUR_WORDS, [0, 0]).astype(np.uint8)
_ARTICLES = missions.ids("a the")
_JOINTS = _table("", ", then", "after you", width=2)
_AND, _NEXT_TO = missions.ids("and"), missions.ids("next to")


def words(mission: UInt32[Array, " instructions"]) -> UInt8[Array, "76"]:
    """Return the mission as word ids; absent parts of a sentence are 0.

    `with_articles` sets the bits that choose between "a" and "the".
    """
    slots = [_phrase(word) for word in mission]
    slots += [jnp.zeros(18, jnp.uint8)] * (4 - len(slots))
    exists = [(verb(word) != NOTHING) for word in mission] + [False] * (4 - len(mission))

    def joint(present: ArrayLike) -> Array:
        return jnp.where(present, jnp.asarray(_AND), jnp.uint8(0))

    kind = jnp.where(exists[2], jnp.where(comes_after(mission), 2, 1), 0)
    between = jnp.asarray(_JOINTS)[kind]
    parts = [slots[0], joint(exists[1]), slots[1], between, slots[2], joint(exists[3]), slots[3]]
    return jnp.concatenate(parts)


def _phrase(word: UInt32[Array, ""]) -> UInt8[Array, "18"]:
    """Return the word ids of one instruction."""
    put = verb(word) == PUT_NEXT
    parts = [
        jnp.asarray(_VERBS)[verb(word).astype(jnp.int32)],
        _noun(word >> FIRST, verb(word) != NOTHING),
        jnp.where(put, jnp.asarray(_NEXT_TO), jnp.uint8(0)),
        _noun(word >> SECOND, put),
    ]
    return jnp.concatenate(parts)


def _noun(what: UInt32[Array, ""], present: Array) -> UInt8[Array, "7"]:
    """Return the word ids of a description: article, colour, kind, place."""
    index = [(what >> shift & mask).astype(jnp.int32) for shift, mask in ((UNIQUE, 1), (3, 7))]
    kind, place = (what & 7).astype(jnp.int32), (what >> 6 & 7).astype(jnp.int32)
    head = [jnp.asarray(_ARTICLES)[index[0]], jnp.asarray(_COLOURS)[index[1]]]
    found = jnp.stack([*head, jnp.asarray(_KINDS)[kind]])
    return jnp.where(present, jnp.concatenate([found, jnp.asarray(_PLACES)[place]]), jnp.uint8(0))
