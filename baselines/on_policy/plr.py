"""Prioritised level replay (Jiang et al., 2021), robust PLR and ACCEL (Parker-Holder et al., 2022).

A buffer keeps the levels with the highest scores (core/level_scores.py). Each update plays either
new levels or levels from the buffer. After a first phase with new levels only (see `fill`), the
buffer is chosen with probability `replay_prob`; core/level_buffer.py defines the probability of
each of its levels. Robust PLR learns from replayed levels only. With `edits`, the update after each
replay plays the replayed levels with random edits (ACCEL); edited levels with high scores enter the
buffer, too. The policy learns by PPO, or by recurrent PPO (default). Run it with
`jaxenvs train ID --algo plr`.

Deliberate differences from jaxued: levels of a batch enter the buffer together; all replayed levels
are edited; a level's learnability is computed from one rollout. The steps of all updates count
towards `total_steps`, even if an update only scores levels.
"""

import dataclasses
import math
import sys
from typing import Annotated, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int32, PyTree

from ..core import level_buffer, level_scores, processes
from ..core.bounds import Bounds, Count, NonNegativeInt, Share, Swept
from ..core.given_levels import edited, new_levels
from ..core.learner import Learner
from ..core.level_buffer import LevelBuffer, Played
from ..core.level_scores import Score
from ..core.rollouts import Runner
from . import curricula, ppo

NEW, REPLAY, EDIT = range(3)  # values of `Plan.kind`: an update with new, replayed or edited levels


@dataclasses.dataclass(frozen=True)
class Settings(curricula.OverLevels):
    """Hyperparameters of prioritised level replay.

    Presets (presets.py) change some defaults per environment; command-line flags override presets.
    """

    # score of a level, see core/level_scores.py: pvl, maxmc, l1, learnability or regret
    score: Score = "maxmc"
    # probability that an update replays levels of the buffer, once replays have begun (see `fill`)
    replay_prob: Swept[Share] = 0.5
    buffer: Count = 4000  # largest number of levels in the buffer
    # replays begin once this share of the buffer's size has been played as new levels
    fill: Share = 0.5
    # replay probabilities are proportional to (1 / rank of a level's score) ** (1 / temperature)
    temperature: Swept[Annotated[float, Bounds(open=True)]] = 0.3
    # share of the replay probability that depends on the time since a level was last played
    staleness: Swept[Share] = 0.3
    edits: NonNegativeInt = 0  # number of random edits of each replayed level (ACCEL); 0: none
    robust: bool = True  # whether the policy learns from replayed levels only
    # whether the learning rate falls linearly, over gradient steps
    anneal: bool = False

    def check(self) -> None:
        super().check()
        if self.robust and isinstance(self.replay_prob, float) and not self.replay_prob:
            raise ValueError(
                "replay_prob=0.0: a robust curriculum learns from replayed levels only, so it "
                "would never learn; give --replay-prob 0.5, or --no-robust"
            )


class Plan(NamedTuple):
    """State of the curriculum."""

    buffer: LevelBuffer
    updates: Int32[Array, "*seeds"]  # number of updates made so far
    kind: Int32[Array, "*seeds"]  # NEW, REPLAY or EDIT, for the latest update
    rows: Int32[Array, "*seeds envs"]  # buffer slot that each environment replayed last


PLRLearner = Learner[Settings]
network, training_env, wrapped = curricula.network, curricula.training_env, curricula.wrapped


def check(learner: PLRLearner, seeds: int, episodes: int) -> None:
    """Raise `ValueError` if PLR cannot train with these settings in this environment.

    The score `learnability` needs an environment that defines success, the score `regret` one that
    computes optimal returns, and `edits` one whose levels can be edited. A robust run must be long
    enough for a replay, because it learns only from replays.
    """
    settings, env = learner.settings, learner.env.env
    curricula.check_env(learner, settings.rollout_steps, "rollout_steps")
    if settings.score == "learnability":
        curricula.check_success(learner, "score=learnability")
        _warn_of_short_rollouts(learner)
    if settings.score == "regret" and not curricula.has_optima(env):
        raise ValueError(
            f"score=regret needs the best return of each level inside the compiled program, which "
            f"{env.unwrapped.name} does not compute; give another score, such as maxmc"
        )
    if settings.edits:
        check_edits(learner)
    if settings.robust and first_replay(learner) >= settings.updates:
        raise ValueError(
            f"fill={settings.fill}: replays begin after {first_replay(learner)} updates and the "
            f"run has {settings.updates}, so a robust run would learn nothing; give more "
            f"--total-steps, a smaller --buffer or --fill, or --no-robust"
        )


def _warn_of_short_rollouts(learner: PLRLearner) -> None:
    """Print a warning if a failure at the time limit leaves less than a whole episode of a rollout.

    The score `learnability` is above 0 only for levels with both a success and a failure in one
    rollout. If episodes fail only at the time limit, the success has to fit into the other steps.
    """
    steps, env = learner.settings.rollout_steps, learner.env.env
    limit = env.shortest_limit(env.default_params)
    if steps < 2 * limit and processes.first():
        print(
            f"score=learnability: an episode that fails at the time limit of {limit} steps leaves "
            f"{steps - limit} of the rollout's {steps} steps for a success, so many levels may "
            f"score 0; give --rollout-steps {2 * limit} or more",
            file=sys.stderr,
        )


