"""What the body needs: food, drink, sleep, and time to heal. Counters count `Rules.pace` a step."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool

from ..core.bits import kept
from .state import World, one, unlock
from .step import Moment
from .tables import Achievement, Action, Block, Need, Rules

HEALS, AILS = 25, 15  # steps beyond which health comes, and goes


def live(moment: Moment) -> Moment:
    """Sleep, hunger, thirst, fatigue, healing."""
    rules, world = moment.rules, moment.world
    world, asleep = _sleep(rules, world, moment.action)
    vitals, counters = dict(world.vitals), dict(world.counters)
    for need in rules.needs:
        _grow(rules, need, vitals, counters, asleep)
    well = (vitals["food"] > 0) & (vitals["drink"] > 0) & ((vitals["energy"] > 0) | asleep)
    pace = rules.pace
    rate = jnp.where(well, jnp.where(asleep, 2 * pace, pace), jnp.where(asleep, -pace // 2, -pace))
    recover = counters["recover"] + rate
    heals, ails = recover > HEALS * pace, recover < -AILS * pace
    health = vitals["health"]
    health = jnp.where(heals, jnp.minimum(health + 1, rules.best), health)
    vitals["health"] = health - one(ails)
    counters["recover"] = jnp.where(heals | ails, 0, recover)
    return moment._replace(world=world._replace(vitals=vitals, counters=counters))


def _sleep(rules: Rules, world: World, action: Array) -> tuple[World, Bool[Array, ""]]:
    """Fall asleep, or wake rested; also return whether the player sleeps."""
    tired = world.vitals["energy"] < rules.best
    asleep = world.sleeping | ((action == Action.SLEEP) & tired)
    wakes = asleep & (world.vitals["energy"] >= rules.best)
    asleep, wakes = kept((asleep & ~wakes, 1), (wakes, 1))
    return unlock(world._replace(sleeping=asleep), Achievement.WAKE_UP, wakes), asleep


def _grow(
    rules: Rules, need: Need, vitals: dict[str, Any], counters: dict[str, Any], asleep: Array
) -> None:
    """Let a need grow by a step, and take or give a point where it is time."""
    pace, count, points = rules.pace, counters[need.counter], vitals[need.vital]
    drowsy = int(need.asleep * pace)
    if need.rest is None:
        count = count + jnp.where(asleep, drowsy, pace)
    else:
        count = jnp.where(asleep, jnp.minimum(count + drowsy, 0), count + pace)
    done = lacks = count > need.limit * pace
    points = jnp.maximum(points - one(lacks), 0)
    if need.rest is not None:
        rested = count < -need.rest * pace
        points = jnp.minimum(points + one(rested), rules.best)
        done = lacks | rested
    vitals[need.vital], counters[need.counter] = points, jnp.where(done, 0, count)


def fed(rules: Rules, world: World, vital: str, counter: str, amount: Array) -> World:
    """Add to a vital and still its counter, unless the amount is 0."""
    more = jnp.minimum(world.vitals[vital] + amount, rules.best)
    left = jnp.where(amount > 0, 0, world.counters[counter])
    return world._replace(
        vitals={**world.vitals, vital: more}, counters={**world.counters, counter: left}
    )


def hurt(world: World, points: Array, wakes: Array) -> World:
    """Take points of health, and wake the player if `wakes`."""
    vitals = {**world.vitals, "health": world.vitals["health"] - points}
    return world._replace(vitals=vitals, sleeping=world.sleeping & ~wakes)


def burn(moment: Moment) -> Moment:
    """See whether the player is in lava; `limit` does the rest."""
    world = moment.world
    in_lava = moment.ground.block(world.row, world.column) == Block.LAVA
    return moment._replace(in_lava=in_lava)


def limit(moment: Moment) -> Moment:
    """Keep items within their limit; nobody survives lava, or has less than no health."""
    world, rules = moment.world, moment.rules
    items = {name: jnp.minimum(count, rules.most) for name, count in world.items.items()}
    health = jnp.maximum(world.vitals["health"], 0)
    vitals = {**world.vitals, "health": jnp.where(moment.in_lava, 0, health)}
    return moment._replace(world=world._replace(items=items, vitals=vitals))
