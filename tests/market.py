"""`Market`, a minimal environment for tests of `Env.facts` and of text descriptions."""

import jax
import jax.numpy as jnp
import numpy as np

import jaxenvs


@jaxenvs.struct
class Purse(jaxenvs.State):
    """State with a number of coins, in addition to the step counter `time`."""

    coins: jax.Array


class Market(jaxenvs.Env):
    """Environment that defines none of the methods `facts`, `describe` and `text_inputs`."""

    action_space = jaxenvs.spaces.Discrete(3)
    observation_space = jaxenvs.spaces.Box(0, 9, (2, 2), np.uint8)
    default_params = jaxenvs.Params(max_steps_in_episode=np.int32(5))

    def observe(self, state, params=None):
        return jnp.full((2, 2), 1, jnp.uint8) * state.coins.astype(jnp.uint8)
