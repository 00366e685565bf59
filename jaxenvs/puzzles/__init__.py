"""Puzzles for reinforcement learning and search: PPO, A*, Q* and MCTS share one set of rules."""

from .game2048 import Game2048
from .hanoi import Hanoi
from .lights_out import LightsOut
from .maze import Maze
from .minesweeper import Minesweeper
from .pancake import Pancake
from .peg_solitaire import PegSolitaire
from .puzzle import Move, Predecessors, Puzzle, PuzzleLevel, PuzzleState
from .sliding_tile import SlidingTile
from .sokoban import Sokoban
from .sudoku import Sudoku
from .topspin import TopSpin
from .tsp import TSP
from .twisty import Cube, Pyraminx, Skewb, TwistyPuzzle

__all__ = [
    "TSP",
    "Cube",
    "Game2048",
    "Hanoi",
    "LightsOut",
    "Maze",
    "Minesweeper",
    "Move",
    "Pancake",
    "PegSolitaire",
    "Predecessors",
    "Puzzle",
    "PuzzleLevel",
    "PuzzleState",
    "Pyraminx",
    "Skewb",
    "SlidingTile",
    "Sokoban",
    "Sudoku",
    "TopSpin",
    "TwistyPuzzle",
]
