"""`Subject`, an environment whose functions are compiled once for all checks.

Functions that compare and index pytrees are here too.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from ..core.env import Env, Reset, Step
from ..core.extras import MissingExtraError

try:
    import chex
except ImportError as error:
    raise MissingExtraError(["chex"], "test") from error

STEPS = 256  # number of steps of a rollout, which does not stop at the end of an episode
EPSILON = float(np.finfo(np.float32).eps)


@dataclasses.dataclass(frozen=True)
class Subject:
    """An environment and its jitted functions, which all checks use."""

    env: Env
    reset: Callable[..., Reset]  # `env.reset`: (key, params) -> first observation and state
    step: Callable[..., Step]  # `env.step`: (key, state, action, params) -> result of the step
    batch_step: Callable[..., Step]  # `step` under `vmap`, with a leading axis in every argument
    # (key_reset, keys, actions, params) -> (result of the reset, results of all steps).
    rollout: Callable[..., tuple[Reset, Step]]

    @classmethod
    def of(cls, env: Env) -> "Subject":
        """Make the subject of an environment; its functions are compiled at their first call."""

        def rollout(key: Array, keys: Array, actions: PyTree, params: Any) -> tuple[Reset, Step]:
            def one(state: Any, key_and_action: Any) -> tuple[Any, Step]:
                step = env.step(key_and_action[0], state, key_and_action[1], params)
                return step.state, step

            first = env.reset(key, params)
            return first, jax.lax.scan(one, first.state, (keys, actions))[1]

        return cls(
            env=env,
            reset=jax.jit(env.reset),
            step=jax.jit(env.step),
            batch_step=jax.jit(jax.vmap(env.step)),
            rollout=jax.jit(rollout),
        )

    @functools.cached_property
    def episode(self) -> tuple[Reset, Step]:
        """Result of the reset and results of all steps of a rollout with the default params.

        The function `plan` returns the keys and actions of the rollout.
        """
        return self.rollout(*plan(self.env), self.env.default_params)


def plan(env: Env, seed: int = 0, steps: int = STEPS) -> tuple[Array, Array, PyTree[Array]]:
    """Return the inputs of a rollout: a reset key, and a key and a random action per step."""
    key_world, key_steps, key_actions = jax.random.split(jax.random.key(seed), 3)
    actions = jax.vmap(env.action_space.sample)(jax.random.split(key_actions, steps))
    return key_world, jax.random.split(key_steps, steps), actions


def assert_same(a: PyTree, b: PyTree, what: str, one_program: bool = False) -> None:
    """Assert that two pytrees have the same structure and dtypes, and equal values.

    With `one_program`, both pytrees come from one compiled program, and values must agree in every
    bit. Otherwise floats may differ by about two units in the last place, because XLA compiles sums
    of products differently in each program. `what` begins the error message.
    """

    def equal(x: Any, y: Any) -> bool:
        floats = jnp.issubdtype(x.dtype, jnp.floating)
        if floats and not one_program:
            return np.allclose(x, y, rtol=2 * EPSILON, atol=EPSILON, equal_nan=True)
        return np.array_equal(x, y, equal_nan=floats)

    def difference(x: Any, y: Any) -> str:
        wrong = np.atleast_1d(np.asarray(x) != np.asarray(y))
        return f"{np.atleast_1d(x)[wrong][:5]} and {np.atleast_1d(y)[wrong][:5]}"

    chex.assert_trees_all_equal_structs(a, b, custom_message=what)
    chex.assert_trees_all_equal_shapes_and_dtypes(a, b, custom_message=what)
    chex.assert_trees_all_equal_comparator(equal, difference, a, b, custom_message=what)


def at(tree: PyTree, index: int) -> PyTree:
    """Return entry `index` of every array of a pytree."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: list[Any]) -> Any:
    """Stack pytrees along a new first axis.

    NumPy arrays are stacked with NumPy, which needs no compilation.
    """

    def join(*leaves: Any) -> Any:
        numpy = isinstance(leaves[0], np.ndarray | np.generic)
        return np.stack(leaves) if numpy else jnp.stack(leaves)

    return jax.tree.map(join, *trees)


def types_of(tree: PyTree) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return a pytree's structure, and the shape, dtype and weak type of each leaf.

    `jit` compiles again if any of these changes.
    """
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(x.shape, x.dtype, x.weak_type) for x in leaves]
