"""Blows of the player at mobs."""

import functools
import operator
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from ..core.bits import kept
from ..core.settle import settled
from .body import fed
from .state import Mob, World, unlock
from .step import Moment
from .tables import ROLES, Action, Rules


def strike(moment: Moment) -> Moment:
    """DO at a mob ahead."""
    does, front = moment.action == Action.DO, moment.front
    blow = damage(moment.rules, moment.world)
    world, hit = attack(moment.rules, moment.world, (front.row, front.column), blow, does)
    return moment._replace(world=world, hit=hit)


def revive(moment: Moment) -> Moment:
    """Upstream's quirk in Classic: any DO calls back to life every slot that still has health."""
    does, world = moment.action == Action.DO, moment.world
    mobs = {
        role: tuple(m._replace(alive=jnp.where(does, m.health > 0, m.alive)) for m in slots)
        for role, slots in world.mobs.items()
    }
    return moment._replace(world=world._replace(mobs=mobs))


def damage(rules: Rules, world: World) -> Int32[Array, ""]:
    """Damage of a blow. Upstream's quirk in Classic: it grows with the number of swords."""
    most = jnp.int32(1)
    for weapon in rules.weapons:
        most = jnp.maximum(most, weapon.damage * world.items[weapon.item])
    return most


def attack(
    rules: Rules, world: World, cell: tuple[Array, Array], blow: Array, when: Array
) -> tuple[World, Bool[Array, ""]]:
    """Hit the mobs on a cell, the first live one of each role; also return whether there was one.

    What is killed is eaten, where it can be.
    """
    hits = kept(*((hit, 1) for hit in _hits(world, cell, when)))
    rest, mobs, killed_any = iter(hits), dict(world.mobs), jnp.zeros((), jnp.bool_)
    for role in ROLES:
        after, kills = _struck(world.mobs[role], rest, blow)
        mobs[role] = after
        killed = settled(functools.reduce(operator.or_, kills))
        killed_any = killed_any | killed
        world = _reaped(rules, world, role, killed, kills)
    for role in ROLES:  # the cell of a dead mob is seen as free, whoever else is on it
        mobs[role] = tuple(
            m._replace(marked=m.marked & ~(killed_any & _is_at(m, cell))) for m in mobs[role]
        )
    return world._replace(mobs=mobs), functools.reduce(operator.or_, hits)


def _hits(world: World, cell: tuple[Array, Array], when: Array) -> list[Array]:
    """For each slot whether it is hit: the first live one of its role on the cell."""
    hits = []
    for role in ROLES:
        earlier = jnp.zeros((), jnp.bool_)
        for mob in world.mobs[role]:
            here = when & mob.alive & _is_at(mob, cell)
            hits.append(here & ~earlier)
            earlier = earlier | here
    return hits


def _struck(slots: tuple[Mob, ...], hits: Any, blow: Array) -> tuple[tuple[Mob, ...], list[Array]]:
    """Slots of a role after a blow, and which it killed."""
    after, kills = [], []
    for mob in slots:
        hit = next(hits)
        health = jnp.where(hit, jnp.maximum(mob.health - blow, 0), mob.health)
        kills.append(hit & (health <= 0))
        after.append(mob._replace(health=health, alive=mob.alive & ~kills[-1]))
    return tuple(after), kills


def _reaped(rules: Rules, world: World, role: str, killed: Array, kills: list[Array]) -> World:
    """What killing one of a role is worth."""
    rows = rules.types(role)
    for type, row in enumerate(rows):
        dead = killed
        if len(rows) > 1:
            of_it = [k & (m.type == type) for k, m in zip(kills, world.mobs[role], strict=True)]
            dead = functools.reduce(operator.or_, of_it)
        world = unlock(world, row.achievement, dead)
        if row.food:
            world = fed(rules, world, "food", "hunger", jnp.where(dead, row.food, 0))
    return world


def _is_at(mob: Mob, cell: tuple[Array, Array]) -> Bool[Array, ""]:
    return (mob.row == cell[0]) & (mob.column == cell[1])
