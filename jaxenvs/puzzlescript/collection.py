"""Games and levels of a PuzzleScript environment as arrays; one `Size` fixes all arrays' shapes."""

import functools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Int16, Int32, UInt32

from ..core.checks import counted, suggestion
from .game import Game, load
from .machine import Packer, Size, Tables
from .machine.packing import board
from .machine.sizes import MOST, SIZES, WORD, bits
from .tables import BITS, Level
from .text import GameError

SHIPPED = Path(__file__).parent / "games"
ALL = "shipped"  # value of `game` that stands for all shipped games
MEANINGS = {
    "side": "cells on the longer side of a level",
    "objects": "objects",
    "layers": "collision layers",
    "rules": "rules after expansion",
    "rows": "rows in a rule",
    "cells": "cells in a row before its ellipsis",
    "middle": "cells in a row between two ellipses",
    "tail": "cells in a row behind its ellipsis",
    "tests": "conditions on a cell",
    "changes": "effects on a cell",
    "sets": "sets of objects and movements",
    "patterns": "different cells in rules",
    "wins": "win conditions",
}  # field of `Size` -> its name in error messages
# Largest allowed values of fields of `Size`. With larger values, indices and lengths would overflow
# the integer dtypes of `Tables`.
LIMITS = {"rules": MOST, "patterns": MOST, "sets": 16_384, "objects": 4_096, "layers": 127}
LIMITS |= {"cells": 127, "middle": 127, "tail": 127}


class Codes(NamedTuple):
    """Binary code of stored boards: which object of each layer is in each cell.

    Layers that no turn can change are not stored. On every other layer, the objects are numbered
    from 1. Each cell stores the number of its object on the layer in binary, or 0 if it has none.
    If a cell can have several objects of the layer, it instead stores one binary digit for each
    object: 1 if the cell has the object.

    A stored board has one bit plane for each digit: the cells in which the digit is 1. The digits
    of all layers share one numbering from 0.
    """

    # For each digit: mask of the objects that set the digit to 1 in their cells.
    digits: UInt32[np.ndarray, "games digits words"]
    # Known digits in the cells of each object: d + 1 if digit d is 1 there, -(d + 1) if digit d is
    # 0 there. An entry of 0 has no meaning: the digit can be either, or the entry is padding.
    literals: Int16[np.ndarray, "games objects most"]
    fixed: UInt32[np.ndarray, "games words"]  # mask of the objects on layers that no turn changes


class Collection(NamedTuple):
    """All games of an environment, and their levels. All arrays are NumPy's."""

    games: tuple[Game, ...]
    size: Size
    tables: Tables  # tables of all games, stacked along a first axis
    codes: Codes
    boards: UInt32[np.ndarray, "levels objects side words"]  # cells of each object as bit planes
    width: Int32[np.ndarray, " levels"]  # number of columns of each level
    height: Int32[np.ndarray, " levels"]  # number of lines of each level
    game: Int32[np.ndarray, " levels"]  # index of each level's game
    first: Int32[np.ndarray, " games"]  # index of each game's first level
    levels: Int32[np.ndarray, " games"]  # number of levels of each game
    random: tuple[str, ...]  # names of the games whose rules draw random numbers

    def has(self, option: str) -> bool:
        """Return whether any of the games sets `option` in its prelude."""
        return any(option in game.prelude for game in self.games)

    def has_command(self, name: str) -> bool:
        """Return whether any rule of any game has the command `name`."""
        lists = (part.rules for game in self.games for part in (game.main, game.late))
        return any(name in rule.commands for groups in lists for group in groups for rule in group)


