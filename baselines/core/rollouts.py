"""Rollouts: act in a batch of environments and record each step.

`Runner` is the training state of most learners, and `collect` returns a runner and a `Rollout`. The
recurrent state of a network is any pytree of arrays, `()` for a feed-forward network.
"""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, PyTree

from jaxenvs import Step
from jaxenvs.core.masking import Mask, legal_actions
from jaxenvs.core.starts import tree_bytes

from . import (
    bonuses,
    forced,
    minibatches,
    moments,
    restarts,
    returns,
    reward_scaling,
    truncations,
    value_scales,
)
from .learner import Learner
from .recurrence import reset_memory

# Largest number of environments for which the policy network runs at once; more are divided into
# parts. This number fills a GPU. The activations for a million environments of the whole game of
# Craft would need more memory than the environments.
MOST_AT_ONCE = 2**16


class Runner(NamedTuple):
    """Training state between updates.

    Checkpoints store the runner unchanged, so a resumed run is bit-identical to an uninterrupted
    run. Fields that a learner does not use are (). `params` is set only while the compiled program
    runs, and is never saved.
    """

    weights: PyTree[Array]
    optimiser: PyTree[Array] = ()  # optimiser state
    world: PyTree[Array] = ()  # `VectorState` of the environments
    obs: PyTree[Array] = ()  # current observations
    key: PyTree[Array] = ()  # uint32 (*seeds, words), data of the PRNG key
    # float32 (*seeds, envs), undiscounted return of each environment's current episode so far
    returns: PyTree[Array] = ()
    lengths: PyTree[Array] = ()  # int32 (*seeds, envs), episode lengths so far
    memory: PyTree[Array] = ()  # recurrent states, before the network reads `obs`
    bonus: PyTree[Array] = ()  # result of `Bonus.init`: networks and statistics of the bonus
    bonus_returns: PyTree[Array] = ()  # float32 (*seeds, envs), discounted sum of bonuses so far
    # state of the exploration bonus in each environment's episode, see `Bonus.begin`
    bonus_memory: PyTree[Array] = ()
    # float32 (*seeds, envs), discounted returns so far; reward scaling divides rewards by the
    # running standard deviation of these returns
    gain_returns: PyTree[Array] = ()
    # values of the settings that `--sweep` varies, by name; they override the learner's settings
    swept: PyTree[Array] = ()
    model: PyTree[Array] = ()  # learned model of the environment, with its optimiser state
    replay_buffer: PyTree[Array] = ()  # `replay_buffer.ReplayBuffer`
    history: PyTree[Array] = ()  # Dyna: summary of each environment's episode so far
    target: PyTree[Array] = ()  # weights of the target network
    first: PyTree[Array] = ()  # weights before training, for DQN's network resets; (): no resets
    critic: PyTree[Array] = ()  # stacked weights of the critics; `weights` then holds the actor's
    temperature: PyTree[Array] = ()  # float32 (*seeds), logarithm of SAC's entropy coefficient
    updates: PyTree[Array] = ()  # int32 (*seeds), number of updates made so far
    priorities: PyTree[Array] = ()  # priorities of the replay buffer's slots; (): uniform sampling
    memories: PyTree[Array] = ()  # (*seeds, envs, sequences, ...), R2D2's stored recurrent states
    # float32 (*seeds, envs, slots, actions), action probabilities that MuZero's searches returned
    found: PyTree[Array] = ()
    # state of a curriculum over levels, such as `plr.Plan`; equal on all devices
    levels: PyTree[Array] = ()
    # successes in a curriculum's rollout (`curricula.Wins`); set only inside an update
    wins: PyTree[Array] = ()
    # Sums over the episodes that ended in the rollout, float32, see `measure_ends`; set only inside
    # an update. `Learner.update` adds them to the metrics.
    measured: PyTree[Array] = ()
    restarts: PyTree[Array] = ()  # `restarts.Restarts`, the saved states
    visits: PyTree[Array] = ()  # float32 (*seeds, scores), see restarts.py; equal on all devices
    params: PyTree[Array] = None  # environment params; None: the environment's default params

    @property
    def replay(self) -> PyTree[Array]:
        """Return `replay_buffer`, with a warning: the next release removes the name `replay`."""
        message = "Runner.replay is now replay_buffer; the old name goes with the next release"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        return self.replay_buffer


