"""Levels and first states of the rows of a batch, from each row's key, params and candidates.

A row is one environment of the batch.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from . import checks
from .env import Env, Reset
from .random import Keys

# Purposes of keys. A key is folded with one number: purpose in the high bits, row in the low bits.
STEP, RESET, LEVEL, POOL, STOCK, STOCK_RESET = range(6)
PURPOSE_SHIFT = 28


class Starts(NamedTuple):
    """Inputs that determine the first states of all rows."""

    env: Env
    num_envs: int
    key: Keys  # one key for the batch, or one for each environment
    params: Any  # any leaf may have a first axis of `num_envs`

    @property
    def rows(self) -> Int32[Array, " num_envs"]:
        """Indices of all rows, 0 to num_envs - 1."""
        return jnp.arange(self.num_envs, dtype=jnp.int32)

    @property
    def axes(self) -> Any:
        """Axes of `params` for `vmap`."""
        return param_axes(self.env, self.params)

    @property
    def has_one_setting(self) -> bool:
        """True if all environments have the same params."""
        return not jax.tree.leaves(self.axes)  # None is not a leaf

    def keys(self, purpose: int, rows: Int32[Array, " rows"]) -> Keys:
        """Return a key for each row; the keys of different purposes are independent."""
        if self.key.ndim:
            return jax.vmap(jax.random.fold_in, in_axes=(0, None))(self.key[rows], purpose)
        return self.shared_keys(purpose, rows)

    def shared_keys(self, purpose: int, numbers: Int32[Array, " numbers"]) -> Keys:
        """Return a key for each of `numbers`, folded into the first key of the batch."""
        # Purpose and number are folded in together: each fold is a threefry, one or two kernels.
        folded = numbers.astype(jnp.uint32) | jnp.uint32(purpose << PURPOSE_SHIFT)
        key = self.key.reshape(-1)[0]
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, folded)

    def params_of(self, rows: Array) -> Any:
        """Return the params of rows, or of one row."""
        return jax.tree.map(
            lambda leaf, axis: leaf if axis is None else jnp.asarray(leaf)[rows],
            self.params,
            self.axes,
        )

    def begin(self, rows: Int32[Array, " rows"], levels: Any, params: Any) -> Reset:
        """Start an episode in the given level of each row."""
        return self.begin_with(self.keys(RESET, rows), levels, params)

    def begin_with(self, keys: Keys, levels: Any, params: Any) -> Reset:
        """Start an episode in each level, with the key at the same index."""
        with checks.level_is_drawn():
            return jax.vmap(self.env.reset_to, in_axes=(0, 0, self.axes))(keys, levels, params)

    def states(self, rows: Int32[Array, " rows"], levels: Any) -> Any:
        """Return the first state of each row in its level."""
        return self.begin(rows, levels, self.params_of(rows)).state

    def candidates(
        self, keys: Keys, number: Int32[Array, " rows"], params: Any
    ) -> tuple[Any, Bool[Array, " rows"]]:
        """Draw candidate level `number` for each key, and tell which ones are accepted.

        The last candidate of the budget is always accepted.
        """
        levels = jax.vmap(self.env.candidate, in_axes=(0, 0, self.axes))(keys, number, params)
        if self.env.level_budget == 1:
            return levels, jnp.ones(number.shape, jnp.bool_)
        last = number + 1 >= self.env.level_budget
        return levels, jax.vmap(self.env.accepts)(levels) | last

    def new_rows(self, rows: Int32[Array, " rows"]) -> Reset:
        """Start an episode for each of the given rows, each in a fresh level."""
        count, size = rows.shape[0], self.env.levels_at_once or rows.shape[0]

        def begin(rows: Int32[Array, " rows"]) -> Reset:
            chosen = self.params_of(rows)
            draw = jax.vmap(self.env.sample_level, in_axes=(0, self.axes))
            return self.begin(rows, draw(self.keys(LEVEL, rows), chosen), chosen)

        if count <= size:
            return begin(rows)
        groups = -(-count // size)  # the last group is padded with the last row
        groups = rows[np.minimum(np.arange(groups * size), count - 1).reshape(groups, size)]
        begun = jax.lax.map(begin, groups)
        # Not with `batch_size` of `lax.map`, which refuses arrays without elements.
        return jax.tree.map(lambda x: x.reshape(groups.size, *x.shape[2:])[:count], begun)


def param_axes(env: Env, params: Any) -> Any:
    """Return 0 for leaves of `params` with one axis more than the defaults, None for the others."""

    def axis(leaf: Any, default: Any) -> int | None:
        return 0 if jnp.ndim(leaf) == jnp.ndim(default) + 1 else None

    return jax.tree.map(axis, params, env.default_params)


def written(states: Any, rows: Int32[Array, " slots"], new: Any, in_order: bool = False) -> Any:
    """Write new states to distinct rows, in place; rows beyond the last are dropped."""
    return jax.tree.map(
        lambda leaf, first: leaf.at[rows].set(
            first, mode="drop", unique_indices=True, indices_are_sorted=in_order
        ),
        states,
        new,
    )


def select(mask: Array, new: Any, old: Any) -> Any:
    """Return the leaves of `new` in rows where the mask is true, of `old` elsewhere."""
    return jax.tree.map(lambda a, b: jnp.where(along(mask, a), a, b), new, old)


def along(mask: Array, leaf: Array) -> Array:
    """Reshape a mask over rows so that it broadcasts along `leaf`."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def tree_bytes(tree: Any) -> int:
    """Return the total size of the arrays of a pytree, in bytes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
