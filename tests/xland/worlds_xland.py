"""Batches of levels, tasks and actions for tests that compare XLand with XLand-MiniGrid.

Levels are rooms crowded with objects, grids of arbitrary tiles, or layouts with tasks of task sets.
"""

import functools
import random
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenvs.xland import SETS, Goal, Kind, Rule, Ruleset, exact, layouts, tiles
from jaxenvs.xland.rulesets import GOALS, RULES

ODDS = (0.34, 0.1, 0.1, 0.2, 0.22, 0.04)  # probability of each action
VECTORS = np.array([(-1, 0), (0, 1), (1, 0), (0, -1)])  # (row, column) change, by direction
EXPLORING = (0.34, 0.1, 0.1, 0.19, 0.19, 0.08)


class Worlds(NamedTuple):
    """Batch of initial states (grid, pose, pocket), with tasks and with actions to play."""

    grid: np.ndarray
    pose: np.ndarray
    pocket: np.ndarray
    ruleset: Ruleset
    actions: np.ndarray


def dense(rng, rows, steps, size, num_rules):
    """Return rooms with many objects of the few kinds that rules name, so that rules fire often."""
    kinds = np.array([Kind.BALL, Kind.BALL, Kind.STAR, Kind.GOAL, Kind.KEY])
    colours = rng.permutation([1, 2, 3, 8, 11])
    pool = (kinds | colours << 4).astype(np.uint8)
    inside = rng.choice(pool, (rows, size - 2, size - 2))
    doors = rng.choice([Kind.LOCKED_DOOR, Kind.CLOSED_DOOR, Kind.OPEN_DOOR], inside.shape)
    inside = np.where(rng.random(inside.shape) < 0.03, doors | colours[4] << 4, inside)
    inside = np.where(rng.random(inside.shape) < 0.55, tiles.FLOOR, inside)
    grid = np.full((rows, size, size), tiles.WALL, np.uint8)
    grid[:, 1:-1, 1:-1] = inside
    pose = np.stack([*rng.integers(1, size - 1, (2, rows)), rng.integers(0, 4, rows)], axis=-1)
    grid[np.arange(rows), pose[:, 0], pose[:, 1]] = tiles.FLOOR
    return _played(rng, grid, pose, pool, rulesets(rng, rows, num_rules, pool, size), steps)


def hostile(rng, rows, steps, size, num_rules):
    """Return levels with arbitrary tiles in all cells, agents in any cell, and arbitrary tasks."""
    pool = np.unique((rng.integers(1, 13, 12) | rng.integers(0, 12, 12) << 4).astype(np.uint8))
    pool = np.append(pool, [tiles.FLOOR] * len(pool) + [tiles.WALL]).astype(np.uint8)
    grid = rng.choice(pool, (rows, size, size))
    anything = (rng.integers(0, 13, grid.shape) | rng.integers(0, 12, grid.shape) << 4).astype(
        np.uint8
    )
    grid = np.where(rng.random(grid.shape) < 0.1, anything, grid)
    pose = np.stack([*rng.integers(0, size, (2, rows)), rng.integers(0, 4, rows)], axis=-1)
    edge = rng.integers(0, 4, rows)
    pose[:, 0] = np.where(edge == 0, 0, np.where(edge == 1, size - 1, pose[:, 0]))
    pose[:, 1] = np.where(edge == 2, 0, np.where(edge == 3, size - 1, pose[:, 1]))
    return _played(rng, grid, pose, pool, rulesets(rng, rows, num_rules, pool, size), steps)


@functools.cache
def tasks_of(name):
    """Return the first 1,000 tasks of xminigrid's script for a task set; some may be equal."""
    recipe, rng = SETS[name].recipe, random.Random(exact.SEED)
    return exact._packed([exact.drawn(rng, recipe) for _ in range(1_000)], recipe).unpacked()


