"""The networks of MuZero: what is seen as a latent state, the next one, what both are worth."""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree

from . import two_hot
from .networks import Network, dense

TINY = 1e-5  # least range of a latent state


class MuZeroNetwork(Network):
    """Representation, dynamics and prediction; the policy is that of the latent state alone."""

    latent: int = 64  # numbers of a latent state
    atoms: int = 20  # highest atom of rewards and values, see two_hot.py
    activation: str = "relu"

    def setup(self) -> None:
        """Name the parts."""
        self.encoder = self.encoder_of(self.observation_space)
        self.layers = [dense(width, np.sqrt(2), self.dtype) for width in self.hidden]
        self.enter = dense(self.latent, 1.0, self.dtype)
        self.moves = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        self.heads = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        count = 2 * self.atoms + 1
        self.reward, self.value = dense(count, 0.0), dense(count, 0.0)
        self.policy = dense(self.num_actions, 0.01)
        self.projections = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]
        self.foresight = [dense(self.latent, np.sqrt(2), self.dtype) for _ in range(2)]

    def __call__(self, obs: PyTree[Array]) -> tuple[Float32[Array, " actions"], Array]:
        latent = self.represent(obs)
        if self.is_initializing():
            self.foreseen(self.imagine(latent, jnp.int32(0))[0])
        logits, value = self.predict(latent)
        return logits, two_hot.mean(value)

    def of_batch(self, weights: PyTree[Array], method: str, *given: PyTree[Array]) -> Any:
        """What a method says of each of a batch of arguments."""
        call: Any = functools.partial(self.apply, weights, method=method)
        return jax.vmap(call)(*given)

    def represent(self, obs: PyTree[Array]) -> Float32[Array, " latent"]:
        """The latent state of an observation."""
        features = self.encoder(self.read(obs))
        for layer in self.layers:
            features = self.activate(layer(features))
        return ranged(self.enter(features))

    def imagine(
        self, latent: Float32[Array, " latent"], action: Int32[Array, ""]
    ) -> tuple[Float32[Array, " latent"], Float32[Array, " atoms"]]:
        """The latent state after an action, and the distribution of its reward."""
        taken = jax.nn.one_hot(action, self.num_actions)
        features = jnp.concatenate([latent, taken]).astype(self.dtype)
        first, second = self.moves
        features = self.activate(first(features))
        return ranged(latent + second(features).astype(jnp.float32)), self.reward(features)

    def predict(
        self, latent: Float32[Array, " latent"]
    ) -> tuple[Float32[Array, " actions"], Float32[Array, " atoms"]]:
        """Logits of the actions, and the distribution of the value."""
        policy, value = (self.activate(head(latent.astype(self.dtype))) for head in self.heads)
        return self.policy(policy), self.value(value)

    def projected(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """What two latent states of the same moment should agree about."""
        first, second = self.projections
        return second(self.activate(first(latent.astype(self.dtype)))).astype(jnp.float32)

    def foreseen(self, latent: Float32[Array, " latent"]) -> Float32[Array, " latent"]:
        """What an imagined latent state says of the projection of the true one."""
        first, second = self.foresight
        features = self.projected(latent).astype(self.dtype)
        return second(self.activate(first(features))).astype(jnp.float32)


def ranged(latent: Array) -> Float32[Array, " latent"]:
    """A latent state whose numbers lie between 0 and 1, as one-hots of actions do."""
    latent = latent.astype(jnp.float32)
    low, high = latent.min(), latent.max()
    return (latent - low) / (high - low + TINY)
