"""Attempts of the speedruns: train or search, check the result, and replay it.

An attempt returns a dict for the results file, see `results.py`.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxenvs.core.extras import version

from ..core.terminal import activity
from ..evaluation import upstream
from ..evaluation.command import here as played
from ..storage.runs import load_policy
from . import boards
from .entries import HEURISTIC, POLICY, SEARCH, Entry
from .training import DEVIATIONS, Timing, interval, trained

# Folded into the key of the seed: the final check plays levels of no evaluation in training.
FRESH = 0xF2E54
PLAIN = "plain Python"  # what replays solutions of puzzles


class Outcome(NamedTuple):
    """Result of an attempt: its length, and `measure` of each episode or board."""

    timing: Timing
    here: np.ndarray  # (episodes,)
    there: np.ndarray | None  # in the replay; None without a replay


def attempt(
    entry: Entry, seed: int, flags: Sequence[str], folder: Path, replays: bool = True
) -> dict[str, Any]:
    """Make the attempt of one seed; return its figures for the results file."""
    outcome = KINDS[entry.kind](entry, seed, flags, folder, replays)
    here, there = figures(outcome.here), None
    if outcome.there is not None:
        played_by = {"package": PLAIN, "version": ""}
        if entry.package:
            played_by = {"package": entry.package, "version": version(entry.package)}
        there = figures(outcome.there) | played_by
    return {
        "seed": seed,
        "reached": reaches(entry, here, there),
        "bar": entry.bar,
        "measure": entry.measure,
        "budget": entry.budget,
        "flags": [*entry.flags, *flags],
        "steps": outcome.timing.steps,
        "seconds": round(outcome.timing.seconds, 3),
        "training_seconds": round(outcome.timing.training_seconds, 3),
        "here": here,
        "there": there,
    }


def reaches(entry: Entry, here: dict[str, Any], there: dict[str, Any] | None) -> bool:
    """Return whether the bar is reached.

    The mean here must reach it. The replay's mean may miss it only by chance: the upper end of its
    95 % interval must reach the bar.
    """
    return here["mean"] >= entry.bar and (there is None or there["high"] >= entry.bar)


def figures(values: np.ndarray) -> dict[str, Any]:
    """Return the mean of `values`, its 95 % interval (normal approximation), and their number."""
    values = np.asarray(values, float)
    mean = float(values.mean())
    error = DEVIATIONS * float(values.std(ddof=1)) / len(values) ** 0.5
    ends = {"mean": mean, "low": mean - error, "high": mean + error}
    return {name: round(value, 6) for name, value in ends.items()} | {"episodes": len(values)}


def of_policy(
    entry: Entry, seed: int, flags: Sequence[str], folder: Path, replays: bool
) -> Outcome:
    """Train a policy; play the best one on new levels, then in the original package.

    The best policy has the highest evaluation in training. Without evaluations it is the last one.
    """
    timing = trained(entry, seed, flags, folder)
    # Training makes a few updates more after the evaluation that stops it.
    policy = load_policy(folder, best=bool(entry.every))
    key_here, key_there = jax.random.split(fresh(seed))
    with activity(entry.id, "checking"):
        here = played(policy, key_here, entry.episodes).returns
    there = None
    if replays:
        there = upstream.play(policy, entry.package, key_there, entry.episodes).returns
    return Outcome(timing, np.asarray(here), None if there is None else np.asarray(there))


def of_heuristic(
    entry: Entry, seed: int, flags: Sequence[str], folder: Path, replays: bool
) -> Outcome:
    """Train a cost-to-go of a cube; search new cubes with the best one, and replay the turns.

    The best one has the highest evaluation in training. Without evaluations it is the last one.
    """
    key = jax.random.fold_in(jax.random.key(seed), boards.FIXED)
    known = boards.drawn(entry.id, key, entry.episodes)
    made: list[boards.Searches] = []

    def look(learner: Any) -> boards.Searches:
        every = interval(entry, learner.settings) if entry.every else 0
        made.append(boards.Searches(every, known, learner))
        return made[0]

    timing = trained(entry, seed, flags, folder, look)
    new = boards.drawn(entry.id, fresh(seed), entry.episodes)
    plans = boards.load(folder, new) if made[0].best is None else made[0].solved(new)
    return Outcome(timing, plans.optimal, boards.replayed_cubes(new, plans) if replays else None)


def of_search(
    entry: Entry, seed: int, flags: Sequence[str], folder: Path, replays: bool
) -> Outcome:
    """Solve Korf's boards, in an order that depends on the seed, and replay the moves."""
    timing, here, there = boards.korfs(entry, seed)
    return Outcome(timing, here, there if replays else None)


def fresh(seed: int) -> jax.Array:
    """Return the key of an attempt's final check."""
    return jax.random.fold_in(jax.random.key(seed), FRESH)


KINDS: dict[str, Callable[..., Outcome]] = {
    POLICY: of_policy,
    HEURISTIC: of_heuristic,
    SEARCH: of_search,
}
