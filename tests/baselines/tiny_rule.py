"""A learner of a user: it draws actions from a policy and learns nothing. One file, and one row."""

import functools

import jax
import jax.numpy as jnp

from jaxenvs.baselines import acting, evaluate, networks, settings
from jaxenvs.baselines.run import options

Settings, Runner, DIVIDED = settings.Common, acting.Runner, acting.DIVIDED
network = networks.ActorCritic.of
build = functools.partial(options.learner, "rule")
report = evaluate.report


def init(learner, key):
    """Weights and worlds."""
    return Runner(**acting.begin(learner, key))


def update(learner, runner):
    """A rollout."""
    runner, key, _ = acting.next_update(learner, runner)
    runner, rollout = acting.collect(learner, runner, key, choose)
    return runner, acting.episode_sums(rollout)


def choose(learner, runner, key, mask):
    """Actions of the policy."""
    memory, logits, value = acting.think(learner, runner, mask)
    action = jax.random.categorical(key, logits).astype(jnp.int32)
    return memory, action, {"value": value}
