"""`Recorder`: play a batch of episodes in a compiled program.

The arrays of recorded steps are split into episodes on the host.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from ..core.env import Env
from .data import Episode

SEGMENT = 64  # number of steps that one call of the compiled program takes

# Policy for a batch: a function of (random key, observations, states, memory) that returns the new
# memory and the actions. The memory is the policy's state between steps, such as a GRU's state.
Choose = Callable[[Array, PyTree[Array], Any, PyTree[Array]], tuple[PyTree[Array], PyTree[Array]]]


class _Now(NamedTuple):
    """Carry of the scan over steps: the state of a batch of episodes between two steps."""

    key: Array
    obs: PyTree[Array]
    state: Any
    memory: PyTree[Array]
    playing: Bool[Array, " envs"]


class _Steps(NamedTuple):
    """Recorded steps, arrays (steps, envs, ...)."""

    next_obs: PyTree[Array]
    action: PyTree[Array]
    reward: Array
    terminated: Array
    truncated: Array
    playing: Array  # False for steps after the end of the episode


class Recorder:
    """Records one episode in each environment of a batch.

    A scan over `SEGMENT` steps fills arrays of fixed size, and is repeated until all episodes have
    ended.
    """

    def __init__(
        self, env: Env, choose: Choose, shown: Callable[[Any, Any], Any] | None = None
    ) -> None:
        """Prepare to record episodes of `env`, in which the policy `choose` selects the actions.

        shown: function of (observation, state) whose result is recorded as the observation;
            None: the observation of `env`.
        """
        show = (lambda obs, state: obs) if shown is None else shown

        def begin(count: int, key: Array, levels: Any, memory: Any) -> tuple[_Now, Any]:
            key, key_reset = jax.random.split(key)
            obs, state = jax.vmap(env.reset_to)(jax.random.split(key_reset, count), levels)
            now = _Now(key, obs, state, memory, jnp.ones(count, jnp.bool_))
            return now, jax.vmap(show)(obs, state)

        def step(now: _Now, _: None) -> tuple[_Now, _Steps]:
            key, key_act, key_step = jax.random.split(now.key, 3)
            memory, action = choose(key_act, now.obs, now.state, now.memory)
            keys = jax.random.split(key_step, len(now.playing))
            step = jax.vmap(env.step)(keys, now.state, action)
            recorded = _Steps(
                jax.vmap(show)(step.obs, step.state),
                action,
                step.reward,
                step.terminated,
                step.truncated,
                now.playing,
            )
            return _Now(key, step.obs, step.state, memory, now.playing & ~step.done), recorded

        self._begin = jax.jit(begin, static_argnums=0)
        self._segment = jax.jit(lambda now: jax.lax.scan(step, now, length=SEGMENT))

    def play(
        self,
        count: int,
        key: Array,
        levels: PyTree[Array],
        memory: PyTree[Array],
        stopped: Callable[[], bool] = lambda: False,
    ) -> list[Episode]:
        """Play an episode in each of `count` levels (count, ...) and return all of them.

        memory: memory of `choose` in the first step, with a leading axis of length `count`.

        Returns [] as soon as `stopped()` is true. Finished episodes are then discarded too: short
        episodes finish first, so returning only finished ones would bias the dataset.
        """
        now, first = self._begin(count, key, levels, memory)
        first, parts = jax.device_get(first), []
        while bool(now.playing.any()):
            if stopped():
                return []
            now, part = self._segment(now)
            parts.append(jax.device_get(part))
        steps = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
        return [_episode(first, steps, row) for row in range(steps.playing.shape[1])]


def _episode(first: Any, steps: _Steps, row: int) -> Episode:
    """Return the episode of environment `row` of the batch; `first` are all first observations."""
    length = int(steps.playing[:, row].sum())
    taken: Any = jax.tree.map(lambda leaf: leaf[:length, row], steps)
    return Episode(
        obs=jax.tree.map(lambda a, b: np.concatenate([a[row][None], b]), first, taken.next_obs),
        action=taken.action,
        reward=taken.reward,
        terminated=taken.terminated,
        truncated=taken.truncated,
    )
