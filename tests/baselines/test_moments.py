"""Tests of running means and variances, which normalise observations and rewards."""

import functools
from types import SimpleNamespace

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tiny
from gymnasium.wrappers.vector import NormalizeReward
from tiny import Clock, Countdown, learner

import jaxenvs
from jaxenvs.baselines import registry
from jaxenvs.baselines.core import moments, reward_scaling, rollouts, value_scales
from jaxenvs.baselines.core.devices import ALONE, DEVICES, Devices
from jaxenvs.baselines.core.moments import Moments, Normalised
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.registry import ALGORITHMS
from jaxenvs.baselines.run import loop, train
from jaxenvs.baselines.storage import runs
from jaxenvs.core.facts import identity
from jaxenvs.core.spaces import Box, Dict

pytestmark = pytest.mark.full

NONE = Moments(jnp.float32(0), jnp.zeros(3), jnp.zeros(3))
PARTS = Dict({"x": Box(-9.0, 9.0, (2, 2), np.float32), "code": Box(0, 5, (2,), np.uint8)})


def test_running_statistics_are_those_of_the_whole_stream():
    draw = np.random.default_rng(0)
    batches = [draw.normal(i, 1 + i, (3, 5 + 10 * i)).astype(np.float32) for i in range(6)]
    running, merged_with = NONE, jax.jit(lambda running, batch: running.merged_with(batch, ALONE))
    for i, batch in enumerate(batches):
        running = merged_with(running, batch)
        stream = np.concatenate(batches[: i + 1], axis=1)
        assert running.number == stream.shape[1]
        np.testing.assert_allclose(running.mean, stream.mean(axis=1), rtol=1e-5)
        np.testing.assert_allclose(running.variance, stream.var(axis=1), rtol=1e-5)


def test_devices_have_the_statistics_of_them_all():
    values = np.random.default_rng(0).normal(3, 2, (4, 5, 3, 7)).astype(np.float32)

    @functools.partial(jax.vmap, axis_name=DEVICES)
    def on_each(values):
        return jax.lax.scan(lambda m, v: (m.merged_with(v, Devices(4)), None), NONE, values)[0]

    running = jax.jit(on_each)(values)
    stream = values.transpose(2, 0, 1, 3).reshape(3, -1)
    np.testing.assert_array_equal(running.number, stream.shape[1])
    np.testing.assert_allclose(running.mean, np.tile(stream.mean(axis=1), (4, 1)), rtol=1e-5)
    np.testing.assert_allclose(running.variance, np.tile(stream.var(axis=1), (4, 1)), rtol=1e-5)


def echo(space) -> Normalised:
    """Return a network that outputs its weights and its input, the normalised observation."""
    network = SimpleNamespace(
        observation_space=space,
        init=lambda key, obs: {"params": ()},
        apply=lambda weights, obs: (weights, obs),
    )
    return Normalised(network, identity)


@jax.jit
def read_after(batches, obs):
    """Return the network's weights, and `obs` normalised by the statistics of two `batches`."""
    network = echo(PARTS)
    weights = network.init(jax.random.key(0), jax.tree.map(lambda leaf: leaf[0, 0, 0], batches))
    for i in range(2):
        weights = network.merged_with(
            weights, jax.tree.map(lambda leaf, i=i: leaf[i], batches), ALONE
        )
    return jax.vmap(network.apply, in_axes=(None, 0), out_axes=(None, 0))(weights, obs)


def batches_of(x):
    """Return observations with the floats `x` and integer codes.

    The first three axes are 2 batches, 5 steps and 3 environments.
    """
    return {"x": x, "code": np.tile(np.uint8([3, 4]), (2, 5, 3, 1))}


