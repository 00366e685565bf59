"""The player's attacks on mobs, and the food and achievements that the player gains by kills."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.bits import any_of
from . import harm
from .body import fed
from .compiler.once import once, once_joined
from .state import MOST_KILLS, Mob, World, one, unlock_of
from .step import Moment
from .tables import ROLES, Action, Rules, of_type


def strike(moment: Moment) -> Moment:
    """Hit the mob on the cell ahead if the action is DO."""
    does, front = moment.action == Action.DO, moment.front
    blow = damage(moment.rules, moment.world)
    cell = front.row, front.column
    world, hit = attack(moment.rules, moment.world, cell, blow, does, eats=True)
    return moment._replace(world=world, hit=hit)


def revive(moment: Moment) -> Moment:
    """If the action is DO, make every mob slot with positive health alive.

    This is a quirk of Craftax-Classic. A mob that vanished far from the player keeps its health, so
    it comes back. An empty slot stores a health too; if that health is positive, the slot becomes a
    live mob.
    """
    does, world = moment.action == Action.DO, moment.world
    mobs = {
        role: tuple(m._replace(alive=jnp.where(does, m.health > 0, m.alive)) for m in slots)
        for role, slots in world.mobs.items()
    }
    return moment._replace(world=world._replace(mobs=mobs))


def damage(rules: Rules, world: World) -> harm.Blow:
    """Return the damage of the player's blow, with the best weapon or the bare hand.

    Craftax's quirk in Classic: the damage of a sword is multiplied by the number of such swords
    that the player owns.
    """
    if rules.is_full:
        return _sword_damage(rules, world)
    most = jnp.int32(1)
    for weapon in rules.weapons:
        most = jnp.maximum(most, weapon.damage * world.items[weapon.item])
    return most


def _sword_damage(rules: Rules, world: World) -> harm.Blow:
    """Return the damage of the player's sword in the full game, as [physical, fire, ice].

    The level of the sword gives the base damage. Strength raises the physical damage; intelligence
    raises the fire or ice damage of an enchanted sword.
    """
    base = of_type([np.float32(weapon.damage) for weapon in rules.weapons], world.items["sword"])
    strong, wise = (
        (world.traits[name] - 1).astype(jnp.float32) for name in ("strength", "intelligence")
    )
    magic = 1 + np.float32(0.05) * wise
    half = base * np.float32(0.5)
    kinds = [jnp.where(world.charms["sword"] == kind, half, 0) for kind in (harm.FIRE, harm.ICE)]
    return [base * (1 + np.float32(0.25) * strong), *(points * magic for points in kinds)]


def attack(
    rules: Rules,
    world: World,
    cell: tuple[Array, Array],
    blow: harm.Blow,
    when: Array,
    eats: bool,
) -> tuple[World, Bool[Array, ""]]:
    """Hit the mobs on a cell if `when` is True: the first live mob of each role.

    Return the world after the blow, and whether any mob was hit. If `eats` is False, killing a
    passive mob gives neither food nor an achievement.
    """
    hits = once_joined(*_hits(world, cell, when))
    rest, mobs, killed_any = iter(hits), dict(world.mobs), jnp.zeros((), jnp.bool_)
    monsters = killed_any
    for role in ROLES:
        after, kills, type = _struck(rules, role, world.mobs[role], rest, blow)
        mobs[role] = after
        killed = once(any_of(kills))
        killed_any = killed_any | killed
        if eats or role != "passive":
            world = _reaped(rules, world, role, killed, type)
        monsters = monsters | killed if role != "passive" else monsters
    if rules.is_full:
        world = world._replace(kills=jnp.minimum(world.kills + one(monsters), MOST_KILLS))
    # Craftax's quirk: if the blow killed a mob, all mobs on that cell lose `Mob.marked`, even mobs
    # that are still alive. Until they move, the player and other mobs can enter the cell.
    for role in ROLES:
        mobs[role] = tuple(
            m._replace(marked=m.marked & ~(killed_any & _is_at(m, cell))) for m in mobs[role]
        )
    return world._replace(mobs=mobs), any_of(hits)


def _hits(world: World, cell: tuple[Array, Array], when: Array) -> list[Array]:
    """Return, for each mob slot, whether it is hit.

    A slot is hit if `when` is True and its mob is the first live mob of its role on the cell.
    """
    hits = []
    for role in ROLES:
        earlier = jnp.zeros((), jnp.bool_)
        for mob in world.mobs[role]:
            here = when & mob.alive & _is_at(mob, cell)
            hits.append(here & ~earlier)
            earlier = earlier | here
    return hits


def _struck(
    rules: Rules, role: str, slots: tuple[Mob, ...], hits: Any, blow: harm.Blow
) -> tuple[tuple[Mob, ...], list[Array], Array]:
    """Apply a blow to the mob slots of one role.

    Return the new slots, whether each slot's mob was killed, and the type of the mob that was hit.
    """
    after, kills, hit = [], [], [next(hits) for _ in slots]
    type = any_of(jnp.where(h, mob.type, 0) for h, mob in zip(hit, slots, strict=True))
    points = harm.to_mob(rules, role, type, blow)
    for h, mob in zip(hit, slots, strict=True):
        health = jnp.where(h, jnp.maximum(mob.health - points, 0), mob.health)
        kills.append(h & (health <= 0))
        after.append(mob._replace(health=health, alive=mob.alive & ~kills[-1]))
    return tuple(after), kills, type


def _reaped(rules: Rules, world: World, role: str, killed: Array, type: Array) -> World:
    """If `killed` is True, record the achievement for killing a mob of `type`, and add its food."""
    rows = rules.types(role)
    world = unlock_of(world, [row.achievement for row in rows], type, killed)
    food = of_type([row.food for row in rows], type)
    if any(row.food for row in rows):
        world = fed(rules, world, "food", "hunger", jnp.where(killed, food, 0))
    return world


def _is_at(mob: Mob, cell: tuple[Array, Array]) -> Bool[Array, ""]:
    return (mob.row == cell[0]) & (mob.column == cell[1])
