"""Progress of an episode: a number from 0 to 1, comparable between environments.

All definitions of progress are in this file. For some classes of environments, `SPECIAL` has a
definition. In any other environment, progress is 1 for success and 0 for failure. If success is not
defined, progress is the share of earned achievements.
"""

import functools
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ..core.drawing import unwrapped
from ..core.env import Env
from ..core.parts.learner import defines_success
from ..core.transitions import Step

EXPONENT_2048 = 11  # 2048 = 2**11
NO_TASK = "none: the environment has no task"


class Played(NamedTuple):
    """Data of an episode so far, from which its progress is computed."""

    env: Env
    steps: int = 0
    total: float = 0.0  # return: undiscounted sum of rewards
    success: bool | None = None  # whether a step succeeded; None if success is not defined
    # Whether each achievement was earned, bool (achievements,); None if there are none.
    achieved: Any = None
    state: Any = None  # state after the last step; None before the first step


class Definition(NamedTuple):
    """A definition of progress: its description in words, and the function that computes it."""

    words: str  # definition in words, for result files
    # Function that returns the progress, 0 to 1, after at least one step.
    of: Callable[[Played], float]


def _share_of_time(played: Played) -> float:
    limit = int(np.asarray(played.env.time_limit(played.state, played.env.default_params)))
    return played.steps / limit


def _share_of_reward(played: Played) -> float:
    low, high = played.env.reward_range
    return (played.total / played.steps - low) / (high - low)


def _largest_tile(played: Played) -> float:
    return int(np.asarray(played.env.observe(played.state)).max()) / EXPONENT_2048


SUCCESS = Definition(
    "1 if the episode succeeded, else 0", lambda played: float(played.success or 0)
)
ACHIEVEMENTS = Definition(
    "share of the achievements that were earned", lambda played: float(np.mean(played.achieved))
)
# Class name -> definition, for classes that define no success or whose success says little about
# the quality of an episode.
SPECIAL = {
    "CartPole": Definition("share of the time limit with the pole upright", _share_of_time),
    "Pendulum": Definition("mean reward, scaled to its range", _share_of_reward),
    "Game2048": Definition("log2 of the largest tile / 11, at most 1", _largest_tile),
}


class Progress:
    """Progress of one episode, updated after each step.

    `value` is 0 before the first step, and None in an environment without a task.
    """

    def __init__(self, env: Env) -> None:
        """Start to measure the progress of an episode, before its first step."""
        achieved = np.zeros(len(env.achievements), bool) if env.achievements else None
        self.played = Played(env, success=False if _has_success(env) else None, achieved=achieved)

    def add(self, step: Step) -> None:
        """Update `played` with a step: the result of `env.step` in the current episode."""
        before, env = self.played, self.played.env
        success, achieved = env.succeeded(step), step.info.get("achievements")
        if success is not None:
            success = bool(success) or bool(before.success)
        if achieved is not None:
            earned = np.asarray(achieved, bool)
            achieved = earned if before.achieved is None else earned | before.achieved
        total = before.total + float(step.reward)
        self.played = Played(env, before.steps + 1, total, success, achieved, step.state)

    @property
    def value(self) -> float | None:
        """Progress so far, 0 to 1; None if it is not defined."""
        found = definition_of(self.played)
        if found is None:
            return None
        return float(np.clip(found.of(self.played), 0, 1)) if self.played.steps else 0.0

    @property
    def definition(self) -> str:
        """The definition of progress in words."""
        found = definition_of(self.played)
        return NO_TASK if found is None else found.words


@functools.lru_cache(maxsize=64)
def _has_success(env: Env) -> bool:
    return defines_success(env)


def definition_of(played: Played) -> Definition | None:
    """Return the definition of an episode's progress; None without a task.

    The definition is the one in `SPECIAL` for the environment's class, or else `SUCCESS` if the
    environment defines success, or else `ACHIEVEMENTS`.
    """
    special = SPECIAL.get(type(unwrapped(played.env)).__name__)
    if special is not None:
        return special
    if played.success is not None:
        return SUCCESS
    return None if played.achieved is None else ACHIEVEMENTS


def progress(env: Env, steps: Iterable[Step]) -> float | None:
    """Return the progress of an episode, given the results of its calls of `env.step`.

    In a task that defines success, progress is 1 for success and 0 for failure. In Craft it is the
    fraction of earned achievements, and in CartPole the fraction of the time limit. In Pendulum it
    is the scaled mean reward, and in 2048 log2 of the largest tile, divided by 11. 0 if
    `steps` is empty; None if the environment has no task.
    """
    episode = Progress(env)
    for step in steps:
        episode.add(step)
    return episode.value