def test_floats_are_in_deviations_and_whole_numbers_as_they_were():
    x = np.random.default_rng(0).normal(40, 3, (2, 5, 3, 2, 2)).astype(np.float32)
    obs = {"x": x[0, 0], "code": np.uint8([[1, 2]] * 3)}
    weights, read = read_after(batches_of(x), obs)
    assert weights == {"params": ()}  # the statistics are removed before flax sees the weights
    flat = x.reshape(-1, 2, 2)
    expected = (obs["x"] - flat.mean(axis=0)) / flat.std(axis=0)
    np.testing.assert_allclose(read["x"], expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_array_equal(read["code"], obs["code"])
    assert read["code"].dtype == np.uint8


def test_constants_extremes_and_numbers_that_are_none():
    """A constant entry causes no division by zero, and NaN and inf do not change the statistics."""
    x = np.random.default_rng(0).normal(0, 1, (2, 5, 3, 2, 2)).astype(np.float32)
    x[..., 0, 0] = 123456.7  # this entry is constant
    x[0, 0, 0, 1, 0], x[1, 0, 0, 1, 0] = np.nan, np.inf
    far = np.float32([[[123456.7, 0], [0, 1e30]], [[123456.7, np.nan], [np.inf, -np.inf]]])
    _, read = read_after(batches_of(x), {"x": far, "code": np.zeros((2, 2), np.uint8)})
    np.testing.assert_allclose(read["x"][:, 0, 0], 0.0, atol=0.02)
    np.testing.assert_array_equal(read["x"][:, 1, 1], [10, -10])
    # inf is clipped to 10, and NaN stays NaN.
    assert read["x"][1, 1, 0] == 10 and np.isnan(read["x"][1, 0, 1])
    known = x[..., 1, 0][np.isfinite(x[..., 1, 0])]
    assert abs(float(read["x"][0, 1, 0]) + known.mean() / known.std()) < 0.1


class Replayed(gymnasium.vector.VectorEnv):
    """Vector environment of Gymnasium that returns given rewards, and whose episodes never end."""

    def __init__(self, rewards):
        self.rewards, self.num_envs = rewards, rewards.shape[1]
        self.observation_space = self.action_space = gymnasium.spaces.Discrete(1)

    def reset(self, *, seed=None, options=None):
        """Begin with the first rewards."""
        self.now = -1
        return np.zeros(self.num_envs), {}

    def step(self, actions):
        """Return the next rewards."""
        self.now += 1
        no = np.zeros(self.num_envs, bool)
        return np.zeros(self.num_envs), self.rewards[self.now], no, no, {}


@functools.partial(jax.jit, static_argnums=(0, 1))
def scaled(gamma, length, rewards, done):
    """Return scaled rewards; the statistics are updated once per rollout of `length` steps."""
    asked = SimpleNamespace(settings=SimpleNamespace(gamma=gamma), devices=ALONE)
    none = reward_scaling.begin(SimpleNamespace(reward_scaling=True), rewards.shape[1])
    scales = {value_scales.SCALES: value_scales.Scales.begin(targets=False, rewards=True)}
    runner, parts = rollouts.Runner(scales, **none), []
    for i in range(0, len(rewards), length):
        part = slice(i, i + length)
        rollout = rollouts.Rollout(
            reward=rewards[part], terminated=done[0][part], truncated=done[1][part]
        )
        runner, rollout = reward_scaling.scale_rewards(asked, runner, rollout)
        parts.append(rollout.reward)
    return jnp.concatenate(parts)


def test_scaled_rewards_are_those_of_gymnasium():
    """Compare scaled rewards with Gymnasium's `NormalizeReward`.

    `NormalizeReward` updates its statistics after every step, so each rollout has one step here.
    """
    rewards = np.random.default_rng(0).normal(1, 30, (12, 8)).astype(np.float32)
    env = NormalizeReward(Replayed(rewards), gamma=0.9)
    env.reset()
    expected = [env.step(None)[1] for _ in rewards]
    no = np.zeros((2, 12, 8), bool)
    np.testing.assert_allclose(scaled(0.9, 1, rewards, no), expected, rtol=1e-3)


def test_returns_start_anew_with_an_episode_and_run_on_between_rollouts():
    draw = np.random.default_rng(0)
    rewards, done = draw.normal(1, 3, (12, 2)).astype(np.float32), draw.random((2, 12, 2)) < 0.2
    got = scaled(0.9, 4, rewards, done)
    total, returns = np.zeros(2), []
    for reward, ends in zip(rewards, done.any(axis=0), strict=True):
        total = 0.9 * total + reward
        returns.append(total.copy())
        total[ends] = 0.0
    expected = [rewards[i] / np.std(returns[: 4 * (i // 4 + 1)]) for i in range(12)]
    np.testing.assert_allclose(got, expected, rtol=1e-4)
    silent = scaled(0.9, 4, np.zeros((12, 2), np.float32), done)
    np.testing.assert_array_equal(silent, np.zeros((12, 2)))


def test_statistics_stay_out_of_the_log_and_of_an_update():
    """Observation statistics are updated from a rollout, and logged returns are not scaled.

    The statistics change no initial weight of the network.
    """
    agent = learner(Countdown(), normalize_obs=True, reward_scaling=True)
    start = loop.start(agent, jax.random.key(0)[None])
    after, metrics = loop.run_chunk(agent, jax.tree.map(jnp.copy, start))
    assert int(metrics["return_sum"][0, 0]) == metrics["return_sum"][0, 0] > 0
    first, seen = start.weights[moments.SEEN], after.weights[moments.SEEN]
    assert (first.number[0], seen.number[0]) == (0, 128)
    # Every observation of Countdown is 1.
    assert (seen.mean == 1).all() and (seen.variance == 0).all()
    plain = loop.start(learner(Countdown()), jax.random.key(0)[None])
    jax.tree.map(np.testing.assert_array_equal, start.weights["params"], plain.weights["params"])


SCALED = ["--normalize-obs", "--reward-scaling"]
CHANGED = ["--separate", "--activation", "silu", "--weight-decay", "0.01", "--optimiser"]


def run(out, algorithm, more, steps):
    """Train a run on CartPole."""
    flags = ["Classic-CartPole-v0", "--algo", algorithm, *tiny.FLAGS, "--rollout-steps", "16"]
    flags += ["--minibatches", "2", "--chunk", "1", *more, "--total-steps", str(steps)]
    assert train.main([*flags, "--out", str(out)]) == 0


@pytest.mark.parametrize(
    ("algorithm", "more"),
    [
        ("ppo", [*SCALED, *CHANGED, "adamw"]),
        pytest.param(
            "ppo-rnn", [*SCALED, *CHANGED, "muon", "--memory", "4"], marks=pytest.mark.full
        ),
        pytest.param("pqn", SCALED, marks=pytest.mark.full),
    ],
)
def test_a_policy_reads_what_it_learned_from(tmp_path, algorithm, more):
    """A loaded policy normalises observations by the statistics of its training."""
    run(tmp_path / "run", algorithm, more, 256)
    policy = runs.load_policy(tmp_path / "run", seed=1)
    seen = policy.weights[moments.SEEN]
    assert seen.number == 256 and (seen.variance > 0).all()
    config = runs.Run.open(tmp_path / "run").config
    settings = {**config.settings, "normalize_obs": False}
    network = registry.network(ALGORITHMS[algorithm], policy.env, settings)
    own = {kind: part for kind, part in policy.weights.items() if kind != moments.SEEN}
    obs = jnp.float32([0.1, 0.2, -0.05, 0.3])
    read = jnp.clip((obs - seen.mean) / jnp.sqrt(seen.variance), -10, 10)
    logits, _ = jax.jit(policy.apply)(obs)
    expected = jax.jit(network.think)(own, network.begin(), read, None)[1]
    np.testing.assert_allclose(logits, expected, rtol=1e-4, atol=1e-5)


def test_a_run_goes_on_with_its_statistics(tmp_path):
    more = [*SCALED, "--no-anneal"]
    run(tmp_path / "whole", "ppo", more, 4 * 128)
    run(tmp_path / "parts", "ppo", more, 2 * 128)
    assert train.main(["--resume", str(tmp_path / "parts"), "--total-steps", str(4 * 128)]) == 0
    one, other = (runs.load_policy(tmp_path / name).weights for name in ("whole", "parts"))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@pytest.mark.usefixtures("as_a_user")  # disable jaxtyping's checks, which would raise first
def test_what_cannot_be_scaled_says_why():
    env = jaxenvs.make("Grid-Empty-5x5-v0")
    with pytest.raises(ValueError, match=r"normalize_obs: .* has no float numbers"):
        registry.build("ppo", env, ppo.Settings(normalize_obs=True))
    with pytest.raises(ValueError, match="normalize_obs=True: rl2 has a fixed network"):
        ALGORITHMS["rl2"].load().Settings(normalize_obs=True).check()
    with pytest.raises(ValueError, match="reward_scaling=True: actors keep no running statistics"):
        ALGORITHMS["ppo-ray"].load().Settings(reward_scaling=True).check()
    with pytest.raises(ValueError, match="optimiser=sgd: choose one of adam, adamw, radam, muon"):
        learner(Clock(), optimiser="sgd")
    with pytest.raises(ValueError, match="activation=sine: choose one of tanh, relu, gelu, silu"):
        learner(Clock(), activation="sine")
    with pytest.raises(ValueError, match="optimiser=adam has none; give optimiser=adamw or muon"):
        learner(Clock(), weight_decay=0.1)
