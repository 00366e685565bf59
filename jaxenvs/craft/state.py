"""State of a Craft episode: map, time step, and everything else packed into a few words.

In a scan on a GPU, XLA launches a kernel for each small array that is rewritten. So one array of
words stores the player and the player's floor: all slots of mobs, projectiles and plants. The
rules work on a `World`, which has the same values unpacked, by name. `Rules.packing` is the layout
of the words.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from ..core.env import State
from ..core.platforms import by_platform
from ..core.stacking import stacked
from ..core.struct import Struct, struct
from .packing import UNKNOWN, Known, Thing, nested, of_word, of_words, split, word_of, words_of
from .tables import ROLES, Rules, of_type

EARNED_BITS = 31  # number of achievements whose bits are stored in a word
NO_ACHIEVEMENT = 127  # index that stands for no achievement
MOST_KILLS = 63  # highest kill count that a floor stores; 8 kills open its ladder
# Highest number of mob slots, all roles together: `Crowd.moved` packs one bit per slot and a cell's
# 16-bit number into one word.
MOST_MOBS = 15


class Slots(NamedTuple):
    """Number of slots of each kind, static; the defaults are Craftax's."""

    melee: int = 3
    passive: int = 3
    ranged: int = 2
    projectile: int = 3
    plant: int = 10
    missile: int = 3  # slots of the player's projectiles, in the full game only

    @property
    def mobs(self) -> dict[str, int]:
        """Number of slots of each role of mobs."""
        return {role: getattr(self, role) for role in ROLES}


class Mob(NamedTuple):
    """One slot of a mob: int32 scalars and flags. A dead mob goes on moving, invisibly."""

    row: Any
    column: Any
    health: Any  # points of health; negative ones are stored as 0; float32 in the full game
    cooldown: Any  # steps until the mob may attack; negative values are stored as 0
    type: Any  # index into `Rules.types(role)`
    alive: Any
    # Whether the rules treat the mob's cell as taken (Craftax's `mob_map`). Craftax's quirk: it is
    # False for a revived mob until it moves, and for a mob that another mob left on a shared cell.
    marked: Any


class Projectile(NamedTuple):
    """One slot of a projectile: int32 scalars and a flag. A dead one flies on, invisibly."""

    row: Any
    column: Any
    d_row: Any
    d_column: Any
    type: Any  # index into `Rules.projectiles`
    alive: Any


class Plants(NamedTuple):
    """All slots of growing plants, arrays over slots: int32 and flags. A slot is never freed."""

    row: Any
    column: Any
    age: Any  # steps since the plant was planted or eaten
    planted: Any


class World(NamedTuple):
    """Unpacked state of the player and the player's floor, without the map and the time step.

    Values are int32 or bool scalars; health is float32 in the full game; plants are arrays.
    """

    row: Any  # row of the player; -1 after a step over the upper border into lava
    column: Any
    facing: Any  # direction, numbered as the moves in `Action`: 1 left, 2 right, 3 up, 4 down
    sleeping: Any
    vitals: dict[str, Any]  # points of health, food, drink, energy, and in the full game mana
    counters: dict[str, Any]  # counters of recovery, hunger, thirst, fatigue, see `Rules.pace`
    items: dict[str, Any]  # count or level of each inventory item
    earned: tuple[Any, ...]  # earned achievements as bits, EARNED_BITS in a word
    mobs: dict[str, tuple[Mob, ...]]
    projectiles: tuple[Projectile, ...]
    plants: Plants  # plants, which grow on floor 0 only

    # In the full game only.
    resting: Any = None
    floor: Any = None  # floor of the player, 0 to 8
    traits: Any = None  # xp and the attributes dexterity, strength, intelligence
    spells: Any = None  # whether fireball and iceball are learned
    charms: Any = None  # enchantments of sword, bow and armour: 0 none, 1 fire, 2 ice
    effects: Any = None  # index into `magic.EFFECTS` for each colour of potion
    boss: Any = None  # `progress`: waves beaten; `timer`: steps left in which mobs of a wave appear
    mana_counter: Any = None  # progress to the next point of mana, float32, see `body.gain_mana`
    stairs: Any = None  # ladders of the floor: down_row, down_column, up_row, up_column
    kills: Any = None  # melee and ranged mobs killed on the floor, at most MOST_KILLS
    opened: Any = None  # whether a chest of the floor was opened
    missiles: tuple[Projectile, ...] = ()  # the player's projectiles


@struct
class CraftState(State):
    """State of an episode; `CraftEnv.world(state)` unpacks it."""

    map: UInt8[Array, "*floors size size"]  # cells as bytes, see `ground`
    words: Int32[Array, " words"]  # player and the player's floor, packed by `pack`


