"""Acting in a batch of environments: one rollout, with what came of each action.

Learners from rollouts share `Runner`; another may have further fields. What a network remembers is
any tree of arrays, `()` for nothing.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from jaxenvs import Step
from jaxenvs.core.masking import Mask, legal_actions

from . import bonuses, minibatches, moments, returns, reward_scaling, value_scales
from .learner import SEEDS, Learner
from .recurrence import reset_memory


class Runner(NamedTuple):
    """Everything a run consists of between two updates: saved as it is, resumed bit for bit.

    Fields that a run does not use are (). Params are lent to it for a chunk and never saved.
    """

    weights: PyTree[Array]
    optimiser: PyTree[Array] = ()  # Adam's moments and counts
    world: PyTree[Array] = ()  # VectorState
    obs: PyTree[Array] = ()  # what the next actions are chosen from
    key: PyTree[Array] = ()  # uint32 (*seeds, words), data of the PRNG key
    returns: PyTree[Array] = ()  # float32 (*seeds, envs), rewards so far of the episodes under way
    lengths: PyTree[Array] = ()  # int32 (*seeds, envs), their steps so far
    memory: PyTree[Array] = ()  # what a recurrent network remembers from before obs
    bonus: PyTree[Array] = ()  # what an exploration bonus has learned
    bonus_returns: PyTree[Array] = ()  # discounted sums of each environment's bonuses so far
    bonus_memory: PyTree[Array] = ()  # what a bonus remembers of each environment's episode
    gain_returns: PyTree[Array] = ()  # discounted returns so far, if rewards are scaled by them
    swept: PyTree[Array] = ()  # settings by name that take the place of the learner's
    model: PyTree[Array] = ()  # a learned world, with what trains it
    replay_buffer: PyTree[Array] = ()  # what the model learns from
    history: PyTree[Array] = ()  # what the model is told of each environment's episode so far
    params: PyTree[Array] = None  # of the environments; None: the defaults


# Fields whose arrays have an axis of environments.
DIVIDED = ("world", "obs", "returns", "lengths", "memory")
DIVIDED += ("bonus_returns", "bonus_memory", "gain_returns")


class Rollout(NamedTuple):
    """What happened, by step and environment; fields that a learner does not need are ()."""

    obs: PyTree[Array] = ()
    action: PyTree[Array] = ()  # as the policy draws them, see core/distributions.py
    log_prob: PyTree[Array] = ()  # of the action when it was chosen
    value: PyTree[Array] = ()  # float32, of obs
    reward: PyTree[Array] = ()  # float32
    terminated: PyTree[Array] = ()  # bool
    truncated: PyTree[Array] = ()  # bool
    truncation_value: PyTree[Array] = ()  # float32, of the true successor where truncated, else 0
    returns: PyTree[Array] = ()  # float32, of the episode so far, this step included
    lengths: PyTree[Array] = ()  # int32, the same of its steps
    memory: PyTree[Array] = ()  # from before the first step, if the network is recurrent
    mask: Mask = None  # when the action was chosen
    weight: PyTree[Array] = ()  # of the advantages, if V-trace weighs them
    policy: PyTree[Array] = ()  # probabilities that a search found for the actions
    task: PyTree[
        Array
    ] = ()  # the true task, which only the trainer knows, and what the policy was told of it


# The memories after what is seen, the actions, and the fields of `Rollout` that are known.
Chosen = tuple[PyTree, Array, dict[str, Any]]
Choose = Callable[..., Chosen]  # of learner, runner, key and the mask of legal actions
# Of learner, runner, mask, action, step and the states that ended ones ended in: the runner.
Record = Callable[..., Any]


def begin(learner: Learner, key: Array, params: Any = None) -> dict[str, Any]:
    """Fields of a new runner: weights, worlds, the key for all that follows, perhaps a bonus.

    `params` are those of the environments.
    """
    key_weights, key_world, key_rest, key_bonus = jax.random.split(key, 4)
    obs, world = learner.env.reset(learner.devices.local_key(key_world), params)
    weights = learner.network.init(key_weights, jax.tree.map(lambda leaf: leaf[0], obs))
    envs, memory = learner.env.num_envs, learner.network.begin()
    return {
        "weights": weights,
        "optimiser": minibatches.optimiser(learner.settings).init(
            minibatches.split_weights(weights)[0]
        ),
        "world": world,
        "obs": obs,
        "key": jax.random.key_data(key_rest),
        "returns": jnp.zeros(envs, jnp.float32),
        "lengths": jnp.zeros(envs, jnp.int32),
        "memory": jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), memory),
        **reward_scaling.begin(learner.settings, envs),
        **bonuses.begin(learner, obs, key_bonus),
    }


def next_update(learner: Learner, runner: Any) -> tuple[Any, Array, Array]:
    """The runner with its levels refreshed; keys to act with and to learn with."""
    key_rest, *keys = jax.random.split(jax.random.wrap_key_data(runner.key), 4)
    key_act, key_learn, key_world = map(learner.devices.local_key, keys)
    world = learner.env.refresh(key_world, runner.world)
    return runner._replace(key=jax.random.key_data(key_rest), world=world), key_act, key_learn


def collect(
    learner: Learner, runner: Any, key: Array, choose: Choose, remember: Record | None = None
) -> tuple[Any, Rollout]:
    """Act for `rollout_steps` steps in every environment; `remember` may note each in the runner.

    Rewards are scaled and include the bonus, where the settings ask for it.
    """
    steps, apart = learner.settings.rollout_steps, shortest_limit(learner)
    slots = np.arange(steps, dtype=np.int32) // apart
    cuts = jax.tree.map(
        lambda leaf: jnp.broadcast_to(leaf, (slots[-1] + 1, *leaf.shape)),
        (runner.world.env, runner.memory),
    )
    one = functools.partial(act, learner, choose, remember)
    keys = jax.random.split(key, steps)
    (runner, cuts), rollout = jax.lax.scan(
        one, (runner, cuts), (keys, jnp.asarray(slots)), unroll=learner.settings.unroll
    )
    value = truncation_value(learner, runner, rollout.truncated, cuts, apart)
    runner, rollout = reward_scaling.scale_rewards(
        learner, runner, rollout._replace(truncation_value=value)
    )
    return bonuses.add_bonus(learner, runner, rollout)


def finish_update(
    learner: Learner, runner: Any, rollout: Rollout, losses: dict[str, Array]
) -> tuple[Any, dict[str, Array]]:
    """The runner after an update, with updated observation statistics, and all its metrics."""
    if isinstance(learner.network, moments.Normalised):
        weights = learner.network.and_of(runner.weights, rollout.obs, learner.devices)
        runner = runner._replace(weights=weights)
    return runner, {**episode_sums(rollout), **losses}


def act(
    learner: Learner,
    choose: Choose,
    remember: Record | None,
    carry: tuple[Any, PyTree],
    now: tuple[Array, Array],
) -> tuple[tuple[Any, PyTree], Rollout]:
    """One step of a rollout in every environment; `now` is its key and its slot for cuts."""
    (runner, cuts), (key, slot) = carry, now
    key_action, key_step = jax.random.split(key)
    mask = legal_now(learner, runner.world.env)
    memory, action, chosen = choose(learner, runner, key_action, mask)
    runner = runner._replace(memory=memory)
    step, successor = advance(learner, runner, key_step, action)
    cuts = store_successors(cuts, slot, step.truncated, (successor, memory))
    if remember is not None:
        runner = remember(learner, runner, mask, action, step, successor)
    after, ends = after_step(learner, runner, step)
    return (after, cuts), Rollout(obs=runner.obs, reward=step.reward, **chosen, **ends)


def advance(learner: Learner, runner: Any, key: Array, action: Array) -> tuple[Step, PyTree[Array]]:
    """Step every environment with `same_step`; also return the states that ended ones ended in.

    Numbers are those of `learner.env.step`, bit for bit. Here only the observation that the next
    action is chosen from is computed: there the true successor's is one more, for all environments.
    """
    alone = dataclasses.replace(learner.env, autoreset="none")
    ended = alone.step(key, runner.world, action, runner.params)
    begun = learner.env.reset_rows(key, ended.state, ended.done, runner.params)
    return ended._replace(obs=begun.obs, state=begun.state), ended.state.env


def shortest_limit(learner: Learner) -> int:
    """Fewest steps between two cuts of one environment; at most `rollout_steps`."""
    env, steps = learner.env.env, learner.settings.rollout_steps
    return max(1, min(env.shortest_limit(env.default_params), steps))


def store_successors(
    cuts: PyTree, slot: Array, truncated: Array, successor: PyTree
) -> PyTree[Array]:
    """Write the successors of cut episodes into a slot: states and memories (slots, envs, ...)."""
    rows = jnp.where(truncated, np.arange(len(truncated), dtype=np.int32), len(truncated))
    return jax.tree.map(
        lambda kept, leaf: kept.at[slot, rows].set(leaf, mode="drop"), cuts, successor
    )


def legal_now(learner: Learner, state: PyTree[Array]) -> Mask:
    """Legal actions in a batch of states; None if the environment allows all in any state."""
    return jax.vmap(functools.partial(legal_actions, learner.env.env))(state)


def observe(learner: Learner, runner: Any, state: PyTree[Array]) -> PyTree[Array]:
    """What is seen of a batch of states, under the runner's params."""
    axes = None if runner.params is None else learner.env.param_axes(runner.params)
    return jax.vmap(learner.env.env.observe, in_axes=(0, axes))(state, runner.params)


