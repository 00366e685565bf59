"""Interface to Craftax-Classic: conversion of states (both ways) and of random numbers.

The random numbers of craftax are converted to our draws. A name `theirs` stands for a state of
craftax, a name `ours` for a state of this library.
"""

import contextlib
import unittest.mock
from importlib.metadata import version

import jax
import jax.numpy as jnp
from craftax.craftax_classic.envs import craftax_state as theirs_state
from craftax.craftax_classic.envs.craftax_symbolic_env import CraftaxClassicSymbolicEnvNoAutoReset
from craftax.craftax_classic.game_logic import calculate_light_level

from jaxenvs.craft import CLASSIC, sight
from jaxenvs.craft.chance import Draws, Whims
from jaxenvs.craft.classic import BESIDE
from jaxenvs.craft.state import Slots
from jaxenvs.craft.tables import APPEARING, VITALS, Block
from jaxenvs.craft.terrain import TerrainDraws

assert version("craftax") == "1.6.1", "the rules are stated for craftax 1.6.1"

SLOTS = Slots()
COUNTERS = ("recover", "hunger", "thirst", "fatigue")
KINDS = {"melee": "zombies", "passive": "cows", "ranged": "skeletons"}
PACKAGE = CraftaxClassicSymbolicEnvNoAutoReset()
PARAMS = PACKAGE.default_params
INVENTORY = tuple(theirs_state.Inventory.__dataclass_fields__)


def loosely(function):
    """Wrap a function to use JAX's standard dtype promotion, because craftax mixes dtypes."""

    def call(*args):
        with jax.numpy_dtype_promotion("standard"):
            return function(*args)

    return call


def package(size, slots):
    """Return craftax's environment with the given map size and numbers of slots."""
    counts = {f"max_{kind}": getattr(slots, name) for name, kind in KINDS.items()}
    counts |= {"max_arrows": slots.projectile, "max_growing_plants": slots.plant}
    static = theirs_state.StaticEnvParams(map_size=(size, size), **counts)
    return CraftaxClassicSymbolicEnvNoAutoReset(static)


@loosely
def begin(key, package):
    """Return the first state of craftax's environment for a raw key (uint32 words)."""
    return strong(package.reset_env(key, PARAMS)[1])


@loosely
def reset(key, params=PARAMS):
    """Return craftax's first state for a raw key (uint32 words), draws, and a flag.

    From these draws, our code builds the same world. The flag is True if our code would put the
    guaranteed diamond on another cell, given the number that craftax drew for the cell.
    """
    choices = Choices()
    with choices.noted():
        state = strong(PACKAGE.reset_env(key, params)[1])
    angles, maps, diamond = terrain_draws_of(key)
    diamond, wrong = choices.place(0, diamond)
    return state, TerrainDraws(*angles, cells_of(maps, state.map), diamond), wrong


def strong(state):
    """Cast a state of craftax to the dtypes that a step returns."""
    as_int = lambda x: jnp.asarray(x, jnp.int32)  # noqa: E731
    as_float = lambda x: jnp.asarray(x, jnp.float32)  # noqa: E731

    def cast(leaf):
        given = jnp.asarray(leaf).dtype
        if given in (jnp.bool_, jnp.uint32):
            return jnp.asarray(leaf)
        return as_float(leaf) if jnp.issubdtype(given, jnp.floating) else as_int(leaf)

    return jax.tree.map(cast, state)


@loosely
def light(time, params=PARAMS):
    """Return craftax's light level at the time step `time`."""
    return jnp.asarray(calculate_light_level(time, params), jnp.float32)


def params_of(params):
    """Convert our params to craftax's, without the noise angles, which craftax draws itself."""
    named = {
        name: getattr(params, name) for name in PARAMS.__dataclass_fields__ if hasattr(params, name)
    }
    del named["fractal_noise_angles"]
    return PARAMS.replace(max_timesteps=params.max_steps_in_episode, **named)


