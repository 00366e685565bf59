"""Acting in a batch of environments: one rollout, with what came of each action.

A runner is a learner's NamedTuple with `weights`, `key` and the fields of `ENVIRONMENTS`. The
memory of its network is any tree of arrays, `()` where the network remembers nothing.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Step
from jaxenvs.core.masking import Mask, legal_actions

from . import returns
from .algorithms import SEEDS, Learner

# Fields of a runner whose arrays have an axis of environments.
ENVIRONMENTS = ("world", "obs", "returns", "lengths", "memory")


class Ends(NamedTuple):
    """Which episodes ended, by step and environment."""

    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    returns: Float32[Array, "*batch"]  # of the episode so far, this step included
    lengths: Int32[Array, "*batch"]


class Rollout(NamedTuple):
    """What happened, by step and environment; fields that no loss needs are ()."""

    obs: PyTree[Array]
    value: Float32[Array, "*batch"]  # of obs
    reward: Float32[Array, "*batch"]
    terminated: Bool[Array, "*batch"]
    truncated: Bool[Array, "*batch"]
    cut_value: Float32[Array, "*batch"]  # of the true successor where truncated, else 0
    returns: Float32[Array, "*batch"]  # of the episode so far, this step included
    lengths: Int32[Array, "*batch"]
    action: PyTree[Array] = ()  # int32
    log_prob: PyTree[Array] = ()  # of the action when it was chosen
    memory: PyTree[Array] = ()  # from before the first step, if the network is recurrent
    mask: Mask = None  # when the action was chosen
    weight: PyTree[Array] = ()  # of the advantages, if V-trace weighs them
    policy: PyTree[Array] = ()  # probabilities that a search found for the actions


def begin(
    learner: Learner, optimiser: optax.GradientTransformation, key: Array
) -> tuple[dict[str, Any], Array]:
    """Fields of a new runner: weights, worlds, the key for all that follows; and one more key."""
    key_weights, key_world, key_rest, key_more = jax.random.split(key, 4)
    obs, world = learner.env.reset(learner.devices.local_key(key_world))
    weights = learner.network.init(key_weights, jax.tree.map(lambda leaf: leaf[0], obs))
    envs = learner.env.num_envs
    runner = {
        "weights": weights,
        "optimiser": optimiser.init(weights),
        "world": world,
        "obs": obs,
        "key": jax.random.key_data(key_rest),
        "returns": jnp.zeros(envs, jnp.float32),
        "lengths": jnp.zeros(envs, jnp.int32),
        "memory": jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), learner.network.begin()
        ),
    }
    return runner, key_more


def next_update(learner: Learner, runner: Any) -> tuple[Any, Array, Array]:
    """The runner with its levels refreshed; keys to act with and to learn with."""
    key_rest, *keys = jax.random.split(jax.random.wrap_key_data(runner.key), 4)
    key_act, key_learn, key_world = map(learner.devices.local_key, keys)
    world = learner.env.refresh(key_world, runner.world)
    return runner._replace(key=jax.random.key_data(key_rest), world=world), key_act, key_learn


def collect(
    learner: Learner, runner: Any, key: Array, choose: Callable[..., tuple[Any, Array, dict]]
) -> tuple[Any, Rollout]:
    """Act for `rollout_steps` steps in every environment.

    `choose(learner, runner, key, mask)` returns the memories after what is seen, the actions, and
    the fields of `Rollout` that it knows; `mask` are the legal actions.
    """

    def act(runner: Any, key: Array) -> tuple[Any, Rollout]:
        key_action, key_step = jax.random.split(key)
        mask = legal_now(learner, runner.world.env)
        memory, action, chosen = choose(learner, runner, key_action, mask)
        runner = runner._replace(memory=memory)
        step = learner.env.step(key_step, runner.world, action)
        record = Rollout(
            obs=runner.obs,
            reward=step.reward,
            cut_value=cut_value(learner, runner, step),
            **ends(runner, step)._asdict(),
            **chosen,
        )
        return stepped(learner, runner, step), record

    return jax.lax.scan(act, runner, jax.random.split(key, learner.settings.rollout_steps))


def legal_now(learner: Learner, state: PyTree[Array]) -> Mask:
    """Legal actions in a batch of states; None if the environment allows all in any state."""
    return jax.vmap(functools.partial(legal_actions, learner.env.env))(state)


def think(
    learner: Learner, runner: Any, mask: Mask
) -> tuple[PyTree[Array], Array, Float32[Array, " envs"]]:
    """Memories after what the runner observes, logits of the legal actions, values."""
    over_batch = jax.vmap(learner.network.think, in_axes=(None, 0, 0, 0))
    return over_batch(runner.weights, runner.memory, runner.obs, mask)


def value(learner: Learner, runner: Any, mask: Mask) -> Float32[Array, " envs"]:
    """Values of what the runner observes, where these actions are legal."""
    return think(learner, runner, mask)[2]


def predict(learner: Learner, weights: PyTree[Array], obs: PyTree[Array]) -> Any:
    """What a network that remembers nothing says of a batch of observations."""
    return jax.vmap(learner.network.apply, in_axes=(None, 0))(weights, obs)


def cut_value(learner: Learner, runner: Any, step: Step) -> Float32[Array, " envs"]:
    """Value of the true successor where the time limit cut an episode, 0 elsewhere.

    The maximum over the seeds keeps the condition one number, so that it stays a branch.
    """
    cut_anywhere = jax.lax.pmax(step.truncated.any().astype(jnp.int32), SEEDS) > 0

    def bootstrap(obs: PyTree[Array], mask: Mask) -> Array:
        after = value(learner, runner._replace(obs=obs), mask)
        return jnp.where(step.truncated, after, 0.0)

    return jax.lax.cond(
        cut_anywhere,
        bootstrap,
        lambda *_: jnp.zeros(step.truncated.shape, jnp.float32),
        step.info["final_obs"],
        step.info.get("final_mask"),
    )


def ends(runner: Any, step: Step) -> Ends:
    """Which episodes the step has ended, and what they have come to."""
    total, length = runner.returns + step.reward, runner.lengths + 1
    return Ends(step.terminated, step.truncated, total, length)


def stepped(learner: Learner, runner: Any, step: Step) -> Any:
    """The runner when the environments have stepped: what has ended is forgotten."""

    def forget(memory: Array, first: Array) -> Array:
        done = step.done.reshape(-1, *[1] * first.ndim)
        return jnp.where(done, first, memory)

    return runner._replace(
        world=step.state,
        obs=step.obs,
        returns=jnp.where(step.done, 0.0, runner.returns + step.reward),
        lengths=jnp.where(step.done, 0, runner.lengths + 1),
        memory=jax.tree.map(forget, runner.memory, learner.network.begin()),
    )


def lambda_returns(learner: Learner, runner: Any, rollout: Rollout) -> Float32[Array, "steps envs"]:
    """What the values of a rollout should have been (Peng and Williams, 1994).

    The weights and the observations of the runner are those of the rollout's end.
    """
    gamma, gae_lambda = learner.settings.gamma, learner.settings.gae_lambda
    last_value = value(learner, runner, legal_now(learner, runner.world.env))
    return returns.advantages(rollout, last_value, gamma, gae_lambda) + rollout.value


def episode_sums(rollout: Any) -> dict[str, Array]:
    """Sums over the episodes that ended in a rollout; divide by `episodes` for means."""
    chex.assert_equal_shape(
        [rollout.terminated, rollout.truncated, rollout.returns, rollout.lengths],
        custom_message="terminated, truncated, returns and lengths are [steps, envs]",
    )
    done = rollout.terminated | rollout.truncated
    return {
        "episodes": done.sum(),
        "return_sum": jnp.where(done, rollout.returns, 0.0).sum(),
        "length_sum": jnp.where(done, rollout.lengths, 0).sum(),
    }
