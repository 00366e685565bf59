"""What the player does: crafting, DO, placing, moving, and what the body needs."""

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32

from ..core.settle import settled
from .ground import Ground, is_in
from .state import Mob, World, mobs_of, unlock
from .tables import Achievement, Action, Block, Rules

_AROUND = [(r, c) for r in (-1, 0, 1) for c in (-1, 0, 1) if (r, c) != (0, 0)]


def step_of(facing: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Row and column step of a facing: 1 left, 2 right, 3 up, 4 down; 0 for all else."""
    down = (facing == 4).astype(jnp.int32) - (facing == 3).astype(jnp.int32)
    right = (facing == 2).astype(jnp.int32) - (facing == 1).astype(jnp.int32)
    return down, right


def ahead(world: World) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """Cell in front of the player."""
    d_row, d_column = step_of(world.facing)
    return world.row + d_row, world.column + d_column


def is_taken(world: World, row: Array, column: Array) -> Bool[Array, ""]:
    """Whether a mob is seen on a cell."""
    taken = jnp.zeros((), jnp.bool_)
    for mob in mobs_of(world):
        taken = taken | (mob.marked & (mob.row == row) & (mob.column == column))
    return taken


def near(ground: Ground, world: World) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Whether a table, and whether a furnace, is on one of the eight cells around the player."""
    table = furnace = jnp.zeros((), jnp.bool_)
    for d_row, d_column in _AROUND:
        row, column = world.row + d_row, world.column + d_column
        block, inside = ground.block(row, column), ground.inside(row, column)
        table = table | (inside & (block == Block.CRAFTING_TABLE))
        furnace = furnace | (inside & (block == Block.FURNACE))
    return table, furnace


def craft(rules: Rules, ground: Ground, world: World, action: Array) -> World:
    """Make a tool beside a table."""
    table, furnace = settled(near(ground, world))
    items = dict(world.items)
    for recipe in rules.recipes:
        able = (action == recipe.action) & table & (furnace if recipe.at_furnace else True)
        for item, cost in recipe.costs.items():
            able = able & (world.items[item] >= cost)
        made = _one(able)
        for item, cost in recipe.costs.items():
            items[item] = items[item] - cost * made
        items[recipe.makes] = items[recipe.makes] + made
        world = unlock(world, recipe.achievement, able)
    return world._replace(items=items)


def damage(rules: Rules, world: World) -> Int32[Array, ""]:
    """Damage of a blow. Upstream's quirk: it grows with the number of swords."""
    most = jnp.int32(1)
    for weapon in rules.weapons:
        most = jnp.maximum(most, weapon.damage * world.items[weapon.item])
    return most


def strike(rules: Rules, world: World, action: Array) -> tuple[World, Bool[Array, ""]]:
    """Hit the mob ahead; also return whether there was one.

    Upstream's quirk: any DO calls back to life every slot that still has health.
    """
    does = action == Action.DO
    row, column = settled(ahead(world))
    blow = damage(rules, world)
    hit_any = killed_any = jnp.zeros((), jnp.bool_)
    mobs = dict(world.mobs)
    for kind in rules.mobs:
        hit, killed, after = jnp.zeros((), jnp.bool_), jnp.zeros((), jnp.bool_), []
        for mob in world.mobs[kind.name]:
            here = does & mob.alive & (mob.row == row) & (mob.column == column) & ~hit
            hit = hit | here
            health = jnp.where(here, jnp.maximum(mob.health - blow, 0), mob.health)
            alive = jnp.where(does, health > 0, mob.alive)
            killed = killed | (here & ~alive)
            after.append(mob._replace(health=health, alive=alive))
        mobs[kind.name] = tuple(after)
        hit, killed = settled((hit, killed))
        hit_any, killed_any = hit_any | hit, killed_any | killed
        world = unlock(world, kind.achievement, killed)
        if kind.food:
            world = _fed(rules, world, "food", "hunger", kind.food, killed)
    cleared = {name: tuple(_unmark(m, row, column, killed_any) for m in mobs[name]) for name in mobs}
    return world._replace(mobs=cleared), hit_any


def harvest(
    rules: Rules, ground: Ground, world: World, action: Array, hit: Array, sapling: Array
) -> tuple[Ground, World]:
    """Take what the block ahead gives, unless a mob was hit."""
    row, column = ahead(world)
    block = ground.block(row, column)
    block, able = settled((block, (action == Action.DO) & ~hit & ground.inside(row, column)))
    items, left, taken = dict(world.items), block, jnp.zeros((), jnp.bool_)
    for rule in rules.harvests:
        takes = able & (block == rule.block)
        if rule.tool is not None:
            takes = takes & (world.items[rule.tool] >= 1)
        if rule.chance < 1:
            takes = takes & (sapling < rule.chance)
        if rule.item is not None:
            items[rule.item] = items[rule.item] + _one(takes)
        world = unlock(world, rule.achievement, takes)
        world = _fed(rules, world, "food", "hunger", rule.food, takes)
        world = _fed(rules, world, "drink", "thirst", rule.drink, takes)
        if rule.leaves != rule.block:
            left, taken = jnp.where(takes, rule.leaves, left), taken | takes
    eaten = able & (block == Block.RIPE_PLANT)
    world = world._replace(items=items, plants=_regrown(world, row, column, eaten))
    left, taken = settled((left, taken))
    return ground.put(row, column, left, taken), world


def place(rules: Rules, ground: Ground, world: World, action: Array) -> tuple[Ground, World]:
    """Put a block on the cell ahead."""
    row, column = ahead(world)
    block = ground.block(row, column)
    free = ground.inside(row, column) & ~is_taken(world, row, column)
    block, free = settled((block, free))
    items, new, placed = dict(world.items), block, jnp.zeros((), jnp.bool_)
    for rule in rules.placements:
        able = (action == rule.action) & free & (world.items[rule.item] >= rule.cost)
        able = able & is_in(block, rule.on)
        items[rule.item] = items[rule.item] - rule.cost * _one(able)
        new, placed = jnp.where(able, rule.block, new), placed | able
        world = unlock(world, rule.achievement, able)
    new, placed = settled((new, placed))
    planted = placed & (new == Block.PLANT)
    world = world._replace(items=items, plants=_planted(world, row, column, planted))
    return ground.put(row, column, new, placed), world


def move(rules: Rules, ground: Ground, world: World, action: Array) -> World:
    """Turn, and go there if nothing is in the way; lava can be entered.

    Upstream's quirk: beyond the upper and left border the opposite border is read, and lava there
    lets the player out (and die).
    """
    turns = (action >= Action.LEFT) & (action <= Action.DOWN)
    world = world._replace(facing=jnp.where(turns, action, world.facing))
    row, column = ahead(world)
    block = ground.block(row, column)
    free = ground.inside(row, column) & ~is_in(block, rules.solid) & ~is_taken(world, row, column)
    goes = settled(turns & (free | (block == Block.LAVA)))
    return world._replace(
        row=jnp.where(goes, row, world.row), column=jnp.where(goes, column, world.column)
    )


def live(rules: Rules, world: World, action: Array) -> World:
    """Sleep, hunger, thirst, fatigue, healing."""
    vitals, counters = dict(world.vitals), dict(world.counters)
    best = rules.best
    asleep = world.sleeping | ((action == Action.SLEEP) & (vitals["energy"] < best))
    wakes = asleep & (vitals["energy"] >= best)
    asleep = asleep & ~wakes
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

    vitals, asleep = settled((vitals, asleep))
    well = (vitals["food"] > 0) & (vitals["drink"] > 0) & ((vitals["energy"] > 0) | asleep)
    change = jnp.where(well, jnp.where(asleep, 4, 2), jnp.where(asleep, -1, -2))
    recover = counters["recover"] + change
    heals, ails = recover > 50, recover < -30
    health = jnp.where(heals, jnp.minimum(vitals["health"] + 1, best), vitals["health"])
    vitals["health"] = health - _one(ails)
    counters["recover"] = jnp.where(heals | ails, 0, recover)
    return world._replace(vitals=vitals, counters=counters, sleeping=asleep)


def _fed(
    rules: Rules, world: World, vital: str, counter: str, amount: int, when: Array
) -> World:
    """Add to a vital and still its counter."""
    if not amount:
        return world
    more = jnp.minimum(world.vitals[vital] + amount, rules.best)
    vitals = {**world.vitals, vital: jnp.where(when, more, world.vitals[vital])}
    counters = {**world.counters, counter: jnp.where(when, 0, world.counters[counter])}
    return world._replace(vitals=vitals, counters=counters)


def _regrown(world: World, row: Array, column: Array, when: Array) -> tuple[Any, ...]:
    """Plants with the age of the eaten one 0: the first slot there, else slot 0 as upstream."""
    here = [(p.row == row) & (p.column == column) for p in world.plants]
    found, plants = jnp.zeros((), jnp.bool_), []
    for plant, is_here in zip(world.plants, here, strict=True):
        resets = when & is_here & ~found
        found = found | is_here
        plants.append(plant._replace(age=jnp.where(resets, 0, plant.age)))
    first = plants[0]
    plants[0] = first._replace(age=jnp.where(when & ~found, 0, first.age))
    return tuple(plants)


def _planted(world: World, row: Array, column: Array, when: Array) -> tuple[Any, ...]:
    """Plants with a new one in the first free slot; without one the block never ripens."""
    plants = []
    for plant in world.plants:
        takes = when & ~plant.planted
        when = when & plant.planted
        plants.append(
            plant._replace(
                row=jnp.where(takes, row, plant.row),
                column=jnp.where(takes, column, plant.column),
                age=jnp.where(takes, 0, plant.age),
                planted=plant.planted | takes,
            )
        )
    return tuple(plants)


def _unmark(mob: Mob, row: Array, column: Array, when: Array) -> Mob:
    return mob._replace(marked=mob.marked & ~(when & (mob.row == row) & (mob.column == column)))


def _one(when: Array) -> Int32[Array, ""]:
    """1 or 0."""
    return when.astype(jnp.int32)
