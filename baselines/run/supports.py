"""Warnings about TD targets outside a learner's fixed support, which are clipped to its ends.

A learner that predicts values as distributions over fixed atoms logs `clipped_targets`, the
fraction of TD targets that were clipped. The learner's module has two functions.
`support(settings)` describes the support in words. `wider(settings, paid)` proposes new settings,
whose support contains the ranges of rewards and of discounted returns in `paid` (class `Paid`).
"""

import collections
import math
import sys
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import numpy as np

from ..core import processes
from ..core.learner import Learner
from ..storage.runs import Config

CLIPPED = "clipped_targets"  # metric in the log: fraction of TD targets that were clipped
MOST = 1e-3  # fraction of clipped targets above which a warning is printed
WINDOW = 10  # number of updates over which the fraction of clipped targets is averaged
# Factor by which a later policy's returns may exceed the returns in the replay buffer.
ROOM = 10.0


class Paid(NamedTuple):
    """Ranges of rewards and returns that an agent may get, estimated from its replay buffer."""

    reward: tuple[float, float]  # lowest and highest reward of a step
    returns: tuple[float, float]  # lowest and highest discounted return
    least: float  # smallest absolute value of a nonzero reward; infinity if all are 0


class Supports:
    """Monitor that warns of clipped targets, once per agent.

    The warning proposes flags for a new run, because a run cannot change its settings.
    """

    def __init__(self, config: Config, learner: Learner[Any]) -> None:
        self._names, self._learner = config.names, learner
        self._module = learner.algorithm.load()
        self._recent = collections.deque[list[float]](maxlen=WINDOW)
        self._warned = set[int]()

    def look(self, records: list[dict[str, Any]], runners: Any) -> None:
        """Read new log records, and warn of agents whose TD targets are clipped too often.

        `runners` are the training states, which hold the replay buffers of all agents.
        """
        for record in records:
            # The fraction is None or missing for a learner without a fixed support, and before the
            # first gradient step.
            if None in record.get(CLIPPED, [None]):
                continue
            self._recent.append(record[CLIPPED])
            if len(self._recent) < WINDOW:
                continue
            for i, share in enumerate(np.mean(self._recent, axis=0)):
                if share > MOST and i not in self._warned:
                    self._warned.add(i)
                    self._warn(i, float(share), record["steps"], runners)

    def _warn(self, i: int, share: float, steps: int, runners: Any) -> None:
        if not processes.first():
            return
        settings = self._learner.settings
        found = paid(runners.replay_buffer, i, settings.gamma, self._learner.env.env.reward_range)
        flags = as_flags(self._module.wider(settings, found))
        print(
            f"warning: {self._names[i]}: {share:.1%} of the targets before step {steps:,} lie "
            f"beyond {self._module.support(settings)} and are clipped, which makes values wrong; "
            f"start a new run with {flags}",
            file=sys.stderr,
        )


def paid(buffer: Any, i: int, gamma: float, reward_range: tuple[float, float]) -> Paid:
    """Return the ranges of rewards and returns in agent i's replay buffer, widened by `ROOM`.

    The factor `ROOM` leaves room for better policies. At a time limit, a return continues with the
    rewards of the next episode. Every step after the newest one in the buffer is assumed to have
    the mean reward. The range of rewards is limited to the environment's reward range. The range of
    returns is limited to the returns of getting the buffer's lowest or highest reward at every
    step.
    """
    here = (buffer.reward, buffer.is_step, buffer.terminated, buffer.written)
    reward, is_step, terminated, written = (_of_agent(leaf, i) for leaf in here)
    if not is_step.any():
        return Paid((0.0, 0.0), (0.0, 0.0), math.inf)
    seen, horizon = reward[is_step], 1.0 / max(1.0 - gamma, 1.0 / reward.shape[1])
    order = np.argsort((np.arange(reward.shape[1]) - written[:, None]) % reward.shape[1], axis=1)
    reward, is_step, terminated = (
        np.take_along_axis(leaf, order, axis=1) for leaf in (reward, is_step, terminated)
    )
    total = np.full(len(reward), seen.mean(dtype=float) * horizon)
    low = high = 0.0
    for t in reversed(range(reward.shape[1])):
        after = reward[:, t] + gamma * np.where(terminated[:, t], 0.0, total)
        total = np.where(is_step[:, t], after, total)
        low, high = min(low, float(total.min())), max(high, float(total.max()))
    ends = min(0.0, float(seen.min())), max(0.0, float(seen.max()))
    sizes = np.abs(seen[seen != 0])
    return Paid(
        (max(ROOM * ends[0], min(0.0, reward_range[0])), min(ROOM * ends[1], reward_range[1])),
        (max(ROOM * low, ends[0] * horizon), min(ROOM * high, ends[1] * horizon)),
        float(sizes.min()) if len(sizes) else math.inf,
    )


def _of_agent(leaf: Any, i: int) -> np.ndarray:
    """Return agent i's entry of an array; with several processes, only this process's shards."""
    if leaf.is_fully_addressable:
        return np.asarray(jax.device_get(leaf[i]))
    return np.concatenate([np.asarray(part.data)[i] for part in leaf.addressable_shards])


def as_flags(settings: Mapping[str, float]) -> str:
    """Return settings as command-line flags.

    Their values are rounded away from 0 to two significant digits.
    """
    return " ".join(
        f"--{name.replace('_', '-')} {outward(value):.12g}" for name, value in settings.items()
    )


def outward(value: float) -> float:
    """Return a number rounded away from 0 to two significant digits.

    Rounding errors of float32 are ignored.
    """
    if not value:
        return 0.0
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 1)
    return math.copysign(math.ceil(abs(value) / unit * (1 - 1e-5)) * unit, value)
