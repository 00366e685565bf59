"""Property tests: the agent's texts never depend on state that the agent does not observe."""

import functools

import jax
import numpy as np
import pytest
from defaults import with_full
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxenvs
from jaxenvs.grid import Kind
from jaxenvs.text import describe_batch

SEEDS = st.integers(0, 2**31 - 1)
EXAMPLES = settings(max_examples=4, deadline=None, derandomize=True, database=None)
ROWS = 16


@functools.cache
def rollout(env):
    """Return a compiled function: keys -> batches of states before and after a random action."""

    def play(key):
        before = env.reset(key).state
        for i in range(3):
            action = env.action_space.sample(jax.random.fold_in(key, i))
            before = env.step(key, before, action).state
        return before, env.step(key, before, env.action_space.sample(key)).state

    return jax.jit(jax.vmap(play))


@functools.cache
def observed(env):
    return jax.jit(jax.vmap(env.observe))


@functools.cache
def replaced(leaf):
    """Return a compiled function that sets the field `leaf` of each state of a batch."""
    return jax.jit(jax.vmap(lambda state, value: state.replace(**{leaf: value})))


def hidden(env, states, leaf, change):
    """Return the states with changes to the field `leaf` that do not change the observation.

    Eight changes are tried one after another; `change(values, index)` returns the values of the
    field after change number `index`. Each state keeps the changes after which its observation is
    unchanged.
    """
    values = np.array(getattr(states, leaf))
    seen = observed(env)(states)
    for index in range(8):
        other = change(values.copy(), index)
        shown = observed(env)(replaced(leaf)(states, other))
        equal = jax.tree.map(lambda a, b: (a == b).reshape(ROWS, -1).all(axis=1), seen, shown)
        kept = functools.reduce(np.logical_and, jax.tree.leaves(equal))
        values[kept] = other[kept]
    return replaced(leaf)(states, values)


def texts(env, before, after):
    short, full = (describe_batch(env, after, detail) for detail in ("short", "full"))
    return short, full, describe_batch(env, after, "changes", before)


def cells(rng, codes):
    """Return a function that sets a random cell of each map to a random element of `codes`."""

    def change(values, index):
        flat = values.reshape(ROWS, -1)
        places = rng.integers(flat.shape[1], size=ROWS)
        flat[np.arange(ROWS), places] = rng.choice(codes, ROWS)
        return flat.reshape(values.shape)

    return change


CASES = {
    "Grid-DoorKey-8x8-v0": ("grid", [Kind.EMPTY, Kind.BALL, Kind.KEY | 16, Kind.BOX | 32]),
    "Grid-MultiRoom-N4-S5-v0": ("grid", [Kind.EMPTY, Kind.BALL, Kind.LOCKED_DOOR | 16]),
    "XLand-R1-9x9-v0": ("grid", [0x71, 0x13, 0x26]),
    "Craft-Classic-Ids-v0": ("map", [2, 5, 8, 9]),
}
FIRST_CASE, *OTHER_CASES = CASES


@pytest.mark.parametrize("id", [FIRST_CASE, *with_full(*OTHER_CASES)])
@EXAMPLES
@given(seed=SEEDS)
def test_cells_out_of_sight_change_no_text(id, seed):
    env, rng = jaxenvs.make(id), np.random.default_rng(seed)
    before, after = rollout(env)(jax.random.split(jax.random.key(seed), ROWS))
    leaf, codes = CASES[id]
    change = cells(rng, np.array(codes))
    others = [hidden(env, states, leaf, change) for states in (before, after)]
    assert any(
        (getattr(a, leaf) != getattr(b, leaf)).any()
        for a, b in zip(others, (before, after), strict=True)
    )
    assert texts(env, *others) == texts(env, before, after)


@EXAMPLES
@given(seed=SEEDS)
def test_mines_below_covered_cells_change_no_text(seed):
    env, rng = jaxenvs.make("Puzzle-Minesweeper-10x10-v0"), np.random.default_rng(seed)
    before, after = rollout(env)(jax.random.split(jax.random.key(seed), ROWS))
    cases = cells(rng, np.arange(10))
    others = [hidden(env, states, "cells", cases) for states in (before, after)]
    assert texts(env, *others) == texts(env, before, after)


@EXAMPLES
@given(seed=SEEDS)
def test_the_contents_of_boxes_change_no_text(seed):
    env = jaxenvs.make("Grid-ObstructedMaze-1Dlh-v0")
    before, after = rollout(env)(jax.random.split(jax.random.key(seed), ROWS))
    others = []
    for states in (before, after):
        boxed = (np.asarray(states.grid) & 15) == Kind.KEY_BOX
        assert boxed.any()
        grid = np.where(boxed, Kind.BOX | 80, states.grid).astype(np.uint8)
        others.append(replaced("grid")(states, grid))
    assert texts(env, *others) == texts(env, before, after)
