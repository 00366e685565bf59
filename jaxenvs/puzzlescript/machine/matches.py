"""Matches of rules: test patterns on bit planes, and list the matches in the engine's order.

A pattern is the condition of a rule on one cell. A row is the list of patterns in one pair of
brackets. A match of a row is its start cell and its gap, the number of cells that the ellipsis
skips. A tuple is one match for each row of a rule. A rule is applied to its tuples one by one.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ...core.platforms import by_platform
from . import ellipses, planes
from .planes import ALL, DOWN
from .sizes import BITS, WORD, Size
from .state import Board, Place, Program, Turn

Literals = UInt32[Array, "literals side words"]  # result of `literals`


class Tested(NamedTuple):
    """Start cells of the matches of rows (pairs of brackets), as bit planes.

    A row is tested in parts. `head` is for the part before the first ellipsis, or the whole row if
    it has none. `tail` is for the part after the last ellipsis. `head_changes` and `tail_changes`
    have only the matches that would change something. The first axis of each array is the rows of
    one rule, or the first two axes are rules and their rows.
    """

    head: UInt32[Array, "*rules rows side words"]
    tail: UInt32[Array, "*rules rows side words"]
    head_changes: UInt32[Array, "*rules rows side words"]
    tail_changes: UInt32[Array, "*rules rows side words"]
    # Cells at which the part between two ellipses can start; None if no row has two ellipses.
    middle: UInt32[Array, "*rules rows side words"] | None = None
    middle_changes: UInt32[Array, "*rules rows side words"] | None = None


def literals(p: Program, turn: Turn) -> Literals:
    """Return, for each positive literal, the bit plane of the cells in which it holds.

    A literal is an integer that stands for a set of cells, see `Tables`. The plane of literal i has
    index i. Index 0 belongs to no literal; its plane has all cells of the level.
    """
    inside, base = p.inside[None], turn.planes
    if turn.rigid:
        base = jnp.concatenate([base, turn.rigid.records.reshape(-1, *base.shape[1:])])
    sets = p.tables.sets.all
    if p.members is not None:
        found = _unions(p.members, base)
    else:
        found = by_platform(sets, base, cpu=unions, default=unions_by_parts)
    return jnp.concatenate([inside, inside, base, found])


def prepared(p: Program, board: Board) -> Program:
    """Return the program with the fields that depend only on the game and the level's size."""
    size = p.size
    is_small = size.sets * size.known < MANY
    members = planes.flags(p.tables.sets.all, size.known) if is_small else None
    inside = planes.level(board.width, board.height, size.side, size.words)
    of_moves = planes.index(size.layers * BITS) // BITS
    layers = jnp.concatenate([p.tables.layer.all, jnp.asarray(of_moves)])
    return p._replace(inside=inside, members=members, layers=layers)


def unions(sets: UInt32[Array, "sets plane_words"], base: Array) -> UInt32[Array, "..."]:
    """Return the union of the planes of each set.

    `sets` has a bit mask of each set's planes, and `base` has all planes.
    """
    return _unions(planes.flags(sets, len(base)), base)


def _unions(members: Bool[Array, "sets planes"], base: Array) -> UInt32[Array, "..."]:
    """Return the union of the planes of each set; `members` has each set's planes."""
    kept = jnp.where(members[:, :, None, None], base, jnp.uint32(0))
    return planes.union(kept, 1)


PART = 4  # number of planes in a part, see `unions_by_parts`
# A GPU uses `unions_by_parts` if the number of sets times the number of planes is at least `MANY`.
# A cost model for an H200 (no measurement) predicts that `unions_by_parts` takes a third of the
# time of `unions` in size `medium`, but more time than `unions` in size `small`.
MANY = 8192


