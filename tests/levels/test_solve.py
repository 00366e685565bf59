"""Tests of `levels.solve`, which solves levels of every family with an exact solver."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs import levels
from jaxenvs.levels import Entry

MAZE = ">#.\n.#.\n..G"


@pytest.fixture(scope="module")
def env():
    return jaxenvs.make("Grid-Empty-5x5-v0")


def played(env, state, plan):
    """Return the result of the last step of a plan, played from `state`."""
    step: Any = None
    for action in plan:
        step = env.step(jax.random.key(0), state, action)
        state = step.state
    return step


@pytest.mark.full
def test_entries_with_different_limits_are_solved_with_theirs(env):
    level = levels.read(env, MAZE)
    entries = [level, Entry(level, {"max_steps_in_episode": np.int32(5)}), Entry(level)]
    found = levels.solve(env, entries)
    assert [each.steps for each in found] == [6, 6, 6] == [each.upper for each in found]
    assert [each.optimal_return for each in found] == [1 - 0.9 * 6 / 100, 0.0, 1 - 0.9 * 6 / 100]
    assert levels.solve(env, entries[1]) == [found[1]]


@pytest.mark.full
def test_a_state_is_solved_from_there(env):
    (best,) = levels.solve(env, levels.read(env, MAZE))
    state = env.reset_to(jax.random.key(0), levels.read(env, MAZE)).state
    state = played(env, state, best.plan[:2]).state
    (found,) = levels.solve(env, state)
    assert found.plan == best.plan[2:] and found.proven
    assert found.optimal_return == best.optimal_return
    assert played(env, state, found.plan).reward == pytest.approx(found.optimal_return)
    late = state.replace(time=jnp.int32(97))
    assert levels.solve(env, late)[0].optimal_return == 0.0


def test_a_state_of_a_puzzle_has_only_the_steps_that_are_left():
    env = jaxenvs.make("Puzzle-Hanoi-5-v0", disks=2)
    limit = int(env.default_params.max_steps_in_episode)
    drawn = [env.sample_level(jax.random.key(seed)) for seed in range(8)]
    for level in drawn:
        (whole,) = levels.solve(env, level)
        state = env.reset_to(jax.random.key(0), level).state
        for left, best in ((whole.steps, 1.0), (whole.steps - 1, 0.0)):
            (found,) = levels.solve(env, state.replace(time=jnp.int32(limit - left)))
            assert found.steps == whole.steps and found.optimal_return == best


def test_a_plan_may_be_longer_than_a_search_returns(monkeypatch):
    env = jaxenvs.make("Puzzle-Hanoi-5-v0", start="tower")
    monkeypatch.setattr("jaxenvs.search.levels.LONG", 10)
    (found,) = levels.solve(env, env.sample_level(jax.random.key(0)))
    assert found.steps == len(found.plan) == 31 and min(found.plan) >= 0


@pytest.mark.full
def test_puzzles():
    env = jaxenvs.make("Puzzle-SlidingTile-3x3-v0", scramble=6)
    drawn = jax.vmap(env.sample_level)(jax.random.split(jax.random.key(0), 3))
    for i, found in enumerate(levels.solve(env, drawn)):
        level = jax.tree.map(lambda leaf, i=i: leaf[i], drawn)
        assert found.proven and found.lower == found.steps == len(found.plan) <= 6
        if found.plan:
            assert played(env, env.reset_to(jax.random.key(0), level).state, found.plan).terminated
    (one,) = levels.solve(env, jax.tree.map(lambda leaf: leaf[0], drawn))
    assert one == levels.solve(env, drawn)[0]


@pytest.mark.full
def test_xland():
    env = jaxenvs.make("XLand-R1-9x9-v0")
    level = env.sample_level(jax.random.key(0))
    (found,) = levels.solve(env, level)
    assert found.proven and found.lower == found.steps == len(found.plan)
    step = played(env, env.reset_to(jax.random.key(0), level).state, found.plan)
    assert step.terminated and float(step.reward) == pytest.approx(found.optimal_return)


@pytest.mark.parametrize(
    ("id", "error", "message"),
    [
        ("Classic-CartPole-v0", NotImplementedError, "has no exact solver; families with one are"),
        ("Grid-Dynamic-Obstacles-5x5-v0", TypeError, "obstacles of .* move at random"),
        ("Grid-Playground-v0", TypeError, "no mission"),
        ("Puzzle-TSP-10-v0", TypeError, "differ in cost"),
    ],
)
def test_an_environment_without_solver_or_optimum_is_explained(id, error, message):
    env = jaxenvs.make(id)
    with pytest.raises(error, match=message):
        levels.solve(env, env.sample_level(jax.random.key(0)))
