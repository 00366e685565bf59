"""Search domains: puzzles, or other search problems given as functions with the same interface."""

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, UInt32

from ..core.stateful import WrappedState
from ..puzzles.puzzle import Move, Puzzle, PuzzleLevel


def _zero(instance: Any, board: Any) -> Float32[Array, ""]:
    return jnp.zeros((), jnp.float32)


@dataclasses.dataclass(frozen=True)
class Domain:
    """Search problem, such as a learned model, given as functions with the interface of `Puzzle`.

    Boards are pytrees of arrays. `neighbours(instance, board)` returns a `Move` whose leaves have
    the actions as first axis. `pack` encodes a board in `num_words` uint32 words and `unpack`
    decodes it; boards with equal words are the same node. All functions take a single board. The
    heuristic is assumed to be admissible: never above the true cost.
    """

    neighbours: Callable[[Any, Any], Move]
    is_goal: Callable[[Any, Any], Bool[Array, ""]]
    pack: Callable[[Any], UInt32[Array, " words"]]
    unpack: Callable[[UInt32[Array, " words"]], Any]
    num_actions: int
    num_words: int
    heuristic: Callable[[Any, Any], Float32[Array, ""]] = _zero
    unit_cost: bool = False  # whether every action costs 1; the search can then omit a sort
    # Function (instance, board, action) -> `Move` of the action, which Q* uses. None: Q* selects
    # the action's move from the result of `neighbours`.
    apply: Callable[[Any, Any, Any], Move] | None = None
    # Function (instance, board) -> bool (actions,): mask of the actions that Q* adds to the open
    # list. The mask may include invalid actions. None: Q* uses the mask `valid` of `neighbours`,
    # which can be slower to compute.
    possible: Callable[[Any, Any], Bool[Array, " actions"]] | None = None

    @property
    def name(self) -> str:
        """Name used in error messages."""
        return "Domain"


def checked_domain(domain: Any, where: str) -> Any:
    """Return `domain` if it can be searched; else raise `TypeError` with the missing attributes."""
    wanted = ("neighbours", "is_goal", "pack", "unpack", "num_actions")
    missing = [name for name in wanted if not hasattr(domain, name)]
    if missing:
        name = getattr(domain, "name", type(domain).__name__)
        raise TypeError(
            f"{where}: {name} cannot be searched: it has no {', '.join(missing)}; give a puzzle "
            "(a jaxenvs.puzzles.Puzzle, in which only the level is random) or a search.Domain"
        )
    return domain


def board_shape(domain: Any) -> Any:
    """Return the shapes and dtypes of a board's arrays as `jax.ShapeDtypeStruct`."""
    inside = getattr(domain, "unwrapped", domain)
    if isinstance(inside, Puzzle):
        return inside.state_shape.board
    return jax.eval_shape(domain.unpack, jax.ShapeDtypeStruct((domain.num_words,), np.uint32))


def as_levels(domain: Any, level: Any, where: str) -> tuple[PuzzleLevel, bool]:
    """Return levels whose arrays have a leading axis, and whether `level` already had this axis.

    `level` is a `PuzzleLevel`, a state of the environment or of a wrapper, or a board. Raises
    `TypeError` if the board does not fit the domain.
    """
    while isinstance(level, WrappedState):
        level = level.env
    if not hasattr(level, "board"):
        level = PuzzleLevel(board=level)
    wanted = board_shape(domain)
    board = jax.tree.map(jnp.asarray, level.board)
    instance = jax.tree.map(jnp.asarray, level.instance)
    same = jax.tree.structure(board) == jax.tree.structure(wanted)
    extra = {
        (x.ndim - y.ndim if x.shape[x.ndim - y.ndim :] == y.shape and x.dtype == y.dtype else -1)
        for x, y in zip(jax.tree.leaves(board), jax.tree.leaves(wanted), strict=False)
    }
    if not same or extra not in ({0}, {1}):
        raise TypeError(
            f"{where}: the board does not fit {domain.name}: expected {wanted}, with or without a "
            f"leading axis of levels, got {jax.tree.map(lambda x: (x.shape, x.dtype), board)}"
        )
    if extra == {1}:
        return PuzzleLevel(board=board, instance=instance), True
    board, instance = jax.tree.map(lambda x: x[None], (board, instance))
    return PuzzleLevel(board=board, instance=instance), False
