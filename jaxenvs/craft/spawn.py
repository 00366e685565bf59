"""Mobs that appear: one attempt a step for each role, on a cell uniform among those allowed.

The cells within reach are looked at once. Two bits each, see `planes`, are kept in words of 16
cells, so that counting, excluding and choosing are integer arithmetic on a few words. Classic
counts distance in steps, the full game in a straight line.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..core.bits import any_of, nth_bit, rank_of
from ..core.platforms import by_platform
from ..core.settle import settled
from .ground import BLOCK, Ground, codes, in_span, is_in, span
from .harm import is_boss_floor
from .state import Mob, World, changed, mobs_of
from .step import Moment
from .tables import APPEARING, Block, MobRow, Rules

SIEGE = 6  # cells from the player to the graves from which mobs rise on the last floor
_CELLS = 16  # in a word of both planes: the first in its low half, the second in the high half
_WORD = 2 * _CELLS  # cells in a word of one plane
_OFFSET = 64  # added to rows and columns of cells, which are then positive
_LANES = 4  # threads of a GPU for a word, see `_step_words`
_SHIFT, _LAST = 5, _WORD - 1  # so that n >> _SHIFT is n // _WORD, and n & _LAST is n % _WORD


class _Reach(NamedTuple):
    """The cells nearer to the player than `reach`, row by row."""

    reach: int
    rows: np.ndarray  # (words, 16) relative to the player
    columns: np.ndarray
    distance: np.ndarray  # beyond `reach` where a word is not full; squared if `straight`
    straight: bool  # whether in a straight line, else in steps

    @property
    def words(self) -> int:
        """Words that hold the cells of a plane."""
        return -(-self.rows.shape[0] // 2)

    def limit(self, distance: Any) -> Any:
        """A distance as `distance` has it."""
        return distance * distance if self.straight else distance

    def number(self, world: World, mob: Mob, when: Array) -> Int32[Array, ""]:
        """Number of a mob's cell, -1 beyond reach or unless `when`."""
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
        """Row and column of a cell by its number, without a lookup, which would split the kernel
        on a GPU."""
        row, first = jnp.int32(1 - self.reach), 1 - self.reach
        if self.straight:
            row, column = row + (number >> _SHIFT), number & _LAST
            column = first + column - jnp.where(column >= _CELLS, _CELLS - self.reach, 0)
            return world.row + row, world.column + column
        begins = 0  # number of the first cell of a row
        for d_row in range(first, self.reach - 1):
            begins += 2 * (self.reach - abs(d_row)) - 1
            row = row + (number >= begins).astype(jnp.int32)
        return world.row + row, world.column + number - _middle(row, self.reach)


@functools.lru_cache
def _disc(reach: int) -> _Reach:
    """Cells by straight distance: two words for a row of the square around them."""
    span = np.arange(1 - reach, reach + 1, dtype=np.int32)
    rows, columns = (a[:-1].reshape(-1, reach) for a in np.meshgrid(span, span, indexing="ij"))
    distance = rows * rows + columns * columns
    padding = ((0, 0), (0, _CELLS - reach))
    far = np.pad(distance, padding, constant_values=reach * reach)
    return _Reach(reach, np.pad(rows, padding), np.pad(columns, padding), far, True)


@functools.lru_cache
def _diamond(reach: int) -> _Reach:
    """Cells by steps."""
    span = np.arange(1 - reach, reach, dtype=np.int32)
    rows, columns = (a.reshape(-1) for a in np.meshgrid(span, span, indexing="ij"))
    inside = np.abs(rows) + np.abs(columns) < reach
    rows, columns = rows[inside], columns[inside]
    missing = -len(rows) % _CELLS
    rows = np.pad(rows, (0, missing), constant_values=reach).reshape(-1, _CELLS)
    columns = np.pad(columns, (0, missing)).reshape(-1, _CELLS)
    return _Reach(reach, rows, columns, np.abs(rows) + np.abs(columns), False)


