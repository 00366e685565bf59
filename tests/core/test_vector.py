"""Tests of batches: auto-reset against a plain Python loop, and the reset sources.

A reset source (`exact`, `fresh` or `pool`) generates the levels of the next episodes.
"""

import functools
import itertools
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full
from scipy.stats import chisquare

import jaxenvs
from jaxenvs.core import random
from jaxenvs.core.env import Env, Params, State

ENDING = "Grid-LavaGapS5-v0"  # random play ends soon, at the latest at the time limit LIMIT
LEVELS = "Grid-DoorKey-5x5-v0"
ROWS, STEPS, LIMIT = 5, 14, 4
KEY = jax.random.key(3)


def same(a, b):
    """Assert that two pytrees are equal bit by bit."""
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_array_equal(x, y)


def row(tree, i):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[i], tree)


def stack(trees):
    return jax.tree.map(lambda *leaves: np.stack(leaves), *trees)


def differs(a, b):
    """Return a mask of the rows in which two pytrees differ."""
    leaves = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)
    rows = [(np.asarray(x) != np.asarray(y)).reshape(len(x), -1).any(axis=1) for x, y in leaves]
    return np.logical_or.reduce(rows)


@functools.cache
def batch(id, rows, **fields):
    """Return a batch and its compiled functions."""
    venv = jaxenvs.make_vec(id, rows, **fields)
    return venv, jax.jit(venv.reset), jax.jit(venv.step), jax.jit(venv.reset_rows)


class Loop:
    """Reference for auto-reset: step the environments in a Python loop, and reset finished ones."""

    def __init__(self, compiled, mode, reset, key, params):
        self.step_one, self.mode, self.params = compiled(ENDING).step, mode, params
        self.worlds = lambda key: reset(key, params)
        first = self.worlds(key)
        self.states = [row(first.state.env, i) for i in range(ROWS)]
        self.ended = [False] * ROWS

    def step(self, key, actions):
        worlds = self.worlds(key)  # initial states for rows that restart
        outputs = []
        for i, action in enumerate(actions):
            new = (row(worlds.obs, i), row(worlds.state.env, i))
            one = self.step_one(key, self.states[i], action, self.params)
            obs, state, reward, terminated, truncated = one[:5]
            final, ended = obs, bool(one.done)
            if self.mode == "same_step" and ended:
                obs, state = new
            if self.mode == "next_step" and self.ended[i]:
                (obs, state), ended = new, False
                reward, terminated, truncated = np.float32(0), np.False_, np.False_
            self.states[i], self.ended[i] = state, ended
            outputs.append((obs, state, reward, terminated, truncated, final))
        return [stack(parts) for parts in zip(*outputs, strict=True)]


@pytest.mark.parametrize("mode", ["same_step", "next_step", "none"])
def test_auto_reset_equals_a_plain_loop(mode, compiled):
    venv, reset, step, _ = batch(ENDING, ROWS, autoreset=mode, reset_source="exact")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(LIMIT))
    loop = Loop(compiled, mode, reset, KEY, params)
    state, ends = reset(KEY, params).state, [0, 0]
    forward = jax.random.bernoulli(KEY, 0.6, (STEPS, ROWS))
    actions = np.where(forward, 2, jax.random.randint(KEY, (STEPS, ROWS), 0, 7))
    actions = actions.astype(np.int32)
    for time in range(STEPS):
        key = jax.random.fold_in(KEY, time)
        got = step(key, state, actions[time], params)
        obs, states, reward, terminated, truncated, final = loop.step(key, actions[time])
        same(got.obs, obs)
        same(got.state.env, states)
        same((got.reward, got.terminated, got.truncated), (reward, terminated, truncated))
        assert ("final_obs" in got.info) == (mode == "same_step")
        if mode == "same_step":
            same(got.info["final_obs"], final)
        state = got.state
        ends[0] += int(got.terminated.sum())
        ends[1] += int(got.truncated.sum())
    assert min(ends) > 0, "both kinds of end occurred"


