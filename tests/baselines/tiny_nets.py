"""User-defined networks for tests: a valid one, and invalid ones."""

import flax.linen as nn
import jax.numpy as jnp

from jaxenvs.baselines.networks.policies import Network
from jaxenvs.core.masking import legal

NUMBER = 3


class Counting(Network):
    """Recurrent network with a vector state; its value counts the steps of the episode."""

    memory: int = 4

    @nn.compact
    def __call__(self, obs, memory):
        """Return the next recurrent state, logits and the value."""
        seen = nn.Dense(self.memory)(jnp.ravel(obs).astype(jnp.float32))
        state = nn.tanh(nn.Dense(self.memory)(memory["state"]) + seen)
        steps = memory["steps"] + 1.0
        return {"state": state, "steps": steps}, nn.Dense(self.num_actions)(state), steps

    def begin(self):
        """Return the initial recurrent state, zeros."""
        return {"state": jnp.zeros(self.memory), "steps": jnp.float32(0)}

    def init(self, key, obs):
        """Return the initial weights."""
        return super().init(key, obs, self.begin())

    def think(self, weights, memory, obs, mask):
        """Return recurrent state, logits and value after one observation."""
        memory, logits, value = self.apply(weights, obs, memory)
        return memory, legal(logits, mask), value


class Wide(Network):
    """Invalid network, which returns one logit too many."""

    @nn.compact
    def __call__(self, obs):
        """Return outputs of the wrong shape."""
        logits = nn.Dense(self.num_actions + 1)(jnp.ravel(obs).astype(jnp.float32))
        return logits, logits[0]


class Listed(Network):
    """Invalid network, whose value is a vector."""

    @nn.compact
    def __call__(self, obs):
        """Return outputs of the wrong shape."""
        logits = nn.Dense(self.num_actions)(jnp.ravel(obs).astype(jnp.float32))
        return logits, logits[:1]
