"""Projectiles: each flies one cell per step until it hits something or a block stops it."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from . import harm
from .attack import attack
from .body import hurt
from .compiler.once import once, once_joined
from .crowd import place_of
from .ground import BLOCK_BITS, is_in
from .state import Mob, Projectile, World, changed
from .step import Moment
from .tables import Block, Rules

# Names of the projectiles that the player can shoot or cast.
ARROWS, SPELLS = ("arrow", "arrow2"), ("fireball", "iceball")


def fly(moment: Moment) -> Moment:
    """Move each mob's projectile by one cell.

    Mobs' projectiles hurt the player, and break tables and furnaces. They end at solid blocks and
    at mobs, but do not hurt mobs.
    """
    for slot in range(len(moment.world.projectiles)):
        moment = _fly(moment, slot)
    return moment


def hit(moment: Moment) -> Moment:
    """Move each of the player's projectiles by one cell.

    A projectile hits the mobs on the cell that it leaves. If there are none, it hits the mobs on
    the cell that it enters.
    """
    for slot in range(len(moment.world.missiles)):
        moment = _hit(moment, slot)
    return moment


def shot(
    slots: tuple[Projectile, ...],
    mob: Mob | World,
    type: Any,
    aim: tuple[Array, Array],
    when: Array,
) -> tuple[Projectile, ...]:
    """Return the slots after a shot: if `when` is True, the first free slot gets a projectile.

    `mob` is the shooter: a mob, or the player if it is a `World`. The projectile starts on the
    shooter's cell and flies in the direction `aim`, in (rows, columns) per step.
    """
    after = []
    for one in slots:
        takes = when & ~one.alive
        when = when & one.alive
        new = {"row": mob.row, "column": mob.column, "d_row": aim[0], "d_column": aim[1]}
        new = changed(one, takes, **new, type=type)
        after.append(new._replace(alive=one.alive | takes))
    return tuple(after)


def _fly(moment: Moment, slot: int) -> Moment:
    rules, ground, world = moment.rules, moment.ground, moment.world
    one = world.projectiles[slot]
    row, column = one.row + one.d_row, one.column + one.d_column
    cell = ground.cell(row, column)
    block = ground.block_of(cell)
    at_player = (row == world.row) & (column == world.column)
    starts = at_player
    # A mob's projectile hits the player if the cell that it would enter is the player's. In the
    # full game, it also hits if it is on the player's cell at the start of the step.
    if rules.is_full:
        starts = starts | ((one.row == world.row) & (one.column == world.column))
    hits = one.alive & starts
    stopped = is_in(block, rules.solid - rules.overflown)
    stopped = stopped | starts | moment.crowd.sees(place_of(row, column))
    breaks = one.alive & is_in(block, rules.broken)
    flies = one.alive & ground.inside(row, column) & ~stopped
    flies, hits, breaks = once_joined(flies, hits, breaks)
    after = one._replace(row=row, column=column, alive=flies)
    points = harm.to_player(rules, world, rules.projectiles, one.type, False)
    world = hurt(world, jnp.where(hits, points, 0), hits)
    flying = (*world.projectiles[:slot], after, *world.projectiles[slot + 1 :])
    cell = Block.PATH | (ground.marks_of(cell) << BLOCK_BITS)
    ground = ground.put(row, column, cell, breaks)
    return moment._replace(ground=ground, world=world._replace(projectiles=flying))


def _hit(moment: Moment, slot: int) -> Moment:
    rules, ground, world = moment.rules, moment.ground, moment.world
    one = world.missiles[slot]
    row, column = one.row + one.d_row, one.column + one.d_column
    blow = _aimed(rules, world, one.type)
    world, here = attack(rules, world, (one.row, one.column), blow, one.alive, eats=False)
    world, there = attack(rules, world, (row, column), blow, one.alive & ~here, eats=False)
    stopped = is_in(ground.block(row, column), rules.solid) | here | there
    flies = one.alive & ground.inside(row, column) & ~stopped
    after = one._replace(row=row, column=column, alive=once(flies))
    missiles = (*world.missiles[:slot], after, *world.missiles[slot + 1 :])
    return moment._replace(world=world._replace(missiles=missiles))


def _aimed(rules: Rules, world: World, type: Array) -> harm.Blow:
    """Return [physical, fire, ice] damage of a projectile of the player.

    Dexterity raises the damage of arrows, intelligence the damage of spells. An enchanted bow adds
    fire or ice damage to arrows.
    """
    blow = harm.by_type(rules.projectiles, type)
    is_arrow = is_in(type, [rules.shots[name] for name in ARROWS])
    half, charm = blow[0] * np.float32(0.5), world.charms["bow"]
    for kind in (harm.FIRE, harm.ICE):
        blow[kind] = blow[kind] + jnp.where(is_arrow & (charm == kind), half, 0)
    dexterity, intelligence = (
        (world.traits[name] - 1).astype(jnp.float32) for name in ("dexterity", "intelligence")
    )
    factor = jnp.where(is_arrow, 1 + np.float32(0.2) * dexterity, np.float32(1))
    is_spell = is_in(type, [rules.shots[name] for name in SPELLS])
    factor = jnp.where(is_spell, 1 + np.float32(0.5) * intelligence, factor)
    return [points * factor for points in blow]
