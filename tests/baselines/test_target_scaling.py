"""Value targets in their own scale."""

import jax
import jax.numpy as jnp
import numpy as np
from tiny import Countdown, collected, learner

from jaxenvs.baselines import ppo, target_scaling
from jaxenvs.baselines.acting import Rollout, Runner
from jaxenvs.baselines.run import loop

TARGETS = np.float32([[1.0, 2.0], [4.0, 9.0]])


def batch(targets):
    """A batch with these targets, whose values were right."""
    return Rollout(value=jnp.asarray(targets)), jnp.zeros_like(targets), jnp.asarray(targets)


def test_moments_are_a_moving_mean_corrected_for_its_start():
    agent = learner(Countdown(), target_scaling=0.25)
    runner = Runner(weights=(), **target_scaling.begin(agent))
    assert [float(x) for x in target_scaling.mean_and_deviation(runner.scale)] == [0.0, 1.0]
    runner, (rollout, _, target) = target_scaling.scaled(agent, runner, batch(TARGETS))
    expected = (TARGETS - TARGETS.mean()) / TARGETS.std()
    np.testing.assert_allclose(target, expected, rtol=1e-5)
    np.testing.assert_allclose(rollout.value, expected, rtol=1e-5)
    np.testing.assert_allclose(target_scaling.unscaled(runner, target), TARGETS, rtol=1e-5)
    runner, (_, _, target) = target_scaling.scaled(agent, runner, batch(TARGETS * 10))
    shares = np.float32([0.75, 1.0]) / 1.75  # of the first update and of the second
    mean = shares @ [TARGETS.mean(), 10 * TARGETS.mean()]
    square = shares @ [np.square(TARGETS).mean(), np.square(10 * TARGETS).mean()]
    expected = (TARGETS * 10 - mean) / np.sqrt(square - mean**2)
    np.testing.assert_allclose(target, expected, rtol=1e-5)


def test_targets_that_are_all_the_same_stay_finite():
    agent = learner(Countdown(), target_scaling=1.0)
    runner = Runner(weights=(), **target_scaling.begin(agent))
    runner, (_, _, target) = target_scaling.scaled(agent, runner, batch(np.full_like(TARGETS, 3)))
    np.testing.assert_allclose(target, 0.0, atol=1e-2)
    np.testing.assert_allclose(target_scaling.unscaled(runner, target), 3.0, rtol=1e-5)


def test_without_it_nothing_changes():
    agent = learner(Countdown())
    runner = Runner(weights=(), **target_scaling.begin(agent))
    assert runner.scale == ()
    given = batch(TARGETS)
    assert target_scaling.scaled(agent, runner, given)[1] is given


def test_rollouts_keep_values_in_rewards():
    """A network that says 0 means the mean of the targets so far; so do cut episodes' values."""
    agent = learner(Countdown(), target_scaling=0.5, rollout_steps=7)
    keys = jax.random.split(jax.random.key(0), 2)
    runners = loop.start(agent, keys[:1])
    silent = jax.tree.map(jnp.zeros_like, runners.weights)
    scale = jnp.float32([[0.5, 1.0, 4.0]])  # mean 2, deviation 2
    _, rollout = collected(agent, runners._replace(weights=silent, scale=scale), keys[1:])
    np.testing.assert_array_equal(rollout.value, 2.0)
    cut = np.asarray(rollout.truncated)
    assert cut.any()
    np.testing.assert_array_equal(rollout.cut_value, np.where(cut, 2.0, 0.0))
    assert ppo.Settings().target_scaling == 0.0
