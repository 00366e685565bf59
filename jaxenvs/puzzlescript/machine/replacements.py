"""Apply a rule: replace objects and movements in the cells of its matches."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, UInt32

from . import ellipses, planes, rigid
from .sizes import BITS
from .state import Place, Program, Turn

Draw = Callable[[Int32[Array, ""]], Float32[Array, ""]]  # i -> random number i, in [0, 1)


def replaced(
    p: Program,
    turn: Turn,
    patterns: Int32[Array, " n"],
    where: UInt32[Array, "n side words"],
    draw: Draw,
) -> tuple[Turn, Bool[Array, ""]]:
    """Replace objects and movements as the right side of a rule says, one pattern after another.

    A pattern is a cell of the rule, and `where` has the cells of the level in which each pattern is
    replaced. The second result is whether a cell changed. It is valid only if `size.draws` is
    True (rules may draw random numbers); otherwise the caller knows this from the rule's matches.
    """
    size = p.size
    clear = planes.flags(p.tables.clear[patterns], size.planes)
    new = planes.flags(p.tables.set[patterns], size.planes)
    if size.draws:
        more_clear, more_new, drawn = _random(p, patterns, where, draw, turn.drawn)
        clear, new = clear | more_clear, new | more_new
        turn = turn._replace(drawn=drawn)
    base = jnp.concatenate([turn.objects, turn.moves.reshape(-1, *turn.objects.shape[1:])])
    difference = jnp.zeros_like(base)
    for i in range(len(patterns)):
        after = base & ~jnp.where(clear[i, :, None, None], where[i], jnp.uint32(0))
        after |= jnp.where(new[i, :, None, None], where[i], jnp.uint32(0))
        difference |= after ^ base
        base = after
    altered = (difference != 0).any() if size.draws else jnp.bool_(False)
    if size.rigid:
        turn, is_new = rigid.recorded(p, turn, patterns, where)
        altered |= is_new
    objects, moves = base[: size.objects], base[size.objects :].reshape(turn.moves.shape)
    return turn._replace(objects=objects, moves=moves), altered


def _random(
    p: Program,
    patterns: Int32[Array, " n"],
    where: UInt32[Array, "n side words"],
    draw: Draw,
    drawn: Int32[Array, ""],
) -> tuple[Bool[Array, "n planes"], Bool[Array, "n planes"], Int32[Array, ""]]:
    """Draw the objects for `random` and the directions for `randomdir` in a rule's cells.

    A pattern is a cell of the rule, and `where` has at most one cell of the level for each pattern.
    Returns (clear, set, drawn). `clear` and `set` are masks of the planes that each pattern clears
    and sets; object planes come before movement planes. `drawn` is the updated number of
    random numbers used so far.
    """
    size, layers = p.size, p.tables.layer.all
    choices = planes.flags(p.tables.chosen[patterns], size.objects)
    turned = p.tables.turned[patterns]
    asks = jnp.concatenate([choices.any(axis=1)[:, None], turned], 1)
    asks &= planes.some(where)[:, None]
    order = drawn + planes.rank(asks.reshape(-1)).reshape(asks.shape)
    numbers = jax.vmap(draw)(order.reshape(-1)).reshape(asks.shape)
    rank = jnp.floor(
        numbers[:, 0] * choices.sum(axis=1, dtype=jnp.int32).astype(jnp.float32)
    ).astype(jnp.int32)
    chosen = choices & (planes.rank(choices) == rank[:, None])
    layer = jnp.where(chosen, layers, -1).max(axis=1)[:, None]
    clear = [layers == layer, planes.index(size.layers * BITS) // BITS == layer]
    direction = jnp.floor(numbers[:, 1:] * 4).astype(jnp.int32)
    directions = turned[:, :, None] & (planes.index(BITS) == direction[:, :, None])
    new = [chosen, directions.reshape(len(patterns), -1)]
    drawn += asks.sum(dtype=jnp.int32)
    return jnp.concatenate(clear, 1), jnp.concatenate(new, 1), drawn


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
    at: Place,
    is_found: Bool[Array, ""],
    starts: UInt32[Array, "side words"] | None = None,
) -> tuple[Int32[Array, " n"], UInt32[Array, "n side words"]]:
    """Return the patterns of a rule, and the plane of the cells in which to replace each pattern.

    A pattern is a cell of the rule. The planes have the cells of the matches of row 0 that start at
    a cell of `starts`. If `is_found` is True, they also have the cells of the matches `at`, one for
    each row of the rule.
    """
    size, tables = p.size, p.tables
    x, y, gap = at
    direction, length = tables.direction[rule], tables.length[rule][:, None]
    offset = jnp.broadcast_to(planes.index(size.cells), (size.rows, size.cells))
    used, patterns = offset < length, tables.cells[rule]
    if size.tail:
        behind = planes.index(size.tail)
        start = length + gap[:, None]  # offset of the first cell after the last ellipsis
        if size.middle:
            between, start = ellipses.targets(p, rule, gap)
            offset, used, patterns = (
                jnp.concatenate(pair, 1)
                for pair in zip((offset, used, patterns), between, strict=True)
            )
        offset = jnp.concatenate([offset, start + behind], 1)
        used = jnp.concatenate([used, behind < tables.tail_length[rule][:, None]], 1)
        patterns = jnp.concatenate([patterns, tables.tail[rule]], 1)
    dx, dy = (jnp.array(step, jnp.int32)[direction] for step in ((1, 0, -1, 0), (0, 1, 0, -1)))
    one = planes.cell(x[:, None] + dx * offset, y[:, None] + dy * offset, size.side, size.words)
    cells = jnp.where((used & is_found)[..., None, None], one, jnp.uint32(0))
    if starts is not None:
        rows = jnp.stack([planes.forth(starts, direction, c) for c in range(size.cells)])
        rows = jnp.where(used[0, : size.cells, None, None], rows, jnp.uint32(0))
        cells = cells.at[0, : size.cells].set(cells[0, : size.cells] | rows)
    return patterns.reshape(-1).astype(jnp.int32), cells.reshape(-1, *cells.shape[2:])
