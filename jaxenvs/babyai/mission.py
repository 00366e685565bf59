"""Missions of BabyAI as data: up to four instructions, each packed into one uint32.

A mission has one or two sides. A side is one instruction, or two instructions joined by "and". A
mission with two sides is a sequence: "left side, then right side", or "left side after right side".
Instructions 0 and 1 are the left side, instructions 2 and 3 the right side; an absent instruction
is 0.

Fields of an instruction, lowest bits first, with their number of bits: verb (3); strict (1; if set,
acting on a wrong object ends the episode); description of the object (10); for `PUT_NEXT`,
description of the other object (10); `AFTER` (1; only in instruction 2; set in a mission "left side
after right side"); tile inside the level's boxes (7; only in instruction 0).
Fields of a description, lowest bits first, with their number of bits: kind (3; 0 for any); colour
(3; `ANY_COLOUR` for any); place (3; 0 for any); whether exactly one object fits (1; if so, the
mission says "the" instead of "a").
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.gridworld import direction_vector
from ..grid import missions, tiles
from ..grid.tiles import Colour, Kind

NOTHING, GO_TO, OPEN, PICK_UP, PUT_NEXT = range(5)  # verbs of instructions
# Places in descriptions, relative to the agent's pose at the start of the episode.
ANYWHERE, FRONT, BEHIND, ON_LEFT, ON_RIGHT = range(5)
ANY_KIND, ANY_COLOUR = 0, len(Colour)
# Lowest bit of each field of an instruction.
STRICT, FIRST, SECOND, AFTER, CONTENTS = 3, 4, 14, 24, 25
UNIQUE = 9  # index of the bit of a description that is set if exactly one object fits
# Number of word ids of a mission in the observation: four instructions and four connecting words.
LENGTH = 4 * 18 + 4


def description(
    kind: ArrayLike = ANY_KIND, colour: ArrayLike = ANY_COLOUR, place: ArrayLike = ANYWHERE
) -> UInt32[Array, "*batch"]:
    """Return a packed description of objects; the defaults fit any kind, colour and place.

    kind: door, key, ball or box, as a `tiles.Kind`.
    """
    kind, colour, place = (jnp.asarray(x).astype(jnp.uint32) for x in (kind, colour, place))
    short = jnp.where(kind == 0, jnp.uint32(0), kind - jnp.uint32(3))
    return short | (colour << 3) | (place << 6)


def like(tile: UInt8[Array, "*batch"], place: ArrayLike = ANYWHERE) -> UInt32[Array, "*batch"]:
    """Return the packed description of objects with the kind and the colour of `tile`."""
    triple = tiles.encode(tile)
    return description(triple[..., 0], triple[..., 1], place)


def kind_of(tile: UInt8[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Return the packed description of objects with the kind of `tile`, in any colour."""
    return description(tiles.encode(tile)[..., 0])


def instruction(
    verb: ArrayLike, first: Array, second: Array | None = None, *, strict: bool = False
) -> UInt32[Array, "*batch"]:
    """Return a packed instruction about the object that `first` describes.

    For `PUT_NEXT`, `second` describes the object next to which the first object has to be put.
    """
    word = jnp.asarray(verb).astype(jnp.uint32) | (first << FIRST) | (int(strict) << STRICT)
    return word if second is None else word | (second << SECOND)


def go_to(what: Array) -> UInt32[Array, "*batch"]:
    """Return the instruction to stand next to an object and face it."""
    return instruction(GO_TO, what)


def open_door(what: Array, *, strict: bool = False) -> UInt32[Array, "*batch"]:
    """Return the instruction to open a door; if `strict`, toggling another door is a failure."""
    return instruction(OPEN, what, strict=strict)


def pick_up(what: Array, *, strict: bool = False) -> UInt32[Array, "*batch"]:
    """Return the instruction to pick up an object.

    If `strict`, the episode ends without success when the agent picks up another object.
    """
    return instruction(PICK_UP, what, strict=strict)


def put_next(what: Array, where: Array) -> UInt32[Array, "*batch"]:
    """Return the instruction to drop the object `what` in a cell next to the object `where`."""
    return instruction(PUT_NEXT, what, where)


def single(a: Array) -> UInt32[Array, "1"]:
    """Return the mission that consists of the single instruction `a`."""
    return jnp.stack([a])


def sequence(a: Array, b: Array, *, after: ArrayLike = False) -> UInt32[Array, "3"]:
    """Return the mission "`a`, then `b`" or, if `after` is true, "`a` after `b`"."""
    bit = jnp.asarray(after).astype(jnp.uint32) << AFTER
    return jnp.stack([a, jnp.zeros_like(a), b | bit])


def verb(word: UInt32[Array, "*batch"]) -> UInt32[Array, "*batch"]:
    """Return the verb of an instruction, such as `GO_TO`; `NOTHING` for an absent instruction."""
    return word & 7


def is_door(word: UInt32[Array, "*batch"], field: int) -> Bool[Array, "*batch"]:
    """Return whether a description of an instruction fits doors only.

    field: lowest bit of the description, `FIRST` or `SECOND`.
    """
    return (word >> field) & 7 == description(Kind.DOOR) & 7


def is_strict(word: UInt32[Array, "*batch"]) -> Bool[Array, "*batch"]:
    """Return whether the instruction is strict: acting on a wrong object ends the episode."""
    return ((word >> STRICT) & 1) != 0


def contents(mission: UInt32[Array, " instructions"]) -> UInt8[Array, ""]:
    """Return the tile inside the boxes (`Kind.BOX`) of the level; `EMPTY` if they are empty.

    The encoded mission stores this tile.
    """
    tile = (mission[0] >> CONTENTS).astype(jnp.uint8)
    return jnp.where(tile == 0, jnp.uint8(tiles.EMPTY), tile)


