"""Parser and formatter for tasks as text. Each line is a goal, a rule or objects on the map:

goal: hold(green pyramid)
near(red ball, blue square) -> green pyramid
map: red ball, blue square
"""

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..core.checks import closest
from . import tiles
from .rulesets import GOALS, RULES, Form, Goal, Rule, Ruleset
from .tiles import Colour, Kind

AGENT = "agent"
SIDES = ("above", "right_of", "below", "left_of")
# For each entry of `SIDES`, the end of the names of goals and rules, such as UP in `AGENT_UP`.
_SIDE_NAMES = ("UP", "RIGHT", "DOWN", "LEFT")
# Syntax of each test (the condition of a goal or rule), for error messages.
# Rules cannot have the last two tests, `on` and `at`.
TESTS = {
    "hold": "hold(a)",
    "near": "near(a, b) or near(a, agent)",
    **{side: f"{side}(a, b) or {side}(a, agent)" for side in SIDES},
    "on": "on(a)",
    "at": "at(a, row, column) or at(agent, row, column)",
}
STATEMENTS = "`goal: hold(red ball)`, `near(red ball, blue key) -> floor` or `map: red ball, wall`"
LARGEST = 255  # largest row or column that fits a byte
_CALL = re.compile(r"([a-z_]*)\s*\((.*)\)")


class _Test(NamedTuple):
    """Condition of a goal or rule: the name of its kind, and the bytes of its arguments.

    A tile's bytes are its kind and its colour; a cell's bytes are its row and its column.
    """

    kind: str
    numbers: tuple[int, ...]


def parse_ruleset(text: str) -> Ruleset:
    """Parse a ruleset. Rules apply in the order of their lines, and `#` begins a comment.

    goal: TEST      condition that wins; `none` for no goal
    TEST -> TILE    a rule: the tested objects become TILE; `floor` makes them vanish, but with
                    `hold`, the agent then carries floor
    map: TILE, ...  objects on the map at the start; any number of such lines

    Tests of goals and rules: `hold(a)`, `near(a, b)`, `near(a, agent)`; `above(a, b)` if a is above
    b, and likewise `right_of`, `below` and `left_of`, where b may be `agent`. Directions are those
    of the grid. Tests of goals only: `on(a)` if the agent stands on a, `at(a, row, column)` and
    `at(agent, row, column)`. Tiles are written as `red ball`, `green goal tile`, `floor`.

    Raises `ValueError` for a line that cannot be parsed; the message has the line number and
    explains the syntax.
    """
    goals, rules, laid = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        statement = line.partition("#")[0].strip()
        fail = functools.partial(_fail, number, statement)
        if statement.startswith("goal:"):
            goals.append(_goal(statement[5:].strip(), fail))
            if len(goals) > 1:
                fail("there is a goal already; a task has one")
        elif statement.startswith("map:"):
            laid += [_pair(_tile(name, fail)) for name in statement[4:].split(",")]
        elif "->" in statement:
            rules.append(_rule(statement, fail))
        elif statement:
            fail(f"this is neither a goal, a rule nor a map; write {STATEMENTS}")
    if not goals:
        raise ValueError("parse_ruleset: there is no goal; add a line such as `goal: on(red ball)`")
    return Ruleset.of(goals[0], rules, laid)


def format_ruleset(ruleset: Ruleset) -> str:
    """Return a ruleset as text for `parse_ruleset`; empty rules and tiles are left out.

    Raises `ValueError` for a batch of rulesets, and for bytes that encode no goal, rule or tile.
    """
    goal, rules, laid = single(ruleset, "format_ruleset")
    lines = [f"goal: {_call(_read(goal, GOALS, Goal)) if goal[0] else 'none'}"]
    for rule in rules:
        test = _read(rule, RULES, Rule)
        lines.append(f"{_call(test)} -> {tile_name(rule[1 + len(test.numbers) :][:2])}")
    lines += [f"map: {', '.join(map(tile_name, laid))}"] if laid else []
    return "\n".join(lines) + "\n"


def single(ruleset: Ruleset, where: str) -> tuple[list[int], list[list[int]], list[list[int]]]:
    """Return a ruleset's goal, rules and initial tiles as lists, without empty rules and tiles.

    Raises `ValueError` for a batch of rulesets; the message names `where`, the calling function.
    """
    arrays = [np.asarray(x) for x in (ruleset.goal, ruleset.rules, ruleset.init_tiles)]
    if arrays[0].ndim != 1:
        shape = arrays[0].shape[:-1]
        raise ValueError(f"{where}: needs one ruleset, got a batch of shape {shape}; index it")
    goal, rules, laid = (array.tolist() for array in arrays)
    return goal, [rule for rule in rules if rule[0]], [pair for pair in laid if pair[0]]


def kind_of(numbers: Sequence[int], kinds: Any) -> Any:
    """Return the kind of a goal or rule, a member of `kinds`, from its first byte.

    `kinds` is `Goal` or `Rule`. Raises `ValueError` for an unknown kind.
    """
    if numbers[0] not in list(kinds):
        what = kinds.__name__.lower()
        raise ValueError(f"{what} kind {numbers[0]} is not one of 0 to {max(kinds)}")
    return kinds(numbers[0])


