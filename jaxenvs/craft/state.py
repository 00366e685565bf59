"""State of a Craft episode: the map, the time step, and most other values packed into int32 words.

In a scan on a GPU, XLA launches a kernel for each small array that a step rewrites. Therefore one
int32 array stores the player and the slots of mobs, projectiles and plants on the player's floor.
The rules of the game work on a `World`, a NamedTuple that has the same values unpacked, by name.
`Rules.packing` says which bits of which word store which value.
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

EARNED_BITS = 31  # number of achievements that one int32 word stores, one bit each
NO_ACHIEVEMENT = 127  # index of an achievement that stands for "no achievement"
MOST_KILLS = 63  # highest kill count that a floor stores; 8 kills on a floor open its ladder down
# Highest number of mob slots, all roles together.
# The limit exists because `Crowd.moved` packs one bit per slot and a 16-bit cell into one word.
MOST_MOBS = 15


class Slots(NamedTuple):
    """Number of mob, projectile and plant slots (fixed array sizes); the defaults are Craftax's."""

    melee: int = 3
    passive: int = 3
    ranged: int = 2
    projectile: int = 3
    plant: int = 10
    missile: int = 3  # slots for projectiles that the player shoots; only the full game has them

    @property
    def mobs(self) -> dict[str, int]:
        """Number of mob slots for each role (melee, passive, ranged)."""
        return {role: getattr(self, role) for role in ROLES}


class Mob(NamedTuple):
    """Values of one mob slot: int32 scalars and flags.

    As in Craftax, a mob that is not alive keeps moving, invisibly.
    """

    row: Any
    column: Any
    health: Any  # health in points, stored as 0 if negative; float32 in the full game, else int32
    cooldown: Any  # steps until the mob may attack; stored as 0 if negative
    type: Any  # type of the mob, an index into `Rules.types(role)`
    alive: Any
    # Whether the rules treat the mob's cell as occupied (Craftax's `mob_map`).
    # Craftax's quirks: a dead mob that `attack.revive` makes alive is not marked until `mobs.move`.
    # If one of two mobs on a cell leaves the cell or is killed, the other is not marked any more.
    marked: Any


class Projectile(NamedTuple):
    """Values of one projectile slot: int32 scalars and the flag `alive`.

    As in Craftax, a projectile that is not alive flies on, invisibly.
    """

    row: Any
    column: Any
    d_row: Any
    d_column: Any
    type: Any  # type of the projectile, an index into `Rules.projectiles`
    alive: Any


class Plants(NamedTuple):
    """All slots of growing plants. Each field has one value for each slot; no slot is freed."""

    row: Any
    column: Any
    age: Any  # age in steps, counted from planting or from the last time the plant was eaten
    planted: Any


class World(NamedTuple):
    """Unpacked state of the player and the player's floor, except the map and the time step.

    Values are int32 or bool scalars, but `health` is float32 in the full game, and `plants` holds
    arrays.
    """

    row: Any  # map row of the player; -1 after a step off the map, a quirk, see `player.move`
    column: Any
    facing: Any  # direction the player faces, as in `Action`: 1 left, 2 right, 3 up, 4 down
    sleeping: Any
    vitals: dict[str, Any]  # points of health, food, drink and energy; in the full game also mana
    counters: dict[str, Any]  # counters of recovery, hunger, thirst, fatigue, see `Rules.pace`
    # Count of each item; in the full game, tools and armour have a level instead.
    items: dict[str, Any]
    earned: tuple[Any, ...]  # bit masks of earned achievements, EARNED_BITS in each int32 word
    mobs: dict[str, tuple[Mob, ...]]
    projectiles: tuple[Projectile, ...]
    plants: Plants  # slots of growing plants; plants grow on floor 0 only

    # The following fields are used in the full game only.
    resting: Any = None
    floor: Any = None  # index of the floor on which the player is, 0 to 8
    traits: Any = None  # experience points (`xp`), dexterity, strength, intelligence
    spells: Any = None  # whether the player has learned each of the spells fireball and iceball
    charms: Any = None  # enchantment of sword, bow and armour: 0 none, 1 fire, 2 ice
    effects: Any = None  # effect of each potion colour, an index into `magic.EFFECTS`
    # State of the boss fight. `progress` is the number of waves beaten.
    # `timer` is the number of steps left in which mobs of the current wave may appear.
    boss: Any = None
    mana_counter: Any = None  # progress to the next point of mana, float32, see `body.gain_mana`
    stairs: Any = None  # cells of the floor's ladders: down_row, down_column, up_row, up_column
    kills: Any = None  # number of melee and ranged mobs killed on this floor, capped at MOST_KILLS
    opened: Any = None  # whether the player has opened a chest on this floor
    missiles: tuple[Projectile, ...] = ()  # slots of projectiles that the player shot


