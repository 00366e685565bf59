"""Puzzles for learners and for search: one set of rules serves PPO, A*, Q* and MCTS."""

from .game2048 import Game2048
from .maze import Maze
from .minesweeper import Minesweeper
from .permutation import Cube, Pyraminx, Skewb, TwistyPuzzle
from .puzzle import Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState
from .sliding_tile import SlidingTile
from .sokoban import Sokoban
from .sudoku import Sudoku
from .tsp import TSP

__all__ = [
    "TSP",
    "Cube",
    "Game2048",
    "Maze",
    "Minesweeper",
    "Move",
    "Predecessors",
    "Puzzle",
    "PuzzleLevel",
    "PuzzleState",
    "Pyraminx",
    "Skewb",
    "SlidingTile",
    "Sokoban",
    "Sudoku",
    "TwistyPuzzle",
]
