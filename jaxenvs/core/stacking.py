"""`stacked`: `jnp.stack` of scalars in the memory order that suits GPUs."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array


def stacked(values: Sequence[Any]) -> Array:
    """Stack scalars of one dtype, as `jnp.stack` does.

    Under `vmap`, the array is written scalar by scalar, then transposed. If it were written
    environment by environment, neighbouring GPU threads would compute different scalars: XLA
    branches between the scalars, and a warp runs all branches one after another.
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
    """Stack vectors as the columns of a matrix: first as its rows, then transposed."""
    # The barriers keep two kernels: one for all scalars and one transposition. Without the layout
    # constraints XLA would give the stack the layout of its transpose, the order to avoid.
    rows = _row_major(jax.lax.optimization_barrier(_row_major(jnp.stack(columns))))
    return _row_major(jax.lax.optimization_barrier(_row_major(rows.T)))


@_by_columns.def_vmap
def _over_columns(axis_size: int, batched: Any, columns: list[Array]) -> tuple[Array, bool]:
    """Merge the batch axes into one: XLA would transpose only the inner axes of many matrices."""
    full = [
        column if is_batched else jnp.broadcast_to(column, (axis_size, *column.shape))
        for column, is_batched in zip(columns, batched[0], strict=True)
    ]
    matrix = _by_columns([column.reshape(-1) for column in full])
    return matrix.reshape(*full[0].shape, len(columns)), True


def _row_major(x: Array) -> Array:
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))
