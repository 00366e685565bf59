"""Scores of levels from a rollout: how much a policy may learn from playing them again.

| score | definition |
| --- | --- |
| `pvl` | Positive value loss: the mean of max(GAE, 0). |
| `l1` | The mean of the absolute GAE. |
| `maxmc` | The mean of (largest return so far on the level - value). |
| `learnability` | p (1 - p), where p is the share of episodes that succeed. |
| `regret` | Return of the shortest plan (computed with full information) minus the mean return. |

`pvl`, `l1` and `maxmc` are averaged over the steps of each episode, then over the episodes that
ended in the rollout. If none ended, they are averaged over all steps. If forced steps are
skipped (forced.py), they do not count, nor do episodes without a decision.
"""

from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float32, Int32

Score = Literal["pvl", "maxmc", "l1", "learnability", "regret"]


class Episodes(NamedTuple):
    """Results of the episodes that each environment finished in a rollout."""

    ended: Int32[Array, " envs"]  # number of finished episodes
    # mean return of the finished episodes; if none, the return so far of the unfinished episode
    returned: Float32[Array, " envs"]
    # largest return of a finished episode; if none, the return so far of the unfinished episode
    best: Float32[Array, " envs"]
    success: Float32[Array, " envs"]  # share of finished episodes that succeeded, 0 if none ended


def episodes(rollout: Any, wins: Int32[Array, " envs"]) -> Episodes:
    """Return the results of the finished episodes; `wins` counts those that succeeded."""
    done = rollout.terminated | rollout.truncated
    ended = done.sum(axis=0, dtype=jnp.int32)
    count = jnp.maximum(ended, 1).astype(jnp.float32)
    total = jnp.where(done, rollout.returns, 0.0).sum(axis=0)
    largest = jnp.where(done, rollout.returns, -jnp.inf).max(axis=0)
    return Episodes(
        ended=ended,
        returned=jnp.where(ended > 0, total / count, rollout.returns[-1]),
        best=jnp.where(ended > 0, largest, rollout.returns[-1]),
        success=wins.astype(jnp.float32) / count,
    )


def score(
    kind: Score,
    rollout: Any,
    advantage: Float32[Array, "steps envs"],
    found: Episodes,
    best: Float32[Array, " envs"],
    optimal_return: Any = None,
) -> Float32[Array, " envs"]:
    """Return the score of each environment's level.

    `advantage` is the GAE of each step, and `found` has the results of each environment's episodes.
    `best` is the largest return so far on the level. `optimal_return` is needed for `regret` only.
    """
    if kind == "learnability":
        return found.success * (1.0 - found.success)
    if kind == "regret":
        return optimal_return - found.returned
    each = {
        "pvl": lambda: jnp.maximum(advantage, 0.0),
        "l1": lambda: jnp.abs(advantage),
        "maxmc": lambda: best - rollout.value,
    }[kind]()
    return mean_over_episodes(rollout, each)


def mean_over_episodes(
    rollout: Any, values: Float32[Array, "steps envs"]
) -> Float32[Array, " envs"]:
    """Average `values` over the steps of each finished episode, then over the episodes.

    Return one mean per environment. If no episode has ended in an environment, average over all
    steps. The rollout must begin with new episodes. Skipped forced steps have weight 0.
    """
    done = rollout.terminated | rollout.truncated
    counts = ~rollout.forced.here if rollout.forced else jnp.ones_like(done)
    values = jnp.where(counts, values, 0.0)
    number = counts.cumsum(axis=0, dtype=jnp.int32)
    # number of counted steps before each step's episode
    before = jax.lax.cummax(jnp.where(done, number, 0), axis=0)
    before = jnp.pad(before[:-1], ((1, 0), (0, 0)))

    def back(length: Array, step: tuple[Array, Array]) -> tuple[Array, Array]:
        ends, so_far = step
        length = jnp.where(ends, so_far, length)
        return length, length

    # `length` is the number of counted steps of the episode to which each step belongs. It is 0 for
    # the steps of an episode that does not end in this rollout.
    nothing = jnp.zeros_like(number[0])
    _, length = jax.lax.scan(back, nothing, (done, number - before), reverse=True)
    weight = jnp.where(length > 0, 1.0 / jnp.maximum(length, 1).astype(jnp.float32), 0.0)
    ended = (done & (number > before)).sum(axis=0).astype(jnp.float32)
    means = (weight * values).sum(axis=0) / jnp.maximum(ended, 1.0)
    all_steps = values.sum(axis=0) / jnp.maximum(number[-1], 1).astype(jnp.float32)
    return jnp.where(ended > 0, means, all_steps)
