"""Conversion of states of Craftax 1.6.1 to states of Craft, the reimplementation in this package.

States of both editions, Craftax-Classic and the full game, can be converted. The conversion lets
policies trained on Craft act in Craftax. This module does not import `craftax`.
"""

from collections.abc import Iterable
from typing import Any

import jax.numpy as jnp
import numpy as np

from .full_rows import ARMOUR, POTIONS
from .ground import cells_of
from .state import EARNED_BITS, Mob, Plants, Projectile, World, floor_words, of_floor
from .tables import ROLES, VITALS

# Craftax's names of the fields that store mobs and projectiles, by the names in this package. The
# names in FLYING lack their endings: `s` for the projectiles, `_directions` for their directions.
CLASSIC_KINDS = {"melee": "zombies", "passive": "cows", "ranged": "skeletons"}
KINDS = {role: f"{role}_mobs" for role in ROLES}
FLYING = {"projectiles": "mob_projectile", "missiles": "player_projectile"}
COUNTERS = ("recover", "hunger", "thirst", "fatigue")


def from_craftax(env: Any, state: Any) -> Any:
    """Convert a state of Craftax to a state of `env`, a Craft environment of the same edition.

    `state` is a single `EnvState` of Craftax, which may be traced; convert a batch by `jax.vmap`.
    Craftax's random key is dropped, and with it the noise that Craftax draws from the key in
    pictures of the night. Raises TypeError for a state of the other edition.
    """
    full = hasattr(state, "player_level")
    if full != env.rules.is_full:
        theirs, ours = ("the full game", "Classic")[:: 1 if full else -1]
        raise TypeError(f"the state belongs to {theirs}, but {env.name} is {ours}")
    return _full(env, state) if full else _classic(env, state)


def _classic(env: Any, theirs: Any) -> Any:
    marks, type = theirs.mob_map, jnp.int32(0)

    def mob(slots: Any, i: int) -> Mob:
        found = _mob(slots, i, jnp.maximum(slots.health[i], 0), type)
        return found._replace(marked=found.alive & marks[found.row, found.column])

    arrows, directions = theirs.arrows, theirs.arrow_directions
    kinds = {name: getattr(theirs, field) for name, field in CLASSIC_KINDS.items()}
    bits = jnp.arange(len(env.rules.achievements), dtype=jnp.int32)
    world = World(
        row=theirs.player_position[0],
        column=theirs.player_position[1],
        facing=theirs.player_direction,
        sleeping=theirs.is_sleeping,
        vitals={name: getattr(theirs, f"player_{name}") for name in VITALS},
        counters=_counters(theirs, env.rules.pace),
        items={name: getattr(theirs.inventory, name) for name in env.rules.items},
        earned=((theirs.achievements.astype(jnp.int32) << bits).sum(dtype=jnp.int32),),
        mobs={
            name: tuple(mob(slots, i) for i in range(len(slots.mask)))
            for name, slots in kinds.items()
        },
        projectiles=tuple(
            _projectile(arrows, directions, i, type) for i in range(len(arrows.mask))
        ),
        plants=_plants(theirs),
    )
    return env.packed(theirs.timestep, theirs.map.astype(jnp.uint8), world)