def unions_by_parts(sets: UInt32[Array, "sets plane_words"], base: Array) -> UInt32[Array, "..."]:
    """Return the result of `unions`, computed faster for many sets.

    Divide the planes into parts of four planes, and compute the unions of the 16 subsets of each
    part once. The union of a set is then the union of one subset per part.
    """
    count = -(-len(base) // PART)
    # One more part, without planes, comes first. Without it, XLA would compute the multiples of 16
    # in `place` in a separate kernel.
    padded = jnp.pad(base, [(PART, count * PART - len(base)), (0, 0), (0, 0)])
    parts = padded.reshape(count + 1, 1, PART, *base.shape[1:])
    selections = planes.index(1 << PART)[:, None] >> planes.index(PART) & 1 != 0
    kept = jnp.where(selections[:, :, None, None], parts, jnp.uint32(0))
    of_parts = planes.union(kept, 2)
    first_plane = planes.index(count) * PART
    selection = sets[:, first_plane // WORD] >> (first_plane % WORD).astype(np.uint32)
    selection = (selection & np.uint32((1 << PART) - 1)).astype(jnp.int32)
    place = selection + (planes.index(count) + np.int32(1) << PART)
    read = of_parts.reshape(count + 1 << PART, *base.shape[1:])[place]
    return planes.union(read, 1)


def _read(found: Literals, numbers: Array) -> UInt32[Array, "..."]:
    """Return, for each literal in `numbers`, the plane of the cells in which it holds.

    `found` has the planes of the positive literals. A negative literal holds in the cells of the
    level in which the positive literal does not.
    """
    numbers = numbers.astype(jnp.int32)
    plane = found.at[jnp.abs(numbers)].get(mode="promise_in_bounds")
    return jnp.where((numbers < 0)[..., None, None], ~plane & found[0], plane)


def matching(p: Program, found: Literals, patterns: Int32[Array, "*n"]) -> UInt32[Array, "..."]:
    """Return, for the index of each pattern, the plane of the cells that meet its condition."""
    read = _read(found, p.tables.literals[patterns][..., : p.size.tests])
    return planes.intersection(read, read.ndim - 3)


def tested(p: Program, found: Literals, rules: Int32[Array, " w"]) -> Tested:
    """Find the cells at which each row (pair of brackets) of each rule in `rules` matches."""
    size, tables = p.size, p.tables
    read = _read(found, tables.literals[tables.cells[rules]])
    match = planes.intersection(read[..., : size.tests, :, :], read.ndim - 3)
    change = planes.union(read[..., size.tests :, :, :], read.ndim - 3)
    # Without the barrier, a GPU would compute `change` again for each direction.
    match, change = jax.lax.optimization_barrier((match, change))
    direction = jnp.broadcast_to(tables.direction[rules][:, None], (len(rules), size.rows))

    def part(start: int, count: int, length: Array) -> tuple[Array, Array]:
        match_part, change_part = (
            each[..., start : start + count, :, :] for each in (match, change)
        )
        return _segment(found[0], match_part, change_part, length, direction)

    head = part(0, size.cells, tables.length[rules])
    if not size.tail:
        nothing = jnp.zeros_like(head[0])
        return Tested(head[0], nothing, head[1], nothing)
    tail = part(size.cells + size.middle, size.tail, tables.tail_length[rules])
    if not size.middle:
        return Tested(head[0], tail[0], head[1], tail[1])
    middle = part(size.cells, size.middle, tables.middle_length[rules])
    return Tested(head[0], tail[0], head[1], tail[1], *middle)


def _segment(
    inside: Array, match: Array, change: Array, length: Array, direction: Array
) -> tuple[Array, Array]:
    """Return the cells at which a match of a part of a row starts.

    `match` has the cells that meet each pattern of the part, and `change` has the cells that each
    replacement would change. In a match, successive cells in `direction` meet the first `length`
    patterns, one cell per pattern. The second result has only the start cells of matches in which
    the rule would change a cell.
    """
    here = jnp.broadcast_to(inside, match.shape[:-3] + match.shape[-2:])
    changes = jnp.zeros_like(here)
    for c in range(match.shape[-3]):
        used = (c < length)[..., None, None]
        here &= jnp.where(used, planes.back(match[..., c, :, :], direction, c), ALL)
        changes |= jnp.where(used, planes.back(change[..., c, :, :], direction, c), jnp.uint32(0))
    return here, changes & here


def row_results(
    p: Program, tests: Tested, rules: Int32[Array, " w"]
) -> tuple[Bool[Array, "w rows"], Bool[Array, "w rows"]]:
    """Return whether each row of each rule has a match.

    The second result is whether the row has a match that would change something.
    """
    head, changes = tests.head, tests.head_changes
    length = p.tables.length[rules]
    if p.size.tail:
        direction = jnp.broadcast_to(p.tables.direction[rules][..., None], length.shape)
        tail, tail_changes = tests.tail, tests.tail_changes
        if between := p.size.middle:
            middle = p.tables.middle_length[rules]
            parts = [_starts(part, direction, middle, between) for part in (tail, tail_changes)]
            tail, tail_changes = ellipses.joined(tests, middle, *parts)
        any_tail = _starts(tail, direction, length, p.size.cells)
        changing_tail = _starts(tail_changes, direction, length, p.size.cells)
        has_tail = (p.tables.tail_length[rules] > 0)[..., None, None]
        changes = jnp.where(has_tail, changes & any_tail | head & changing_tail, changes)
        head = jnp.where(has_tail, head & any_tail, head)
    has_match, has_change = planes.some_in(2, head, changes)
    return has_match | (length == 0), has_change & (length > 0)


def _starts(tail: Array, direction: Array, length: Array, most: int) -> Array:
    """Return the cells at which a part of a row can start so that the rest of the row can follow.

    `tail` has the cells at which the rest matches. The part has `length` cells, at most `most`; its
    own patterns are not tested. The ellipsis after it skips any number of cells.
    """
    return by_platform(
        tail,
        direction,
        length,
        cpu=functools.partial(_starts_by_steps, most=most),
        default=_starts_by_lines,
    )


def _starts_by_lines(tail: Array, direction: Array, length: Array) -> Array:
    """Return the result of `_starts`, with one reduction over the lines and no moved planes.

    Bits of columns outside of the plane, from column `side` on, may differ.
    """
    direction, by = direction[..., None, None], length[..., None, None]
    side, words = tail.shape[-2:]
    line = planes.index(side)
    ahead = line - line[:, None]  # [line, other line]: how many lines the other line is below it
    far = jnp.where(direction == planes.UP, -ahead, ahead) >= by
    seen = jnp.where(far[..., None], tail[..., None, :, :], jnp.uint32(0))
    in_column = planes.union(seen, tail.ndim - 1)
    # Numbers of the first and of the last column of each line of the tail.
    lowest = planes.column_of(planes.lowest(tail))
    highest = planes.column_of(np.int32(WORD - 1) - jax.lax.clz(tail).astype(jnp.int32))
    first = jnp.where(tail != 0, lowest, side).min(axis=-1, keepdims=True)
    last = jnp.where(tail != 0, highest, -1).max(axis=-1, keepdims=True)
    to_right = ~planes.columns_behind(last - by, words)
    to_left = planes.columns_behind(first + by - 1, words)
    in_line = jnp.where(direction == planes.RIGHT, to_right, to_left)
    return jnp.where(direction % 2 == DOWN, in_column, in_line)


def _starts_by_steps(tail: Array, direction: Array, length: Array, most: int) -> Array:
    """Return the result of `_starts`, computed by moving the planes."""
    by = 1
    while by < tail.shape[-2]:
        tail |= planes.back(tail, direction, by)
        by *= 2
    # The rest of the row starts after the part's cells.
    return moved_back(tail, direction, length, most)


def moved_back(plane: Array, direction: Array, length: Array, most: int) -> Array:
    """Move the bits of each plane by `length` cells, at most `most`, against `direction`."""
    moved = plane
    for c in range(1, most + 1):
        at = (length == c)[..., None, None]
        moved = jnp.where(at, planes.back(plane, direction, c), moved)
    return moved


def _by_gap(
    size: Size, plane: UInt32[Array, "rows side words"], direction: Int32[Array, " rows"]
) -> UInt32[Array, "rows gaps side words"]:
    """Return, for each gap, the planes moved by this number of cells against `direction`."""
    return jnp.stack([planes.back(plane, direction, gap) for gap in range(size.gaps)], 1)


def is_vertical(p: Program, rule: Array) -> Bool[Array, ""]:
    """Return whether a rule applies up or down; its matches are then ordered column by column."""
    return p.tables.direction[rule] % 2 == DOWN


def of_rule(
    p: Program, tests: Tested, rule: Int32[Array, ""]
) -> tuple[UInt32[Array, "rows gaps side words"], UInt32[Array, "rows gaps side words"]]:
    """Return the start cells of the matches of each row of a rule, one plane for each gap.

    A gap is the number of cells that an ellipsis skips (see `Place`). The second result has only
    the matches that would change something.
    """
    size, length = p.size, p.tables.length[rule]
    found, change = tests.head[:, None], tests.head_changes[:, None]
    if size.tail:
        if size.middle:
            tail, tail_change = ellipses.behind(p, tests, rule)
        else:
            direction = jnp.broadcast_to(p.tables.direction[rule], length.shape)
            tail, tail_change = (
                _by_gap(size, moved_back(part, direction, length, size.cells), direction)
                for part in (tests.tail, tests.tail_changes)
            )
        has_tail = (p.tables.tail_length[rule] > 0)[:, None, None, None]
        no_gap = (planes.index(size.gaps) == 0)[:, None, None]
        alone = [jnp.where(no_gap, part, jnp.uint32(0)) for part in (found, change)]
        change = jnp.where(has_tail, change & tail | found & tail_change, alone[1])
        found = jnp.where(has_tail, found & tail, alone[0])
    # The arrays may have more rows than the rule, but a tuple needs a match for every row of the
    # arrays. Each surplus row therefore gets one match, which changes nothing.
    absent = (length == 0)[:, None, None, None]
    only = absent & (planes.index(size.gaps) == 0)[:, None, None]
    only = only & (planes.index(size.side) == 0)[:, None] & (planes.index(size.words) == 0)
    found = jnp.where(absent, only.astype(jnp.uint32), found)
    return found, jnp.where(absent, jnp.uint32(0), change)


def numbers(
    found: UInt32[Array, "*batch gaps side words"], vertical: Bool[Array, ""]
) -> Int32[Array, "*batch gaps side words"]:
    """Return, for each word, the number of the first match; `NONE` if the word has no match.

    Matches are numbered line by line, or column by column if `vertical`. Matches that start at the
    same cell are numbered by their gap, the number of cells that the ellipsis skips.
    """
    gaps = found.shape[-3]
    cell = planes.numbers(found, vertical)
    number = cell * np.int32(gaps) + planes.index(gaps)[:, None, None]
    return jnp.where(cell == planes.NONE, planes.NONE, number)


def first(
    found: UInt32[Array, "*batch gaps side words"], vertical: Bool[Array, ""]
) -> Int32[Array, "*batch"]:
    """Return the number of the first match (see `numbers`); `NONE` if there is none."""
    return numbers(found, vertical).min(axis=(-3, -2, -1))


def place(p: Program, number: Int32[Array, " rows"], vertical: Bool[Array, ""]) -> Place:
    """Return the match with a number, see `numbers`."""
    cell, gap = planes.parts(number, p.size.gaps)
    return Place(*planes.place(cell, vertical, p.size.side), gap)


def next_tuple(
    p: Program,
    able: UInt32[Array, "rows gaps side words"],
    counts: UInt32[Array, "rows gaps side words"],
    pointer: Int32[Array, " rows"],
    vertical: Bool[Array, ""],
) -> tuple[Bool[Array, ""], Int32[Array, " rows"]]:
    """Return whether a suitable tuple follows the tuple `pointer`, and the first such tuple.

    A tuple has one match for each row of the rule, given by its number (see `numbers`). A suitable
    tuple has only matches in `able` (they still hold), and at least one match in `counts` (it would
    change something); `counts` is a subset of `able`. In the order of tuples, the match of row 0
    varies fastest. A `pointer` of -1 precedes all tuples.
    """
    size, rows = p.size, p.size.rows
    after = planes.since(pointer + 1, vertical, size.gaps, size.side, size.words)
    only = after ^ planes.since(jnp.maximum(pointer, 0), vertical, size.gaps, size.side, size.words)
    # For each row: the first match, and the first match after `pointer`, in `able` and in `counts`.
    whole = [first(found, vertical) for found in (able, counts)]
    later = [first(found & after, vertical) for found in (able, counts)]
    # Whether the match of `pointer` is in `able` and in `counts`.
    able_at, counts_at = ((found & only != 0).any(axis=(1, 2, 3)) for found in (able, counts))
    fresh, is_found, best = pointer[0] < 0, jnp.bool_(False), [*pointer]
    # Construct the first suitable tuple after `pointer`: rows after `turned` keep their matches,
    # row `turned` takes a later match, and the rows before it take any match. The lowest possible
    # `turned` gives the next tuple. If `pointer` is -1, `turned` is `rows`: no row keeps its match.
    for turned in range(rows, -1, -1):
        done, fine = jnp.bool_(False), fresh if turned == rows else ~fresh
        picked = [*pointer]
        for row in range(turned + 1, rows):
            done, fine = done | counts_at[row], fine & able_at[row]
        for row in range(min(turned, rows - 1), -1, -1):
            # The match of this row must be in `counts` if no match of the rows after it is, and
            # the rows before it have none.
            lower = [whole[1][i] != planes.NONE for i in range(row)]
            needs = ~functools.reduce(jnp.logical_or, lower, done)
            any_match, counted = (each[row] for each in (later if row == turned else whole))
            picked[row] = jnp.where(needs, counted, any_match)
            fine &= picked[row] != planes.NONE
            done |= picked[row] == counted
        best = [jnp.where(fine, a, b) for a, b in zip(picked, best, strict=True)]
        is_found |= fine
    return is_found, planes.stacked(best)


def counts(
    found: UInt32[Array, "rows gaps side words"], vertical: Bool[Array, ""]
) -> Int32[Array, "rows side"]:
    """Return the number of matches of each row that start in line 0 to line n, for each n.

    If `vertical`, the lines are columns. The last entry is the number of all matches of the row.
    """
    to_end = _until(found.shape[-2], found.shape[-1], vertical)[:, None, None]
    return _number(planes.digits(found)[:, None] & to_end)


def nth(
    found: UInt32[Array, "rows gaps side words"],
    before: Int32[Array, "rows side"],
    rank: Int32[Array, " rows"],
    vertical: Bool[Array, ""],
) -> Int32[Array, " rows"]:
    """Return the number (see `numbers`) of match `rank`, counted from 0, of each row.

    `before` is the result of `counts`.
    """
    gaps, side, words = found.shape[1:]
    outer, rank = _picked(before, rank)
    line = planes.line(outer, vertical, side, words)
    to_end = _until(side, words, ~vertical)[:, None, None]
    there = planes.digits(found)[:, None] & line[:, None, None, None]
    inner, rank = _picked(_number(there & to_end), rank)
    number = outer * np.int32(side) + inner
    if gaps == 1:
        return number
    here = planes.cell(*planes.place(number, vertical, side), side, words)
    has_gap = (found & here[:, None] != 0).any(axis=(-2, -1))
    gap, _ = _picked(jnp.cumsum(has_gap, axis=1, dtype=jnp.int32), rank)
    return number * np.int32(gaps) + gap


def _until(side: int, words: int, vertical: Bool[Array, ""]) -> UInt32[Array, "n side words"]:
    """Return, for each line (if `vertical`: column) n, the cells of the lines 0 to n."""
    line = planes.index(side)
    columns = ~planes.columns_behind(jnp.asarray(line)[:, None, None], words)
    lines = jnp.where((line <= line[:, None])[..., None], ALL, jnp.uint32(0))
    return jnp.where(vertical, columns, lines)


def _number(digits: UInt32[Array, "*batch digits parts side words"]) -> Int32[Array, "*batch"]:
    """Return the sum of the numbers in all cells, see `planes.digits`."""
    each = jax.lax.population_count(digits).astype(jnp.int32)
    each <<= planes.index(digits.shape[-4])[:, None, None, None]
    return each.sum(axis=(-4, -3, -2, -1), dtype=jnp.int32)


def _picked(
    before: Int32[Array, "rows n"], rank: Int32[Array, " rows"]
) -> tuple[Int32[Array, " rows"], Int32[Array, " rows"]]:
    """Return, for each row, the part that has item `rank`, and the item's rank in this part.

    `before` has the number of items of a row's parts 0 to n, for each n.
    """
    is_passed = before <= rank[:, None]
    passed = jnp.where(is_passed, before, 0).max(axis=1)
    return is_passed.sum(axis=1, dtype=jnp.int32), rank - passed
