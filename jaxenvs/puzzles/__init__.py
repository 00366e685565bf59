"""Puzzles for learners and for search: one set of rules serves PPO, A*, Q* and MCTS."""

from .permutation import Cube, Pyraminx, Skewb, TwistyPuzzle
from .puzzle import Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState
from .sliding_tile import SlidingTile

__all__ = [
    "Cube",
    "Move",
    "Predecessors",
    "Puzzle",
    "PuzzleLevel",
    "PuzzleState",
    "Pyraminx",
    "Skewb",
    "SlidingTile",
    "TwistyPuzzle",
]