def chosen(rng, rows, names, num_rules, num_tiles):
    """Return `rows` random tasks, in turn from the task sets `names`, padded to equal sizes."""
    parts = []
    for name in names:
        index = rng.integers(0, 1_000, -(-rows // len(names)))
        tasks = jax.tree.map(lambda leaf, index=index: leaf[index], tasks_of(name))
        parts.append(tasks.sized(num_rules, num_tiles))
    return jax.tree.map(
        lambda *leaves: np.stack(leaves, 1).reshape(-1, *leaves[0].shape[1:])[:rows], *parts
    )


def laid(rng, plan, size, init_tiles):
    """Return (grids, poses) of random levels of the layout `plan`, one per row of `init_tiles`."""
    rows = len(init_tiles)
    grid = np.repeat(plan.grid.reshape(1, -1), rows, axis=0)
    each = np.arange(rows)[:, None]
    doors = plan.first + plan.step * rng.integers(0, plan.cells, (rows, len(plan.cells)))
    grid[each, doors] = Kind.CLOSED_DOOR | rng.choice(tiles.DOOR_COLOURS, doors.shape) << 4
    places = rng.permuted(np.repeat(plan.free[None], rows, axis=0), axis=1)
    code = tiles.decode(init_tiles)
    at = places[:, : code.shape[1]]
    grid[each, at] = np.where(code == tiles.NOTHING, grid[each, at], code)
    pose = [*np.divmod(places[:, -1], size), rng.integers(0, 4, rows)]
    return grid.reshape(rows, size, size), np.stack(pose, axis=-1)


def small_tasks(rng, rows, steps, size, num_rules):
    """Return `Worlds` in all layouts that have this size, with tasks of two task sets."""
    ruleset = chosen(rng, rows, ("small-1m", "trivial-21k"), num_rules, SETS["small-1m"].num_tiles)
    plans = [
        layouts.drawn(layout, size) for layout, sizes in layouts.SIZES.items() if size in sizes
    ]
    parts = np.array_split(ruleset.init_tiles, len(plans))
    levels = [laid(rng, plan, size, part) for plan, part in zip(plans, parts, strict=True)]
    grid, pose = map(np.concatenate, zip(*levels, strict=True))
    return played(rng, grid, pose, ruleset, steps)


def played(rng, grid, pose, ruleset, steps):
    """Return `Worlds` with the given levels (`grid`, `pose`) and tasks, and with random actions.

    Every second agent is moved to a cell next to a random object, facing the object, if this cell
    is free.
    """
    ruleset, pose = ruleset.replace(init_tiles=_no_tiles(len(grid))), pose.copy()
    for row in range(0, len(grid), 2):
        thing = rng.choice(np.argwhere(np.isin(grid[row] & 15, (*tiles.THINGS, Kind.GOAL))))
        direction = rng.integers(0, 4)
        place = thing - VECTORS[direction]
        if grid[row, *place] == tiles.FLOOR:
            pose[row] = (*place, direction)
    return _played(rng, grid, pose, np.zeros(1, np.uint8), ruleset, steps, EXPLORING)


def _played(rng, grid, pose, pool, ruleset, steps, odds=ODDS):
    rows = len(grid)
    pocket = np.where(rng.random(rows) < 0.5, 0, rng.choice(pool, rows)).astype(np.uint8)
    actions = rng.choice(6, (rows, steps), p=odds).astype(np.int32)
    return Worlds(grid, pose.astype(np.int8), pocket, ruleset, actions)


def rulesets(rng, rows, num_rules, pool, size):
    """Return random tasks with all kinds of goals, one task per environment.

    In the first half of the tasks, all rules of a task have the same kind. In the second half, each
    rule has a random kind.
    """
    kind = rng.integers(0, len(RULES), (rows, num_rules))
    half = rows // 2
    kind[:half] = 1 + np.arange(half)[:, None] % (len(RULES) - 1)
    pairs = tiles_of(rng.choice(pool, (rows, num_rules, 3)))
    pairs[rng.random(pairs.shape[:2]) < 0.1, 2] = (Kind.FLOOR, 7)
    rules = np.zeros((rows, num_rules, 7), np.uint8)
    named = np.array([form.tiles for form in RULES])[kind]
    rules[..., 0] = kind
    rules[..., 1:3] = np.where(named[..., None] >= 1, pairs[..., 0, :], 0)
    second = np.where(named[..., None] == 2, pairs[..., 1, :], pairs[..., 2, :])
    rules[..., 3:5] = np.where(named[..., None] >= 1, second, 0)
    rules[..., 5:7] = np.where(named[..., None] == 2, pairs[..., 2, :], 0)
    return Ruleset(goal=_goals(rng, rows, pool, size), rules=rules, init_tiles=_no_tiles(rows))


def _goals(rng, rows, pool, size):
    goal = np.zeros((rows, 5), np.uint8)
    kind = goal[:, 0] = rng.permutation(np.arange(rows) % len(GOALS))
    named = np.array([form.tiles for form in GOALS])[kind][:, None]
    place = rng.integers(0, size, (rows, 2))
    first, second = tiles_of(rng.choice(pool, (2, rows)))
    at = kind[:, None] == Goal.TILE_AT
    goal[:, 1:3] = np.where(named >= 1, first, np.where(kind[:, None] == Goal.AGENT_AT, place, 0))
    goal[:, 3:5] = np.where(named == 2, second, np.where(at, place, 0))
    return goal


def tiles_of(code):
    """Return the pairs (kind, colour) of tile bytes."""
    return np.stack([code & 15, code >> 4], axis=-1)


def _no_tiles(rows):
    return np.zeros((rows, 1, 2), np.uint8)


def on_device(worlds):
    """Return the batch as JAX arrays."""
    return jax.tree.map(jnp.asarray, worlds)


def kinds_alone(worlds):
    """Return the kind of the rules in each row; 0 if the rules of a row have several kinds."""
    kind = worlds.ruleset.rules[..., 0]
    return np.where((kind == kind[:, :1]).all(axis=1), kind[:, 0], Rule.NONE)
