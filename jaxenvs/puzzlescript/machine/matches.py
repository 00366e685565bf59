"""Where rules match: tests of patterns on bit planes, and matches in the engine's order.

A pattern is the condition of a rule on one cell. A row is the list of patterns in one pair of
brackets, and a row match is a cell at which it starts, with the gap of its ellipsis if it has one.
A tuple has one match for each row of a rule; the rule is applied to every tuple in turn.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt32

from . import planes
from .planes import ALL, DOWN, LEFT
from .state import Board, Program, Turn


class Tested(NamedTuple):
    """Planes of the cells at which rows of rules match, or would change something.

    `head` is the part of a row before its ellipsis, or the whole row; `tail` the part behind it.
    The leading axes are the rules that were tested, if several, and their rows.
    """

    head: UInt32[Array, "*rules rows side words"]
    tail: UInt32[Array, "*rules rows side words"]
    head_changes: UInt32[Array, "*rules rows side words"]
    tail_changes: UInt32[Array, "*rules rows side words"]


def level_cells(p: Program, board: Board) -> UInt32[Array, "side words"]:
    """Return the plane of all cells inside the level."""
    return planes.level(board.width, board.height, p.size.side, p.size.words)


def literals(p: Program, turn: Turn) -> UInt32[Array, "literals side words"]:
    """Return the planes that literals index: see `Tables`. Index 0 is unused."""
    inside = level_cells(p, turn.board)[None]
    base = jnp.concatenate([turn.objects, turn.moves.reshape(-1, *inside.shape[1:])])
    member = planes.flags(p.tables.sets.all, p.size.planes)
    kept = jnp.where(member[:, :, None, None], base, jnp.uint32(0))
    unions = jax.lax.reduce(kept, jnp.uint32(0), jax.lax.bitwise_or, (1,))
    return jnp.concatenate([inside, inside, base, unions])


def _read(found: UInt32[Array, "literals side words"], numbers: Array) -> UInt32[Array, "..."]:
    """Return the planes of literals; a negative one stands for the other cells of the level."""
    numbers = numbers.astype(jnp.int32)
    plane = found[jnp.abs(numbers)]
    return jnp.where((numbers < 0)[..., None, None], ~plane & found[0], plane)


def matching(p: Program, found: Array, patterns: Int32[Array, "*n"]) -> UInt32[Array, "..."]:
    """Return the plane of the cells that match each pattern; `found` is from `literals`."""
    read = _read(found, p.tables.test[patterns])
    return jax.lax.reduce(read, ALL, jax.lax.bitwise_and, (read.ndim - 3,))


def _changing(p: Program, found: Array, patterns: Int32[Array, "*n"]) -> UInt32[Array, "..."]:
    """Return the plane of the cells that each pattern's replacement would change."""
    read = _read(found, p.tables.change[patterns])
    return jax.lax.reduce(read, jnp.uint32(0), jax.lax.bitwise_or, (read.ndim - 3,))


def tested(p: Program, found: Array, rules: Int32[Array, " w"]) -> Tested:
    """Test every row of some rules in all cells; `found` is from `literals`."""
    tables = p.tables
    direction = jnp.broadcast_to(tables.direction[rules][:, None], (len(rules), p.size.rows))
    head = _segment(p, found, tables.cells[rules], tables.length[rules], direction)
    if not p.size.tail:
        nothing = jnp.zeros_like(head[0])
        return Tested(head[0], nothing, head[1], nothing)
    tail = _segment(p, found, tables.tail[rules], tables.tail_length[rules], direction)
    return Tested(head[0], tail[0], head[1], tail[1])


def _segment(
    p: Program, found: Array, patterns: Array, length: Array, direction: Array
) -> tuple[Array, Array]:
    """Return where consecutive cells match the patterns, and where one of them would change."""
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
    """Return whether each row matches somewhere, and whether one match would change something."""
    head, changes = tests.head, tests.head_changes
    length = p.tables.length[rules]
    if p.size.tail:
        direction = jnp.broadcast_to(p.tables.direction[rules][..., None], length.shape)
        any_tail = _starts(p, tests.tail, direction, length)
        changing_tail = _starts(p, tests.tail_changes, direction, length)
        has_tail = (p.tables.tail_length[rules] > 0)[..., None, None]
        changes = jnp.where(has_tail, changes & any_tail | head & changing_tail, changes)
        head = jnp.where(has_tail, head & any_tail, head)
    return planes.some(head) | (length == 0), planes.some(changes) & (length > 0)


def _starts(p: Program, tail: Array, direction: Array, length: Array) -> Array:
    """Return the cells from which some gap of the ellipsis leads to a cell of `tail`."""
    by = 1
    while by < p.size.side:
        tail |= planes.back(tail, direction, by)
        by *= 2
    starts = tail
    for c in range(1, p.size.cells + 1):  # the part before the ellipsis has `length` cells
        at = (length == c)[..., None, None]
        starts = jnp.where(at, planes.back(tail, direction, c), starts)
    return starts


