"""A small environment whose legal actions change from step to step."""

import jax.numpy as jnp
from tiny import Clock

from jaxenvs.core.spaces import Discrete


class Gate(Clock):
    """Environment with three actions: the first is illegal at even times, the last at odd times.

    An episode ends at time 5, which is odd, and the next begins at time 0, which is even. So the
    masks of the final and the first state differ.
    """

    @property
    def action_space(self) -> Discrete:
        """Return a space of three actions, which have the same effect."""
        return Discrete(3)

    def action_mask(self, state, params=None):
        """Return the legal actions at this time."""
        odd = state.time % 2 == 1
        return jnp.stack([odd, jnp.ones((), jnp.bool_), ~odd])
