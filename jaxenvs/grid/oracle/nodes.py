"""Nodes of the search: states of a grid world, packed into a few uint32 words.

A node has the agent, the progress of a BabyAI mission, and a list of the changed cells. A changed
cell has a tile or BabyAI marks that differ from the first state of the level. The marks of a cell
are bits that show which descriptions of the mission fit the object in the cell. The list is sorted,
so that equal states have equal nodes.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, UInt8, UInt32

from .. import tiles
from ..state import Action

NONE = np.uint32(0xFFFFFFFF)  # value of an unused entry of `Node.changed`
# Flags in the word `agent` of a node. WON: the episode has ended with success. CUT: the list of
# changed cells is too short for the state.
WON, CUT = np.uint32(1 << 19), np.uint32(1 << 20)
# Flag in the word `agent` of a node: a drop action has removed the BabyAI marks of all cells that
# are empty in the first state. The flag replaces entries for these cells in the list of changed
# cells.
SWEPT = np.uint32(1 << 21)


class Node(NamedTuple):
    """A state as words: agent, progress of a BabyAI mission (0 without one), and changed cells.

    An entry of `changed` is `cell << 16 | tile << 8 | marks`; unused entries are `NONE`.
    """

    agent: UInt32[Array, ""]
    progress: UInt32[Array, ""]
    changed: UInt32[Array, " most"]

    @property
    def words(self) -> UInt32[Array, " words"]:
        """The node as one array: agent, progress, then the changed cells."""
        return jnp.concatenate([self.agent[None], self.progress[None], self.changed])

    @classmethod
    def of(cls, words: UInt32[Array, " words"]) -> "Node":
        """Convert an array to a node; the inverse of the property `words`."""
        return cls(words[0], words[1], words[2:])


def start(state: Any, most: int) -> Node:
    """Return the node of the first state of a level, with room for `most` changed cells."""
    progress = state.progress if hasattr(state, "progress") else 0
    return Node(
        state.agent.astype(jnp.uint32),
        jnp.asarray(progress, jnp.int32).astype(jnp.uint32),
        jnp.full(most, NONE),
    )


def state_of(node: Node, first: Any) -> Any:
    """Return the state that a node stands for; `first` is the first state of the level."""
    # The cell of an unused entry is outside the grid, so nothing is written.
    cell = (node.changed >> np.uint32(16)).astype(jnp.int32)
    grid = first.grid.reshape(-1)
    grid = grid.at[cell].set((node.changed >> np.uint32(8)).astype(jnp.uint8), mode="drop")
    state = first.replace(
        grid=grid.reshape(first.grid.shape),
        agent=(node.agent & ~(WON | CUT | SWEPT)).astype(jnp.int32),
    )
    if not hasattr(first, "marks"):
        return state
    marks = _marks(first, node.agent & SWEPT != 0).reshape(-1)
    marks = marks.at[cell].set(node.changed.astype(jnp.uint8), mode="drop")
    return state.replace(
        marks=marks.reshape(first.marks.shape), progress=node.progress.astype(jnp.int32)
    )


def _marks(first: Any, is_swept: Bool[Array, ""]) -> UInt8[Array, "height width"]:
    """Return `first.marks`; if `is_swept`, with 0 in the cells that are empty in `first`."""
    return jnp.where(is_swept & (first.grid == tiles.EMPTY), jnp.uint8(0), first.marks)


def after(
    node: Node, first: Any, state: Any, front: Array, action: Array
) -> tuple[Node, Bool[Array, ""]]:
    """Return the node of `state`, and whether the node has room for all changed cells.

    node: the node of the state before the action.
    first: the first state of the level.
    state: the state after the action.
    front: index of the cell that was in front of the agent before the action.

    Only `front` and the changed cells of `node` are compared with the first state. No other cell
    can differ, except that a drop can remove the marks of empty cells (see `SWEPT`).
    """
    cell = (node.changed >> np.uint32(16)).astype(jnp.int32)
    is_used = (node.changed != NONE) & (cell != front)
    cells = jnp.append(jnp.where(is_used, cell, jnp.int32(0)), front)
    is_used = jnp.append(is_used, jnp.bool_(True))
    tile, tile_before = (x.reshape(-1)[cells].astype(jnp.uint32) for x in (state.grid, first.grid))
    entry = (cells.astype(jnp.uint32) << np.uint32(16)) | (tile << np.uint32(8))
    differs = tile != tile_before
    made = start(state, 0)
    if hasattr(first, "marks"):
        has_stale = ((first.grid == tiles.EMPTY) & (first.marks != 0)).any()
        is_swept = (node.agent & SWEPT != 0) | (has_stale & (action == Action.DROP))
        made = made._replace(agent=made.agent | jnp.where(is_swept, SWEPT, np.uint32(0)))
        usual = _marks(first, is_swept)
        marks, before = (x.reshape(-1)[cells] for x in (state.marks, usual))
        entry, differs = entry | marks.astype(jnp.uint32), differs | (marks != before)
    entries = jnp.sort(jnp.where(is_used & differs, entry, NONE))
    return made._replace(changed=entries[:-1]), entries[-1] == NONE


def most_changed(first: Any) -> int:
    """Return the largest number of cells that can ever differ from the first states of a batch.

    Each object that can be carried changes up to two cells: its first cell and its last one. An
    object that the agent carries at the start changes only its last cell. Each door changes one
    cell.
    """
    doors = (tiles.Kind.DOOR, tiles.Kind.CLOSED_DOOR, tiles.Kind.LOCKED_DOOR)
    is_door = tiles.is_any(first.grid, *doors)
    portable, is_door, held = map(
        np.asarray, (tiles.is_portable(first.grid), is_door, first.carried != 0)
    )
    return max(1, int((2 * portable.sum((1, 2)) + is_door.sum((1, 2)) + held).max()))
