"""What flies: shot by a mob, a cell a step until it hits or is stopped."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from ..core.bits import kept
from .body import hurt
from .crowd import place_of
from .ground import is_in
from .state import Mob, Projectile
from .step import Moment
from .tables import Block, of_type


def fly(moment: Moment) -> Moment:
    """Let every projectile fly one cell: it hits the player, breaks a table or a furnace, ends at
    what is solid and at mobs, which it does not hurt."""
    for slot in range(len(moment.world.projectiles)):
        moment = _fly(moment, slot)
    return moment


def shot(
    slots: tuple[Projectile, ...], mob: Mob, type: Any, aim: tuple[Array, Array], when: Array
) -> tuple[Projectile, ...]:
    """Projectiles with a new one, from the mob's cell, in the first free slot."""
    after = []
    for one in slots:
        takes = when & ~one.alive
        when = when & one.alive
        after.append(
            Projectile(
                row=jnp.where(takes, mob.row, one.row),
                column=jnp.where(takes, mob.column, one.column),
                d_row=jnp.where(takes, aim[0], one.d_row),
                d_column=jnp.where(takes, aim[1], one.d_column),
                type=jnp.where(takes, type, one.type),
                alive=one.alive | takes,
            )
        )
    return tuple(after)


def _fly(moment: Moment, slot: int) -> Moment:
    rules, ground, world = moment.rules, moment.ground, moment.world
    one = world.projectiles[slot]
    row, column = one.row + one.d_row, one.column + one.d_column
    block = ground.block(row, column)
    at_player = (row == world.row) & (column == world.column)
    hits = one.alive & at_player
    stopped = is_in(block, rules.solid - rules.overflown)
    stopped = stopped | at_player | moment.crowd.sees(place_of(row, column))
    breaks = one.alive & is_in(block, rules.broken)
    flies = one.alive & ground.inside(row, column) & ~stopped
    flies, hits, breaks = kept((flies, 1), (hits, 1), (breaks, 1))
    after = one._replace(row=row, column=column, alive=flies)
    points = of_type([row.damage for row in rules.projectiles], one.type)
    world = hurt(world, jnp.where(hits, points, 0), hits)
    flying = (*world.projectiles[:slot], after, *world.projectiles[slot + 1 :])
    ground = ground.put(row, column, Block.PATH, breaks)
    return moment._replace(ground=ground, world=world._replace(projectiles=flying))
