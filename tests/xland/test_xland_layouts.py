"""Tests of layouts against xminigrid 0.9.3: equal walls and door cells, uniform positions.

Levels must have objects, doors and agents in all possible cells equally often.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer_xland as peer
import pytest
from defaults import with_full
from scipy.stats import chisquare

import jaxenvs
from jaxenvs import registry
from jaxenvs.xland import Kind, Ruleset, layouts, tiles

IDS = registry.list("XLand")
LAYOUTS = tuple(layouts.SIZES)
BY_DEFAULT = ("XLand-R4-9x9-v0", "XLand-R9-16x16-v0")
LAID = ((3, 1), (12, 5), (3, 1), (6, 2))  # (kind, colour) of the tiles to place; two are equal
LEVELS, THEIRS = 4_000, 400
UNLIKELY = 1e-4 / len(IDS)  # p-value below which a chi-square test fails; about 10 tests per id


def some(ids):
    return [pytest.param(id, marks=[] if id in ids else pytest.mark.slow) for id in IDS]


@functools.cache
def drawn(id):
    """Return an environment, and the tile bytes and the poses of `LEVELS` levels."""
    env = jaxenvs.make(id, num_rules=1, num_tiles=6)
    params = env.params_for(Ruleset.of((1, 3, 1), init_tiles=[*LAID, (0, 0), (0, 0)]))
    keys = jax.random.split(jax.random.key(5), LEVELS)
    level = jax.jit(jax.vmap(env.sample_level, in_axes=(0, None)))(keys, params)
    return env, np.asarray(level.grid), np.asarray(level.pose)


def uniform(values, among):
    """Return whether values are uniform over `among`; fail if any other value occurs."""
    counts = np.array([(values == one).sum() for one in among])
    assert counts.sum() == values.size, "a value that is not possible"
    return len(among) == 1 or chisquare(counts).pvalue > UNLIKELY


def places(grid, tile):
    """Return the index of the only cell with this tile, for each level."""
    found = (grid == tile).reshape(len(grid), -1)
    assert (found.sum(axis=1) == 1).all()
    return found.argmax(axis=1)


@pytest.mark.parametrize("id", some(BY_DEFAULT))
def test_levels_are_uniform(id):
    env, grid, pose = drawn(id)
    plan = layouts.drawn(env.layout, env.size)
    kind = grid & 15
    for first, step, count in zip(plan.first, plan.step, plan.cells, strict=True):
        cells = kind.reshape(LEVELS, -1)[:, first + step * np.arange(count)] == Kind.CLOSED_DOOR
        assert (cells.sum(axis=1) == 1).all()
        assert uniform(cells.argmax(axis=1), np.arange(count))
    doors = grid[kind == Kind.CLOSED_DOOR]
    assert len(doors) == LEVELS * len(plan.first)
    if doors.size:
        assert uniform(doors >> 4, tiles.DOOR_COLOURS)
    agent = pose[:, 0].astype(int) * env.size + pose[:, 1]
    assert (grid.reshape(LEVELS, -1)[np.arange(LEVELS), agent] == tiles.FLOOR).all()
    assert uniform(agent, plan.free) and uniform(pose[:, 2], range(4))
    star, goal = places(grid, 0x5C), places(grid, 0x26)
    assert uniform(star, plan.free) and uniform(goal, plan.free)
    ranks = np.searchsorted(plan.free, np.stack([star, agent]))
    apart = (ranks[1] - ranks[0]) % plan.free.size
    assert uniform(apart, np.arange(1, plan.free.size))
    balls = (grid == 0x13).reshape(LEVELS, -1)
    assert (balls.sum(axis=1) == 2).all() and uniform(np.nonzero(balls)[1], plan.free)


@pytest.mark.parametrize("layout", [*LAYOUTS[::2], *with_full(*LAYOUTS[1::2])])
def test_a_layout_is_the_package_s(layout):
    size = layouts.SIZES[layout][0]
    plan = layouts.drawn(layout, size)
    cells = [first + step * np.arange(n) for first, step, n in zip(*plan[2:], strict=True)]
    for seed in range(12):
        theirs = peer.layout(layout, jax.random.key(seed), size)
        doors = np.flatnonzero(theirs & 15 == Kind.CLOSED_DOOR)
        walls = np.where(theirs & 15 == Kind.CLOSED_DOOR, tiles.WALL, theirs)
        assert np.array_equal(plan.grid, walls) and len(doors) == len(plan.first)
        assert all(np.isin(doors, own).sum() == 1 for own in cells)


@pytest.mark.parametrize("id", some(()))
def test_walls_and_doors_are_where_the_package_has_them(id):
    env, grid, _ = drawn(id)
    keys = jax.random.split(jax.random.key(0), THEIRS)
    laid = jnp.asarray(LAID, jnp.uint8)
    theirs, _ = peer.levels(registry.spec(id).aliases[0])(
        keys, jnp.broadcast_to(laid, (THEIRS, *laid.shape))
    )
    for kind in (Kind.WALL, Kind.CLOSED_DOOR):
        ours, wanted = ((levels & 15 == kind).any(axis=0) for levels in (grid, np.asarray(theirs)))
        assert np.array_equal(ours, wanted), kind
    assert set(np.unique(grid).tolist()) == set(np.unique(theirs).tolist())
    limit = peer.limit(registry.spec(id).aliases[0])
    assert env.default_params.max_steps_in_episode == limit
    assert env.observation_space.shape == (5, 5, 2)