class Choices:
    """Record of the cells that craftax chose by `jax.random.choice`."""

    def __init__(self):
        self.made = []

    @contextlib.contextmanager
    def noted(self):
        """Return a context in which `made` records the cells that `jax.random.choice` chooses."""
        choice = jax.random.choice

        def noting(key, a, shape=(), replace=True, p=None, **more):
            chosen = choice(key, a, shape, replace, p, **more)
            # Record only choices of a map cell; these are the choices with more than 99 options.
            if p is not None and p.shape[0] > 99:
                self.made.append((p > 0, jnp.reshape(chosen, ())))
            return chosen

        with unittest.mock.patch.object(jax.random, "choice", noting):
            yield

    def place(self, number, given):
        """Return a uniform draw with which our code makes choice `number` as craftax made it.

        `given` is craftax's own draw. In our code, each allowed cell has a range of draws of equal
        width; craftax adds up probabilities, with rounding errors. The result is `given` if it is
        well inside the range of craftax's cell, so that rounding errors cannot matter. Otherwise,
        the result is the middle of the range. Also return a flag: True if `given` is farther
        outside the range than a rounding error explains.
        """
        allowed, cell = self.made[number]
        count = allowed.sum(dtype=jnp.int32)
        rank = jnp.where(jnp.arange(allowed.shape[0]) < cell, allowed, False).sum(dtype=jnp.int32)
        middle = 1 - (rank + 0.5) / jnp.maximum(count, 1)
        place = count * (1 - given)
        off = (jnp.abs(place - (rank + 0.5)) > 0.49) & (count > 0)
        far = (jnp.abs(place - (rank + 0.5)) > 0.51) & (count > 0)
        return jnp.where(off, middle, given), far


@loosely
def step(key, state, action, params=PARAMS, package=PACKAGE):
    """Step craftax; return `(obs, state, reward, done)`, draws, and a flag.

    With these draws, a step of our game has the same outcome. The flag is True if our code would
    put a new mob on another cell, given the number that craftax drew for the cell.
    """
    choices = Choices()
    with choices.noted():
        obs, after, reward, done, _ = package.step_env(key, state, action, params)
    counts = {name: len(getattr(state, kind).mask) for name, kind in KINDS.items()}
    draws = draws_of(key, SLOTS._replace(**counts))
    places = [choices.place(i, draws.place[role]) for i, role in enumerate(APPEARING)]
    place = {role: given for role, (given, _) in zip(APPEARING, places, strict=True)}
    draws = draws._replace(place=place)
    wrong = jnp.stack([far for _, far in places]).any()
    return (obs, strong(after), jnp.asarray(reward, jnp.float32), done), draws, wrong


def draws_of(key, slots=SLOTS):
    """Return the draws of a step as craftax makes them from the step's key."""
    rest, key_do = jax.random.split(key)
    rest, key_mobs = jax.random.split(rest)
    sapling = jax.random.uniform(jax.random.split(key_do)[1])
    return Draws(sapling, *draws_of_mobs(key_mobs, jax.random.split(rest)[1], slots))


def draws_of_mobs(carry, key_spawn, slots):
    """Return the fields `whims`, `appears` and `place` of `Draws`: dicts by role of mobs.

    `carry` is craftax's key for the moves of mobs, `key_spawn` craftax's key for new mobs.
    """

    def uniform():
        nonlocal carry
        carry, key = jax.random.split(carry)
        return jax.random.uniform(key)

    def among(count):
        nonlocal carry
        carry, key = jax.random.split(carry)
        return jax.random.randint(key, (), 0, count, jnp.int32)

    carry = jax.random.split(carry)[0]
    zombies = []
    for _ in range(slots.melee):
        zombies.append((among(4), uniform(), uniform()))
        # craftax continues with the second key of this split, not with the first.
        carry = jax.random.split(carry)[1]
    carry = jax.random.split(carry)[0]
    cows = [among(8) for _ in range(slots.passive)]
    carry = jax.random.split(carry)[0]
    skeletons = [(among(4), uniform(), uniform()) for _ in range(slots.ranged)]
    carry = key_spawn
    spawns = [(uniform(), uniform()) for _ in range(3)]
    column = lambda rows: (jnp.stack(values) for values in zip(*rows, strict=True))  # noqa: E731
    whims = {
        "melee": Whims(*column(zombies)),
        "passive": Whims(jnp.stack(cows)),
        "ranged": Whims(*column(skeletons)),
    }
    chances, places = (
        dict(zip(APPEARING, them, strict=True)) for them in zip(*spawns, strict=True)
    )
    return whims, chances, places