# Fields of `Runner` whose arrays have an environment axis, which is divided among the devices.
DIVIDED = ("world", "obs", "returns", "lengths", "memory")
DIVIDED += ("bonus_returns", "bonus_memory", "gain_returns")
DIVIDED += ("history", "replay_buffer", "priorities", "memories", "found", "restarts")


class Rollout(NamedTuple):
    """Transitions of a rollout, arrays (steps, envs, ...); fields that a learner omits are ()."""

    obs: PyTree[Array] = ()
    # samples of the policy's distribution (core/distributions.py): actions or, for a Box, real
    # numbers that tanh squashes to actions
    action: PyTree[Array] = ()
    log_prob: PyTree[Array] = ()  # log-probability of the action under the acting policy
    value: PyTree[Array] = ()  # float32, value of `obs`
    reward: PyTree[Array] = ()  # float32, reward of the step
    terminated: PyTree[Array] = ()  # bool, whether the step terminated the episode
    truncated: PyTree[Array] = ()  # bool, whether the step truncated the episode
    # float32, value of the episode's final observation if the step truncated the episode, else 0
    truncation_value: PyTree[Array] = ()
    returns: PyTree[Array] = ()  # float32, undiscounted return so far, including this step
    lengths: PyTree[Array] = ()  # int32, episode length so far, including this step
    memory: PyTree[Array] = ()  # recurrent states before the rollout's first step
    # float32, value of the observation after the rollout's last step; set only with `recompute`
    last_value: PyTree[Array] = ()
    mask: Mask = None  # bool (steps, envs, actions), legal actions; None: all are always legal
    weight: PyTree[Array] = ()  # float32, V-trace weights of the advantages
    # `forced.Forced`; inside the rollout's scan, bool: whether the step is forced
    forced: PyTree[Array] = ()
    policy: PyTree[Array] = ()  # float32, action probabilities that a tree search returned
    label: PyTree[Array] = ()  # DAgger: int32, the oracle's action; -1: unknown
    # RL²: class labels of the true task, and the goal that the policy receives (0: none)
    task: PyTree[Array] = ()
    points: PyTree[Array] = ()  # int32, from which `restarts.score_after` computes scores


# Result of a `Choose` function: the next recurrent states, the actions, and a dict with the fields
# of `Rollout` that are known before the environments step.
Chosen = tuple[PyTree, Array, dict[str, Any]]
# Function that chooses actions; its arguments are learner, runner, random key and action mask.
Choose = Callable[..., Chosen]
# Function that stores a step in the runner and returns the runner. Its arguments are learner,
# runner, mask, action, step, and the environment states before any auto-reset.
Record = Callable[..., Any]


def init(learner: Learner, key: Array) -> Runner:
    """Return the initial training state: new weights and newly reset environments.

    If the settings select an exploration bonus, the state includes its untrained networks.
    """
    return Runner(**begin(learner, key))


def begin(learner: Learner, key: Array, params: Any = None) -> dict[str, Any]:
    """Return the initial values of the `Runner` fields that every learner uses.

    `params` are environment params.
    """
    key_weights, key_world, key_rest, key_bonus = jax.random.split(key, 4)
    obs, world = learner.env.reset(learner.devices.local_key(key_world), params)
    weights = learner.network.init(key_weights, jax.tree.map(lambda leaf: leaf[0], obs))
    envs, memory = learner.env.num_envs, learner.network.begin()
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), memory)
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
        "memory": memory,
        **reward_scaling.begin(learner.settings, envs),
        **bonuses.begin(learner, obs, key_bonus),
        **restarts.begin(learner, world, memory),
    }


