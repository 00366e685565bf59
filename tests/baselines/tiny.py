"""Small environments and learners for the tests of the baselines."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32

import jaxenvs
from jaxenvs.baselines import networks, ppo
from jaxenvs.baselines.devices import ALONE, Devices
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Discrete


class Endless(Env):
    """A reward of 1 in every step, for ever; only the time limit cuts it. The observation is 1."""

    fully_observed = True  # there is nothing but the clock

    @property
    def default_params(self) -> Params:
        """Five steps."""
        return Params(max_steps_in_episode=np.int32(5))

    @property
    def action_space(self) -> Discrete:
        """Two actions that do the same."""
        return Discrete(2)

    @property
    def observation_space(self) -> Box:
        """One number."""
        return Box(0.0, 9.0, (1,), np.float32)

    def reset_state(self, key, level, params):
        """Only the clock."""
        return State(time=jnp.int32(0))

    def step_state(self, key, state, action, params):
        """A reward, and no end."""
        return Transition(state, jnp.float32(1.0), jnp.bool_(False))

    def observe(self, state, params=None):
        """A constant: nothing tells how near the limit is."""
        return jnp.ones(1, jnp.float32)


class Clock(Endless):
    """The same, but the observation is the time: the true successor of a cut episode shows 5."""

    def observe(self, state, params=None):
        """The time."""
        return state.time[None].astype(jnp.float32)


@jaxenvs.struct
class CountdownState(State):
    """An episode that ends when its number of steps is up."""

    length: Int32[Array, ""]  # steps


class Countdown(Endless):
    """Episodes of 1 to 8 steps, drawn at the start, that end with their length as the reward."""

    fully_observed = False  # nobody sees the length

    @property
    def default_params(self) -> Params:
        """A limit that cuts the longest episodes, of 7 and 8 steps, before their reward."""
        return Params(max_steps_in_episode=np.int32(6))

    def draw_level(self, key, params):
        """A length."""
        return jaxenvs.core.random.below(jaxenvs.core.random.words(key, 1)[0], 8) + 1

    def reset_state(self, key, level, params):
        """Nothing but the length."""
        return CountdownState(time=jnp.int32(0), length=level)

    def step_state(self, key, state, action, params):
        """The reward comes at the end."""
        ends = state.time >= state.length
        return Transition(state, jnp.where(ends, state.length, 0).astype(jnp.float32), ends)

    def succeeded(self, step):
        """A reward of more than 3 is a success."""
        return step.reward > 3


def learner(env: Env, devices: Devices = ALONE, **settings) -> ppo.PPO:
    """A PPO with a network of a few units."""
    defaults = {"num_envs": 8, "rollout_steps": 16, "minibatches": 2, "hidden": (8,), "embed": 2}
    chosen = ppo.Settings(**(defaults | settings))
    chosen.check()
    venv = devices.batch(env, chosen.num_envs, None)
    network = networks.ActorCritic.of(env, chosen.hidden, chosen.embed)
    return ppo.PPO(venv, network, chosen, devices)
