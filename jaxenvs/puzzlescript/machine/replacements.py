"""Apply a rule: replace objects and movements in the cells of its matches."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from . import ellipses, matches, planes, rigid
from .sizes import BITS
from .state import Program, Turn

Draw = Callable[[Int32[Array, ""]], Float32[Array, ""]]  # i -> random number i, in [0, 1)


class Target(NamedTuple):
    """The cells in which a rule replaces its patterns; a pattern is a cell of the rule."""

    patterns: Int32[Array, "rows width"]  # indices of the patterns
    # Cells of the level in which each pattern is replaced. The cells of one row are disjoint.
    where: UInt32[Array, "rows width side words"]
    # Whether the pattern is replaced in the cell of one tuple (one match for each row).
    is_single: Bool[Array, "rows width"]


def replaced(p: Program, turn: Turn, target: Target, draw: Draw) -> tuple[Turn, Bool[Array, ""]]:
    """Replace objects and movements as the right side of a rule says, one row after another.

    The second result is whether a cell changed. It is valid only if `size.draws` is True (rules may
    draw random numbers); otherwise the caller knows this from the rule's matches.
    """
    size = p.size
    clear = planes.flags(p.tables.clear[target.patterns], size.planes)
    new = planes.flags(p.tables.set[target.patterns], size.planes)
    if size.draws:
        more_clear, more_new, drawn = _random(p, target, draw, turn.drawn)
        clear, new = clear | more_clear, new | more_new
        turn = turn._replace(drawn=drawn)
    where = target.where[:, :, None]
    cleared, added = (
        planes.union(jnp.where(each[..., None, None], where, jnp.uint32(0)), 1)
        for each in (clear, new)
    )
    if size.rows > 2:  # without the barrier, a GPU would launch a kernel or two for each row
        cleared, added = jax.lax.optimization_barrier((cleared, added))
    base = turn.planes
    for row in range(size.rows):
        base = base & ~cleared[row] | added[row]
    altered = jnp.bool_(False)
    if size.draws:
        # A bit keeps its old value until a row changes it. So some row changes the bit if and only
        # if some row would change its old value.
        gone = planes.union(cleared & ~added, 0)
        altered = (turn.planes & gone | ~turn.planes & planes.union(added, 0) != 0).any()
    if size.rigid:
        turn, is_new = rigid.recorded(p, turn, target)
        altered |= is_new
    return turn._replace(planes=base), altered


def _random(
    p: Program, target: Target, draw: Draw, drawn: Int32[Array, ""]
) -> tuple[Bool[Array, "rows width planes"], Bool[Array, "rows width planes"], Int32[Array, ""]]:
    """Draw the objects for `random` and the directions for `randomdir` in a rule's cells.

    Returns (clear, set, drawn). `clear` and `set` are masks of the planes that each pattern clears
    and sets; object planes come before movement planes. `drawn` is the updated number of random
    numbers used so far.
    """
    size, layers, count = p.size, p.layers, 1 + p.size.layers
    asks = jnp.where(target.is_single[..., None], p.tables.draw[target.patterns], jnp.uint32(0))
    number = planes.count(asks)
    flat = number.reshape(-1)
    place = planes.index(len(flat))
    before = jnp.where(place < place[:, None], flat, 0).sum(axis=1, dtype=jnp.int32)
    order = drawn + before.reshape(number.shape)[..., None] + planes.ranks(asks, count)
    numbers = jax.vmap(draw)(order.reshape(-1)).reshape(order.shape)
    chosen = p.tables.chosen[target.patterns]
    rank = jnp.floor(numbers[..., :1] * planes.count(chosen)[..., None].astype(jnp.float32))
    ranks = planes.ranks(chosen, size.objects).astype(jnp.float32)
    chosen = planes.flags(chosen, size.objects) & (ranks == rank)
    layer = jnp.where(chosen, layers[: size.objects], -1).max(axis=-1, keepdims=True)
    turned = planes.flags(asks, count)[..., 1:]
    direction = jnp.floor(numbers[..., 1:] * 4).astype(jnp.int32)
    directions = turned[..., None] & (planes.index(BITS) == direction[..., None])
    moves = directions.reshape(*number.shape, -1)
    # A GPU fuses padding with its users, but not a concatenation.
    new = jnp.pad(chosen, [(0, 0), (0, 0), (0, moves.shape[-1])])
    new |= jnp.pad(moves, [(0, 0), (0, 0), (size.objects, 0)])
    return layers == layer, new, drawn + before[-1] + flat[-1]


def at_once(
    p: Program,
    waiting: UInt32[Array, "side words"],
    able: UInt32[Array, "side words"],
    rule: Int32[Array, ""],
) -> tuple[UInt32[Array, "side words"], UInt32[Array, "side words"]]:
    """Return (now, wait): the matches of a one-row rule to apply now, and those that must wait.

    A plane has the start cells of matches. `waiting` has the matches that were found earlier and
    are not yet applied. A match in `waiting` has to wait if an earlier one overlaps it. Otherwise,
    it is applied now if it is in `able` (it still holds), and dropped if not.
    """
    axis = p.tables.direction[rule] % 2  # RIGHT or DOWN: the direction in which matches are ordered
    blocked = jnp.zeros_like(waiting)
    for by in range(1, p.size.cells):
        overlaps = by < p.tables.length[rule][0]
        blocked |= jnp.where(overlaps, planes.forth(waiting, axis, by), jnp.uint32(0))
    return waiting & ~blocked & able, waiting & blocked


def targets(
    p: Program,
    rule: Int32[Array, ""],
    at: Int32[Array, " rows"],
    is_found: Bool[Array, ""],
    starts: UInt32[Array, "side words"],
) -> Target:
    """Return the patterns of a rule and the cells in which to replace them.

    These are the cells of the matches of row 0 that start at a cell of `starts`. If `is_found` is
    True, they are also the cells of the matches `at`, one for each row of the rule.
    """
    size, tables = p.size, p.tables
    x, y, gap = matches.place(p, at, matches.is_vertical(p, rule))
    direction, length = tables.direction[rule], tables.length[rule][:, None]
    place = planes.index(size.width)
    offset, used = place, place < length
    if size.tail:
        start = length + gap[:, None]  # offset of the first cell after the last ellipsis
        if size.middle:
            between, start = ellipses.offsets(p, rule, gap)
            number = place - np.int32(size.cells)
            offset = jnp.where(number < 0, offset, between + number)
            used = jnp.where(number < 0, used, number < tables.middle_length[rule][:, None])
        number = place - np.int32(size.cells + size.middle)
        offset = jnp.where(number < 0, offset, start + number)
        used = jnp.where(number < 0, used, number < tables.tail_length[rule][:, None])
    dx, dy = planes.steps(direction)
    one = planes.cell(x[:, None] + dx * offset, y[:, None] + dy * offset, size.side, size.words)
    is_single = used & is_found
    cells = jnp.where(is_single[..., None, None], one, jnp.uint32(0))
    rows = jnp.stack([planes.forth(starts, direction, c) for c in range(size.cells)])
    in_row = planes.index(size.cells) < length[0]
    rows = jnp.where(in_row[:, None, None], rows, jnp.uint32(0))
    padding = [(0, size.rows - 1), (0, size.width - size.cells), (0, 0), (0, 0)]
    return Target(tables.cells[rule], cells | jnp.pad(rows[None], padding), is_single)
