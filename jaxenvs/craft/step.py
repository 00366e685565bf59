"""One step of the game: the stages in upstream's order."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float32, UInt8

from . import mobs, player
from .chance import Draws
from .ground import Ground
from .spawn import spawn
from .state import World
from .tables import RIPE_AGE, Action, Block, Rules


def advance(
    rules: Rules,
    cells: UInt8[Array, "size size"],
    world: World,
    action: Array,
    draws: Draws,
    params: Any,
    light: Float32[Array, ""],
    reach: int,
) -> tuple[UInt8[Array, "size size"], World]:
    """Return the map and the world after an action; `light` is that of the state before."""
    action = jnp.where(world.sleeping, Action.NOOP, action)
    ground = Ground(cells)
    world = player.turn(world, action)
    front = player.look(ground, world)
    world, hit = player.strike(rules, world, front, action)
    deed = player.choose(rules, world, front, action, hit, draws.sapling)
    ground, world = player.do(rules, ground, world, front, deed)
    world = player.move(rules, world, front, action)
    distance = params.mob_despawn_distance
    ground, world = mobs.move_all(rules, ground, world, draws, distance)
    # Upstream ripens plants after mobs have appeared: these never appear on a plant.
    plants = world.plants
    age = jnp.where(plants.planted, plants.age + 1, 0)
    world = world._replace(plants=plants._replace(age=age))
    cells = ground.written(plants.row, plants.column, Block.RIPE_PLANT, age >= RIPE_AGE)
    # From here on only the new map is read: a read of the old one would need a copy of it.
    in_lava = Ground(cells).block(world.row, world.column) == Block.LAVA
    dark = (1 - light) * (1 - light)
    chances = {
        "cow": params.spawn_cow_chance,
        "zombie": params.spawn_zombie_base_chance + params.spawn_zombie_night_chance * dark,
        "skeleton": params.spawn_skeleton_chance,
    }
    health = {
        "cow": params.cow_health,
        "zombie": params.zombie_health,
        "skeleton": params.skeleton_health,
    }
    world = spawn(rules, cells, world, draws, chances, health, distance, reach)
    world = player.live(rules, world, action)
    items = {name: jnp.minimum(count, rules.most) for name, count in world.items.items()}
    left = jnp.where(in_lava, 0, jnp.maximum(world.vitals["health"], 0))
    return cells, world._replace(items=items, vitals={**world.vitals, "health": left})
