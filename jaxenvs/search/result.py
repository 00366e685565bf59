"""The result type that all search algorithms return."""

import dataclasses
from typing import Any

import jax
from jaxtyping import Array, Bool, Float32, Int32

from ..core.struct import Struct, struct


@struct
class Result(Struct):
    """Result of a search: the plan, if one was found, and proofs of optimality or unsolvability.

    With several levels, all fields have a leading axis of levels, except `nodes`, `expanded` and
    `iterations`, which are totals.
    """

    solved: Bool[Array, "*levels"]
    cost: Float32[Array, "*levels"]  # cost of the actions; infinite if unsolved
    # Actions from the start to `board`, padded with -1.
    actions: Int32[Array, "*levels longest"]
    # Number of actions; if it exceeds the length of `actions`, all entries of `actions` are -1.
    length: Int32[Array, "*levels"]
    optimal: Bool[Array, "*levels"]  # whether it is proven that no cheaper solution exists
    unsolvable: Bool[Array, "*levels"]  # whether it is proven that no reachable board is a goal
    # Lower bound on the optimal cost; -inf if the heuristic is not admissible.
    lower_bound: Float32[Array, "*levels"]
    # Goal board (a board is a state of the searched problem) that was reached. If unsolved, the
    # board with the lowest heuristic (beam search: with the lowest cost + heuristic).
    board: Any
    # Number of stored nodes. A board has several nodes if cheaper paths to it were found later.
    nodes: Int32[Array, ""]
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