def first_replay(learner: PLRLearner) -> int:
    """Return the number of updates with new levels before the first replay.

    These updates play at least `fill` * `buffer` new levels. A level that is drawn twice counts
    twice: an environment may have fewer than `fill` * `buffer` different levels.
    """
    settings, envs = learner.settings, learner.env.num_envs * learner.devices.count
    return max(1, math.ceil(settings.fill * settings.buffer / envs))


def check_edits(learner: PLRLearner) -> None:
    """Raise `ValueError` if the levels of the environment cannot be edited."""
    env, edits = learner.env.env, learner.settings.edits

    def edit(key: Array) -> PyTree[Array]:
        return edited(env, key, new_levels(env, key, 1), edits)

    try:
        jax.eval_shape(edit, jax.random.key(0))
    except NotImplementedError as error:
        raise ValueError(f"edits={edits}: {error}; give --edits 0") from error


def init(learner: PLRLearner, key: Array) -> Runner:
    """Return the initial training state, with an empty buffer."""
    runner, buffer = curricula.begin(learner, key, learner.settings.buffer)
    rows = jnp.zeros(learner.env.num_envs * learner.devices.count, jnp.int32)
    return runner._replace(levels=Plan(buffer, jnp.int32(0), jnp.int32(NEW), rows))


def update(learner: PLRLearner, runner: Runner) -> tuple[Runner, dict[str, Array]]:
    """Play new, replayed or edited levels, score them, and learn; return the runner and metrics."""
    settings = learner.settings
    runner, key_plan, key_act, key_learn = curricula.next_update(learner, runner)
    plan = planned(learner, runner.levels, key_plan)
    levels = chosen(learner, plan, key_plan)
    runner, played = curricula.play(learner, runner, key_act, levels)
    found = judged(learner, runner, plan, played, levels)
    levels, found = curricula.gathered(learner, (levels, found))
    weights = settings.temperature, settings.staleness
    buffer = level_buffer.inserted(plan.buffer, levels, found, plan.updates, *weights)
    trains = plan.kind == REPLAY if settings.robust else True
    runner, losses = curricula.learn_where(learner, runner, played, key_learn, trains)
    kinds = {"replayed": plan.kind == REPLAY, "edited": plan.kind == EDIT}
    losses |= {name: each.astype(jnp.float32) for name, each in kinds.items()}
    plan = plan._replace(buffer=buffer, updates=plan.updates + 1)
    losses |= curricula.buffer_metrics(learner, buffer)
    return curricula.finished(runner._replace(levels=plan), played, losses)


def planned(learner: PLRLearner, plan: Plan, key: Array) -> Plan:
    """Choose whether this update plays new, replayed or edited levels; return the updated plan.

    For a replay, slots of the buffer are drawn, and stored as `rows` in the plan. If `edits` is not
    0, the update after a replay plays the same levels with random edits.
    """
    settings = learner.settings
    key_kind, key_rows = jax.random.split(key)
    replays = (plan.updates >= first_replay(learner)) & (
        jax.random.uniform(key_kind, (), jnp.float32) < settings.replay_prob
    )
    kind = jnp.where(replays, REPLAY, NEW).astype(jnp.int32)
    if settings.edits:
        kind = jnp.where(plan.kind == REPLAY, jnp.int32(EDIT), kind)
    probability = level_buffer.probabilities(
        plan.buffer, plan.updates, settings.temperature, settings.staleness
    )
    drawn = level_buffer.sample(key_rows, probability, len(plan.rows))
    return plan._replace(kind=kind, rows=jnp.where(kind == REPLAY, drawn, plan.rows))


def chosen(learner: PLRLearner, plan: Plan, key: Array) -> PyTree[Array]:
    """Return the level that each environment of this device plays in this update."""
    env, envs = learner.env.env, learner.env.num_envs
    key_level = learner.devices.local_key(jax.random.fold_in(key, 1))
    rows = curricula.own_rows(learner, plan.rows)

    def new() -> PyTree[Array]:
        return new_levels(env, key_level, envs)

    def replayed() -> PyTree[Array]:
        return jax.tree.map(lambda leaf: leaf[rows], plan.buffer.levels)

    def changed() -> PyTree[Array]:
        return edited(env, key_level, replayed(), learner.settings.edits)

    return jax.lax.switch(plan.kind, [new, replayed, *([changed] * bool(learner.settings.edits))])


def judged(
    learner: PLRLearner, runner: Runner, plan: Plan, played: curricula.Play, levels: PyTree[Array]
) -> Played:
    """Return the score and the statistics of the levels that were just played."""
    found = played.episodes
    _, advantage, _ = ppo.targets(learner, runner, played.rollout)
    best = level_buffer.best_returns(plan.buffer, level_buffer.hashes_of(levels), found.best)
    steps, optimum = curricula.optima(learner, levels)
    score = level_scores.score(
        learner.settings.score, played.rollout, advantage, found, best, optimum
    )
    return Played(score, best, found.returned, found.success, steps, optimum)
