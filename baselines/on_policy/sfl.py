"""Sampling for learnability (SFL; Rutherford et al., 2024): a curriculum of learnable levels.

Every `every` updates, the policy searches for learnable levels: it plays `candidates` new levels,
for `candidate_steps` steps each. The search keeps the `kept` levels with the largest p (1 - p),
where p is the share of episodes that succeed. In each update, a share `sampled` of the environments
plays levels drawn uniformly from the kept levels; all other environments play new levels. The
policy learns by PPO, or by recurrent PPO (default). Run it with `jaxenvs train ID --algo sfl`.

`total_steps` does not count the steps of the searches; the metric `candidate_share` is their share
of all steps.
"""

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from ..core import level_buffer
from ..core.bounds import Count, Share
from ..core.given_levels import new_levels
from ..core.learner import SEEDS, Learner
from ..core.level_buffer import LevelBuffer, Played
from ..core.rollouts import Runner
from . import curricula


@dataclasses.dataclass(frozen=True)
class Settings(curricula.OverLevels):
    """Hyperparameters of sampling for learnability.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    every: Count = 100  # updates between two searches for learnable levels
    # new levels that a search for learnable levels plays; rounded up to whole batches
    candidates: Count = 5000
    candidate_steps: Count = 1000  # steps that a search makes in each level
    candidate_envs: Count = 500  # candidates that are played in parallel, on each device
    kept: Count = 500  # number of levels that a search keeps for training
    sampled: Share = 0.5  # share of the environments that play kept levels instead of new ones

    def check(self) -> None:
        super().check()
        if self.kept > self.candidates:
            raise ValueError(
                f"kept={self.kept} levels cannot be chosen from candidates={self.candidates}; give "
                f"at most that"
            )

    def batches(self, devices: int) -> int:
        """Return the number of batches of candidate levels for each of `devices` devices."""
        return -(-self.candidates // (self.candidate_envs * devices))


class Chosen(NamedTuple):
    """State of the curriculum: the levels kept by the latest search, and a counter of updates."""

    buffer: LevelBuffer  # kept levels, the most learnable ones of the latest search
    updates: Int32[Array, "*seeds"]  # number of updates made so far


SFLLearner = Learner[Settings]
network, training_env, wrapped = curricula.network, curricula.training_env, curricula.wrapped


def check(learner: SFLLearner, seeds: int, episodes: int) -> None:
    """Raise `ValueError` if the environment does not fit SFL.

    The environment must define success, and its time limit must be at most `rollout_steps` and at
    most `candidate_steps`. If `sampled` is above 0, this fraction of a device's environments must
    be at least one environment, after rounding.
    """
    settings = learner.settings
    curricula.check_env(learner, settings.rollout_steps, "rollout_steps")
    curricula.check_env(learner, settings.candidate_steps, "candidate_steps")
    curricula.check_success(learner, "sfl")
    if settings.sampled and not of_set(learner):
        raise ValueError(
            f"sampled={settings.sampled} of {learner.env.num_envs} environments on each device is "
            f"less than one, so no level of the set would be played; give more --num-envs or a "
            f"larger --sampled"
        )


def of_set(learner: SFLLearner) -> int:
    """Return the number of environments on each device that play kept levels, not new ones."""
    return round(learner.settings.sampled * learner.env.num_envs)


def init(learner: SFLLearner, key: Array) -> Runner:
    """Return the initial training state, in which no levels are kept yet."""
    runner, buffer = curricula.begin(learner, key, learner.settings.kept)
    return runner._replace(levels=Chosen(buffer, jnp.int32(0)))


def update(learner: SFLLearner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Play kept and new levels, and learn; return the new training state and metrics."""
    runner, key_plan, key_act, key_learn = curricula.next_update(learner, runner)
    chosen = refreshed(learner, runner, key_plan)
    levels = mixed(learner, chosen, key_plan)
    runner, played = curricula.play(learner, runner, key_act, levels)
    runner, losses = curricula.learn_where(learner, runner, played, key_learn, True)
    losses |= curricula.buffer_metrics(learner, chosen.buffer)
    losses["candidate_share"] = jnp.float32(candidate_share(learner))
    runner = runner._replace(levels=chosen._replace(updates=chosen.updates + 1))
    return curricula.finished(runner, played, losses)


def candidate_share(learner: SFLLearner) -> float:
    """Return the share of all environment steps that the searches for learnable levels take."""
    settings, devices = learner.settings, learner.devices.count
    levels = settings.batches(devices) * settings.candidate_envs * devices
    searched = levels * settings.candidate_steps
    return searched / (searched + settings.every * settings.steps_per_update)


def refreshed(learner: SFLLearner, runner: Runner, key: Array) -> Chosen:
    """Return the curriculum; once in `every` updates, a search replaces the kept levels.

    All seeds search in the same updates. The maximum over seeds makes the condition a scalar under
    `vmap`, so that `cond` skips the search in all other updates.
    """
    chosen: Chosen = runner.levels
    is_due = (chosen.updates % learner.settings.every == 0).astype(jnp.int32)
    is_due = jax.lax.pmax(is_due, SEEDS) > 0

    def new() -> LevelBuffer:
        return searched(learner, runner, learner.devices.local_key(jax.random.fold_in(key, 1)))

    buffer = jax.lax.cond(is_due, new, lambda: chosen.buffer)
    return chosen._replace(buffer=buffer)


def searched(learner: SFLLearner, runner: Runner, key: Array) -> LevelBuffer:
    """Play `candidates` new levels with the current policy; return the most learnable ones."""
    settings, env = learner.settings, learner.env.env
    wide = dataclasses.replace(learner.env, num_envs=settings.candidate_envs)
    player = dataclasses.replace(learner, env=wide)

    def one_batch(key: Array) -> tuple[PyTree[Array], Played]:
        key_level, key_play = jax.random.split(key)
        levels = new_levels(env, key_level, settings.candidate_envs)
        found = curricula.tried(player, runner, key_play, levels, settings.candidate_steps)
        score = found.success * (1.0 - found.success)
        optima = curricula.optima(player, levels)
        return levels, Played(score, found.best, found.returned, found.success, *optima)

    keys = jax.random.split(key, settings.batches(learner.devices.count))
    made = jax.lax.map(one_batch, keys)
    levels, played = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), made)
    levels, played = curricula.gathered(learner, (levels, played))
    best = jnp.argsort(-played.score, stable=True)[: settings.kept]
    levels, played = jax.tree.map(lambda leaf: leaf[best], (levels, played))
    hashes = level_buffer.hashes_of(levels)
    filled = jnp.ones(settings.kept, jnp.bool_)
    time = jnp.broadcast_to(runner.levels.updates, (settings.kept,))
    return LevelBuffer(levels, hashes, filled, time, played)


def mixed(learner: SFLLearner, chosen: Chosen, key: Array) -> PyTree[Array]:
    """Return a level for each environment on this device.

    The first `of_set(learner)` environments get randomly drawn kept levels, and all later
    environments get new levels.
    """
    settings, envs = learner.settings, learner.env.num_envs
    key_rows, key_new = jax.random.split(learner.devices.local_key(jax.random.fold_in(key, 2)))
    count = of_set(learner)
    rows = jax.random.randint(key_rows, (count,), 0, settings.kept, jnp.int32)
    fresh = new_levels(learner.env.env, key_new, envs)

    def joined(kept: Array, new: Array) -> Array:
        return jnp.concatenate([kept[rows], new[count:]])

    return jax.tree.map(joined, chosen.buffer.levels, fresh)
