"""The rules of a turn: a micro-step tests several rules, and applies the first that has an effect.

PuzzleScript's engine executes rules one by one. A rule without effect changes nothing, so skipping
it gives the same result. A group of rules is repeated until a pass over it changes nothing. A loop
jumps back to its first group if something changed. A random group applies one of its tuples (see
`matches.py`), drawn at random.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8

from . import matches, planes, replacements, rigid, sizes
from .matches import Literals, Tested
from .replacements import Draw
from .state import ENDS, MOVES, RULES, Program, Turn, fresh, select

MOST_PASSES = 200  # maximum number of passes over a group, as in PuzzleScript's engine
MOST_LOOPS = 200  # number of loop jumps after which the engine skips all remaining rules


def step(p: Program, turn: Turn, found: Literals, draw: Draw) -> Turn:
    """Test the next rules; apply the first that has an effect. If none has, go on behind them."""
    size, tables = p.size, p.tables
    end = jnp.where(turn.phase == RULES, tables.late.all, tables.end.all)
    window = jnp.minimum(turn.rule + planes.index(size.window), size.rules - 1)
    is_valid, barrier = _window(p, turn, window, end)
    tests = matches.tested(p, found, window)
    has_match, has_change = matches.row_results(p, tests, window)
    news = queued(turn.commands, tables.commands[window]) != turn.commands
    active = has_match.all(axis=1) & (has_change.any(axis=1) | news)
    active &= is_valid & ~tables.random[window]
    if size.rigid:
        active &= ~rigid.banned(p, turn, window)
    place = jnp.where(turn.applying, jnp.int32(0), planes.first(active))
    one = jax.tree.map(lambda leaf: leaf[place], tests)
    applied = _apply(p, turn, one, window[place], has_change[place].any(), draw)
    passed = _go_on(p, turn, turn.rule + is_valid.sum(dtype=jnp.int32) - 1, barrier)
    after = select(active.any() | turn.applying, applied, passed)
    if size.draws:
        one = jax.tree.map(lambda leaf: leaf[0], tests)
        in_random = tables.random[window[0]] & (turn.rule < end)
        if size.rigid:
            in_random &= ~rigid.banned(p, turn, window[0])
        after = select(in_random, _random_group(p, turn, one, window[0], draw), after)
    after = select(turn.rule >= end, turn, after)
    over = fresh(after)._replace(
        phase=jnp.where(turn.phase == RULES, MOVES, ENDS).astype(jnp.int32),
        vacated=jnp.zeros_like(turn.vacated),
        place=jnp.int32(-2),
    )
    return select((after.rule >= end) & ~after.applying, over, after)


def _window(
    p: Program, turn: Turn, window: Int32[Array, " w"], end: Int32[Array, ""]
) -> tuple[Bool[Array, " w"], Bool[Array, ""]]:
    """Return which rules of the window can be tested together, and whether a jump back may follow.

    They end with the last rule of a group that has to be repeated, or of a loop that jumps back.
    They also end before a random group and at the end of the list.
    """
    tables = p.tables
    repeats = (tables.first[window] == tables.first[turn.rule]) & turn.changed
    jumps = (tables.loop[window] >= 0) & turn.any_changed
    barrier = tables.last[window] & (repeats | jumps)
    number = turn.rule + planes.index(len(window))
    stop = (number >= end) | (tables.random[window] & (number > turn.rule))
    is_valid = (planes.rank(barrier) == 0) & (planes.rank(stop) == 0) & ~stop
    return is_valid, (barrier & is_valid).any()


def _go_on(p: Program, turn: Turn, last: Int32[Array, ""], barrier: Bool[Array, ""]) -> Turn:
    """Go on behind rule `last`, or at the start of its group or loop if that is to be repeated."""
    tables = p.tables
    at = jnp.minimum(last, p.size.rules - 1)
    is_same = tables.first[at] == tables.first[turn.rule]
    repeats = barrier & is_same & turn.changed & (turn.passes < MOST_PASSES - 1)
    jumps = barrier & ~repeats & (tables.loop[at] >= 0) & turn.any_changed
    is_lost = jumps & (turn.loops >= MOST_LOOPS)
    target = jnp.where(jumps, tables.loop[at], last + 1)
    target = jnp.where(repeats, tables.first[at], target)
    stays = is_same & ~tables.last[at]
    return turn._replace(
        rule=jnp.where(is_lost, p.size.rules, target),
        changed=turn.changed & stays,
        passes=jnp.where(repeats, turn.passes + 1, jnp.where(stays, turn.passes, 0)),
        any_changed=turn.any_changed & ~jumps,
        loops=turn.loops + jumps.astype(jnp.int32),
    )


def queued(queue: UInt8[Array, ""], added: UInt8[Array, "*w"]) -> UInt8[Array, "*w"]:
    """Return the queue after the commands of a rule are added.

    `cancel` and `restart` remove earlier commands. After `cancel`, later rules add nothing. After
    `restart`, only a rule with `cancel` does.
    """
    closed = queue & sizes.CANCEL > 0
    closed |= (queue & sizes.RESTART > 0) & (added & sizes.CANCEL == 0)
    kept = jnp.where(added & (sizes.CANCEL | sizes.RESTART) > 0, 0, queue)
    return jnp.where(closed | (added == 0), queue, (kept | added).astype(jnp.uint8))


def _apply(
    p: Program,
    turn: Turn,
    tests: Tested,
    rule: Int32[Array, ""],
    changes: Bool[Array, ""],
    draw: Draw,
) -> Turn:
    """Apply a rule, or the part of it that one micro-step can apply.

    For a rule with one row, no ellipsis and no random numbers, this is every match that no earlier
    match overlaps. For any other rule, it is the next tuple that still matches and has an effect.
    """
    size, tables = p.size, p.tables
    found, changing = matches.of_rule(p, tests, rule)
    waiting = jnp.where(turn.applying, turn.waiting, found)
    nowhere = turn.pointer._replace(gap=jnp.full_like(turn.pointer.gap, matches.NOWHERE))
    pointer = select(turn.applying, turn.pointer, nowhere)
    able, simple, vertical = waiting & found, tables.simple[rule], matches.is_vertical(p, rule)
    is_idle = ~turn.applying & ~changes  # whether only the rule's commands have an effect
    starts, left = replacements.at_once(p, waiting[0, 0], found[0, 0], rule)
    starts = jnp.where(simple & ~is_idle, starts, jnp.uint32(0))
    counts = able & changing
    if size.draws:  # whether a draw has an effect is not known in advance
        counts = jnp.where(tables.draws[rule], able, counts)
    counts = jnp.where((tables.length[rule] > 0)[:, None, None, None], counts, jnp.uint32(0))
    is_found, at = matches.next_tuple(p, able, counts, pointer, vertical)
    where = replacements.targets(p, rule, at, is_found & ~simple, starts)
    after, altered = replacements.replaced(p, turn, *where, draw)
    sure = jnp.where(simple, planes.some(starts & tests.head_changes[0]), is_found)
    altered = jnp.where(tables.draws[rule], altered, sure) if size.draws else sure
    is_same = tables.first[rule] == tables.first[turn.rule]
    after = after._replace(
        waiting=jnp.where(simple, waiting.at[0, 0].set(left), waiting),
        pointer=select(simple, pointer, at),
        applying=jnp.where(simple, planes.some(left) & ~is_idle, is_found),
        changed=(is_same & turn.changed) | altered,
        passes=jnp.where(is_same, turn.passes, 0),
        any_changed=turn.any_changed | altered,
        rule=rule.astype(jnp.int32),
    )
    return select(after.applying, after, _finished(p, after, rule))


def _finished(p: Program, turn: Turn, rule: Int32[Array, ""]) -> Turn:
    """Queue the commands of a rule that was applied, and go on."""
    tables = p.tables
    turn = turn._replace(
        commands=queued(turn.commands, tables.commands[rule]), applying=jnp.bool_(False)
    )
    jumps = (tables.loop[rule] >= 0) & turn.any_changed
    return _go_on(p, turn, turn.rule, tables.last[rule] & (turn.changed | jumps))


def _random_group(
    p: Program, turn: Turn, tests: Tested, rule: Int32[Array, ""], draw: Draw
) -> Turn:
    """Go on in a random group: count its tuples, draw the index of one, find it and apply it.

    Each micro-step handles the tuples of one rule. The group is scanned twice.
    """
    tables = p.tables
    found, _ = matches.of_rule(p, tests, rule)
    numbers = matches.number_of(found)
    before = jnp.maximum(turn.counted, 0)
    total = before + jnp.prod(numbers, dtype=jnp.int32)
    after = turn._replace(counted=total, rule=turn.rule + 1)
    # First scan: count. At its end, draw an index, or leave the group if it has no tuples.
    chosen = turn._replace(
        counted=jnp.int32(0),
        rule=tables.first[rule],
        target=jnp.floor(draw(turn.drawn) * total.astype(jnp.float32)).astype(jnp.int32),
        drawn=turn.drawn + 1,
    )
    none = _left(p, turn._replace(counted=jnp.int32(-1)), jnp.bool_(False))
    counting = select(tables.last[rule], select(total > 0, chosen, none), after)
    # Second scan: find the tuple and apply it.
    index, ranks = turn.target - before, []
    for row in range(p.size.rows):  # in the order of tuples, the match of row 0 varies fastest
        ranks.append(index % jnp.maximum(numbers[row], 1))
        index = index // jnp.maximum(numbers[row], 1)
    at = matches.nth(found, jnp.stack(ranks), matches.is_vertical(p, rule))
    where = replacements.targets(p, rule, at, jnp.bool_(True))
    applied, altered = replacements.replaced(p, turn, *where, draw)
    applied = applied._replace(
        commands=queued(turn.commands, tables.commands[rule]),
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
    )
    seeking = select(turn.target < total, _left(p, applied, altered), after)
    return select(turn.target < 0, counting, seeking)


def _left(p: Program, turn: Turn, altered: Bool[Array, ""]) -> Turn:
    """Go on after a random group, which never repeats; `turn.rule` is any of its rules."""
    tables = p.tables
    last = tables.final[jnp.minimum(turn.rule, p.size.rules - 1)]
    turn = turn._replace(
        rule=last, changed=jnp.bool_(False), any_changed=turn.any_changed | altered
    )
    return _go_on(p, turn, last, (tables.loop[last] >= 0) & turn.any_changed)
