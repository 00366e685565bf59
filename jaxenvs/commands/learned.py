"""Decide whether a recorded training run has learned anything.

A run has learned something if its policy beats random play by more than chance explains.
`reference.json` contains the records of runs and of random play; `benchmarks/reference.py` writes
it.
"""

import math
from typing import Any

import numpy as np

# Value of the option --novelty -> name of the exploration bonus.
BONUSES = {"rnd": "RND", "noveld": "NovelD", "e3b": "E3B"}
SCALED = "scaled rewards"
ADDED = {*BONUSES.values(), SCALED}  # additions to a learner; they do not change the task
# Minimum difference between the run's mean return and random play's, in units of the return.
LEAST = 0.05
# Level of significance of the test of successes: the one-sided p-value must be lower.
CHANCE = 0.001
# Minimum difference of mean returns, in standard errors of the difference (3: one-sided p = 0.001)
MARGIN = 3
# With 1 to FEW - 1 successes, the standard deviation of returns is unreliable, and the mean return
# is not tested.
FEW = 10
UNLEARNED = (
    "Not learned: the mean return is less than 0.05 above random play's, or the difference may be "
    "chance. The difference is significant if more episodes succeed (Fisher's exact test, "
    "one-sided, p < 0.001) or if the return is more than three standard errors of the difference "
    "above random play's; with 1 to 9 successes only the former counts. The run was too short, or "
    "the task is too hard for this learner; do not use the number in brackets as a reference.",
)


def is_learned(run: dict[str, Any], random: dict[str, Any] | None) -> bool:
    """Return whether a recorded run is better than random play by more than chance.

    The run's mean return must exceed random play's by at least `LEAST`. In addition, its number of
    successes or its mean return must be significantly higher. The test of mean returns uses random
    play's standard deviation for both records: under the null hypothesis, the run's policy is no
    better than random play. This standard deviation is unreliable if the run has 1 to `FEW` - 1
    successes; then only the successes are tested.

    A run in a changed task counts as learned, because there is no record of random play for it.
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
    """Return the one-sided p-value of Fisher's exact test for the numbers of successes.

    The null hypothesis is that every episode of both records is equally likely to succeed. The
    p-value is the probability, given the total number of successes, that the run has at least
    `run["succeeded"]` of them.
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
    """Return whether a run is PPO without changes of the task or the reward, such as a bonus."""
    return run["algorithm"] == "ppo" and not run["apart"]


def is_same_task(run: dict[str, Any]) -> bool:
    """Return whether a run was recorded in the unchanged task of its id.

    A constructor field that the command sets, for example, changes the task; a bonus does not.
    """
    return ADDED.issuperset(run["apart"])


def with_additions(run: dict[str, Any]) -> str:
    """Return text about the additions to a run's learner, such as " with NovelD".

    Returns "" if there are none.
    """
    added = [part for part in run["apart"] if part in ADDED]
    return f" with {' and '.join(added)}" if added else ""
