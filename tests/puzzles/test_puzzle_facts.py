"""Tests of text descriptions of puzzles, on fixed levels."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxenvs
from jaxenvs.puzzles.game2048 import Game2048State
from jaxenvs.puzzles.minesweeper import OPEN, MinesweeperState
from jaxenvs.puzzles.puzzle import Puzzle, PuzzleLevel, PuzzleState

SUDOKU = (
    "53..7....\n" + "6..195...\n.98....6.\n8...6...3\n4..8.3..1\n7...2...6\n.6....28.\n...419..5"
)
SUDOKU += "\n....8..79"
DESCRIPTIONS = [
    (
        "Puzzle-SlidingTile-3x3-v0",
        "1 2 3 4 5 6 7 0 8",
        "The tiles, row by row, with a dot for the blank:\n 1  2  3\n 4  5  6\n 7  .  8",
    ),
    (
        "Puzzle-LightsOut-5x5-v0",
        "OO...\nO....\n.....\n.....\n.....",
        "The lamps, row by row: O is lit, a dot is dark:\nOO...\nO....\n.....\n.....\n.....",
    ),
    (
        "Puzzle-Hanoi-5-v0",
        "5 4 3\n2 1\n-",
        "The disks on each peg from the bottom up, 1 the smallest, a line for each peg from peg 0; "
        "- is an empty peg:\n5 4 3\n2 1\n-",
    ),
    (
        "Puzzle-Pancake-10-v0",
        "2 1 3 4 5 6 7 8 9 10",
        "The widths of the pancakes, from the top down:\n2 1 3 4 5 6 7 8 9 10",
    ),
    (
        "Puzzle-TopSpin-10-v0",
        "1 0 2 3 4 5 6 7 8 9",
        "The tokens in the order of the ring, from place 0:\n1 0 2 3 4 5 6 7 8 9",
    ),
    (
        "Puzzle-TSP-10-v0",
        "\n".join(f"{i / 16} 0.5" for i in range(10)),
        "The cities from city 0, where the trip begins: x, y, and whether you were or are there:\n"
        "0 0.5 here\n" + "\n".join(f"{i / 16:g} 0.5" for i in range(1, 10)),
    ),
    (
        "Puzzle-Sokoban-6x6-v0",
        "######\n#@   #\n# $$ #\n# .. #\n#    #\n######",
        "The field: # wall, @ you, $ box, . target, * box on a target, + you on a target:\n"
        "######\n#@   #\n# $$ #\n# .. #\n#    #\n######",
    ),
    ("Puzzle-Sudoku-v0", SUDOKU, f"The grid, row by row, with dots for empty cells:\n{SUDOKU}"),
    (
        "Puzzle-Sudoku-Guided-v0",
        SUDOKU,
        f"The grid, row by row, with dots for empty cells:\n{SUDOKU}\n"
        "The next digit goes into row 5, column 5.",
    ),
    (
        "Puzzle-PegSolitaire-v0",
        "...\n.O.\n...O...\n.......\n.......\n...\n...",
        "The board, row by row: O is a peg, a dot an empty hole:\n  ...\n  .O.\n...O...\n.......\n"
        ".......\n  ...\n  ...",
    ),
]


def state_of(level: PuzzleLevel) -> PuzzleState:
    return PuzzleState(time=jnp.int32(0), board=level.board, instance=level.instance)


@pytest.mark.parametrize(("id", "text", "expected"), DESCRIPTIONS)
def test_description_of_a_board(id, text, expected):
    puzzle = jaxenvs.make(id)
    assert puzzle.describe(state_of(puzzle.read_level(text))) == expected


@pytest.mark.parametrize("id", ["Puzzle-Cube-2x2-v0", "Puzzle-Pyraminx-v0", "Puzzle-Skewb-v0"])
def test_descriptions_of_faces_name_colours_and_places(id):
    puzzle = jaxenvs.make(id)
    first, *faces = puzzle.describe(state_of(PuzzleLevel(board=puzzle.goal(())))).splitlines()
    assert all(len(set(face)) == 1 for face in faces)
    assert all(f"{face[0]} " in first for face in faces) and "green" in first and "[3]" in first


def test_every_puzzle_class_has_a_legend():
    classes = {jaxenvs.spec(id).env_class for id in jaxenvs.registry.list("Puzzle")}
    puzzles = [c for c in classes if issubclass(c, Puzzle)]
    assert len(puzzles) > 10
    for kind in puzzles:
        assert kind.legend is not Puzzle.legend, kind
        has_text = kind.text is not Puzzle.text or kind.written is not Puzzle.written
        assert kind.characters or has_text, kind


def test_description_of_2048():
    exponents = np.array([[1, 0, 0, 11], [0] * 4, [0] * 4, [0, 0, 0, 2]], np.uint8)
    state = Game2048State(time=jnp.int32(0), rows=jnp.asarray(exponents.view("<u4")[:, 0]))
    assert jaxenvs.make("Puzzle-2048-v0").describe(state).splitlines()[1:] == [
        "2    .    .    2048",
        ".    .    .    .",
        ".    .    .    .",
        ".    .    .    4",
    ]


def test_the_description_of_minesweeper_hides_covered_cells():
    env = jaxenvs.make("Puzzle-Minesweeper-10x10-v0", rows=2, columns=2, mines=1)
    cells = [np.array([[1 + OPEN, 1], [mine, 1]], np.uint8) for mine in (10, 1)]
    texts = {env.describe(MinesweeperState(time=jnp.int32(0), cells=jnp.asarray(c))) for c in cells}
    assert texts == {
        "Mines: 1.\nThe field, row by row: mines next to an open cell, # a covered cell, * an open "
        "mine:\n1 #\n# #"
    }
