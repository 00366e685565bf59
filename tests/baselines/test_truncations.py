"""Tests of the values of final observations: copied states and states evaluated at once agree."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Clock, Endless, learner
from tiny import collected as collect

import jaxenvs
from jaxenvs.baselines.core import truncations
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.run import loop

AT_ONCE = 0  # value of `MOST_COPIED` with which no state is copied


@pytest.mark.parametrize("most_copied", [AT_ONCE, truncations.MOST_COPIED])
def test_all_environments_may_be_truncated_in_one_step(most_copied, monkeypatch):
    """The 200 environments are truncated together: one batch is not enough to evaluate them."""
    monkeypatch.setattr(truncations, "MOST_COPIED", most_copied)
    agent = learner(Clock(), "ppo-rnn", num_envs=200, rollout_steps=12, memory=8)
    keys = jax.random.split(jax.random.key(0), 2)
    jax.clear_caches()
    _, rollout = collect(agent, loop.start(agent, keys), keys)
    cut = np.zeros((2, 12, 200), bool)
    cut[:, [4, 9]] = True
    np.testing.assert_array_equal(rollout.truncated, cut)
    value = np.asarray(rollout.truncation_value)
    assert (value[~cut] == 0).all() and (np.abs(value[cut]) > 1e-3).all()
    # All environments observe the same time, so their values are equal, but differ by seed.
    np.testing.assert_allclose(value[:, 4], value[:, 4, :1] + np.zeros(200), rtol=1e-6)
    assert abs(value[0, 4, 0] - value[1, 4, 0]) > 1e-3


def test_both_ways_give_the_same_rollouts(monkeypatch):
    """Episodes begin at different times, so the time limit ends some in every step."""
    env = jaxenvs.make("Grid-DoorKey-5x5-v0", max_steps_in_episode=7)
    found = {}
    for most_copied in (AT_ONCE, truncations.MOST_COPIED):
        monkeypatch.setattr(truncations, "MOST_COPIED", most_copied)
        agent = learner(env, "ppo-rnn", num_envs=96, rollout_steps=40, memory=8)
        keys = jax.random.split(jax.random.key(3), 2)
        runners = loop.start(agent, keys)
        time = jax.random.randint(jax.random.key(1), (2, 96), 0, 7)
        state = jax.vmap(jax.vmap(lambda state, time: state.replace(time=time)))(
            runners.world.env, time
        )
        runners = runners._replace(world=runners.world.replace(env=state))
        jax.clear_caches()
        found[most_copied] = collect(agent, runners, keys)
    rollout = found[AT_ONCE][1]
    per_step = np.asarray(rollout.truncated).sum(axis=-1)
    assert per_step.min() > 0 and per_step.max() < 30
    jax.tree.map(assert_equal_but_for_rounding, *found.values())


def assert_equal_but_for_rounding(first, second):
    """Compiled differently, the networks may round differently."""
    if jnp.issubdtype(first.dtype, jnp.floating):
        np.testing.assert_allclose(first, second, rtol=1e-5, atol=1e-6)
    else:
        np.testing.assert_array_equal(first, second)


def bootstrap(state, memory, rows):
    """Return the sum of state, recurrent state and environment's index as a final value."""
    return state + memory + rows.astype(jnp.float32)


@pytest.mark.parametrize("envs", [1, 5, 64, 65, 1000])
def test_only_truncated_states_are_evaluated(envs):
    rng = np.random.default_rng(envs)
    evaluate = jax.jit(
        jax.vmap(lambda *given: truncations.at_once(bootstrap, *given), axis_name=SEEDS)
    )
    state, memory = (rng.normal(size=(3, envs)).astype(np.float32) for _ in range(2))
    for share in ([0.0, 0.0, 0.0], [1.0, 0.0, 0.5], [0.1, 1.0, 0.02]):
        truncated = rng.random((3, envs)) < np.array(share)[:, None]
        found = evaluate(truncated, (state, memory))
        values = state + memory + np.arange(envs, dtype=np.float32)
        np.testing.assert_array_equal(found, np.where(truncated, values, 0))


def test_a_step_without_truncations_does_not_run_the_network():
    ran = []

    def counting(state, memory, _):
        jax.debug.callback(lambda _: ran.append(1), state[0])
        return state + memory

    evaluate = jax.jit(
        jax.vmap(lambda *given: truncations.at_once(counting, *given), axis_name=SEEDS)
    )
    final = jnp.ones((1, 640)), jnp.ones((1, 640))
    evaluate(jnp.zeros((1, 640), jnp.bool_), final)
    jax.effects_barrier()
    assert not ran
    evaluate(jnp.zeros((1, 640), jnp.bool_).at[0, 300].set(True), final)
    jax.effects_barrier()
    assert len(ran) == 1


def test_copies_are_kept_while_they_are_small():
    agent = learner(Endless(), rollout_steps=12)  # a limit of five steps: three copies
    assert truncations.slots(agent, 8) == 3
    assert truncations.slots(agent, truncations.MOST_COPIED // 3) == 3
    assert truncations.slots(agent, truncations.MOST_COPIED // 3 + 1) == 0