@loosely
def terrain_draws_of(key, size=64):
    """Return the draws of a world as craftax makes them from the key of a reset.

    The three parts are the angles of the four noises; the draws of each cell for coal, iron,
    diamond and tree; and the draw that places the guaranteed diamond.
    """

    def next_key():
        nonlocal key
        key, drawn = jax.random.split(key)
        return drawn

    def angles(key, rows, columns):
        key = jax.random.split(jax.random.split(key)[1])[1]
        return jax.random.uniform(key, (rows + 1, columns + 1))

    water = angles(next_key(), size // 16, size // 16)
    next_key()
    mountain = angles(next_key(), size // 16, size // 16)
    path = angles(next_key(), size // 8, size // 2)
    next_key()
    ores = [jax.random.uniform(next_key(), (size, size)) for _ in range(3)]
    tree = angles(next_key(), size // 4, size // 4)
    trees = jax.random.uniform(key, (size, size))
    diamond = jax.random.uniform(next_key())
    return (water, mountain, path, tree), (*ores, trees), diamond


def cells_of(maps, blocks):
    """Return one draw per cell that gives the same ore or tree as craftax's four draws `maps`."""
    coal, iron, diamond, tree = maps
    ore = jnp.where(coal < 0.04, 0.02, jnp.where(iron < 0.03, 0.054, 0.071))
    is_ore = (coal < 0.04) | (iron < 0.03) | (diamond < 0.005)
    is_tree = (tree > 0.8) & ((blocks == Block.TREE) | ~is_ore)
    return jnp.where(is_tree, 0.9, jnp.where(is_ore, ore, 0.5)).astype(jnp.float32)


def to_craftax(env, ours, params=None):
    """Convert a state of this library to craftax's, with an arbitrary key for the night noise."""
    params = env.default_params if params is None else params
    world = env.world(ours)
    rows = lambda slots: jnp.stack([jnp.stack([s.row, s.column]) for s in slots])  # noqa: E731
    column = lambda slots, name: jnp.stack([getattr(s, name) for s in slots])  # noqa: E731
    mob_map = jnp.zeros(ours.map.shape, jnp.bool_)
    kinds = {}
    for name, field in KINDS.items():
        slots = world.mobs[name]
        for m in slots:
            mob_map = mob_map.at[m.row, m.column].max(m.marked)
        kinds[field] = theirs_state.Mobs(
            position=rows(slots),
            health=column(slots, "health"),
            mask=column(slots, "alive"),
            attack_cooldown=column(slots, "cooldown"),
        )
    none = jnp.zeros(len(world.projectiles), jnp.int32)
    directions = [jnp.stack([a.d_row, a.d_column]) for a in world.projectiles]
    bits = jnp.arange(len(CLASSIC.achievements), dtype=jnp.int32)
    return theirs_state.EnvState(
        map=ours.map.astype(jnp.int32),
        mob_map=mob_map,
        player_position=jnp.stack([world.row, world.column]),
        player_direction=world.facing,
        is_sleeping=world.sleeping,
        inventory=theirs_state.Inventory(**world.items),
        **{f"player_{name}": value for name, value in world.vitals.items()},
        **{f"player_{k}": v.astype(jnp.float32) / 2 for k, v in world.counters.items()},
        **kinds,
        arrows=theirs_state.Mobs(
            position=rows(world.projectiles),
            health=none,
            mask=column(world.projectiles, "alive"),
            attack_cooldown=none,
        ),
        arrow_directions=jnp.stack(directions),
        growing_plants_positions=jnp.stack([world.plants.row, world.plants.column], axis=-1),
        growing_plants_age=world.plants.age,
        growing_plants_mask=world.plants.planted,
        light_level=sight.light(ours.time, params.day_length),
        achievements=((world.earned[0] >> bits) & 1) != 0,
        state_rng=jax.random.PRNGKey(0),
        timestep=ours.time,
    )


def fields(state):
    """Return a dict of the values of a craftax state that must equal the values of our state.

    Values that our state clips are clipped here too: negative healths and cooldowns become 0, and
    the positions of arrows are clipped to the range that our state can store.
    """
    named = {
        "map": state.map,
        "mob_map": state.mob_map,
        "player_position": state.player_position,
        "player_direction": state.player_direction,
        "is_sleeping": state.is_sleeping,
        "light_level": state.light_level,
        "achievements": state.achievements,
        "timestep": state.timestep,
        "arrows.position": state.arrows.position.clip(-BESIDE, 255 - BESIDE),
        "arrows.mask": state.arrows.mask,
        "arrow_directions": state.arrow_directions,
        "growing_plants_positions": state.growing_plants_positions,
        "growing_plants_age": state.growing_plants_age,
        "growing_plants_mask": state.growing_plants_mask,
    }
    for name in (*VITALS, *COUNTERS):
        named[f"player_{name}"] = getattr(state, f"player_{name}")
    for name in INVENTORY:
        named[f"inventory.{name}"] = getattr(state.inventory, name)
    for kind in KINDS.values():
        slots = getattr(state, kind)
        named[f"{kind}.position"] = slots.position
        named[f"{kind}.mask"] = slots.mask
        named[f"{kind}.health"] = jnp.maximum(slots.health, 0)
        named[f"{kind}.attack_cooldown"] = jnp.maximum(slots.attack_cooldown, 0)
    return named
