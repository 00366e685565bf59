"""The necromancer of the last floor: eight waves of mobs, and a blow after each."""

from typing import Any

import jax.numpy as jnp

from .harm import is_boss_floor
from .state import World, one, unlock
from .step import Moment
from .tables import Achievement, Action, Block

WAVES = 8
WAVE_STEPS = 7  # of a wave, in which mobs appear


def fight(moment: Moment) -> Moment:
    """Hit the necromancer between two waves."""
    rules, world, front = moment.rules, moment.world, moment.front
    here = is_boss_floor(rules, world)
    hits = (moment.action == Action.DO) & (front.block == Block.NECROMANCER)
    hits = hits & here & is_vulnerable(world)
    progress = world.boss["progress"] + one(hits)
    timer = jnp.where(hits, WAVE_STEPS, world.boss["timer"])
    timer = jnp.maximum(timer - one(here), 0)
    seen = hits & front.inside & ~moment.hit
    world = unlock(world, Achievement.DAMAGE_NECROMANCER, seen)
    world = unlock(world, Achievement.DEFEAT_NECROMANCER, progress >= WAVES)
    return moment._replace(world=world._replace(boss={"progress": progress, "timer": timer}))


def is_vulnerable(world: World) -> Any:
    """Whether the floor has no melee and no ranged mob, and the wave is over."""
    alone = world.boss["timer"] <= 0
    for mob in (*world.mobs["melee"], *world.mobs["ranged"]):
        alone = alone & ~mob.alive
    return alone
