"""Random network distillation (Burda et al., 2018): a reward for novelty.

A network learns to predict what another one, which is random and never learns, says of an
observation; where the prediction is still wrong, the observation is new. A learner from rollouts
adds the error to its rewards. Deliberate differences: what is distilled are the features of
encoders.py with random weights; statistics start with the first rollout instead of a random
agent's; the predictor makes one pass over a rollout; and one value counts both kinds of reward, so
that bonuses end with the episode too.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float32, PyTree

from ..core.bonuses import Bonus, Rewards, Visits
from ..core.devices import ALONE, Devices
from ..core.minibatches import apply_gradient
from ..core.moments import Moments
from ..networks.encoders import Encoder

CLIP = 5.0  # largest normalised feature
TARGET, PREDICTOR = 1, 2  # hidden layers


class Curiosity(NamedTuple):
    """What the bonus is computed from; the same on all devices."""

    encoder: PyTree[Array]  # weights that are never changed, like the target's
    target: PyTree[Array]
    predictor: PyTree[Array]
    optimiser: PyTree[Array]
    seen: Moments  # of each feature
    earned: Moments  # of the discounted returns of errors


@dataclasses.dataclass(frozen=True)
class RND(Bonus):
    """The bonus: pure functions of a `Curiosity`."""

    @property
    def encoder(self) -> Encoder:
        """The random encoder of observations."""
        return Encoder(self.space, self.embed, conv=self.conv)

    def init(self, key: Array, obs: PyTree[Array]) -> Curiosity:
        """Draw the networks for observations like this one."""
        key_encoder, key_target, key_predictor = jax.random.split(key, 3)
        features, encoder = self.encoder.init_with_output(key_encoder, self.read(obs))
        predictor = self.layers(PREDICTOR).init(key_predictor, features)
        zeros = jnp.zeros_like(jnp.asarray(features))
        return Curiosity(
            encoder=encoder,
            target=self.layers(TARGET).init(key_target, features),
            predictor=predictor,
            optimiser=optax.adam(self.learning_rate).init(predictor),
            seen=Moments(jnp.float32(0), zeros, zeros),
            earned=Moments(jnp.float32(0), zeros[:1], zeros[:1]),
        )

    def learn(
        self,
        curiosity: Curiosity,
        returns: Float32[Array, " envs"],
        obs: PyTree[Array],
        devices: Devices = ALONE,
    ) -> tuple[Curiosity, Float32[Array, " envs"], Float32[Array, "steps envs"]]:
        """Learn a rollout of observations (steps, envs, ...); return how new each of them was.

        `returns` are each environment's discounted sums of errors before the rollout; those after
        it are returned for the next one.
        """
        steps, envs = jax.tree.leaves(obs)[0].shape[:2]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), obs)
        chex.assert_shape(returns, (envs,), custom_message="returns are [envs]")
        features = self.features(curiosity, flat)
        curiosity = curiosity._replace(seen=curiosity.seen.and_of(features.T, devices))
        inputs = self.normalised(curiosity, features)
        errors = self.errors(curiosity, inputs).reshape(steps, envs)
        earned, returns, bonus = self.scaled(curiosity.earned, returns, errors, devices)
        curiosity = self.taught(curiosity._replace(earned=earned), inputs, devices)
        return curiosity, returns, bonus

    def rewards(
        self,
        curiosity: Curiosity,
        memory: PyTree[Array],
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """How new what each step led to was: the error before it is learned."""
        led_to = jax.tree.map(lambda leaf: leaf[1:], visits.obs)
        curiosity, returns, bonus = self.learn(curiosity, returns, led_to, devices)
        return curiosity, memory, returns, bonus

    def taught(self, curiosity: Curiosity, inputs: Array, devices: Devices) -> Curiosity:
        """Let the predictor take `minibatches` gradient steps, each on every n-th input."""
        batches = inputs.reshape(-1, self.minibatches, inputs.shape[-1]).swapaxes(0, 1)

        def gradient_step(carry: Any, inputs: Array) -> tuple[Any, None]:
            predictor, optimiser = carry

            def loss(predictor: PyTree[Array]) -> Array:
                return self.errors(curiosity._replace(predictor=predictor), inputs).mean()

            gradient = devices.mean(jax.grad(loss)(predictor))
            return apply_gradient(adam, gradient, optimiser, predictor), None

        adam, carry = optax.adam(self.learning_rate), (curiosity.predictor, curiosity.optimiser)
        (predictor, optimiser), _ = jax.lax.scan(gradient_step, carry, batches)
        return curiosity._replace(predictor=predictor, optimiser=optimiser)

    def features(self, curiosity: Curiosity, obs: PyTree[Array]) -> Float32[Array, "batch all"]:
        """The fixed random encoding of a batch of observations."""
        encode: Any = functools.partial(self.encoder.apply, curiosity.encoder)
        return jax.vmap(lambda obs: encode(self.read(obs)))(obs)

    def normalised(self, curiosity: Curiosity, features: Array) -> Float32[Array, "batch all"]:
        """Features in deviations from their means."""
        seen = curiosity.seen
        return jnp.clip((features - seen.mean) / seen.deviation, -CLIP, CLIP)

    def errors(self, curiosity: Curiosity, inputs: Array) -> Float32[Array, " batch"]:
        """Mean square errors of the predictor; nothing is learned by the target."""
        said: Any = self.layers(TARGET).apply(curiosity.target, inputs)
        guessed: Any = self.layers(PREDICTOR).apply(curiosity.predictor, inputs)
        return jnp.square(guessed - jax.lax.stop_gradient(said)).mean(axis=-1)

    def layers(self, hidden: int) -> nn.Sequential:
        """The network that stays as it was drawn, or with more layers the one that learns."""
        initial = nn.initializers.orthogonal(np.sqrt(2))
        layers = [nn.Dense(self.width, kernel_init=initial) for _ in range(hidden + 1)]
        return nn.Sequential([part for layer in layers for part in (layer, nn.relu)][:-1])