def _full(env: Any, theirs: Any) -> Any:
    start = env.new_world(theirs.down_ladders[0], theirs.up_ladders[0], theirs.potion_mapping)
    floors = range(theirs.map.shape[0])
    words = jnp.stack(
        [jnp.stack(floor_words(env.rules, _on_floor(theirs, start, i))) for i in floors]
    )
    here = words[theirs.player_level]
    inventory, bits = theirs.inventory, np.arange(len(env.rules.achievements))
    flags = theirs.achievements.astype(jnp.int32)
    earned = [
        (jnp.where(bits // EARNED_BITS == word, flags, 0) << (bits % EARNED_BITS)).sum()
        for word in range(len(start.earned))
    ]
    charms = (theirs.sword_enchantment, theirs.bow_enchantment, *theirs.armour_enchantments)
    world = start._replace(
        **of_floor(env.rules, env.slots, iter([here[i] for i in range(here.shape[0])])),
        row=theirs.player_position[0],
        column=theirs.player_position[1],
        facing=theirs.player_direction,
        sleeping=theirs.is_sleeping,
        resting=theirs.is_resting,
        floor=theirs.player_level,
        vitals={name: getattr(theirs, f"player_{name}") for name in start.vitals},
        counters=_counters(theirs, env.rules.pace),
        traits={name: getattr(theirs, f"player_{name}") for name in start.traits},
        items=_items(inventory, start.items),
        earned=tuple(word.astype(jnp.int32) for word in earned),
        spells=dict(zip(start.spells, theirs.learned_spells, strict=True)),
        charms=dict(zip(start.charms, charms, strict=True)),
        boss={
            "progress": theirs.boss_progress,
            "timer": jnp.maximum(theirs.boss_timesteps_to_spawn_this_round, 0),
        },
        mana_counter=theirs.player_recover_mana,
        plants=_plants(theirs),
    )
    cells = cells_of(theirs.map, theirs.item_map, theirs.light_map)
    light = env.kept_light(theirs.light_map)
    return env.packed(theirs.timestep, cells, world, floors=words, light=light)


def _on_floor(theirs: Any, world: World, floor: int) -> World:
    """Return `world` with the values that Craftax's state `theirs` stores for one floor.

    These are its mobs, projectiles and ladders, the number of monsters killed on the floor, and
    whether the player has opened a chest there.
    """

    def mob(slots: Any, i: int) -> Mob:
        at = floor, i
        return _mob(slots, at, slots.health[at], slots.type_id[at])

    def projectile(slots: Any, directions: Any, i: int) -> Projectile:
        at = floor, i
        return _projectile(slots, directions, at, slots.type_id[at])

    kinds = {role: getattr(theirs, kind) for role, kind in KINDS.items()}
    flying = {
        name: (getattr(theirs, f"{kind}s"), getattr(theirs, f"{kind}_directions"))
        for name, kind in FLYING.items()
    }
    stairs = (*theirs.down_ladders[floor], *theirs.up_ladders[floor])
    return world._replace(
        mobs={
            role: tuple(mob(slots, i) for i in range(slots.mask.shape[1]))
            for role, slots in kinds.items()
        },
        **{
            name: tuple(projectile(*given, i) for i in range(given[0].mask.shape[1]))
            for name, given in flying.items()
        },
        stairs=dict(zip(world.stairs, stairs, strict=True)),
        kills=theirs.monsters_killed[floor],
        opened=theirs.chests_opened[floor],
    )


def _mob(slots: Any, at: Any, health: Any, type: Any) -> Mob:
    """Return the mob that Craftax's arrays store at the index `at`."""
    row, column = slots.position[at]
    cooldown, alive = jnp.maximum(slots.attack_cooldown[at], 0), slots.mask[at]
    return Mob(row, column, health, cooldown, type, alive, marked=alive)


def _projectile(slots: Any, directions: Any, at: Any, type: Any) -> Projectile:
    (row, column), (d_row, d_column) = slots.position[at], directions[at]
    return Projectile(row, column, d_row, d_column, type, slots.mask[at])


def _items(inventory: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the count or level of each item; Craftax stores armour and potions in arrays."""
    arrays = {
        **dict(zip(ARMOUR, inventory.armour, strict=True)),
        **dict(zip(POTIONS, inventory.potions, strict=True)),
    }
    return {name: arrays[name] if name in arrays else getattr(inventory, name) for name in names}


def _counters(theirs: Any, pace: int) -> dict[str, Any]:
    """Convert Craftax's counters of recovery, hunger, thirst and fatigue.

    Craftax's counters are floats that grow by 1 per step; ours are integers that grow by `pace`.
    """
    return {
        name: jnp.round(pace * getattr(theirs, f"player_{name}")).astype(jnp.int32)
        for name in COUNTERS
    }


def _plants(theirs: Any) -> Plants:
    return Plants(
        *theirs.growing_plants_positions.T,
        age=theirs.growing_plants_age,
        planted=theirs.growing_plants_mask,
    )
