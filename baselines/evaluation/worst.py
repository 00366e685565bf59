"""Success on solvable levels: mean over all levels, and over the policy's worst levels.

The mean over the worst levels is the conditional value at risk (CVaR) of the success rate, with
which Rutherford et al. (2024, sampling for learnability) measure robustness. A first set of
episodes chooses the worst levels, and a second set evaluates them, so that bad luck in the first
set does not count.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, PyTree

from jaxenvs.core.parts.learner import defines_success

from ..core.episodes import EVALUATION
from ..core.given_levels import GivenLevel, new_levels
from ..core.playing import first_episodes
from ..core.policy import Policy

SHARES = {"worst_10_percent": 0.1, "worst_1_percent": 0.01}
TOGETHER = 10_000  # largest number of episodes that are played in parallel
TRIES = 20  # maximum number of times that `count` levels are drawn to find enough solvable ones


def check(env: Any) -> None:
    """Raise `ValueError` if the environment has no levels, or does not define success."""
    if not defines_success(env) or not jax.tree.leaves(env.level_shape):
        raise ValueError(
            f"--worst: {env.name} has no levels in which episodes succeed or fail; omit it"
        )


def figures(policy: Policy, key: Array, count: int, attempts: int, greedy: bool) -> dict[str, Any]:
    """Return success rates on `count` levels, for `jaxenvs eval --json`.

    The entry `mean` is the mean over all levels; the entries named in `SHARES` are means over the
    policy's worst levels. Each level is played `attempts` times to choose the worst levels, and
    again `attempts` times to evaluate them. The levels are the same for every policy. The entry
    `solvable` is True if every level was checked to have a plan within the time limit. It is False
    if the environment has no such check; some levels may then be unsolvable.
    """
    check(policy.env)
    levels, is_checked = solvable_levels(GivenLevel(env=policy.env), count)
    rate = player(policy, attempts, greedy)
    chosen, evaluated = (success(rate, each, levels, attempts) for each in jax.random.split(key))
    order = np.argsort(chosen, kind="stable")
    found = {
        name: _mean(evaluated[order[: max(1, round(share * count))]])
        for name, share in SHARES.items()
    }
    counts = {"levels": count, "attempts": attempts, "solvable": is_checked}
    return {**counts, "mean": _mean(evaluated), **found}


def as_text(found: dict[str, Any]) -> str:
    """Return the result of `figures` as a phrase."""
    kind = "solvable levels" if found["solvable"] else "levels as drawn"
    return (
        f"success on {found['levels']:,} {kind} {found['mean']:.3f}, worst 10 % "
        f"{found['worst_10_percent']:.3f}, worst 1 % {found['worst_1_percent']:.3f}"
    )


def solvable_levels(env: GivenLevel, count: int) -> tuple[PyTree[np.ndarray], bool]:
    """Return `count` levels, and whether these levels were checked to have a plan.

    Levels without a plan are replaced by new ones. If the environment's `optimal_return` is None,
    levels cannot be checked, and all drawn levels are returned. Raises `ValueError` if too few of
    the drawn levels have a plan.
    """
    params = env.default_params
    is_checked = jax.eval_shape(env.optimal_return, env.level_shape, params) is not None

    @jax.jit
    def drawn(key: Array) -> tuple[PyTree[Array], Array]:
        levels = new_levels(env, key, count)
        if not is_checked:
            return levels, jnp.ones(count, jnp.bool_)
        best: Any = jax.vmap(env.optimal_return, (0, None))(levels, params)
        return levels, best > 0.0

    found, missing = [], count
    for number in range(TRIES):
        key = jax.random.fold_in(jax.random.key(EVALUATION), number)
        levels, is_solvable = jax.device_get(drawn(key))
        rows = np.flatnonzero(is_solvable)[:missing]
        found.append(jax.tree.map(lambda leaf, rows=rows: leaf[rows], levels))
        missing -= len(rows)
        if not missing:
            return jax.tree.map(lambda *leaves: np.concatenate(leaves), *found), is_checked
    raise ValueError(
        f"--worst {count}: only {count - missing} of {TRIES * count} levels of "
        f"{env.unwrapped.name} can be solved within the time limit; give fewer, or --param "
        f"max_steps_in_episode"
    )


def player(
    policy: Policy, attempts: int, greedy: bool
) -> Callable[[Array, PyTree[Any]], Float32[Array, " levels"]]:
    """Return a compiled function (key, levels) -> fraction of successful episodes on each level."""
    env = GivenLevel(env=policy.env)

    @jax.jit
    def rate(key: Array, levels: PyTree[Array]) -> Array:
        count = len(jax.tree.leaves(levels)[0]) * attempts
        repeated = jax.tree.map(lambda leaf: jnp.repeat(leaf, attempts, axis=0), levels)

        def act(key: Array, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
            keys = jax.random.split(key, count)
            decide = functools.partial(policy.decide, greedy=greedy)
            memory, action = jax.vmap(decide)(keys, memory, obs, policy.masks(state), state)
            return action, memory

        params = env.params_for(repeated)
        played = first_episodes(env, act, key, count, policy.begin(), params)
        assert played.succeeded is not None
        return played.succeeded.reshape(-1, attempts).mean(axis=1, dtype=jnp.float32)

    return rate


def success(
    rate: Callable[[Array, PyTree[Any]], Array], key: Array, levels: PyTree[Any], attempts: int
) -> np.ndarray:
    """Return the fraction of successful episodes on each level, of `attempts` episodes per level.

    `rate` is the function that `player` returns. It is called with a part of the levels at a time,
    so that at most `TOGETHER` episodes are played in parallel.
    """
    count = len(jax.tree.leaves(levels)[0])
    part = min(count, max(1, TOGETHER // attempts))
    found = []
    for number, begin in enumerate(range(0, count, part)):
        rows = np.minimum(np.arange(begin, begin + part), count - 1)
        given = jax.tree.map(lambda leaf, rows=rows: leaf[rows], levels)
        found.append(np.asarray(rate(jax.random.fold_in(key, number), given)))
    return np.concatenate(found)[:count]


def _mean(rates: np.ndarray) -> float:
    return round(float(rates.mean(dtype=np.float64)), 6)
