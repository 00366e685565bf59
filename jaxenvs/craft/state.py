"""What a Craft world remembers: the map, the clock, and everything else packed into a few words.

In a scan every small array that is rewritten costs a kernel, so one block of words holds the player
and the floor where the player is: all slots of mobs, projectiles and plants. The rules work on a
`World`, the same unpacked and by name; `Rules.packing` says where each number is.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt8

from ..core.env import State
from ..core.platforms import by_platform
from ..core.settle import settled
from ..core.stacking import stacked
from ..core.struct import Struct, struct
from .packing import Thing, nested, of_word, of_words, split, word_of, words_of
from .tables import ROLES, Rules, of_type

EARNED_BITS = 31  # achievements in a word
NO_ACHIEVEMENT = 127  # in the place of a number
MOST_KILLS = 63  # counted on a floor: 8 open its ladder
MOST_MOBS = 15  # slots of all roles: while they move, a bit of a word each, beside a cell


class Slots(NamedTuple):
    """How many of each thing a world can hold: static, upstream's defaults."""

    melee: int = 3
    passive: int = 3
    ranged: int = 2
    projectile: int = 3
    plant: int = 10
    missile: int = 3  # of the player, in the full game alone

    @property
    def mobs(self) -> dict[str, int]:
        """Slots of each role of mobs."""
        return {role: getattr(self, role) for role in ROLES}


class Mob(NamedTuple):
    """One slot of a mob: int32 scalars and flags. A dead slot goes on moving, unseen."""

    row: Any
    column: Any
    health: Any  # 0 or less is kept as 0; a float32 in the full game
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

    int32 or bool scalars, but for the plants, and for float32 healths in the full game.
    """

    row: Any  # of the player; -1 after a step over the upper border into lava
    column: Any
    facing: Any  # 1 left, 2 right, 3 up, 4 down: the action that turned there
    sleeping: Any
    vitals: dict[str, Any]  # health, food, drink, energy; mana in the full game
    counters: dict[str, Any]  # recover, hunger, thirst, fatigue, see `Rules.pace`
    items: dict[str, Any]  # the inventory, counts
    earned: tuple[Any, ...]  # achievements as bits, EARNED_BITS in a word
    mobs: dict[str, tuple[Mob, ...]]
    projectiles: tuple[Projectile, ...]
    plants: Plants  # of floor 0

    # The full game alone.
    resting: Any = None
    floor: Any = None  # where the player is, 0 to 8
    traits: Any = None  # xp, dexterity, strength, intelligence
    spells: Any = None  # whether fireball, and whether iceball, is learned
    charms: Any = None  # sword, bow and four pieces of armour: 0 plain, 1 of fire, 2 of ice
    effects: Any = None  # number of a potion's effect by colour, see `magic.EFFECTS`
    boss: Any = None  # progress: waves beaten; timer: steps left in which a wave may appear
    mana_counter: Any = None  # float32: steps since the last point of mana, grown by intelligence
    stairs: Any = None  # of the floor: down_row, down_column, up_row, up_column
    kills: Any = None  # of melee and ranged mobs on the floor, to MOST_KILLS
    opened: Any = None  # whether a chest of the floor was opened
    missiles: tuple[Projectile, ...] = ()  # shot by the player


@struct
class CraftState(State):
    """The state of an episode; `CraftEnv.world(state)` reads it by name."""

    map: UInt8[Array, "*floors size size"]  # cells, see `ground`
    words: Int32[Array, " words"]  # see `pack`


@struct
class FullState(CraftState):
    """The state of an episode of the full game."""

    floors: Int32[Array, "floors floor_words"]  # those that the player left, see `floor_words`
    light: UInt8[Array, "*lit"]  # of the map's cells, 0 to 255; none where it is not observed


@struct
class Level(Struct):
    """Where an episode begins: the player stands in the middle, alone."""

    map: UInt8[Array, "size size"]  # blocks


def new_world(rules: Rules, slots: Slots, size: int, health: dict[str, Any]) -> World:
    """Return the world at the start; `health` is that of empty slots of mobs, by role."""
    zero, no = jnp.int32(0), jnp.zeros((), jnp.bool_)
    middle, zeros = jnp.int32(size // 2), jnp.zeros(slots.plant, jnp.int32)
    mob, one = Mob(zero, zero, zero, zero, zero, no, no), jnp.int32(1)
    missiles, of_health = (slots.missile, jnp.float32) if rules.floors else (0, jnp.int32)
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
    """Words that the achievements need."""
    return -(-len(rules.achievements) // EARNED_BITS)


Known = tuple[World, Sequence[Array]] | None  # a world as it was read, and its words


def pack(rules: Rules, world: World, known: Known = None) -> Int32[Array, " words"]:
    """Pack a world into words: the player, achievements, and one word for every slot."""
    words, plants = _words(rules, world, known), word_of(rules.packing.plant, world.plants)

    def together(words: list[Array], plants: Array) -> Array:
        return jnp.concatenate([jnp.stack(words), plants])

    def by_row(words: list[Array], plants: Array) -> Array:
        return stacked([*words, *(plants[i] for i in range(plants.shape[0]))])

    return by_platform(words, plants, cpu=together, default=by_row)


def floor_words(rules: Rules, world: World) -> list[Int32[Array, ""]]:
    """Pack what belongs to the player's floor: its ladders, mobs, and what flies there."""
    return words_of(_things_of_floor(rules, world))


def _things_of_floor(rules: Rules, world: World) -> list[Thing]:
    flying = (*world.projectiles, *world.missiles)
    mob_words = split([rules.mob_fields])
    return [
        *((fields, world) for fields in split(rules.packing.floor)),
        *((fields, mob) for mob in mobs_of(world) for fields in mob_words),
        *((rules.projectile_fields, one) for one in flying),
    ]


