"""Behaviour cloning: the policy is fitted to demonstrated actions by minimising cross-entropy.

A fraction of the episodes is held out from training. Training ends when the loss on held-out
episodes has not improved for `patience` updates, and the run keeps the weights with the lowest
held-out loss. Run it with `jaxenvs train ID --algo bc --demos NAME`; `jaxenvs demos` records
demonstrations.

If `memory` is not 0, the network is the GRU of recurrent PPO (ppo_rnn.py), and a minibatch consists
of whole episodes, each of which is unrolled from its start. With `memory=0`, the network is the
feed-forward network of PPO, and a minibatch consists of single steps. No value is learned, so the
policy's value is NaN. Masks of illegal actions are applied in evaluation only, because datasets
have none.
"""

import dataclasses
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, PyTree

from jaxenvs import Env
from jaxenvs.core.masking import Mask

from ..core import minibatches
from ..core.bounds import NonNegativeInt, Share
from ..core.learner import SEEDS, Learner
from ..core.metrics import means
from ..networks.policies import ActorCritic, Network, Recurrent
from . import data
from .data import Rows, Split

DIVIDED = ()  # no field of the runner is divided among devices
LOSSES = ("loss", "accuracy")


@dataclasses.dataclass(frozen=True)
class Settings(data.Offline):
    """Hyperparameters of behaviour cloning."""

    memory: NonNegativeInt = 128  # size of the GRU's state; 0: a feed-forward network
    # Fraction of the episodes that is held out; 0: train for all `total_steps`.
    held_out: Share = 0.1
    # training ends after this many updates without a new lowest held-out loss; 0: only at the end
    patience: NonNegativeInt = 10

    def check(self) -> None:
        super().check()
        if self.held_out == 1:
            raise ValueError("held_out=1.0 leaves no episode to learn from; give less, such as 0.1")


class Runner(NamedTuple):
    """Training state between updates.

    `weights` are the weights with the lowest held-out loss. Without held-out episodes, they are the
    latest weights.
    """

    weights: PyTree[Array]
    latest: PyTree[Array]  # weights after the last gradient step
    optimiser: PyTree[Array]
    key: Array  # uint32 (*seeds, words), data of the PRNG key
    best: Array  # float32 (*seeds), lowest held-out loss so far
    waited: Array  # int32 (*seeds), updates since the loss was lowest
    swept: PyTree[Array] = ()
    params: PyTree[Array] = None  # demonstrations; set in the compiled program only


class _Valueless:
    """Mixin of networks whose value output is not trained."""

    def think(
        self, weights: PyTree[Array], memory: Any, obs: PyTree[Array], mask: Mask
    ) -> tuple[Any, ...]:
        """Return the next recurrent state, logits of the legal actions, and a value of NaN."""
        memory, logits, value = super().think(weights, memory, obs, mask)  # type: ignore[misc]
        return memory, logits, jnp.full_like(value, jnp.nan)


class RecurrentPolicy(_Valueless, Recurrent):
    """Recurrent policy without a value."""


class FeedForwardPolicy(_Valueless, ActorCritic):
    """Feed-forward policy without a value."""


check = data.check


def network(env: Env, memory: int = 0, **given: Any) -> Network:
    """Return the policy network: recurrent if `memory` is not 0."""
    if memory:
        return RecurrentPolicy.of(env, memory=memory, **given)
    return FeedForwardPolicy.of(env, **given)


def params(learner: Learner[Settings]) -> Split:
    """Return the demonstrations, which are arguments of the compiled program, not constants."""
    settings = learner.settings
    return data.split(settings.demos, learner.env.env, settings.held_out, bool(settings.memory))


