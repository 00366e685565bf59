"""Environments compiled for checks, and comparisons of pytrees."""

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

STEPS = 256  # steps of a rollout, which continues after the episode's end
EPSILON = float(np.finfo(np.float32).eps)


@dataclasses.dataclass(frozen=True)
class Subject:
    """An environment with its functions compiled once for all checks."""

    env: Env
    reset: Callable[..., Reset]  # function of (key, params)
    step: Callable[..., Step]  # function of (key, state, action, params)
    batch_step: Callable[..., Step]  # `step` over a leading axis of every argument
    rollout: Callable[..., tuple[Reset, Step]]  # function of (key_reset, keys, actions, params)

    @classmethod
    def of(cls, env: Env) -> "Subject":
        """Wrap the environment; its functions compile at their first call."""

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
        """The first state and all steps of `plan(env)`, with the default params."""
        return self.rollout(*plan(self.env), self.env.default_params)


def plan(env: Env, seed: int = 0, steps: int = STEPS) -> tuple[Array, Array, PyTree[Array]]:
    """Return the reset key, the step keys and random actions of a rollout."""
    key_world, key_steps, key_actions = jax.random.split(jax.random.key(seed), 3)
    actions = jax.vmap(env.action_space.sample)(jax.random.split(key_actions, steps))
    return key_world, jax.random.split(key_steps, steps), actions


def assert_same(a: PyTree, b: PyTree, what: str, one_program: bool = False) -> None:
    """Assert that two pytrees are equal in structure, dtypes and every bit.

    Floats of two programs may differ in the last two bits: XLA compiles sums of products
    differently in each program.
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
    """Index a pytree along its first axis."""
    return jax.tree.map(lambda leaf: leaf[index], tree)


def stack(trees: list[Any]) -> Any:
    """Join pytrees along a new first axis; NumPy arrays stay NumPy and compile nothing."""

    def join(*leaves: Any) -> Any:
        numpy = isinstance(leaves[0], np.ndarray | np.generic)
        return np.stack(leaves) if numpy else jnp.stack(leaves)

    return jax.tree.map(join, *trees)


def types_of(tree: PyTree) -> tuple[Any, list[tuple[Any, ...]]]:
    """Return the structure, and each leaf's shape, dtype and weak type: `jit` recompiles if any
    differs."""
    leaves, structure = jax.tree.flatten(tree)
    return structure, [(x.shape, x.dtype, x.weak_type) for x in leaves]
