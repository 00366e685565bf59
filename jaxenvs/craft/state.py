"""What a Craft world remembers: the map, the clock, and everything else packed into a few words.

In a scan every small array that is rewritten costs a kernel, so one block of words holds the player
and the floor where the player is: all slots of mobs, projectiles and plants. The rules work on a
`World`, the same unpacked and by name; `Rules.packing` says where each number is.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from ..core.env import State
from ..core.struct import Struct, struct
from .packing import of_word, of_words, word_of, words_of
from .tables import ROLES, VITALS, Rules

EARNED_BITS = 31  # achievements in a word
MOST_MOBS = 15  # slots of all roles: while they move, a bit of a word each, beside a cell


class Slots(NamedTuple):
    """How many of each thing a world can hold: static, upstream's defaults."""

    melee: int = 3
    passive: int = 3
    ranged: int = 2
    projectile: int = 3
    plant: int = 10

    @property
    def mobs(self) -> dict[str, int]:
        """Slots of each role of mobs."""
        return {role: getattr(self, role) for role in ROLES}


class Mob(NamedTuple):
    """One slot of a mob: int32 scalars and flags. A dead slot goes on moving, unseen."""

    row: Any
    column: Any
    health: Any  # 0 or less is kept as 0
    cooldown: Any  # steps until it may attack; 0 or less is kept as 0
    type: Any  # among those of its role
    alive: Any
    # Whether other things see its cell as taken. A mob called back to life by upstream's quirk is
    # not seen until it moves, and a mob that shared its cell is not seen when that one has left.
    marked: Any


class Projectile(NamedTuple):
    """One slot of what flies: int32 scalars and a flag. A dead slot flies on, unseen."""

    row: Any
    column: Any
    d_row: Any
    d_column: Any
    type: Any  # in `Rules.projectiles`
    alive: Any


class Plants(NamedTuple):
    """All slots of plants that grow, a value for each: int32 and flags. A slot is never freed."""

    row: Any
    column: Any
    age: Any  # steps
    planted: Any


class World(NamedTuple):
    """The player, and the floor where the player is, without map and clock, by name.

    int32 or bool scalars, but for the plants.
    """

    row: Any  # of the player; -1 after a step over the upper border into lava
    column: Any
    facing: Any  # 1 left, 2 right, 3 up, 4 down: the action that turned there
    sleeping: Any
    vitals: dict[str, Any]  # health, food, drink, energy: 0 to 9
    counters: dict[str, Any]  # recover, hunger, thirst, fatigue, see `Rules.pace`
    items: dict[str, Any]  # the inventory, counts
    earned: tuple[Any, ...]  # achievements as bits, EARNED_BITS in a word
    mobs: dict[str, tuple[Mob, ...]]
    projectiles: tuple[Projectile, ...]
    plants: Plants


@struct
class CraftState(State):
    """The state of an episode; `CraftEnv.world(state)` reads it by name."""

    map: UInt8[Array, "size size"]  # blocks
    words: Int32[Array, " words"]  # see `pack`


@struct
class Level(Struct):
    """Where an episode begins: the player stands in the middle, alone."""

    map: UInt8[Array, "size size"]  # blocks


def new_world(rules: Rules, slots: Slots, size: int, health: dict[str, Any]) -> World:
    """Return the world at the start; `health` is that of empty slots of mobs, by role."""
    zero, no = jnp.int32(0), jnp.zeros((), jnp.bool_)
    middle, zeros = jnp.int32(size // 2), jnp.zeros(slots.plant, jnp.int32)
    mob, one = Mob(zero, zero, zero, zero, zero, no, no), jnp.int32(1)
    return World(
        row=middle,
        column=middle,
        facing=jnp.int32(3),
        sleeping=no,
        vitals=dict.fromkeys(VITALS, jnp.int32(rules.best)),
        counters=dict.fromkeys(rules.counters, zero),
        items=dict.fromkeys(rules.items, zero),
        earned=(zero,) * earned_words(rules),
        mobs={
            role: (mob._replace(health=jnp.asarray(health[role], jnp.int32)),) * count
            for role, count in slots.mobs.items()
        },
        projectiles=(Projectile(zero, zero, one, one, zero, no),) * slots.projectile,
        plants=Plants(zeros, zeros, zeros, jnp.zeros(slots.plant, jnp.bool_)),
    )


def earned_words(rules: Rules) -> int:
    """Words that the achievements need."""
    return -(-len(rules.achievements) // EARNED_BITS)


def pack(rules: Rules, world: World) -> Int32[Array, " words"]:
    """Pack a world into words: the player, achievements, and one word for every slot."""
    packing = rules.packing
    words = [*words_of(packing.player, world), *world.earned]
    words += [word_of(rules.mob_fields, mob) for mob in mobs_of(world)]
    words += [word_of(rules.projectile_fields, one) for one in world.projectiles]
    return jnp.concatenate([jnp.stack(words), word_of(packing.plant, world.plants)])


def unpack(rules: Rules, slots: Slots, words: Int32[Array, " words"]) -> World:
    """Read the words that `pack` wrote."""
    packing, end = rules.packing, words.shape[0] - slots.plant
    rest = iter([words[i] for i in range(end)])
    player = _nested(of_words(packing.player, rest))
    earned = tuple(next(rest) for _ in range(earned_words(rules)))
    mobs = {
        role: tuple(Mob(**_one(rules.mob_fields, rest)) for _ in range(count))
        for role, count in slots.mobs.items()
    }
    fields = rules.projectile_fields
    flying = tuple(Projectile(**_one(fields, rest)) for _ in range(slots.projectile))
    plants = Plants(**of_word(packing.plant, words[end:]))
    return World(**player, earned=earned, mobs=mobs, projectiles=flying, plants=plants)


def _one(fields: Any, words: Iterator[Array]) -> dict[str, Any]:
    """Values of the next slot; a type that is not kept is the only one."""
    return {"type": jnp.int32(0), **of_word(fields, next(words))}


def _nested(values: dict[str, Any]) -> dict[str, Any]:
    """Values by attribute: those of a dict together."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        attribute, _, key = name.partition(".")
        if key:
            nested.setdefault(attribute, {})[key] = value
        else:
            nested[attribute] = value
    return nested


def mobs_of(world: World) -> list[Mob]:
    """All slots of all mobs, in the order of moving."""
    return [mob for role in ROLES for mob in world.mobs[role]]


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


def one(when: Array) -> Int32[Array, ""]:
    """1 or 0."""
    return when.astype(jnp.int32)
