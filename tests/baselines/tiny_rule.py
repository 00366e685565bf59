"""User-defined learner for tests: it acts by its policy and never trains."""

import jax
import jax.numpy as jnp

from jaxenvs.baselines.core import rollouts, settings
from jaxenvs.baselines.networks import policies

Settings, Runner, DIVIDED = settings.Common, rollouts.Runner, rollouts.DIVIDED
network = policies.ActorCritic.of


def init(learner, key):
    """Return the initial runner."""
    return Runner(**rollouts.begin(learner, key))


def update(learner, runner):
    """Collect a rollout; return the runner and metrics, without training."""
    runner, key, _ = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key, choose)
    return runner, rollouts.episode_sums(rollout)


def choose(learner, runner, key, mask):
    """Sample actions from the policy."""
    memory, logits, value = rollouts.think(learner, runner, mask)
    action = jax.random.categorical(key, logits).astype(jnp.int32)
    return memory, action, {"value": value}
