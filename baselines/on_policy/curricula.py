"""Shared code of the learners with a curriculum over levels (plr.py, sfl.py).

In each update, the curriculum chooses a level for every environment, and the rollout begins with a
new episode in this level. After the end of an episode, the environment begins the next one in the
same level, as in jaxued.
The policy learns by PPO (ppo.py) if the setting `memory` is 0, else by recurrent PPO (ppo_rnn.py).
"""

import dataclasses
import functools
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env
from jaxenvs.core.masking import Mask
from jaxenvs.core.parts.learner import defines_success

from ..core import level_buffer, level_scores, metrics, minibatches, rollouts
from ..core.bounds import Bounds, Count
from ..core.given_levels import GivenLevel, new_levels
from ..core.learner import Learner
from ..core.level_buffer import LevelBuffer, Played
from ..core.rollouts import Rollout, Runner
from ..networks.policies import ActorCritic
from . import ppo, ppo_rnn

# constant folded into a run's random key, to get the key with which an update's levels are chosen
PLAN = 0x91A7


@dataclasses.dataclass(frozen=True)
class OverLevels(ppo_rnn.Settings):
    """Settings shared by the learners with a curriculum over levels."""

    # size of the GRU's state; 0: the policy has no recurrent state, as with --algo ppo
    memory: Annotated[int, Bounds()] = 128
    # steps that each environment makes in an update, all in the same level
    rollout_steps: Count = 256
    # source of levels at resets; every value gives the level that the curriculum chose
    reset_source: str | None = "fresh"

    no_restarts = "the curriculum chooses the level of every episode"

    def check(self) -> None:
        super().check()
        fixed = {"bonus": 0.0, "reward_scaling": False}
        for name, value in fixed.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name}={getattr(self, name)}: curricula score levels by the environment's "
                    f"rewards; omit it"
                )
        if self.reset_source not in ("fresh", "exact", "auto"):
            raise ValueError(
                f"reset_source={self.reset_source}: the curriculum gives the levels; omit it"
            )
        if self.cell != "gru" and not self.memory:
            raise ValueError(f"cell={self.cell} needs a recurrent network; omit it, or give memory")
        if self.recompute and not self.memory:
            raise ValueError("recompute=True needs a recurrent network; omit it, or give memory")
        if self.neighbours and not self.memory:
            raise ValueError(f"neighbours={self.neighbours} needs a recurrent network; omit it")

    @property
    def valued_step(self) -> int:
        """Step of a rollout at which forced states have a value loss.

        It is not the first step: every rollout begins with new episodes, in which few first states
        are forced.
        """
        return self.rollout_steps // 2

    def items(self, num_envs: int) -> int:
        """Return the number of items to shuffle: sequences or, if `memory` is 0, single steps."""
        return num_envs if self.memory else num_envs * self.rollout_steps


class Wins(NamedTuple):
    """Successful episodes in a rollout; an episode succeeds if at least one of its steps does."""

    so_far: Bool[Array, "*seeds envs"]  # whether the current episode has succeeded
    episodes: Int32[Array, "*seeds envs"]  # number of finished episodes that succeeded


class Play(NamedTuple):
    """Result of an update's rollout, in which each environment plays a chosen level."""

    rollout: Rollout
    memory: PyTree[Array]  # recurrent states before the rollout's first step
    episodes: level_scores.Episodes


def network(env: Env, **given: Any) -> Any:
    """Return the network of recurrent PPO or, if `memory` is 0, the network of PPO."""
    if given.get("memory"):
        return ppo_rnn.network(env, **given)
    left_out = ("memory", "neighbours", "cell", "layers")
    return ActorCritic.of(env, **{k: v for k, v in given.items() if k not in left_out})


def training_env(env: Env, settings: OverLevels) -> GivenLevel:
    """Return the environment in which a curriculum trains; its params contain the level to play."""
    return GivenLevel(env=wrapped(env, vars(settings)))


def wrapped(env: Env, settings: Mapping[str, Any]) -> Env:
    """Return the environment in which the trained policy acts."""
    return ppo_rnn.wrapped(env, settings)


