"""Convert the rules of a PuzzleScript game to `Tables`, the arrays that the interpreter reads."""

import functools
from typing import Any

import numpy as np
from jaxtyping import UInt32

from ..game import Game
from ..tables import BITS, MOST_RIGID, Groups, Level, Pattern, TableRule, Win
from ..text import GameError
from .sizes import (
    COMMANDS,
    DIRECTIONS,
    FIRST,
    KINDS,
    OTHER,
    TRUE,
    WORD,
    Size,
    Tables,
    bits,
    usual_window,
)


class Packer:
    """Converts a game's rules to arrays: the method `tables` returns them.

    The arrays refer to patterns (cells of rules) and to sets of bit planes by numbers, which this
    class assigns; see `Tables`.
    """

    def __init__(self, game: Game) -> None:
        self.game = game
        self.objects = len(game.objects)
        self.group_bits = len(game.main.rigid).bit_length()
        self.masks: dict[int, int] = {}  # mask of a set's planes -> index of the set
        self.patterns: dict[Pattern, int] = {Pattern(): 0}
        self.rules: list[TableRule] = []
        # For each group: indices of its first and last rule, index of the first rule of the loop
        # that ends with the group (or -1), whether the group is random, and the number of the
        # rigid group (0: not rigid).
        self.groups: list[tuple[int, int, int, bool, int]] = []
        self.late = 0
        self._check()
        for groups in (game.main, game.late):
            self._add(groups)
            self.late = self.late if groups is game.late else len(self.rules)
        self.player = self._pattern(game.player, game.player_is_aggregate)
        self.wins = [self._win(each) for each in game.wins]
        self.literals = {each: self._literals(each) for each in self.patterns}

    def _check(self) -> None:
        """Raise `GameError` for more than two ellipses in a row, or too many rigid groups.

        PuzzleScript's engine tolerates both errors.
        """
        for group in (*self.game.main.rules, *self.game.late.rules):
            for rule in group:
                if any(row.count(None) > 2 for row in rule.rows):
                    place = f"{self.game.name}:{rule.line}"
                    raise GameError(f"{place}: a row has more than two ellipses; use at most two")
        if (count := len(self.game.main.rigid)) > MOST_RIGID:
            raise GameError(f"{self.game.name}: {count} groups are rigid; use at most {MOST_RIGID}")

    def _add(self, groups: Groups) -> None:
        """Append the rules of all groups to `rules`, and an entry for each group to `groups`."""
        firsts = []
        loops = dict(groups.loops)
        rigid = groups.rigid if groups is self.game.main else ()
        for number, group in enumerate(groups.rules):
            firsts.append(len(self.rules))
            which = rigid.index(number) + 1 if number in rigid else 0
            group = [_numbered(rule, which) for rule in group]
            self.rules += group
            loop = firsts[loops[number]] if number in loops else -1
            self.groups.append((firsts[-1], len(self.rules) - 1, loop, group[0].random, which))
            for rule in group:
                for row in rule.rows:
                    for cell in row:
                        if cell is not None:
                            self.patterns.setdefault(cell, len(self.patterns))

    def _pattern(self, mask: int, is_aggregate: bool) -> int:
        """Return the index of the pattern that matches cells with objects of `mask`.

        If `is_aggregate`, a cell needs all of these objects; otherwise it needs at least one.
        """
        mask &= (1 << self.objects) - 1
        made = Pattern(op=mask) if is_aggregate else Pattern(any=(mask,))
        return self.patterns.setdefault(made, len(self.patterns))

    def _win(self, win: Win) -> tuple[int, int, int]:
        x, y = self._pattern(win.x, win.all_of_x), self._pattern(win.y, win.all_of_y)
        return KINDS.index(win.kind), x, y

    def planes(self, objects: int, movements: int) -> int:
        """Combine a mask of objects and a mask of movements into a mask of bit planes."""
        return objects | movements << self.objects

    def _records(self, layer: int) -> int:
        """Return the mask of the bit planes that store a layer's records (see `Rigid.records`)."""
        first = self.objects + BITS * self.game.layers + self.group_bits * layer
        return (1 << self.group_bits) - 1 << first

    def _set(self, planes: int) -> tuple[int, int] | None:
        """Return a reference to the union of the planes in a mask.

        The reference is (0, index of the plane) for one plane, (1, index of the set) for several
        planes, and None for an empty mask. A new set is added to `masks`.
        """
        if not planes:
            return None
        if planes & (planes - 1) == 0:
            return 0, planes.bit_length() - 1
        return 1, self.masks.setdefault(planes, len(self.masks))

    def _literals(self, pattern: Pattern) -> tuple[list, list]:
        """Return the literals of a pattern for `Tables.test` and for `Tables.change`.

        A literal is a pair (reference, sign). The reference names a union of planes, see `_set`.
        The literal holds in the cells of the union if the sign is 1, and in all other cells if it
        is -1. The literal None holds in every cell.
        """
        present = [(0, plane) for plane in bits(self.planes(pattern.op, pattern.mp))]
        test = [(each, 1) for each in present]
        test += [(self._set(mask), 1) for mask in pattern.any]
        test += [(self._set(self.planes(pattern.om, pattern.mm)), -1)]
        change: list = []
        new = pattern.replacement
        if new is not None:
            moved = (new.mc | new.ml) & ~new.ms
            change.append((self._set(self.planes(new.oc & ~new.os, moved)), 1))
            missing = bits(self.planes(new.os & ~pattern.op, new.ms & ~pattern.mp))
            change += [((0, plane), -1) for plane in missing]
            change += [(self._set(self._records(layer)), -1) for layer in recorded(pattern)]
            if new.re or new.rd:
                change = [None]
        return [each for each in test if each[0]], [each for each in change if not each or each[0]]

    @functools.cached_property
    def size(self) -> Size:
        """The smallest size that holds the game's rules. Levels are left out, so `side` is 1."""
        rows = [row for rule in self.rules for row in rule.rows]
        parts = [[*map(len, split(row))] for row in rows]
        cells, middle, tail = (max(each) for each in zip(*parts, [1, 0, 0], strict=True))
        return Size(
            side=1,
            objects=self.objects,
            layers=self.game.layers,
            rules=max(len(self.rules), 1),
            rows=max([len(rule.rows) for rule in self.rules], default=1),
            cells=cells,
            tail=tail,
            tests=max([len(test) for test, _ in self.literals.values()] + [1]),
            changes=max([len(change) for _, change in self.literals.values()] + [1]),
            sets=max(len(self.masks), 1),
            patterns=len(self.patterns),
            wins=max(len(self.wins), 1),
            draws=any(map(draws, self.rules)) or any(group[3] for group in self.groups),
            rigid=len(self.game.main.rigid),
            middle=middle,
            window=usual_window(max(len(self.rules), 1)),
        )

    def level_size(self, level: Level) -> Size:
        """Return the smallest size that holds the game's rules and one of its levels."""
        return self.size._replace(side=max(level.width, level.height))

    def tables(self, size: Size) -> Tables:
        """Return the game's rules as arrays of the shapes of `size`, which must hold the game."""
        return _Filled(self, size).tables()


