"""What the body needs: food, drink, sleep, and time to heal. Counters count `Rules.pace` a step.

In the full game dexterity slows hunger, thirst and fatigue, and nothing wanes on the last floor.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool

from ..core.bits import kept
from .harm import is_boss_floor
from .state import World, one, unlock
from .step import Moment
from .tables import Achievement, Action, Block, Need, Rules

HEALS, AILS = 25, 15  # steps beyond which health comes, and goes
GATHERS = 30  # steps beyond which mana comes


def live(moment: Moment) -> Moment:
    """Sleep and rest, hunger, thirst, fatigue, healing, mana."""
    rules, world = moment.rules, moment.world
    world, asleep = _sleep(rules, world, moment.action)
    world = world if world.resting is None else _rest(rules, world, moment.action)
    vitals, counters = dict(world.vitals), dict(world.counters)
    for need in rules.needs:
        _grow(rules, world, need, vitals, counters, asleep)
    well = (vitals["food"] > 0) & (vitals["drink"] > 0) & ((vitals["energy"] > 0) | asleep)
    pace = rules.pace
    worse = jnp.where(asleep, -pace // 2, -pace)
    if rules.floors:
        worse = jnp.where(is_boss_floor(rules, world), 0, worse)
    rate = jnp.where(well, jnp.where(asleep, 2 * pace, pace), worse)
    recover = counters["recover"] + rate
    heals, ails = recover > HEALS * pace, recover < -AILS * pace
    health = vitals["health"]
    health = jnp.where(heals, jnp.minimum(health + 1, most(rules, world, "health")), health)
    vitals["health"] = health - one(ails).astype(health.dtype)
    counters["recover"] = jnp.where(heals | ails, 0, recover)
    world = world._replace(vitals=vitals, counters=counters)
    return moment._replace(world=world if world.traits is None else _gather(world, asleep))


def most(rules: Rules, world: World, vital: str) -> Any:
    """The most points of a vital."""
    if world.traits is None:
        return rules.best
    match vital:
        case "health":
            return (8 + world.traits["strength"]).astype(jnp.float32)
        case "mana":
            return 6 + 3 * world.traits["intelligence"]
        case _:
            return 7 + 2 * world.traits["dexterity"]


def _sleep(rules: Rules, world: World, action: Array) -> tuple[World, Bool[Array, ""]]:
    """Fall asleep, or wake rested; also return whether the player sleeps."""
    rested = most(rules, world, "energy")
    tired = world.vitals["energy"] < rested
    asleep = world.sleeping | ((action == Action.SLEEP) & tired)
    wakes = asleep & (world.vitals["energy"] >= rested)
    asleep, wakes = kept((asleep & ~wakes, 1), (wakes, 1))
    return unlock(world._replace(sleeping=asleep), Achievement.WAKE_UP, wakes), asleep


def _rest(rules: Rules, world: World, action: Array) -> World:
    """Begin to rest, or end it: well again, hungry or thirsty."""
    vitals, well = world.vitals, most(rules, world, "health")
    rests = world.resting | ((action == Action.REST) & (vitals["health"] < well))
    ends = (vitals["health"] >= well) | (vitals["food"] <= 0) | (vitals["drink"] <= 0)
    return world._replace(resting=rests & ~ends)


def _gather(world: World, asleep: Array) -> World:
    """Gain mana. Upstream's quirk: intelligence multiplies all that was counted, in each step."""
    factor = 1 + np.float32(0.25) * (world.traits["intelligence"] - 1).astype(jnp.float32)
    count = (world.mana_counter + jnp.where(asleep, np.float32(2), np.float32(1))) * factor
    gains = count > GATHERS
    vitals = {**world.vitals, "mana": world.vitals["mana"] + one(gains)}
    return world._replace(vitals=vitals, mana_counter=jnp.where(gains, 0, count))


def _grow(
    rules: Rules,
    world: World,
    need: Need,
    vitals: dict[str, Any],
    counters: dict[str, Any],
    asleep: Array,
) -> None:
    """Let a need grow by a step, and take or give a point where it is time."""
    pace, count, points = rules.pace, counters[need.counter], vitals[need.vital]
    step = pace if world.traits is None else pace - pace // 8 * (world.traits["dexterity"] - 1)
    if need.rest is None:
        count = count + jnp.where(asleep, step * int(2 * need.asleep) >> 1, step)
    else:
        drowsy = int(need.asleep * pace)
        count = jnp.where(asleep, jnp.minimum(count + drowsy, 0), count + step)
    done = lacks = count > need.limit * pace
    takes = lacks & ~is_boss_floor(rules, world) if rules.floors else lacks
    points = jnp.maximum(points - one(takes), 0)
    if need.rest is not None:
        rested = count < -need.rest * pace
        points = jnp.minimum(points + one(rested), most(rules, world, need.vital))
        done = lacks | rested
    vitals[need.vital], counters[need.counter] = points, jnp.where(done, 0, count)


def fed(rules: Rules, world: World, vital: str, counter: str, amount: Array) -> World:
    """Add to a vital and still its counter, unless the amount is 0."""
    more = jnp.minimum(world.vitals[vital] + amount, most(rules, world, vital))
    left = jnp.where(amount > 0, 0, world.counters[counter])
    return world._replace(
        vitals={**world.vitals, vital: more}, counters={**world.counters, counter: left}
    )


def hurt(world: World, points: Array, wakes: Array) -> World:
    """Take points of health, and wake the player if `wakes`."""
    vitals = {**world.vitals, "health": world.vitals["health"] - points}
    rests = None if world.resting is None else world.resting & ~wakes
    return world._replace(vitals=vitals, sleeping=world.sleeping & ~wakes, resting=rests)


def burn(moment: Moment) -> Moment:
    """See whether the player is in lava; `limit` does the rest."""
    world = moment.world
    in_lava = moment.ground.block(world.row, world.column) == Block.LAVA
    return moment._replace(in_lava=in_lava)


def carry(moment: Moment) -> Moment:
    """Keep items within their limit."""
    world, most = moment.world, moment.rules.most
    items = {name: jnp.minimum(count, most) for name, count in world.items.items()}
    return moment._replace(world=world._replace(items=items))


def limit(moment: Moment) -> Moment:
    """Keep vitals within their limits; nobody survives lava."""
    world, rules = moment.world, moment.rules
    vitals = dict(world.vitals)
    if world.traits is None:  # what else there is cannot leave its limits
        vitals["health"] = jnp.where(moment.in_lava, 0, jnp.maximum(vitals["health"], 0))
    else:
        least: dict[str, Any] = dict.fromkeys(vitals, 0)
        least["health"] = jnp.where(moment.params.god_mode, np.float32(rules.best), np.float32(0))
        vitals = {
            name: jnp.minimum(jnp.maximum(points, least[name]), most(rules, world, name))
            for name, points in vitals.items()
        }
    return moment._replace(world=world._replace(vitals=vitals))
