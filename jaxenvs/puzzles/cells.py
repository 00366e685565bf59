"""Directions on a grid."""

from jaxtyping import Array, Int32


def step_of(
    action: Int32[Array, "*batch"],
) -> tuple[Int32[Array, "*batch"], Int32[Array, "*batch"]]:
    """Return the change of row and column of a step (0 up, 1 right, 2 down, 3 left)."""
    return (action - 1) * ((action + 1) & 1), (2 - action) * (action & 1)