def check_env(learner: Learner[Any], steps: int, name: str) -> None:
    """Raise `ValueError` if a curriculum cannot train in the environment or with the network.

    The environment must have more than one level, and its time limit must be at most `steps`, the
    value of the setting `name`. A user's network that is recurrent needs the setting `memory` above
    0.
    """
    env = learner.env.env
    if not jax.tree.leaves(env.level_shape):
        raise ValueError(
            f"all episodes of {env.unwrapped.name} begin in the same level, so there is nothing to "
            f"choose; give --algo ppo or ppo-rnn"
        )
    if env.carries_over:
        raise ValueError(
            f"a wrapper of {env.name} keeps statistics beyond the end of an episode, and a "
            f"curriculum begins all episodes anew in each update; leave out the wrapper"
        )
    if jax.tree.leaves(learner.network.begin()) and not learner.settings.memory:
        raise ValueError(f"network={learner.settings.network} is recurrent: omit --memory 0")
    limit = env.shortest_limit(env.default_params)
    if steps < limit:
        raise ValueError(
            f"{name}={steps}: {env.unwrapped.name} has a time limit of {limit} steps, and every "
            f"play of a level begins anew; give --{name.replace('_', '-')} {limit} or more"
        )


def check_success(learner: Learner[Any], what: str) -> None:
    """Raise `ValueError` if the environment does not define success.

    `what` names the learner or setting that needs success, for the message.
    """
    env = learner.env.env
    if not defines_success(env):
        raise ValueError(
            f"{what} needs episodes that succeed or fail, and {env.unwrapped.name} has a score "
            f"only; give another score, such as --algo plr --score pvl"
        )


def next_update(learner: Learner[Any], runner: Runner) -> tuple[Runner, Array, Array, Array]:
    """Begin an update; return the runner and keys for choosing levels, acting and learning.

    The key for choosing levels is equal on all devices; keys for acting may differ between devices.
    """
    runner, key_act, key_learn = rollouts.next_update(learner, runner)
    key_plan = jax.random.fold_in(jax.random.wrap_key_data(runner.key), PLAN)
    return runner, key_plan, key_act, key_learn


def begin_levels(
    learner: Learner[Any], runner: Runner, key: Array, levels: PyTree[Array]
) -> Runner:
    """Begin a new episode in each environment; environment i plays level i of `levels`."""
    params, envs = learner.env.env.params_for(levels), learner.env.num_envs
    obs, world = learner.env.reset(key, params)
    memory = learner.network.begin()
    return runner._replace(
        params=params,
        obs=obs,
        world=world,
        returns=jnp.zeros(envs, jnp.float32),
        lengths=jnp.zeros(envs, jnp.int32),
        memory=jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (envs, *leaf.shape)), memory),
        wins=Wins(jnp.zeros(envs, jnp.bool_), jnp.zeros(envs, jnp.int32)),
    )


def play(
    learner: Learner[Any], runner: Runner, key: Array, levels: PyTree[Array]
) -> tuple[Runner, Play]:
    """Begin a new episode in each environment, in its level of `levels`, and collect a rollout."""
    key_begin, key_act = jax.random.split(key)
    runner = begin_levels(learner, runner, key_begin, levels)
    memory = runner.memory
    runner, rollout = rollouts.collect(learner, runner, key_act, ppo.choose, count_wins)
    return runner, Play(rollout, memory, level_scores.episodes(rollout, runner.wins.episodes))


def count_wins(
    learner: Learner[Any], runner: Runner, mask: Mask, action: Array, step: Any, successor: Any
) -> Runner:
    """Return the runner with `wins` updated by a step.

    An episode with several successes counts once.
    """
    env = learner.env.env
    if not defines_success(env):
        return runner
    won = runner.wins.so_far | jax.vmap(env.succeeded)(step._replace(state=successor))
    count = runner.wins.episodes + (won & step.done).astype(jnp.int32)
    return runner._replace(wins=Wins(won & ~step.done, count))


