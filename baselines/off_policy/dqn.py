"""DQN (Mnih et al., 2015) with double Q-learning, dueling heads and n-step returns.

The network learns Q(s, a) by regression on TD targets from a replay buffer. Each environment step
is used in many gradient steps, so DQN suits runs with few environment steps. Run it with
`jaxenvs train ID --algo dqn`. Environments, agent, replay buffer and gradient steps are one
compiled program (q_learning.py).

In the n-step target, the online network chooses the action and the target network evaluates it
(double DQN; van Hasselt et al., 2016); value and advantage heads follow Wang et al. (2016).
Settings add prioritised replay (priorities.py), noisy layers (q_network.py), the augmented rewards
and soft targets of Munchausen DQN (Vieillard et al., 2020), and resets. A reset sets the last
layers to their initial weights (Nikishin et al., 2022) and moves the other layers towards their
initial weights (D'Oro et al., 2023), which allows a high replay ratio.

Deliberate differences from the papers: several environments fill the replay buffer; a truncated
episode is bootstrapped from its final observation; layers have LayerNorm by default; n-step targets
have no off-policy correction, and add the Munchausen reward of their first action only; resets use
the run's initial weights, not newly drawn ones. If an environment has illegal actions, the greedy
action is the best legal action, in acting and in targets.
"""

import dataclasses
import functools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs.core.masking import Mask, legal

from ..core import replay_checks
from ..core.bounds import NonNegative, NonNegativeInt, Share
from ..core.minibatches import Loss
from ..core.replay_buffer import Batch
from ..core.settings import QLearning
from ..networks import q_network
from ..networks.q_network import QLearner, QNetwork
from . import q_learning
from .q_learning import Objective

MIN_LOG_POLICY = -1.0  # l_0 in the paper: Munchausen clips tau log pi(a|s) to [l_0, 0]


@dataclasses.dataclass(frozen=True)
class Settings(QLearning):
    """Hyperparameters of DQN.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    layer_norm: bool = True  # whether layers have layer normalisation
    # whether noisy layers explore; if so, set epsilon_start=0 and epsilon_end=0 as well
    noisy: bool = False
    # Munchausen: weight alpha, such as 0.9, of the term tau log pi(a|s) added to rewards; 0: off
    munchausen: Share = 0.0
    temperature: NonNegative = 0.03  # temperature tau of Munchausen's soft policy, such as 0.03
    # gradient steps between resets of the last layers, such as 2000; 0: never
    reset_every: NonNegativeInt = 0
    # a reset sets the layers before the last ones to reset_keep * their weights
    # + (1 - reset_keep) * their initial weights
    reset_keep: Share = 0.5

    def check(self) -> None:
        super().check()
        if self.munchausen and not self.temperature:
            raise ValueError("temperature=0: munchausen needs more than 0, such as 0.03")


check = replay_checks.check
network = QNetwork.of
init = q_learning.init


def td_target(
    learner: QLearner,
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None = None,
) -> Float32[Array, " batch"]:
    """Return the TD targets of the sampled actions: reward + discount * next value."""
    value = next_values(learner, weights, target, batch, key)
    chex.assert_equal_shape(
        [batch.reward, batch.discount, value],
        custom_message="reward, discount and the successor's value, [batch]",
    )
    return augmented_reward(learner, target, batch, key) + batch.discount * value


def next_values(
    learner: QLearner,
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None,
    *given: Array,
) -> Float32[Array, "batch ..."]:
    """Return the target network's output for the greedy action at the next observations.

    With Munchausen, the result is instead the expectation of (output - tau log pi) over actions
    drawn from the soft policy pi. `given` are further inputs of the network: none in DQN, the
    fractions tau in IQN.
    """
    key_value, key_best = split_key(key)
    answer = q_network.apply_batch(learner, target, batch.next_obs, key_value, *given)
    if learner.settings.munchausen:
        policy, log = soft_policy(learner, target, batch.next_obs, batch.next_mask, key_best)
        like = (..., *[None] * (answer.ndim - 2))
        return ((answer - log[like]) * policy[like]).sum(axis=1)
    return q_network.of_actions(answer, greedy_action(learner, weights, target, batch, key_best))


def greedy_action(
    learner: QLearner,
    weights: PyTree[Array],
    target: PyTree[Array],
    batch: Batch,
    key: Array | None,
) -> Int32[Array, " batch"]:
    """Return the greedy legal actions at the next observations.

    Actions are greedy with respect to the online network if the setting `double` is on (double
    DQN), and to the target network if it is off.
    """
    chooser = weights if learner.settings.double else target
    values = learner.network.mean(q_network.apply_batch(learner, chooser, batch.next_obs, key))
    return legal(values, batch.next_mask).argmax(axis=-1).astype(jnp.int32)


def augmented_reward(
    learner: QLearner, target: PyTree[Array], batch: Batch, key: Array | None
) -> Float32[Array, " batch"]:
    """Return the rewards; with Munchausen, rewards + alpha * clip(tau log pi(a|s), l_0, 0)."""
    if not learner.settings.munchausen:
        return batch.reward
    _, log = soft_policy(learner, target, batch.obs, batch.mask, split_key(key)[0])
    more = jnp.clip(q_network.of_actions(log, batch.action), MIN_LOG_POLICY, 0.0)
    return batch.reward + learner.settings.munchausen * more


def soft_policy(
    learner: QLearner, target: PyTree[Array], obs: PyTree[Array], mask: Mask, key: Any
) -> tuple[Float32[Array, "batch actions"], Float32[Array, "batch actions"]]:
    """Return Munchausen's soft policy pi and tau log pi.

    pi = softmax(Q / tau) over legal actions, with Q from the target network.
    """
    values = learner.network.mean(q_network.apply_batch(learner, target, obs, key))
    tau = learner.settings.temperature
    log = jax.nn.log_softmax(legal(values / tau, mask))
    return jnp.exp(log), tau * log


def split_key(key: Array | None) -> tuple[Any, Any]:
    """Split a random key into two keys; without a key, return (None, None)."""
    return (None, None) if key is None else tuple(jax.random.split(key))


def loss(
    learner: QLearner, weights: PyTree, batch: Batch, target: Array, key: Array | None = None
) -> Loss:
    """Return the Huber loss of Q(s, a) for a batch, and metrics; `error` holds the TD errors."""
    answer = q_network.apply_batch(learner, weights, batch.obs, key)
    value = q_network.of_actions(answer, batch.action)
    chex.assert_equal_shape(
        [batch.weight, value, target], custom_message="weight, value and target, [batch]"
    )
    loss = (batch.weight * optax.losses.huber_loss(value, target)).mean()
    return loss, {"q_loss": loss, "q": value.mean(), "error": target - value}


update = functools.partial(q_learning.update, Objective(td_target, loss))
