"""Random network distillation (Burda et al., 2018): a reward for novelty.

A predictor network is trained to match a fixed random target network. The predictor's error is
large for new observations and is added to the rewards.

Deliberate differences from the paper: both networks read the features of an encoder with fixed
random weights; statistics start with the first rollout, not with steps of a random agent; the
predictor is trained for one pass over each rollout; and a single value function predicts rewards
plus bonuses, so that the returns of bonuses also stop at the end of an episode.
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

CLIP = 5.0  # normalised features are clipped to [-CLIP, CLIP]
TARGET, PREDICTOR = 1, 2  # number of hidden layers of the target network and of the predictor


class Curiosity(NamedTuple):
    """Networks and statistics of the RND bonus, replicated on all devices."""

    # fixed random weights of the encoder, which converts observations to features
    encoder: PyTree[Array]
    # fixed random weights of the target network, whose output for these features is predicted
    target: PyTree[Array]
    predictor: PyTree[Array]
    optimiser: PyTree[Array]
    seen: Moments  # running mean and variance of each feature of the encoder
    earned: Moments  # running mean and variance of the discounted sums of the predictor's errors


@dataclasses.dataclass(frozen=True)
class RND(Bonus):
    """RND bonus: the predictor's error. Networks and statistics are stored in a `Curiosity`."""

    @property
    def encoder(self) -> Encoder:
        """Encoder of observations; its random weights are never trained."""
        return Encoder(self.space, self.embed, conv=self.conv)

    def init(self, key: Array, obs: PyTree[Array]) -> Curiosity:
        """Return initial networks and statistics; `obs` is an example of one observation."""
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
        """Compute the bonuses of observations (steps, envs, ...), then train the predictor on them.

        A bonus is the predictor's error, divided by the standard deviation of the discounted sums
        of errors. `returns` are each environment's discounted sums before the rollout. The result
        is a tuple of networks and statistics, the discounted sums after the rollout, and the
        bonuses.
        """
        steps, envs = jax.tree.leaves(obs)[0].shape[:2]
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), obs)
        chex.assert_shape(returns, (envs,), custom_message="returns are [envs]")
        features = self.features(curiosity, flat)
        curiosity = curiosity._replace(seen=curiosity.seen.merged_with(features.T, devices))
        inputs = self.normalised(curiosity, features)
        errors = self.errors(curiosity, inputs).reshape(steps, envs)
        earned, returns, bonus = self.scaled(curiosity.earned, returns, errors, devices)
        curiosity = self.trained(curiosity._replace(earned=earned), inputs, devices)
        return curiosity, returns, bonus

    def rewards(
        self,
        curiosity: Curiosity,
        memory: PyTree[Array],
        returns: Float32[Array, " envs"],
        visits: Visits,
        devices: Devices = ALONE,
    ) -> Rewards:
        """Train on a rollout; return the bonus of each step's next observation.

        The bonus is the predictor's error before this training, divided by the standard deviation
        of the discounted sums of errors. `Bonus.rewards` describes arguments and results.
        """
        led_to = jax.tree.map(lambda leaf: leaf[1:], visits.obs)
        curiosity, returns, bonus = self.learn(curiosity, returns, led_to, devices)
        return curiosity, memory, returns, bonus

    def trained(self, curiosity: Curiosity, inputs: Array, devices: Devices) -> Curiosity:
        """Train the predictor on normalised features, with one gradient step per minibatch.

        With `minibatches` = m, minibatch i consists of the inputs i, i + m, i + 2 m and so on.
        """
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
        """Return features of a batch of observations; the encoder has fixed random weights."""
        encode: Any = functools.partial(self.encoder.apply, curiosity.encoder)
        return jax.vmap(lambda obs: encode(self.read(obs)))(obs)

    def normalised(self, curiosity: Curiosity, features: Array) -> Float32[Array, "batch all"]:
        """Return features standardised by their running mean and deviation, and clipped."""
        seen = curiosity.seen
        return jnp.clip((features - seen.mean) / seen.deviation, -CLIP, CLIP)

    def errors(self, curiosity: Curiosity, inputs: Array) -> Float32[Array, " batch"]:
        """Return the predictor's mean squared error per input; the target gets no gradient."""
        target: Any = self.layers(TARGET).apply(curiosity.target, inputs)
        predicted: Any = self.layers(PREDICTOR).apply(curiosity.predictor, inputs)
        return jnp.square(predicted - jax.lax.stop_gradient(target)).mean(axis=-1)

    def layers(self, hidden: int) -> nn.Sequential:
        """Return an MLP with `hidden` hidden layers, for the target network or the predictor."""
        initial = nn.initializers.orthogonal(np.sqrt(2))
        layers = [nn.Dense(self.width, kernel_init=initial) for _ in range(hidden + 1)]
        return nn.Sequential([part for layer in layers for part in (layer, nn.relu)][:-1])
