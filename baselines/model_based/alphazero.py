"""Gumbel AlphaZero (Danihelka et al., 2022) through mctx, for fully observed environments.

A tree search in the true environment chooses actions. The training loop is the same as PPO's, but
instead of a policy gradient, the policy loss is the cross-entropy with the search policy. Run it
with `jaxenvs train ID --algo alphazero`.

The search steps the true state with random keys that differ from the environment's, so that plans
cannot foresee random outcomes. In a partially observed environment, plans would use hidden state,
which is an error unless `--clairvoyant` allows it.

Deliberate differences from the paper: the network is trained for a few epochs on each rollout, as
in PPO, and not from a replay buffer. The value network predicts 0 at first, and by default the
search does not rescale the values of a node. With random initial values or with rescaling, noise
would make the policy confident before the first reward, and exploration would stop.

If forced steps are skipped (core/forced.py), an edge of the tree that leads to a forced state has
discount 1. Forced states have a value loss, because the search evaluates them, but no policy loss.
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
from jaxenvs.core.masking import Mask, is_masked, legal, legal_actions

from ..core import forced, minibatches, rollouts
from ..core.bounds import Count, NonNegative
from ..core.learner import Learner
from ..core.minibatches import Loss
from ..core.rollouts import Chosen, Rollout, Runner
from ..core.settings import Learning, SkipForced
from ..networks.policies import ActorCritic
from . import gumbel


@dataclasses.dataclass(frozen=True)
class Settings(SkipForced, Learning):
    """Hyperparameters of AlphaZero.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    total_steps: int = 500_000  # steps of each seed, rounded up to a multiple of `chunk` updates
    rollout_steps: int = 32  # steps of each environment between updates
    value_weight: NonNegative = 1.0  # coefficient of the value loss
    simulations: Count = 16  # simulations per search
    considered: Count = 16  # largest number of actions that a search considers at its root
    value_scale: NonNegative = 0.1  # scale of the values in the improved policy (mctx value_scale)
    rescale: bool = False  # whether the action values of a node are rescaled to the range 0 to 1
    clairvoyant: bool = False  # whether plans may use state that the agent does not observe


class Plan(NamedTuple):
    """Result of a search that starts from the state of each environment."""

    action: Int32[Array, " envs"]
    policy: Float32[Array, "envs actions"]  # improved policy, the target of the policy loss
    value: Float32[Array, " envs"]


# Initialise the value head so that all values are 0 at first. Searches with random values would
# prefer arbitrary actions, and the policy would become confident in these actions before the first
# reward. Exploration would then stop.
network = functools.partial(ActorCritic.of, value_gain=0.0)
init = rollouts.init


def update(learner: Learner[Settings], runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Collect a rollout and train the network on it; return the new runner and the metrics."""
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    runner, rollout = rollouts.collect(learner, runner, key_act, choose)
    batch = minibatches.as_steps((rollout, rollouts.lambda_returns(learner, runner, rollout)))
    orders = minibatches.shuffled_items(learner.settings, batch, key_learn)
    runner, losses = minibatches.descend(learner, loss, runner, batch, orders)
    return runner, {**rollouts.metrics(rollout), **losses}


def choose(learner: Learner[Settings], runner: Runner, key: Array, mask: Mask) -> Chosen:
    """Choose the action of each environment by search.

    The search's policy and value become fields of the rollout.
    """
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
    """Return the search's action, policy and value for each environment's state.

    With `gumbel_scale=0`, the action is deterministic. `params` are the environment's params (see
    `Env.step`); None: the default params.
    """
    env, predict = learner.env.env, functools.partial(predict_nodes, learner)
    mask = jax.vmap(lambda one: legal_actions(env, one, params))(state)
    root = mctx_root_fn(env, predict, params=params)(weights, obs, state)
    given = (root, expand(learner, params), mask, gumbel_scale)
    found = gumbel.search(learner.settings, weights, key, *given)
    with jax.numpy_dtype_promotion("standard"):  # mctx mixes dtypes, which strict promotion forbids
        value = found.search_tree.summary().value
    action = jnp.asarray(found.action, jnp.int32)
    return Plan(action, jnp.asarray(found.action_weights), jnp.asarray(value))


def expand(learner: Learner[Settings], params: Any = None) -> Any:
    """Return mctx's `recurrent_fn`: it steps the true environment from the state of each node."""
    env, predict = learner.env.env, functools.partial(predict_nodes, learner)
    # A policy trained with masks may be evaluated in a setup without masks.
    skips = forced.are_skipped(env, learner.settings) and is_masked(env)
    given = {"discount": learner.settings.gamma, "skip_forced": skips}
    return mctx_recurrent_fn(env, predict, params=params, **given)


def predict_nodes(learner: Learner, weights: PyTree, obs: PyTree, state: Any) -> Any:
    """Return the network's logits and values for the observations of a batch of nodes."""
    return rollouts.predict(learner, weights, obs)


def loss(learner: Learner[Settings], weights: PyTree, rollout: Rollout, target: Array) -> Loss:
    """Return the loss of a minibatch: cross-entropy with the search policy, plus value loss."""
    logits, value = rollouts.predict(learner, weights, rollout.obs)
    chex.assert_equal_shape([logits, rollout.policy], custom_message="logits and the policy")
    chex.assert_equal_shape([value, target], custom_message="value and target, [batch]")
    log_probs = jax.nn.log_softmax(legal(logits, rollout.mask))
    weight = getattr(rollout.forced, "policy", ())
    policy_loss, entropy, searched = (
        -forced.weighted(each.sum(axis=-1), weight).mean()
        for each in (
            rollout.policy * log_probs,
            jnp.exp(log_probs) * log_probs,
            jax.scipy.special.xlogy(rollout.policy, rollout.policy),
        )
    )
    value_loss = 0.5 * jnp.square(value - target).mean()
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
    """Return the trained policy's action for each observation; see `planning.Search.plan`.

    `mask` is unused, because the search computes the legal actions from `state`.
    """
    noise = 0.0 if greedy else 1.0
    return plan(learner, weights, key, obs, state, gumbel_scale=noise, params=params).action


def check_sight(env: Env, settings: Settings) -> None:
    """Raise `ValueError` if the search would use state that the agent does not observe.

    If the setting `clairvoyant` is on, the search may use this state, and no error is raised.
    """
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
    """Raise `ValueError` if the search would use state that the agent does not observe.

    If the setting `clairvoyant` is on, the search may use this state, and no error is raised.
    """
    check_sight(learner.env.env, learner.settings)