def unpack(rules: Rules, slots: Slots, words: Int32[Array, " words"]) -> World:
    """Read the words that `pack` wrote."""
    end = words.shape[0] - slots.plant
    return _of_words(rules, slots, iter([words[i] for i in range(end)]), words[end:])


def repacked(
    rules: Rules, world: World, more: Sequence[Array]
) -> tuple[World, list[Int32[Array, ""]], list[Int32[Array, ""]]]:
    """The world, its words, and more int32 scalars, of which behind this only words are known.

    `core.settle.settled` for everything at once: on a GPU too nothing before is computed again.
    """
    here = [world.row, world.column, world.floor]  # what several kernels need, each by itself
    words = [*_words(rules, world), *here, *more]
    plants = word_of(rules.packing.plant, world.plants)

    def as_array(words: list[Array], plants: Array) -> tuple[list[Array], Array]:
        kept = settled(jnp.concatenate([jnp.stack(words), plants]))
        return [kept[i] for i in range(len(words))], kept[len(words) :]

    def as_scalars(words: list[Array], plants: Array) -> tuple[list[Array], Array]:
        return jax.lax.optimization_barrier((words, plants))

    words, plants = by_platform(words, plants, cpu=as_array, default=as_scalars)
    rest = iter(words)
    world = _of_words(rules, slots_of(world), rest, plants)
    row, column, floor, *more = rest
    return world._replace(row=row, column=column, floor=floor), words, more


def slots_of(world: World) -> Slots:
    """How many of each thing a world can hold."""
    return Slots(
        **{role: len(mobs) for role, mobs in world.mobs.items()},
        projectile=len(world.projectiles),
        plant=world.plants.age.shape[0],
        missile=len(world.missiles) or Slots().missile,
    )


def _words(rules: Rules, world: World, known: Known = None) -> list[Int32[Array, ""]]:
    """Words of all but the plants."""
    player = split(rules.packing.player)
    first, last = len(player), len(player) + len(world.earned)  # achievements are words already

    def things(world: World) -> list[Thing]:
        return [*((fields, world) for fields in player), *_things_of_floor(rules, world)]

    was = None if known is None else (things(known[0]), [*known[1][:first], *known[1][last:]])
    words = words_of(things(world), was)
    return [*words[:first], *world.earned, *words[first:]]


def _of_words(rules: Rules, slots: Slots, words: Iterator[Array], plants: Array) -> World:
    player = nested(of_words(rules.packing.player, words))
    earned = tuple(next(words) for _ in range(earned_words(rules)))
    floor = of_floor(rules, slots, words)
    return World(
        **player, **floor, earned=earned, plants=Plants(**of_word(rules.packing.plant, plants))
    )


def of_floor(rules: Rules, slots: Slots, words: Iterator[Array]) -> dict[str, Any]:
    """Read the words that `floor_words` wrote: fields of a world by name."""
    values = nested(of_words(rules.packing.floor, words))
    values["mobs"] = {
        role: tuple(_mob(rules, words) for _ in range(count)) for role, count in slots.mobs.items()
    }
    names = {"projectiles": slots.projectile, "missiles": slots.missile if rules.floors else 0}
    for name, count in names.items():
        values[name] = tuple(_projectile(rules, words) for _ in range(count))
    return values


def _mob(rules: Rules, words: Iterator[Array]) -> Mob:
    """The next slot; a type that is not kept is the only one, and all that live are seen."""
    values = {"type": jnp.int32(0), **of_words((rules.mob_fields,), words)}
    return Mob(**{"marked": values["alive"], **values})


def _projectile(rules: Rules, words: Iterator[Array]) -> Projectile:
    return Projectile(**{"type": jnp.int32(0), **of_word(rules.projectile_fields, next(words))})


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


def worth(rules: Rules, earned: tuple[Any, ...]) -> Float32[Array, ""]:
    """Sum of the weights of achievements."""
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
    """Note an achievement if `when`."""
    word, bit = divmod(int(achievement), EARNED_BITS)
    earned = list(world.earned)
    earned[word] = earned[word] | (when.astype(jnp.int32) << bit)
    return world._replace(earned=tuple(earned))


def unlock_of(world: World, achievements: Sequence[int | None], type: Any, when: Any) -> World:
    """Note the achievement of a type, from a list by type, if `when`."""
    if len(set(achievements)) == 1 and achievements[0] is not None:
        return unlock(world, achievements[0], when)
    numbers = [NO_ACHIEVEMENT if a is None else int(a) for a in achievements]
    return unlock_number(world, numbers, of_type(numbers, type), when)


def unlock_number(world: World, numbers: Sequence[int], number: Array, when: Any) -> World:
    """Note an achievement by its number, which is one of `numbers`, if `when`."""
    earned = list(world.earned)
    for word in {n // EARNED_BITS for n in numbers if n != NO_ACHIEVEMENT}:
        bit = number - word * EARNED_BITS
        here = when & (bit >= 0) & (bit < EARNED_BITS)
        earned[word] = earned[word] | jnp.where(here, 1 << bit.clip(0, EARNED_BITS), 0)
    return world._replace(earned=tuple(earned))


def changed(it: Any, when: Array, **new: Any) -> Any:
    """A thing with new numbers if `when`."""
    values = {name: jnp.where(when, value, getattr(it, name)) for name, value in new.items()}
    return it._replace(**values)


def one(when: Array) -> Int32[Array, ""]:
    """1 or 0."""
    return when.astype(jnp.int32)
