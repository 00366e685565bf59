"""Expand each rule of the source into rules with one direction and definite movements and objects.

A rule such as `[ > player ]` stands for several expanded rules, for example one per direction. The
result lists them in the order in which a turn runs them. A cell of a rule is a tuple of pairs
(modifier, name), such as (">", "player") or ("no", "wall").
"""

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from .names import Names
from .rules import ELLIPSIS, MOVEMENTS, RELATIVE, Cell, Row, Rule

# For each direction of a rule: the absolute directions that stand for ^, v, <, >, parallel and
# perpendicular, in this order. `along horizontal` allows the same movements as `horizontal`, but
# stays a different modifier, so that `_inferred` does not confuse `parallel` with `horizontal`.
TURNED = {
    "right": ("up", "down", "left", "right", "along horizontal", "across vertical"),
    "up": ("left", "right", "down", "up", "along vertical", "across horizontal"),
    "down": ("right", "left", "up", "down", "along vertical", "across horizontal"),
    "left": ("down", "up", "right", "left", "along horizontal", "across vertical"),
}
SEVERAL = {
    **MOVEMENTS,
    "along horizontal": MOVEMENTS["horizontal"],
    "across horizontal": MOVEMENTS["horizontal"],
    "along vertical": MOVEMENTS["vertical"],
    "across vertical": MOVEMENTS["vertical"],
}
OPPOSITE = {"up": "down", "left": "right"}
MOST_RULES = 400_000  # maximum number of rules, duplicates included, that one rule expands to

Rows = tuple[Row, ...]


def expanded(rules: Iterable[Rule], names: Names) -> list[Rule]:
    """Expand the rules of a game; return them in execution order without duplicates."""
    rules = [*rules]
    for rule in rules:
        _check_absent(rule, names)
    tidy = [_without_redundant(rule, names) for rule in rules]
    directed = [each for rule in tidy for each in _directed(rule)]
    plain = [_with_objects(_absolute(rule), names) for rule in directed]
    moving = [each for rule in plain for each in _with_movements(rule, names)]
    concrete = [each for rule in moving for each in _with_members(rule, names)]
    return _unique([_stationary(rule, names) for rule in concrete])


def mapped(rows: Rows, change: Callable[[Cell], Cell]) -> Rows:
    """Return the rows of a rule with `change` applied to every cell."""
    return tuple(tuple(map(change, row)) for row in rows)


def both(rule: Rule, change: Callable[[Cell], Cell]) -> Rule:
    """Return the rule with `change` applied to every cell of both sides."""
    return rule._replace(left=mapped(rule.left, change), right=mapped(rule.right, change))


def at(rows: Rows, place: tuple[int, int], change: Callable[[Cell], Cell]) -> Rows:
    """Return the rows, with `change` applied to the cell at `place` = (row, cell) if it exists."""
    r, c = place
    if r >= len(rows):
        return rows
    row = (*rows[r][:c], change(rows[r][c]), *rows[r][c + 1 :])
    return (*rows[:r], row, *rows[r + 1 :])


def places(rows: Rows) -> Iterator[tuple[tuple[int, int], Cell]]:
    """Yield ((row, index in the row), cell) for each cell in the rows of one side of a rule."""
    for r, row in enumerate(rows):
        for c, cell in enumerate(row):
            yield (r, c), cell


# Expansion of directions, and removal of each `no X` without effect.


def _directed(rule: Rule) -> list[Rule]:
    """Return one rule for each direction that the rule stands for.

    If the direction does not matter, return only the rule for the first direction. The direction
    does not matter if every row is one cell and no modifier is relative to it, as `>` is.
    """
    cells = [cell for _, cell in places(rule.left + rule.right)]
    is_long = any(len(row) > 1 for row in rule.left)
    is_relative = any(modifier in RELATIVE for cell in cells for modifier, _ in cell)
    directions = rule.directions if is_long or is_relative else rule.directions[:1]
    return [rule._replace(directions=(each,)) for each in directions]


