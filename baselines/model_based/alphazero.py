"""Gumbel AlphaZero (Danihelka et al., 2022) through mctx, where the agent sees the whole state.

Run it with `jaxenvs train ID --algo alphazero`. It is PPO whose actions come from a tree search in
the true environment, and whose policy learns what the search found instead of a gradient of
rewards. The search steps with separate keys, so that no plan
foresees random outcomes, but from the true state: plans would use what the agent cannot see, so
partially observed environments need `--clairvoyant`.
Deliberate differences: no replay buffer (a few passes over each rollout, as in PPO); values begin
at 0 and by default are not rescaled in each node. Otherwise the errors of a value that has seen no
reward yet would make the policy confident, and it would stop exploring.
"""

import dataclasses
import functools
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs import Env
from jaxenvs.adapters.mctx import mctx_recurrent_fn, mctx_root_fn
from jaxenvs.core.masking import Mask, legal, legal_actions

from ..core import minibatches, rollouts
from ..core.bounds import Count
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Learning
from ..networks.policies import ActorCritic
from . import gumbel


@dataclasses.dataclass(frozen=True)
class Settings(Learning):
    """What a run learns with; presets.py tunes it per environment, flags override it."""

    total_steps: int = 500_000  # environment steps of each seed, rounded up to whole updates
    rollout_steps: int = 32  # steps of each environment between updates
    value_weight: float = 1.0  # weight of the value loss
    simulations: Count = 16  # of the search for each action
    considered: Count = 16  # actions that the search tries at its root, at most
    value_scale: float = 0.1  # how firmly the policy follows the values that the search found
    rescale: bool = False  # whether the values of a node are scaled to 0 to 1 before
    clairvoyant: bool = False  # whether to plan with parts of the state that the agent cannot see


class Plan(NamedTuple):
    """What a search returns, by environment."""

    action: Int32[Array, " envs"]
    policy: Float32[Array, "envs actions"]  # probabilities to learn
    value: Float32[Array, " envs"]


DIVIDED = rollouts.DIVIDED
# Every value is 0 at first. Before the first reward random values are noise, and a search that
# follows it teaches the policy what it already prefers, until it no longer explores.
network = functools.partial(ActorCritic.of, value_gain=0.0)


def init(learner: Learner[Settings], key: Array) -> Runner:
    """Start: weights, worlds and the key for all that follows."""
    return Runner(**rollouts.begin(learner, key))


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and learn from it; also return the metrics of this update."""
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    batch = minibatches.as_steps((rollout, rollouts.lambda_returns(learner, runner, rollout)))
    orders = minibatches.shuffled_items(learner.settings, batch, key_learn)
    runner, losses = minibatches.descend(learner, loss, runner, batch, orders)
    return runner, {**rollouts.episode_sums(rollout), **losses}


def choose(learner: Learner[Settings], runner: Runner, key: Array, mask: Mask) -> Chosen:
    """Search; policies and values of a rollout are those that the search found."""
    found = plan(learner, runner.weights, key, runner.obs, runner.world.env)
    return runner.memory, found.action, {"policy": found.policy, "value": found.value, "mask": mask}


def plan(
    learner: Learner[Settings],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    state: PyTree[Array],
    gumbel_scale: float = 1.0,
    params: Any = None,
) -> Plan:
    """Search from each environment's state; `gumbel_scale=0` draws no action.

    `params` are those of the environments, None for the defaults.
    """
    env, predict = learner.env.env, functools.partial(predict_nodes, learner)
    mask = jax.vmap(lambda one: legal_actions(env, one, params))(state)
    root = mctx_root_fn(env, predict, params=params)(weights, obs, state)
    asked = (root, expand(learner, params), mask, gumbel_scale)
    found = gumbel.searched(learner.settings, weights, key, *asked)
    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes
        value = found.search_tree.summary().value
    action = jnp.asarray(found.action, jnp.int32)
    return Plan(action, jnp.asarray(found.action_weights), jnp.asarray(value))


def expand(learner: Learner[Settings], params: Any = None) -> Any:
    """The function that steps a batch of nodes, as mctx asks for."""
    predict, discount = functools.partial(predict_nodes, learner), learner.settings.gamma
    return mctx_recurrent_fn(learner.env.env, predict, params=params, discount=discount)


def predict_nodes(learner: Learner, weights: PyTree, obs: PyTree, state: Any) -> Any:
    """Logits and values of a batch of nodes: the network looks at what is observed."""
    return rollouts.predict(learner, weights, obs)


def loss(learner: Learner[Settings], weights: PyTree, rollout: Rollout, target: Array) -> Loss:
    """Cross-entropy with the policy of the search, and value loss, of a minibatch."""
    logits, value = rollouts.predict(learner, weights, rollout.obs)
    chex.assert_equal_shape([logits, rollout.policy], custom_message="logits and the policy")
    chex.assert_equal_shape([value, target], custom_message="value and target, [batch]")
    log_probs = jax.nn.log_softmax(legal(logits, rollout.mask))
    policy_loss = -(rollout.policy * log_probs).sum(axis=-1).mean()
    value_loss = 0.5 * jnp.square(value - target).mean()
    entropy = -(jnp.exp(log_probs) * log_probs).sum(axis=-1).mean()
    searched = -jax.scipy.special.xlogy(rollout.policy, rollout.policy).sum(axis=-1).mean()
    return policy_loss + learner.settings.value_weight * value_loss, {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "search_entropy": searched,
    }


def decide(
    learner: Learner[Settings],
    weights: PyTree[Array],
    key: Array,
    obs: PyTree[Array],
    mask: Mask,
    state: Any,
    params: Any,
    greedy: bool,
) -> Int32[Array, " batch"]:
    """Actions of the trained policy; see `planning.Search.plan`. The mask is the state's."""
    noise = 0.0 if greedy else 1.0
    return plan(learner, weights, key, obs, state, gumbel_scale=noise, params=params).action


def check_sight(env: Env, settings: Settings) -> None:
    """Raise `ValueError` if plans would use hidden state, unless `clairvoyant` is set."""
    if env.fully_observed or settings.clairvoyant:
        return
    shown = env.full_observations
    fix = f"show it with --set obs={shown[0]}, " if shown else ""
    raise ValueError(
        f"{env.name} hides part of its state from the agent (fully_observed is False), and "
        f"AlphaZero plans by stepping the true state: its plans would use what the agent cannot "
        f"know; {fix}train with --algo muzero, ppo or ppo-rnn, or give --clairvoyant to plan with "
        f"the hidden state anyway"
    )


def check(learner: Learner[Settings], seeds: int, episodes: int) -> None:
    """Raise `ValueError` if plans would use hidden state, unless `clairvoyant` is set."""
    check_sight(learner.env.env, learner.settings)
