"""Analysis of a task that ignores positions; it proves tasks unwinnable and finds dead ends.

In the relaxed task, the state is only an inventory: the objects on the map and in the pocket,
without their positions. The agent can approach an object from any side, carry it anywhere and put
it next to any other object. If the goal cannot be reached in the relaxed task, it cannot be reached
on any board. A goal that can be reached in the relaxed task may still be impossible on a board.
"""

import functools
from collections import deque
from collections.abc import Iterator, Mapping
from typing import NamedTuple

import jax
import numpy as np

from . import tiles
from .language import single
from .rulesets import BESIDE_AGENT, BESIDE_TILE, HELD, ON_PUT, Ruleset
from .tiles import Kind

MOST_INVENTORIES = 20_000
_SIDES = range(4)
# Codes for the place of an object: not next to the agent, and in the agent's pocket. Codes 0 to 3
# are above, right of, below and left of the agent.
_AWAY, _IN_HAND = -1, -2
_THINGS = frozenset(tiles.THINGS)
_ITEMS = _THINGS | {Kind.GOAL}  # kinds of objects that are on a map only if the task places them

# Sorted tile bytes (kind and colour) of all objects on the map and in the agent's pocket.
Inventory = tuple[int, ...]


class Analysis(NamedTuple):
    """Result of `analyse`: facts about a task that hold wherever its objects are."""

    # False: proven unwinnable. True: winnable in the relaxed task, but perhaps not on a map. None:
    # unknown.
    winnable: bool | None
    # Shortest sequence of changes to objects after which the task can no longer be won.
    # Each change is a sentence; () if there is no such sequence.
    dead_end: tuple[str, ...]
    # Whether the search visited all inventories (sets of objects) that can be reached.
    complete: bool


class _Fact(NamedTuple):
    """The four bytes of a packed rule or goal, with tests of its condition."""

    a: int
    b: int
    made: int
    flags: int

    def beside_agent(self, tile: int, side: int, put: bool) -> bool:
        return bool(
            self.flags & BESIDE_AGENT
            and self.flags >> side & 1
            and tile == self.a
            and (not put or self.flags & ON_PUT)
        )

    def held(self, tile: int) -> bool:
        return bool(self.flags & HELD) and tile == self.a

    def pair(self, target: int, beside: int, side: int) -> bool:
        if not self.flags & BESIDE_TILE:
            return False
        there = self.flags >> side & 1 and (target, beside) == (self.a, self.b)
        back = self.flags >> (side + 2) % 4 & 1 and (target, beside) == (self.b, self.a)
        return bool(there or back)


class _Fate(NamedTuple):
    """Possible outcomes for an object if the agent moves only this object."""

    tiles: frozenset[int]  # tile bytes that the object can turn into, including its own
    # Tile bytes that the object can have when action `PUT` puts it in front of the agent.
    targets: frozenset[int]
    wins: bool  # whether moving the object alone can reach the goal


def analyse(
    ruleset: Ruleset,
    beside: frozenset[int] = frozenset(),
    walled: Mapping[int, frozenset[int]] | None = None,
) -> Analysis:
    """Search the inventories of a task for a path to the goal and for dead ends.

    beside: tile bytes of the objects next to the agent at the start. To act on any other object,
        the agent first has to step next to the object, which can trigger rules.
    walled: dict from the byte of a goal tile to the sides (0 up, 1 right, 2 down, 3 left) on which
        every tile with this byte has a wall. The agent cannot stand on such a side of the tile, and
        cannot carry goal tiles.

    The field `winnable` of the result is None (unknown) if the goal or a rule names a floor, a
    wall, a door or a position. Raises `ValueError` for a batch of rulesets.
    """
    single(ruleset, "analyse")
    packed = jax.tree.map(np.asarray, ruleset).packed()
    goal, rules = _fact(int(packed.goal)), [_fact(int(word)) for word in packed.rules if word]
    if not goal.flags:
        return Analysis(False, (), True)
    named = [tile for fact in (goal, *rules) for tile in (fact.a, fact.b) if tile]
    if not goal.flags & (BESIDE_AGENT | BESIDE_TILE | HELD) or any(
        tile & 15 not in _ITEMS for tile in named
    ):
        return Analysis(None, (), False)
    start = tuple(sorted(int(tile) for tile in packed.init_tiles if tile))
    made = {rule.made for rule in rules}
    fixed = {tile: sides for tile, sides in (walled or {}).items() if tile not in made}
    return _Task(goal, rules, beside, fixed).analysis(start)


def _fact(word: int) -> _Fact:
    return _Fact(word & 255, word >> 8 & 255, word >> 16 & 255, word >> 24)