def comes_after(mission: UInt32[Array, " instructions"]) -> Bool[Array, ""]:
    """Return whether the mission has the form "left side after right side".

    In such a mission the agent has to accomplish the right side first.
    """
    return ((mission[2] >> AFTER) & 1) != 0 if len(mission) > 2 else jnp.zeros((), jnp.bool_)


def navigations(mission: UInt32[Array, " instructions"]) -> Int32[Array, ""]:
    """Return the number of places to which the mission sends the agent.

    An instruction with the verb `PUT_NEXT` counts as 2 places, any other instruction as 1.
    """
    verbs = verb(mission)
    return jnp.where(verbs == PUT_NEXT, 2, (verbs != NOTHING).astype(jnp.int32)).sum(
        dtype=jnp.int32
    )


def descriptions(mission: UInt32[Array, " instructions"]) -> UInt32[Array, " descriptions"]:
    """Return the descriptions of a mission: two for each instruction, in order.

    The second description of an instruction names the object next to which the first object has to
    be put. Only instructions with the verb `PUT_NEXT` use it.
    """
    both = jnp.stack([mission >> FIRST, mission >> SECOND], axis=-1) & 0x3FF
    return both.reshape(-1)


class Pose(NamedTuple):
    """The agent's initial pose; places in descriptions, such as "on your left", refer to it."""

    row: Array
    column: Array
    direction: Array
    pitch: int  # number of cells from a room's wall to the same wall of the next room


def fits(
    what: UInt32[Array, " descriptions"],
    tile: UInt8[Array, "*cells"],
    row: ArrayLike,
    column: ArrayLike,
    pose: Pose,
) -> Bool[Array, "descriptions *cells"]:  # noqa: F821 - a shape that parses as Python
    """Return whether each tile fits each description.

    `row` and `column` are the positions of the tiles. Doors fit whether open, closed or locked. The
    walls around a room are part of the room. As in MiniGrid, walls count as grey objects, so a
    description that names no kind can fit a wall.
    """
    shape = what.shape + (1,) * tile.ndim
    narrow = what.astype(jnp.uint8), (what >> 3).astype(jnp.uint8), (what >> 6).astype(jnp.uint8)
    kind, colour, place = (x.reshape(shape) & jnp.uint8(7) for x in narrow)
    named, painted = _seen(tile)
    alike = ((kind == 0) | (kind + jnp.uint8(3) == named)) & (named > jnp.uint8(Kind.EMPTY))
    alike = alike & ((colour == jnp.uint8(ANY_COLOUR)) | (colour == painted))
    return alike & (((_places(row, column, pose) >> place) & jnp.uint8(1)) != 0)


def _seen(tile: UInt8[Array, "*cells"]) -> tuple[UInt8[Array, "*cells"], UInt8[Array, "*cells"]]:
    """Return the kind and the colour of each tile in MiniGrid's encoding.

    In MiniGrid's encoding, all doors have the kind `DOOR`, and all boxes the kind `BOX`.
    """
    kind, colour = tiles.kind(tile), tiles.colour(tile)
    shut = (kind == jnp.uint8(Kind.CLOSED_DOOR)) | (kind == jnp.uint8(Kind.LOCKED_DOOR))
    full = kind == jnp.uint8(Kind.KEY_BOX)
    kind = jnp.where(shut, jnp.uint8(Kind.DOOR), jnp.where(full, jnp.uint8(Kind.BOX), kind))
    return kind, jnp.where(full, jnp.uint8(Colour.GREY), colour)


def _places(row: ArrayLike, column: ArrayLike, pose: Pose) -> UInt8[Array, "..."]:
    """Return a bit mask of the places of a cell relative to the agent's initial pose.

    Bit p is set if the cell (`row`, `column`) is at place p, such as `FRONT`. Bit `ANYWHERE` is
    always set. For a cell outside the room where the agent starts, all other bits are 0.
    """
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
    """Return the mission with the bit `UNIQUE` set in the descriptions where `unique` is true.

    unique: whether exactly one object fits, for each description in the order of `descriptions`.
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
    """Return the mission's text as word ids.

    Each part of the text, such as the colour of the first object, has fixed positions in the
    result; the word ids of an absent part are 0. A description has the article "the" if its bit
    `UNIQUE` is set, else "a".
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
    """Return the word ids of one instruction, such as "put the red ball next to a box"."""
    put = verb(word) == PUT_NEXT
    parts = [
        jnp.asarray(_VERBS)[verb(word).astype(jnp.int32)],
        _noun(word >> FIRST, verb(word) != NOTHING),
        jnp.where(put, jnp.asarray(_NEXT_TO), jnp.uint8(0)),
        _noun(word >> SECOND, put),
    ]
    return jnp.concatenate(parts)


def _noun(what: UInt32[Array, ""], present: Array) -> UInt8[Array, "7"]:
    """Return the word ids of a description: article, colour, kind and place.

    The result is 0 everywhere if `present` is false: the mission then lacks the description.
    """
    index = [(what >> shift & mask).astype(jnp.int32) for shift, mask in ((UNIQUE, 1), (3, 7))]
    kind, place = (what & 7).astype(jnp.int32), (what >> 6 & 7).astype(jnp.int32)
    head = [jnp.asarray(_ARTICLES)[index[0]], jnp.asarray(_COLOURS)[index[1]]]
    found = jnp.stack([*head, jnp.asarray(_KINDS)[kind]])
    return jnp.where(present, jnp.concatenate([found, jnp.asarray(_PLACES)[place]]), jnp.uint8(0))
