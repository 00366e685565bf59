"""The rules of a turn: a micro-step tests several rules, and applies the first that has an effect.

PuzzleScript's engine executes rules one by one. Skipping the rules without effect gives the same
result, because they change nothing.

A group of rules is repeated until a pass over it changes nothing. A loop (the groups from
`startloop` to `endloop`) is repeated if any of its groups changed something. A tuple is one match
for each row (pair of brackets) of a rule. A random group draws one of the tuples of all its rules,
and applies only this tuple.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from . import matches, planes, replacements, rigid, sizes
from .matches import Literals
from .replacements import Draw
from .state import ENDS, LATE, MOVES, RULES, Program, Turn, fresh, select

MOST_PASSES = 200  # maximum number of passes over a group, as in PuzzleScript's engine
# Number of jumps from `endloop` to `startloop` after which the engine skips all remaining rules of
# the phase (the main rules or the late rules).
MOST_LOOPS = 200


class Next(NamedTuple):
    """Result of testing the next rules: the first of them that has an effect."""

    rule: Int32[Array, ""]  # index of the rule to apply or, in a random group, of the next rule
    # Whether a tested rule has an effect, or a rule still has matches to apply.
    is_found: Bool[Array, ""]
    found: UInt32[Array, "rows gaps side words"]  # matches of the rule, see `matches.of_rule`
    # The matches in `found` that would change something.
    changing: UInt32[Array, "rows gaps side words"]
    # For row 0, start cells of the matches of the part before the first ellipsis, and the start
    # cells of the matches that would change something.
    head: UInt32[Array, "side words"]
    head_changes: UInt32[Array, "side words"]
    changes: Bool[Array, ""]  # whether a match of one of the rule's rows would change something
    last: Int32[Array, ""]  # index of the last tested rule
    # Whether `last` ends a group or loop that may be repeated, so that testing stops here.
    barrier: Bool[Array, ""]


class Choice(NamedTuple):
    """The matches of one rule that a micro-step applies; the rule is not in a random group."""

    # If the rule is not `Tables.simple`: the next tuple, as numbers of matches (`matches.numbers`).
    at: Int32[Array, " rows"]
    is_found: Bool[Array, ""]  # whether the rule has a next tuple
    # If the rule is `Tables.simple`: start cells of the matches that this micro-step applies.
    starts: UInt32[Array, "side words"]
    # If the rule is `Tables.simple`: start cells of the matches that wait for the next micro-step.
    left: UInt32[Array, "side words"]
    # Matches that the rule had before any of them was applied; see `Turn.waiting`.
    waiting: UInt32[Array, "rows gaps side words"]
    changes: Bool[Array, ""]  # whether a match that starts at a cell of `starts` changes something
    is_left: Bool[Array, ""]  # whether `left` has a cell


class Scan(NamedTuple):
    """The tuples of one rule of a random group; a tuple is one match for each row of the rule.

    The tuples of a group are numbered rule by rule.
    """

    before: Int32[Array, ""]  # number of tuples of those rules of the group that precede this rule
    total: Int32[Array, ""]  # `before` plus the number of tuples of this rule
    # Numbers (`matches.numbers`) of the matches of tuple `Turn.target`, if it belongs to this rule.
    at: Int32[Array, " rows"]
    is_hit: Bool[Array, ""]  # whether the tuple with the number `Turn.target` belongs to this rule


def step(p: Program, turn: Turn, found: Literals, draw: Draw) -> Turn:
    """Test the next rules together, and apply the first of them that has an effect.

    If none has an effect, the next micro-step continues after the tested rules. In a phase without
    rules, the turn is returned unchanged.
    """
    in_rules = (turn.phase == RULES) | (turn.phase == LATE)
    end = jnp.where(turn.phase == RULES, p.tables.late.all, p.tables.end.all)
    runs = in_rules & (turn.rule < end)
    chosen = _next(p, turn, found, end)
    rule, applies = chosen.rule, chosen.is_found
    choice = _choice(p, turn, chosen)
    at, is_found = choice.at, choice.is_found & applies
    in_random, scan = jnp.bool_(False), None
    if p.size.draws:
        in_random, scan = _is_random(p, turn), _scan(p, turn, chosen.found, rule)
        at = jnp.where(in_random, scan.at, at)
        is_found = jnp.where(in_random, scan.is_hit, is_found)
    starts = jnp.where(runs & applies, choice.starts, jnp.uint32(0))
    target = replacements.targets(p, rule, at, runs & is_found, starts)
    turn, altered = replacements.replaced(p, turn, target, draw)
    applied = _applied(p, turn, choice, rule, altered)
    after = select(applies, applied, _go_on(p, turn, chosen.last, chosen.barrier))
    if scan is not None:
        after = select(in_random, _random_group(p, turn, scan, rule, altered, draw), after)
    after = select(runs, after, turn)
    over = fresh(after)._replace(
        phase=jnp.where(turn.phase == RULES, MOVES, ENDS).astype(jnp.int32),
        vacated=jnp.zeros_like(turn.vacated),
        place=jnp.int32(-2),
    )
    is_over = in_rules & (after.rule >= end) & ~after.applying
    return select(is_over, over, after)


def _is_random(p: Program, turn: Turn) -> Bool[Array, ""]:
    """Return whether the next rule is in a random group that is not banned, see `rigid.banned`."""
    random = p.tables.random[turn.rule]
    return random & ~rigid.banned(p, turn, turn.rule) if p.size.rigid else random


def _next(p: Program, turn: Turn, found: Literals, end: Int32[Array, ""]) -> Next:
    """Test the next `size.window` rules, and return the first that has an effect.

    `end` is the index at which the rules of this phase end.
    """
    size, tables = p.size, p.tables
    window = jnp.minimum(turn.rule + planes.index(size.window), size.rules - 1)
    is_valid, barrier = _window(p, turn, window, end)
    tests = matches.tested(p, found, window)
    has_match, has_change = matches.row_results(p, tests, window)
    news = queued(turn.commands, tables.commands[window]) != turn.commands
    rows = range(size.rows)
    active = functools.reduce(jnp.logical_or, [has_change[:, row] for row in rows], news)
    active = functools.reduce(jnp.logical_and, [has_match[:, row] for row in rows], active)
    active &= is_valid & ~tables.random[window]
    if size.rigid:
        active &= ~rigid.banned(p, turn, window)
    place = jnp.where(turn.applying, jnp.int32(0), planes.first(active))
    rule, tests = window[place], jax.tree.map(lambda leaf: leaf[place], tests)
    return Next(
        rule,
        active.any() | turn.applying,
        *matches.of_rule(p, tests, rule),
        head=tests.head[0],
        head_changes=tests.head_changes[0],
        changes=has_change[place].any(),
        last=turn.rule + is_valid.sum(dtype=jnp.int32) - 1,
        barrier=barrier,
    )


def _window(
    p: Program, turn: Turn, window: Int32[Array, " w"], end: Int32[Array, ""]
) -> tuple[Bool[Array, " w"], Bool[Array, ""]]:
    """Return which of the next rules are tested together, and whether a repetition may follow.

    `window` has the indices of the next rules. Rules are tested up to the first rule that ends a
    group or loop to be repeated, and only before index `end`. A rule of a random group is tested
    alone. The second result is whether the tested rules include the end of a group or loop to be
    repeated.
    """
    tables = p.tables
    repeats = (tables.first[window] == tables.first[turn.rule]) & turn.changed
    jumps = (tables.loop[window] >= 0) & turn.any_changed
    barrier = tables.last[window] & (repeats | jumps)
    number = turn.rule + planes.index(len(window))
    is_behind, random = number >= end, tables.random[window]
    if p.size.draws:
        random |= random[0]
    stop = is_behind | (random & (number > turn.rule))
    is_valid = (planes.rank(barrier) == 0) & (planes.rank(stop) == 0) & ~stop
    return is_valid, (barrier & is_valid).any()


def _go_on(p: Program, turn: Turn, last: Int32[Array, ""], barrier: Bool[Array, ""]) -> Turn:
    """Go on to the rule after `last`, or back to the start of the group or loop to be repeated.

    If `barrier` is True, a group or loop ends with the rule `last`. This group or loop is repeated
    if one of its rules has changed the board. A group gets at most `MOST_PASSES` passes. After
    `MOST_LOOPS` jumps to the start of a loop, the next jump instead skips all remaining rules of
    the phase.
    """
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
    """Return the bits (see `sizes.COMMANDS`) of the queued commands after adding a rule's commands.

    Adding `cancel` or `restart` removes the commands that were queued before. A queue with `cancel`
    accepts no more commands. A queue with `restart` accepts only the commands of a rule that has
    `cancel`.
    """
    closed = queue & sizes.CANCEL > 0
    closed |= (queue & sizes.RESTART > 0) & (added & sizes.CANCEL == 0)
    kept = jnp.where(added & (sizes.CANCEL | sizes.RESTART) > 0, 0, queue)
    return jnp.where(closed | (added == 0), queue, (kept | added).astype(jnp.uint8))


def _choice(p: Program, turn: Turn, chosen: Next) -> Choice:
    """Choose the matches of a rule that this micro-step applies.

    If the rule is `Tables.simple` (one row, no ellipsis, no random numbers), choose all matches
    that no earlier match overlaps. Otherwise, choose the next tuple (one match for each row) that
    still matches and has an effect.
    """
    tables, rule, found = p.tables, chosen.rule, chosen.found
    waiting = jnp.where(turn.applying, turn.waiting, found)
    pointer = jnp.where(turn.applying, turn.pointer, -1)
    able, simple = waiting & found, tables.simple[rule]
    is_idle = ~turn.applying & ~chosen.changes  # whether only the rule's commands have an effect
    of_head = jnp.where(turn.applying, turn.waiting[0, 0], chosen.head)
    starts, left = replacements.at_once(p, of_head, chosen.head, rule)
    starts = jnp.where(simple & ~is_idle, starts, jnp.uint32(0))
    counts = able & chosen.changing
    # A random draw can change something even in a match for which `chosen.changing` is not set.
    if p.size.draws:
        counts = jnp.where(tables.draws[rule], able, counts)
    counts = jnp.where((tables.length[rule] > 0)[:, None, None, None], counts, jnp.uint32(0))
    vertical = matches.is_vertical(p, rule)
    is_found, at = matches.next_tuple(p, able, counts, pointer, vertical)
    left = jnp.where(is_idle, jnp.uint32(0), left)
    changes, is_left = planes.some_of(starts & chosen.head_changes, left)
    return Choice(
        at=at,
        is_found=is_found & ~simple,
        starts=starts,
        left=left,
        waiting=waiting,
        changes=changes,
        is_left=is_left,
    )


def _applied(
    p: Program, turn: Turn, choice: Choice, rule: Int32[Array, ""], altered: Bool[Array, ""]
) -> Turn:
    """Record that the matches in `choice` were applied; if none are left, go on to the next rule.

    `altered` is whether a cell changed; it is used only for a rule that draws random numbers.
    """
    tables = p.tables
    simple = tables.simple[rule]
    sure = jnp.where(simple, choice.changes, choice.is_found)
    altered = jnp.where(tables.draws[rule], altered, sure) if p.size.draws else sure
    is_same = tables.first[rule] == tables.first[turn.rule]
    waiting, size = choice.waiting, p.size
    # Not `waiting.at[0, 0].set`, for which a GPU would copy the whole array.
    is_head = (planes.index(size.rows) == 0)[:, None] & (planes.index(size.gaps) == 0)
    left = jnp.where(is_head[..., None, None], choice.left, waiting)
    after = turn._replace(
        waiting=jnp.where(simple, left, waiting),
        pointer=choice.at,
        applying=jnp.where(simple, choice.is_left, choice.is_found),
        changed=(is_same & turn.changed) | altered,
        passes=jnp.where(is_same, turn.passes, 0),
        any_changed=turn.any_changed | altered,
        rule=rule.astype(jnp.int32),
    )
    return select(after.applying, after, _finished(p, after, rule))


def _finished(p: Program, turn: Turn, rule: Int32[Array, ""]) -> Turn:
    """Queue the commands of a rule that was applied, and go on to the next rule."""
    tables = p.tables
    turn = turn._replace(
        commands=queued(turn.commands, tables.commands[rule]), applying=jnp.bool_(False)
    )
    jumps = (tables.loop[rule] >= 0) & turn.any_changed
    return _go_on(p, turn, turn.rule, tables.last[rule] & (turn.changed | jumps))


def _scan(
    p: Program, turn: Turn, found: UInt32[Array, "rows gaps side words"], rule: Int32[Array, ""]
) -> Scan:
    """Count the tuples (one match for each row) of a rule in a random group.

    Also find the tuple with the index `turn.target`, counted over all rules of the group.
    """
    vertical = matches.is_vertical(p, rule)
    counts = matches.counts(found, vertical)
    numbers = counts[:, -1]
    before = jnp.maximum(turn.counted, 0)
    total = before + functools.reduce(jnp.multiply, [*numbers])
    index, ranks = turn.target - before, []
    for row in range(p.size.rows):  # in the order of tuples, the match of row 0 varies fastest
        ranks.append(index % jnp.maximum(numbers[row], 1))
        index = index // jnp.maximum(numbers[row], 1)
    at = matches.nth(found, counts, planes.stacked(ranks), vertical)
    return Scan(before, total, at, (turn.target >= 0) & (turn.target < total))


def _random_group(
    p: Program,
    turn: Turn,
    scan: Scan,
    rule: Int32[Array, ""],
    altered: Bool[Array, ""],
    draw: Draw,
) -> Turn:
    """Advance a random group by one micro-step, which handles one rule of the group.

    A random group draws one of the tuples of all its rules; a tuple is one match for each row of a
    rule. The first pass over the rules counts their tuples and draws a tuple's number. The second
    pass finds the rule that has this tuple, and applies it.
    """
    tables = p.tables
    after = turn._replace(counted=scan.total, rule=turn.rule + 1)
    # First pass: count the tuples. After the last rule, draw the number of a tuple and begin the
    # second pass, or leave the group if it has no tuples.
    chosen = turn._replace(
        counted=jnp.int32(0),
        rule=tables.first[rule],
        target=jnp.floor(draw(turn.drawn) * scan.total.astype(jnp.float32)).astype(jnp.int32),
        drawn=turn.drawn + 1,
    )
    none = _left(p, turn._replace(counted=jnp.int32(-1)), jnp.bool_(False))
    counting = select(tables.last[rule], select(scan.total > 0, chosen, none), after)
    # Second pass: find the rule of the drawn tuple. If the rule is `rule`, the caller has already
    # applied it in this micro-step, and the group is done. Otherwise, go on to the group's next
    # rule.
    applied = turn._replace(
        commands=queued(turn.commands, tables.commands[rule]),
        counted=jnp.int32(-1),
        target=jnp.int32(-1),
    )
    seeking = select(scan.is_hit, _left(p, applied, altered), after)
    return select(turn.target < 0, counting, seeking)


def _left(p: Program, turn: Turn, altered: Bool[Array, ""]) -> Turn:
    """Go on after a random group: to the next group, or to the start of a loop that ends here.

    The random group itself is not repeated. `turn.rule` is the index of any of its rules, and
    `altered` is whether the group changed a cell.
    """
    tables = p.tables
    last = tables.final[jnp.minimum(turn.rule, p.size.rules - 1)]
    turn = turn._replace(
        rule=last, changed=jnp.bool_(False), any_changed=turn.any_changed | altered
    )
    return _go_on(p, turn, last, (tables.loop[last] >= 0) & turn.any_changed)
