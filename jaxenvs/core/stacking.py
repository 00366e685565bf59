"""`stacked`: scalars of a batch written side by side, in the order that suits GPUs."""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.layout import Layout, with_layout_constraint
from jaxtyping import Array


def stacked(values: Sequence[Any]) -> Array:
    """Stack scalars of one dtype: `jnp.stack` for GPUs.

    Under `vmap` the array is written scalar by scalar, then transposed. Written environment by
    environment, neighbouring threads would compute different scalars: XLA branches between them,
    and a warp runs all branches one after another.
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
    # The barriers keep two kernels, one of all scalars and a transposition. The layouts are asked
    # for, or XLA would give the stack the layout of its transpose and write side by side after all.
    rows = _row_major(jax.lax.optimization_barrier(_row_major(jnp.stack(columns))))
    return _row_major(jax.lax.optimization_barrier(_row_major(rows.T)))


@_by_columns.def_vmap
def _over_columns(axis_size: int, batched: Any, columns: list[Array]) -> tuple[Array, bool]:
    """Take all batches as one: a batch of matrices would be transposed in its middle."""
    full = [
        column if is_batched else jnp.broadcast_to(column, (axis_size, *column.shape))
        for column, is_batched in zip(columns, batched[0], strict=True)
    ]
    matrix = _by_columns([column.reshape(-1) for column in full])
    return matrix.reshape(*full[0].shape, len(columns)), True


def _row_major(x: Array) -> Array:
    return with_layout_constraint(x, Layout(tuple(range(x.ndim))))
