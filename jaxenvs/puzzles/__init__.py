"""Puzzles for learners and for search: one set of rules serves PPO, A*, Q* and MCTS."""

from .maze import Maze
from .permutation import Cube, Pyraminx, Skewb, TwistyPuzzle
from .puzzle import Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState
from .sliding_tile import SlidingTile
from .sokoban import Sokoban
from .tsp import TSP

__all__ = [
    "TSP",
    "Cube",
    "Maze",
    "Move",
    "Predecessors",
    "Puzzle",
    "PuzzleLevel",
    "PuzzleState",
    "Pyraminx",
    "Skewb",
    "SlidingTile",
    "Sokoban",
    "TwistyPuzzle",
]
