"""Nodes of a search: arrays with one row per node, in order of discovery, and a hash table.

A board is a state of the searched problem. The hash table maps a board to the row of its node. If a
cheaper path to the board is found, a new node is added, the hash table points to its row, and the
old node is marked as stale. The data of a stored node never change.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int16, Int32, UInt8, UInt32

from ..core.random import below, mix

SLOTS_PER_ROW = 2
EMPTY = -1


class Nodes(NamedTuple):
    """Nodes of a search: index i of each array (row i) belongs to node i.

    In a `Store`, only the first `used` rows hold nodes. A key is a board, packed into uint32 words;
    if several levels are solved together, the first word is the level's index.
    """

    key: UInt32[Array, "rows words"]
    # Sum of the costs of the actions that lead from the start board to this node.
    cost: Float32[Array, " rows"]
    # Row of the parent node; -1 in the node of a start board.
    parent: Int32[Array, " rows"]
    action: Int16[Array, " rows"]  # action that leads from the parent to this node


class Store(NamedTuple):
    """All nodes of a search, and the hash table.

    Memory per node: the bytes of its key, 4 + 4 + 2 + 1 bytes in the arrays `cost`, `parent`,
    `action` and `stale`, and 8 bytes in the hash table.
    """

    nodes: Nodes
    # 1 for nodes that are not expanded, because a later node has the same board and a lower cost.
    stale: UInt8[Array, " rows"]
    # Hash table: each entry (slot) is the row of a node, or EMPTY.
    slots: Int32[Array, " slots"]
    # Number of stored nodes; they are in the rows 0 to used - 1.
    used: Int32[Array, ""]


def empty(rows: int, key_words: int) -> Store:
    """Return an empty store for `rows` nodes whose keys have `key_words` uint32 words."""
    nodes = Nodes(
        key=jnp.zeros((rows, key_words), jnp.uint32),
        cost=jnp.zeros(rows, jnp.float32),
        parent=jnp.full(rows, -1, jnp.int32),
        action=jnp.full(rows, -1, jnp.int16),
    )
    slots = jnp.full(rows * SLOTS_PER_ROW, EMPTY, jnp.int32)
    return Store(nodes, jnp.zeros(rows, jnp.uint8), slots, jnp.int32(0))


def hash_of(key: UInt32[Array, "rows words"]) -> UInt32[Array, " rows"]:
    """Return a 32-bit hash of each key."""
    word = jnp.full(key.shape[:1], 0x9E3779B9, jnp.uint32)
    for i in range(key.shape[1]):
        word = mix(word ^ key[:, i]) + np.uint32(0x85EBCA6B)
    return mix(word)


class _Probe(NamedTuple):
    """State of the loop that finds a slot (an entry) of the hash table for each new node.

    The nodes of a batch are processed in parallel; a lane is the index of a new node in its batch.
    """

    slots: Array
    slot: Int32[Array, " lanes"]
    # Whether the new node still searches for a slot. The search ends when the node gets a slot, or
    # meets a node with the same board that costs no more.
    looks: Bool[Array, " lanes"]
    # Row of the stored node with the same board that the new node replaces; -1 if there is none.
    replaced: Int32[Array, " lanes"]


def insert(store: Store, new: Nodes, valid: Bool[Array, " lanes"]) -> Store:
    """Add each new node whose board is not stored yet, or is stored with a higher cost.

    New nodes for which `valid` is False are skipped.

    New nodes with equal boards must be in order of descending cost. The store must have room for
    all nodes of `new`.
    """
    lanes = new.cost.shape[0]
    first = store.used
    index = jnp.arange(lanes, dtype=jnp.int32)
    # Write all new nodes after the stored nodes, so that slots can refer to their rows. After the
    # loop, only the new nodes that got a slot are kept: they are written again, without gaps.
    nodes = _written(store.nodes, new, first)
    capacity = store.slots.shape[0]

    def probe(at: _Probe) -> _Probe:
        row = at.slots[at.slot]
        known = row >= 0
        at_row = jnp.maximum(row, 0)
        same = known & (nodes.key[at_row] == new.key).all(axis=1)
        cheaper = same & (new.cost < nodes.cost[at_row])
        wants = at.looks & (~known | cheaper)
        # Of several new nodes that claim a slot, the one with the highest row index gets it. Of new
        # nodes with equal boards, this is the cheapest, because their costs descend. The new node
        # also replaces the stored node in the slot, whose row index is always lower.
        claim = jnp.where(wants, at.slot, capacity)
        slots = at.slots.at[claim].max(first + index, mode="drop")
        won = wants & (slots.at[at.slot].get(mode="clip") == first + index)
        replaced = jnp.where(wants & cheaper & (row < first), row, at.replaced)
        goes_on = at.looks & ~won & ~(same & ~cheaper)
        slot = jnp.where(goes_on & known & ~same, at.slot + 1, at.slot)
        return _Probe(slots, jnp.where(slot == capacity, 0, slot), goes_on, replaced)

    start = below(hash_of(new.key), capacity)
    at = jax.lax.while_loop(
        lambda at: at.looks.any(),
        probe,
        _Probe(store.slots, start, valid, jnp.full(lanes, -1, jnp.int32)),
    )
    kept = valid & (at.slots[at.slot] == first + index)
    rank = jnp.cumsum(kept, dtype=jnp.int32) - 1
    place = jnp.where(kept, rank, lanes)
    order = jnp.zeros(lanes, jnp.int32).at[place].set(index, mode="drop")
    nodes = _written(nodes, jax.tree.map(lambda leaf: leaf[order], new), first)
    slots = at.slots.at[jnp.where(kept, at.slot, capacity)].set(first + rank, mode="drop")
    rows = store.stale.shape[0]
    stale = store.stale.at[jnp.where(at.replaced >= 0, at.replaced, rows)].set(1, mode="drop")
    return Store(nodes, stale, slots, first + kept.sum(dtype=jnp.int32))


def find(store: Store, key: UInt32[Array, "lanes words"]) -> Int32[Array, " lanes"]:
    """Look up keys in the hash table; return the row of the node with each key.

    The row is -1 if the store has no node with this key.
    """
    capacity = store.slots.shape[0]

    def goes_on(slot: Array) -> Array:
        row = store.slots[slot]
        same = (store.nodes.key[jnp.maximum(row, 0)] == key).all(axis=1)
        return (row >= 0) & ~same

    def probe(slot: Array) -> Array:
        following = jnp.where(slot + 1 == capacity, 0, slot + 1)
        return jnp.where(goes_on(slot), following, slot)

    slot = jax.lax.while_loop(
        lambda slot: goes_on(slot).any(), probe, below(hash_of(key), capacity)
    )
    return store.slots[slot]


def _written(nodes: Nodes, new: Nodes, first: Int32[Array, ""]) -> Nodes:
    def write(leaf: Array, rows: Array) -> Array:
        return jax.lax.dynamic_update_slice_in_dim(leaf, rows, first, axis=0)

    return jax.tree.map(write, nodes, new)


def rows_of(nodes: Nodes, first: Int32[Array, ""], count: int) -> Nodes:
    """Return the nodes in the rows `first` to `first + count - 1`."""
    return jax.tree.map(
        lambda leaf: jax.lax.dynamic_slice_in_dim(leaf, first, count, axis=0), nodes
    )


def path(
    nodes: Nodes, row: Int32[Array, ""], longest: int
) -> tuple[Int32[Array, " {longest}"], Int32[Array, ""]]:
    """Return the actions from the start to the node in row `row`, and the number of actions.

    The actions are padded with -1 to length `longest`. If there are more than `longest` actions,
    all entries are -1.
    """

    def back(walk: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        row, actions, length = walk
        place = jnp.where(length < longest, length, longest)
        actions = actions.at[place].set(nodes.action[row].astype(jnp.int32), mode="drop")
        return nodes.parent[row], actions, length + 1

    start = (row, jnp.full(longest, -1, jnp.int32), jnp.int32(0))
    _, actions, length = jax.lax.while_loop(
        lambda walk: (walk[0] >= 0) & (nodes.parent[jnp.maximum(walk[0], 0)] >= 0), back, start
    )
    forward = length - 1 - jnp.arange(longest, dtype=jnp.int32)
    fits = (forward >= 0) & (length <= longest)
    return jnp.where(fits, actions[jnp.clip(forward, 0, longest - 1)], -1), length
