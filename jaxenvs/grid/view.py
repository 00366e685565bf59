"""Directions of grid worlds and the entries of their observations; see `core/sight.py`."""

import jax.numpy as jnp
from jaxtyping import Array, Int32

from . import tiles


def observation_layout(size: int) -> tuple[tuple[str, str], ...]:
    """(index, meaning) of the entries of the observations, for a view of this size."""
    kinds = ", ".join(f"{kind.value} {kind.name.lower()}" for kind in tiles.Kind if kind <= 10)
    colours = ", ".join(f"{c.value} {c.name.lower()}" for c in tiles.Colour)
    return (
        ("`image[across, ahead]`", f"the agent at [{size // 2}, {size - 1}], looking to row 0"),
        ("`image[..., 0]`", kinds),
        ("`image[..., 1]`", colours),
        ("`image[..., 2]`", "of a door: 0 open, 1 closed, 2 locked"),
        ("`full[column, row]`", "as `image`; the agent is (10, 0, direction)"),
        ("`onehot[..., 0:11]`", "`image[..., 0]`; then 11 to 16 the colour, 17 to 19 the door"),
        ("`direction`", "0 right, 1 down, 2 left, 3 up"),
        ("`mission`", "word ids, see `jaxenvs.grid.missions.WORDS`; padded with 0"),
    )


def direction_vector(direction: Array) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
    """(rows, columns) of one step: 0 right, 1 down, 2 left, 3 up."""
    direction = direction.astype(jnp.int32)
    rows = (direction == 1).astype(jnp.int32) - (direction == 3).astype(jnp.int32)
    columns = (direction == 0).astype(jnp.int32) - (direction == 2).astype(jnp.int32)
    return rows, columns