def paths(game: str) -> list[Path]:
    """Return the paths of the source files that `game` names.

    `game` is the name of a shipped game, the path of a file, the path of a folder (all its .txt
    files), or `shipped` (all shipped games). Raises `GameError` if there is no file.
    """
    shipped = SHIPPED / f"{game}.txt"
    if shipped.parent == SHIPPED and os.path.exists(shipped):
        return [shipped]
    # Use functions of `os.path`: the methods of `Path` raise an error if a path is too long.
    path = SHIPPED if game == ALL else Path(os.path.expanduser(game))
    exists = bool(game) and os.path.exists(path)  # `Path("")` is the current folder
    if exists and path.is_dir():
        found = sorted(each for each in path.rglob("*.txt") if each.is_file())
        if not found:
            raise GameError(f"game={game!r}: the folder has no .txt file")
        return found
    if not exists:
        names = sorted(each.stem for each in SHIPPED.glob("*.txt"))
        raise GameError(
            f"game={game!r}: no such file or folder; the shipped games are {', '.join(names)}"
            f"{suggestion(game, [ALL, *names])}"
        )
    return [path]


@functools.lru_cache(maxsize=16)
def read(game: str, level: int | None, size: str) -> Collection:
    """Read the games that `game` names (see `paths`), and return them with their levels.

    The result is cached; later changes of the files have no effect. If `level` is a number, only
    this level is read, and `game` must name only one game. Raises `GameError` (a `ValueError`) if a
    file has a mistake, or if a game is too large for the size `size`.
    """
    games = tuple(load(path) for path in paths(game))
    packers = [Packer(each) for each in games]
    levels = [[each for each in one.levels if isinstance(each, Level)] for one in games]
    if level is not None:
        levels = [[_chosen(games, levels, level)]]
    needed = [
        packer.level_size(each)
        for packer, mine in zip(packers, levels, strict=True)
        for each in mine
    ]
    names = [one.name for one, mine in zip(games, levels, strict=True) for _ in mine]
    common = fitting(size, needed, names)
    tables = [packer.tables(common) for packer in packers]
    rows = [(i, each) for i, mine in enumerate(levels) for each in mine]
    count = np.array([len(mine) for mine in levels], np.int32)
    return Collection(
        games=games,
        size=common,
        tables=jax.tree.map(lambda *leaves: np.stack(leaves), *tables),
        codes=_codes(packers, common),
        boards=np.stack([board(each, common) for _, each in rows]),
        width=np.array([each.width for _, each in rows], np.int32),
        height=np.array([each.height for _, each in rows], np.int32),
        game=np.array([i for i, _ in rows], np.int32),
        first=(np.cumsum(count) - count).astype(np.int32),
        levels=count,
        random=tuple(each.game.name for each in packers if each.size.draws),
    )


def _chosen(games: tuple[Game, ...], levels: list[list[Level]], level: int) -> Level:
    """Return level `level` (from 0) of the only game; raise `GameError` if there is none."""
    if len(games) != 1:
        raise GameError(
            f"level={level}: a level can be chosen of one game, not of {len(games)}; "
            "give the name or the file of one game"
        )
    if not 0 <= level < len(levels[0]):
        raise GameError(
            f"{games[0].name}: level={level}, but there are {counted(len(levels[0]), 'level')}, "
            f"numbered from 0"
        )
    return levels[0][level]


def fitting(size: str, needed: Iterable[Size], names: Iterable[str]) -> Size:
    """Return the size that `size` names: "exact", "auto" or a key of `SIZES`.

    "exact" is the smallest size that holds all levels. "auto" is the smallest of `SIZES` that holds
    all levels. A size from `SIZES` is extended by the rare features that the games use, see
    `Size.extended`.

    `needed` has one size per level: the size that the level and its game need. `names` has the name
    of the level's game. Raises a `GameError` if the size is too small; the message names each
    quantity that is too large, and a game that exceeds it.
    """
    needed, names = [*needed], [*names]
    least = Size.over(needed)
    if size == "exact":
        for found, most in _exceeding(LIMITS, needed, names):
            raise GameError(
                f"{found}, and the tables hold at most {most:,}; split it into smaller games"
            )
        return least
    for name in SIZES if size == "auto" else [size]:
        if (one := SIZES[name].extended(least)).holds(least):
            return one
    name = "large" if size == "auto" else size
    largest = SIZES[name].extended(least)
    limits = {field: getattr(largest, field) for field in MEANINGS}
    problems = [f"{found} ({most:,} fit)" for found, most in _exceeding(limits, needed, names)]
    raise GameError(f'size="{name}" is too small: {"; ".join(problems)}; use size="exact"')


