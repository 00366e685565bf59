"""Language features that a game uses, and the size that it needs, for `jaxenvs games check`."""

from collections.abc import Iterator
from typing import NamedTuple

from .game import Game
from .machine import Packer, Size
from .machine.packing import draws
from .machine.sizes import SIZES
from .tables import Level, Pattern, TableRule


class Report(NamedTuple):
    """Report of `jaxenvs games check` on a game that can be loaded."""

    size: Size  # smallest size of the interpreter for the game and all its levels
    fits: str  # name of the smallest of `SIZES` that holds `size`; "exact" if none does
    features: tuple[str, ...]


def report(game: Game) -> Report:
    """Return the report on a game: the size that it needs, and the features that it uses."""
    packer = Packer(game)
    levels = [packer.level_size(each) for each in game.levels if isinstance(each, Level)]
    least = Size.over(levels)
    able = (name for name, size in SIZES.items() if size.extended(least).holds(least))
    return Report(least, next(able, "exact"), tuple(_features(game)))


def _features(game: Game) -> Iterator[str]:
    """Yield the name of each language feature that a game uses: options first, commands last."""
    main = [rule for group in game.main.rules for rule in group]
    late = [rule for group in game.late.rules for rule in group]
    rules, cells = main + late, list(_cells(main + late))
    options = (
        "run_rules_on_level_start",
        "require_player_movement",
        "noaction",
        "realtime_interval",
    )
    yield from (option for option in options if option in game.prelude)
    used = {
        "late rules": bool(late),
        "several rows": any(len(rule.rows) > 1 for rule in rules),
        "ellipsis": any(None in row for rule in rules for row in rule.rows),
        "two ellipses in a row": any(row.count(None) > 1 for rule in rules for row in rule.rows),
        "groups of rules": any(_is_joined(group) for group in game.main.rules + game.late.rules),
        "loops": bool(game.main.loops or game.late.loops),
        "random groups": any(group[0].random for group in game.main.rules + game.late.rules),
        "random objects": any(cell.replacement and cell.replacement.re for cell in cells),
        "random directions": any(cell.replacement and cell.replacement.rd for cell in cells),
        "rigid": any(rule.rigid for rule in rules),
        "a player of several objects": game.player_is_aggregate,
        "a win condition on several objects": any(w.all_of_x or w.all_of_y for w in game.wins),
        "no win condition": not game.wins,
        "messages": any(isinstance(each, str) for each in game.levels),
    }
    yield from (name for name, is_used in used.items() if is_used)
    commands = {command for rule in rules for command in rule.commands}
    yield from sorted(each for each in commands if not each.startswith("sfx"))


def _cells(rules: list[TableRule]) -> Iterator[Pattern]:
    return (cell for rule in rules for row in rule.rows for cell in row if cell is not None)


def _is_joined(group: tuple[TableRule, ...]) -> bool:
    """Return whether a group has rules of several lines, joined by `+`."""
    return len({rule.line for rule in group}) > 1


def is_random(game: Game) -> bool:
    """Return whether any rule of a game draws random numbers."""
    groups = (*game.main.rules, *game.late.rules)
    return any(group[0].random or any(map(draws, group)) for group in groups)