class Odds(NamedTuple):
    """What may appear in a step, by role."""

    chances: dict[str, Array]
    health: dict[str, Array]
    types: dict[str, Any]  # of the role


def appear(moment: Moment, odds: Callable[[Moment], Odds]) -> Moment:
    """Let a mob of each role appear, or not."""
    rules, world, draws = moment.rules, moment.world, moment.draws
    given, table = odds(moment), (_disc if rules.floors else _diamond)(moment.reach)
    room = {role: any_of(~mob.alive for mob in world.mobs[role]) for role in APPEARING}
    appears = {r: room[r] & (draws.appears[r] < given.chances[r]) for r in APPEARING}
    grounds, boss = _grounds(moment, table, any_of(appears.values())), None
    if rules.floors:
        boss = is_boss_floor(rules, world)
    taken = [table.number(world, mob, mob.marked) for mob in mobs_of(world)]
    for role in APPEARING:
        slots, type = world.mobs[role], jnp.asarray(given.types[role], jnp.int32)
        siege = boss if role != "passive" else None
        allowed = _allowed(rules, role, type, table, grounds, taken, siege)
        number = _chosen(allowed, draws.place[role])
        number = settled(jnp.where(appears[role], number, -1))
        row, column = table.cell(world, number)
        new = slots[0]._replace(row=row, column=column, health=given.health[role], type=type)
        after = _filled(slots, new, number >= 0, ~room[role])
        world = world._replace(mobs={**world.mobs, role: after})
        first = table.number(world, slots[0], ~room[role])  # marked anew, see `_filled`
        taken.append(jnp.maximum(number, first))
    return moment._replace(world=world)


@functools.cache
def planes(rules: Rules) -> tuple[frozenset[Block], frozenset[Block]]:
    """Blocks on which the same mobs appear together: two such sets, a bit of a cell for each."""
    by_mobs: dict[tuple[str, ...], set[Block]] = {}
    for block in rules.blocks:
        names = tuple(row.name for row in rules.mobs if block in row.appears_on)
        if names:
            by_mobs.setdefault(names, set()).add(block)
    if len(by_mobs) > 2:
        raise ValueError(f"mobs appear on {len(by_mobs)} kinds of ground; there may be two")
    first, second = (*map(frozenset, by_mobs.values()), frozenset(), frozenset())[:2]
    return first, second


def _grounds(moment: Moment, table: _Reach, wanted: Array) -> Int32[Array, " words"]:
    """Words with the cells of the first plane (low half) and of the second (high half).

    They are read only if `wanted`; elsewhere a GPU does not read the map.
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
        return settled(jnp.where(inside, both << bit, 0).sum(axis=1, dtype=jnp.int32))

    def in_threads(cells: Array, place: Any, wanted: Array) -> Array:
        *place, limit = place
        place = (*place, jnp.where(wanted, limit, 0))
        return (_run_words if table.straight else _step_words)(rules, table, cells, place)

    return by_platform(ground.cells, place, wanted, cpu=at_once, default=in_threads)


def _run_words(rules: Rules, table: _Reach, cells: Array, place: Any) -> Int32[Array, " words"]:
    """Words for a GPU, of cells by straight distance: each is a run of cells in a row.

    A thread makes a whole word, for the row's part of the arithmetic is the same for its cells.
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
    return jax.lax.optimization_barrier(word)


