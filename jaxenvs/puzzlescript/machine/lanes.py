"""Batches of turns: on a CPU, play a few environments at a time, grouped by game.

A batched `while_loop` repeats its body for the whole batch until the last environment is done. On a
CPU, each repetition costs time for every environment of the batch, including those that are done.
Small groups therefore limit the cost of a long turn to its own group. On a GPU, the whole batch is
played together, because small groups would leave the GPU idle.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ...core.platforms import by_platform

Play = Callable[..., Any]  # (tables, game, board, action, draw) -> result
GROUP = 16  # number of environments that a CPU plays together


def batched(play: Play) -> Play:
    """Return `play` with a custom `vmap` rule: a CPU plays a batch in small groups, sorted by game.

    The argument `draw` of `play` must be a `jax.tree_util.Partial`. `vmap` can then map over its
    arrays, so each environment can have its own. Raises `ValueError` if the tables have a batch
    axis.
    """

    @jax.custom_batching.custom_vmap
    def alone(*args: Any) -> Any:
        return play(*args)

    @alone.def_vmap
    def _(axis_size: int, has_axis: Any, tables: Any, *args: Any) -> tuple[Any, Any]:
        _check_tables(has_axis[0])
        made = together(tables, *_full(axis_size, has_axis[1:], args))
        return made, jax.tree.map(lambda _: True, made)

    @jax.custom_batching.custom_vmap
    def together(tables: Any, *args: Any) -> Any:
        many = jax.vmap(functools.partial(play, tables))
        in_groups = functools.partial(_in_groups, many)
        return by_platform(*args, cpu=in_groups, default=many)

    @together.def_vmap
    def _(axis_size: int, has_axis: Any, tables: Any, *args: Any) -> tuple[Any, Any]:
        """Merge the axes of a nested `vmap` into one batch axis, play, and split the axis again."""
        _check_tables(has_axis[0])
        args = _full(axis_size, has_axis[1:], args)
        flat = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), args)
        made = jax.tree.map(
            lambda leaf: leaf.reshape(axis_size, -1, *leaf.shape[1:]), together(tables, *flat)
        )
        return made, jax.tree.map(lambda _: True, made)

    return alone


def _check_tables(has_axis: Any) -> None:
    """Raise `ValueError` if `vmap` maps over an axis of the tables."""
    if any(jax.tree.leaves(has_axis)):
        raise ValueError("play: the tables have a batch axis; stack the games and map `game`")


def _full(axis_size: int, has_axis: Any, args: Any) -> Any:
    """Return the arguments with a batch axis; an argument without this axis is broadcast."""
    return jax.tree.map(
        lambda has, leaf: leaf if has else jnp.broadcast_to(leaf, (axis_size, *jnp.shape(leaf))),
        tuple(has_axis),
        args,
    )


def _in_groups(many: Play, *args: Any) -> Any:
    """Sort the environments by game, play them group by group, and restore their order."""
    game = args[0]
    count, groups = len(game), -(-len(game) // GROUP)
    if groups == 1:
        return many(*args)
    # The last group is filled up with copies of the last environment.
    places = np.minimum(np.arange(groups * GROUP, dtype=np.int32), np.int32(count - 1))
    order = jnp.argsort(game).astype(jnp.int32)[places]
    parts = jax.tree.map(lambda leaf: leaf[order].reshape(groups, GROUP, *leaf.shape[1:]), args)
    made = jax.lax.map(lambda part: many(*part), parts)
    back = jnp.zeros(count, jnp.int32).at[order].set(places)
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[back], made)