def test_a_step_that_only_restarts_ignores_its_action():
    venv, reset, step, _ = batch(ENDING, ROWS, autoreset="next_step", reset_source="exact")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    ended = step(KEY, reset(KEY, params).state, jnp.zeros(ROWS, jnp.int32), params)
    assert ended.truncated.all() and ended.state.ended.all()
    wild = step(KEY, ended.state, jnp.full(ROWS, 99), params)
    assert not wild.info["invalid_action"].any() and not wild.done.any()
    assert not wild.state.ended.any() and (wild.state.env.time == 0).all()
    same(wild.obs, reset(KEY, params).obs)


def test_a_step_that_only_restarts_has_no_reward():
    """With `next_step`, a step that only resets has reward 0.

    CartPole itself would give reward 1: after a truncation, the pole is still upright.
    """
    venv, reset, step, _ = batch("Classic-CartPole-v0", ROWS, autoreset="next_step")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    actions = jnp.zeros(ROWS, jnp.int32)
    ended = step(KEY, reset(KEY, params).state, actions, params)
    assert ended.truncated.all() and (np.asarray(ended.reward) == 1).all()
    anew = step(KEY, ended.state, actions, params)
    assert (np.asarray(anew.reward) == 0).all() and not anew.done.any()


MASKS = {
    "none": lambda n: np.zeros(n, bool),
    "one": lambda n: np.arange(n) == n // 2,
    "last": lambda n: np.arange(n) == n - 1,
    "some": lambda n: np.arange(n) % 3 == 1,
    "neighbours": lambda n: np.arange(n) < (n + 1) // 2,
    "all": lambda n: np.ones(n, bool),
}
SHAPES = [  # (number of rows, chunk size, whether the params are batched)
    (5, 1, True),
    pytest.param(1, None, True, marks=pytest.mark.full),
    pytest.param(9, 4, False, marks=pytest.mark.full),
    pytest.param(9, 16, True, marks=pytest.mark.full),
    (70, None, False),
]


def params_of(venv, batched):
    if not batched:
        return venv.default_params
    limits = jnp.arange(1, venv.num_envs + 1, dtype=jnp.int32)
    return venv.default_params.replace(max_steps_in_episode=limits)


@pytest.mark.parametrize(("rows", "chunk", "batched"), SHAPES)
def test_exact_makes_the_levels_of_fresh_for_any_number_of_done_rows(rows, chunk, batched):
    exact, reset, _, restart_exact = batch(LEVELS, rows, reset_source="exact", chunk=chunk)
    *_, restart_fresh = batch(LEVELS, rows, reset_source="fresh")
    params = params_of(exact, batched)
    before = reset(KEY, params)
    for number, (name, mask) in enumerate(MASKS.items()):
        chosen = mask(rows)
        key = jax.random.fold_in(KEY, number)
        after = restart_exact(key, before.state, chosen, params)
        same(after, restart_fresh(key, before.state, chosen, params))
        changed = differs(after.state.env, before.state.env)
        assert not (changed & ~chosen).any(), name  # only the chosen rows have changed
        # About 30 % of the chosen rows may be unchanged: levels of 5x5 cells sometimes repeat.
        assert changed.sum() >= chosen.sum() * 0.7 - 1, name


@pytest.mark.full
@pytest.mark.parametrize("batched", [*with_full(False), True], ids=["one_params", "batched_params"])
def test_exact_plays_as_fresh_step_by_step(batched):
    """Reset sources `exact` and `fresh` give the same steps.

    With batched params, environment i has the time limit i + 1, so few episodes end together.
    """
    (exact, reset, step, _), (_, _, step_fresh, _) = (
        batch(LEVELS, 9, reset_source=source, **chunk)
        for source, chunk in (("exact", {"chunk": 2}), ("fresh", {}))
    )
    params = params_of(exact, batched)
    if not batched:
        params = params.replace(max_steps_in_episode=np.int32(3))
    state = other = reset(KEY, params).state
    ends = set()
    for time in range(12):
        key = jax.random.fold_in(KEY, time)
        actions = jax.random.randint(key, (9,), 0, 7)
        got, wanted = step(key, state, actions, params), step_fresh(key, other, actions, params)
        same(got, wanted)
        ends.add(int(got.done.sum()))
        state, other = got.state, wanted.state
    assert len(ends) > (3 if batched else 1)


