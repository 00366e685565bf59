"""Tests of TD3: TD targets and delayed actor updates against NumPy."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import HIGH, LOW, Push

from jaxenvs.baselines.core import replay_buffer
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.off_policy import actor_critic, td3
from jaxenvs.baselines.off_policy.actor_critic_networks import critic_values
from jaxenvs.baselines.run import loop

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def agent():
    return tiny.learner(Push(), "td3")


@pytest.fixture(scope="module")
def runner(agent):
    """Return the runner after two updates: one in the warm-up, and one with gradient steps."""
    made = loop.start(agent, jax.random.key(0)[None])
    for _ in range(2):
        made, _ = loop.run_chunk(agent, made)
    return jax.tree.map(lambda leaf: leaf[0], made)


def sampled(agent, runner):
    sample = functools.partial(replay_buffer.sample, size=32, n_step=1, gamma=agent.settings.gamma)
    return jax.jit(sample)(jax.random.key(3), runner.replay_buffer)


def test_targets_are_the_least_critic_near_the_target_actors_action(agent, runner):
    learned, batch, key = actor_critic.Learned.of(runner), sampled(agent, runner), jax.random.key(5)
    chance = actor_critic.Noise(jax.random.normal(key, (32, 2), jnp.float32), key)

    @jax.jit
    def parts(learned, batch):
        target = learned.target
        action = td3.best_action(agent, target["weights"], batch.next_obs)
        near = td3.noisy(agent, action, chance.noise, 0.2, 0.5)
        values = critic_values(agent, target["critic"], batch.next_obs, near)
        outputs = jax.vmap(agent.network.apply, (None, 0))(target["weights"], batch.next_obs)
        return outputs, action, near, values, td3.td_target(agent, learned, batch, chance)

    outputs, action, near, values, found = map(np.asarray, parts(learned, batch))
    # All standard deviations must be the smallest possible, which the raw output -20 gives.
    np.testing.assert_array_equal(outputs[:, 2:], -20)
    stretched = LOW + (HIGH - LOW) * (np.tanh(outputs[:, :2]) + 1) / 2
    np.testing.assert_allclose(action, stretched, rtol=1e-5, atol=1e-6)
    noise = np.asarray(chance.noise) * 0.2
    moved = action + (HIGH - LOW) / 2 * noise.clip(-0.5, 0.5)
    np.testing.assert_allclose(near, moved.clip(LOW, HIGH), rtol=1e-5, atol=1e-6)
    wanted = batch.reward + batch.discount * values[..., 0].min(axis=0)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_actor_and_target_networks_move_in_every_other_gradient_step(agent, runner):
    one, size = functools.partial(td3.gradient_step, agent), agent.settings.batch_size
    batch = jax.tree.map(lambda leaf: leaf[:size], sampled(agent, runner))
    of_a_seed = jax.vmap(one, in_axes=None, out_axes=None, axis_size=1, axis_name=SEEDS)
    step = jax.jit(of_a_seed)
    first, second = (td3.draw(agent, jax.random.key(i)) for i in range(2))
    first, _ = step(actor_critic.Learned.of(runner), batch, first)
    second, _ = step(first, batch, second)

    def same(a, b, name):
        pair = getattr(a, name), getattr(b, name)
        return all(jax.tree.leaves(jax.tree.map(np.array_equal, *pair)))

    for name in ("weights", "target"):
        moves = [
            not same(actor_critic.Learned.of(runner), first, name),
            not same(first, second, name),
        ]
        assert sorted(moves) == [False, True], name
    assert not same(actor_critic.Learned.of(runner), first, "critic") and not same(
        first, second, "critic"
    )


def test_exploration_noise_stays_within_the_bounds(agent):
    outputs = jnp.zeros((1000, 4)).at[:, 2:].set(-20)
    noise = jax.random.normal(jax.random.key(0), (1000, 2), jnp.float32)
    action = np.asarray(jax.jit(functools.partial(td3.explore, agent))(outputs, noise))
    np.testing.assert_allclose(action.mean(axis=0), [0, 2], atol=0.03)
    np.testing.assert_allclose(action.std(axis=0), [0.1, 0.2], rtol=0.1)
    wild = jnp.full((1000, 4), 5.0)
    action = np.asarray(jax.jit(functools.partial(td3.explore, agent))(wild, noise))
    assert (action <= HIGH).all() and (action >= LOW).all()


def test_the_log_does_not_average_the_warm_up(agent):
    tiny.warm_up_is_not_averaged(agent)
