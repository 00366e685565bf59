"""Mobs that appear: one attempt a step for each kind, on a cell uniform among those allowed.

The cells within reach are looked at once. Two bits each (grass, path) are kept in words of 16
cells, so that counting, excluding and choosing are integer arithmetic on a few words.
"""

import functools
import operator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int32, UInt8

from ..core.settle import settled
from .chance import SPAWNING, Draws
from .ground import Ground, codes
from .state import Mob, World, mobs_of
from .tables import Block, MobRow, Rules

_CELLS = 16  # in a word; the first block in its low half, the second in the high half
_GROUNDS = (Block.GRASS, Block.PATH)


class _Reach(NamedTuple):
    """The cells at less than `reach` steps from the player, row by row."""

    rows: np.ndarray  # (words, 16) relative to the player
    columns: np.ndarray
    distance: np.ndarray  # beyond `reach` where a word is not full

    @property
    def words(self) -> int:
        """Words that hold the cells."""
        return self.rows.shape[0]


@functools.lru_cache
def _reach(reach: int) -> _Reach:
    span = np.arange(1 - reach, reach, dtype=np.int32)
    rows, columns = (a.reshape(-1) for a in np.meshgrid(span, span, indexing="ij"))
    inside = np.abs(rows) + np.abs(columns) < reach
    rows, columns = rows[inside], columns[inside]
    missing = -len(rows) % _CELLS
    rows = np.pad(rows, (0, missing), constant_values=reach).reshape(-1, _CELLS)
    columns = np.pad(columns, (0, missing)).reshape(-1, _CELLS)
    return _Reach(rows, columns, np.abs(rows) + np.abs(columns))


def spawn(
    rules: Rules,
    cells: UInt8[Array, "size size"],
    world: World,
    draws: Draws,
    chances: dict[str, Array],
    health: dict[str, Array],
    despawn_distance: Array,
    reach: int,
) -> World:
    """Let a mob of each kind appear, or not."""
    table = _reach(reach)
    grounds = _grounds(cells, world, table, despawn_distance)
    taken = [_number(world, mob, mob.marked, reach) for mob in mobs_of(world)]
    kinds = {kind.name: kind for kind in rules.mobs}
    for i, name in enumerate(SPAWNING):
        slots = world.mobs[name]
        number = _chosen(_allowed(kinds[name], table, grounds, taken), draws.place[i])
        room = ~functools.reduce(operator.and_, [m.alive for m in slots])
        appears = room & (draws.spawn[i] < chances[name])
        number = settled(jnp.where(appears, number, -1))
        row = world.row + _of(table.rows, number)
        column = world.column + _of(table.columns, number)
        after = _filled(slots, row, column, health[name], number >= 0, ~room)
        world = world._replace(mobs={**world.mobs, name: after})
        first = _number(world, slots[0], ~room, reach)  # marked anew, see `_filled`
        taken.append(jnp.maximum(number, first))
    return world


def _grounds(
    cells: UInt8[Array, "size size"], world: World, table: _Reach, despawn_distance: Array
) -> Int32[Array, " words"]:
    """Words with the cells that are grass (low half) and path (high half)."""
    ground = Ground(cells)
    rows, columns = world.row + table.rows, world.column + table.columns
    inside = ground.inside(rows, columns) & (table.distance < despawn_distance)
    # One use of the block: with two it would be written and read again on a GPU.
    code = codes(ground.nearest(rows, columns), _GROUNDS[:1], _GROUNDS[1:])
    both = (code & 1) | ((code >> 1) << _CELLS)
    bit = np.arange(_CELLS, dtype=np.int32)
    return settled(jnp.where(inside, both << bit, 0).sum(axis=1, dtype=jnp.int32))


