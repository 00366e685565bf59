"""Interface to craftax's full game. (`peer` is the interface to Craftax-Classic.)"""

import jax
import jax.numpy as jnp
import numpy as np
from craftax.craftax.envs.craftax_symbolic_env import CraftaxSymbolicEnvNoAutoReset
from craftax.craftax.game_logic import calculate_light_level
from peer import Choices, draws_of_mobs, loosely, strong

from jaxenvs.craft import sight
from jaxenvs.craft.chance import Draws, Loot
from jaxenvs.craft.floors import FullLevel
from jaxenvs.craft.full import CraftFull
from jaxenvs.craft.full_rows import ARMOUR, BESIDE, COLOURS, COUNTS, FULL, POTIONS, TRAITS
from jaxenvs.craft.ladders import lies
from jaxenvs.craft.state import EARNED_BITS, Slots, floor_words, of_floor
from jaxenvs.craft.tables import APPEARING, ROLES

SLOTS = Slots()
ENV = CraftFull(obs="symbolic")
PACKAGE = CraftaxSymbolicEnvNoAutoReset()
PARAMS = PACKAGE.default_params
KINDS = {role: f"{role}_mobs" for role in ROLES}
FLYING = {"projectiles": "mob_projectile", "missiles": "player_projectile"}
VITALS = ("food", "drink", "energy", "mana")
COUNTERS = {"recover": 16, "hunger": 16, "thirst": 16, "fatigue": 16}
SINGLE = (*COUNTS, "pickaxe", "sword", "bow")  # items of the inventory that are a single number
ORE_ODDS, LEVEL_ODDS = (0.3, 0.3, 0.15, 0.125, 0.125), (0.4, 0.3, 0.2, 0.1)


@loosely
def begin(key):
    """Return the first state of craftax for a raw key (uint32 words)."""
    return strong(PACKAGE.reset_env(key, PARAMS)[1])


@loosely
def light(time, params=PARAMS):
    """Return craftax's light level at the time step `time`."""
    return jnp.asarray(calculate_light_level(time, params), jnp.float32)


def params_of(params):
    """Convert our params to craftax's."""
    names = ("day_length", "mob_despawn_distance", "max_attribute", "god_mode", "always_diamond")
    named = {name: getattr(params, name) for name in names}
    return PARAMS.replace(max_timesteps=params.max_steps_in_episode, **named)


@loosely
def step(key, state, action, params=PARAMS):
    """Step craftax; return `(obs, state, reward, done)`, draws, and a flag.

    With these draws, a step of our game has the same outcome. The flag is True if our code would
    put a new mob on another cell, given the number that craftax drew for the cell.
    """
    choices = Choices()
    with choices.noted():
        obs, after, reward, done, _ = PACKAGE.step_env(key, state, action, params)
    draws = draws_of(key)
    places = [choices.place(i, draws.place[role]) for i, role in enumerate(APPEARING)]
    place = {role: given for role, (given, _) in zip(APPEARING, places, strict=True)}
    wrong = jnp.stack([far for _, far in places]).any()
    outputs = jnp.asarray(obs, jnp.float32), strong(after), jnp.asarray(reward, jnp.float32), done
    return outputs, draws._replace(place=place), wrong


def draws_of(key):
    """Return the draws of a step as craftax makes them from the step's key."""
    rest, key_do = jax.random.split(key)
    rest, key_book = jax.random.split(rest)
    rest, key_enchant = jax.random.split(rest)
    rest, key_mobs = jax.random.split(rest)
    key_spawn = jax.random.split(rest)[1]
    rest, key_sapling = jax.random.split(key_do)
    second = lambda key: jax.random.uniform(jax.random.split(key)[1])  # noqa: E731
    return Draws(
        jax.random.uniform(key_sapling),
        *draws_of_mobs(key_mobs, key_spawn, SLOTS),
        loot=loot_of(jax.random.split(rest)[1]),
        book=second(key_book),
        armour=second(key_enchant),
    )


