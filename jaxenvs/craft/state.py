"""What a Craft world remembers: the map, the clock, and everything else packed into a few words.

In a scan every small array that is rewritten costs a kernel, so one block of words holds the player
and all slots. The rules work on a `World`, the same unpacked and by name.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ..core.bits import cut, join
from ..core.env import State
from ..core.struct import Struct, struct
from .tables import VITALS, Rules

EARNED_BITS = 31  # achievements in a word
MOST_AGE = (1 << 14) - 1  # steps; a plant's age stays there
MOST_HEALTH = 31  # of a mob
MOST_MOBS = 15  # slots of all kinds: while they move, a bit of a word each, beside a cell
BESIDE = 16  # cells beyond the border where an arrow that flew out stays
MAX_SIZE = 224  # cells on a side: with BESIDE at both ends a coordinate has 8 bits
MOVING = ("zombie", "cow", "skeleton")  # kinds of mobs, in the order in which they move
_COUNTERS = ("recover", "hunger", "thirst", "fatigue")
_SIGN = 64  # added to a counter, which may be negative


class Slots(NamedTuple):
    """How many of each thing a world can hold: static, upstream's defaults."""

    zombie: int = 3
    cow: int = 3
    skeleton: int = 2
    arrow: int = 3
    plant: int = 10

    @property
    def mobs(self) -> dict[str, int]:
        """Slots of each kind of mob."""
        return {name: getattr(self, name) for name in MOVING}


class Mob(NamedTuple):
    """One slot of a mob: int32 scalars and flags. A dead slot goes on moving, unseen."""

    row: Any
    column: Any
    health: Any  # 0 and below are alike, and kept as 0
    cooldown: Any  # steps until it may attack; 0 and below are alike, and kept as 0
    alive: Any
    # Whether other things see its cell as taken. A mob called back to life by upstream's quirk is
    # not seen until it moves, and a mob that shared its cell is not seen when that one has left.
    marked: Any


class Arrow(NamedTuple):
    """One slot of an arrow: int32 scalars and a flag. A dead slot flies on, unseen."""

    row: Any
    column: Any
    d_row: Any
    d_column: Any
    alive: Any


class Plants(NamedTuple):
    """All slots of plants that grow, a value for each: int32 and flags. A slot is never freed."""

    row: Any
    column: Any
    age: Any  # steps
    planted: Any


class World(NamedTuple):
    """The state without map and clock, by name; int32 or bool scalars, but for the plants."""

    row: Any  # of the player; -1 after a step over the upper border into lava
    column: Any
    facing: Any  # 1 left, 2 right, 3 up, 4 down: the action that turned there
    sleeping: Any
    vitals: dict[str, Any]  # health, food, drink, energy: 0 to 9
    counters: dict[str, Any]  # recover, hunger, thirst, fatigue, in halves
    items: dict[str, Any]  # the inventory, counts
    earned: tuple[Any, ...]  # achievements as bits, EARNED_BITS in a word
    mobs: dict[str, tuple[Mob, ...]]
    arrows: tuple[Arrow, ...]
    plants: Plants


@struct
class CraftState(State):
    """The state of an episode; `CraftClassic.world(state)` reads it by name."""

    map: UInt8[Array, "size size"]  # blocks
    words: Int32[Array, " words"]  # see `pack`


@struct
class Level(Struct):
    """Where an episode begins: the player stands in the middle, alone."""

    map: UInt8[Array, "size size"]  # blocks


