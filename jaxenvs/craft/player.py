"""What the player does: fighting, taking, building, making, moving, and what the body needs."""

import functools
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..core.bits import kept
from ..core.settle import settled
from .ground import Ground, codes, is_in
from .state import EARNED_BITS, MOVING, Mob, World, mobs_of, unlock
from .tables import Achievement, Action, Block, Harvest, Placement, Recipe, Rules

_EIGHT = np.delete(np.arange(9, dtype=np.int32), 4)
_AROUND = (
    _EIGHT // 3 - 1,
    _EIGHT % 3 - 1,
)  # rows and columns; the player's own cell is not among them


class Front(NamedTuple):
    """The cell ahead of the player, and what is around."""

    row: Array
    column: Array
    block: Array  # beyond the border as upstream reads, see `Ground.block`
    inside: Array  # whether it is on the map
    taken: Array  # whether a mob is seen there
    table: Array  # whether a crafting table is on one of the eight cells around the player
    furnace: Array


def turn(world: World, action: Array) -> World:
    """Face where a move goes, also when something is in the way."""
    return world._replace(facing=jnp.where(_is_move(action), action, world.facing))


def look(ground: Ground, world: World) -> Front:
    """See what the player's deeds depend on."""
    facing = world.facing
    row = world.row + _one(facing == Action.DOWN) - _one(facing == Action.UP)
    column = world.column + _one(facing == Action.RIGHT) - _one(facing == Action.LEFT)
    taken = jnp.zeros((), jnp.bool_)
    for mob in mobs_of(world):
        taken = taken | (mob.marked & (mob.row == row) & (mob.column == column))
    table, furnace = _around(ground, world)
    inside, block = ground.inside(row, column), ground.block(row, column)
    row, column = jnp.maximum(row, -1), jnp.maximum(column, -1)  # beyond: only after the end
    row, column, block, inside, taken, table = kept(
        (row + 1, 8), (column + 1, 8), (block, 6), (inside, 1), (taken, 1), (table, 1)
    )
    return Front(row - 1, column - 1, block, inside, taken, table, furnace)


def damage(rules: Rules, world: World) -> Int32[Array, ""]:
    """Damage of a blow. Upstream's quirk: it grows with the number of swords."""
    most = jnp.int32(1)
    for weapon in rules.weapons:
        most = jnp.maximum(most, weapon.damage * world.items[weapon.item])
    return most


def strike(
    rules: Rules, world: World, front: Front, action: Array
) -> tuple[World, Bool[Array, ""]]:
    """Hit the mob ahead; also return whether there was one.

    Upstream's quirk: any DO calls back to life every slot that still has health.
    """
    does = action == Action.DO
    hits = kept(*((hit, 1) for hit in _hits(world, front, does)))
    blow, rest = damage(rules, world), iter(hits)
    mobs, killed_any = dict(world.mobs), jnp.zeros((), jnp.bool_)
    for kind in rules.mobs:
        killed, after = jnp.zeros((), jnp.bool_), []
        for mob in world.mobs[kind.name]:
            hit = next(rest)
            health = jnp.where(hit, jnp.maximum(mob.health - blow, 0), mob.health)
            alive = jnp.where(does, health > 0, mob.alive)
            killed = killed | (hit & ~alive)
            after.append(mob._replace(health=health, alive=alive))
        mobs[kind.name] = tuple(after)
        killed = settled(killed)
        killed_any = killed_any | killed
        world = unlock(world, kind.achievement, killed)
        if kind.food:
            world = _fed(rules, world, "food", "hunger", jnp.where(killed, kind.food, 0))
    for name in MOVING:  # the cell of a dead mob is seen as free, whoever else is on it
        mobs[name] = tuple(
            m._replace(marked=m.marked & ~(killed_any & _is_at(m, front))) for m in mobs[name]
        )
    return world._replace(mobs=mobs), functools.reduce(lambda a, b: a | b, hits)


def choose(
    rules: Rules, world: World, front: Front, action: Array, hit: Array, sapling: Array
) -> Int32[Array, ""]:
    """Number of the deed that is done, 0 for none: harvests, placements, recipes, as `_deeds`."""
    does = (action == Action.DO) & ~hit & front.inside
    free = front.inside & ~front.taken
    number = jnp.int32(0)
    for i, row in enumerate(_deeds(rules), 1):
        match row:
            case Harvest():
                able = does & (front.block == row.block)
                if row.chance < 1:
                    able = able & (sapling < row.chance)
            case Placement():
                able = (action == row.action) & free & is_in(front.block, row.on)
            case Recipe():
                able = (action == row.action) & front.table
                if row.at_furnace:
                    able = able & front.furnace
        number = jnp.where(able & has(world, _needs(row)), i, number)
    return settled(number)


