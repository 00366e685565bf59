"""Shared code of the tests of `ExportedBatch` and `to_torch_vec`."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt16, UInt32

from jaxenvs import make_vec
from jaxenvs.core.env import Env, Params, State, Transition
from jaxenvs.core.masking import has_illegal
from jaxenvs.core.spaces import Box, Dict, Discrete
from jaxenvs.core.struct import struct

MODES = ("same_step", "next_step", "none")
SEED = 7


@struct
class EchoState(State):
    """State with the last action; all fields except the clock are observed unchanged."""

    goal: Float32[Array, " 16"]  # constant during an episode
    action: Int32[Array, ""]
    wide: UInt32[Array, ""]
    narrow: UInt16[Array, ""]


class Echo(Env):
    """Environment that returns fields of its state, unchanged, as observations and infos."""

    reward_range = (0.0, 1000.0)

    @property
    def default_params(self):
        """Return params with a time limit of five steps, which truncates most episodes."""
        return Params(max_steps_in_episode=np.int32(5))

    @property
    def action_space(self):
        """Return a space of 1,000 actions; the state stores the last action."""
        return Discrete(1000)

    @property
    def observation_space(self):
        """Return a dict space with unsigned integers; `reset_state` uses their largest values."""
        return Dict(
            {
                "goal": Box(0, 1, (16,), np.float32),
                "action": Box(0, 1000, (), np.int32),
                "wide": Box(0, 2**32 - 1, (), np.uint32),
                "narrow": Box(0, 2**16 - 1, (), np.uint16),
            }
        )

    def draw_level(self, key, params):
        """Draw the goal."""
        return jax.random.uniform(key, (16,), jnp.float32)

    def reset_state(self, key, level, params):
        """Begin with the largest values of both unsigned integers."""
        wide, narrow = jnp.uint32(2**32 - 1), jnp.uint16(2**16 - 1)
        zero = jnp.int32(0)
        return EchoState(time=zero, goal=level, action=zero, wide=wide, narrow=narrow)

    def step_state(self, key, state, action, params):
        """Store the action; an action of 900 or more ends the episode."""
        after = state.replace(action=action)
        info = {"goal": state.goal, "action": action}
        return Transition(after, action.astype(jnp.float32), action >= 900, info)

    def observe(self, state, params=None):
        """Return the fields of the state except the clock, as a dict."""
        names = ("goal", "action", "wide", "narrow")
        return {name: getattr(state, name) for name in names}


ECHO = Echo()


def native(env, actions, mode, seed=SEED):
    """Return copies of all results of `make_vec` for `actions` (steps, num_envs).

    Random keys are derived from the seed as the documentation of `to_torch_vec` says. With mode
    "none", environments are reset when they are done. Params are arguments of the compiled step,
    because XLA would round a division by a constant differently.
    """
    params = env.default_params
    venv = make_vec(env, actions.shape[1], autoreset=mode)
    step, numbers = jax.jit(venv.step), iter(range(10**6))

    def key():
        return jax.random.fold_in(jax.random.key(seed), next(numbers))

    def seen(info):
        mask = {"action_mask": venv.action_mask(state, params)} if has_illegal(env) else {}
        return {**info, **mask}

    obs, state = venv.reset(key(), params)
    found = [copied((obs, seen({})))]
    for action in actions:
        obs, state, reward, terminated, truncated, info = step(key(), state, action, params)
        found.append(copied((obs, reward, terminated, truncated, seen(info))))
        done = np.asarray(terminated | truncated)
        if mode == "none" and done.any():
            obs, state = venv.reset_rows(key(), state, jnp.asarray(done), params)
            found.append(copied((obs, seen({}))))
    return found


def copied(results):
    """Return results as NumPy arrays in new memory."""
    return jax.tree.map(lambda leaf: np.array(leaf, copy=True), results)


def assert_same(found, wanted):
    """Assert that all results are equal bit by bit and have equal dtypes."""
    for moment, pair in enumerate(zip(found, wanted, strict=True)):
        (a, kind), (b, other) = (jax.tree.flatten(side) for side in pair)
        assert kind == other, (moment, kind, other)
        for x, y in zip(a, b, strict=True):
            assert x.dtype == y.dtype and x.tobytes() == y.tobytes(), (moment, x, y)


def actions_for(env, steps, num_envs):
    """Draw random discrete actions (steps, num_envs), int32."""
    return np.random.default_rng(0).integers(0, env.action_space.n, (steps, num_envs), np.int32)