def is_vertical(p: Program, rule: Array) -> Bool[Array, ""]:
    """Return whether a rule applies up or down."""
    return p.tables.direction[rule] % 2 == DOWN


def _ordered(p: Program, plane: Array, rule: Array) -> Bool[Array, "*batch outer inner"]:
    """Return the cells of planes in the order in which the engine scans for the rule."""
    cells = planes.cells(plane)
    return jnp.where(is_vertical(p, rule), jnp.swapaxes(cells, -1, -2), cells)


def of_rule(
    p: Program, tests: Tested, rule: Int32[Array, ""]
) -> tuple[Bool[Array, "rows matches"], Bool[Array, "rows matches"]]:
    """Return the matches of each row of a rule in order, and which would change something.

    Match m starts at cell m // gaps in the order of `_ordered`, with an ellipsis of m % gaps cells.
    """
    size, length = p.size, p.tables.length[rule]
    head, change = (_ordered(p, part, rule) for part in (tests.head, tests.head_changes))
    head, change = head[..., None], change[..., None]
    if size.tail:
        tail = _behind(p, tests.tail, rule)
        tail_change = _behind(p, tests.tail_changes, rule)
        has_tail = (p.tables.tail_length[rule] > 0)[:, None, None, None]
        no_gap = planes.index(size.gaps) == 0
        change = jnp.where(has_tail, change & tail | head & tail_change, change & no_gap)
        head = jnp.where(has_tail, head & tail, head & no_gap)
    found, change = (part.reshape(size.rows, -1) for part in (head, change))
    absent = (length == 0)[:, None]  # the rule has fewer rows: count one match without effect
    first = planes.index(found.shape[1])[None] == 0
    return jnp.where(absent, first, found), jnp.where(absent, False, change)


def _behind(
    p: Program, tail: UInt32[Array, "rows side words"], rule: Int32[Array, ""]
) -> Bool[Array, "rows outer inner gaps"]:
    """Return whether the part behind an ellipsis matches, for each start of a row and each gap."""
    size, length = p.size, p.tables.length[rule]
    place, gap = planes.index(size.side), planes.index(size.gaps)
    sign = jnp.where(p.tables.direction[rule] < LEFT, 1, -1)
    begins = place[:, None] + sign * (length[:, None, None] + gap)
    is_inside = ((begins >= 0) & (begins < size.side))[:, None]
    index = jnp.clip(begins, 0, size.side - 1).reshape(size.rows, 1, -1)
    read = jnp.take_along_axis(_ordered(p, tail, rule), index, axis=2)
    return read.reshape(size.rows, size.side, size.side, size.gaps) & is_inside


def next_tuple(
    able: Bool[Array, "rows matches"],
    counts: Bool[Array, "rows matches"],
    pointer: Int32[Array, " rows"],
) -> tuple[Bool[Array, ""], Int32[Array, " rows"]]:
    """Return whether a tuple follows `pointer`, and the first one; row 0 varies fastest.

    All its matches are `able`, and at least one also `counts`. A pointer of -1 is before all.
    """
    rows = able.shape[0]
    fresh = pointer[0] < 0
    at = jnp.clip(pointer, 0)
    able_at = jnp.take_along_axis(able, at[:, None], 1)[:, 0]
    counts_at = jnp.take_along_axis(counts, at[:, None], 1)[:, 0]
    end = jnp.zeros(1, jnp.bool_)  # so that index `rows` is about all rows
    lower = planes.rank(jnp.concatenate([counts.any(axis=1), end])) > 0  # a row below counts
    whole = planes.rank(jnp.concatenate([~able.any(axis=1), end])) == 0  # all rows below match
    is_found, best = jnp.bool_(False), jnp.zeros(rows, jnp.int32)
    # A tuple with the matches of `pointer` in the rows above `turned`, and a later match there.
    # The lowest such row gives the first tuple. Without a pointer, all rows start anew.
    for turned in range(rows, -1, -1):
        counted = counts_at[turned + 1 :].any() if turned < rows else jnp.bool_(False)
        picked, fine = at, whole[turned] & (fresh & lower[rows] if turned == rows else ~fresh)
        if turned < rows:
            fine &= able_at[turned + 1 :].all()
        for row in range(min(turned, rows - 1), -1, -1):
            allowed = jnp.where(counted | lower[row], able[row], counts[row])
            if row == turned:
                allowed &= planes.index(able.shape[1]) > pointer[row]
                fine &= allowed.any()
            first = planes.first(allowed)
            picked = picked.at[row].set(first)
            counted |= counts[row, first]
        best = jnp.where(fine, picked, best)
        is_found |= fine
    return is_found, best


def cell_of(p: Program, match: Array, rule: Array) -> tuple[Array, Array, Array]:
    """Return the column and line of the first cell of matches, and their gap."""
    start, gap = jnp.divmod(match, p.size.gaps)
    outer, inner = jnp.divmod(start, p.size.side)
    vertical = is_vertical(p, rule)
    return jnp.where(vertical, outer, inner), jnp.where(vertical, inner, outer), gap
