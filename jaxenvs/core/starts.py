"""Levels and first states for the rows of a batch; a row is one environment.

`Starts` derives the random keys of each row, draws candidate levels and starts episodes in them.
The module `reset_sources` uses `Starts`.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from . import checks
from .env import Env, Reset
from .random import Keys

# Purposes for which random keys are derived by `fold_in`. With one key for the batch, the folded
# integer has the purpose in its high bits, from bit PURPOSE_SHIFT on, and the index of the row or
# level in its low bits. With one key per environment, the folded integer is the purpose alone.
STEP, RESET, LEVEL, POOL, STOCK, STOCK_RESET = range(6)
PURPOSE_SHIFT = 28


class Starts(NamedTuple):
    """Environment, random key and params of a batch, which determine how its episodes start.

    A row is one environment of the batch.
    """

    env: Env
    num_envs: int
    key: Keys  # one key for the batch, or one key per environment
    # Params of `env`. Any leaf may have a first axis of `num_envs`: one value per environment.
    params: Any

    @property
    def rows(self) -> Int32[Array, " num_envs"]:
        """Indices of all environments of the batch, 0 to num_envs - 1."""
        return jnp.arange(self.num_envs, dtype=jnp.int32)

    @property
    def axes(self) -> Any:
        """`vmap` axes of `params`: 0 for leaves with a value per environment, else None."""
        return param_axes(self.env, self.params)

    @property
    def has_one_setting(self) -> bool:
        """True if all environments of the batch have the same params."""
        # For a param with the same value in all environments, the axis is None, which JAX does not
        # count as a leaf. Without leaves, all params are equal in all environments.
        return not jax.tree.leaves(self.axes)

    def keys(self, purpose: int, rows: Int32[Array, " rows"]) -> Keys:
        """Return one random key for each of `rows`, which are indices of environments of the batch.

        Keys for different purposes (`STEP`, `RESET` and so on) are independent.
        """
        if self.key.ndim:
            return jax.vmap(jax.random.fold_in, in_axes=(0, None))(self.key[rows], purpose)
        return self.shared_keys(purpose, rows)

    def shared_keys(self, purpose: int, numbers: Int32[Array, " numbers"]) -> Keys:
        """Return one random key for each of `numbers`: indices of environments or prepared levels.

        All keys are derived from a single key: the key of the batch, or, if each environment has
        its own key, the key of the first environment.
        """
        # Purpose and number are packed into one integer and folded in once, because each `fold_in`
        # runs the threefry hash, which costs one or two kernels.
        folded = numbers.astype(jnp.uint32) | jnp.uint32(purpose << PURPOSE_SHIFT)
        key = self.key.reshape(-1)[0]
        return jax.vmap(jax.random.fold_in, in_axes=(None, 0))(key, folded)

    def params_of(self, rows: Array) -> Any:
        """Return the params of the environments at `rows`, an array of indices or one index."""
        return jax.tree.map(
            lambda leaf, axis: leaf if axis is None else jnp.asarray(leaf)[rows],
            self.params,
            self.axes,
        )

    def begin(self, rows: Int32[Array, " rows"], levels: Any, params: Any) -> Reset:
        """Start an episode in each of `levels`; entry i of `rows` is the environment of level i.

        `rows` are indices of environments of the batch, and `params` are their params.
        """
        return self.begin_with(self.keys(RESET, rows), levels, params)

    def begin_with(self, keys: Keys, levels: Any, params: Any) -> Reset:
        """Start an episode in each of `levels`, with the key at the same index of `keys`."""
        with checks.level_is_drawn():
            return jax.vmap(self.env.reset_to, in_axes=(0, 0, self.axes))(keys, levels, params)

    def states(self, rows: Int32[Array, " rows"], levels: Any) -> Any:
        """Start an episode in each of `levels`, as `begin` does; return only the first states."""
        return self.begin(rows, levels, self.params_of(rows)).state

    def candidates(
        self, keys: Keys, number: Int32[Array, " rows"], params: Any
    ) -> tuple[Any, Bool[Array, " rows"]]:
        """Draw one candidate level per key; return the levels and the mask of accepted ones.

        Each row's reset draws candidates with the indices 0, 1, 2 and so on; `number` has the index
        of the candidate to draw for each row. The last candidate that `level_budget` allows is
        always accepted.
        """
        levels = jax.vmap(self.env.candidate, in_axes=(0, 0, self.axes))(keys, number, params)
        if self.env.level_budget == 1:
            return levels, jnp.ones(number.shape, jnp.bool_)
        last = number + 1 >= self.env.level_budget
        return levels, jax.vmap(self.env.accepts)(levels) | last

    def new_rows(self, rows: Int32[Array, " rows"]) -> Reset:
        """Start an episode in a newly drawn level for each environment whose index is in `rows`."""
        count, size = rows.shape[0], self.env.levels_at_once or rows.shape[0]

        def begin(rows: Int32[Array, " rows"]) -> Reset:
            chosen = self.params_of(rows)
            draw = jax.vmap(self.env.sample_level, in_axes=(0, self.axes))
            return self.begin(rows, draw(self.keys(LEVEL, rows), chosen), chosen)

        if count <= size:
            return begin(rows)
        # Start the episodes in groups of `size` rows. Copies of the last entry of `rows` pad the
        # last group; their results are removed below.
        groups = -(-count // size)
        groups = rows[np.minimum(np.arange(groups * size), count - 1).reshape(groups, size)]
        begun = jax.lax.map(begin, groups)
        # `batch_size` of `lax.map` is not used, because it fails for arrays without elements.
        return jax.tree.map(lambda x: x.reshape(groups.size, *x.shape[2:])[:count], begun)


def param_axes(env: Env, params: Any) -> Any:
    """Return the `vmap` axes of `params` over a batch of environments.

    The axis is 0 for a leaf that has one axis more than the same leaf of the default params, and
    None for any other leaf.
    """

    def axis(leaf: Any, default: Any) -> int | None:
        return 0 if jnp.ndim(leaf) == jnp.ndim(default) + 1 else None

    return jax.tree.map(axis, params, env.default_params)


def written(states: Any, rows: Int32[Array, " slots"], new: Any, in_order: bool = False) -> Any:
    """Return the states of a batch, with the states `new` written at the indices `rows`.

    `rows` are distinct indices of environments. For an index beyond the last environment, nothing
    is written. `in_order` tells XLA that `rows` is sorted. XLA writes in place where it can.
    """
    return jax.tree.map(
        lambda leaf, first: leaf.at[rows].set(
            first, mode="drop", unique_indices=True, indices_are_sorted=in_order
        ),
        states,
        new,
    )


def select(mask: Array, new: Any, old: Any) -> Any:
    """Return the leaves of `new` for environments where the mask is true, of `old` elsewhere.

    The first axis of every leaf is the environment.
    """
    return jax.tree.map(lambda a, b: jnp.where(along(mask, a), a, b), new, old)


def along(mask: Array, leaf: Array) -> Array:
    """Append axes of length 1 to a mask over environments, so that it broadcasts against `leaf`."""
    return mask.reshape(mask.shape + (1,) * (leaf.ndim - 1))


def tree_bytes(tree: Any) -> int:
    """Return the total size of the arrays of a pytree, in bytes."""
    return sum(leaf.size * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))
