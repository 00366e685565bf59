"""Classes for one episode, and for a dataset of episodes, as NumPy arrays."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np
from jaxtyping import PyTree


@dataclasses.dataclass(frozen=True)
class Episode:
    """One episode of `n` steps, as NumPy arrays."""

    # Observations before each action and after the last action, (n + 1, ...).
    obs: PyTree[np.ndarray]
    action: PyTree[np.ndarray]  # action of each step, (n, ...)
    reward: np.ndarray  # reward of each step, (n,)
    terminated: np.ndarray  # whether the task ended in the step, bool (n,)
    truncated: np.ndarray  # whether the time limit ended the episode in the step, bool (n,)
    # Further arrays by name, (n + 1, ...), with one entry for each observation.
    infos: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    # Facts about the start of the episode, such as the text of its level.
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.reward)


@dataclasses.dataclass(frozen=True)
class Demos:
    """Episodes as arrays, one after another.

    In the shapes, `steps` is the number of steps of all episodes together, and `episodes` is the
    number of episodes.

    An episode has one more observation than steps: the observation after its last action. Step `t`
    of the dataset therefore leads from observation `obs_index[t]`, which is not `t` in later
    episodes, to observation `obs_index[t] + 1`.
    """

    obs: PyTree[np.ndarray]  # observations of all episodes, (steps + episodes, ...)
    action: PyTree[np.ndarray]  # action of each step, (steps, ...)
    reward: np.ndarray  # reward of each step, float32 (steps,)
    terminated: np.ndarray  # whether the task ended in the step, bool (steps,)
    truncated: np.ndarray  # whether the time limit ended the episode in the step, bool (steps,)
    lengths: np.ndarray  # number of steps of each episode, int64 (episodes,)
    # Further arrays by name, (steps + episodes, ...). An example is `optimal_steps`, the number of
    # remaining steps of a shortest plan. Only names that all episodes have are included.
    infos: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    options: tuple[Mapping[str, Any], ...] = ()  # `Episode.options` of each episode
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict)  # content of metadata.json

    @property
    def episodes(self) -> int:
        """Number of episodes."""
        return len(self.lengths)

    @property
    def steps(self) -> int:
        """Number of steps of all episodes together."""
        return len(self.reward)

    @property
    def starts(self) -> np.ndarray:
        """Index of the first step of each episode, int64 (episodes,)."""
        return np.cumsum(self.lengths) - self.lengths

    @property
    def obs_index(self) -> np.ndarray:
        """Index of the observation before each step, int64 (steps,)."""
        return np.arange(self.steps) + np.repeat(np.arange(self.episodes), self.lengths)

    @property
    def returns(self) -> np.ndarray:
        """Undiscounted return of each episode, float64 (episodes,)."""
        total = np.concatenate([[0.0], np.cumsum(self.reward, dtype=np.float64)])
        return total[self.starts + self.lengths] - total[self.starts]

    def episode(self, number: int) -> Episode:
        """Return episode `number`, counted from 0."""
        start, length = int(self.starts[number]), int(self.lengths[number])
        steps, seen = (
            slice(start, start + length),
            slice(start + number, start + number + length + 1),
        )
        return Episode(
            obs=jax.tree.map(lambda leaf: leaf[seen], self.obs),
            action=jax.tree.map(lambda leaf: leaf[steps], self.action),
            reward=self.reward[steps],
            terminated=self.terminated[steps],
            truncated=self.truncated[steps],
            infos={name: values[seen] for name, values in self.infos.items()},
            options=self.options[number] if self.options else {},
        )


def joined(episodes: Sequence[Episode], metadata: Mapping[str, Any] | None = None) -> Demos:
    """Join episodes into one dataset; raise `ValueError` if there are no episodes."""
    if not episodes:
        raise ValueError("joined: give at least one episode")

    def stacked(parts: Sequence[Any]) -> Any:
        return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)

    names = set.intersection(*(set(each.infos) for each in episodes))
    return Demos(
        obs=stacked([each.obs for each in episodes]),
        action=stacked([each.action for each in episodes]),
        reward=np.concatenate([each.reward for each in episodes]).astype(np.float32),
        terminated=np.concatenate([each.terminated for each in episodes]).astype(bool),
        truncated=np.concatenate([each.truncated for each in episodes]).astype(bool),
        lengths=np.array([len(each) for each in episodes], np.int64),
        infos={n: np.concatenate([each.infos[n] for each in episodes]) for n in sorted(names)},
        options=tuple(each.options for each in episodes),
        metadata=dict(metadata or {}),
    )
