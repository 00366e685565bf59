"""Play one episode in each of many environments, until the longest has ended.

`first_episodes` plays them in one program. `EpisodePlayer` calls a program several times, and
continues with a smaller batch when only a few long episodes are left.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from jaxenvs import Env, make_vec
from jaxenvs.core.masking import legal, legal_actions
from jaxenvs.core.parts.learner import defines_success
from jaxenvs.core.vector import over_rows

from . import terminal

FIRST_STEPS = 1000  # number of steps that `EpisodePlayer.begin` plays
NEXT_STEPS = 250  # number of steps that `EpisodePlayer.finish` plays at a time
# `EpisodePlayer.finish` continues with a smaller batch if it has at most 1 / SHRINK of the current
# size. With a smaller number, more programs would be compiled, each for a smaller gain.
SHRINK = 8

Act = Callable[..., Any]


class Episodes(NamedTuple):
    """Results of finished episodes, one episode per environment."""

    returns: Float32[Array, "*seeds episodes"]
    lengths: Int32[Array, "*seeds episodes"]  # number of steps of each episode
    terminated: Bool[Array, "*seeds episodes"]  # whether the episode terminated; False: truncated
    # Whether the episode succeeded; None if the environment does not define success.
    succeeded: Bool[Array, "*seeds episodes"] | None = None
    # Whether each achievement was earned; None if the environment has no achievements.
    achieved: Bool[Array, "*seeds episodes achievements"] | None = None


class _Batch(NamedTuple):
    """Environments that play one episode each; the first axis is the environments."""

    key: Array  # without the axis of environments
    obs: PyTree[Array]
    state: Any
    memory: PyTree[Array]  # recurrent states of the policy; None: the policy has no memory
    playing: Bool[Array, " envs"]  # whether the episode has not ended
    episodes: Episodes  # results so far


def first_episodes(
    env: Env, act: Act, key: Array, count: int, memory: Any = None, params: Any = None
) -> Episodes:
    """Play one episode in each of `count` environments, until the longest episode has ended.

    `act(key, obs, state)` returns the actions of the batch. For a recurrent policy, `memory` is the
    recurrent state at the start of an episode, and `act(key, obs, state, memory)` returns actions
    and recurrent states.

    There is no autoreset: with it, short episodes would be overrepresented among the first `count`
    to end. `params` are environment params, either shared by all environments or with one value for
    each environment.
    """
    step = functools.partial(_stepped, env, act, params=params)
    first = _begun(env, key, count, memory, params)
    return jax.lax.while_loop(lambda batch: batch.playing.any(), step, first).episodes


def random_episodes(env: Env, key: Array, count: int) -> Episodes:
    """Play `count` episodes with uniformly drawn legal actions, one per environment."""

    def draw(key: Array, state: Any) -> Array:
        mask = legal_actions(env, state)
        if mask is None:
            return env.action_space.sample(key)
        return jax.random.categorical(key, legal(jnp.zeros(mask.shape, jnp.float32), mask))

    def act(key: Array, obs: Any, state: Any) -> Array:
        return jax.vmap(draw)(jax.random.split(key, count), state)

    return first_episodes(env, act, key, count)


def _begun(env: Env, key: Array, count: int, memory: Any, params: Any = None) -> _Batch:
    """Return a batch of `count` environments at the start of their episodes."""
    names = len(env.achievements)
    key_reset, key_play = jax.random.split(key)
    first = make_vec(env, count, autoreset="none").reset(key_reset, params)
    nothing = Episodes(
        returns=jnp.zeros(count, jnp.float32),
        lengths=jnp.zeros(count, jnp.int32),
        terminated=jnp.zeros(count, jnp.bool_),
        succeeded=jnp.zeros(count, jnp.bool_) if defines_success(env) else None,
        achieved=jnp.zeros((count, names), jnp.bool_) if names else None,
    )
    memory = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (count, *leaf.shape)), memory)
    playing = jnp.ones(count, jnp.bool_)
    return _Batch(key_play, first.obs, first.state, memory, playing, nothing)


def _stepped(env: Env, act: Act, batch: _Batch, params: Any = None) -> _Batch:
    """Advance every environment of a batch by one action.

    The results of an episode that has ended do not change.
    """
    key, key_act, key_step = jax.random.split(batch.key, 3)
    memory, playing, episodes = batch.memory, batch.playing, batch.episodes
    if memory is None:
        action = act(key_act, batch.obs, batch.state.env)
    else:
        action, memory = act(key_act, batch.obs, batch.state.env, memory)
    venv = make_vec(env, len(playing), autoreset="none")
    step = venv.step(key_step, batch.state, action, params)
    succeeds = jax.vmap(env.succeeded)(step._replace(state=step.state.env))
    earned = playing[:, None] & step.info["achievements"] if env.achievements else None
    episodes = Episodes(
        returns=episodes.returns + jnp.where(playing, step.reward, 0.0),
        lengths=episodes.lengths + playing.astype(jnp.int32),
        terminated=episodes.terminated | (playing & step.terminated),
        succeeded=None if succeeds is None else episodes.succeeded | (playing & succeeds),
        achieved=None if earned is None else episodes.achieved | earned,
    )
    return _Batch(key, step.obs, step.state, memory, playing & ~step.done, episodes)


class Begun(NamedTuple):
    """Episodes that `EpisodePlayer.begin` has begun to play."""

    weights: PyTree[Array]  # the first axis of every array is the agents
    batch: _Batch  # the same, before the axis of environments


class EpisodePlayer:
    """Plays `count` episodes of each of `agents` agents, also episodes of very different lengths.

    `act(weights, key, obs, state, memory)` returns the actions and recurrent states of one agent's
    batch. `memory` is the recurrent state at the start of an episode.

    A policy that survives makes a few episodes very long. After `FIRST_STEPS`, a smaller batch
    continues as soon as it needs at most `1 / SHRINK` of the environments. Its size is the number
    of episodes that are left, rounded up to a power of two, and its program is compiled when it is
    first needed. Until then, `first_episodes` would give the same results. Later steps use other
    random numbers.
    """

    def __init__(
        self, env: Env, act: Act, count: int, memory: PyTree[Array], agents: int = 1
    ) -> None:
        def begin(key: Array) -> _Batch:
            return _begun(env, key, count, memory)

        def step(weights: PyTree[Array], batch: _Batch) -> _Batch:
            return _stepped(env, functools.partial(act, weights), batch)

        def play(weights: PyTree[Array], batch: _Batch, steps: int) -> _Batch:
            over_agents = over_rows(step, (0, 0), agents)

            def goes_on(carry: tuple[Array, _Batch]) -> Array:
                return (carry[0] < steps) & carry[1].playing.any()

            def advance(carry: tuple[Array, _Batch]) -> tuple[Array, _Batch]:
                return carry[0] + 1, over_agents(weights, carry[1])

            return jax.lax.while_loop(goes_on, advance, (jnp.int32(0), batch))[1]

        self._begin, self._play = jax.jit(over_rows(begin, (0,), agents)), jax.jit(play)

    def begin(self, weights: PyTree[Array], keys: Array) -> Begun:
        """Begin the episodes of all agents, whose weights and keys have a first axis of agents.

        The method returns before the device has played the first `FIRST_STEPS` steps.
        """
        return Begun(weights, self._play(weights, self._begin(keys), FIRST_STEPS))

    def finish(self, begun: Begun) -> Episodes:
        """Play the episodes to their ends; return results (agents, episodes) as NumPy arrays.

        The activity in the terminal shows the number of episodes that are left.
        """
        weights, batch = begun
        playing, steps = np.asarray(batch.playing), FIRST_STEPS
        total, (agents, count) = playing.size, playing.shape
        numbers = np.broadcast_to(np.arange(count), (agents, count))
        found = jax.tree.map(np.array, jax.device_get(batch.episodes))
        while playing.any():
            terminal.detail(f"{playing.sum()} of {total} episodes continue after {steps:,} steps")
            needed = 1 << int(playing.sum(axis=1).max() - 1).bit_length()
            if needed * SHRINK <= playing.shape[1]:
                rows = np.argsort(~playing, axis=1, kind="stable")[:, :needed]
                numbers = np.take_along_axis(numbers, rows, axis=1)
                batch = _selected(batch, rows)
            batch = self._play(weights, batch, NEXT_STEPS)
            steps += NEXT_STEPS
            playing = np.asarray(batch.playing)
            _store(found, numbers, jax.device_get(batch.episodes))
        terminal.detail("")
        return found


@jax.jit
@jax.vmap
def _selected(batch: _Batch, rows: Array) -> _Batch:
    """Return the environments `rows` of a batch."""
    arrays = batch.obs, batch.state.env, batch.memory, batch.playing, batch.episodes
    obs, state, memory, playing, episodes = jax.tree.map(lambda leaf: leaf[rows], arrays)
    return _Batch(batch.key, obs, batch.state.replace(env=state), memory, playing, episodes)


def _store(found: Episodes, numbers: np.ndarray, episodes: Episodes) -> None:
    """Store the results of the episodes `numbers` (agents, envs) in `found`."""
    agents = np.arange(len(numbers))[:, None]
    for leaf, new in zip(jax.tree.leaves(found), jax.tree.leaves(episodes), strict=True):
        leaf[agents, numbers] = new
