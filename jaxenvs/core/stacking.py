"""`stacked`: `jnp.stack` of scalars, with a memory order that a GPU can write fast under `vmap`."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array


def stacked(values: Sequence[Any]) -> Array:
    """Stack scalars of one dtype into a vector, as `jnp.stack` does.

    Under `vmap`, the result is a matrix with one row per environment. For speed on a GPU, the
    function first writes the transposed matrix, with one row per scalar. If the final matrix were
    written directly, neighbouring threads of a warp would compute different scalars. XLA would
    select the scalar by a branch, so the threads would run all branches one after another.
    """
    return _alone([jnp.asarray(value) for value in values])


@jax.custom_batching.custom_vmap
def _alone(values: list[Any]) -> Array:
    return jnp.stack(values)


@_alone.def_vmap
def _over_scalars(axis_size: int, batched: Any, values: list[Any]) -> tuple[Array, bool]:
    full = [
        value if is_batched else jnp.broadcast_to(value, (axis_size, *jnp.shape(value)))
        for value, is_batched in zip(values, batched[0], strict=True)
    ]
    return _by_columns(full), True


@jax.custom_batching.custom_vmap
def _by_columns(columns: list[Array]) -> Array:
    """Stack vectors as columns of a matrix: stack them as rows, then transpose."""
    # The barriers make XLA launch two kernels: one for all scalars and one for the transposition.
    # The layout constraints make XLA store one row per scalar, which is fast to write. Without
    # them, XLA would choose the transposed layout.
    rows = _row_major(jax.lax.optimization_barrier(_row_major(jnp.stack(columns))))
    return _row_major(jax.lax.optimization_barrier(_row_major(rows.T)))


@_by_columns.def_vmap
def _over_columns(axis_size: int, batched: Any, columns: list[Array]) -> tuple[Array, bool]:
    """Apply `_by_columns` under a further `vmap` by merging both batch axes into one.

    Otherwise XLA would transpose many small matrices, one per entry of the outer axis.
    """
    full = [
        column if is_batched else jnp.broadcast_to(column, (axis_size, *column.shape))
        for column, is_batched in zip(columns, batched[0], strict=True)
    ]
    matrix = _by_columns([column.reshape(-1) for column in full])
    return matrix.reshape(*full[0].shape, len(columns)), True


def _row_major(x: Array) -> Array:
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))
