"""Networks of somebody's own, right and wrong."""

import flax.linen as nn
import jax.numpy as jnp

from jaxenvs.baselines.networks.policies import Network
from jaxenvs.core.masking import legal

NUMBER = 3


class Counting(Network):
    """Remembers a vector; its value counts the steps of the episode."""

    memory: int = 4

    @nn.compact
    def __call__(self, obs, memory):
        """What is remembered next, logits, value."""
        seen = nn.Dense(self.memory)(jnp.ravel(obs).astype(jnp.float32))
        state = nn.tanh(nn.Dense(self.memory)(memory["state"]) + seen)
        steps = memory["steps"] + 1.0
        return {"state": state, "steps": steps}, nn.Dense(self.num_actions)(state), steps

    def begin(self):
        """Nothing yet."""
        return {"state": jnp.zeros(self.memory), "steps": jnp.float32(0)}

    def init(self, key, obs):
        """Weights."""
        return super().init(key, obs, self.begin())

    def think(self, weights, memory, obs, mask):
        """One observation more."""
        memory, logits, value = self.apply(weights, obs, memory)
        return memory, legal(logits, mask), value


class Wide(Network):
    """One logit too many."""

    @nn.compact
    def __call__(self, obs):
        """Wrong."""
        logits = nn.Dense(self.num_actions + 1)(jnp.ravel(obs).astype(jnp.float32))
        return logits, logits[0]


class Listed(Network):
    """A value that is a vector."""

    @nn.compact
    def __call__(self, obs):
        """Wrong."""
        logits = nn.Dense(self.num_actions)(jnp.ravel(obs).astype(jnp.float32))
        return logits, logits[:1]