def next_update(learner: Learner, runner: Any) -> tuple[Any, Array, Array]:
    """Begin an update: split the random key, and refresh the pool of levels if there is one.

    Return the runner, a key for acting and a key for learning.
    """
    key_rest, *keys = jax.random.split(jax.random.wrap_key_data(runner.key), 4)
    key_act, key_learn, key_world = map(learner.devices.local_key, keys)
    world = learner.env.refresh(key_world, runner.world)
    return runner._replace(key=jax.random.key_data(key_rest), world=world), key_act, key_learn


def collect(
    learner: Learner, runner: Any, key: Array, choose: Choose, record: Record | None = None
) -> tuple[Any, Rollout]:
    """Act for `rollout_steps` steps in every environment; return the runner and the rollout.

    `choose` chooses the actions. `record`, unless None, stores each step in the runner, for example
    in a replay buffer. Depending on the settings, an exploration bonus is added to the rewards, and
    rewards are divided by a running standard deviation.
    """
    steps, apart = learner.settings.rollout_steps, truncations.shortest_limit(learner)
    final = runner.world.env, runner.memory
    copies = truncations.slots(learner, tree_bytes(final))
    finals = None
    if copies:
        finals = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (copies, *leaf.shape)), final)
    one = functools.partial(act, learner, choose, record)
    keys, slots = jax.random.split(key, steps), np.arange(steps, dtype=np.int32) // apart
    (runner, finals), (rollout, measured) = jax.lax.scan(
        one, (runner, finals), (keys, jnp.asarray(slots)), unroll=learner.settings.unroll
    )
    runner = with_measures(runner, measured)
    if copies:
        bootstrap = functools.partial(final_value, learner, runner)
        value = truncations.later(bootstrap, rollout.truncated, finals, apart)
        rollout = rollout._replace(truncation_value=value)
    rollout = with_weights(learner, rollout, legal_now(learner, runner.world.env))
    runner, rollout = reward_scaling.scale_rewards(learner, runner, rollout)
    return bonuses.add_bonus(learner, runner, rollout)


def finish_update(
    learner: Learner, runner: Any, rollout: Rollout, losses: dict[str, Array]
) -> tuple[Any, dict[str, Array]]:
    """Return the runner with updated observation statistics, and all metrics of the update.

    The metrics are `losses`, sums over the episodes that ended in the rollout and, if forced steps
    are skipped, the share of decisions. With the setting `restart_share`, the runner's environments
    may continue from saved states.
    """
    if isinstance(learner.network, moments.Normalised):
        weights = learner.network.merged_with(runner.weights, rollout.obs, learner.devices)
        runner = runner._replace(weights=weights)
    runner, rollout, of_restarts = restarts.after_rollout(learner, runner, rollout)
    return runner, {**metrics(rollout), **losses, **of_restarts}


def act(
    learner: Learner,
    choose: Choose,
    record: Record | None,
    carry: tuple[Any, PyTree],
    now: tuple[Array, Array],
) -> tuple[tuple[Any, PyTree], tuple[Rollout, PyTree[Array]]]:
    """Make one step in every environment: the body of the rollout's scan.

    The scan stacks the transitions, and the sums of `measure_ends`.

    The carry is a tuple of the runner and `finals`, the copies of the final states of truncated
    episodes; None: the values of final states are computed in this step, see `truncations`. The
    input `now` is a tuple of the step's random key and the step's slot in `finals`.
    """
    (runner, finals), (key, slot) = carry, now
    key_action, key_step = jax.random.split(key)
    mask = legal_now(learner, runner.world.env)
    memory, action, chosen = choose(learner, runner, key_action, mask)
    runner = runner._replace(memory=memory)
    step, successor = advance(learner, runner, key_step, action)
    final, cut = (successor, memory), {}
    if finals is None:
        bootstrap = functools.partial(final_value, learner, runner)
        cut["truncation_value"] = truncations.at_once(bootstrap, step.truncated, final)
    else:
        finals = truncations.store(finals, slot, step.truncated, final)
    if record is not None:
        runner = record(learner, runner, mask, action, step, successor)
    after, ends = after_step(learner, runner, step)
    ends |= {"points": restarts.points(learner, step)}
    if forced.are_skipped(learner.env.env, learner.settings):
        ends["forced"] = forced.is_forced(mask)
    measured = measure_ends(learner, runner, step, successor)
    transition = Rollout(obs=runner.obs, reward=step.reward, **chosen, **ends, **cut)
    return (after, finals), (transition, measured)


