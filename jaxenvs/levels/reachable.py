"""`distances`: the fewest steps to success from every state that is reachable in given levels."""

import functools
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int, Int32, PyTree, UInt32

from ..core.env import Env
from ..core.wrappers.optimal import UNKNOWN, DistanceTable, words_of
from .api import Entry
from .solving import check_solver
from .source import from_levels

BATCH = 512  # number of states that one call of the compiled step function steps


def distances(
    env: Env,
    levels: str | os.PathLike[str] | Sequence[PyTree[Any] | Entry],
    *,
    max_states: int = 100_000,
) -> DistanceTable:
    """Return the fewest steps to success from every state that can be reached in the levels.

    levels: a file or a sequence of levels, as for `from_levels`.
    max_states: largest number of states of all levels together, without the states that end an
        episode. A level of DoorKey-8x8 has about 7,000 states.

    A breadth-first search steps every state with every action, so the result is exact. The time
    limit is ignored. A level that begins solved has distance 1, because an episode ends only after
    a step.

    Raises `ValueError` if there are more than `max_states` states, the errors of `from_levels`,
    and, for an environment that `solve` does not support, the errors of `solve`.
    """
    check_solver(env)
    played = from_levels(env, levels)
    begin, step = _programs(played.unwrapped)
    search = _Search(step, max_states)
    search.add(*jax.device_get(begin(played.levels.levels)))
    search.run()
    return DistanceTable(np.concatenate(search.words), search.steps())


@functools.lru_cache(maxsize=8)
def _programs(env: Any) -> tuple[Any, Any]:
    """Return two compiled functions: one starts levels, the other steps states with every action.

    The first function takes a batch of levels. It returns the bytes of each first state as words
    (see `words_of`), and the first states. The second function takes a batch of states. For each
    state and each action, it returns the words of the next state, the next state, success and
    `terminated`.
    """
    actions = jnp.arange(env.action_space.n, dtype=jnp.int32)

    def begin(level: Any) -> tuple[Array, Any]:
        state = env.reset_to(jax.random.key(0), level).state
        return words_of(state), state

    def after(state: Any, action: Array) -> tuple[Array, Any, Array, Array]:
        # Set the time to 0. Some environments compute success from the reward, which may be 0 late
        # in an episode; success would then be missed.
        timeless = state.replace(time=jnp.zeros_like(state.time))
        stepped = env.step(jax.random.key(0), timeless, action)
        success = env.succeeded(stepped)
        return words_of(stepped.state), stepped.state, success, stepped.terminated

    every_action = jax.vmap(jax.vmap(after, (None, 0)), (0, None))
    return jax.jit(jax.vmap(begin)), jax.jit(lambda states: every_action(states, actions))


class _Search:
    """Breadth-first search over the states of several levels."""

    def __init__(self, step: Any, most: int) -> None:
        self.step, self.most = step, most
        # Result of `words_of` for a state, as bytes -> index of the state.
        self.number: dict[bytes, int] = {}
        self.words: list[UInt32[np.ndarray, "n words"]] = []
        # New states that `run` has not stepped yet: one stacked batch per call of `add`.
        self.front: list[Any] = []
        self.parents: list[Int[np.ndarray, " edges"]] = []
        self.children: list[Int[np.ndarray, " edges"]] = []
        # Indices of the states from which one action succeeds.
        self.wins: list[Int[np.ndarray, " wins"]] = []

    def add(self, words: UInt32[np.ndarray, "n words"], states: Any) -> Int[np.ndarray, " n"]:
        """Append new states to `front`; return the index of each state.

        States are indexed in order of discovery.
        """
        rows = np.ascontiguousarray(words).view(f"V{words.shape[1] * 4}")[:, 0]
        unique, place, index = np.unique(rows, return_index=True, return_inverse=True)
        new = [i for i, row in enumerate(unique) if row.tobytes() not in self.number]
        if len(self.number) + len(new) > self.most:
            raise ValueError(
                f"levels.distances: the levels have more than max_states={self.most:,} states; "
                "give fewer or smaller levels, or a larger max_states"
            )
        self.number |= {unique[i].tobytes(): len(self.number) + n for n, i in enumerate(new)}
        if new:
            found = place[new]
            self.words.append(words[found])
            self.front.append(jax.tree.map(lambda leaf: leaf[found], states))
        return np.array([self.number[row.tobytes()] for row in unique])[index]

    def run(self) -> None:
        """Step every state once with every action, until no step reaches a new state."""
        done = 0
        while self.front:
            states = jax.tree.map(lambda *leaves: np.concatenate(leaves), *self.front)
            self.front = []
            for at in range(0, len(states.time), BATCH):
                part = jax.tree.map(lambda leaf, at=at: leaf[at : at + BATCH], states)
                self._expand(part, done + at)
            done += len(states.time)

    def _expand(self, states: Any, begin: int) -> None:
        """Step a batch of states once with every action; the first state has the index `begin`."""
        count = len(states.time)
        # The batch is padded to BATCH states, so that one compiled program serves all sizes.
        rows = np.minimum(np.arange(BATCH), count - 1)
        padded = jax.tree.map(lambda leaf: leaf[rows], states)
        words, after, success, over = jax.device_get(self.step(padded))
        self.wins.append(begin + np.flatnonzero(success[:count].any(axis=1)))
        row, action = np.nonzero(~over[:count])
        if not len(row):
            return
        self.parents.append(begin + row)
        children = jax.tree.map(lambda leaf: leaf[row, action], after)
        self.children.append(self.add(words[row, action], children))

    def steps(self) -> Int32[np.ndarray, " n"]:
        """Return the fewest steps from each state to success; `UNKNOWN` if it is impossible."""
        found = np.full(len(self.number), UNKNOWN, np.int32)
        parents, children = (
            np.concatenate([np.zeros(0, int), *edges]) for edges in (self.parents, self.children)
        )
        now, depth = np.concatenate(self.wins), 1
        while len(now):
            found[now] = depth
            leads: Bool[np.ndarray, " edges"] = (found[children] == depth) & (found[parents] < 0)
            now, depth = np.unique(parents[leads]), depth + 1
        return found
