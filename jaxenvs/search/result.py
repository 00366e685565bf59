"""Result of every search."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Bool, Float32, Int32

from ..core.struct import Struct, struct


@struct
class Result(Struct):
    """Solution of a search. With several levels, all fields but the counts have a leading axis."""

    solved: Bool[Array, "*levels"]
    cost: Float32[Array, "*levels"]  # of the actions; infinite if unsolved
    # From the start to the goal, padded with -1; if unsolved, to the board with the lowest bound.
    actions: Int32[Array, "*levels longest"]
    length: Int32[Array, "*levels"]  # if above `longest`, `actions` is all -1
    optimal: Bool[Array, "*levels"]  # proven: no cheaper solution exists
    unsolvable: Bool[Array, "*levels"]  # proven: every reachable board was examined
    lower_bound: Float32[Array, "*levels"]  # on the optimal cost; -inf if it is not admissible
    board: Any  # the goal, or the board with the lowest bound
    nodes: Int32[Array, ""]  # stored boards, including more expensive copies
    expanded: Int32[Array, ""]
    iterations: Int32[Array, ""]

    def single(self) -> "Result":
        """Return the result of a single level, without its leading axis."""
        fields = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return Result(
            **{
                name: value if name in _COUNTS else jax.tree.map(lambda leaf: leaf[0], value)
                for name, value in fields.items()
            }
        )


_COUNTS = ("nodes", "expanded", "iterations")