def _check_absent(rule: Rule, names: Names) -> None:
    """Record an error for each cell on the right side that both names and excludes an object."""
    for _, cell in places(rule.right):
        there = [name for modifier, name in cell if modifier != "no" and name in names.sprites]
        mask = sum({names.mask(name) for name in there})
        for name in (name for modifier, name in cell if modifier == "no"):
            if names.mask(name) & mask and not names.is_aggregate(name):
                names.problems.error(
                    rule.line,
                    f"a cell on the right has {', '.join(there).upper()} and no {name.upper()}",
                )


def _without_redundant(rule: Rule, names: Names) -> Rule:
    """Return the rule without each `no X` that has no effect.

    A `no X` on the left has no effect if the cell requires an object that excludes X, see `needed`.
    A `no X` on the right has no effect if the same cell on the left also has `no X`. After a
    dropped `no X` on the right, the next pair (modifier, name) of the cell is always kept, as in
    PuzzleScript's engine.
    """

    def right(before: Cell, after: Cell) -> Cell:
        forbidden = {name for modifier, name in before if modifier == "no"}
        kept, is_seen = [], True
        for pair in after:
            is_dropped = is_seen and pair[0] == "no" and pair[1] in forbidden
            kept += [] if is_dropped else [pair]
            is_seen = not is_dropped
        return tuple(kept)

    rows = zip(rule.left, rule.right, strict=False)
    kept = tuple(tuple(map(right, *each)) for each in rows)
    return rule._replace(right=kept, left=mapped(rule.left, lambda cell: needed(cell, names)))


def needed(cell: Cell, names: Names) -> Cell:
    """Return a left-side cell without each redundant `no X`.

    `no X` is redundant if the cell requires another object of X's layer: a cell has only one object
    per layer.
    """
    layers: set[int] = set()
    objects = 0
    for modifier, name in cell:
        is_property = names.is_property(name) and names.single_layer(name) is not None
        # A synonym of an object does not count as a required object, because PuzzleScript's engine
        # does not resolve it here.
        is_sure = name in names.sprites or names.is_aggregate(name) or is_property
        if modifier != "no" and is_sure:
            layers |= {names.layer_of[m] for m in names.members(name) if m in names.layer_of}
            objects |= names.mask(name)

    def is_needed(name: str) -> bool:
        members = [m for m in names.members(name) if m in names.layer_of]
        occupied = {names.layer_of[m] for m in members} <= layers
        if names.is_aggregate(name):  # an error, which `_with_objects` reports
            return True
        return not members or not occupied or bool(names.mask(name) & objects)

    return tuple(pair for pair in cell if pair[0] != "no" or is_needed(pair[1]))


# Replacement of relative directions, aggregates and synonyms.


def _absolute(rule: Rule) -> Rule:
    """Replace the relative directions, such as `>`, of a rule that has only one direction.

    A rule with the direction left or up is mirrored: it gets the direction right or down, and its
    rows are reversed. A rule with an ellipsis is not mirrored.
    """
    direction = rule.directions[0]
    turned: dict[str, str] = dict(zip(RELATIVE, TURNED[direction], strict=True))
    rule = both(rule, lambda cell: tuple((turned.get(m, m), name) for m, name in cell))
    if direction not in OPPOSITE or any(cell == ELLIPSIS for _, cell in places(rule.left)):
        return rule
    left, right = (tuple(row[::-1] for row in side) for side in (rule.left, rule.right))
    return rule._replace(directions=(OPPOSITE[direction],), left=left, right=right)


def _with_objects(rule: Rule, names: Names) -> Rule:
    """Replace each synonym of an object by the object, and each aggregate by its objects.

    The first object of an aggregate (`A and B`) takes the aggregate's place in the cell; its other
    objects are added at the end of the cell.
    """

    def change(cell: Cell) -> Cell:
        first, rest = [], []
        for modifier, name in cell:
            if not names.is_aggregate(name):
                object_ = names.target(name)
                first.append((modifier, object_ if object_ in names.sprites else name))
                continue
            if modifier == "no":
                names.problems.error(
                    rule.line,
                    f"`no {name}`: {name.upper()} is an aggregate; write `no` before each of "
                    f"{', '.join(names.members(name))}",
                )
            head, *others = ((modifier, member) for member in names.members(name))
            first.append(head)
            rest += others
        return (*first, *rest)

    return both(rule, change)


