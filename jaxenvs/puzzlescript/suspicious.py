"""Warnings about valid rules that probably do not mean what their author wanted.

The engine of PuzzleScript (increpare/PuzzleScript 4db08ebe) warns of the same mistakes.
"""

import itertools
from collections.abc import Iterable, Iterator

from .expand import needed, places
from .names import Names
from .rules import SOUNDS, Rule


def check(rules: Iterable[Rule], names: Names) -> None:
    """Record a warning for each part of a rule that is valid but probably a mistake.

    `rules` are the rules before expansion, in the order of the source.
    """
    previous: dict[int, Rule] = {}  # number of a group -> the latest rule of this group so far
    for rule in rules:
        for message in (*_absent(rule, names), *_random(rule, names), *_others(rule, names)):
            names.problems.warn(rule.line, message)
        if rule.group in previous and previous[rule.group].late != rule.late:
            names.problems.warn(
                rule.line, "`+` joins a late rule and a rule that is not late; both run as usual"
            )
        previous[rule.group] = rule


def _absent(rule: Rule, names: Names) -> Iterator[str]:
    """Yield a warning for each `no X` on the left that is repeated or has no effect."""
    for _, cell in places(rule.left):
        absent = [name for modifier, name in cell if modifier == "no"]
        kept = {name for modifier, name in needed(cell, names) if modifier == "no"}
        others = ", ".join(name for modifier, name in cell if modifier != "no").upper()
        for name in dict.fromkeys(absent):
            if absent.count(name) > 1:
                yield f"`no {name}` occurs twice in a cell"
            elif name not in kept:
                yield f"`no {name}` has no effect: {others} already excludes {name.upper()}"


def _random(rule: Rule, names: Names) -> Iterator[str]:
    """Yield a warning for each suspicious `random X` on the right side.

    `random X` is suspicious if X is not a property. It is also suspicious if a member of X shares
    its layer with another object that the rule adds to the cell.
    """
    for _, cell in places(rule.right):
        placed = [name for modifier, name in cell if modifier not in ("no", "random")]
        for name in (name for modifier, name in cell if modifier == "random"):
            if not names.is_property(name):
                yield f"`random` chooses a member of a property, and {name.upper()} is none"
            for member, other in itertools.product(names.members(name), placed):
                if member != other and _share(member, other, names):
                    yield (
                        f"`random {name}` may draw {member.upper()}, which is on the layer of "
                        f"{other.upper()}; the cell then has both"
                    )


def _share(one: str, other: str, names: Names) -> bool:
    """Return whether the objects of the names `one` and `other` have a layer in common."""
    layers, others = (
        {names.layer_of.get(member) for member in names.members(name)} for name in (one, other)
    )
    return bool(layers & others - {None})


def _others(rule: Rule, names: Names) -> Iterator[str]:
    """Yield warnings about `randomdir` on the left, and about commands for undefined sounds."""
    if any(modifier == "randomdir" for _, cell in places(rule.left) for modifier, _ in cell):
        yield "`randomdir` on the left matches only objects that move up and left at once"
    for command in (command[0] for command in rule.commands):
        if command in SOUNDS and command not in names.sounds:
            yield f"the section SOUNDS has no {command}"
