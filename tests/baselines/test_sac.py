"""Tests of SAC: targets and losses against NumPy, replay buffer, refused settings."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from tiny import HIGH, LOW, Push

from jaxenvs.baselines.core import replay_buffer, replay_checks
from jaxenvs.baselines.core.replay_buffer import Batch
from jaxenvs.baselines.off_policy import actor_critic, sac
from jaxenvs.baselines.off_policy.actor_critic_networks import critic_values
from jaxenvs.baselines.run import loop, train

learner = functools.partial(tiny.learner, algorithm="sac")


@pytest.fixture(scope="module")
def agent():
    return learner(Push(), layer_norm=True, temperature=0.3)


@pytest.fixture(scope="module")
def runners(agent):
    """Return runners: at the start, after a warm-up update, and after an update that learns."""
    first = loop.start(agent, jax.random.key(0)[None])
    before = jax.tree.map(jnp.copy, first)
    full, _ = loop.run_chunk(agent, first)
    kept = jax.tree.map(jnp.copy, full)
    after, metrics = loop.run_chunk(agent, full)
    return [jax.tree.map(lambda leaf: leaf[0], one) for one in (before, kept, after)], metrics


def sampled(agent, runner):
    """Return a batch of steps, sampled from the runner's replay buffer."""
    gamma = agent.settings.gamma
    sample = jax.jit(lambda buffer: replay_buffer.sample(jax.random.key(3), buffer, 32, 1, gamma))
    return sample(runner.replay_buffer)


def log_density(outputs, action):
    """Return log-densities of actions rescaled to [-1, 1], by inverting tanh, in float64."""
    mean, raw = np.split(np.asarray(outputs, float), 2, axis=-1)
    std = np.log1p(np.exp(raw)) + 1e-3
    unit = (2 * np.asarray(action, float) - LOW - HIGH) / (HIGH - LOW)
    normal = -0.5 * ((np.arctanh(unit) - mean) / std) ** 2 - np.log(std)
    return (normal - 0.5 * np.log(2 * np.pi) - np.log(1 - unit**2)).sum(axis=-1)


def test_targets_and_losses_equal_the_papers(agent, runners):
    (_, _, runner), _ = runners
    learned, batch, key = actor_critic.Learned.of(runner), sampled(agent, runner), jax.random.key(7)
    noise = jax.random.normal(key, (32, 2), jnp.float32)
    chance = actor_critic.Noise(noise, key)

    @jax.jit
    def parts(learned, batch):
        action, log_prob = actor_critic.sample_actions(
            agent, learned.weights, batch.next_obs, noise
        )
        return (
            action,
            log_prob,
            jax.vmap(agent.network.apply, (None, 0))(learned.weights, batch.next_obs),
            critic_values(agent, learned.target, batch.next_obs, action),
            sac.td_target(agent, learned, batch, chance),
            sac.actor_loss(agent, learned.weights, learned, batch, chance),
            actor_critic.sample_actions(agent, learned.weights, batch.obs, noise),
            actor_critic.critic_loss(agent, learned.critic, batch, batch.reward),
            critic_values(agent, learned.critic, batch.obs, batch.action),
        )

    action, log_prob, outputs, values, found, loss, now, errors, said = parts(learned, batch)
    np.testing.assert_allclose(log_prob, log_density(outputs, action), rtol=1e-3, atol=1e-3)
    temperature = np.exp(float(learned.temperature))
    assert values.shape == (2, 32, 1)
    soft = np.asarray(values)[..., 0].min(axis=0) - temperature * np.asarray(log_prob)
    np.testing.assert_allclose(found, batch.reward + batch.discount * soft, rtol=1e-5, atol=1e-5)
    wanted = 0.5 * (np.asarray(batch.weight) * (np.asarray(said)[..., 0] - batch.reward) ** 2)
    np.testing.assert_allclose(errors[0], wanted.mean(axis=1).sum(), rtol=1e-5)
    entropy = -(np.asarray(now[1]) * batch.weight).sum() / batch.weight.sum()
    np.testing.assert_allclose(loss[1]["entropy"], entropy, rtol=1e-5)


def test_the_temperature_rises_below_the_target_entropy(agent):
    gradient = jax.jit(jax.grad(lambda log, entropy: sac.temperature_loss(agent, log, entropy)[0]))
    # The target entropy is -2, for two action components. The entropy -3 is below the target.
    assert gradient(jnp.float32(0.5), jnp.float32(-3.0)) == -1.0
    assert gradient(jnp.float32(0.5), jnp.float32(-1.5)) == 0.5