def board(level: Level, size: Size) -> UInt32[np.ndarray, "objects side words"]:
    """Return, for each object, the bit plane of its cells at the start of a level."""
    planes = np.zeros((size.objects, size.side, size.words), np.uint32)
    for place, cell in enumerate(level.cells):
        x, y = divmod(place, level.height)
        for each in bits(cell):
            planes[each, y, x // WORD] |= np.uint32(1 << x % WORD)
    return planes


def draws(rule: TableRule) -> bool:
    """Return whether applying a rule draws random numbers."""
    cells = [cell for row in rule.rows for cell in row if cell is not None]
    return any(cell.replacement and (cell.replacement.re or cell.replacement.rd) for cell in cells)


def split(row: tuple[Pattern | None, ...]) -> tuple[tuple[Pattern, ...], ...]:
    """Split a row of a rule at its ellipses into the cells before, between and after them.

    With one ellipsis, the part between is empty. Without an ellipsis, the first part has all cells.
    """
    parts: list[list[Pattern]] = [[]]
    for cell in row:
        if cell is None:
            parts.append([])
        else:
            parts[-1].append(cell)
    head, *middle, tail = [*parts, []] if len(parts) == 1 else parts
    return tuple(head), tuple(middle[0]) if middle else (), tuple(tail)


def recorded(pattern: Pattern) -> list[int]:
    """Return the collision layers for which the replacement of `pattern` records a rigid group.

    A pattern is a cell of a rule. The replacement of a rigid rule records the number of the rule's
    rigid group on each layer whose movements it replaces (see `rigid.py`). For a rule that is not
    rigid, the result is empty.
    """
    new = pattern.replacement
    return [each // BITS for each in bits(new.ml)[::BITS]] if new and pattern.rigid else []


def _numbered(rule: TableRule, group: int) -> TableRule:
    """Store `group`, the number of the rigid group, in the patterns of a rigid rule."""
    if not rule.rigid or not group:
        return rule
    rows = (tuple(cell and cell._replace(rigid=group) for cell in row) for row in rule.rows)
    return rule._replace(rows=tuple(rows))


class _Filled:
    """Builds the `Tables` of a game with the array shapes of `size`.

    The size may be larger than the game needs; unused entries are then padding.
    """

    def __init__(self, packer: Packer, size: Size) -> None:
        self.packer, self.size = packer, size

    def _plane(self, plane: int) -> int:
        """Convert the index of a bit plane of the game to its index in tables of this size.

        The indices differ if the size has more objects or layers than the game.
        """
        packer, size = self.packer, self.size
        if plane < packer.objects:
            return plane
        plane -= packer.objects
        records = plane - BITS * packer.game.layers
        if records < 0:
            return size.objects + plane
        layer, bit = divmod(records, packer.group_bits)
        return size.planes + size.group_bits * layer + bit

    def _words(self, mask: int, count: int) -> np.ndarray:
        """Convert a mask of the game's bit planes to uint32 words for tables of this size.

        The words have one bit for each of `count` planes.
        """
        found = 0
        for plane in bits(mask):
            found |= 1 << self._plane(plane)
        words = [found >> WORD * i & 0xFFFFFFFF for i in range(-(-count // WORD))]
        return np.array(words, np.uint32)

    def _literal(self, literal: tuple | None) -> int:
        if literal is None:
            return TRUE
        (kind, number), sign = literal
        place = self._plane(number) if kind == 0 else self.size.known + number
        return sign * (FIRST + place)

    def _padded(self, rows: list[list], width: int, fill: int, length: int) -> np.ndarray:
        made = np.full((length, width), fill, np.int16)
        for i, row in enumerate(rows):
            made[i, : len(row)] = row
        return made

    def tables(self) -> Tables:
        """Return the tables of the game as arrays of this size."""
        packer, size = self.packer, self.size
        game = packer.game
        layer = np.zeros(size.objects, np.int8)
        layer[: packer.objects] = game.layer_of
        movers = np.zeros(size.objects, np.bool_)
        movers[bits(game.player)] = True
        sets = np.zeros((size.sets, -(-size.known // WORD)), np.uint32)
        for mask, number in packer.masks.items():
            sets[number] = self._words(mask, size.known)
        wins = np.zeros((3, size.wins), np.int16)
        wins[0] = -1
        for i, win in enumerate(packer.wins):
            wins[:, i] = win
        return Tables(
            sets=sets,
            **self._patterns(),
            **self._rules(),
            **self._groups(),
            late=np.array(packer.late, np.int32),
            end=np.array(len(packer.rules), np.int32),
            layer=layer,
            win_kind=wins[0].astype(np.int8),
            win_x=wins[1],
            win_y=wins[2],
            player=np.array(packer.player, np.int16),
            movers=movers,
            must_move=np.array("require_player_movement" in game.prelude),
            at_start=np.array("run_rules_on_level_start" in game.prelude),
            **self._rigid(),
        )

    def _patterns(self) -> dict[str, Any]:
        packer, size = self.packer, self.size
        literals = [
            [*map(self._literal, part)] for each in packer.literals.values() for part in each
        ]
        words = -(-size.planes // WORD)
        clear, new = (np.zeros((size.patterns, words), np.uint32) for _ in range(2))
        chosen = np.zeros((size.patterns, -(-size.objects // WORD)), np.uint32)
        draw = np.zeros((size.patterns, -(-(1 + size.layers) // WORD)), np.uint32)
        for pattern, i in packer.patterns.items():
            if (r := pattern.replacement) is None:
                continue
            clear[i] = self._words(packer.planes(r.oc, r.mc | r.ml), size.planes)
            new[i] = self._words(packer.planes(r.os, r.ms), size.planes)
            chosen[i] = self._words(r.re, size.objects)
            for place in [0] * bool(r.re) + [1 + each // BITS for each in bits(r.rd)[::BITS]]:
                draw[i, place // WORD] |= np.uint32(1 << place % WORD)
        tests = self._padded(literals[::2], size.tests, TRUE, size.patterns)
        changes = self._padded(literals[1::2], size.changes, -TRUE, size.patterns)
        return {
            "literals": np.concatenate([tests, changes], 1),
            "clear": clear,
            "set": new,
            "chosen": chosen,
            "draw": draw,
        }

    def _rigid(self) -> dict[str, Any]:
        packer, size = self.packer, self.size
        if not size.rigid:
            return {"rigid": None, "rigid_groups": None, "recorded": None}
        rigid = np.zeros(size.rules, np.int8)
        for start, end, *_, which in packer.groups:
            rigid[start : end + 1] = which
        layers = np.zeros((size.patterns, size.layers), np.int8)
        for pattern, i in packer.patterns.items():
            layers[i, recorded(pattern)] = pattern.rigid
        count = np.array(len(packer.game.main.rigid), np.int8)
        return {"rigid": rigid, "rigid_groups": count, "recorded": layers}

    def _rules(self) -> dict[str, Any]:
        packer, size = self.packer, self.size
        n, r = size.rules, size.rows
        cells = np.zeros((n, r, size.width), np.int16)
        starts = (0, size.cells, size.cells + size.middle)  # of the parts of a row in `cells`
        lengths = np.zeros((3, n, r), np.int8)
        direction, commands = np.zeros(n, np.int8), np.zeros(n, np.uint8)
        simple, drawing = np.zeros((2, n), np.bool_)
        for i, rule in enumerate(packer.rules):
            direction[i] = DIRECTIONS.index(rule.direction)
            drawing[i] = draws(rule)
            simple[i] = len(rule.rows) == 1 and None not in rule.rows[0] and not drawing[i]
            for command in rule.commands:
                commands[i] |= COMMANDS.get(command, OTHER)
            for j, row in enumerate(rule.rows):
                for part, start, count in zip(split(row), starts, lengths, strict=True):
                    numbers = [packer.patterns[cell] for cell in part]
                    cells[i, j, start : start + len(part)] = numbers
                    count[i, j] = len(part)
        return {
            "cells": cells,
            "length": lengths[0],
            "middle_length": lengths[1] if size.middle else None,
            "tail_length": lengths[2],
            "direction": direction,
            "simple": simple,
            "draws": drawing,
            "commands": commands,
        }

    def _groups(self) -> dict[str, np.ndarray]:
        n = self.size.rules
        first, final, loop = np.zeros(n, np.int16), np.zeros(n, np.int16), np.full(n, -1, np.int16)
        last, random = np.zeros((2, n), np.bool_)
        for start, end, back, is_random, _ in self.packer.groups:
            span = slice(start, end + 1)
            first[span], final[span], random[span] = start, end, is_random
            last[end], loop[end] = True, back
        return {"first": first, "final": final, "last": last, "loop": loop, "random": random}
