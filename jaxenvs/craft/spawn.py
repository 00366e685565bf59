"""Spawning of mobs: in each step, at most one new mob of each role appears near the player.

The mob's cell is drawn from the cells that the rules of the mob's type allow.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from ..core.bits import any_of
from . import reach
from .compiler.once import once
from .harm import is_boss_floor
from .state import Mob, changed, mobs_of
from .step import Moment
from .tables import APPEARING


class Odds(NamedTuple):
    """Probability, health and type of the mob that may appear in a step, for each role."""

    chances: dict[str, Array]  # for each role, probability that a mob appears
    health: dict[str, Array]  # for each role, health in points with which the mob appears
    types: dict[str, Any]  # for each role, type of the mob: an index into `Rules.types(role)`


def appear(moment: Moment, odds: Callable[[Moment], Odds]) -> Moment:
    """Let at most one mob of each role appear near the player, if the role has an empty slot.

    `odds` computes the `Odds` of the step: for each role, the probability that a mob appears, and
    the health and type of the mob.
    """
    rules, world, draws = moment.rules, moment.world, moment.draws
    given, table = odds(moment), (reach.disc if rules.is_full else reach.diamond)(moment.reach)
    room = {role: any_of(~mob.alive for mob in world.mobs[role]) for role in APPEARING}
    appears = {r: room[r] & (draws.appears[r] < given.chances[r]) for r in APPEARING}
    grounds, boss = reach.grounds(moment, table, any_of(appears.values())), None
    if rules.is_full:
        boss = is_boss_floor(rules, world)
    taken = [table.number(world, mob, mob.marked) for mob in mobs_of(world)]
    for role in APPEARING:
        slots, type = world.mobs[role], jnp.asarray(given.types[role], jnp.int32)
        siege = boss if role != "passive" else None
        allowed = reach.allowed(rules, role, type, table, grounds, taken, siege)
        number = reach.chosen(allowed, draws.place[role])
        number = once(jnp.where(appears[role], number, -1))
        row, column = table.cell(world, number)
        new = slots[0]._replace(row=row, column=column, health=given.health[role], type=type)
        after = _filled(slots, new, number >= 0, ~room[role])
        world = world._replace(mobs={**world.mobs, role: after})
        # Cell on which no mob of a later role may appear: the cell of the new mob, if one has
        # appeared. If all slots of this role are alive, no mob has appeared, but `_filled` marks
        # the mob in the first slot, so its cell counts as occupied.
        first = table.number(world, slots[0], ~room[role])
        taken.append(jnp.maximum(number, first))
    return moment._replace(world=world)


def _filled(slots: tuple[Mob, ...], new: Mob, appears: Array, full: Array) -> tuple[Mob, ...]:
    """Put a new mob into the first dead slot if `appears` is True; the slot keeps its cooldown.

    Craftax's quirks: the first dead slot gets the type of `new` even if no mob appears. If all
    slots are alive (`full`), the first slot gets the type of `new`, and its mob is marked again,
    see `Mob.marked`.
    """
    after, wanted, first = [], appears, jnp.ones((), jnp.bool_)
    for mob in slots:
        takes, retypes = wanted & ~mob.alive, first & ~mob.alive
        wanted, first = wanted & mob.alive, first & mob.alive
        mob = changed(mob, takes, row=new.row, column=new.column, health=new.health)
        mob = changed(mob, retypes, type=new.type)
        after.append(mob._replace(alive=mob.alive | takes, marked=mob.marked | takes))
    type = jnp.where(full, new.type, after[0].type)
    after[0] = after[0]._replace(marked=after[0].marked | full, type=type)
    return tuple(after)
