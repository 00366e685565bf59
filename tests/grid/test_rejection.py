"""Tests of environments whose level generators reject levels.

In registered environments, every reset accepts a level within `level_budget` draws. If a reset
rejects all its draws, `info["level_rejected"]` is true. The reset sources `fresh`, which draws a
level for every environment in each step, and `exact`, which draws levels only for environments
whose episode has ended, give the same levels.
"""

import functools
from typing import ClassVar

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from defaults import with_full

import jaxenvs
from jaxenvs.core.random import words
from jaxenvs.grid import GridEnv, Kind, Level, placement, tiles

REJECTING = [id for id in jaxenvs.registry.list() if jaxenvs.make(id).level_budget > 1]
SOME = ("Grid-MultiRoom-N6-v0", "BabyAI-GoToSeqS5R2-v0")
MILLION = 1_000_000
CHUNK = 2_048


@functools.cache
def acceptance(env):
    """Return a compiled function (indices of resets, attempts) -> whether levels are accepted."""

    @jax.jit
    @functools.partial(jax.vmap, in_axes=(0, 0))
    def accepted(number, attempt):
        key = jax.random.fold_in(jax.random.key(0), number)
        return env.accepts(env.candidate(key, attempt, env.default_params))

    return accepted


def tries(id, resets):
    """Return for each reset the number of levels that it draws until one is accepted.

    The levels are those that `sample_level` draws. For speed, up to `CHUNK` resets without an
    accepted level draw their next level in one batch.
    """
    env = jaxenvs.make(id)
    accepted = acceptance(env)

    waiting, attempt = np.arange(resets, dtype=np.int32), np.zeros(resets, np.int32)
    counts = np.zeros(resets, np.int32)
    while len(waiting):
        assert attempt.max() < env.level_budget, f"{id}: a reset has spent its budget"
        rows, rest = waiting[:CHUNK], waiting[CHUNK:]
        padding = CHUNK - len(rows)
        fine = accepted(np.pad(rows, (0, padding)), np.pad(attempt[:CHUNK], (0, padding)))
        fine = np.asarray(fine)[: len(rows)]
        counts[rows] += 1
        waiting = np.concatenate([rows[~fine], rest])
        attempt = np.concatenate([attempt[:CHUNK][~fine] + 1, attempt[CHUNK:]])
    return counts


def report(id, resets):
    counts = tries(id, resets)
    budget = jaxenvs.make(id).level_budget
    print(
        f"{id}: {resets} resets, {1 / counts.mean():.3f} of the levels accepted, "
        f"at most {counts.max()} drawn of {budget}"
    )


