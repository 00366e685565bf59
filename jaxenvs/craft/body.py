"""Vitals of the player (Craftax's intrinsics): food, drink, energy, health and mana.

A counter for each vital changes in every step. When the counter exceeds a limit, the vital changes
by one point and the counter is reset to 0. In the full game, dexterity slows hunger, thirst and
fatigue. On the boss floor, the counters do not lower the vitals.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from .compiler.once import once_joined
from .harm import is_boss_floor
from .state import World, one, unlock
from .step import Moment
from .tables import Achievement, Action, Block, Need, Rules

# Limits of the recovery counter, in steps awake. The counter rises while the player has food, drink
# and energy, and falls otherwise. Above HEALS, the player gains a point of health; below -AILS, the
# player loses a point.
HEALS, AILS = 25, 15
GATHERS = 30  # a point of mana is gained when `World.mana_counter` exceeds this value


def sleep(moment: Moment) -> Moment:
    """Fall asleep if the action is SLEEP and energy is not full; wake up at full energy."""
    rules, world = moment.rules, moment.world
    rested = most(rules, world, "energy")
    tired = world.vitals["energy"] < rested
    asleep = world.sleeping | ((moment.action == Action.SLEEP) & tired)
    wakes = asleep & (world.vitals["energy"] >= rested)
    asleep, wakes = once_joined(asleep & ~wakes, wakes)
    world = unlock(world._replace(sleeping=asleep), Achievement.WAKE_UP, wakes)
    return moment._replace(world=world)


def rest(moment: Moment) -> Moment:
    """Start resting if the action is REST; stop at full health, or without food or drink."""
    world, full = moment.world, most(moment.rules, moment.world, "health")
    vitals = world.vitals
    rests = world.resting | ((moment.action == Action.REST) & (vitals["health"] < full))
    ends = (vitals["health"] >= full) | (vitals["food"] <= 0) | (vitals["drink"] <= 0)
    return moment._replace(world=world._replace(resting=rests & ~ends))


def live(moment: Moment) -> Moment:
    """Advance the counters of hunger, thirst, fatigue and recovery by one step.

    If a counter exceeds its limit, a vital changes by one point and the counter is reset to 0.
    """
    rules, world = moment.rules, moment.world
    vitals, counters, asleep = dict(world.vitals), dict(world.counters), world.sleeping
    for need in rules.needs:
        _grow(rules, world, need, vitals, counters)
    well = (vitals["food"] > 0) & (vitals["drink"] > 0) & ((vitals["energy"] > 0) | asleep)
    pace = rules.pace
    worse = jnp.where(asleep, -pace // 2, -pace)
    if rules.is_full:
        worse = jnp.where(is_boss_floor(rules, world), 0, worse)
    rate = jnp.where(well, jnp.where(asleep, 2 * pace, pace), worse)
    recover = counters["recover"] + rate
    heals, ails = recover > HEALS * pace, recover < -AILS * pace
    health = vitals["health"]
    health = jnp.where(heals, jnp.minimum(health + 1, most(rules, world, "health")), health)
    vitals["health"] = health - one(ails).astype(health.dtype)
    counters["recover"] = jnp.where(heals | ails, 0, recover)
    return moment._replace(world=world._replace(vitals=vitals, counters=counters))


def gather(moment: Moment) -> Moment:
    """Advance the mana counter of the full game, see `gain_mana`."""
    return moment._replace(world=gain_mana(moment.world))


def gain_mana(world: World) -> World:
    """Advance the mana counter; above GATHERS, add a point of mana and reset the counter to 0.

    A step awake adds 1 to the counter, a step asleep adds 2. Craftax's quirk: after the addition,
    the whole counter is multiplied by a factor that grows with intelligence.
    """
    factor = 1 + np.float32(0.25) * (world.traits["intelligence"] - 1).astype(jnp.float32)
    count = (world.mana_counter + jnp.where(world.sleeping, np.float32(2), np.float32(1))) * factor
    gains = count > GATHERS
    vitals = {**world.vitals, "mana": world.vitals["mana"] + one(gains)}
    return world._replace(vitals=vitals, mana_counter=jnp.where(gains, 0, count))


def most(rules: Rules, world: World, vital: str) -> Any:
    """Return the highest value that a vital can have; in the full game, attributes raise it."""
    if not rules.is_full:
        return rules.best
    match vital:
        case "health":
            return (8 + world.traits["strength"]).astype(jnp.float32)
        case "mana":
            return 6 + 3 * world.traits["intelligence"]
        case _:
            return 7 + 2 * world.traits["dexterity"]


def _grow(
    rules: Rules, world: World, need: Need, vitals: dict[str, Any], counters: dict[str, Any]
) -> None:
    """Advance the counter of hunger, thirst or fatigue (`need`), and change the need's vital.

    The vital changes by one point if the counter exceeds a limit. `vitals` and `counters` are
    changed in place.
    """
    pace, count, points = rules.pace, counters[need.counter], vitals[need.vital]
    step, asleep = pace, world.sleeping
    if rules.is_full:
        step = pace - pace // 8 * (world.traits["dexterity"] - 1)
    if need.rest is None:
        count = count + jnp.where(asleep, step * int(2 * need.asleep) >> 1, step)
    else:
        drowsy = int(need.asleep * pace)
        count = jnp.where(asleep, jnp.minimum(count + drowsy, 0), count + step)
    done = lacks = count > need.limit * pace
    takes = lacks & ~is_boss_floor(rules, world) if rules.is_full else lacks
    points = jnp.maximum(points - one(takes), 0)
    if need.rest is not None:
        rested = count < -need.rest * pace
        points = jnp.minimum(points + one(rested), most(rules, world, need.vital))
        done = lacks | rested
    vitals[need.vital], counters[need.counter] = points, jnp.where(done, 0, count)


def fed(rules: Rules, world: World, vital: str, counter: str, amount: Array) -> World:
    """Add an amount to a vital, up to its maximum.

    `counter` is the name of the vital's counter, which is reset to 0 unless the amount is 0.
    """
    more = jnp.minimum(world.vitals[vital] + amount, most(rules, world, vital))
    left = jnp.where(amount > 0, 0, world.counters[counter])
    return world._replace(
        vitals={**world.vitals, vital: more}, counters={**world.counters, counter: left}
    )


def hurt(world: World, points: Array, wakes: Array) -> World:
    """Subtract points from the player's health. If `wakes` is True, also end sleep and rest."""
    vitals = {**world.vitals, "health": world.vitals["health"] - points}
    rests = None if world.resting is None else world.resting & ~wakes
    return world._replace(vitals=vitals, sleeping=world.sleeping & ~wakes, resting=rests)


