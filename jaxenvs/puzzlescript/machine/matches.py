"""Matches of rules: test patterns on bit planes, and list the matches in the engine's order.

A pattern is the condition of a rule on one cell. A row is the list of patterns in one pair of
brackets. A match of a row is its start cell and its gap, the number of cells that the ellipsis
skips. A tuple is one match for each row of a rule. A rule is applied to its tuples one by one.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ...core.platforms import by_platform
from . import ellipses, planes
from .planes import ALL, DOWN
from .sizes import WORD
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


def level_cells(p: Program, board: Board) -> UInt32[Array, "side words"]:
    """Return the bit plane of all cells of the level, which may be smaller than the plane."""
    return planes.level(board.width, board.height, p.size.side, p.size.words)


def literals(p: Program, turn: Turn) -> Literals:
    """Return, for each positive literal, the bit plane of the cells in which it holds.

    A literal is an integer that stands for a set of cells, see `Tables`. The plane of literal i has
    index i. Index 0 belongs to no literal; its plane has all cells of the level.
    """
    inside = level_cells(p, turn.board)[None]
    parts = [turn.objects, turn.moves]
    if turn.rigid:
        parts.append(turn.rigid.records)
    base = jnp.concatenate([part.reshape(-1, *inside.shape[1:]) for part in parts])
    sets = p.tables.sets.all
    if len(sets) * len(base) < MANY:
        found = unions(sets, base)
    else:
        found = by_platform(sets, base, cpu=unions, default=unions_by_parts)
    return jnp.concatenate([inside, inside, base, found])


def unions(sets: UInt32[Array, "sets plane_words"], base: Array) -> UInt32[Array, "..."]:
    """Return the union of the planes of each set.

    `sets` has a bit mask of each set's planes, and `base` has all planes.
    """
    member = planes.flags(sets, len(base))
    kept = jnp.where(member[:, :, None, None], base, jnp.uint32(0))
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
    padded = jnp.pad(base, [(0, count * PART - len(base)), (0, 0), (0, 0)])
    parts = padded.reshape(count, 1, PART, *base.shape[1:])
    selections = planes.index(1 << PART)[:, None] >> planes.index(PART) & 1 != 0
    kept = jnp.where(selections[:, :, None, None], parts, jnp.uint32(0))
    of_parts = planes.union(kept, 2)
    first_plane = planes.index(count) * PART
    selection = sets[:, first_plane // WORD] >> (first_plane % WORD).astype(np.uint32)
    selection = (selection & np.uint32((1 << PART) - 1)).astype(jnp.int32)
    place = selection + (planes.index(count) << PART)
    read = of_parts.reshape(count << PART, *base.shape[1:])[place]
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
    read = _read(found, p.tables.test[patterns])
    return planes.intersection(read, read.ndim - 3)


def _changing(p: Program, found: Literals, patterns: Int32[Array, "*n"]) -> UInt32[Array, "..."]:
    """Return, for each pattern index, the plane of the cells that the replacement would change."""
    read = _read(found, p.tables.change[patterns])
    return planes.union(read, read.ndim - 3)


def tested(p: Program, found: Literals, rules: Int32[Array, " w"]) -> Tested:
    """Find the cells at which each row (pair of brackets) of each rule in `rules` matches."""
    tables = p.tables
    direction = jnp.broadcast_to(tables.direction[rules][:, None], (len(rules), p.size.rows))
    head = _segment(p, found, tables.cells[rules], tables.length[rules], direction)
    if not p.size.tail:
        nothing = jnp.zeros_like(head[0])
        return Tested(head[0], nothing, head[1], nothing)
    tail = _segment(p, found, tables.tail[rules], tables.tail_length[rules], direction)
    if not p.size.middle:
        return Tested(head[0], tail[0], head[1], tail[1])
    middle = _segment(p, found, tables.middle[rules], tables.middle_length[rules], direction)
    return Tested(head[0], tail[0], head[1], tail[1], *middle)


def _segment(
    p: Program, found: Literals, patterns: Array, length: Array, direction: Array
) -> tuple[Array, Array]:
    """Return the cells at which a match of the sequence `patterns` starts.

    In a match, successive cells in `direction` meet the first `length` patterns, one cell per
    pattern. The second result has only the start cells of matches in which the rule would change a
    cell.
    """
    match = matching(p, found, patterns)
    change = _changing(p, found, patterns) & match
    here = jnp.broadcast_to(found[0], match.shape[:-3] + match.shape[-2:])
    changes = jnp.zeros_like(here)
    for c in range(patterns.shape[-1]):
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
            parts = [_starts(p, part, direction, middle, between) for part in (tail, tail_changes)]
            tail, tail_changes = ellipses.joined(tests, middle, *parts)
        any_tail = _starts(p, tail, direction, length, p.size.cells)
        changing_tail = _starts(p, tail_changes, direction, length, p.size.cells)
        has_tail = (p.tables.tail_length[rules] > 0)[..., None, None]
        changes = jnp.where(has_tail, changes & any_tail | head & changing_tail, changes)
        head = jnp.where(has_tail, head & any_tail, head)
    return planes.some(head) | (length == 0), planes.some(changes) & (length > 0)


def _starts(p: Program, tail: Array, direction: Array, length: Array, most: int) -> Array:
    """Return the cells at which a part of a row can start so that the rest of the row can follow.

    `tail` has the cells at which the rest matches. The part has `length` cells, at most `most`; its
    own patterns are not tested. The ellipsis after it skips any number of cells.
    """
    by = 1
    while by < p.size.side:
        tail |= planes.back(tail, direction, by)
        by *= 2
    starts = tail
    # The rest of the row starts after the part's cells: move its start cells back by `length`.
    for c in range(1, most + 1):
        at = (length == c)[..., None, None]
        starts = jnp.where(at, planes.back(tail, direction, c), starts)
    return starts


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
            by, end = length[:, None] + planes.index(size.gaps), size.cells + size.gaps
            tail, tail_change = (
                planes.back_by(part, p.tables.direction[rule], by, end)
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
    only = planes.cell(jnp.int32(0), jnp.int32(0), size.side, size.words)
    only = jnp.where((planes.index(size.gaps) == 0)[:, None, None], only, jnp.uint32(0))
    return jnp.where(absent, only, found), jnp.where(absent, jnp.uint32(0), change)


NOWHERE = -1  # value of `Place.gap` for an imaginary place that comes before all matches


def has(found: UInt32[Array, "rows gaps side words"], at: Place) -> Bool[Array, " rows"]:
    """Return, for each row of a rule, whether the match `at` of the row is in `found`."""
    words = found[planes.index(len(found)), at.gap.clip(0), at.y, at.x // WORD]
    return (words >> (at.x % WORD).astype(jnp.uint32) & 1) != 0


def first(
    found: UInt32[Array, "*batch gaps side words"], vertical: Bool[Array, ""]
) -> tuple[Bool[Array, "*batch"], Place]:
    """Return whether there is a match, and the first match.

    Matches are ordered line by line, or column by column if `vertical`. Matches that start at the
    same cell are ordered by their gap, the number of cells that the ellipsis skips.
    """
    cells = planes.union(found, found.ndim - 3)
    lines = (cells != 0).any(axis=-1)
    columns = planes.union(cells, cells.ndim - 2)
    y = planes.first(lines)
    line = jnp.take_along_axis(cells, y[..., None, None], -2)[..., 0, :]
    x = planes.lowest(jnp.where(vertical, columns, line))
    here = jnp.take_along_axis(found, (x // WORD)[..., None, None, None], -1)[..., 0]
    at_x = (here >> (x % WORD).astype(jnp.uint32)[..., None, None] & 1) != 0  # [gap, line]
    y = jnp.where(vertical, planes.first(at_x.any(axis=-2)), y)
    gap = planes.first(jnp.take_along_axis(at_x, y[..., None, None], -1)[..., 0])
    return lines.any(axis=-1), Place(x, y, gap)


def later(
    p: Program, at: Place, vertical: Bool[Array, ""]
) -> UInt32[Array, "rows gaps side words"]:
    """Return, for each row of a rule, all places after the row's place in `at`.

    A place is a start cell and a gap (number of cells that an ellipsis skips); the row need not
    match there. Places are ordered line by line, or column by column if `vertical`, and then by
    gap. If the gap of `at` is `NOWHERE`, return all places.
    """
    size = p.size
    x, y, gap = (each[:, None, None, None] for each in at)
    column = planes.columns_behind(x, size.words)
    bit = planes.column(x, size.words)
    line = planes.index(size.side)[:, None]
    later_gap = jnp.where(planes.index(size.gaps)[:, None, None] > gap, bit, jnp.uint32(0))
    same = line == y
    by_line = jnp.where(same, column | later_gap, jnp.where(line > y, planes.ALL, jnp.uint32(0)))
    below = jnp.where(line > y, bit, jnp.uint32(0))
    by_column = column | below | jnp.where(same, later_gap, jnp.uint32(0))
    return jnp.where(gap == NOWHERE, planes.ALL, jnp.where(vertical, by_column, by_line))


def next_tuple(
    p: Program,
    able: UInt32[Array, "rows gaps side words"],
    counts: UInt32[Array, "rows gaps side words"],
    pointer: Place,
    vertical: Bool[Array, ""],
) -> tuple[Bool[Array, ""], Place]:
    """Return whether a suitable tuple follows the tuple `pointer`, and the first such tuple.

    A tuple has one match for each row of the rule. A suitable tuple has only matches in `able`
    (they still hold), and at least one match in `counts` (it would change something). In the order
    of tuples, the match of row 0 varies fastest. A `pointer` with the gap `NOWHERE` precedes all
    tuples.
    """
    rows, after = p.size.rows, later(p, pointer, vertical)
    # For each row, four candidates for its match in the next tuple: the first match in `able`, the
    # first match in `counts`, and the first matches after `pointer` in `able` and in `counts`.
    both = jnp.stack([able, counts], 1)
    exists, place = first(jnp.concatenate([both, both & after[:, None]], 1), vertical)
    counted = jnp.stack([has(counts, Place(*(each[:, i] for each in place))) for i in range(4)], 1)
    fresh, end = pointer.gap[0] == NOWHERE, jnp.zeros(1, jnp.bool_)
    # `lower[row]`: whether a row before `row` has a match in `counts`. `whole[row]`: whether every
    # row before `row` has a match in `able`.
    lower = planes.rank(jnp.concatenate([exists[:, 1], end])) > 0
    whole = planes.rank(jnp.concatenate([~exists[:, 0], end])) == 0
    able_at, counts_at = has(able, pointer), has(counts, pointer)
    is_found, best = jnp.bool_(False), pointer
    # Construct the first suitable tuple after `pointer`: rows after `turned` keep their matches,
    # row `turned` takes a later match, and the rows before it take any match. The lowest possible
    # `turned` gives the next tuple. If `pointer` is at NOWHERE, `turned` is `rows`: no row keeps
    # its match.
    for turned in range(rows, -1, -1):
        done = counts_at[turned + 1 :].any() if turned < rows else jnp.bool_(False)
        fine = whole[turned] & (fresh & lower[rows] if turned == rows else ~fresh)
        if turned < rows:
            fine &= able_at[turned + 1 :].all()
        picked = pointer
        for row in range(min(turned, rows - 1), -1, -1):
            needs = ~(done | lower[row])  # whether this row's match must be in `counts`
            candidate = needs.astype(jnp.int32) + (2 if row == turned else 0)
            fine &= exists[row, candidate]
            picked = Place(
                *(a.at[row].set(b[row, candidate]) for a, b in zip(picked, place, strict=True))
            )
            done |= counted[row, candidate]
        best = Place(*(jnp.where(fine, a, b) for a, b in zip(picked, best, strict=True)))
        is_found |= fine
    return is_found, best


def number_of(found: UInt32[Array, "rows gaps side words"]) -> Int32[Array, " rows"]:
    """Return the number of matches of each row, summed over all gaps (numbers of skipped cells)."""
    return jax.lax.population_count(found).astype(jnp.int32).sum((1, 2, 3), dtype=jnp.int32)


def nth(
    found: UInt32[Array, "rows gaps side words"],
    number: Int32[Array, " rows"],
    vertical: Bool[Array, ""],
) -> Place:
    """Return match `number` (from 0) of each row.

    Matches are ordered line by line, or column by column if `vertical`, and then by gap.
    """
    cells = planes.cells(found)
    count = cells.sum(axis=1, dtype=jnp.int32)
    count = jnp.where(vertical, count.swapaxes(-1, -2), count)
    side = count.shape[-1]
    total = jnp.cumsum(count.reshape(len(found), -1), axis=1, dtype=jnp.int32)
    cell = planes.first(total > number[:, None])
    before = jnp.take_along_axis(total, cell[:, None], 1) - jnp.take_along_axis(
        count.reshape(len(found), -1), cell[:, None], 1
    )
    outer, inner = cell // side, cell % side
    x, y = jnp.where(vertical, outer, inner), jnp.where(vertical, inner, outer)
    gaps = cells[planes.index(len(found)), :, y, x]
    rank = number - before[:, 0]
    return Place(x, y, planes.first(gaps & (planes.rank(gaps) == rank[:, None])))
