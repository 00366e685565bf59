"""The result type of all search algorithms."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Bool, Float32, Int32

from ..core.struct import Struct, struct


@struct
class Result(Struct):
    """Solution of a search. With several levels, all fields but the counts have a leading axis."""

    solved: Bool[Array, "*levels"]
    cost: Float32[Array, "*levels"]  # cost of the actions; infinite if unsolved
    # Actions from the start to `board`, padded with -1.
    actions: Int32[Array, "*levels longest"]
    length: Int32[Array, "*levels"]  # number of actions; if above `longest`, `actions` is all -1
    optimal: Bool[Array, "*levels"]  # whether it is proven that no cheaper solution exists
    unsolvable: Bool[Array, "*levels"]  # whether all reachable boards were examined without a goal
    # Lower bound on the optimal cost; -inf if the heuristic is not admissible.
    lower_bound: Float32[Array, "*levels"]
    board: Any  # the goal; if unsolved, the board with the lowest heuristic (beam: score)
    nodes: Int32[Array, ""]  # number of stored boards, including more expensive copies
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