def _exceeding(
    limits: Mapping[str, int], needed: Sequence[Size], names: Sequence[str]
) -> Iterator[tuple[str, int]]:
    """Yield (text, limit) for each limit that a game exceeds: ("mygame.txt has 70 rules", 64)."""
    for field, most in limits.items():
        numbers = [getattr(one, field) for one in needed]
        if (number := max(numbers)) > most:
            yield f"{names[numbers.index(number)]} has {number:,} {MEANINGS[field]}", most


def changing_layers(game: Game) -> dict[int, bool]:
    """Return the collision layers whose objects can change in a turn, by a rule or by movement.

    The result is a dict: layer -> whether a cell can have several objects of this layer. This is
    True if a rule adds two objects of the layer to one cell: one by name, and one drawn by
    `random`.
    """
    objects = moves = 0
    several = set[int]()
    for group in (*game.main.rules, *game.late.rules):
        for rule in group:
            for cell in (cell for row in rule.rows for cell in row if cell is not None):
                if new := cell.replacement:
                    objects |= new.oc | new.os | new.re
                    moves |= new.ms | new.rd
                    several |= _layers(game, new.os) & _layers(game, new.re)
    found = _layers(game, objects | game.player) | {each // BITS for each in bits(moves)}
    return {layer: layer in several for layer in sorted(found)}


def _layers(game: Game, objects: int) -> set[int]:
    """Return the collision layers of the objects in the mask `objects`."""
    return {game.layer_of[each] for each in bits(objects & (1 << len(game.objects)) - 1)}


def _codes(packers: list[Packer], size: Size) -> Codes:
    """Build the `Codes` of the games: arrays that define how their boards are stored."""
    plans = [[*_numbered(packer.game)] for packer in packers]
    lengths = [sum(count for _, count in plan) for plan in plans]
    most = max(count for plan in plans for _, count in plan)
    words = -(-size.objects // WORD)
    digits = np.zeros((len(plans), max(lengths), words), np.uint32)
    literals = np.zeros((len(plans), size.objects, most), np.int16)
    fixed = np.zeros((len(plans), words), np.uint32)
    for g, (plan, packer) in enumerate(zip(plans, packers, strict=True)):
        free, digit = set(range(packer.objects)), 0
        for numbers, count in plan:
            free -= set(numbers)
            for each, signs in numbers.items():
                for d, sign in enumerate(signs):
                    literals[g, each, d] = sign * (digit + d + 1)
                    if sign > 0:
                        digits[g, digit + d, each // WORD] |= np.uint32(1 << each % WORD)
            digit += count
        for each in free:
            fixed[g, each // WORD] |= np.uint32(1 << each % WORD)
    return Codes(digits, literals, fixed)


def _numbered(game: Game) -> Iterator[tuple[dict[int, list[int]], int]]:
    """Yield (signs, count) for each layer that turns can change: the binary code of its objects.

    `count` is the number of binary digits with which `Codes` stores the layer. `signs` is a dict:
    id of an object -> a list with one number per digit. The number is 1 if the digit is 1 in the
    object's cells, -1 if the digit is 0 there, and 0 if the digit can be either.
    """
    for layer, several in changing_layers(game).items():
        members = [i for i, each in enumerate(game.layer_of) if each == layer]
        if several:  # one digit for each object, because a cell can have several of them
            count = len(members)
            yield (
                {each: [int(d == i) for d in range(count)] for i, each in enumerate(members)},
                count,
            )
        else:
            count = len(members).bit_length()
            numbers = enumerate(members, 1)
            yield (
                {each: [1 if n >> d & 1 else -1 for d in range(count)] for n, each in numbers},
                count,
            )
