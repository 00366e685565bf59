"""Tests that the CPU and GPU variants of a reset source begin bit-identical episodes.

A reset source generates the levels in which the done environments of a batch begin again.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.core import reset_sources
from jaxenvs.core.starts import Starts

KEY = jax.random.key(5)
MASKS = {
    "none": lambda n: np.zeros(n, bool),
    "one": lambda n: np.arange(n) == n // 2,
    "some": lambda n: np.arange(n) % 3 == 1,
    "all": lambda n: np.ones(n, bool),
}


def begun(id, rows, batched):
    """Return the states of a batch, and the `Starts` (keys and params) of the next episodes."""
    venv = jaxenvs.make_vec(id, rows, reset_source="exact")
    params = venv.default_params
    if batched:
        limits = jnp.arange(1, rows + 1, dtype=jnp.int32)
        params = params.replace(max_steps_in_episode=limits)
    states = jax.jit(venv.reset)(jax.random.key(0), params).state.env
    return states, Starts(venv.env, rows, KEY, params)


def assert_alike(one, other, states):
    """Assert that two variants restart environments identically, for several done masks."""
    one, other = jax.jit(one), jax.jit(other)
    for mask in MASKS.values():
        ended = jnp.asarray(mask(len(states.time)))
        results = one(states, ended), other(states, ended)
        for a, b in zip(*map(jax.tree.leaves, results), strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("batched", [False, pytest.param(True, marks=pytest.mark.full)])
def test_levels_that_are_never_rejected(batched):
    states, starts = begun("Grid-DoorKey-5x5-v0", 20, batched)
    draw = functools.partial(reset_sources._first_candidates, starts)
    assert_alike(
        functools.partial(reset_sources._by_lane, starts, 3),
        functools.partial(reset_sources._listed, 4, draw, always=False),
        states,
    )


# `lanes` is the number of candidate levels that one iteration draws in parallel. With 64 lanes for
# 20 rows, each row gets several candidates. With 7 lanes, an iteration serves only some rows.
@pytest.mark.full
@pytest.mark.parametrize(("lanes", "batched"), [(64, False), (7, True)])
def test_of_several_candidates_the_first_accepted_one_counts(lanes, batched):
    states, starts = begun("BabyAI-GoToLocal-v0", 20, batched)
    assert_alike(
        functools.partial(reset_sources._by_lane, starts, 3),
        functools.partial(reset_sources._by_candidate, starts, lanes),
        states,
    )


@pytest.mark.parametrize("keys", [pytest.param("one", marks=pytest.mark.full), "each"])
def test_a_pool_is_selected_from_or_listed(keys, monkeypatch):
    states, starts = begun("Grid-DoorKey-5x5-v0", 20, False)
    if keys == "each":
        starts = starts._replace(key=jax.random.split(KEY, 20))
    draw = functools.partial(starts.env.sample_level, params=starts.params)
    levels = jax.jit(jax.vmap(draw))(jax.random.split(KEY, 6))
    monkeypatch.setattr(reset_sources, "_slots", lambda num_envs, share: 3)
    select, listed = (
        functools.partial(form, starts, levels)
        for form in (reset_sources.pool_by_selection, reset_sources.pool_by_list)
    )
    assert_alike(select, listed, states)