def measure_ends(learner: Learner, runner: Any, step: Step, successor: PyTree) -> PyTree[Array]:
    """Return sums over the episodes that a step ended.

    The result is an array of the sums of `Env.measure`, the numbers of successes and of episodes of
    each kind in `Env.level_kinds`, and the number of episodes. It is () if the environment has
    neither measures nor kinds. `runner` is the training state before the step, and `successor` has
    the states before any reset.
    """
    env, before, after = learner.env.env, runner.world.env, step._replace(state=successor)
    if not (env.measures or env.level_kinds):
        return ()
    found = [jnp.ones((len(step.done), 1), jnp.float32)]
    if kinds := len(env.level_kinds):
        kind = jax.vmap(env.level_kind)(before)
        is_kind = (kind[:, None] == np.arange(kinds, dtype=np.int32)).astype(jnp.float32)
        succeeded = jax.vmap(env.succeeded)(after).astype(jnp.float32)
        found = [is_kind * succeeded[:, None], is_kind, *found]
    if env.measures:
        found = [jax.vmap(env.measure)(before, after), *found]
    done = step.done[:, None]
    return jnp.where(done, jnp.concatenate(found, axis=1), 0.0).sum(axis=0)


def with_measures(runner: Any, measured: PyTree[Array]) -> Any:
    """Return the runner after a rollout whose steps have these results of `measure_ends`."""
    return runner._replace(measured=jax.tree.map(lambda leaf: leaf.sum(axis=0), measured))


def with_weights(learner: Learner, rollout: Rollout, mask: Mask) -> Rollout:
    """Return the rollout with the weights of its steps, if forced steps are skipped.

    `mask` are the masks of the states after the rollout.
    """
    if not forced.are_skipped(learner.env.env, learner.settings):
        return rollout
    after = forced.is_forced(mask)
    done: Any = rollout.terminated | rollout.truncated
    valued = learner.settings.valued_step
    found = forced.marked(rollout.forced, after, done, learner.devices, valued)
    return rollout._replace(forced=found)


def advance(learner: Learner, runner: Any, key: Array, action: Array) -> tuple[Step, PyTree[Array]]:
    """Step every environment with `same_step` autoreset; also return the states before any reset.

    The result is bit-identical to `learner.env.step`. As there, the entries `final_obs` and
    `final_mask` of the info are computed only if the caller uses them. `final_mask` is None if
    learners use no mask.
    """
    no_reset = dataclasses.replace(learner.env, autoreset="none")
    step = no_reset.step(key, runner.world, action, runner.params)
    successor = step.state.env
    final = {"final_obs": step.obs, "final_mask": legal_now(learner, successor)}
    begun = learner.env.reset_rows(key, step.state, step.done, runner.params)
    step = step._replace(obs=begun.obs, state=begun.state, info={**step.info, **final})
    return step, successor


def legal_now(learner: Learner, state: PyTree[Array]) -> Mask:
    """Return masks of the legal actions in a batch of states; None if all are always legal."""
    return jax.vmap(functools.partial(legal_actions, learner.env.env))(state)


def observe(
    learner: Learner, runner: Any, state: PyTree[Array], rows: Int32[Array, " rows"] | None = None
) -> PyTree[Array]:
    """Return the observations of a batch of states, with the runner's environment params.

    `rows` are the indices of the states' environments; None: all environments, in order.
    """
    params = runner.params
    axes = None if params is None else learner.env.param_axes(params)
    if rows is not None and params is not None:
        params = jax.tree.map(lambda leaf, axis: leaf if axis is None else leaf[rows], params, axes)
    return jax.vmap(learner.env.env.observe, in_axes=(0, axes))(state, params)


