"""Restarts: environments continue from states that the policy saved when it reached a new score.

An environment's score is the number of achievements earned in the episode or, if the environment
has no achievements, the number of steps with a positive reward. After a rollout, each environment
whose score has grown offers its state, with the recurrent state of the network. The archive stores
the same number of states for each score, and an offered state overwrites a random one of its score.

If an episode ended in a rollout, the environment continues from a saved state with the probability
`restart_share`. First a score is drawn with a probability proportional to 1 / visits, then one of
its states. The visits of a score are the states offered to it and the restarts from it. Rare scores
are practised often, but a rare state that leads nowhere loses its share with each restart.

Go-Explore (Ecoffet et al., 2021) introduced returns to saved states drawn by rarity. Deliberate
differences: cells are scores, and states are saved and restored between rollouts only. The loop
over steps therefore stays as it is, and a recurrent state is restored only where a sequence begins,
so gradient steps need no further input. The network of a stored recurrent state may be older than
the current one, as in R2D2.

Metrics count whole episodes only: an episode from a saved state is left out. So is a new episode
that a restart may interrupt, even if it ends before the restart: otherwise short episodes would be
overrepresented. Evaluations always begin in new levels.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Step
from jaxenvs.core.memory import device_memory
from jaxenvs.core.starts import select, tree_bytes, written

from . import bonuses

# Number of scores that are kept apart in environments without achievements. The largest score has
# the states of all larger scores, too.
SCORES = 32


class Restarts(NamedTuple):
    """The archive, and the score of each environment; divided among the devices by first axes.

    Slot i of the archive is for the score i % scores + 1, in which `scores` is the number of
    different scores. An archive divided into equal parts therefore has all scores in each part.
    """

    states: PyTree[Array]  # environment states, (slots, ...)
    memory: PyTree[Array]  # recurrent states before the network reads the state's observation
    scores: Int32[Array, "*seeds slots"]  # score of each saved state; 0: the slot is empty
    reached: Int32[Array, "*seeds envs"]  # score of each environment's current episode
    restarted: Bool[Array, "*seeds envs"]  # whether the current episode began in a saved state


def share_of(settings: Any) -> float:
    """Return the setting `restart_share`; 0 for learners that do not have it."""
    return getattr(settings, "restart_share", 0.0)


def num_scores(env: Any) -> int:
    """Return the number of scores that the archive keeps apart."""
    return len(env.achievements) or SCORES


def check(learner: Any) -> None:
    """Raise `ValueError` if the learner's environment or devices do not allow restarts."""
    settings, env, count = learner.settings, learner.env.env, learner.devices.count
    if not share_of(settings):
        return
    given = f"restart_share={settings.restart_share}"
    if env.carries_over:
        raise ValueError(
            f"{given}: a wrapper of {env.name} keeps statistics beyond the end of an episode, and "
            f"a saved state would set them back; leave out the wrapper or restart_share"
        )
    if settings.restart_slots % count:
        raise ValueError(
            f"restart_slots={settings.restart_slots} does not divide evenly among {count} devices; "
            f"give a multiple of {count}"
        )
    slots = num_scores(env) * settings.restart_slots // count
    needed = slots * (tree_bytes(env.state_shape) + tree_bytes(learner.network.begin()))
    there = device_memory(jax.local_devices()[0])
    if there is not None and needed > there:
        raise ValueError(
            f"restart_slots={settings.restart_slots} needs {needed / 2**30:,.1f} GiB per device "
            f"for {num_scores(env)} scores of {env.name}, and the device has "
            f"{there / 2**30:,.1f} GiB; give fewer restart_slots"
        )