def _allowed(
    kind: MobRow, table: _Reach, grounds: Int32[Array, " words"], taken: list[Array]
) -> list[Array]:
    """Words of the cells where a kind may appear and no mob is seen."""
    distant = (table.distance > kind.nearest).astype(np.int32)
    far = (distant << np.arange(_CELLS, dtype=np.int32)).sum(axis=1, dtype=np.int32)

    def bits(word: Any, grounds: Array, taken: Any) -> Array:
        halves = [grounds >> (i * _CELLS) for i, g in enumerate(_GROUNDS) if g in kind.on]
        found = functools.reduce(operator.or_, halves) & far[word]
        for at, bit in taken:
            found = found & ~jnp.where(at == word, bit, 0)
        return found

    def together(grounds: Array, taken: Any) -> list[Array]:
        words = settled(bits(np.arange(table.words, dtype=np.int32), grounds, taken))
        return [words[w] for w in range(table.words)]

    def one_by_one(grounds: Array, taken: Any) -> list[Array]:
        return [bits(w, grounds[w], taken) for w in range(table.words)]

    # On a GPU an array would be written and read again, scalars stay where they are used.
    places = [(n >> 4, 1 << (n & (_CELLS - 1))) for n in taken]  # -1 is in no word
    return jax.lax.platform_dependent(grounds, places, cpu=together, default=one_by_one)


def _number(world: World, mob: Mob, when: Array, reach: int) -> Int32[Array, ""]:
    """Number of a mob's cell, -1 beyond reach or unless `when`."""
    d_row, d_column = mob.row - world.row, mob.column - world.column
    near = when & (jnp.abs(d_row) + jnp.abs(d_column) < reach)
    return jnp.where(near, _middle(d_row, reach) + d_column, -1)


def _middle(d_row: Array, reach: int) -> Array:
    """Number of the cell in the player's column, in a row of the diamond."""
    whole = 2 * reach * (reach - 1) + 1  # cells in the diamond
    above = jnp.minimum(d_row, 0) + reach - 1  # rows before it in the upper half
    upper = above * above + above
    below = reach - 1 - jnp.maximum(d_row, 0)
    lower = whole - 1 - (below * below + below)
    return jnp.where(d_row <= 0, upper, lower)


def _chosen(words: list[Array], uniform: Array) -> Int32[Array, ""]:
    """Number of a cell, uniform among the bits set; -1 where there is none."""
    counts = [jax.lax.population_count(word) for word in words]
    total = sum(counts[1:], counts[0])
    rank = jnp.ceil(total.astype(jnp.float32) * (1 - uniform)).astype(jnp.int32) - 1
    rank = rank.clip(0, jnp.maximum(total - 1, 0))
    word, first, before, seen = words[0], jnp.int32(0), jnp.int32(0), counts[0]
    for w in range(1, len(words)):
        later = rank >= seen
        word, first = jnp.where(later, words[w], word), jnp.where(later, w, first)
        before = jnp.where(later, seen, before)
        seen = seen + counts[w]
    number = first * _CELLS + _nth_bit(word, rank - before)
    return jnp.where(total > 0, number, -1)


def _nth_bit(word: Array, rank: Array) -> Array:
    """Place of the bit with this rank, from the lowest, in 16 bits: by halving."""
    place = jnp.int32(0)
    for width in (8, 4, 2, 1):
        low = jax.lax.population_count(word & ((1 << width) - 1))
        above = rank >= low
        rank = jnp.where(above, rank - low, rank)
        word = jnp.where(above, word >> width, word)
        place = place + jnp.where(above, width, 0)
    return place


def _filled(
    slots: tuple[Mob, ...], row: Array, column: Array, health: Array, appears: Array, full: Array
) -> tuple[Mob, ...]:
    """Slots with a new mob in the first dead one; its cooldown is what it was.

    With every slot alive upstream marks the cell of the first one anew.
    """
    after, wanted = [], appears
    for mob in slots:
        takes = wanted & ~mob.alive
        wanted = wanted & mob.alive
        after.append(
            mob._replace(
                row=jnp.where(takes, row, mob.row),
                column=jnp.where(takes, column, mob.column),
                health=jnp.where(takes, health, mob.health),
                alive=mob.alive | takes,
                marked=mob.marked | takes,
            )
        )
    after[0] = after[0]._replace(marked=after[0].marked | full)
    return tuple(after)


def _of(table: np.ndarray, number: Array) -> Array:
    return jnp.asarray(table.reshape(-1)).at[number].get(mode="clip")