def _check_count(count: int, rule: Rule, names: Names) -> None:
    """Raise `GameError` if `count`, the number of rules that a rule expands to, is too large."""
    if count > MOST_RULES:
        most = f"a rule stands for more than {MOST_RULES:,} rules"
        names.problems.error(rule.line, f"{most}; write one movement or object instead of several")
        names.problems.check()


# Expansion of modifiers that stand for several movements, such as `moving`.


class _Taken(NamedTuple):
    """The movement or object that replaces a modifier or property on a rule's left side."""

    value: str  # movement or object that replaces the modifier or property
    times: int  # number of cells in which the replacement was made
    place: tuple[int, int]  # indices (row, cell) of one of these cells


def _with_movements(rule: Rule, names: Names) -> list[Rule]:
    """Return one rule for each combination of movements that the modifiers on the left allow."""
    done, waiting = [], deque([(rule, {}, {})])
    while waiting:
        _check_count(len(waiting), rule, names)
        current, pairs, modifiers = waiting.popleft()
        found = [
            (place, next(pair for pair in cell if pair[0] in SEVERAL))
            for place, cell in places(current.left)
            if any(modifier in SEVERAL for modifier, _ in cell)
        ]
        if not found:
            done.append(_inferred(current, pairs, modifiers))
        for place, pair in found:
            for movement in SEVERAL[pair[0]]:
                waiting.append(_moved(current, pairs, modifiers, place, pair, movement))
    remaining = [
        m for each in done for _, cell in places(each.right) for m, _ in cell if m in SEVERAL
    ]
    if remaining:
        names.problems.error(
            rule.line,
            f"`{remaining[0].split()[-1]}` on the right: the left does not tell which movement",
            is_fatal=True,
        )
    return done


def _moved(
    rule: Rule, pairs: dict, modifiers: dict, place: tuple[int, int], pair: tuple[str, str], to: str
) -> tuple[Rule, dict, dict]:
    """Replace the modifier of `pair` by the movement `to`, in one cell of both sides.

    `pair` is (modifier, name), and `place` is the cell's (row, index in the row).

    Returns the rule and the updated dicts `pairs` and `modifiers`. For each pair and each modifier
    that was replaced on the left side, they have the movement and the number of replacements.
    """

    def change(cell: Cell) -> Cell:
        return tuple((to, each[1]) if each == pair else each for each in cell)

    left, right = at(rule.left, place, change), at(rule.right, place, change)
    old = pairs.get(pair)
    new = old._replace(times=old.times + (old.place != place)) if old else _Taken(to, 1, place)
    before = modifiers.get(pair[0], _Taken(to, 0, place))
    return (
        rule._replace(left=left, right=right),
        {**pairs, pair: new},
        {**modifiers, pair[0]: before._replace(times=before.times + 1)},
    )


def _inferred(rule: Rule, pairs: dict, modifiers: dict) -> Rule:
    """Replace each modifier on the right by the movement that replaced it on the left.

    A modifier is a word before an object's name that stands for several movements, such as
    `moving`. If the same modifier and name were replaced in only one cell on the left, the right
    gets the movement from there. Otherwise, if the modifier was replaced only once with any name,
    the right gets this movement. Otherwise, the movement is ambiguous and the modifier stays.
    """
    once = {pair: taken.value for pair, taken in pairs.items() if taken.times == 1}
    alone = {modifier: taken.value for modifier, taken in modifiers.items() if taken.times == 1}

    def by_pair(cell: Cell) -> Cell:
        return tuple((once.get(pair, pair[0]), pair[1]) for pair in cell)

    def by_modifier(cell: Cell) -> Cell:
        return tuple((alone.get(modifier, modifier), name) for modifier, name in cell)

    return rule._replace(right=mapped(mapped(rule.right, by_pair), by_modifier))


# Expansion of properties (names that stand for one of several objects).