def loot_of(carry):
    """Return the contents of a chest that craftax draws from a key."""

    def fresh():
        nonlocal carry
        carry, key = jax.random.split(carry)
        return key

    def happens(chance):
        return jax.random.uniform(fresh()) < chance

    def between(low, high, key=None):
        return jax.random.randint(fresh() if key is None else key, (), low, high)

    def among(odds):
        return jax.random.choice(fresh(), len(odds), p=jnp.array(odds))

    torches = jnp.where(happens(0.6), between(4, 8), 0)
    has_ore, ore = happens(0.6), among(ORE_ODDS)
    ore, amount = jnp.where(has_ore, ore, len(ORE_ODDS)), fresh()
    coal, iron = between(1, 4, amount), between(1, 3, amount)
    has_potion, potion, potions = happens(0.5), between(0, 6), between(1, 3)
    arrows = jnp.where(happens(0.25), between(1, 5), 0)
    has_tool, tool = happens(0.2), between(0, 2)
    pickaxe, sword = 1 + among(LEVEL_ODDS), 1 + among(LEVEL_ODDS)
    return Loot(
        torches=torches,
        ore=ore,
        coal=coal,
        iron=iron,
        potion=potion,
        potions=jnp.where(has_potion, potions, 0),
        arrows=arrows,
        pickaxe=jnp.where(has_tool & (tool == 0), pickaxe, 0),
        sword=jnp.where(has_tool & (tool == 1), sword, 0),
    )


def from_craftax(theirs):
    """Convert a state of craftax to a state of this library."""
    return ENV.from_upstream(theirs)


def level_of(theirs):
    """Convert a first state of craftax to a level of this library."""
    return FullLevel(
        map=theirs.map.astype(jnp.uint8),
        items=theirs.item_map.astype(jnp.uint8),
        light=theirs.light_map,
        down_ladders=theirs.down_ladders,
        up_ladders=theirs.up_ladders,
        potion_mapping=theirs.potion_mapping,
    )


def fields(theirs):
    """Return a dict of the values of a craftax state that must equal the values of our state.

    Values that our state clips are clipped here too: kills, ages of plants, cooldowns, the timer of
    the boss fight, and positions. The health of dead mobs is replaced by 0, and the light by
    whether a cell is lit.
    """
    kinds = [f"{kind}s" for kind in FLYING.values()]
    named = {
        name: value
        for name, value in theirs.__dict__.items()
        if name not in {"state_rng", "fractal_noise_angles", "inventory", "light_map"}
        and name not in {*KINDS.values(), *kinds}
    }
    named |= {f"inventory.{name}": value for name, value in theirs.inventory.__dict__.items()}
    named["lit"] = theirs.light_map > 0.05
    named["monsters_killed"] = jnp.minimum(theirs.monsters_killed, 63)
    named["growing_plants_age"] = jnp.minimum(theirs.growing_plants_age, (1 << 14) - 1)
    timer = "boss_timesteps_to_spawn_this_round"
    named[timer] = jnp.maximum(named[timer], 0)
    for kind in (*KINDS.values(), *kinds):
        slots = getattr(theirs, kind)
        named[f"{kind}.mask"], named[f"{kind}.type_id"] = slots.mask, slots.type_id
        named[f"{kind}.position"] = slots.position.clip(-BESIDE, 127 - BESIDE)
        if kind in KINDS.values():
            named[f"{kind}.health"] = jnp.where(slots.mask, slots.health, 0)
            named[f"{kind}.attack_cooldown"] = jnp.maximum(slots.attack_cooldown, 0)
    return named


