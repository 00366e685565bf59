"""Two environments with the same rules: in one a sleep lasts several steps, in the other one."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

import jaxenvs
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Discrete

SLEEP = 2  # the action that puts the player to sleep; the only legal one while it sleeps
LIMIT = 12  # ticks after which an episode is truncated
REWARD = np.random.default_rng(3).normal(size=(LIMIT + 2, 2)).astype(np.float32)
WAKES = np.isin(np.arange(LIMIT + 2), (3, 6, 9, 11))  # whether a sleeper wakes at this tick
DIES = np.isin(np.arange(LIMIT + 2), (5, 8))  # whether a sleeper dies at this tick


@jaxenvs.struct
class SleeperState(State):
    """State of an episode."""

    tick: Int32[Array, ""]  # ticks since the reset
    asleep: Bool[Array, ""]


class Sleeper(Env):
    """Environment whose player sleeps for several steps, in which only one action is legal.

    Rewards depend on the tick and on sleep. A sleeper may die, and the time limit may end an
    episode during a sleep.
    """

    @property
    def default_params(self) -> Params:
        """Return params without a time limit: `time_limit` truncates by ticks."""
        return Params(max_steps_in_episode=np.int32(LIMIT))

    @property
    def action_space(self) -> Discrete:
        """Return a space of three actions: two that pay, and sleep."""
        return Discrete(3)

    @property
    def observation_space(self) -> Box:
        """Return a space of the tick and whether the player is asleep."""
        return Box(0.0, float(LIMIT), (2,), np.float32)

    def reset_state(self, key, level, params):
        """Return the initial state, awake."""
        return SleeperState(time=jnp.int32(0), tick=jnp.int32(0), asleep=jnp.bool_(False))

    def time_limit(self, state, params):
        """Return a limit that truncates the episode if its last tick is reached."""
        return jnp.where(state.tick >= LIMIT, 0, 2 * LIMIT)

    def step_state(self, key, state, action, params):
        """Make one tick."""
        return tick(state, action)

    def observe(self, state, params=None):
        """Observe the tick and whether the player is asleep."""
        return jnp.stack([each.astype(jnp.float32) for each in (state.tick, state.asleep)])

    def action_mask(self, state, params=None):
        """Return the legal actions: all while awake, one while asleep."""
        return jnp.stack([~state.asleep, ~state.asleep, jnp.bool_(True)])


class Napper(Sleeper):
    """Environment `Sleeper` in which one step lasts until the player is awake."""

    def step_state(self, key, state, action, params):
        """Make one tick, and then further ticks until the player wakes or the episode ends."""

        def sleeps(now):
            return now.state.asleep & ~now.terminated & (now.state.tick < LIMIT)

        def sleep(now):
            later = tick(now.state, jnp.int32(SLEEP))
            return later._replace(reward=now.reward + later.reward)

        return jax.lax.while_loop(sleeps, sleep, tick(state, action))


class ForcedSleeper(Sleeper):
    """Environment `Sleeper` that asks learners to skip forced steps."""

    @property
    def skips_forced(self) -> bool:
        """Return that learners skip forced steps."""
        return True


def tick(state, action):
    """Return the consequences of one tick."""
    now, was_asleep = state.tick + 1, state.asleep
    asleep = jnp.where(was_asleep, ~jnp.asarray(WAKES)[now], action == SLEEP)
    reward = jnp.asarray(REWARD)[now, was_asleep.astype(jnp.int32)]
    reward += jnp.where(was_asleep, 0.0, 0.3 * action.astype(jnp.float32))
    after = state.replace(tick=now, asleep=asleep)
    return Transition(after, reward, was_asleep & jnp.asarray(DIES)[now])


class Dreamer(Sleeper):
    """Environment of one decision: a reward of 0.4 now, or 1 after a sleep of `LIMIT` ticks."""

    def time_limit(self, state, params):
        """Return a limit that no episode reaches."""
        return jnp.int32(10 * LIMIT)

    def step_state(self, key, state, action, params):
        """Make one tick."""
        asleep = state.asleep | (action == SLEEP)
        now = state.tick + 1
        ends = ~asleep | (now > LIMIT)
        reward = jnp.where(ends, jnp.where(asleep, 1.0, 0.4), 0.0)
        return Transition(state.replace(tick=now, asleep=asleep), reward, ends)