@struct
class FullState(CraftState):
    """State of an episode of the full game."""

    # Packed words of every floor, see `floor_words`; outdated for the player's own floor, which is
    # in `words`.
    floors: Int32[Array, "floors floor_words"]
    light: UInt8[Array, "*lit"]  # light of each cell, 0 to 255; empty unless pixels are observed


@struct
class Level(Struct):
    """Map at the start of an episode: the player stands in the middle, without mobs."""

    map: UInt8[Array, "size size"]  # block of each cell


def new_world(rules: Rules, slots: Slots, size: int, health: dict[str, Any]) -> World:
    """Return the world at the start; `health` is the health stored in empty mob slots, by role."""
    zero, no = jnp.int32(0), jnp.zeros((), jnp.bool_)
    middle, zeros = jnp.int32(size // 2), jnp.zeros(slots.plant, jnp.int32)
    mob, one = Mob(zero, zero, zero, zero, zero, no, no), jnp.int32(1)
    missiles, of_health = (slots.missile, jnp.float32) if rules.is_full else (0, jnp.int32)
    return World(
        row=middle,
        column=middle,
        facing=jnp.int32(3),
        sleeping=no,
        vitals={
            **dict.fromkeys(rules.vitals, jnp.int32(rules.best)),
            "health": jnp.asarray(rules.best, of_health),
        },
        counters=dict.fromkeys(rules.counters, zero),
        items=dict.fromkeys(rules.items, zero),
        earned=(zero,) * earned_words(rules),
        mobs={
            role: (mob._replace(health=jnp.asarray(health[role], of_health)),) * count
            for role, count in slots.mobs.items()
        },
        projectiles=(Projectile(zero, zero, one, one, zero, no),) * slots.projectile,
        missiles=(Projectile(zero, zero, one, one, zero, no),) * missiles,
        plants=Plants(zeros, zeros, zeros, jnp.zeros(slots.plant, jnp.bool_)),
    )


def earned_words(rules: Rules) -> int:
    """Return the number of words for the achievements."""
    return -(-len(rules.achievements) // EARNED_BITS)


def pack(rules: Rules, world: World, known: Known = UNKNOWN) -> Int32[Array, " words"]:
    """Pack a world into words: player, achievements, floor, slots of mobs, projectiles, plants."""
    words, plants = world_words(rules, world, known), word_of(rules.packing.plant, world.plants)

    def together(words: list[Array], plants: Array) -> Array:
        return jnp.concatenate([jnp.stack(words), plants])

    def by_row(words: list[Array], plants: Array) -> Array:
        return stacked([*words, *(plants[i] for i in range(plants.shape[0]))])

    return by_platform(words, plants, cpu=together, default=by_row)


def floor_words(rules: Rules, world: World) -> list[Int32[Array, ""]]:
    """Pack the player's floor: its ladders, mobs and projectiles."""
    return words_of(_things_of_floor(rules, world), UNKNOWN)


def _things_of_floor(rules: Rules, world: World) -> list[Thing]:
    flying = (*world.projectiles, *world.missiles)
    mob_words = split([rules.mob_fields])
    return [
        *((fields, world) for fields in split(rules.packing.floor)),
        *((fields, mob) for mob in mobs_of(world) for fields in mob_words),
        *((rules.projectile_fields, one) for one in flying),
    ]


def unpack(rules: Rules, slots: Slots, words: Int32[Array, " words"]) -> World:
    """Return the world that `pack` packed into `words`."""
    end = words.shape[0] - slots.plant
    return world_of_words(rules, slots, iter([words[i] for i in range(end)]), words[end:])


def slots_of(world: World) -> Slots:
    """Count the slots of each kind in a world."""
    return Slots(
        **{role: len(mobs) for role, mobs in world.mobs.items()},
        projectile=len(world.projectiles),
        plant=world.plants.age.shape[0],
        missile=len(world.missiles) or Slots().missile,
    )


def world_words(rules: Rules, world: World, known: Known = UNKNOWN) -> list[Int32[Array, ""]]:
    """Pack a world without its plants into words; `World.earned` is included as it is."""
    words, first = words_of(_things(rules, world), known), len(split(rules.packing.player))
    return [*words[:first], *world.earned, *words[first:]]


def known_words(rules: Rules, world: World, words: Sequence[Array]) -> Known:
    """Return a world with its packed `words`, so that `words_of` can reuse unchanged words.

    `words` are the output of `world_words`.
    """
    first = len(split(rules.packing.player))
    return Known(_things(rules, world), [*words[:first], *words[first + len(world.earned) :]])


def _things(rules: Rules, world: World) -> list[Thing]:
    player = split(rules.packing.player)
    return [*((fields, world) for fields in player), *_things_of_floor(rules, world)]


def world_of_words(rules: Rules, slots: Slots, words: Iterator[Array], plants: Array) -> World:
    """Unpack the output of `world_words` from an iterator; `plants` are the plants' words."""
    player = nested(of_words(rules.packing.player, words))
    earned = tuple(next(words) for _ in range(earned_words(rules)))
    floor = of_floor(rules, slots, words)
    return World(
        **player, **floor, earned=earned, plants=Plants(**of_word(rules.packing.plant, plants))
    )


def of_floor(rules: Rules, slots: Slots, words: Iterator[Array]) -> dict[str, Any]:
    """Unpack the output of `floor_words` from an iterator to fields of a world, by name."""
    values = nested(of_words(rules.packing.floor, words))
    values["mobs"] = {
        role: tuple(_mob(rules, words) for _ in range(count)) for role, count in slots.mobs.items()
    }
    names = {"projectiles": slots.projectile, "missiles": slots.missile if rules.is_full else 0}
    for name, count in names.items():
        values[name] = tuple(_projectile(rules, words) for _ in range(count))
    return values


def _mob(rules: Rules, words: Iterator[Array]) -> Mob:
    """Unpack a mob slot. If not stored, `type` is 0 (the only type) and `marked` equals `alive`."""
    values = {"type": jnp.int32(0), **of_words((rules.mob_fields,), words)}
    return Mob(**{"marked": values["alive"], **values})


def _projectile(rules: Rules, words: Iterator[Array]) -> Projectile:
    return Projectile(**{"type": jnp.int32(0), **of_word(rules.projectile_fields, next(words))})


def mobs_of(world: World) -> list[Mob]:
    """Return the slots of all mobs, in the order of moving."""
    return [mob for role in ROLES for mob in world.mobs[role]]


def earned_vector(rules: Rules, earned: tuple[Any, ...]) -> Bool[Array, " achievements"]:
    """Return the achievements as flags, in the order of their numbers."""
    number = jnp.arange(len(rules.achievements), dtype=jnp.int32)
    words = jnp.stack(earned)
    if len(earned) > 1:  # a single word broadcasts without indexing
        words = words[number // EARNED_BITS]
    return ((words >> (number % EARNED_BITS)) & 1) != 0


def achievement_reward(rules: Rules, earned: tuple[Any, ...]) -> Float32[Array, ""]:
    """Return the sum of the weights of the achievements whose bits are set."""
    weights = rules.weights or (1,) * len(rules.achievements)
    total = jnp.int32(0)
    for weight in sorted(set(weights)):
        for word, bits in enumerate(earned):
            those = enumerate(weights[word * EARNED_BITS :][:EARNED_BITS])
            mask = sum(1 << bit for bit, given in those if given == weight)
            some = bits if len(set(weights)) == 1 else bits & mask
            if mask:
                total = total + weight * jax.lax.population_count(some)
    return total.astype(jnp.float32)


def unlock(world: World, achievement: int, when: Any) -> World:
    """Record an achievement if `when`."""
    word, bit = divmod(int(achievement), EARNED_BITS)
    earned = list(world.earned)
    earned[word] = earned[word] | (when.astype(jnp.int32) << bit)
    return world._replace(earned=tuple(earned))


def unlock_of(world: World, achievements: Sequence[int | None], type: Any, when: Any) -> World:
    """Record `achievements[type]` if `when`; None records nothing."""
    if len(set(achievements)) == 1 and achievements[0] is not None:
        return unlock(world, achievements[0], when)
    numbers = [NO_ACHIEVEMENT if a is None else int(a) for a in achievements]
    return unlock_number(world, numbers, of_type(numbers, type), when)


def unlock_number(world: World, numbers: Sequence[int], number: Array, when: Any) -> World:
    """Record an achievement by its number, which is one of `numbers`, if `when`."""
    earned = list(world.earned)
    for word in {n // EARNED_BITS for n in numbers if n != NO_ACHIEVEMENT}:
        bit = number - word * EARNED_BITS
        here = when & (bit >= 0) & (bit < EARNED_BITS)
        earned[word] = earned[word] | jnp.where(here, 1 << bit.clip(0, EARNED_BITS), 0)
    return world._replace(earned=tuple(earned))


def changed(it: Any, when: Array, **new: Any) -> Any:
    """Return the NamedTuple `it`, with new values if `when`."""
    values = {name: jnp.where(when, value, getattr(it, name)) for name, value in new.items()}
    return it._replace(**values)


def one(when: Array) -> Int32[Array, ""]:
    """Return a flag as 1 or 0."""
    return when.astype(jnp.int32)