def do(
    rules: Rules, ground: Ground, world: World, front: Front, deed: Array
) -> tuple[Ground, World]:
    """Carry out a deed: what it costs and gives is looked up by its number."""
    rows = _deeds(rules)
    items = dict(world.items)
    for item in rules.items:
        items[item] = items[item] + _of(deed, [_change(row, item) for row in rows])
    earned = list(world.earned)
    for word in range(len(earned)):
        numbers = [row.achievement - word * EARNED_BITS for row in rows]
        bits = [1 << n if 0 <= n < EARNED_BITS else 0 for n in numbers]
        earned[word] = earned[word] | _of(deed, bits)
    world = world._replace(items=items, earned=tuple(earned))
    world = _fed(rules, world, "food", "hunger", _of(deed, [getattr(r, "food", 0) for r in rows]))
    world = _fed(rules, world, "drink", "thirst", _of(deed, [getattr(r, "drink", 0) for r in rows]))
    left = _of(deed, [_leaves(row) for row in rows])  # 0: the block stays as it is
    eaten = [int(isinstance(r, Harvest) and r.block == Block.RIPE_PLANT) for r in rows]
    planted = [int(isinstance(r, Placement) and r.block == Block.PLANT) for r in rows]
    plants = _regrown(world, front, _of(deed, eaten) != 0)
    world = _planted(world._replace(plants=plants), front, _of(deed, planted) != 0)
    return ground.put(front.row, front.column, left, left != 0), world


def move(rules: Rules, world: World, front: Front, action: Array) -> World:
    """Go to the cell ahead if nothing is in the way; lava can be entered.

    Upstream's quirk: beyond the upper and left border the opposite border is read, and lava there
    lets the player out (and die).
    """
    free = front.inside & ~is_in(front.block, rules.solid) & ~front.taken
    goes = _is_move(action) & (free | (front.block == Block.LAVA))
    row = jnp.where(goes, front.row, world.row)
    column = jnp.where(goes, front.column, world.column)
    row, column = kept((row + 1, 8), (column + 1, 8))
    return world._replace(row=row - 1, column=column - 1)


def live(rules: Rules, world: World, action: Array) -> World:
    """Sleep, hunger, thirst, fatigue, healing. Counters are in halves."""
    vitals, counters = dict(world.vitals), dict(world.counters)
    best = rules.best
    asleep = world.sleeping | ((action == Action.SLEEP) & (vitals["energy"] < best))
    wakes = asleep & (vitals["energy"] >= best)
    asleep = asleep & ~wakes
    asleep, wakes = kept((asleep, 1), (wakes, 1))
    world = unlock(world, Achievement.WAKE_UP, wakes)

    for need, counter, limit in (("food", "hunger", 50), ("drink", "thirst", 40)):
        count = counters[counter] + jnp.where(asleep, 1, 2)
        vitals[need] = jnp.maximum(vitals[need] - _one(count > limit), 0)
        counters[counter] = jnp.where(count > limit, 0, count)

    fatigue = counters["fatigue"]
    fatigue = jnp.where(asleep, jnp.minimum(fatigue - 2, 0), fatigue + 2)
    tired, rested = fatigue > 60, fatigue < -20
    energy = jnp.maximum(vitals["energy"] - _one(tired), 0)
    vitals["energy"] = jnp.minimum(energy + _one(rested), best)
    counters["fatigue"] = jnp.where(tired | rested, 0, fatigue)

    well = (vitals["food"] > 0) & (vitals["drink"] > 0) & ((vitals["energy"] > 0) | asleep)
    change = jnp.where(well, jnp.where(asleep, 4, 2), jnp.where(asleep, -1, -2))
    recover = counters["recover"] + change
    heals, ails = recover > 50, recover < -30
    health = jnp.where(heals, jnp.minimum(vitals["health"] + 1, best), vitals["health"])
    vitals["health"] = health - _one(ails)
    counters["recover"] = jnp.where(heals | ails, 0, recover)
    return world._replace(vitals=vitals, counters=counters, sleeping=asleep)


