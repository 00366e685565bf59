"""Networks of the actor-critic learners: an actor, and an ensemble of critics.

The actor outputs means and raw standard deviations of a Gaussian, whose samples are squashed by
tanh (jaxenvs/core/distributions.py). Each critic outputs Q(s, a), or quantiles of the return.
"""

from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from jaxenvs import spaces
from jaxenvs.core.masking import Mask

from ..core.learner import Learner
from ..networks.batch_renorm import BatchRenorm, Whole
from ..networks.encoders import Encoder
from ..networks.layers import normalise
from ..networks.policies import Network
from ..networks.products import dense

# The dropout key is `fold_in(key, DROPOUT)`. The constant is large because `split(key)` derives
# keys from small counters, and the dropout key must differ from these keys.
DROPOUT = 2**20
# Raw standard deviation that a deterministic actor outputs. The policy's Gaussian maps this number
# to its smallest standard deviation.
NO_NOISE = -20.0


class Actor(Network):
    """Policy network for one observation; `jax.vmap` it for a batch."""

    # whether the network learns raw standard deviations; False: they are `NO_NOISE`, as in TD3
    has_chance: bool = True
    renormalised: bool = False  # whether layers have batch renormalisation, see batch_renorm.py

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], whole: Whole | None = None
    ) -> Float32[Array, " outputs"]:
        features = self.encoder_of(self.observation_space)(self.read(obs))
        if self.renormalised:
            features = BatchRenorm(self.dtype)(features, whole)
        for width in self.hidden:
            features = self.activate(dense(width, np.sqrt(2), self.dtype)(features))
            if self.renormalised:
                features = BatchRenorm(self.dtype)(features, whole)
        if self.has_chance:
            return dense(self.num_actions, 0.01)(features).astype(jnp.float32)
        means = dense(self.num_actions // 2, 0.01)(features).astype(jnp.float32)
        return jnp.concatenate([means, jnp.full_like(means, NO_NOISE)])

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the recurrent state (unchanged), the policy outputs, and a value of NaN.

        The actor has no value output.
        """
        return memory, self.apply(weights, obs), jnp.float32(jnp.nan)


class Critic(nn.Module):
    """Q-network for one observation and one action; `jax.vmap` it for a batch.

    Dropout is active only if `apply` gets a Flax rng named "dropout".
    """

    actor: Network  # the actor, whose observation space and encoder settings the critic shares
    low: tuple[float, ...]  # lower bounds of the actions
    high: tuple[float, ...]  # upper bounds of the actions
    hidden: tuple[int, ...]  # width of each hidden layer
    layer_norm: bool = False
    dropout: float = 0.0
    renormalised: bool = False  # whether layers have batch renormalisation, see batch_renorm.py
    values: int = 1  # number of outputs: 1, or the number of quantiles of the return

    @nn.compact
    def __call__(
        self, obs: PyTree[Array], action: Array, whole: Whole | None = None
    ) -> Float32[Array, " values"]:
        actor = self.actor
        low, high = (np.array(end, np.float32) for end in (self.low, self.high))
        encoder = Encoder(
            actor.observation_space, actor.embed, actor.dtype, tuple(actor.conv), actor.lines
        )
        features = encoder(actor.read(obs))
        unit = (2 * action.ravel() - low - high) / (high - low)
        features = jnp.concatenate([features, unit.astype(features.dtype)])
        if self.renormalised:
            features = BatchRenorm(actor.dtype)(features, whole)
        for width in self.hidden:
            features = dense(width, np.sqrt(2), actor.dtype)(features)
            if self.has_rng("dropout"):
                features = nn.Dropout(self.dropout, deterministic=False)(features)
            if self.layer_norm:
                features = normalise(nn.LayerNorm(), features)
            features = actor.activate(features)
            if self.renormalised:
                features = BatchRenorm(actor.dtype)(features, whole)
        return dense(self.values, 1.0)(features).astype(jnp.float32)


def network(
    env: Any,
    has_chance: bool = True,
    renormalised: bool = False,
    layer_norm: bool = False,
    **given: Any,
) -> Actor:
    """Return the actor for an environment.

    `has_chance` is False for a deterministic actor. `layer_norm`, a setting of the critics, is
    ignored. Raises `ValueError` for action spaces other than Box.
    """
    made = Actor.of(env, **given).clone(has_chance=has_chance, renormalised=renormalised)
    assert isinstance(env.action_space, spaces.Box)
    return made


def critic_of(learner: Learner[Any, Actor], values: int = 1) -> Critic:
    """Return the network of one critic, with `values` outputs."""
    space: Any = learner.env.env.action_space
    low, high = (tuple(end.ravel().tolist()) for end in (space.low, space.high))
    # `parent=None` detaches the copy of the actor's module. If the copy were made while another
    # module's `init` runs, Flax would otherwise register it as a submodule.
    actor, settings = learner.network.clone(parent=None), learner.settings
    return Critic(
        actor,
        low,
        high,
        settings.critic_hidden or settings.hidden,
        settings.layer_norm,
        settings.dropout,
        actor.renormalised,
        values,
        parent=None,
    )


def critic_values(
    learner: Learner[Any, Actor],
    critic: PyTree[Array],
    obs: PyTree[Array],
    action: Array,
    count: int = 1,
    key: Array | None = None,
) -> Float32[Array, "critics batch values"]:
    """Return the outputs (`count` numbers) of each critic for a batch of observations and actions.

    `key` is for the critics' dropout: each critic has a separate dropout mask for each item of the
    batch. Without a key, there is no dropout.
    """
    network = critic_of(learner, count)

    def one(critic: PyTree, rngs: dict[str, Array], obs: PyTree, action: Array) -> Any:
        return network.apply(critic, obs, action, rngs=rngs)

    def over_batch(critic: PyTree, rngs: dict[str, Array]) -> Any:
        keys = {name: jax.random.split(key, len(action)) for name, key in rngs.items()}
        return jax.vmap(one, in_axes=(None, 0, 0, 0))(critic, keys, obs, action)

    answer: Any = jax.vmap(over_batch)(critic, dropout_keys(learner, critic, key))
    return answer


def dropout_keys(
    learner: Learner[Any, Actor], critic: PyTree[Array], key: Array | None
) -> dict[str, Array]:
    """Return Flax rngs with a dropout key per critic; {} if dropout is off or `key` is None."""
    if key is None or not learner.settings.dropout:
        return {}
    count = len(jax.tree.leaves(critic)[0])
    return {"dropout": jax.random.split(jax.random.fold_in(key, DROPOUT), count)}