@struct
class CraftState(State):
    """State of an episode. `CraftEnv.world(state)` unpacks `words`."""

    map: UInt8[Array, "*floors size size"]  # each cell of the map as a byte, see module `ground`
    words: Int32[Array, " words"]  # the player and the player's floor as int32 words, see `pack`


@struct
class FullState(CraftState):
    """State of an episode of the full game."""

    # Ladders, mobs and projectiles of every floor, packed by `floor_words`.
    # The entry of the player's floor may be outdated, because `words` stores that floor.
    floors: Int32[Array, "floors floor_words"]
    light: UInt8[Array, "*lit"]  # light of each cell, 0 to 255; empty unless pixels are observed


@struct
class Level(Struct):
    """Initial map of a Classic episode. The player starts in the middle; there are no mobs yet."""

    map: UInt8[Array, "size size"]  # block of each cell


def new_world(rules: Rules, slots: Slots, size: int, health: dict[str, Any]) -> World:
    """Return the `World` at the start of an episode.

    The player stands in the middle of the map, which has `size` rows and columns. `health` gives,
    by role, the health that empty mob slots store.
    """
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
    """Return the number of int32 words that store the achievements, EARNED_BITS in each."""
    return -(-len(rules.achievements) // EARNED_BITS)


def pack(rules: Rules, world: World, known: Known = UNKNOWN) -> Int32[Array, " words"]:
    """Pack a `World` into int32 words.

    The order is: player, achievements, values of the player's floor such as its ladders, mob slots,
    projectile slots, plant slots.
    """
    words, plants = world_words(rules, world, known), word_of(rules.packing.plant, world.plants)

    def together(words: list[Array], plants: Array) -> Array:
        return jnp.concatenate([jnp.stack(words), plants])

    def by_row(words: list[Array], plants: Array) -> Array:
        return stacked([*words, *(plants[i] for i in range(plants.shape[0]))])

    return by_platform(words, plants, cpu=together, default=by_row)


def floor_words(rules: Rules, world: World) -> list[Int32[Array, ""]]:
    """Pack ladders, mobs and projectiles of the player's floor into a list of int32 words."""
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
    """Return the `World` that `pack` packed into `words`: the inverse of `pack`."""
    end = words.shape[0] - slots.plant
    return world_of_words(rules, slots, iter([words[i] for i in range(end)]), words[end:])


def slots_of(world: World) -> Slots:
    """Return how many slots for mobs of each role, projectiles and plants a `World` has.

    A `World` of Classic has no missiles; `Slots.missile` then has its default value.
    """
    return Slots(
        **{role: len(mobs) for role, mobs in world.mobs.items()},
        projectile=len(world.projectiles),
        plant=world.plants.age.shape[0],
        missile=len(world.missiles) or Slots().missile,
    )


def world_words(rules: Rules, world: World, known: Known = UNKNOWN) -> list[Int32[Array, ""]]:
    """Pack a `World` without its plants into a list of int32 words.

    The words of `World.earned` are inserted without change.
    """
    words, first = words_of(_things(rules, world), known), len(split(rules.packing.player))
    return [*words[:first], *world.earned, *words[first:]]


def known_words(rules: Rules, world: World, words: Sequence[Array]) -> Known:
    """Return `world` and its packed words as a `Known`.

    When a later `World` of the step is packed, `words_of` reuses the words whose values have not
    changed. `words` must be the output of `world_words` for `world`.
    """
    first = len(split(rules.packing.player))
    return Known(_things(rules, world), [*words[:first], *words[first + len(world.earned) :]])


def _things(rules: Rules, world: World) -> list[Thing]:
    player = split(rules.packing.player)
    return [*((fields, world) for fields in player), *_things_of_floor(rules, world)]


def world_of_words(rules: Rules, slots: Slots, words: Iterator[Array], plants: Array) -> World:
    """Unpack the output of `world_words`: the inverse of `world_words`.

    `words` is an iterator over the scalar words; `plants` are the words of the plant slots.
    """
    player = nested(of_words(rules.packing.player, words))
    earned = tuple(next(words) for _ in range(earned_words(rules)))
    floor = of_floor(rules, slots, words)
    return World(
        **player, **floor, earned=earned, plants=Plants(**of_word(rules.packing.plant, plants))
    )


def of_floor(rules: Rules, slots: Slots, words: Iterator[Array]) -> dict[str, Any]:
    """Unpack the output of `floor_words` into a dict of `World` fields, by field name."""
    values = nested(of_words(rules.packing.floor, words))
    values["mobs"] = {
        role: tuple(_mob(rules, words) for _ in range(count)) for role, count in slots.mobs.items()
    }
    names = {"projectiles": slots.projectile, "missiles": slots.missile if rules.is_full else 0}
    for name, count in names.items():
        values[name] = tuple(_projectile(rules, words) for _ in range(count))
    return values


def _mob(rules: Rules, words: Iterator[Array]) -> Mob:
    """Unpack one mob slot.

    Classic does not store `type`, which is always 0. If `marked` is not stored, it equals `alive`.
    """
    values = {"type": jnp.int32(0), **of_words((rules.mob_fields,), words)}
    return Mob(**{"marked": values["alive"], **values})


def _projectile(rules: Rules, words: Iterator[Array]) -> Projectile:
    return Projectile(**{"type": jnp.int32(0), **of_word(rules.projectile_fields, next(words))})


def mobs_of(world: World) -> list[Mob]:
    """Return all mob slots as one list, in the order in which the mobs move."""
    return [mob for role in ROLES for mob in world.mobs[role]]


def earned_vector(rules: Rules, earned: tuple[Any, ...]) -> Bool[Array, " achievements"]:
    """Return whether each achievement is earned, in the order of `Rules.achievements`."""
    number = jnp.arange(len(rules.achievements), dtype=jnp.int32)
    words = jnp.stack(earned)
    # Select, for each achievement, the word that stores its bit. If there is only one word,
    # broadcasting makes this selection unnecessary.
    if len(earned) > 1:
        words = words[number // EARNED_BITS]
    return ((words >> (number % EARNED_BITS)) & 1) != 0


def achievement_reward(rules: Rules, earned: tuple[Any, ...]) -> Float32[Array, ""]:
    """Return the sum of the rewards (`Rules.weights`) of the achievements in the masks `earned`."""
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
    """Record that the player has earned `achievement`, if `when` is True.

    `achievement` is a Python integer, so its word and bit are known when JAX traces the function.
    """
    word, bit = divmod(int(achievement), EARNED_BITS)
    earned = list(world.earned)
    earned[word] = earned[word] | (when.astype(jnp.int32) << bit)
    return world._replace(earned=tuple(earned))


def unlock_of(world: World, achievements: Sequence[int | None], type: Any, when: Any) -> World:
    """Record that the player has earned `achievements[type]`, if `when` is True.

    `type` is a traced index, such as the type of a killed mob. None in `achievements` stands for no
    achievement.
    """
    if len(set(achievements)) == 1 and achievements[0] is not None:
        return unlock(world, achievements[0], when)
    numbers = [NO_ACHIEVEMENT if a is None else int(a) for a in achievements]
    return unlock_number(world, numbers, of_type(numbers, type), when)


def unlock_number(world: World, numbers: Sequence[int], number: Array, when: Any) -> World:
    """Record that the player has earned the achievement with the index `number`, if `when` is True.

    `number` is a traced integer, and `numbers` lists all values that it can have. Only the words of
    `World.earned` that store one of these achievements are changed.
    """
    earned = list(world.earned)
    for word in {n // EARNED_BITS for n in numbers if n != NO_ACHIEVEMENT}:
        bit = number - word * EARNED_BITS
        here = when & (bit >= 0) & (bit < EARNED_BITS)
        earned[word] = earned[word] | jnp.where(here, 1 << bit.clip(0, EARNED_BITS), 0)
    return world._replace(earned=tuple(earned))


def changed(it: Any, when: Array, **new: Any) -> Any:
    """Return a copy of the NamedTuple `it`, with new values of some fields where `when` is True.

    `new` has the new values by field name. Where `when` is False, the fields keep their values.
    """
    values = {name: jnp.where(when, value, getattr(it, name)) for name, value in new.items()}
    return it._replace(**values)


def one(when: Array) -> Int32[Array, ""]:
    """Convert a flag to int32: 1 if it is True, else 0."""
    return when.astype(jnp.int32)