def has(world: World, needs: dict[str, int]) -> Bool[Array, ""]:
    """Whether the player has so much of each item."""
    enough = jnp.ones((), jnp.bool_)
    for item, count in needs.items():
        enough = enough & (world.items[item] >= count)
    return enough


def _deeds(rules: Rules) -> tuple[Harvest | Placement | Recipe, ...]:
    """Rows of all that the player can do with items and blocks."""
    return (*rules.harvests, *rules.placements, *rules.recipes)


def _needs(row: Harvest | Placement | Recipe) -> dict[str, int]:
    """Items without which a deed cannot be done."""
    match row:
        case Harvest():
            return {} if row.tool is None else {row.tool: 1}
        case Placement():
            return {row.item: row.cost}
        case Recipe():
            return row.costs


def _change(row: Harvest | Placement | Recipe, item: str) -> int:
    """What a deed adds to the count of an item."""
    match row:
        case Harvest():
            return int(row.item == item)
        case Placement():
            return -row.cost * (row.item == item)
        case Recipe():
            return int(row.makes == item) - row.costs.get(item, 0)


def _leaves(row: Harvest | Placement | Recipe) -> int:
    """Block that a deed leaves on the cell ahead; 0 if it stays as it is."""
    match row:
        case Harvest():
            return 0 if row.leaves == row.block else int(row.leaves)
        case Placement():
            return int(row.block)
        case Recipe():
            return 0


def _of(deed: Array, values: list[int]) -> Int32[Array, ""]:
    """Value of a deed from a list by number; 0 for none."""
    if not any(values):
        return jnp.int32(0)
    table = jnp.asarray(np.array([0, *values], np.int32))
    return table.at[deed].get(mode="promise_in_bounds")


def _around(ground: Ground, world: World) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Whether a table, and whether a furnace, is on one of the eight cells around the player."""
    row, column = world.row + _AROUND[0], world.column + _AROUND[1]
    code = codes(ground.nearest(row, column), {Block.CRAFTING_TABLE}, {Block.FURNACE})
    count = jnp.where(ground.inside(row, column), (code & 1) | (code >> 1 << 4), 0)
    both = settled(count.sum(dtype=jnp.int32))
    return (both & 15) != 0, both > 15


def _hits(world: World, front: Front, does: Array) -> list[Array]:
    """For each slot whether it is hit: the first live one of its kind on the cell ahead."""
    hits = []
    for name in MOVING:
        earlier = jnp.zeros((), jnp.bool_)
        for mob in world.mobs[name]:
            here = does & mob.alive & _is_at(mob, front)
            hits.append(here & ~earlier)
            earlier = earlier | here
    return hits


def _is_at(mob: Mob, front: Front) -> Bool[Array, ""]:
    return (mob.row == front.row) & (mob.column == front.column)


def _is_move(action: Array) -> Bool[Array, ""]:
    return (action >= Action.LEFT) & (action <= Action.DOWN)


def _fed(rules: Rules, world: World, vital: str, counter: str, amount: Array) -> World:
    """Add to a vital and still its counter, unless the amount is 0."""
    more = jnp.minimum(world.vitals[vital] + amount, rules.best)
    left = jnp.where(amount > 0, 0, world.counters[counter])
    return world._replace(
        vitals={**world.vitals, vital: more}, counters={**world.counters, counter: left}
    )


def _regrown(world: World, front: Front, when: Array) -> Any:
    """Plants with the age of the eaten one 0: the first slot there, else slot 0 as upstream."""
    plants, slot = world.plants, np.arange(world.plants.age.shape[0], dtype=np.int32)
    here = (plants.row == front.row) & (plants.column == front.column)
    first = jnp.where(here, slot, len(slot)).min() % len(slot)
    return plants._replace(age=jnp.where(when & (slot == first), 0, plants.age))


def _planted(world: World, front: Front, when: Array) -> World:
    """A new plant in the first free slot; without one the block never ripens."""
    plants, slot = world.plants, np.arange(world.plants.age.shape[0], dtype=np.int32)
    first = jnp.where(plants.planted, len(slot), slot).min()
    takes = when & (slot == first)
    plants = plants._replace(
        row=jnp.where(takes, front.row, plants.row),
        column=jnp.where(takes, front.column, plants.column),
        age=jnp.where(takes, 0, plants.age),
        planted=plants.planted | takes,
    )
    return world._replace(plants=plants)


def _one(when: Array) -> Int32[Array, ""]:
    """1 or 0."""
    return when.astype(jnp.int32)
