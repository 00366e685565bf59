"""Scripted rollouts of `Sleeper` and `Napper`, for the tests of forced steps.

The reference is `Napper`, the environment in which a sleep is one step, with a learner that does
not skip forced steps.
"""

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np
from tiny import collected, learner
from tiny_sleep import LIMIT, SLEEP, Napper, Sleeper

from jaxenvs.baselines.core import minibatches, replay_buffer, returns, rollouts
from jaxenvs.baselines.on_policy import ppo
from jaxenvs.baselines.run import loop
from jaxenvs.core.masking import legal

KEY = jax.random.key(5)
ENVS, STEPS = 8, 40  # all players are awake after 40 ticks
ACTIONS = np.random.default_rng(6).choice(3, (ENVS, LIMIT), p=[0.3, 0.3, 0.4]).astype(np.int32)
BORDER = 37  # some players are asleep after 37 ticks
of_sleep = functools.partial(learner, num_envs=ENVS, minibatches=1, advantage_floor=1e-8)
of_sleep_q = functools.partial(learner, num_envs=ENVS, minibatches=1)


def scripted(agent, runner, key, mask):
    """Choose the action that `ACTIONS` has for the environment and its tick."""
    state = runner.world.env
    action = jnp.asarray(ACTIONS)[jnp.arange(ENVS, dtype=jnp.int32), state.tick]
    action = jnp.where(state.asleep, SLEEP, action)
    if hasattr(agent.network, "values"):
        memory, values = jax.vmap(agent.network.values, in_axes=(None, 0, 0))(
            runner.weights, runner.memory, runner.obs
        )
        return memory, action, {"action": action, "value": legal(values, mask).max(axis=-1)}
    memory, outputs, value = rollouts.think(agent, runner, mask)
    # The policy has changed since the rollout, so that some ratios are clipped.
    shift = 0.3 * jnp.sin(7.0 * state.tick.astype(jnp.float32))
    log_prob = agent.policy.log_prob(outputs, action) + shift
    return memory, action, {"action": action, "log_prob": log_prob, "value": value, "mask": mask}


@functools.cache
def played(agent, steps=None):
    """Return the training state of a new learner after a scripted rollout, and the rollout.

    If `steps` is given, another rollout of the same length begins after a rollout of `steps` steps.
    """
    runners = loop.start(agent, KEY[None])
    if steps is not None:
        settings = dataclasses.replace(agent.settings, rollout_steps=steps)
        first = dataclasses.replace(agent, settings=settings)
        runners, _ = collected(first, runners, KEY[None], scripted)
    made = collected(agent, runners, KEY[None], scripted)
    return jax.tree.map(lambda leaf: leaf[0], made)


def decided(rollout):
    """Return the number of decisions of each environment."""
    return np.asarray(~rollout.forced.here).sum(axis=0)


def decisions_of(tree, here):
    """Return the entries of arrays (steps, envs, ...) at decisions, environment by environment."""
    return jax.tree.map(lambda leaf: np.asarray(leaf).swapaxes(0, 1)[~np.asarray(here).T], tree)


def references(agent, rollout, counts, names):
    """Return the first `counts[i]` steps of environment i of `Napper`, and their advantages."""
    parts = []
    for env, count in enumerate(counts):
        fields = {name: getattr(rollout, name)[:count, env] for name in names}
        one = rollouts.Rollout(**fields)
        of_env = jax.tree.map(lambda leaf: leaf[:, None], one)
        last = rollout.value[count, env][None]
        given = (agent.settings.gamma, agent.settings.gae_lambda)
        parts.append((one, returns.advantages(of_env, last, *given)[:, 0]))
    return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)


FIELDS = ("obs", "action", "value", "reward", "terminated", "truncated", "truncation_value")


@functools.cache
def both(name="ppo"):
    """Return a learner of `Sleeper` with its rollout, and one of `Napper` with the decisions."""
    make = of_sleep if name == "ppo" else of_sleep_q
    skipping = make(Sleeper(), name, rollout_steps=STEPS, skip_forced=True)
    plain = make(Napper(), name, rollout_steps=STEPS)
    after, rollout = played(skipping)
    _, reference = played(plain)
    assert not np.asarray(after.world.env.asleep).any()
    more = ("log_prob", "mask") if name == "ppo" else ()
    found = references(plain, reference, decided(rollout), (*FIELDS, *more))
    return skipping, after, rollout, plain, *found


def gradient_of(agent, weights, batch, loss=ppo.loss):
    """Return the gradient of a loss on a batch as one minibatch, and the losses."""
    scales = ()
    if hasattr(agent.settings, "advantage_floor"):
        orders = jnp.arange(len(batch[1]), dtype=jnp.int32)[None]
        scales = [scale[0] for scale in ppo.normalisers(agent, batch, orders)]
    return jax.jit(functools.partial(minibatches.gradients, agent, loss))(weights, *batch, *scales)


def alike(found, expected, rtol=2e-4):
    """Check that two trees of arrays are equal up to rounding errors."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=2e-6)


def scripted_buffers(env, steps, slots, skip_forced):
    """Return the replay buffer after each of several scripted steps."""
    agent = learner(env, "dqn", num_envs=ENVS, skip_forced=skip_forced)
    obs, world = agent.env.reset(KEY)
    mask = rollouts.legal_now(agent, world.env)
    buffer = replay_buffer.empty(obs, mask, slots, skip_forced=skip_forced)

    @jax.jit
    def step(carry):
        buffer, obs, world = carry
        state = world.env
        action = jnp.asarray(ACTIONS)[jnp.arange(ENVS, dtype=jnp.int32), state.tick]
        action = jnp.where(state.asleep, SLEEP, action)
        made = agent.env.step(KEY, world, action)
        mask = rollouts.legal_now(agent, state)
        return replay_buffer.add(buffer, obs, mask, action, made), made.obs, made.state

    carry, seen = (buffer, obs, world), []
    for _ in range(steps):
        carry = step(carry)
        seen.append(carry[0])
    return seen
