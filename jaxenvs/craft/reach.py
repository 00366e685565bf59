"""Cells near the player on which mobs may appear, as bits of 32-bit words.

The map cells near the player are read once and reduced to two bits per cell, which say in which of
two sets of blocks the cell's block is, see `planes`. Other functions then count, exclude and choose
cells by integer arithmetic on the words. Classic measures distance in steps, the full game in a
straight line. CPUs and GPUs run different code with the same results.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..core.bits import any_of, nth_bit, rank_of
from ..core.platforms import by_platform
from .compiler.barriers import materialised
from .compiler.once import once
from .ground import BLOCK, Ground, codes, in_span, is_in, span
from .state import Mob, World
from .step import Moment
from .tables import Block, MobRow, Rules

# On the boss floor, melee and ranged mobs appear on graves at most this many cells from the player.
SIEGE = 6
# Number of map cells that share a 32-bit word of `grounds`. Each cell has two bits: one in the low
# half of the word for the first set of blocks that `planes` returns, one in the high half for the
# second set.
_CELLS = 16
_WORD = 2 * _CELLS  # number of map cells per word, in words with one bit per cell
_OFFSET = 64  # added to rows and columns relative to the player, so that the sums are positive
_LANES = 4  # number of GPU threads that compute one word together, see `_step_words`
_SHIFT, _LAST = 5, _WORD - 1  # n >> _SHIFT is n // _WORD, and n & _LAST is n % _WORD


class Reach(NamedTuple):
    """Table of the map cells nearer than `reach` to the player: relative positions and distances.

    The arrays have 16 columns and list the cells from top to bottom; some entries may be unused.
    The table index of a cell is the index of its entry in the flattened arrays.
    """

    reach: int
    rows: np.ndarray  # map row of each cell minus the player's map row, (rows, 16)
    columns: np.ndarray
    # Distance of each cell from the player, squared if `straight`.
    # Unused entries are at least `reach` away, so they are never chosen.
    distance: np.ndarray
    straight: bool  # whether distances are Euclidean; otherwise they are numbers of steps

    @property
    def words(self) -> int:
        """Number of 32-bit words that hold one bit for each cell of the table."""
        return -(-self.rows.shape[0] // 2)

    def limit(self, distance: Any) -> Any:
        """Return `distance` squared if `straight`, else unchanged.

        The result can be compared with the values of the field `distance`.
        """
        return distance * distance if self.straight else distance

    def number(self, world: World, mob: Mob, when: Array) -> Int32[Array, ""]:
        """Return the table index of the cell on which `mob` stands.

        Return -1 if the cell is not in the table, or if `when` is False.
        """
        d_row, d_column = mob.row - world.row, mob.column - world.column
        if self.straight:
            near = d_row * d_row + d_column * d_column < self.reach * self.reach
            column = d_column + self.reach - 1
            half = (column >= self.reach).astype(jnp.int32)
            word = 2 * (d_row + self.reach - 1) + half
            number = word * _CELLS + column - self.reach * half
        else:
            near = jnp.abs(d_row) + jnp.abs(d_column) < self.reach
            number = _middle(d_row, self.reach) + d_column
        return jnp.where(when & near, number, -1)

    def cell(self, world: World, number: Array) -> tuple[Array, Array]:
        """Return the map row and map column of a cell, given its index in the table.

        The position is computed, because a lookup in the table would split the kernel that XLA
        makes on a GPU.
        """
        row, first = jnp.int32(1 - self.reach), 1 - self.reach
        if self.straight:
            row, column = row + (number >> _SHIFT), number & _LAST
            column = first + column - jnp.where(column >= _CELLS, _CELLS - self.reach, 0)
            return world.row + row, world.column + column
        begins = 0  # index of the first cell of the next map row
        for d_row in range(first, self.reach - 1):
            begins += 2 * (self.reach - abs(d_row)) - 1
            row = row + (number >= begins).astype(jnp.int32)
        return world.row + row, world.column + number - _middle(row, self.reach)


@functools.lru_cache
def disc(reach: int) -> Reach:
    """Return the table of all cells nearer than `reach` in Euclidean distance, for the full game.

    The table lists the square around this disc. Cells of the square outside the disc are unused
    entries. Each map row of the square takes two rows of 16 entries.
    """
    span = np.arange(1 - reach, reach + 1, dtype=np.int32)
    rows, columns = (a[:-1].reshape(-1, reach) for a in np.meshgrid(span, span, indexing="ij"))
    distance = rows * rows + columns * columns
    padding = ((0, 0), (0, _CELLS - reach))
    far = np.pad(distance, padding, constant_values=reach * reach)
    return Reach(reach, np.pad(rows, padding), np.pad(columns, padding), far, True)


@functools.lru_cache
def diamond(reach: int) -> Reach:
    """Return the table of all cells less than `reach` steps away, for Classic.

    These cells form a diamond.
    """
    span = np.arange(1 - reach, reach, dtype=np.int32)
    rows, columns = (a.reshape(-1) for a in np.meshgrid(span, span, indexing="ij"))
    inside = np.abs(rows) + np.abs(columns) < reach
    rows, columns = rows[inside], columns[inside]
    missing = -len(rows) % _CELLS
    rows = np.pad(rows, (0, missing), constant_values=reach).reshape(-1, _CELLS)
    columns = np.pad(columns, (0, missing)).reshape(-1, _CELLS)
    return Reach(reach, rows, columns, np.abs(rows) + np.abs(columns), False)


@functools.cache
def planes(rules: Rules) -> tuple[frozenset[Block], frozenset[Block]]:
    """Divide the blocks on which mobs appear into two sets, and return the two sets.

    Two blocks are in the same set if the same types of mobs appear on them. If one set is enough,
    the second is empty. The other functions of this module compute one bit plane per set: the bit
    of a cell is 1 if the cell's block is in the set.

    Raises ValueError if more than two sets are needed.
    """
    by_mobs: dict[tuple[str, ...], set[Block]] = {}
    for block in rules.blocks:
        names = tuple(row.name for row in rules.mobs if block in row.appears_on)
        if names:
            by_mobs.setdefault(names, set()).add(block)
    if len(by_mobs) > 2:
        raise ValueError(
            f"the mobs' `appears_on` form {len(by_mobs)} groups of blocks; at most 2 are possible"
        )
    first, second = (*map(frozenset, by_mobs.values()), frozenset(), frozenset())[:2]
    return first, second


def grounds(moment: Moment, table: Reach, wanted: Array) -> Int32[Array, " words"]:
    """Return, as bits, which cells near the player have a block on which mobs can appear.

    A word has two bits for each of 16 cells of the table: bit i says whether the block of cell i is
    in the first set of `planes`, bit 16 + i whether the block is in the second set. Both bits are 0
    if the cell's distance from the player is `mob_despawn_distance` or more. `wanted` says whether
    a mob may appear in this step. If it is False, the words are not used; on a GPU they are then 0,
    and the cells near the player are not read.
    """
    ground, world, rules = moment.ground, moment.world, moment.rules
    limit = table.limit(moment.params.mob_despawn_distance)
    place = (world.row, world.column, world.floor, limit)

    def at_once(cells: Array, place: Any, _: Array) -> Array:
        ground = Ground(cells, place[2])
        rows, columns = place[0] + table.rows, place[1] + table.columns
        inside = ground.inside(rows, columns) & (table.distance < place[3])
        both = _both(rules, ground.nearest(rows, columns), ground.floor)
        bit = np.arange(_CELLS, dtype=np.int32)
        return once(jnp.where(inside, both << bit, 0).sum(axis=1, dtype=jnp.int32))

    def in_threads(cells: Array, place: Any, wanted: Array) -> Array:
        *place, limit = place
        place = (*place, jnp.where(wanted, limit, 0))
        return (_run_words if table.straight else _step_words)(rules, table, cells, place)

    return by_platform(ground.cells, place, wanted, cpu=at_once, default=in_threads)


def _run_words(rules: Rules, table: Reach, cells: Array, place: Any) -> Int32[Array, " words"]:
    """Do the work of `grounds` on a GPU if the table was made by `disc`.

    The 16 cells of a word lie in one map row. A GPU thread computes a whole word, so the arithmetic
    on the map row is done once per word.
    """
    row, column, floor, limit = place
    ground = Ground(cells, floor)
    offset, first = table.rows[:, 0], column + table.columns[:, 0]
    row = row + offset
    room = jnp.where(_is_below(row, ground.size), limit - offset * offset, 0)
    begin, word = ground.index(row, first), jnp.int32(0)
    for i in range(table.reach):
        away = first + i - column
        inside = _is_below(first + i, ground.size) & (away * away < room)
        cell = ground.at(jnp.where(inside, begin + i, 0))
        word = word | jnp.where(inside, _both(rules, cell, floor) << i, 0)
    return materialised(word)


def _step_words(rules: Rules, table: Reach, cells: Array, place: Any) -> Int32[Array, " words"]:
    """Do the work of `grounds` on a GPU if the table was made by `diamond`.

    The 16 cells of a word lie in several map rows, and four GPU threads compute a word. A constant
    integer for each cell packs three numbers: row and column relative to the player, and distance.
    When the player's packed position is added to this integer, the sum has the cell's map row and
    map column.
    """
    row, column, floor, limit = place
    ground, lane = Ground(cells, floor), np.arange(_LANES, dtype=np.int32)
    offsets = (table.rows + _OFFSET) << 8 | (table.columns + _OFFSET) | (table.distance << 16)
    here, word = (row << 8) + column, jnp.int32(0)
    for i in range(0, _CELLS, _LANES):
        number = offsets[:, i : i + _LANES] + here
        rows, columns = ((number >> 8) & 255) - _OFFSET, (number & 255) - _OFFSET
        inside = _is_below(rows, ground.size) & _is_below(columns, ground.size)
        inside = inside & ((number >> 16) < limit)
        cell = ground.at(jnp.where(inside, ground.index(rows, columns), 0))
        word = word | jnp.where(inside, _both(rules, cell, floor) << (lane + i), 0)
    return word.sum(axis=1, dtype=jnp.int32)


def _is_below(number: Array, most: int) -> Bool[Array, "*shape"]:
    """Return whether a number is in [0, most), by one unsigned comparison."""
    return number.astype(jnp.uint32) < most


def _both(rules: Rules, cells: Array, floor: Any) -> Int32[Array, "*cells"]:
    """Return one integer per cell, with a bit for each set of blocks that `planes` returns.

    Bit 0 is set if the cell's block is in the first set, bit _CELLS if it is in the second. On the
    boss floor of the full game, `Rules.graves` replaces the second set. `cells` are the values that
    the map stores for the cells.
    """
    first, second = planes(rules)
    # The two returned expressions use `cells` only a few times, because with more uses XLA on a GPU
    # would write the blocks of the cells to memory and read them again.
    if not rules.is_full:
        code = codes(cells, first, second)
        return (code & 1) | ((code >> 1) << _CELLS)
    boss, blocks = floor == rules.last_floor, cells & BLOCK
    spans = zip(span(second), span(rules.graves), strict=True)
    low, bits = (jnp.where(boss, there, here) for here, there in spans)
    return in_span(blocks, *span(first)) | (in_span(blocks, low, bits) << _CELLS)


def _far(table: Reach, nearest: int) -> np.ndarray:
    """Return one bit per cell of the table: 1 if it is farther than `nearest` from the player.

    The bits are packed into int32 words.
    """
    distant = (table.distance > table.limit(nearest)).reshape(-1)
    distant = np.pad(distant, (0, -len(distant) % _WORD)).reshape(-1, _WORD)
    return (distant.astype(np.int32) << np.arange(_WORD, dtype=np.int32)).sum(1, dtype=np.int32)


def _middle(d_row: Array, reach: int) -> Array:
    """Return the table index of the diamond's cell `d_row` rows straight below the player.

    A negative `d_row` means above the player.
    """
    whole = 2 * reach * (reach - 1) + 1  # number of cells in the whole diamond
    above = jnp.minimum(d_row, 0) + reach - 1  # number of diamond rows above row min(d_row, 0)
    upper = above * above + above
    below = reach - 1 - jnp.maximum(d_row, 0)
    lower = whole - 1 - (below * below + below)
    return jnp.where(d_row <= 0, upper, lower)


def allowed(
    rules: Rules,
    role: str,
    type: Any,
    table: Reach,
    grounds: Int32[Array, " words"],
    taken: list[Array],
    siege: Array | None,
) -> list[Array]:
    """Return one bit per cell of the table: 1 if a mob of the given type may appear on the cell.

    The bits are packed into words. `grounds` is the output of the function `grounds`. `taken` has
    the table indices of the cells that marked mobs occupy (see `Mob.marked`); -1 stands for no
    cell. If `siege` is True (on the boss floor), the mob may appear only on graves at most SIEGE
    cells from the player; on that floor, the second bit plane of `grounds` shows the graves.
    """
    # Mob types, grouped by the conditions that a cell must meet. A key is a pair: the value of
    # `MobRow.nearest`, and the result of `_halves`, which says on which blocks the mobs appear.
    kinds: dict[tuple[int, tuple[int, ...]], list[int]] = {}
    for number, row in enumerate(rules.types(role)):
        kinds.setdefault((row.nearest, _halves(rules, row)), []).append(number)
    fars = {nearest: _far(table, nearest) for nearest, _ in kinds}

    def bits(word: Any, low: Array, high: Array, taken: Any) -> Array:
        plane = (low & (1 << _CELLS) - 1) | (high << _CELLS), _upper(low) | (high & -1 << _CELLS)
        found = jnp.int32(0)
        for (nearest, halves), types in kinds.items():
            some = any_of(plane[i] for i in halves) & fars[nearest][word]
            found = some if len(kinds) == 1 else jnp.where(is_in(type, types), some, found)
        if siege is not None:
            found = jnp.where(siege, plane[1] & ~_far(table, SIEGE)[word], found)
        # Combine the bits of all taken cells by OR, then clear them in `found` by one operation. If
        # each bit were cleared separately, XLA on a GPU would store and reload the inverted bit.
        seen = [jnp.where(at == word, bit, 0) for at, bit in taken]
        return found & ~any_of(seen)

    def together(grounds: Array, taken: Any) -> list[Array]:
        low, high = grounds[::2], grounds[1::2]
        high = jnp.pad(high, (0, len(low) - len(high)))
        words = once(bits(np.arange(table.words, dtype=np.int32), low, high, taken))
        return [words[w] for w in range(table.words)]

    def one_by_one(grounds: Array, taken: Any) -> list[Array]:
        each = [*(grounds[i] for i in range(len(grounds))), jnp.int32(0)]
        return [bits(w, each[2 * w], each[2 * w + 1], taken) for w in range(table.words)]

    # For each taken cell, the index of its word and the mask of its bit. The cell index -1 (no
    # cell) gives the word index -1, which matches no word.
    places = [(n >> _SHIFT, 1 << (n & _LAST)) for n in taken]
    # On a GPU, keep the words as separate scalars, which XLA fuses into their consumers.
    # XLA would write an array of words to memory and read it again.
    return by_platform(grounds, places, cpu=together, default=one_by_one)


def _halves(rules: Rules, row: MobRow) -> tuple[int, ...]:
    """Return the indices (0, 1 or both) of the block sets on which the mob type `row` appears.

    `planes` returns the two sets. A mob type appears on all blocks of a set or on none, because
    `planes` groups blocks by the mobs that appear on them.
    """
    return tuple(i for i, plane in enumerate(planes(rules)) if plane & row.appears_on)


def _upper(word: Array) -> Array:
    """Return the high half of each 32-bit word as a number of 16 bits."""
    return jax.lax.shift_right_logical(word, jnp.full_like(word, _CELLS))


def chosen(words: list[Array], uniform: Array) -> Int32[Array, ""]:
    """Draw one of the cells whose bits are set in `words`, each with the same probability.

    `words` is the output of `allowed`. Return the index of the cell in the table; -1 if no bit is
    set.
    """
    counts = [jax.lax.population_count(word) for word in words]
    total = sum(counts[1:], counts[0])
    rank = rank_of(uniform, total)
    return jnp.where(total > 0, nth_bit(words, rank, _WORD), -1)
