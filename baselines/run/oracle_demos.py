"""Oracle of `jaxenvs demos`: a solver finds shortest plans, which are played as episodes."""

import collections
import dataclasses
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxenvs.core.checks import counted
from jaxenvs.core.env import Env
from jaxenvs.demos import DemosError, Episode, Recorder
from jaxenvs.levels import check_solver, solve

ROUND = 64  # plans are padded to a multiple of this length, so that few programs are compiled
# Number of levels after which a recording fails if none of them had a plan.
HOPELESS = 512


# Reason why a level is left out -> explanation.
REASONS = {
    "unsolvable": "no plan exists",
    "unproven": "the budget did not suffice; give a larger --budget",
    "too long": "the shortest plan exceeds the time limit",
}


@dataclasses.dataclass
class Counts:
    """Count of the levels left out for each reason, and returns of the recorded plans."""

    left_out: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    returns: list[float] = dataclasses.field(default_factory=list)

    def sentences(self) -> list[str]:
        """Return a sentence for each reason why levels were left out."""
        return [
            f"left out {counted(self.left_out[name], 'level')}, {name}: {why}"
            for name, why in REASONS.items()
            if self.left_out[name]
        ]

    def short(self) -> str:
        """Return the number of levels left out, as text for the progress line; "" if it is 0."""
        total = self.left_out.total()
        return f"{counted(total, 'level')} left out" if total else ""

    def facts(self) -> dict[str, int]:
        """Return the counts as entries of metadata.json."""
        return {
            f"jaxenvs_{name.replace(' ', '_')}_levels": count
            for name, count in self.left_out.items()
        }

    def check(self, episodes: int) -> None:
        """Raise `DemosError` if many levels were tried and none had a plan."""
        if not episodes and self.left_out.total() >= HOPELESS:
            raise DemosError(f"no level has a proven plan: {'; '.join(self.sentences())}")


def player(
    env: Env, budget: int, stopped: Callable[[], bool]
) -> Callable[..., list[Episode | str]]:
    """Return a function of (key, levels, number of levels) that plays shortest plans.

    budget: largest number of states that the search for the plans of up to 64 levels stores.

    For each level, the returned function gives an episode, or the reason why the level has none.

    Raises `TypeError` or `NotImplementedError` if `jaxenvs.levels.solve` cannot find shortest plans
    in the environment.
    """
    check_solver(env)
    recorder, known = Recorder(env, _follow), dict[bytes, Any]()

    def play(key: Any, levels: Any, count: int) -> list[Episode | str]:
        _solve_new(env, budget, levels, count, known)
        found = [known[digest] for digest in _digests(levels, count)]
        reasons = [reason(solution) for solution in found]
        good = [row for row in range(count) if not reasons[row]]
        if stopped():
            return []
        if not good:
            return list(reasons)
        # Play the first level that has a plan in place of each level without a plan, and drop these
        # extra episodes. Thus all batches have the same size, and the program is compiled once.
        rows = np.array([row if row in good else good[0] for row in range(count)])
        chosen = jax.tree.map(lambda leaf: jnp.asarray(leaf)[rows], levels)
        plans = _padded([found[row].plan for row in rows])
        begin = jnp.zeros(count, jnp.int32)
        played = recorder.play(count, key, chosen, (plans, begin), stopped)
        return [why or _labelled(one) for why, one in zip(reasons, played, strict=False)]

    return play


def _follow(key: Any, obs: Any, state: Any, memory: Any) -> tuple[Any, Any]:
    """Return the next action of each plan; `memory` is (plans, number of actions taken)."""
    plans, at = memory
    action = jnp.take_along_axis(plans, jnp.minimum(at, plans.shape[1] - 1)[:, None], axis=1)
    return (plans, at + 1), action[:, 0]


def _digests(levels: Any, count: int) -> list[bytes]:
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(jax.device_get(levels))]
    return [
        hashlib.sha256(b"".join(leaf[row].tobytes() for leaf in leaves)).digest()
        for row in range(count)
    ]


def _solve_new(env: Env, budget: int, levels: Any, count: int, known: dict[bytes, Any]) -> None:
    """Solve the levels, and add their solutions to `known`; do nothing if all are known already."""
    digests = _digests(levels, count)
    if all(digest in known for digest in digests):
        return
    for digest, solution in zip(digests, solve(env, levels, node_budget=budget), strict=True):
        known[digest] = solution


def reason(solution: Any) -> str:
    """Return why the plan of a solution is not played, a key of `REASONS`; "" if it is played."""
    if solution.unsolvable:
        return "unsolvable"
    if not solution.proven:
        return "unproven"
    return "too long" if solution.optimal_return == 0.0 else ""


def _padded(plans: list[tuple[int, ...]]) -> Any:
    longest = max(map(len, plans))
    width = -(-longest // ROUND) * ROUND
    return jnp.asarray([[*plan, *[0] * (width - len(plan))] for plan in plans], jnp.int32)


def _labelled(episode: Episode) -> Episode | str:
    """Return an episode labelled with `optimal_steps`; return "too long" if it was truncated.

    `optimal_steps`, an entry of the episode's `infos`, is the number of remaining steps. A
    truncated episode shows that its plan exceeds the time limit. Usually `reason` finds such plans
    earlier, from the optimal return. Where rewards depend on more than the number of steps, as in
    Puzzle-Sokoban, solutions have no optimal return.
    """
    if not episode.terminated[-1]:
        return "too long"
    remaining = np.arange(len(episode), -1, -1, dtype=np.int32)
    return dataclasses.replace(episode, infos={"optimal_steps": remaining})