def tried(
    learner: Learner[Any], runner: Runner, key: Array, levels: PyTree[Array], steps: int
) -> level_scores.Episodes:
    """Play each level for `steps` steps; return the results of each level's finished episodes.

    If no episode on a level ends, its mean and best return are the return so far of the unfinished
    episode. `steps` may be large, because no rollout is stored.
    """
    key_begin, key_act = jax.random.split(key)
    runner = begin_levels(learner, runner, key_begin, levels)
    nothing = jnp.zeros_like(runner.returns)

    def step(number: Array, carry: Any) -> Any:
        runner, ended, total, best = carry
        key_action, key_step = jax.random.split(jax.random.fold_in(key_act, number))
        mask = rollouts.legal_now(learner, runner.world.env)
        memory, action, _ = ppo.choose(learner, runner, key_action, mask)
        runner = runner._replace(memory=memory)
        step, successor = rollouts.advance(learner, runner, key_step, action)
        runner = count_wins(learner, runner, mask, action, step, successor)
        runner, ends = rollouts.after_step(learner, runner, step)
        found = jnp.where(step.done, ends["returns"], 0.0)
        best = jnp.where(step.done, jnp.maximum(best, ends["returns"]), best)
        return runner, ended + step.done.astype(jnp.int32), total + found, best

    carry = (runner, nothing.astype(jnp.int32), nothing, nothing - jnp.inf)
    runner, ended, total, best = jax.lax.fori_loop(0, steps, step, carry)
    count = jnp.maximum(ended, 1).astype(jnp.float32)
    return level_scores.Episodes(
        ended=ended,
        returned=jnp.where(ended > 0, total / count, runner.returns),
        best=jnp.where(ended > 0, best, runner.returns),
        success=runner.wins.episodes.astype(jnp.float32) / count,
    )


def begin(learner: Learner[Any], key: Array, slots: int) -> tuple[Runner, LevelBuffer]:
    """Return the initial training state, with newly drawn levels, and an empty level buffer."""
    env, envs = learner.env.env, learner.env.num_envs
    levels = new_levels(env, learner.devices.local_key(jax.random.fold_in(key, PLAN)), envs)
    runner = Runner(**rollouts.begin(learner, key, env.params_for(levels)))
    nothing = jnp.zeros(envs, jnp.float32)
    blank = Played(nothing, nothing, nothing, nothing, *optima(learner, levels))
    return runner, level_buffer.empty(levels, blank, slots)


def optima(learner: Learner[Any], levels: PyTree[Array]) -> tuple[PyTree[Array], PyTree[Array]]:
    """Return, for each level, the length of the shortest solution and the largest possible return.

    Return ((), ()) if the environment cannot compute them inside the compiled program.
    """
    env = learner.env.env
    if not has_optima(env):
        return (), ()
    steps = jax.vmap(env.optimal_steps)(levels)
    return steps, jax.vmap(env.optimal_return, (0, None))(levels, env.default_params)


def has_optima(env: Env) -> bool:
    """Return whether an environment computes optimal returns inside the compiled program."""
    shape = jax.eval_shape(env.optimal_return, env.level_shape, env.default_params)
    return shape is not None


def learn_where(
    learner: Learner[Any], runner: Runner, play: Play, key: Array, trains: Bool[Array, ""] | bool
) -> tuple[Runner, dict[str, Array]]:
    """If `trains`, learn from a rollout; return the runner and the losses.

    Otherwise, return the runner unchanged and losses marked as unknown, see core/metrics.py.
    """

    def learned() -> tuple[PyTree, PyTree, dict[str, Array]]:
        after, losses = learn(learner, runner, play, key)
        after, _ = rollouts.finish_update(learner, after, play.rollout, {})
        return after.weights, after.optimiser, losses

    def skipped() -> tuple[PyTree, PyTree, dict[str, Array]]:
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return runner.weights, runner.optimiser, blank

    if trains is True:
        weights, optimiser, losses = learned()
    else:
        shapes = jax.eval_shape(learned)[2]
        weights, optimiser, losses = jax.lax.cond(trains, learned, skipped)
    known = jnp.asarray(trains, jnp.float32)
    losses |= {f"{name}{metrics.KNOWN}": known for name in losses}
    return runner._replace(weights=weights, optimiser=optimiser), losses