def _step_words(rules: Rules, table: _Reach, cells: Array, place: Any) -> Int32[Array, " words"]:
    """Words for a GPU, of cells by steps, of which a word holds parts of several rows.

    Four threads make a word. A cell's place is one number of the table and one addition.
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
    """Whether a number is at least 0 and below `most`, by one comparison."""
    return number.astype(jnp.uint32) < most


def _both(rules: Rules, cells: Array, floor: Any) -> Int32[Array, "*cells"]:
    """Whether cells are of the first plane (bit 0) and of the second (bit _CELLS)."""
    first, second = planes(rules)
    # Few uses of the block: with many it would be written and read again on a GPU.
    if not rules.floors:
        code = codes(cells, first, second)
        return (code & 1) | ((code >> 1) << _CELLS)
    boss, blocks = floor == len(rules.floors) - 1, cells & BLOCK
    spans = zip(span(second), span(rules.graves), strict=True)
    low, bits = (jnp.where(boss, there, here) for here, there in spans)
    return in_span(blocks, *span(first)) | (in_span(blocks, low, bits) << _CELLS)


def _allowed(
    rules: Rules,
    role: str,
    type: Any,
    table: _Reach,
    grounds: Int32[Array, " words"],
    taken: list[Array],
    siege: Array | None,
) -> list[Array]:
    """Words of the cells where a type may appear and no mob is seen.

    In a `siege` they are the near ones of the second plane.
    """
    kinds: dict[tuple[int, tuple[int, ...]], list[int]] = {}  # types that appear alike
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
        # Joined first: one by one a GPU would write each complement and read it again.
        seen = [jnp.where(at == word, bit, 0) for at, bit in taken]
        return found & ~any_of(seen)

    def together(grounds: Array, taken: Any) -> list[Array]:
        low, high = grounds[::2], grounds[1::2]
        high = jnp.pad(high, (0, len(low) - len(high)))
        words = settled(bits(np.arange(table.words, dtype=np.int32), low, high, taken))
        return [words[w] for w in range(table.words)]

    def one_by_one(grounds: Array, taken: Any) -> list[Array]:
        each = [*(grounds[i] for i in range(len(grounds))), jnp.int32(0)]
        return [bits(w, each[2 * w], each[2 * w + 1], taken) for w in range(table.words)]

    # On a GPU an array would be written and read again, scalars stay where they are used.
    places = [(n >> _SHIFT, 1 << (n & _LAST)) for n in taken]  # -1 is in no word
    return by_platform(grounds, places, cpu=together, default=one_by_one)


def _far(table: _Reach, nearest: int) -> np.ndarray:
    """Words of the cells farther than `nearest`."""
    distant = (table.distance > table.limit(nearest)).reshape(-1)
    distant = np.pad(distant, (0, -len(distant) % _WORD)).reshape(-1, _WORD)
    return (distant.astype(np.int32) << np.arange(_WORD, dtype=np.int32)).sum(1, dtype=np.int32)


def _halves(rules: Rules, row: MobRow) -> tuple[int, ...]:
    """Planes on which a type appears."""
    return tuple(i for i, plane in enumerate(planes(rules)) if plane & row.appears_on)


def _upper(word: Array) -> Array:
    """The upper half of a word."""
    return jax.lax.shift_right_logical(word, jnp.full_like(word, _CELLS))


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
    rank = rank_of(uniform, total)
    return jnp.where(total > 0, nth_bit(words, rank, _WORD), -1)


def _filled(slots: tuple[Mob, ...], new: Mob, appears: Array, full: Array) -> tuple[Mob, ...]:
    """Slots with a new mob in the first dead one; its cooldown is what it was.

    Upstream's quirks: that slot changes its type also where nobody appears. With every slot alive
    the first one does, and its cell is marked anew.
    """
    after, wanted, first = [], appears, jnp.ones((), jnp.bool_)
    for mob in slots:
        takes, retypes = wanted & ~mob.alive, first & ~mob.alive
        wanted, first = wanted & mob.alive, first & mob.alive
        mob = changed(mob, takes, row=new.row, column=new.column, health=new.health)
        mob = changed(mob, retypes, type=new.type)
        after.append(mob._replace(alive=mob.alive | takes, marked=mob.marked | takes))
    type = jnp.where(full, new.type, after[0].type)
    after[0] = after[0]._replace(marked=after[0].marked | full, type=type)
    return tuple(after)
