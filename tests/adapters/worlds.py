"""Shared code of the adapter tests: ids, and a small environment with a Dict observation."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array, Int32

import jaxenvs
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.spaces import Box, Dict, Discrete, MultiDiscrete
from jaxenvs.core.struct import struct

IDS = jaxenvs.registry.list()
# Family -> id with which tests of compiled programs run by default. For all other ids these tests
# are marked `slow`.
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)}


def by_default(ids, of=IDS, full=()):
    """Return pytest parameters for the ids `of`, with markers.

    Ids in `ids` have no marker, ids in `full` the marker `full`, and all others the marker `slow`.
    """
    run = dict.fromkeys(ids, ()) | dict.fromkeys(full, pytest.mark.full)
    return [pytest.param(id, marks=run.get(id, pytest.mark.slow)) for id in of]


@struct
class DoorsState(State):
    """State with a number that actions change, and the length of the episode."""

    number: Int32[Array, ""]
    length: Int32[Array, ""]  # number of steps of the episode


class Doors(Env):
    """Environment that adds each action to a number; the reward of a step is the number.

    An episode terminates after 2 to 9 steps, unless the default time limit of 7 steps truncates it
    before. The observation is a dict with every kind of space. Actions are discrete; with `vector`,
    an action is a vector of two integers.
    """

    vector: bool = False
    most: int = 3  # number of actions; the largest action adds most - 1

    reward_range = (0.0, 1000.0)

    @property
    def default_params(self) -> Params:
        """Return params with a time limit of seven steps, which truncates some episodes."""
        return Params(max_steps_in_episode=np.int32(7))

    @property
    def action_space(self):
        """Return the space of actions, which are numbers to add."""
        return MultiDiscrete([self.most, 2]) if self.vector else Discrete(self.most)

    @property
    def observation_space(self):
        """Return a dict space that contains another dict space."""
        inside = Dict({"parity": Discrete(2), "flags": Box(False, True, (3,), np.bool_)})
        number = Box(0, 1000, (), np.int32)
        half = Box(-np.inf, np.inf, (1,), np.float32)
        return Dict(
            {"number": number, "half": half, "pair": MultiDiscrete([2, 3]), "inside": inside}
        )

    def draw_level(self, key, params):
        """Draw the length of the episode."""
        return jax.random.randint(key, (), 2, 10, jnp.int32)

    def reset_state(self, key, level, params):
        """Begin with a random number."""
        number = jax.random.randint(key, (), 0, 5, jnp.int32)
        return DoorsState(time=jnp.int32(0), number=number, length=level)

    def step_state(self, key, state, action, params):
        """Add the action, and 1 more with probability 1/2, to the number."""
        more = jax.random.randint(key, (), 0, 2, jnp.int32)
        number = state.number + jnp.sum(action, dtype=jnp.int32) + more
        info = {"nested": {"more": more, "both": jnp.stack([more, number])}}
        after = state.replace(number=number)
        return Transition(after, number.astype(jnp.float32), state.time >= state.length, info)

    def observe(self, state, params=None):
        """Observe the number, as elements of several spaces."""
        number = state.number
        flags = jnp.stack([number % k == 0 for k in (2, 3, 5)])
        return {
            "number": number,
            "half": (number.astype(jnp.float32) / 2)[None],
            "pair": jnp.stack([number % 2, number % 3]),
            "inside": {"parity": number % 2, "flags": flags},
        }

    def action_mask(self, state, params=None):
        """Forbid the largest action if the number is odd; with `vector`, use the default mask."""
        allowed = jnp.arange(self.most) < self.most - state.number % 2
        return allowed if not self.vector else super().action_mask(state, params)


DOORS = Doors()