def test_warm_up_learns_nothing_and_target_networks_follow(agent, runners):
    (before, full, after), metrics = runners
    for name in ("weights", "critic", "target", "temperature"):
        same = jax.tree.map(np.array_equal, getattr(before, name), getattr(full, name))
        assert all(jax.tree.leaves(same)), name
        moved = jax.tree.map(np.array_equal, getattr(full, name), getattr(after, name))
        assert not all(jax.tree.leaves(moved)), name
    assert np.isfinite(metrics["critic_loss"]).all() and metrics["temperature"] > 0
    step = jax.jit(functools.partial(sac.gradient_step, agent))
    size = agent.settings.batch_size
    batch = jax.tree.map(lambda leaf: leaf[:size], sampled(agent, after))
    draws = sac.draw(agent, jax.random.key(0))
    learned, _ = step(actor_critic.Learned.of(after), batch, draws)
    rate = agent.settings.target_rate
    for new_target, old, new in zip(
        *map(jax.tree.leaves, (learned.target, after.target, learned.critic)), strict=True
    ):
        np.testing.assert_allclose(new_target, (1 - rate) * old + rate * new, rtol=1e-5, atol=1e-7)


def test_a_truncated_episode_is_bootstrapped_from_its_true_successor(agent, runners):
    (_, full, _), _ = runners
    batch = sampled(agent, full)
    steps = np.asarray(batch.weight) > 0
    now, successor = (np.asarray(x)[steps, 0] for x in (batch.obs, batch.next_obs))
    np.testing.assert_array_equal(successor, now + 1)
    assert (successor == 5).any()
    np.testing.assert_allclose(np.asarray(batch.discount)[steps], agent.settings.gamma)
    inside = (batch.action >= LOW) & (batch.action <= HIGH)
    assert inside.all() and len(np.unique(batch.action)) > 20
    np.testing.assert_allclose(batch.reward[steps], batch.action.sum(axis=1)[steps], rtol=1e-6)


def test_critics_are_normalised_and_differ(runners):
    (before, _, _), _ = runners
    names = before.critic["params"]
    assert {"LayerNorm_0", "Dense_0", "Dense_1"} <= set(names)
    kernel = names["Dense_0"]["kernel"]
    assert kernel.shape[0] == 2 and not np.array_equal(kernel[0], kernel[1])


def test_the_replay_ratio_sets_the_gradient_steps(runners, agent):
    (_, _, after), _ = runners
    gradient_steps = agent.settings.rollout_steps * agent.settings.replays
    count = [x for x in jax.tree.leaves(after.optimiser["critic"]) if x.dtype == jnp.int32]
    assert agent.settings.replays == 2 and count[0] >= gradient_steps


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["Grid-Empty-5x5-v0"], "sac needs a Box one: give --algo ppo, "),
        (["Classic-CartPole-v0"], "action space Discrete(2); sac needs a Box one"),
        (["Classic-Pendulum-v0", "--capacity", "7", "--num-envs", "4"], "capacity=8 or more"),
        (["Classic-Pendulum-v0", "--warm-up", "3", "--num-envs", "4"], "give at least 4"),
        (["Classic-Pendulum-v0", "--temperature", "0"], "temperature=0.0 must be above 0"),
        (["Classic-Pendulum-v0", "--target-rate", "0"], "target_rate=0.0 must be above 0"),
    ],
)
def test_what_cannot_work_is_refused(tmp_path, capsys, flags, words):
    assert train.main([*flags, "--algo", "sac", "--out", str(tmp_path / "run")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_a_replay_buffer_larger_than_the_memory_is_refused(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(replay_checks, "device_memory", lambda device: 1_000_000)
    flags = ["Classic-Pendulum-v0", "--algo", "sac", "--out", str(tmp_path / "run")]
    assert train.main(flags) == 2
    assert "capacity=1000000 takes 23," in capsys.readouterr().err


@pytest.mark.parametrize(("shape", "stored"), [((1,), ()), ((2,), (2,)), ((2, 3), (2, 3))])
def test_the_replay_buffer_holds_actions_of_any_shape_and_a_number_without_an_axis(shape, stored):
    held = replay_buffer.empty(jnp.zeros((3, 3)), None, 8, jnp.zeros(shape))
    assert held.action.shape == (3, 8, *stored) and held.action.dtype == jnp.float32
    found = jax.eval_shape(
        functools.partial(replay_buffer.sample, size=5, n_step=1, gamma=0.9),
        jax.random.key(0),
        held,
    )
    assert isinstance(found, Batch) and found.action.shape == (5, *stored)


def test_the_log_does_not_average_the_warm_up(agent):
    tiny.warm_up_is_not_averaged(agent, ("actor_loss", "entropy"))
