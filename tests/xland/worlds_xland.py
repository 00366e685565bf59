"""Random worlds for both games: dense ones in which rules fire often, and hostile ones."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxenvs.xland import Goal, Kind, Rule, Ruleset, tiles
from jaxenvs.xland.rulesets import GOALS, RULES

ODDS = (0.34, 0.1, 0.1, 0.2, 0.22, 0.04)  # of the actions


class Worlds(NamedTuple):
    """A batch of starts, their tasks and actions."""

    grid: np.ndarray
    pose: np.ndarray
    pocket: np.ndarray
    ruleset: Ruleset
    actions: np.ndarray


def dense(rng, rows, steps, size, num_rules):
    """Rooms full of a few things, which most rules name."""
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
    """Any tile anywhere, the agent too; rules and goals about any tile."""
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


def _played(rng, grid, pose, pool, ruleset, steps):
    rows = len(grid)
    pocket = np.where(rng.random(rows) < 0.5, 0, rng.choice(pool, rows)).astype(np.uint8)
    actions = rng.choice(6, (rows, steps), p=ODDS).astype(np.int32)
    return Worlds(grid, pose.astype(np.int8), pocket, ruleset, actions)


def rulesets(rng, rows, num_rules, pool, size):
    """Rules of one kind in the first half of the rows, of all kinds in the others; every goal."""
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
    """Pairs of tile bytes."""
    return np.stack([code & 15, code >> 4], axis=-1)


def _no_tiles(rows):
    return np.zeros((rows, 1, 2), np.uint8)


def on_device(worlds):
    """The same as JAX arrays."""
    return jax.tree.map(jnp.asarray, worlds)


def kinds_alone(worlds):
    """The only kind of rules of each row, 0 where there are several."""
    kind = worlds.ruleset.rules[..., 0]
    return np.where((kind == kind[:, :1]).all(axis=1), kind[:, 0], Rule.NONE)