def _with_members(rule: Rule, names: Names) -> list[Rule]:
    """Replace properties by their members; return one rule for each combination of members.

    A property is a name for any one of its members. It is replaced if its members are on several
    layers, or if a cell on the right has the property and the same cell on the left does not.
    """
    rule = both(rule, lambda cell: _none_of(cell, names))
    ambiguous = {
        name
        for place, cell in places(rule.right)
        for name in _properties(cell, names)
        if name not in _properties(rule.left[place[0]][place[1]], names)
    }
    done, waiting = [], deque([(rule, {})])
    while waiting:
        _check_count(len(waiting), rule, names)
        current, taken = waiting.popleft()
        found = next(
            (
                (place, name)
                for place, cell in places(current.left)
                for name in _properties(cell, names)
                if names.single_layer(name) is None or name in ambiguous
            ),
            None,
        )
        if found is None:
            done.append(_member_inferred(current, taken))
            continue
        place, name = found
        for member in names.members(name):
            change = _named(name, member)
            left, right = at(current.left, place, change), at(current.right, place, change)
            count = taken[name].times + 1 if name in taken else 1
            value = taken[name].value if name in taken else member
            known = {**taken, name: _Taken(value, count, place)}
            waiting.append((current._replace(left=left, right=right), known))
    for each in done:
        for _, cell in places(each.right):
            for name in ambiguous.intersection(_properties(cell, names)):
                names.problems.error(
                    rule.line,
                    f"{name.upper()} on the right: the left does not tell which of "
                    f"{', '.join(names.members(name))}",
                )
                return []
    return done


def _named(name: str, member: str) -> Callable[[Cell], Cell]:
    """Return a function that replaces the property `name` by `member` in a cell.

    The function does not replace a property that has the modifier `random`.
    """
    return lambda cell: tuple(
        (m, member) if each == name and m != "random" else (m, each) for m, each in cell
    )


def _member_inferred(rule: Rule, taken: dict[str, _Taken]) -> Rule:
    """Replace each property on the right by the member that replaced it on the left.

    A property that was replaced in more than one cell on the left stays.
    """
    for name, each in taken.items():
        if each.times == 1:
            rule = rule._replace(right=mapped(rule.right, _named(name, each.value)))
    return rule


def _properties(cell: Cell, names: Names) -> list[str]:
    return [name for modifier, name in cell if modifier != "random" and names.is_property(name)]


def _none_of(cell: Cell, names: Names) -> Cell:
    """Replace `no P` of a property P by `no X` for each of its members X."""
    pairs = []
    for modifier, name in cell:
        if modifier == "no" and names.is_property(name):
            pairs += [(modifier, member) for member in names.members(name)]
        else:
            pairs.append((modifier, name))
    return tuple(pairs)


# Last steps of `expanded`: mark new objects as stationary, and remove duplicate rules.


def _stationary(rule: Rule, names: Names) -> Rule:
    """Add the modifier `stationary` to each new object on the right side that has no modifier.

    An object is new if the same cell on the left names no object of its layer. Late rules are
    returned unchanged.
    """
    if rule.late:
        return rule

    def change(before: Cell, after: Cell) -> Cell:
        known = {member for _, name in before for member in names.members(name)}
        layers = {names.layer_of.get(member) for member in known}

        def is_new(modifier: str, name: str) -> bool:
            is_object = not names.is_property(name) and name in names.layer_of
            return not modifier and is_object and names.layer_of[name] not in layers

        return tuple(("stationary" if is_new(*pair) else pair[0], pair[1]) for pair in after)

    rows = zip(rule.left, rule.right, strict=False)
    return rule._replace(right=tuple(tuple(map(change, *each)) for each in rows))


def _unique(rules: list[Rule]) -> list[Rule]:
    """Return the rules without duplicates: of equal rules in a group, the last one is kept."""
    kept = []
    for _, group in itertools.groupby(rules, key=lambda rule: rule.group):
        seen = set()
        last = []
        for rule in reversed([*group]):
            is_long = any(len(row) > 1 for row in rule.left)
            key = rule._replace(directions=rule.directions if is_long else (), group=0)
            if key not in seen:
                last.append(rule)
            seen.add(key)
        kept += reversed(last)
    return kept
