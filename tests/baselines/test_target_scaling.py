"""Tests of value targets that are normalised by their running mean and deviation."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny import Countdown, collected, learner

from jaxenvs.baselines.core import target_scaling, value_scales
from jaxenvs.baselines.core.moments import Moments
from jaxenvs.baselines.core.rollouts import Rollout, Runner
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop

TARGETS = np.float32([[1.0, 2.0], [4.0, 9.0]])


def batch(targets):
    """Return a batch whose value targets are `targets`, with predicted values equal to them."""
    return Rollout(value=jnp.asarray(targets)), jnp.zeros_like(targets), jnp.asarray(targets)


def scales(*sums):
    """Return weights that contain only the running statistics of targets: `sums`, or zeros.

    `sums` are the moving averages of 1 (for bias correction), of the targets, and of their squares.
    """
    targets = jnp.float32(sums) if sums else jnp.zeros(3, jnp.float32)
    return {value_scales.SCALES: value_scales.Scales(targets)}


def mean_and_deviation(runner):
    """Return the running mean and standard deviation of the targets."""
    targets = value_scales.of(runner.weights).targets
    return [float(x) for x in value_scales.mean_and_deviation(targets)]


def test_moments_are_a_moving_mean_corrected_for_its_start():
    agent = learner(Countdown(), target_scaling=0.25)
    runner = Runner(scales())
    assert mean_and_deviation(runner) == [0.0, 1.0]
    runner, (rollout, _, target) = target_scaling.scale_targets(agent, runner, batch(TARGETS))
    expected = (TARGETS - TARGETS.mean()) / TARGETS.std()
    np.testing.assert_allclose(target, expected, rtol=1e-5)
    np.testing.assert_allclose(rollout.value, expected, rtol=1e-5)
    np.testing.assert_allclose(value_scales.in_rewards(runner.weights, target), TARGETS, rtol=1e-5)
    runner, (_, _, target) = target_scaling.scale_targets(agent, runner, batch(TARGETS * 10))
    # Relative weights of the first and the second update in the running mean.
    shares = np.float32([0.75, 1.0]) / 1.75
    mean = shares @ [TARGETS.mean(), 10 * TARGETS.mean()]
    square = shares @ [np.square(TARGETS).mean(), np.square(10 * TARGETS).mean()]
    expected = (TARGETS * 10 - mean) / np.sqrt(square - mean**2)
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_targets_that_are_all_the_same_stay_finite():
    agent = learner(Countdown(), target_scaling=1.0)
    runner = Runner(scales())
    runner, (_, _, target) = target_scaling.scale_targets(
        agent, runner, batch(np.full_like(TARGETS, 3))
    )
    np.testing.assert_allclose(target, 0.0, atol=1e-2)
    np.testing.assert_allclose(value_scales.in_rewards(runner.weights, target), 3.0, rtol=1e-5)


def test_without_it_nothing_changes():
    agent = learner(Countdown())
    runner = Runner(weights={})
    given = batch(TARGETS)
    assert target_scaling.scale_targets(agent, runner, given)[1] is given


def test_rollouts_keep_values_in_rewards():
    """Rollouts store values, truncation values included, in units of the reward.

    The network outputs 0 here, so every stored value is the running mean of the targets, 2.
    """
    agent = learner(Countdown(), target_scaling=0.5, rollout_steps=7)
    keys = jax.random.split(jax.random.key(0), 2)
    runners = loop.start(agent, keys[:1])
    silent = jax.tree.map(jnp.zeros_like, runners.weights)
    silent |= scales([0.5, 1.0, 4.0])  # target mean 2, deviation 2
    _, rollout = collected(agent, runners._replace(weights=silent), keys[1:])
    np.testing.assert_array_equal(rollout.value, 2.0)
    cut = np.asarray(rollout.truncated)
    assert cut.any()
    np.testing.assert_array_equal(rollout.truncation_value, np.where(cut, 2.0, 0.0))
    assert ppo.Settings().target_scaling == 0.0


def test_a_value_is_converted_from_both_scales():
    # The running standard deviation of rewards is 5.
    rewards = Moments(jnp.float32(9), jnp.float32([7]), jnp.float32([25]))
    # Target mean 2, deviation 2.
    scales = value_scales.Scales(jnp.float32([0.5, 1.0, 4.0]), rewards)
    weights = {"params": (), value_scales.SCALES: scales}
    assert value_scales.in_learned_rewards(weights, jnp.float32(3)) == 8
    assert value_scales.in_rewards(weights, jnp.float32(3)) == 40
    assert value_scales.offset_and_factor(weights) == (10, 10)
    nothing = {value_scales.SCALES: value_scales.Scales.begin(targets=True, rewards=True)}
    for unscaled in (nothing, {"params": ()}):
        assert value_scales.in_rewards(unscaled, jnp.float32(3)) == 3
