"""Regret of an evaluated policy: the optimal returns of the played levels minus its returns.

The optimal return assumes an agent that knows the whole level. A policy that sees only a part of
the level has to explore, so the regret of even the best policy may be above 0.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from jaxenvs import Env, levels, make_vec, wrappers
from jaxenvs.core.checks import counted
from jaxenvs.core.stateful import WrappedState
from jaxenvs.levels.files import name_of

from ..core.playing import Episodes

CHANGE_REWARDS = (wrappers.ClipReward, wrappers.NormalizeReward, wrappers.TransformReward)
ROUNDING = 1e-4  # a return may exceed the optimum by this much, because of float32 rounding


class Optimum(NamedTuple):
    """Highest returns of the levels of an evaluation, one entry per episode."""

    returns: np.ndarray  # proven upper bound on the return
    proven: np.ndarray  # bool, whether the bound in `returns` is proven to be the optimal return


def optimum(env: Env, key: Array, count: int) -> Optimum:
    """Return the optimal returns of the levels that `first_episodes(env, act, key, count)` plays.

    Raises `ValueError` if the solver does not support the environment, or if a wrapper changes the
    rewards.
    """
    _refuse_changed_rewards(env)
    try:
        levels.check_solver(env, states=True)
        state = jax.device_get(_first(env, key, count))
        while isinstance(state, WrappedState):
            state = state.env
        places, each = _different(state)
        rows = jax.tree.map(lambda leaf: jnp.asarray(leaf[places]), state)
        found = levels.solve(env, rows)
    except (NotImplementedError, TypeError) as error:
        raise ValueError(f"--regret: {error}") from error
    if any(solution.return_bound is None for solution in found):
        raise ValueError(f"--regret: the rewards of {name_of(env)} depend on more than the steps")
    bounds = np.array([solution.return_bound for solution in found], float)
    proven = np.array([solution.optimal_return is not None for solution in found])
    return Optimum(bounds[each], proven[each])


def _refuse_changed_rewards(env: Env) -> None:
    """Raise `ValueError` if a wrapper changes the rewards, because the solver ignores wrappers."""
    while isinstance(env, wrappers.Wrapper):
        if isinstance(env, CHANGE_REWARDS):
            raise ValueError(
                f"--regret: {type(env).__name__} changes the rewards, so returns cannot be "
                "compared with the optimum; evaluate the environment without this wrapper"
            )
        env = env.env


def _first(env: Env, key: Array, count: int) -> Any:
    """Return the initial states of the episodes that `first_episodes` plays."""
    venv = make_vec(env, count, autoreset="none")
    return jax.jit(lambda key: venv.reset(jax.random.split(key)[0]).state.env)(key)


def _different(state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return the indices of the distinct items of a batch, and an array that restores the batch.

    Entry i of the second array is the place, in the first array, of the item equal to item i.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(state)]
    rows = [b"".join(leaf[i].tobytes() for leaf in leaves) for i in range(len(leaves[0]))]
    first = {row: place for place, row in reversed(list(enumerate(rows)))}
    places = sorted(first.values())
    number = {rows[place]: at for at, place in enumerate(places)}
    return np.array(places), np.array([number[row] for row in rows])


def figures(best: Optimum, episodes: Episodes) -> dict[str, Any]:
    """Return mean optimal return, mean regret, its standard error, and a count of unproven levels.

    For an unproven level, only an upper bound of the optimal return is known. If any level is
    unproven, both means are upper bounds.
    """
    returns = np.asarray(episodes.returns, float)
    regret = best.returns - returns
    if (regret < -ROUNDING).any():
        raise ValueError(
            "--regret: a return exceeds the optimum, so a wrapper changes the rewards of this run"
        )
    regret = np.maximum(regret, 0.0)
    return {
        "optimal_return": round(float(best.returns.mean()), 6),
        "regret": round(float(regret.mean()), 6),
        "regret_error": round(float(regret.std(ddof=1) / np.sqrt(len(regret))), 6),
        "unproven": int((~best.proven).sum()),
    }


def words(found: dict[str, Any]) -> str:
    """Return the result of `figures` as text."""
    most = "at most " if found["unproven"] else ""
    unproven = f" ({counted(found['unproven'], 'episode')} unproven)" if most else ""
    return (
        f"optimum {most}{found['optimal_return']:.3f}, regret against full information "
        f"{most}{found['regret']:.3f} +- {found['regret_error']:.3f}{unproven}"
    )