def think(learner: Learner, runner: Any, mask: Mask) -> tuple[PyTree, Array, Array]:
    """Memories after what the runner observes, logits of the legal actions, values.

    Values are in units of the rewards that are learned from.
    """
    over_batch = jax.vmap(learner.network.think, in_axes=(None, 0, 0, 0))
    memory, logits, value = over_batch(runner.weights, runner.memory, runner.obs, mask)
    return memory, logits, value_scales.in_learned_rewards(runner.weights, value)


def predict(learner: Learner, weights: PyTree[Array], obs: PyTree[Array]) -> Any:
    """What a network that remembers nothing says of a batch of observations."""
    return jax.vmap(learner.network.apply, in_axes=(None, 0))(weights, obs)


def truncation_value(
    learner: Learner, runner: Any, truncated: Array, cuts: PyTree[Array], apart: int
) -> Float32[Array, "steps envs"]:
    """Values of the true successors where the time limit cut an episode, 0 elsewhere.

    `cuts` are states and memories (slots, envs, ...). A slot serves `apart` steps, in which an
    environment is cut at most once; a slot without cuts costs nothing. The maximum over the seeds
    keeps the condition one number, so that it stays a branch.
    """
    steps, slots = len(truncated), len(jax.tree.leaves(cuts)[0])
    where = jnp.pad(truncated, ((0, slots * apart - steps), (0, 0)))
    in_slot = where.reshape(slots, -1).any(axis=1).astype(jnp.int32)
    in_slot = jax.lax.pmax(in_slot, SEEDS) > 0

    def bootstrap(state: PyTree[Array], memory: PyTree[Array]) -> Array:
        obs = observe(learner, runner, state)
        seen = runner._replace(obs=obs, memory=memory)
        return think(learner, seen, legal_now(learner, state))[2]

    def value(slot: tuple[Array, PyTree[Array]]) -> Array:
        any_cut, cut = slot
        nothing = jnp.zeros(truncated.shape[1:], jnp.float32)
        return jax.lax.cond(any_cut, bootstrap, lambda *_: nothing, *cut)

    values = jnp.repeat(jax.lax.map(value, (in_slot, cuts)), apart, axis=0)[:steps]
    return jnp.where(truncated, values, 0.0)