def new_world(rules: Rules, slots: Slots, size: int, health: dict[str, Any]) -> World:
    """Return the world at the start; `health` is that of mobs which were never there."""
    zero, no = jnp.int32(0), jnp.zeros((), jnp.bool_)
    middle, zeros = jnp.int32(size // 2), jnp.zeros(slots.plant, jnp.int32)
    return World(
        row=middle,
        column=middle,
        facing=jnp.int32(3),
        sleeping=no,
        vitals=dict.fromkeys(VITALS, jnp.int32(rules.best)),
        counters=dict.fromkeys(_COUNTERS, zero),
        items=dict.fromkeys(rules.items, zero),
        earned=(zero,) * earned_words(rules),
        mobs={
            name: (Mob(zero, zero, jnp.asarray(health[name], jnp.int32), zero, no, no),) * count
            for name, count in slots.mobs.items()
        },
        arrows=(Arrow(zero, zero, jnp.int32(1), jnp.int32(1), no),) * slots.arrow,
        plants=Plants(zeros, zeros, zeros, jnp.zeros(slots.plant, jnp.bool_)),
    )


def earned_words(rules: Rules) -> int:
    """Words that the achievements need."""
    return -(-len(rules.achievements) // EARNED_BITS)


def pack(rules: Rules, world: World) -> Int32[Array, " words"]:
    """Pack a world into words: four bytes each for the player, the vitals, the counters and the
    items, then achievements, and one word for every slot."""
    words = [
        join((world.row + 1, 8), (world.column + 1, 8), (world.facing, 3), (world.sleeping, 1))
    ]
    # By name: a pytree's dicts come back from a transform with their keys sorted.
    numbers = [world.vitals[name] for name in VITALS]
    numbers += [world.counters[name] + _SIGN for name in _COUNTERS]
    numbers += [world.items[name] for name in rules.items]
    words += [join(*((n, 8) for n in numbers[i : i + 4])) for i in range(0, len(numbers), 4)]
    words += [*world.earned, *map(_mob_word, mobs_of(world)), *map(_arrow_word, world.arrows)]
    plants = world.plants
    age = jnp.minimum(plants.age, MOST_AGE)
    last = join((plants.row, 8), (plants.column, 8), (age, 14), (plants.planted, 1))
    return jnp.concatenate([jnp.stack(words), last])


def unpack(rules: Rules, slots: Slots, words: Int32[Array, " words"]) -> World:
    """Read the words that `pack` wrote."""
    rest = iter([words[i] for i in range(words.shape[0] - slots.plant)])
    row, column, facing, sleeping = cut(next(rest), 8, 8, 3, 1)
    names = (*VITALS, *_COUNTERS, *rules.items)
    numbers: list[Any] = []
    for _ in range(-(-len(names) // 4)):
        numbers += cut(next(rest), 8, 8, 8, 8)
    named = dict(zip(names, numbers, strict=False))
    earned = tuple(next(rest) for _ in range(earned_words(rules)))
    mobs = {
        name: tuple(_mob(next(rest)) for _ in range(count)) for name, count in slots.mobs.items()
    }
    arrows = tuple(_arrow(next(rest)) for _ in range(slots.arrow))
    p_row, p_column, age, planted = cut(words[words.shape[0] - slots.plant :], 8, 8, 14, 1)
    return World(
        row=row - 1,
        column=column - 1,
        facing=facing,
        sleeping=sleeping != 0,
        vitals={name: named[name] for name in VITALS},
        counters={name: named[name] - _SIGN for name in _COUNTERS},
        items={name: named[name] for name in rules.items},
        earned=earned,
        mobs=mobs,
        arrows=arrows,
        plants=Plants(p_row, p_column, age, planted != 0),
    )


def mobs_of(world: World) -> list[Mob]:
    """All slots of all mobs, in the order of moving."""
    return [mob for name in MOVING for mob in world.mobs[name]]


def earned_vector(rules: Rules, earned: tuple[Any, ...]) -> Bool[Array, " achievements"]:
    """Achievements as flags, in the order of their numbers."""
    number = jnp.arange(len(rules.achievements), dtype=jnp.int32)
    words = jnp.stack(earned)
    if len(earned) > 1:  # else its only word stands for all
        words = words[number // EARNED_BITS]
    return ((words >> (number % EARNED_BITS)) & 1) != 0


def unlock(world: World, achievement: int, when: Any) -> World:
    """Note an achievement if `when`."""
    word, bit = divmod(int(achievement), EARNED_BITS)
    earned = list(world.earned)
    earned[word] = earned[word] | (when.astype(jnp.int32) << bit)
    return world._replace(earned=tuple(earned))


def _mob_word(m: Mob) -> Int32[Array, ""]:
    return join(
        (m.row, 8), (m.column, 8), (m.health, 5), (m.cooldown, 3), (m.alive, 1), (m.marked, 1)
    )


def _mob(word: Array) -> Mob:
    row, column, health, cooldown, alive, marked = cut(word, 8, 8, 5, 3, 1, 1)
    return Mob(row, column, health, cooldown, alive != 0, marked != 0)


def _arrow_word(a: Arrow) -> Int32[Array, ""]:
    row, column = (x.clip(-BESIDE, 255 - BESIDE) + BESIDE for x in (a.row, a.column))
    return join((row, 8), (column, 8), (a.d_row + 1, 2), (a.d_column + 1, 2), (a.alive, 1))


def _arrow(word: Array) -> Arrow:
    row, column, d_row, d_column, alive = cut(word, 8, 8, 2, 2, 1)
    return Arrow(row - BESIDE, column - BESIDE, d_row - 1, d_column - 1, alive != 0)
