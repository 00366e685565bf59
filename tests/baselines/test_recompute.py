"""Tests of the setting `recompute`: advantages of current values, in each minibatch."""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tiny import Countdown, learner
from tiny import collected as collect
from tiny_sleep import Sleeper

from jaxenvs.baselines.core import minibatches, rollouts
from jaxenvs.baselines.core.learner import SEEDS
from jaxenvs.baselines.on_policy import ppo, ppo_rnn
from jaxenvs.baselines.on_policy.plr import Settings as PLRSettings
from jaxenvs.baselines.on_policy.rl2 import Settings as RL2Settings
from jaxenvs.baselines.run import loop

GAMMA, LAMBDA = 0.9, 0.8
GIVEN = {"recompute": True, "gamma": GAMMA, "gae_lambda": LAMBDA, "rollout_steps": 7}


@functools.cache
def batch_of(scaling, sleeps=False):
    """Return a learner, its weights and the items of a rollout, whose sequences end episodes.

    With `sleeps`, the learner skips forced steps.
    """
    more = {"skip_forced": True, "rollout_steps": 24} if sleeps else {}
    env = Sleeper() if sleeps else Countdown()
    agent = learner(env, "ppo-rnn", target_scaling=scaling, **{**GIVEN, **more})
    keys = jax.random.split(jax.random.key(0), 2)
    before = loop.start(agent, keys[:1])
    after, rollout = collect(agent, before, keys[1:])
    rollout = rollout._replace(memory=before.memory[:, None])

    @jax.jit
    def targets(after, rollout):
        one = functools.partial(ppo.scaled_targets, agent)
        return jax.vmap(one, axis_name=SEEDS)(after, rollout)

    after, batch = targets(after, rollout)
    weights, batch = jax.tree.map(lambda leaf: leaf[0], (after.weights, batch))
    if sleeps:
        assert batch[0].forced.here.any() and not batch[0].forced.here.all()
    else:
        assert batch[0].terminated.any() and batch[0].truncated.any()
    return agent, weights, minibatches.as_sequences(batch)


@functools.partial(jax.jit, static_argnums=(0, 1))
def loss_and_gradient(agent, recompute, weights, batch):
    """Return the loss of one minibatch with all sequences, its gradient, and the metrics."""
    order = jnp.arange(len(batch[1]), dtype=jnp.int32)[None]
    scales = [scale[0] for scale in ppo.normalisers(agent, batch, order)]
    given = ppo_rnn.current_targets if recompute else None
    loss = functools.partial(ppo.loss, unroll=ppo_rnn.unroll, recompute=given)
    trained, fixed = minibatches.split_weights(weights)

    def total(trained):
        return loss(agent, {**trained, **fixed}, *batch, *scales)

    return jax.value_and_grad(total, has_aux=True)(trained)


def moved(weights):
    """Return changed weights, with the same scales of the value output."""
    trained, fixed = minibatches.split_weights(weights)
    return {**jax.tree.map(lambda leaf: leaf + 0.3 * jnp.cos(9.0 * leaf), trained), **fixed}


def close(got, wanted):
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("sleeps", [False, True])
def test_with_the_weights_of_the_rollout_nothing_changes(sleeps):
    agent, weights, batch = batch_of(0.0, sleeps)
    got = loss_and_gradient(agent, True, weights, batch)
    close(got, loss_and_gradient(agent, False, weights, batch))


@pytest.mark.parametrize("scaling", [0.0, 0.5])
def test_changed_values_change_targets_without_a_gradient(scaling):
    """The loss and its gradient equal the ones with constant targets from NumPy."""
    agent, weights, batch = batch_of(scaling)
    weights, (rollout, advantage, _) = moved(weights), batch
    value = np.array(jax.jit(ppo_rnn.unroll, static_argnums=0)(agent, weights, rollout)[1])
    mean, deviation = 0.0, 1.0
    if scaling:
        weight, total, square = np.array(weights["scales"].targets, np.float64)
        mean, deviation = total / weight, np.sqrt(square / weight - (total / weight) ** 2)
    value = mean + deviation * value
    fresh = np.zeros_like(value)
    for env in range(len(value)):
        later = 0.0
        for t in reversed(range(value.shape[1])):
            last = t == value.shape[1] - 1
            following = rollout.last_value[env, 0] if last else value[env, t + 1]
            if rollout.truncated[env, t]:
                following = rollout.truncation_value[env, t]
            if rollout.terminated[env, t]:
                following = 0.0
            ended = rollout.terminated[env, t] | rollout.truncated[env, t]
            delta = rollout.reward[env, t] + GAMMA * following - value[env, t]
            later = delta + (0.0 if ended else GAMMA * LAMBDA * later)
            fresh[env, t] = later
    assert np.abs(fresh - advantage).max() > 0.05
    constant = (fresh + value - mean) / deviation
    wanted = loss_and_gradient(
        agent, False, weights, (rollout, jnp.float32(fresh), jnp.float32(constant))
    )
    close(loss_and_gradient(agent, True, weights, batch), wanted)


@pytest.mark.parametrize("recompute", [True, False])
def test_an_update_recomputes_only_if_set(recompute, monkeypatch):
    agent, called = learner(Countdown(), "ppo-rnn", **{**GIVEN, "recompute": recompute}), []
    real = ppo_rnn.current_targets
    monkeypatch.setattr(
        ppo_rnn, "current_targets", lambda *given: called.append(given) or real(*given)
    )
    runners = loop.start(agent, jax.random.split(jax.random.key(0), 1))
    jax.eval_shape(functools.partial(loop.run_chunk, agent), runners)
    assert bool(called) == recompute


@pytest.mark.usefixtures("as_a_user")
def test_learners_without_sequences_refuse_it():
    with pytest.raises(ValueError, match="recompute=True: rl2 has a different loss"):
        RL2Settings(recompute=True).check()
    with pytest.raises(ValueError, match="recompute=True needs a recurrent network"):
        PLRSettings(recompute=True, memory=0).check()
    fields = {field.name for field in dataclasses.fields(ppo.Settings)}
    assert "recompute" not in fields and rollouts.Rollout().last_value == ()