def think(learner: Learner, runner: Any, mask: Mask) -> tuple[PyTree, Array, Array]:
    """Return the policy network's outputs for the runner's observations.

    The outputs are the next recurrent states, the logits (illegal actions masked out) and the
    values. The values are discounted returns of the rewards in training, which may be scaled.
    """
    of_one = functools.partial(learner.network.think, runner.weights)
    given = runner.memory, runner.obs, mask
    if len(jax.tree.leaves(runner.obs)[0]) <= MOST_AT_ONCE:
        memory, logits, value = jax.vmap(of_one)(*given)
    else:
        memory, logits, value = jax.lax.map(
            lambda one: of_one(*one), given, batch_size=MOST_AT_ONCE
        )
    return memory, logits, value_scales.in_learned_rewards(runner.weights, value)


def predict(learner: Learner, weights: PyTree[Array], obs: PyTree[Array]) -> Any:
    """Return a feed-forward network's outputs for a batch of observations."""
    return jax.vmap(learner.network.apply, in_axes=(None, 0))(weights, obs)


def final_value(
    learner: Learner,
    runner: Any,
    state: PyTree[Array],
    memory: PyTree[Array],
    rows: Int32[Array, " rows"] | None = None,
) -> Float32[Array, " envs"]:
    """Return the values of a batch of final states, with the recurrent states before them.

    `rows` are the indices of the states' environments; None: all environments, in order.
    """
    seen = runner._replace(obs=observe(learner, runner, state, rows), memory=memory)
    return think(learner, seen, legal_now(learner, state))[2]


def after_step(learner: Learner, runner: Any, step: Step) -> tuple[Any, dict[str, Array]]:
    """Return the runner after a step, and the fields of `Rollout` that describe episodes.

    The fields are `terminated`, `truncated`, `returns` and `lengths`. Where an episode is done, the
    runner's return, length and recurrent state are reset, but `returns` and `lengths` still include
    the episode.
    """
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
    """Return the lambda-returns of a rollout, as value targets (Peng and Williams, 1994).

    `runner` must be the runner after the rollout: the returns bootstrap from the value of its
    observations and recurrent states.
    """
    gamma, gae_lambda = learner.settings.gamma, learner.settings.gae_lambda
    *_, last_value = think(learner, runner, legal_now(learner, runner.world.env))
    return returns.advantages(rollout, last_value, gamma, gae_lambda) + rollout.value


def longest_running(rollout: Any) -> Array:
    """Return the length so far, in steps, of the longest episode unfinished after a rollout."""
    done = rollout.terminated[-1] | rollout.truncated[-1]
    return jnp.where(done, 0, rollout.lengths[-1]).max()


def metrics(rollout: Any) -> dict[str, Array]:
    """Return metrics of the episodes that ended in a rollout, and `decisions` of the rollout."""
    return {**episode_sums(rollout), **decisions(rollout)}


def decisions(rollout: Any) -> dict[str, Array]:
    """Return the share of a rollout's steps that are decisions; {} if no steps are skipped."""
    return forced.metrics(getattr(rollout.forced, "here", rollout.forced))


def episode_sums(rollout: Any) -> dict[str, Array]:
    """Return metrics of the episodes that ended in a rollout.

    `episodes` is their number; `return_sum` and `length_sum` are sums over them.
    """
    chex.assert_equal_shape(
        [rollout.terminated, rollout.truncated, rollout.returns, rollout.lengths],
        custom_message="terminated, truncated, returns and lengths are [steps, envs]",
    )
    done = rollout.terminated | rollout.truncated
    return {
        "episodes": done.sum(),
        "return_sum": jnp.where(done, rollout.returns, 0.0).sum(),
        # The sum is float32, because 2**18 episodes of 10,000 steps would overflow int32.
        "length_sum": jnp.where(done, rollout.lengths, 0).sum(dtype=jnp.float32),
    }