def tile_name(pair: Sequence[int]) -> str:
    """Return the name of a pair (kind, colour); raise `ValueError` if it encodes no tile."""
    kind, colour = pair
    if not (0 < kind <= max(Kind) and 0 < colour <= max(Colour)):
        raise ValueError(f"({kind}, {colour}) is not a tile: kinds are 1 to 12, colours 1 to 11")
    return tiles.name(kind | colour << 4)


def _read(numbers: Sequence[int], forms: tuple[Form, ...], kinds: Any) -> _Test:
    kind = kind_of(numbers, kinds)
    form = forms[kind]
    count = 2 * form.tiles + 2 * form.place
    return _Test(kind.name, tuple(numbers[1 : 1 + count]))


def _call(test: _Test) -> str:
    """Return a test as text that `parse_ruleset` can read, such as `near(red ball, agent)`."""
    kind, numbers = test
    if kind in ("TILE_AT", "AGENT_AT"):
        thing = AGENT if kind == "AGENT_AT" else tile_name(numbers[:2])
        return f"at({thing}, {numbers[-2]}, {numbers[-1]})"
    if kind in ("HOLD", "ON"):
        return f"{kind.lower()}({tile_name(numbers)})"
    named = [tile_name(numbers[at : at + 2]) for at in range(0, len(numbers), 2)]
    relation = kind.removeprefix("AGENT_")
    if relation == "NEAR":
        return f"near({named[0]}, {named[-1] if len(named) == 2 else AGENT})"
    side = SIDES[_SIDE_NAMES.index(relation)]  # name of the test in texts, such as `above`
    return f"{side}({named[-1]}, {named[0] if len(named) == 2 else AGENT})"


def _goal(text: str, fail: Callable[[str], NoReturn]) -> tuple[int, ...]:
    if text == "none":
        return (int(Goal.NONE),)
    test = _test(text, fail)
    return (int(Goal[test.kind]), *test.numbers)


def _rule(statement: str, fail: Callable[[str], NoReturn]) -> tuple[int, ...]:
    asked, _, made = statement.partition("->")
    test = _test(asked.strip(), fail)
    if test.kind not in Rule.__members__:
        fail("`on` and `at` are for goals; a rule asks for hold, near or a side, such as above")
    return (int(Rule[test.kind]), *test.numbers, *_pair(_tile(made, fail)))


def _test(text: str, fail: Callable[[str], NoReturn]) -> _Test:
    """Parse a test such as `near(red ball, agent)`; if the text is wrong, call `fail` to raise."""
    found = _CALL.fullmatch(text)
    if found is None:
        fail(f"`{text}` is not a test; write {', '.join(TESTS.values())}")
    name, arguments = found[1], [part.strip() for part in found[2].split(",")]
    if name not in TESTS:
        fail(f"`{name}` is not a test; the tests are {', '.join(TESTS)}{_near(name, TESTS)}")
    if len(arguments) != TESTS[name].partition(")")[0].count(",") + 1:
        fail(f"{name} is written {TESTS[name]}")
    if name == "at":
        return _place(arguments, fail)
    if name in ("hold", "on"):
        return _Test(name.upper(), _pair(_tile(arguments[0], fail)))
    if name == "near":
        # The text may name `agent` first; move it last.
        arguments.sort(key=lambda argument: argument == AGENT)
    first, second = arguments
    a = _pair(_tile(first, fail))
    relation = "NEAR" if name == "near" else _SIDE_NAMES[SIDES.index(name)]
    if second == AGENT:
        return _Test(f"AGENT_{relation}", a)
    b = _pair(_tile(second, fail))
    return _Test(relation, a + b if name == "near" else b + a)


def _place(arguments: list[str], fail: Callable[[str], NoReturn]) -> _Test:
    thing, *place = arguments
    for number in place:
        if not (number.isascii() and number.isdigit() and int(number) <= LARGEST):
            fail(f"`{number}` is not a row or column; these are numbers from 0 to {LARGEST}")
    at = tuple(map(int, place))
    if thing == AGENT:
        return _Test("AGENT_AT", at)
    return _Test("TILE_AT", _pair(_tile(thing, fail)) + at)


@functools.cache
def _codes() -> dict[str, int]:
    """Return a dict from the names of tiles to their tile bytes."""
    codes = (kind | colour << 4 for kind in tuple(Kind)[1:] for colour in tuple(Colour)[1:])
    return {tiles.name(code): code for code in codes}


def _tile(name: str, fail: Callable[[str], NoReturn]) -> int:
    name = " ".join(name.split())
    if name not in _codes():
        colours = ", ".join(colour.name.lower() for colour in tuple(Colour)[1:])
        fail(
            f"`{name}` is not a tile; a tile is floor, wall, or a colour ({colours}) and a ball, "
            "square, pyramid, key, hex, star or goal tile, or such as `closed red door`"
            f"{_near(name, _codes())}"
        )
    return _codes()[name]


def _pair(code: int) -> tuple[int, int]:
    return code & 15, code >> 4


def _near(name: str, allowed: Any) -> str:
    found = closest(name, allowed, 1)
    return f"; did you mean `{found[0]}`?" if found else ""


def _fail(number: int, statement: str, message: str) -> NoReturn:
    raise ValueError(f"parse_ruleset: line {number}, `{statement}`: {message}")