def burn(moment: Moment) -> Moment:
    """Record in `Moment.in_lava` whether the player stands in lava; `limit_health` reads it."""
    world = moment.world
    in_lava = moment.ground.block(world.row, world.column) == Block.LAVA
    return moment._replace(in_lava=in_lava)


def carry(moment: Moment) -> Moment:
    """Cap the count of each item at `Rules.most`."""
    world, most = moment.world, moment.rules.most
    items = {name: jnp.minimum(count, most) for name, count in world.items.items()}
    return moment._replace(world=world._replace(items=items))


def limit_health(moment: Moment) -> Moment:
    """In Classic, clip health to at least 0, and set it to 0 if the player stands in lava.

    The other vitals need no clipping, because no rule of Classic moves them out of their range.
    """
    vitals = moment.world.vitals
    health = jnp.where(moment.in_lava, 0, jnp.maximum(vitals["health"], 0))
    world = moment.world._replace(vitals={**vitals, "health": health})
    return moment._replace(world=world)


def limit(moment: Moment) -> Moment:
    """In the full game, clip each vital to the range from 0 to its maximum.

    In god mode, the lower limit of health is 9 instead of 0.
    """
    world, rules = moment.world, moment.rules
    least: dict[str, Any] = dict.fromkeys(world.vitals, 0)
    least["health"] = jnp.where(moment.params.god_mode, np.float32(rules.best), np.float32(0))
    vitals = {
        name: jnp.minimum(jnp.maximum(points, least[name]), most(rules, world, name))
        for name, points in world.vitals.items()
    }
    return moment._replace(world=world._replace(vitals=vitals))
