"""The fight against the necromancer on the boss floor.

The necromancer is vulnerable after each wave of mobs; eight hits, each after a wave, defeat it.
"""

from typing import Any

import jax.numpy as jnp

from .harm import is_boss_floor
from .state import World, one, unlock
from .step import Moment
from .tables import Achievement, Action, Block

WAVES = 8
WAVE_STEPS = 7  # number of steps in a wave; mobs appear only during a wave


def fight(moment: Moment) -> Moment:
    """If the action is DO, hit the necromancer if it is ahead and vulnerable.

    A hit starts the next wave. Each step on the boss floor also reduces the number of steps left in
    the current wave by 1.
    """
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
    """Return whether the necromancer can be hit.

    It can be hit if the current wave is over and no live melee or ranged mob is on the floor.
    """
    alone = world.boss["timer"] <= 0
    for mob in (*world.mobs["melee"], *world.mobs["ranged"]):
        alone = alone & ~mob.alive
    return alone
