"""Helpers to play PuzzleScript games, alone or in a batch, with the interpreter of jaxenvs.

`masks` converts a board to the format of the original engine.
"""

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from engine import DRAWS

from jaxenvs.puzzlescript import Game
from jaxenvs.puzzlescript.machine import TICK, Board, Machine, Packer, Size, Tables
from jaxenvs.puzzlescript.machine.packing import board
from jaxenvs.puzzlescript.tables import Level

ACTIONS = {"0": 0, "1": 3, "2": 2, "3": 1, "4": 4, "t": TICK}  # engine's input -> action
WORD = 32
# Compiler options that turn on optimisation. Other tests turn it off, but plays run long enough to
# gain from it.
OPTIONS = {"xla_backend_optimization_level": 2, "xla_llvm_disable_expensive_passes": False}


def shared(sizes: Sequence[Size], most: int, factor: float = 8) -> list[Size]:
    """Divide sizes into groups of at most `most`; return, for each size, its group's common size.

    The common size is at least as large as every size of the group, so one compiled program can
    play all games of the group. A micro-step of this program takes, by an estimate, at most
    `factor` times the work of a micro-step in the group's smallest size.
    """

    def work(size: Size) -> int:
        cells = size.rows * (size.cells + size.tail * size.gaps)
        return size.side * size.words * (size.planes + size.window * cells)

    order = sorted(range(len(sizes)), key=lambda i: work(sizes[i]))
    found = [*sizes]
    part: list[int] = []
    for i in order:
        grown = Size.over(sizes[j] for j in (*part, i))
        if part and (len(part) == most or work(grown) > factor * work(sizes[part[0]])):
            part, grown = [], sizes[i]
        part.append(i)
        for j in part:
            found[j] = grown
    return found


def stacked(trees: Sequence[Any]) -> Any:
    """Stack the leaves of pytrees on a new first axis."""
    return jax.tree.map(lambda *leaves: np.stack([*map(np.asarray, leaves)]), *trees)


def tables(packers: Sequence[Packer], size: Size) -> Tables:
    """Return the tables of games for an interpreter of size `size`, stacked on a first axis."""
    return stacked([packer.tables(size) for packer in packers])


def start(level: Level, size: Size) -> Board:
    """Return the board of a level before its first turn."""
    objects = board(level, size)
    no = np.bool_(False)
    return Board(objects, objects, np.int32(level.width), np.int32(level.height), no, no)


def turn(
    machine: Machine, tables: Tables, game: Any, board: Board, action: Any, drawn: Any
) -> tuple[Board, Any]:
    """Play an action, with the random numbers of `DRAWS` from index `drawn` on, used cyclically."""
    return machine.play(tables, game, board, action, jax.tree_util.Partial(_number, drawn))


def _number(drawn: Any, i: Any) -> Any:
    return jnp.asarray(DRAWS, jnp.float32)[(i + drawn) % np.int32(len(DRAWS))]


@functools.cache
def program(machine: Machine, in_batch: bool, optimised: bool = True) -> Any:
    """Return the jitted function `turn` of an interpreter, under `vmap` if `in_batch`."""
    one = functools.partial(turn, machine)
    options = OPTIONS if optimised else {}
    return jax.jit(jax.vmap(one, (None, 0, 0, 0, 0)) if in_batch else one, compiler_options=options)


def masks(game: Game, board: Board) -> list[int]:
    """Return the object mask of each cell of a single board, column by column."""
    width, height = int(board.width), int(board.height)
    planes = np.asarray(board.objects)[: len(game.objects), :height]
    x = np.arange(width)
    found = (planes[..., x // WORD] >> (x % WORD).astype(np.uint32) & 1).transpose(2, 1, 0)
    kind = np.uint64 if len(game.objects) <= 64 else object
    powers = np.array([1 << i for i in range(len(game.objects))], kind)
    return [int(mask) for mask in (found.astype(kind) * powers).sum(-1).reshape(-1)]