def ours_as_fields(ours, params=None):
    """Return the values of our state, under the names that `fields` gives to craftax's values."""
    params = ENV.default_params if params is None else params
    world = ENV.world(ours)
    words = ours.floors.at[world.floor].set(jnp.stack(floor_words(FULL, world)))
    each = jax.vmap(reader(world))(jnp.arange(9, dtype=jnp.int32), words, ours.map)
    bits = np.arange(len(FULL.achievements))
    earned = jnp.stack(world.earned)[bits // EARNED_BITS] >> (bits % EARNED_BITS) & 1
    stack = lambda values: jnp.stack(list(values))  # noqa: E731
    charms = list(world.charms.values())
    return {
        **each,
        "player_position": stack((world.row, world.column)),
        "player_level": world.floor,
        "player_direction": world.facing,
        "is_sleeping": world.sleeping,
        "is_resting": world.resting,
        **{f"player_{name}": world.vitals[name] for name in ("health", *VITALS)},
        **{
            f"player_{name}": world.counters[name].astype(jnp.float32) / pace
            for name, pace in COUNTERS.items()
        },
        "player_recover_mana": world.mana_counter,
        **{f"player_{name}": world.traits[name] for name in TRAITS},
        **{f"inventory.{name}": world.items[name] for name in SINGLE},
        "inventory.armour": stack(world.items[name] for name in ARMOUR),
        "inventory.potions": stack(world.items[name] for name in POTIONS),
        "growing_plants_positions": jnp.stack([world.plants.row, world.plants.column], -1),
        "growing_plants_age": world.plants.age,
        "growing_plants_mask": world.plants.planted,
        "potion_mapping": stack(world.effects[colour] for colour in COLOURS),
        "learned_spells": stack(world.spells.values()),
        "sword_enchantment": charms[0],
        "bow_enchantment": charms[1],
        "armour_enchantments": stack(charms[2:]),
        "boss_progress": world.boss["progress"],
        "boss_timesteps_to_spawn_this_round": world.boss["timer"],
        "light_level": sight.light(ours.time, params.day_length),
        "achievements": earned != 0,
        "timestep": ours.time,
    }


def reader(world):
    """Return a function that computes the fields of one floor.

    The arguments of the function are the floor's index, the words into which the floor's state is
    packed, and the floor's map.
    """
    rows, columns = jnp.asarray(np.indices((48, 48), np.int32))

    def read(number, words, cells):
        kept = of_floor(FULL, SLOTS, iter([words[i] for i in range(words.shape[0])]))
        here = world._replace(**kept, floor=number)
        cells = cells.astype(jnp.int32)
        named = {
            "map": cells & 63,
            "item_map": lies(FULL, here, cells, rows, columns),
            "lit": cells >> 7 != 0,
            "monsters_killed": here.kills,
            "chests_opened": here.opened,
            "mob_map": jnp.zeros((48, 48), jnp.bool_),
        }
        for way in ("down", "up"):
            ladder = [here.stairs[f"{way}_row"], here.stairs[f"{way}_column"]]
            named[f"{way}_ladders"] = jnp.stack(ladder)
        column = lambda slots, name: jnp.stack([getattr(s, name) for s in slots])  # noqa: E731
        groups = {KINDS[role]: slots for role, slots in here.mobs.items()}
        for slots in groups.values():
            for m in slots:
                named["mob_map"] = named["mob_map"].at[m.row, m.column].max(m.alive)
        for name, kind in FLYING.items():
            groups[f"{kind}s"] = slots = getattr(here, name)
            ways = [column(slots, "d_row"), column(slots, "d_column")]
            named[f"{kind}_directions"] = jnp.stack(ways, -1)
        for kind, slots in groups.items():
            named[f"{kind}.mask"], named[f"{kind}.type_id"] = (
                column(slots, name) for name in ("alive", "type")
            )
            named[f"{kind}.position"] = jnp.stack(
                [column(slots, "row"), column(slots, "column")], -1
            )
            if kind in KINDS.values():
                health = column(slots, "health")
                named[f"{kind}.health"] = jnp.where(column(slots, "alive"), health, 0)
                named[f"{kind}.attack_cooldown"] = column(slots, "cooldown")
        return named

    return read