class _Task:
    """A relaxed task, whose state is an inventory: the objects that exist, without positions.

    The methods compute the successors of an inventory, and the inventories from which the goal can
    be reached.
    """

    def __init__(
        self,
        goal: _Fact,
        rules: list[_Fact],
        beside: frozenset[int],
        walled: Mapping[int, frozenset[int]],
    ) -> None:
        self.goal, self.rules, self.beside, self.walled = goal, rules, beside, walled
        self.fate = functools.cache(self._fate)
        self.reactions = functools.cache(self._reactions)

    def analysis(self, start: Inventory) -> Analysis:
        """Visit all inventories breadth-first, then find those from which winning is possible."""
        came: dict[Inventory, tuple[Inventory, str]] = {start: (start, "")}
        before: dict[Inventory, list[Inventory]] = {start: []}
        todo, winning = deque([start]), []
        while todo and len(came) <= MOST_INVENTORIES:
            inventory = todo.popleft()
            if self._wins(inventory):
                winning.append(inventory)
            for after, words in self._changes(inventory):
                before.setdefault(after, []).append(inventory)
                if after not in came:
                    came[after] = inventory, words
                    todo.append(after)
        if todo:
            return Analysis(True if winning else None, (), False)
        live = set(winning)
        while winning:
            new = [x for x in before[winning.pop()] if x not in live]
            live.update(new)
            winning += new
        dead = next((x for x in came if x not in live), None)
        if start not in live or dead is None:
            return Analysis(start in live, (), True)
        return Analysis(True, tuple(_way(came, dead)), True)

    def _wins(self, inventory: Inventory) -> bool:
        if any(self.fate(tile).wins for tile in inventory):
            return True
        return any(
            wins
            for first, second in _pairs(inventory)
            for *_, wins in self.reactions(first, second)
        )

    def _changes(self, inventory: Inventory) -> Iterator[tuple[Inventory, str]]:
        """Yield each inventory that can follow `inventory`, and a sentence about what changes."""
        for tile in set(inventory):
            for other in self.fate(tile).tiles - {tile}:
                yield _changed(inventory, (tile,), (other,)), f"{_a(tile)} becomes {_a(other)}"
        for first, second in _pairs(inventory):
            for target, made, _ in self.reactions(first, second):
                if target != tiles.FLOOR:
                    continue
                words = f"{_a(first)} and {_a(second)} become {_a(made)}"
                same = inventory.count(second) - (first == second)
                for count in range(1, min(same, 4) + 1):
                    gone, new = (first, *[second] * count), (made,) * count
                    yield _changed(inventory, gone, new), words

    def _fate(self, tile: int) -> _Fate:
        """Find the tiles that an object can become when the agent moves only this object."""
        seen = {(tile, _AWAY)}
        if tile in self.beside:
            seen |= {(tile, side) for side in _SIDES}
        todo, targets, wins = list(seen), set(), False
        while todo:
            now, where = todo.pop()
            if where != _AWAY:
                targets.add(now)
            for after, there, won in self._moves(now, where):
                wins |= won
                if (after, there) not in seen:
                    seen.add((after, there))
                    todo.append((after, there))
        return _Fate(frozenset(t for t, _ in seen), frozenset(targets), wins)

    def _moves(self, tile: int, where: int) -> Iterator[tuple[int, int, bool]]:
        """Yield the possible outcomes of one action for an object.

        tile, where: the object's tile byte and place (such as `_IN_HAND`) before the action.

        An outcome is (tile byte, place, whether the goal is reached) after the action.
        """
        if where == _IN_HAND:
            yield self._picked(tile)
            yield from (self._beside(tile, side, True) for side in _SIDES)
            return
        sides = self._open(tile) if where == _AWAY else (where,)
        yield from (self._beside(tile, side, False) for side in sides)
        if where != _AWAY:
            yield tile, _AWAY, False
            yield self._beside(tile, where, True)
            if tile & 15 in _THINGS:
                yield self._picked(tile)

    def _open(self, tile: int) -> list[int]:
        """Return the sides of the agent on which a tile with this byte can be.

        A wall at the tile excludes a side: a tile with a wall above it is never below the agent.
        """
        walls = self.walled.get(tile, frozenset())
        return [side for side in _SIDES if (side + 2) % 4 not in walls]

    def _beside(self, tile: int, side: int, put: bool) -> tuple[int, int, bool]:
        for rule in self.rules:
            if rule.beside_agent(tile, side, put):
                tile = rule.made
        return tile, side, self.goal.beside_agent(tile, side, put)

    def _picked(self, tile: int) -> tuple[int, int, bool]:
        for rule in self.rules:
            if rule.held(tile):
                tile = rule.made
        return tile, _IN_HAND, self.goal.held(tile)

    def _reactions(self, first: int, second: int) -> frozenset[tuple[int, int, bool]]:
        """Return the outcomes when action `PUT` puts object `first` next to object `second`.

        An outcome is (tile of `first`, tile of `second`, whether the goal is reached) after the
        action. An outcome is included only if a rule for two objects fires or the goal is reached.
        """
        found = set()
        for target in self.fate(first).targets:
            for other in self.fate(second).tiles:
                sides = set(self._open(other)) - self.walled.get(target, frozenset())
                for facing in _SIDES:
                    found |= {self._put(target, other, facing, side) for side in sides}
        return frozenset(x for x in found if x[0] == tiles.FLOOR or x[2])

    def _put(self, target: int, other: int, facing: int, side: int) -> tuple[int, int, bool]:
        for rule in self.rules:
            if rule.pair(target, other, side):
                target, other = tiles.FLOOR, rule.made
            elif rule.beside_agent(target, facing, True):
                target = rule.made
        return target, other, self.goal.pair(target, other, side)


def _pairs(inventory: Inventory) -> Iterator[tuple[int, int]]:
    """Yield the ordered pairs (a, b) of tile bytes of two objects in the inventory.

    A pair (a, a) requires that the inventory has two objects with byte a.
    """
    distinct = sorted(set(inventory))
    for first in distinct:
        for second in distinct:
            if first != second or inventory.count(first) > 1:
                yield first, second


def _changed(inventory: Inventory, gone: tuple[int, ...], new: tuple[int, ...]) -> Inventory:
    left = list(inventory)
    for tile in gone:
        left.remove(tile)
    return tuple(sorted([*left, *(tile for tile in new if tile != tiles.FLOOR)]))


def _way(came: dict[Inventory, tuple[Inventory, str]], end: Inventory) -> list[str]:
    words = []
    while came[end][0] != end:
        end, change = came[end]
        words.append(change)
    return words[::-1]


def _a(tile: int) -> str:
    name = tiles.name(tile)
    return name if tile == tiles.FLOOR else f"a {name}"
