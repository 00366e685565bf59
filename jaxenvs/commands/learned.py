"""The rule that decides whether a recorded run has learned.

Runs and random play are records of `reference.json`, written by `benchmarks/reference.py`.
"""

import math
from typing import Any

import numpy as np

BONUSES = {"rnd": "RND", "noveld": "NovelD", "e3b": "E3B"}  # by --novelty
SCALED = "scaled rewards"
ADDED = {*BONUSES.values(), SCALED}  # what leaves the task as it is
LEAST = 0.05  # by which a mean return must exceed random play's, in the task's units
CHANCE = 0.001  # largest p-value of the successes, one-sided
MARGIN = 3  # standard errors of the difference of returns; p = 0.001, one-sided
FEW = 10  # successes; with fewer, though with some, a mean return says little
UNLEARNED = (
    "Not learned: the mean return is less than 0.05 above random play's, or the difference may be "
    "chance. It is not chance if more episodes succeed by Fisher's exact test (one-sided, p below "
    "0.001), or if the return is more than three standard errors of the difference above random "
    "play's; with 1 to 9 successes only the former counts. The run was too short, or the task is "
    "too hard for this learner; the number in brackets is no reference.",
)


def is_learned(run: dict[str, Any], random: dict[str, Any] | None) -> bool:
    """Return whether a recorded run is better than random play by more than chance.

    The mean return must be higher by `LEAST`, and either the successes or the returns must differ
    by more than chance. The returns have the spread of random play in both, since a policy that has
    learned nothing has the same; where a few successes decide the mean, that spread is unknown, and
    the successes alone count. A run in a changed task is not compared.
    """
    if random is None or not is_same_task(run):
        return True
    gain = float(np.mean(run["returns"])) - random["return"]
    if gain < LEAST:
        return False
    if None not in (run["succeeded"], random["succeeded"]):
        if chance(run, random) < CHANCE:
            return True
        if 0 < run["succeeded"] < FEW:
            return False
    error = random["error"] * (1 + random["episodes"] / run["episodes"]) ** 0.5
    return gain > MARGIN * error


def chance(run: dict[str, Any], random: dict[str, Any]) -> float:
    """Return the p-value of Fisher's exact test, one-sided.

    The probability that, of all episodes that succeeded, at least `run["succeeded"]` fall to the
    run if each episode is as likely to succeed as any other.
    """
    episodes, successes = run["episodes"], run["succeeded"] + random["succeeded"]
    total = episodes + random["episodes"]
    most = min(successes, episodes)
    logs = (
        _log_binomial(successes, count) + _log_binomial(total - successes, episodes - count)
        for count in range(run["succeeded"], most + 1)
        if episodes - count <= total - successes
    )
    return min(1.0, math.fsum(math.exp(log - _log_binomial(total, episodes)) for log in logs))


def _log_binomial(total: int, chosen: int) -> float:
    """Return the natural logarithm of a binomial coefficient."""
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)


def is_plain(run: dict[str, Any]) -> bool:
    """Return whether a recorded run is PPO alone on the unchanged id: no fields, no bonus."""
    return run["algorithm"] == "ppo" and not run["apart"]


def is_same_task(run: dict[str, Any]) -> bool:
    """Return whether a recorded run acted in the unchanged id: no fields."""
    return ADDED.issuperset(run["apart"])


def with_additions(run: dict[str, Any]) -> str:
    """Return the additions to a run's learner, such as " with NovelD"; empty without any."""
    added = [part for part in run["apart"] if part in ADDED]
    return f" with {' and '.join(added)}" if added else ""
