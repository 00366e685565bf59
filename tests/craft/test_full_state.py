"""Tests of the packed state of the full game: packing is lossless, and the state is small."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jaxenvs.craft.floors import FullLevel
from jaxenvs.craft.full import CraftFull
from jaxenvs.craft.full_rows import COLOURS
from jaxenvs.craft.ground import cells_of

ENV = CraftFull(obs="ids")


def level(rng):
    """Return a level with random blocks, torches and light on every cell."""
    shape = (9, 48, 48)
    return FullLevel(
        map=jnp.asarray(rng.integers(2, 36, shape), jnp.uint8),
        items=jnp.asarray(rng.integers(0, 2, shape), jnp.uint8),
        light=jnp.asarray(rng.random(shape), jnp.float32),
        down_ladders=jnp.asarray(rng.integers(0, 48, (9, 2)), jnp.int32),
        up_ladders=jnp.asarray(rng.integers(0, 48, (9, 2)), jnp.int32),
        potion_mapping=jnp.asarray(rng.permutation(6), jnp.int32),
    )


@jax.jit
def begun(key, level):
    state = ENV.reset_state(key, level, ENV.default_params)
    world = ENV.world(state)
    more = {"floors": state.floors, "light": state.light}
    return state, world, ENV.packed(state.time, state.map, world, **more)


@pytest.mark.full
def test_a_state_packs_losslessly_into_23_kilobytes():
    given = level(np.random.default_rng(0))
    state, world, again = begun(jax.random.key(0), given)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert sum(leaf.nbytes for leaf in jax.tree.leaves(state)) <= 23_000
    assert [int(world.effects[colour]) for colour in COLOURS] == given.potion_mapping.tolist()
    assert (int(world.stairs["down_row"]), int(world.kills)) == (int(given.down_ladders[0, 0]), 10)


def test_a_cell_stores_its_block_item_and_light():
    given = level(np.random.default_rng(1))
    cells = np.asarray(cells_of(given.map, given.items, given.light))
    np.testing.assert_array_equal(cells & 63, given.map)
    np.testing.assert_array_equal((cells >> 6) & 1, given.items)
    np.testing.assert_array_equal(cells >> 7, np.asarray(given.light) > 0.05)