def begin(learner: Any, world: Any, memory: PyTree[Array]) -> dict[str, Any]:
    """Return initial values of the `Runner` fields for restarts; {} if they are off.

    `world` and `memory` are the initial states of the environments and the network. The archive is
    empty; its arrays are filled with the first environment's states.
    """
    if not share_of(learner.settings):
        return {}
    scores, envs = num_scores(learner.env.env), learner.env.num_envs
    slots = scores * learner.settings.restart_slots // learner.devices.count

    def filled(leaf: Array) -> Array:
        return jnp.broadcast_to(leaf[:1], (slots, *leaf.shape[1:]))

    return {
        "restarts": Restarts(
            states=jax.tree.map(filled, world.env),
            memory=jax.tree.map(filled, memory),
            scores=jnp.zeros(slots, jnp.int32),
            reached=jnp.zeros(envs, jnp.int32),
            restarted=jnp.zeros(envs, jnp.bool_),
        ),
        "visits": jnp.zeros(scores, jnp.float32),
    }


def points(learner: Any, step: Step) -> PyTree[Array]:
    """Return what `score_after` needs of each step; () if restarts are off.

    It is the number of achievements earned in the episode so far or, in an environment without
    achievements, whether the reward is positive, as an integer.
    """
    if not share_of(learner.settings):
        return ()
    if learner.env.env.achievements:
        return step.info["achievements"].sum(axis=1, dtype=jnp.int32)
    return (step.reward > 0).astype(jnp.int32)


def score_after(
    learner: Any,
    before: Int32[Array, " envs"],
    points: Int32[Array, "steps envs"],
    done: Bool[Array, "steps envs"],
) -> Int32[Array, " envs"]:
    """Return the score of each environment's current episode after a rollout.

    `before` is the score, before the rollout, of the episode that was then running.
    """
    unfinished = done[::-1].cumsum(axis=0, dtype=jnp.int32)[::-1] == 0
    if learner.env.env.achievements:
        return jnp.where(unfinished[-1], points[-1], 0)
    earned = jnp.where(unfinished, points, 0).sum(axis=0, dtype=jnp.int32)
    return jnp.where(unfinished[0], before, 0) + earned


def after_rollout(learner: Any, runner: Any, rollout: Any) -> tuple[Any, Any, dict[str, Array]]:
    """Save states, and restart environments from saved states, between two rollouts.

    Return the runner, the rollout in which only episodes to count are done, and metrics. Call it
    after everything else that reads the runner's observations, such as bootstrap values. Without
    restarts, the arguments are returned.
    """
    if not runner.restarts:
        return runner, rollout, {}
    key_rest, key = jax.random.split(jax.random.wrap_key_data(runner.key))
    keys = jax.random.split(learner.devices.local_key(key), 3)
    key_place, key_due, key_slot = keys
    done = rollout.terminated | rollout.truncated
    ended, held = done.any(axis=0), runner.restarts
    score = score_after(learner, held.reached, rollout.points, done)
    grown = score > jnp.where(ended, 0, held.reached)
    saved, offered = save(key_place, runner, score, grown)
    share = learner.settings.restart_share
    # The draw does not depend on the rollout, so episodes are left out whatever their length is.
    due = jax.random.bernoulli(key_due, share, ended.shape) & (saved.scores > 0).any()
    chances = probabilities(saved.scores, runner.visits)
    slot = jax.random.choice(key_slot, chances.size, ended.shape, p=chances).astype(jnp.int32)
    rows = due & ended
    drawn = counts(slot % runner.visits.size, rows, runner.visits.size)
    runner = runner._replace(
        key=jax.random.key_data(key_rest),
        visits=runner.visits + learner.devices.total(offered + drawn),
        restarts=saved._replace(
            reached=jnp.where(rows, saved.scores[slot], score),
            restarted=rows | (held.restarted & ~ended),
        ),
    )
    rollout = counted(rollout, held.restarted, due)
    runner = restore(learner, runner, rows, slot)
    return runner, rollout, {"restarts": runner.restarts.restarted.mean(dtype=jnp.float32)}