@pytest.mark.parametrize("id", [SOME[0], *with_full(*SOME[1:])])
def test_the_budget_is_not_spent(id):
    report(id, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("id", REJECTING)
def test_the_budget_is_not_spent_in_a_million_resets(id):
    """Check that each of a million resets accepts a level within its budget.

    The resets are divided among all ids that reject levels.
    """
    report(id, -(-MILLION // len(REJECTING)))


def test_tries_counts_the_draws_of_a_reset():
    env, id = jaxenvs.make(SOME[0]), SOME[0]
    counts = tries(id, 50)
    sample, candidate = jax.jit(env.sample_level), jax.jit(env.candidate)
    for number in (int(counts.argmax()), int(counts.argmin())):
        key = jax.random.fold_in(jax.random.key(0), number)
        level = sample(key)
        last = candidate(key, jnp.int32(counts[number] - 1), env.default_params)
        np.testing.assert_array_equal(level.grid, last.grid)
        assert level.accepted


class Choosy(GridEnv):
    """Environment that accepts levels with probability 1/4; rejected levels have a floor tile."""

    level_budget: ClassVar[int] = 3

    @property
    def height(self):
        return 3

    @property
    def width(self):
        return 4

    @property
    def max_steps(self):
        return 2

    def generate(self, key):
        (word,) = words(key, 1)
        accepted = word % jnp.uint32(4) == 0
        ground = jnp.where(accepted, jnp.uint8(tiles.EMPTY), jnp.uint8(Kind.FLOOR))
        grid = placement.put(placement.room(3, 4), 1, 2, ground)
        return Level.of(grid, 1, 1, (word >> jnp.uint32(8)) & jnp.uint32(3), accepted=accepted)


def shows(state):
    """Return whether the level of a state was rejected; a rejected level has a floor tile."""
    return np.asarray(state.grid[..., 1, 2]) == Kind.FLOOR


def test_a_reset_takes_the_first_accepted_level_or_reports_that_there_is_none():
    env = Choosy()
    reset, step = jax.jit(env.reset), jax.jit(env.step)
    candidate = jax.jit(env.candidate)
    spent = []
    for seed in range(60):
        key = jax.random.key(seed)
        key_level, _ = jax.random.split(key)
        levels = [candidate(key_level, jnp.int32(i), env.default_params) for i in range(3)]
        fine = [bool(level.accepted) for level in levels]
        first = levels[fine.index(True) if any(fine) else 2]
        state = reset(key).state
        np.testing.assert_array_equal(state.grid, first.grid)
        assert int(state.direction) == int(first.pose[2])
        for action in (0, 6):
            outcome = step(key, state, jnp.int32(action))
            assert outcome.info["level_rejected"] == (not any(fine)) == shows(state)
            state = outcome.state
        spent.append(not any(fine))
    # Expected: 25, because 0.75**3 = 42 % of 60 resets draw three rejected levels.
    assert 10 < sum(spent) < 50


def roll(venv, steps, limit):
    """Play a batch of environments for `steps` steps, with auto-resets.

    Return the last state, and arrays (steps, environments, ...): the states before each step,
    `level_rejected` and `done`.
    """
    params = venv.default_params.replace(max_steps_in_episode=np.int32(limit))
    actions = jnp.zeros(venv.num_envs, jnp.int32)

    @jax.jit
    def play(key):
        def one(state, key):
            step = venv.step(key, state, actions, params)
            return step.state, (state.env, step.info["level_rejected"], step.done)

        state = venv.reset(key, params).state
        return jax.lax.scan(one, state, jax.random.split(key, steps))

    return play(jax.random.key(3))


WAYS = [("exact", "same_step"), ("pool", "same_step"), ("exact", "next_step")]
WAYS += with_full(("fresh", "same_step"), ("auto", "same_step"))
WAYS += [
    pytest.param(source, "next_step", marks=pytest.mark.slow)
    for source in ("fresh", "auto", "pool")
]


@pytest.mark.full
@pytest.mark.parametrize(("source", "autoreset"), WAYS)
def test_a_batch_reports_where_no_level_was_accepted(source, autoreset):
    venv = jaxenvs.make_vec(
        Choosy(), 64, reset_source=source, autoreset=autoreset, pool_size=512, chunk=8
    )
    _, (states, rejected, done) = roll(venv, 12, 2)
    begins = np.zeros_like(rejected)
    if autoreset == "next_step":  # a step that only resets reports no rejection
        begins[1:] = done[:-1]
    np.testing.assert_array_equal(rejected, shows(states) & ~begins)
    assert 0.3 < shows(states).mean() < 0.55
    assert done.sum() >= 64 * 3


@pytest.mark.full
@pytest.mark.parametrize(
    "env", [Choosy(), *(pytest.param(id, marks=pytest.mark.slow) for id in SOME)]
)
def test_fresh_and_exact_make_the_same_levels(env):
    fresh, exact = (
        roll(jaxenvs.make_vec(env, 24, reset_source=source, chunk=5), 7, 2)
        for source in ("fresh", "exact")
    )
    chex.assert_trees_all_equal(fresh, exact)
    assert exact[1][2].sum() >= 24 * 3
