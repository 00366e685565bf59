"""Puzzles for reinforcement learning and for search: PPO, A*, Q* and MCTS use the same rules.

Importing this package imports every module of its folder, and each module registers the ids of its
environments. A new module therefore needs no import here.
"""

import importlib
import pkgutil

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

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    # Importing a module registers the ids of its environments.
    importlib.import_module(_module.name)
