"""Tests of Craft-Classic's worlds against craftax 1.6.1.

From equal random draws, both make equal worlds. From our own draws, counts of blocks are alike.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import peer
import pytest

import jaxenvs
from jaxenvs.craft import Block, CraftClassic, terrain

ENV = jaxenvs.make("Craft-Classic-Ids-v0")
# Block -> number of a world's cells with this block: mean and standard deviation over 2,048 worlds
# of craftax.
COUNTS = {
    "GRASS": (1896.2, 241.2),
    "WATER": (519.2, 164.4),
    "STONE": (650.8, 154.4),
    "TREE": (210.4, 40.1),
    "PATH": (264.1, 92.6),
    "COAL": (28.0, 8.3),
    "IRON": (20.2, 6.4),
    "DIAMOND": (2.15, 1.12),
    "SAND": (460.1, 99.4),
    "LAVA": (44.9, 20.3),
}
WALKABLE = (Block.GRASS, Block.SAND, Block.PATH)
GOALS = {"trees": Block.TREE, "water": Block.WATER, "stone": Block.STONE, "coal": Block.COAL}
GOALS |= {"iron": Block.IRON, "diamonds": Block.DIAMOND}


@functools.cache
def _both():
    def worlds(key):
        theirs, draws, wrong = peer.reset(key)
        return theirs.map, terrain.build(draws, True, ENV.size), wrong

    return jax.jit(worlds)


def same_worlds(seeds):
    for seed in seeds:
        theirs, ours, wrong = _both()(jax.random.PRNGKey(seed))
        np.testing.assert_array_equal(theirs, ours, err_msg=f"seed {seed}")
        assert not wrong, "the diamond is not on the cell that its draw selects"


def test_worlds_are_the_packages_cell_for_cell():
    same_worlds(range(4))


@pytest.mark.slow
def test_many_worlds_are_the_packages_cell_for_cell():
    same_worlds(range(100, 164))


@functools.cache
def our_maps(count):
    keys = jax.random.split(jax.random.key(7), count)
    draw = jax.jit(lambda keys: jax.lax.map(lambda k: ENV.sample_level(k).map, keys))
    return np.asarray(draw(keys))


def check_counts(maps):
    """Check means and standard deviations of `COUNTS` in our maps, within sampling error."""
    error = np.sqrt(1 / len(maps) + 1 / 2048)
    table = []
    for name, (mean, deviation) in COUNTS.items():
        count = (maps == Block[name]).sum(axis=(1, 2))
        off = (count.mean() - mean) / (deviation * error)
        # If counts were normally distributed, the standard error of the standard deviation would be
        # 0.71 times the mean's standard error. They are not, so use the mean's error for both.
        wide = (count.std(ddof=1) / deviation - 1) / error
        table.append((name, round(count.mean(), 1), round(count.std(ddof=1), 1), off, wide))
    print(*(f"{n:8} {m:7} +- {d:6} {o:6.2f} {w:6.2f}" for n, m, d, o, w in table), sep="\n")
    assert all(abs(off) < 4.5 and abs(wide) < 4.5 for *_, off, wide in table)
    assert ((maps == Block.DIAMOND).sum(axis=(1, 2)) >= 1).all(), "a diamond in every world"
    middle = ENV.size // 2
    assert (maps[:, middle, middle] == Block.GRASS).all(), "the player starts on grass"
    assert set(np.unique(maps)) == {Block[name] for name in COUNTS}


def test_blocks_are_as_many_as_in_the_packages_worlds():
    check_counts(our_maps(256))


@pytest.mark.slow
def test_blocks_are_as_many_as_in_the_packages_worlds_for_long():
    check_counts(our_maps(2048))


@jax.jit
@jax.vmap
def reached(map):
    """Return, for each block in GOALS, whether the player can walk to a cell next to it."""
    free = jnp.isin(map, jnp.array(WALKABLE, map.dtype))

    def grown(cells):
        padded = jnp.pad(cells, 1)
        sides = padded[:-2, 1:-1] | padded[2:, 1:-1] | padded[1:-1, :-2] | padded[1:-1, 2:]
        return cells | sides

    start = jnp.zeros(map.shape, jnp.bool_).at[map.shape[0] // 2, map.shape[1] // 2].set(True)
    once = lambda pair: (pair[1], grown(pair[1]) & free)  # noqa: E731
    walked = jax.lax.while_loop(lambda pair: (pair[0] != pair[1]).any(), once, (~start, start))[1]
    beside = grown(walked)
    return jnp.stack([(beside & (map == block)).any() for block in GOALS.values()])


@pytest.mark.slow
def test_resources_are_reachable_as_often_as_in_the_packages_worlds():
    reset = jax.jit(lambda keys: jax.lax.map(lambda key: peer.reset(key)[0].map, keys))
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(1024))
    theirs = np.asarray(reached(reset(keys))).mean(axis=0)
    ours = np.asarray(reached(jnp.asarray(our_maps(2048)))).mean(axis=0)
    shares = dict(zip(GOALS, zip(theirs.round(4), ours.round(4), strict=True), strict=True))
    print("share of worlds, theirs and ours:", shares)
    share = (1024 * theirs + 2048 * ours) / 3072
    error = np.sqrt(share * (1 - share) * (1 / 1024 + 1 / 2048))
    assert (abs(ours - theirs) <= 4 * error + 1e-9).all()


def test_start_reaches_trees_water_and_stone_in_nearly_all_worlds():
    share = dict(zip(GOALS, np.asarray(reached(our_maps(256)[:64])).mean(axis=0), strict=True))
    assert min(share["trees"], share["water"], share["stone"]) > 0.99, share


def test_without_always_diamond_some_worlds_have_none():
    params = ENV.default_params.replace(always_diamond=np.bool_(False))
    keys = jax.random.split(jax.random.key(0), 64)
    draw = jax.jit(lambda keys: jax.lax.map(lambda k: ENV.sample_level(k, params).map, keys))
    diamonds = (np.asarray(draw(keys)) == Block.DIAMOND).sum(axis=(1, 2))
    with_one = (our_maps(256)[:64] == Block.DIAMOND).sum(axis=(1, 2))
    assert (diamonds == 0).any() and diamonds.mean() < with_one.mean()


def test_given_angles_make_the_same_terrain_for_every_key():
    shapes = terrain.lattices(ENV.size)
    rng = np.random.default_rng(0)
    angles = tuple(rng.random(shape, np.float32) for shape in shapes)
    params = ENV.default_params.replace(fractal_noise_angles=angles)
    sample = jax.jit(ENV.sample_level)
    a, b = (np.asarray(sample(jax.random.key(i), params).map) for i in range(2))
    water = lambda map: map == Block.WATER  # noqa: E731 - needs no chance of its own
    np.testing.assert_array_equal(water(a), water(b))
    assert (a != b).any(), "trees and ores are drawn"


@pytest.mark.parametrize("size", [16, 32, 96])
def test_other_sizes_make_worlds_with_all_resources(size):
    env = CraftClassic(size=size, obs="ids")
    keys = jax.random.split(jax.random.key(0), 16)
    maps = np.asarray(jax.jit(lambda k: jax.lax.map(lambda x: env.sample_level(x).map, k))(keys))
    assert maps.shape == (16, size, size)
    blocks = {Block[name] for name in COUNTS}
    assert set(np.unique(maps)) <= blocks
    assert (maps[:, size // 2, size // 2] == Block.GRASS).all()
    for block in (Block.GRASS, Block.TREE, Block.STONE, Block.WATER):
        assert (maps == block).any(axis=(1, 2)).mean() > 0.5