def save(
    key: Array, runner: Any, score: Int32[Array, " envs"], offers: Bool[Array, " envs"]
) -> tuple[Restarts, Float32[Array, " scores"]]:
    """Store the states of the environments where `offers` is true; count the states per score.

    Each state gets a random slot of its score. If several get the same slot, one is stored.
    """
    held, kinds = runner.restarts, runner.visits.size
    slots = held.scores.size
    kind = jnp.minimum(score, kinds) - 1
    place = jax.random.randint(key, score.shape, 0, slots // kinds, jnp.int32)
    slot = distinct(jnp.where(offers, place * kinds + kind, slots), slots)
    held = held._replace(
        states=written(held.states, slot, runner.world.env),
        memory=written(held.memory, slot, runner.memory),
        scores=written(held.scores, slot, score),
    )
    return held, counts(kind, offers, kinds)


def distinct(slot: Int32[Array, " envs"], slots: int) -> Int32[Array, " envs"]:
    """Return distinct indices: of environments with equal entries of `slot`, one keeps its entry.

    The others, and environments with the entry `slots`, get distinct indices from `slots` on. With
    equal indices, a scatter on a GPU could write the arrays of different states to one slot.
    """
    envs = np.arange(slot.size, dtype=np.int32)
    chosen = jnp.full(slots, -1, jnp.int32).at[slot].max(envs, mode="drop")
    keeps = chosen.at[slot].get(mode="fill", fill_value=-1) == envs
    return jnp.where(keeps, slot, slots + envs)


def counts(
    kind: Int32[Array, " envs"], mask: Bool[Array, " envs"], kinds: int
) -> Float32[Array, " scores"]:
    """Return how many environments where `mask` is true have each of `kinds` values of `kind`."""
    each = kind[:, None] == np.arange(kinds, dtype=np.int32)
    return (each & mask[:, None]).sum(axis=0, dtype=jnp.float32)


def probabilities(
    scores: Int32[Array, " slots"], visits: Float32[Array, " scores"]
) -> Float32[Array, " slots"]:
    """Return the probability of each slot of the archive; all 0 if the archive is empty.

    A score with saved states has a probability proportional to 1 / visits, divided equally among
    its states.
    """
    filled = (scores > 0).reshape(-1, visits.size)
    each = filled.sum(axis=0, dtype=jnp.float32)
    weight = jnp.where(filled, 1.0 / (jnp.maximum(visits, 1.0) * jnp.maximum(each, 1.0)), 0.0)
    return (weight / jnp.maximum(weight.sum(), 1e-30)).reshape(-1)


def counted(rollout: Any, restarted: Bool[Array, " envs"], due: Bool[Array, " envs"]) -> Any:
    """Return the rollout in which only the ends of episodes that metrics count are marked.

    Not counted are the episode that was running before the rollout if it is `restarted`, and the
    episodes that began in the rollout in environments that were `due` for a restart.
    """
    done = rollout.terminated | rollout.truncated
    began_here = done.cumsum(axis=0, dtype=jnp.int32) > 1
    whole = jnp.where(began_here, ~due, ~restarted)
    return rollout._replace(
        terminated=rollout.terminated & whole, truncated=rollout.truncated & whole
    )


def restore(
    learner: Any, runner: Any, rows: Bool[Array, " envs"], slot: Int32[Array, " envs"]
) -> Any:
    """Return the runner after the environments where `rows` is true restarted from saved states.

    `slot` has the slot of the archive for each environment. Returns and lengths count from the
    restart, and an exploration bonus compares only observations after it.
    """
    saved = runner.restarts
    states, memory = jax.tree.map(lambda leaf: leaf[slot], (saved.states, saved.memory))
    world = select(rows, states, runner.world.env)
    obs = select(rows, jax.vmap(learner.env.env.observe)(world), runner.obs)
    runner = runner._replace(
        world=runner.world.replace(env=world),
        obs=obs,
        memory=select(rows, memory, runner.memory),
        returns=jnp.where(rows, 0.0, runner.returns),
        lengths=jnp.where(rows, 0, runner.lengths),
        gain_returns=jax.tree.map(lambda leaf: jnp.where(rows, 0.0, leaf), runner.gain_returns),
    )
    bonus = bonuses.of_settings(learner)
    if bonus is None:
        return runner
    first = bonus.begin(runner.bonus, bonuses.visible(learner, obs))
    return runner._replace(bonus_memory=select(rows, first, runner.bonus_memory))
