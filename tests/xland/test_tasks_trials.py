"""Tests of `Trials`: several episodes per task; `done` only at the end of a trial."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium.wrappers.vector import RecordEpisodeStatistics

import jaxenvs
from jaxenvs import xland
from jaxenvs.xland import Goal, Trials

EPISODES, LIMIT, STEPS, ROWS = 3, 12, 120, 8


@functools.cache
def trials() -> tuple[Trials, Any]:
    """Return a `Trials` environment, and params with an easy task and an impossible one.

    Random play soon solves the easy task.
    """
    env = jaxenvs.make("XLand-R1-9x9-v0", num_rules=2, num_tiles=2)
    goals = [(Goal.AGENT_NEAR, 2, 6), (Goal.HOLD, 12, 11)]
    tasks = [xland.Ruleset.of(goal, (), [(3, 1)]).packed() for goal in goals]
    rulesets = jax.tree.map(lambda *leaves: jnp.stack(leaves), *tasks)
    made, params = Trials.of(env, xland.Benchmark(rulesets=rulesets), EPISODES)
    inner = params.env.replace(max_steps_in_episode=jnp.int32(LIMIT))
    return made, params.replace(env=inner)


@functools.cache
def played() -> tuple[Any, Any, Any, Any]:
    """Play at random; return the states before and after each step, the steps, and the `Trials`."""
    env, params = trials()
    venv = jaxenvs.make_vec(env, ROWS)

    def step(carry, key):
        key_action, key_step = jax.random.split(key)
        action = jax.vmap(env.action_space.sample)(jax.random.split(key_action, ROWS))
        stepped = venv.step(key_step, carry, action, params)
        return stepped.state, (carry.env, stepped.state.env, stepped)

    @jax.jit
    def play(key):
        _, state = venv.reset(key, params)
        return jax.lax.scan(step, state, jax.random.split(key, STEPS))[1]

    before, after, steps = jax.device_get(play(jax.random.key(0)))
    return before, after, steps, env


def ends_of(steps: Any) -> np.ndarray:
    return steps.terminated | steps.truncated


@pytest.mark.full
def test_a_trial_keeps_its_task_and_a_new_trial_draws_one():
    before, after, steps, _ = played()
    kept = ~ends_of(steps)
    assert (before.task == after.task)[kept].all()
    assert (before.task != after.task)[~kept].any() and (before.task == after.task)[~kept].any()
    assert (after.time == np.where(ends_of(steps), 0, before.time + 1)).all()


def test_a_trial_ends_with_its_last_episode_and_never_by_time():
    before, after, steps, _ = played()
    trial = steps.info["trial"]
    assert (trial["episode"] == before.episode).all()
    assert (ends_of(steps) == (trial["finished"] & (before.episode == EPISODES - 1))).all()
    assert ends_of(steps).sum() > 10 and not steps.truncated.any()
    going_on = trial["finished"] & ~ends_of(steps)
    assert (after.episode == np.where(ends_of(steps), 0, before.episode + trial["finished"])).all()
    assert (after.env.time[going_on] == 0).all() and (before.env.time < LIMIT).all()
    assert (after.env.grid != before.env.grid)[going_on].any(axis=(1, 2)).mean() > 0.9


def test_episodes_end_by_the_goal_of_the_task_or_by_the_limit():
    before, _, steps, _ = played()
    trial = steps.info["trial"]
    assert (trial["solved"] == (steps.reward > 0)).all()
    assert trial["solved"][before.task == 0].any() and not trial["solved"][before.task == 1].any()
    by_time = trial["finished"] & ~trial["solved"]
    assert (before.env.time[by_time] == LIMIT - 1).all() and by_time[before.task == 1].any()


def test_returns_of_the_episodes_of_a_trial():
    before, _, steps, _ = played()
    row = int(np.argmax(steps.info["trial"]["solved"].sum(axis=0)))
    ends = np.flatnonzero(ends_of(steps)[:, row])
    start, end = (ends[0] + 1, ends[1] + 1) if len(ends) > 1 else (0, ends[0] + 1)
    trial = {name: values[start:end, row] for name, values in steps.info["trial"].items()}
    reward = steps.reward[start:end, row]
    returns = np.asarray(xland.episode_returns(trial, reward, EPISODES))
    wanted = [reward[before.episode[start:end, row] == number].sum() for number in range(EPISODES)]
    np.testing.assert_allclose(returns, wanted, rtol=1e-6)
    assert (returns > 0).any()


def test_the_first_observation_of_an_episode_is_returned():
    _, after, steps, env = played()
    obs = jax.vmap(jax.vmap(env.observe))(after)
    np.testing.assert_array_equal(obs, steps.obs)


@pytest.mark.full
def test_gymnax_code_sees_a_trial_as_an_episode():
    env, params = trials()
    served = jaxenvs.adapters.to_gymnax(env)
    state = served.reset(jax.random.key(1), params)[1]
    step = jax.jit(served.step)
    for number in range(EPISODES * LIMIT):
        _, state, _, ended, truncated, info = step(
            jax.random.key(number), state, jnp.int32(0), params
        )
        trial = info["trial"]
        assert bool(ended) == bool(trial["finished"] & (trial["episode"] == EPISODES - 1))
        assert not truncated
        if ended:
            return
    raise AssertionError("the trial did not end")


def test_invalid_trials_are_refused():
    env = jaxenvs.make("XLand-R1-9x9-v0", num_rules=1, num_tiles=4)
    tasks = xland.Benchmark(
        rulesets=xland.PackedRuleset(
            goal=np.zeros(2, np.uint32),
            rules=np.zeros((2, 4), np.uint32),
            init_tiles=np.zeros((2, 3), np.uint8),
        )
    )
    with pytest.raises(ValueError, match=r"up to 4 rules, this environment holds 1; make it with"):
        Trials.of(env, tasks)
    with pytest.raises(ValueError, match="Trials: episodes=-1 is out of range"):
        Trials(env=env, episodes=-1)
    with pytest.raises(ValueError, match="episodes=0 and steps=0 never end; give one of them"):
        Trials(env=env, episodes=0)
    with pytest.raises(TypeError, match="needs an environment with rulesets, got"):
        Trials(env=jaxenvs.make("Grid-v0"))


@pytest.mark.full
def test_gymnasium_code_sees_a_trial_as_an_episode():
    """Wrap a vector environment by Gymnasium's episode statistics, as RL² code does."""
    env, params = trials()
    served = RecordEpisodeStatistics(jaxenvs.adapters.to_gymnasium_vec(env, ROWS, params=params))
    obs, _ = served.reset(seed=3)
    rng, trials_done, finished = np.random.default_rng(0), 0, np.zeros(ROWS, int)
    for _ in range(EPISODES * LIMIT):
        assert obs in served.observation_space
        obs, _, ended, truncated, info = served.step(rng.integers(0, 6, ROWS))
        trial = info["trial"]
        finished += trial["finished"]
        assert (ended == (trial["finished"] & (trial["episode"] == EPISODES - 1))).all()
        assert not truncated.any() and (finished[ended] == EPISODES).all()
        if ended.any():
            lengths = info["episode"]["l"][ended]
            assert ((lengths >= EPISODES) & (lengths <= EPISODES * LIMIT)).all()
        finished[ended] = 0
        trials_done += ended.sum()
    assert trials_done > 0


def test_sets_are_split_by_shares_of_a_fixed_order():
    env = jaxenvs.make("XLand-R1-9x9-v0", num_rules=1, num_tiles=5)
    parts = [env.trials("trivial-21k", part) for part in ((0.0, 0.25), (0.25, 1.0))]
    assert [trials.num_tasks for trials in parts] == [5250, 15750]
    goals = [trials.default_params.tasks.goal for trials in parts]
    whole = xland.benchmark("trivial-21k").rulesets.goal
    assert sorted(np.concatenate(goals).tolist()) == sorted(np.asarray(whole).tolist())
    with pytest.raises(ValueError, match=r"from 0\.5 to 0\.5 of 21,000 tasks there are none"):
        env.trials("trivial-21k", (0.5, 0.5))
    with pytest.raises(ValueError, match="has no sets of tasks to draw trials from"):
        jaxenvs.make("Grid-v0").trials("trivial-21k")