def learn(
    learner: Learner[Any], runner: Runner, play: Play, key: Array
) -> tuple[Runner, dict[str, Array]]:
    """Learn from a rollout by recurrent PPO, or by PPO if the policy has no recurrent state."""
    if learner.settings.memory:
        return ppo_rnn.learn(learner, runner, play.memory, play.rollout, key)
    runner, batch = ppo.scaled_targets(learner, runner, play.rollout)
    return ppo.learn(learner, runner, minibatches.as_steps(batch), key, ppo.loss)


def finished(
    runner: Runner, play: Play, found: dict[str, Array]
) -> tuple[Runner, dict[str, Array]]:
    """Return the runner without `params` and `wins`, and all metrics of the update.

    These two fields are set only inside an update. `found` has the metrics known so far.
    """
    runner = runner._replace(params=None, wins=())
    return runner, {**rollouts.metrics(play.rollout), **found}


def gathered(learner: Learner[Any], tree: PyTree[Array]) -> PyTree[Array]:
    """Concatenate each array of `tree` over all devices along its first axis, in device order."""
    return jax.tree.map(learner.devices.all_gather, tree)


def own_rows(learner: Learner[Any], rows: Array) -> Array:
    """Return this device's part of `rows`, which has one entry per environment of all devices."""
    envs = learner.env.num_envs
    return jax.lax.dynamic_slice_in_dim(rows, learner.devices.index * envs, envs)


def buffer_metrics(learner: Learner[Any], buffer: LevelBuffer) -> dict[str, Array]:
    """Return metrics of the levels in a buffer.

    `score_success` is Pearson's correlation of the levels' scores with their success rates, and
    `score_regret` with their regrets. The regret of a level is the largest return of any plan (with
    full information) minus the policy's mean return. A level counts as unsolvable if no plan
    succeeds within the time limit.
    """
    filled, played = buffer.filled, buffer.played
    found = {"buffer_filled": filled.mean(dtype=jnp.float32)}
    correlated = functools.partial(_correlation, filled, played.score)
    if defines_success(learner.env.env):
        found |= _known("score_success", *correlated(played.success))
    if isinstance(played.optimal_return, tuple):
        return found
    solvable = filled & (played.optimal_return > 0.0)
    count = jnp.maximum(filled.sum(), 1).astype(jnp.float32)
    steps = jnp.where(solvable, played.optimal_steps, 0).sum(dtype=jnp.float32)
    number = solvable.sum().astype(jnp.float32)
    found["buffer_unsolvable"] = (filled & ~solvable).sum().astype(jnp.float32) / count
    found |= _known("buffer_optimal_steps", steps / jnp.maximum(number, 1.0), number > 0.0)
    regret = played.optimal_return - played.returned
    return found | _known("score_regret", *correlated(regret))


def _known(name: str, value: Array, known: Array) -> dict[str, Array]:
    return {name: value, f"{name}{metrics.KNOWN}": known.astype(jnp.float32)}


def _correlation(
    mask: Bool[Array, " n"], a: Float32[Array, " n"], b: Float32[Array, " n"]
) -> tuple[Float32[Array, ""], Bool[Array, ""]]:
    """Return Pearson's correlation of `a` and `b` where `mask` is True, and whether it is defined.

    The correlation is undefined if `a` or `b` is constant.
    """
    weight = mask.astype(jnp.float32) / jnp.maximum(mask.sum(), 1).astype(jnp.float32)
    a, b = (jnp.where(mask, each - (weight * each).sum(), 0.0) for each in (a, b))
    scale = jnp.sqrt((weight * a * a).sum() * (weight * b * b).sum())
    value = (weight * a * b).sum() / jnp.maximum(scale, 1e-12)
    return jnp.clip(value, -1.0, 1.0), scale > 1e-9