@pytest.mark.full
def test_exact_levels_are_independent_of_each_other():
    """All episodes end in each of two steps; all levels of the next episodes must differ."""
    rows = 64
    venv, reset, step, _ = batch("Grid-FourRooms-v0", rows, reset_source="exact", chunk=8)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    state, worlds = reset(KEY, params).state, set()
    for time in range(2):
        done = step(jax.random.fold_in(KEY, time), state, jnp.zeros(rows, jnp.int32), params)
        assert done.done.all()
        state = done.state
        places = zip(state.env.grid, state.env.row, state.env.column, strict=True)
        worlds |= {(np.asarray(g).tobytes(), int(r), int(c)) for g, r, c in places}
    assert len(worlds) == 2 * rows


def grids(tree):
    return [np.asarray(grid).tobytes() for grid in tree.grid]


@pytest.mark.full
def test_a_pool_gives_only_its_levels_and_all_of_them():
    rows, size = 200, 8
    venv, reset, step, _ = batch("Grid-FourRooms-v0", rows, reset_source="pool", pool_size=size)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    state = reset(KEY, params).state
    pool = grids(state.pool)
    assert len(set(pool)) == size
    counts = dict.fromkeys(pool, 0)
    for time in range(4):
        done = step(jax.random.fold_in(KEY, time), state, jnp.zeros(rows, jnp.int32), params)
        same(done.state.pool, state.pool)
        state = done.state
        for grid in grids(state.env):
            counts[grid] += 1  # a level from outside the pool would raise KeyError
        poses = zip(grids(state.env), state.env.row, state.env.column, strict=True)
        starts = {
            g: tuple(pose[:2]) for g, pose in zip(pool, state.pool.pose.tolist(), strict=True)
        }
        assert all(starts[g] == (r, c) for g, r, c in poses)
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_refresh_draws_another_pool_and_leaves_the_rows():
    venv, reset, *_ = batch("Grid-FourRooms-v0", 200, reset_source="pool", pool_size=8)
    state = reset(KEY, venv.default_params).state
    refreshed = jax.jit(venv.refresh)(jax.random.key(9), state)
    same(refreshed.env, state.env)
    assert not set(grids(refreshed.pool)) & set(grids(state.pool))
    exact = jaxenvs.make_vec(LEVELS, 2, reset_source="exact")
    state = batch(LEVELS, 5, chunk=1, reset_source="exact")[1](KEY).state
    assert exact.refresh(KEY, state) is state


def test_a_gradual_refresh_replaces_the_oldest_levels():
    venv, reset, *_ = batch(
        "Grid-FourRooms-v0", 200, reset_source="pool", pool_size=8, refresh_size=3
    )
    state = reset(KEY, venv.default_params).state
    refresh, seen = jax.jit(venv.refresh), [grids(state.pool)]
    for seed in range(3):
        state = refresh(jax.random.key(seed), state)
        seen.append(grids(state.pool))
    for before, after in itertools.pairwise(seen):
        assert after[:5] == before[3:]
        assert not set(after[5:]) & set(before)


@pytest.mark.full
def test_a_refresh_is_no_larger_than_the_pool(as_a_user):
    with pytest.raises(ValueError, match="refresh_size"):
        jaxenvs.make_vec(LEVELS, 2, reset_source="pool", pool_size=4, refresh_size=5)


def test_a_pool_takes_one_set_of_params(as_a_user):
    venv = jaxenvs.make_vec(LEVELS, 3, reset_source="pool", pool_size=2)
    with pytest.raises(ValueError, match="'exact'"):
        jax.eval_shape(venv.reset, KEY, params_of(venv, batched=True))