def init(learner: Learner[Settings], key: Array, given: Split) -> Runner:
    """Return the initial training state."""
    key_weights, key_rest = jax.random.split(key)
    obs = jax.tree.map(lambda leaf: leaf[0, 0], given.train.obs)
    weights = learner.network.init(key_weights, obs)
    chain = minibatches.optimiser(learner.settings)
    return Runner(
        weights=weights,
        latest=jax.tree.map(jnp.copy, weights),
        optimiser=chain.init(minibatches.split_weights(weights)[0]),
        key=jax.random.key_data(key_rest),
        best=jnp.float32(jnp.inf),
        waited=jnp.int32(0),
    )


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Take gradient steps, unless training has ended early; return the new state and metrics."""
    settings, given = learner.settings, runner.params
    runner = runner._replace(params=None)
    going = is_going(settings, runner)

    def learn(runner: Runner) -> tuple[Runner, dict[str, Array]]:
        after, losses = fit(learner, runner, given.train)
        after, held_out = compare(learner, after, given.held_out)
        after = jax.tree.map(lambda new, old: jnp.where(going, new, old), after, runner)
        return after, {**losses, **held_out}

    def rest(runner: Runner) -> tuple[Runner, dict[str, Array]]:
        return runner, {name: jnp.float32(jnp.nan) for name in logged(settings)}

    # All seeds share the condition, because otherwise `cond` would compute both branches under
    # `vmap`.
    any_going = jax.lax.pmax(going.astype(jnp.int32), SEEDS) > 0
    runner, losses = jax.lax.cond(any_going, learn, rest, runner)
    stopped = ~is_going(settings, runner)
    found = {**means(losses, going), "stopped": stopped.astype(jnp.float32)}
    return runner._replace(params=given), {**data.no_episodes(), **found}


def logged(settings: Settings) -> tuple[str, ...]:
    """Return the names of the logged losses."""
    return (*LOSSES, *(f"held_out_{name}" for name in LOSSES if settings.held_out))


def is_going(settings: Settings, runner: Runner) -> Array:
    """Return whether training continues.

    Training ends once the last `patience` updates brought no new lowest held-out loss.
    Without held-out episodes, or with `patience=0`, training always continues.
    """
    if not (settings.patience and settings.held_out):
        return jnp.bool_(True)
    return runner.waited < settings.patience


def fit(learner: Learner[Any], runner: Runner, rows: Rows) -> tuple[Runner, dict[str, Array]]:
    """Take the gradient steps of an update; return the runner and the mean losses."""
    settings = learner.settings
    key, key_rows = jax.random.split(jax.random.wrap_key_data(runner.key))
    count, width = rows.action.shape
    size = max(1, settings.batch_size // learner.devices.count // width)
    orders = jax.random.randint(
        learner.devices.local_key(key_rows), (settings.gradient_steps, size), 0, count
    )
    latest = runner._replace(weights=runner.latest)
    latest, losses = minibatches.descend(learner, loss, latest, (rows,), orders)
    return runner._replace(
        latest=latest.weights, optimiser=latest.optimiser, key=jax.random.key_data(key)
    ), losses


def compare(learner: Learner[Any], runner: Runner, rows: Rows) -> tuple[Runner, dict[str, Array]]:
    """Evaluate the latest weights on held-out episodes; store them if their loss is the lowest.

    Return the runner and the held-out losses. Without held-out episodes, store the latest weights.
    """
    if not learner.settings.held_out:
        return runner._replace(weights=runner.latest), {}
    _, losses = loss(learner, runner.latest, rows)
    is_better = losses["loss"] < runner.best
    weights = jax.tree.map(
        lambda new, old: jnp.where(is_better, new, old), runner.latest, runner.weights
    )
    runner = runner._replace(
        weights=weights,
        best=jnp.where(is_better, losses["loss"], runner.best),
        waited=jnp.where(is_better, 0, runner.waited + 1),
    )
    return runner, {f"held_out_{name}": value for name, value in losses.items()}


def loss(
    learner: Learner[Any], weights: PyTree[Array], rows: Rows
) -> tuple[Array, dict[str, Array]]:
    """Return the mean cross-entropy of demonstrated actions, and a dict of loss and accuracy.

    The accuracy is the fraction of steps whose demonstrated action has the highest logit. Padding
    is left out of both means.
    """
    logits = unroll(learner, weights, rows)
    entropy = optax.losses.softmax_cross_entropy_with_integer_labels(logits, rows.action)
    right = (logits.argmax(axis=-1) == rows.action).astype(jnp.float32)
    chex.assert_equal_shape(
        [entropy, right, rows.weight], custom_message="loss and weight of each step, [rows, width]"
    )
    count = jnp.maximum(rows.weight.sum(), 1.0)
    losses = {
        "loss": (rows.weight * entropy).sum() / count,
        "accuracy": (rows.weight * right).sum() / count,
    }
    return losses["loss"], losses


def unroll(learner: Learner[Any], weights: PyTree[Array], rows: Rows) -> Array:
    """Return the logits of all steps of `rows`, (rows, width, actions)."""
    policy = learner.network
    if isinstance(policy, FeedForwardPolicy):
        logits, _ = jax.vmap(jax.vmap(lambda obs: policy.apply(weights, obs)))(rows.obs)
        return logits
    begin = policy.begin()
    count = len(rows.action)
    first = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), begin)
    memory = rows.memory if jax.tree.leaves(rows.memory) else first
    over_rows = jax.vmap(policy.unroll, in_axes=(None, 0, 0, 0))
    logits, _ = over_rows(weights, memory, rows.obs, rows.done)
    return logits


def shown(settings: Settings, record: dict[str, Any]) -> str:
    """Return the progress line: loss and accuracy, on held-out episodes if there are any."""
    prefix = "held_out_" if settings.held_out else ""
    return data.numbers(record, [f"{prefix}{name}" for name in LOSSES])


def finished(record: dict[str, Any]) -> bool:
    """Return whether training of all seeds has ended, given the last log record."""
    return bool(np.all(record["stopped"]))
