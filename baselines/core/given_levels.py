"""Wrapper that plays chosen levels: each environment of a batch repeats its own level.

The level is part of the environment's params, and every reset begins in this level. A rollout
therefore plays chosen levels if these params are passed to it.
"""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from jaxenvs import levels
from jaxenvs.core.struct import Struct, struct
from jaxenvs.core.wrapper import Wrapper


@struct
class LevelParams(Struct):
    """Params of `GivenLevel`: the wrapped environment's params, and the level of every episode."""

    env: Any
    level: Any

    @property
    def max_steps_in_episode(self) -> Any:
        """Time limit of the wrapped environment, in steps."""
        return self.env.max_steps_in_episode


class GivenLevel(Wrapper):
    """Begin every episode in the level `params.level`, which may differ between environments."""

    # A reset copies the level from the params and generates nothing, so a pool of levels generated
    # in advance would save no time. `fresh`, which calls `draw_level` in every step, is simplest.
    reset_source: ClassVar[str] = "fresh"
    level_budget: ClassVar[int] = 1

    @property
    def default_params(self) -> LevelParams:
        """Params whose level is a placeholder: zeros of the right shapes and dtypes."""
        return LevelParams(env=self.env.default_params, level=_zeros(self.env.level_shape))

    def inner_params(self, params: LevelParams | None) -> Any:
        """Return the params of the wrapped environment."""
        return None if params is None else params.env

    def draw_level(self, key: Array, params: LevelParams) -> PyTree[Array]:
        """Return the level `params.level`; nothing is drawn."""
        return params.level

    def accepts(self, level: PyTree[Array]) -> Bool[Array, ""]:
        """Return True: the level is played even if the wrapped environment would not accept it."""
        return jnp.ones((), jnp.bool_)

    def params_for(self, level: PyTree[Array]) -> LevelParams:
        """Return params with `level`: one level, or a batch with one for each environment."""
        return LevelParams(env=self.env.default_params, level=level)


def new_levels(env: GivenLevel, key: Array, count: int) -> PyTree[Array]:
    """Draw `count` levels of the wrapped environment, stacked along a new first axis."""
    keys = jax.random.split(key, count)
    if env.levels_at_once:
        return jax.lax.map(env.env.sample_level, keys, batch_size=env.levels_at_once)
    return jax.vmap(env.env.sample_level)(keys)


def edited(env: GivenLevel, key: Array, before: PyTree[Array], edits: int) -> PyTree[Array]:
    """Apply `edits` random edits to each level of `before`, see `jaxenvs.levels.mutate`."""
    keys = jax.random.split(key, len(jax.tree.leaves(before)[0]))

    def edit(key: Array, level: PyTree[Array]) -> PyTree[Array]:
        return levels.mutate(env, key, level, edits)

    return jax.vmap(edit)(keys, before)


def _zeros(shape: PyTree[Any]) -> PyTree[Any]:
    """Return zeros with the shapes and dtypes in `shape`; a random key has zeros as its data."""

    def zero(leaf: Any) -> Any:
        if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
            data = jax.eval_shape(jax.random.key_data, leaf)
            return jax.random.wrap_key_data(jnp.zeros(data.shape, data.dtype))
        return np.zeros(leaf.shape, leaf.dtype)

    return jax.tree.map(zero, shape)