@pytest.mark.parametrize("source", ["exact", "pool", *with_full("fresh")])
def test_reset_rows_starts_the_chosen_rows_only(source):
    venv, reset, step, restart = batch(
        ENDING, ROWS, autoreset="next_step", reset_source=source, pool_size=4
    )
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    ended = step(KEY, reset(KEY, params).state, jnp.zeros(ROWS, jnp.int32), params)
    rows = jnp.array([True, False, False, True, False])
    again = restart(KEY, ended.state, rows, params)
    np.testing.assert_array_equal(again.state.env.time, jnp.where(rows, 0, 1))
    np.testing.assert_array_equal(again.state.ended, jnp.where(rows, 0, 1))
    same(row(again.obs, ~rows), row(ended.obs, ~rows))
    same(row(again.state.env, ~rows), row(ended.state.env, ~rows))


@pytest.mark.parametrize("source", ["exact", *with_full("fresh")])
def test_with_a_key_for_each_row_only_its_own_counts(source):
    """Each row depends on its own key only: permuted keys give permuted rows."""
    venv, reset, step, _ = batch(LEVELS, 9, reset_source=source, chunk=2)
    params = venv.default_params.replace(max_steps_in_episode=np.int32(1))
    keys, order = jax.random.split(KEY, 9), jax.random.permutation(KEY, 9)
    actions = jnp.zeros(9, jnp.int32)

    def play(keys):
        first = reset(keys, params)
        return first, step(
            jax.vmap(jax.random.fold_in)(keys, jnp.ones(9, jnp.int32)), first.state, actions, params
        )

    same(row(play(keys), order), play(keys[order]))


def test_the_rows_of_one_key_have_different_levels():
    _, reset, *_ = batch("Grid-FourRooms-v0", 64, reset_source="exact", chunk=8)
    assert len(set(grids(reset(KEY).state.env))) == 64


def test_batched_params_reach_their_rows():
    venv, reset, step, _ = batch(LEVELS, 9, reset_source="fresh")
    params = params_of(venv, batched=True)
    done = step(KEY, reset(KEY, params).state, jnp.zeros(9, jnp.int32), params)
    assert done.truncated.tolist() == [True] + [False] * 8


def test_a_batch_steps_inside_the_callers_transforms():
    """`vmap` over two batches with different keys gives the same as each batch alone."""
    venv = jaxenvs.make_vec("Grid-Empty-Random-5x5-v0", 3, reset_source="exact")
    params = venv.default_params.replace(max_steps_in_episode=np.int32(2))

    def play(key):
        def one(state, key):
            done = venv.step(key, state, jnp.zeros(3, jnp.int32), params)
            return done.state, done.obs

        return jax.lax.scan(one, venv.reset(key, params).state, jax.random.split(key, 5))[1]

    keys = jax.random.split(KEY, 2)
    both, alone = jax.jit(jax.vmap(play))(keys), jax.jit(play)
    for i in range(2):
        same(both[i], alone(keys[i]))


class Vast(Env):
    """Environment whose levels are a megabyte of random words; the state is a single number."""

    levels_at_once: ClassVar[int] = 4
    default_params = Params(max_steps_in_episode=np.int32(9))

    def draw_level(self, key, params):
        """Draw a megabyte of random words."""
        return random.words(key, 1 << 18)

    def reset_state(self, key, level, params):
        """Store the index of the largest XOR of neighbouring words, which needs the whole level."""
        place = jnp.argmax(level ^ jnp.roll(level, 1)).astype(jnp.int32)
        return State(time=place)

    def observe(self, state, params=None):
        """Observe the number in the state."""
        return state.time


def test_a_batch_makes_at_most_levels_at_once_levels_at_a_time():
    compiled = jax.jit(jaxenvs.make_vec(Vast(), 64).reset).lower(KEY).compile()
    assert compiled.memory_analysis().temp_size_in_bytes <= 24 << 20