def after_step(learner: Learner, runner: Any, step: Step) -> tuple[Any, dict[str, Array]]:
    """The runner after a step, without what has ended; and what a rollout says of the ends."""

    total, length = runner.returns + step.reward, runner.lengths + 1
    after = runner._replace(
        world=step.state,
        obs=step.obs,
        returns=jnp.where(step.done, 0.0, total),
        lengths=jnp.where(step.done, 0, length),
        memory=reset_memory(runner.memory, learner.network.begin(), step.done),
    )
    ends = {"terminated": step.terminated, "truncated": step.truncated}
    return after, {**ends, "returns": total, "lengths": length}


def lambda_returns(learner: Learner, runner: Any, rollout: Rollout) -> Float32[Array, "steps envs"]:
    """What the values of a rollout should have been (Peng and Williams, 1994).

    The weights and the observations of the runner are those of the rollout's end.
    """
    gamma, gae_lambda = learner.settings.gamma, learner.settings.gae_lambda
    *_, last_value = think(learner, runner, legal_now(learner, runner.world.env))
    return returns.advantages(rollout, last_value, gamma, gae_lambda) + rollout.value


def longest_running(rollout: Any) -> Array:
    """Steps of the longest episode that is under way after a rollout."""
    done = rollout.terminated[-1] | rollout.truncated[-1]
    return jnp.where(done, 0, rollout.lengths[-1]).max()


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
        # Of 2**18 environments that are cut together after 10,000 steps, int32 does not hold it.
        "length_sum": jnp.where(done, rollout.lengths, 0).sum(dtype=jnp.float32),
    }
