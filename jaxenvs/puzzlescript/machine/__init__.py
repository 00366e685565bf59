"""Interpreter of PuzzleScript: one compiled program plays every game that fits into a `Size`.

A batch may contain different games.
"""

from .packing import Packer
from .sizes import Size, Tables
from .state import Board
from .turns import NOTHING, START, TICK, Machine

__all__ = ["NOTHING", "START", "TICK", "Board", "Machine", "Packer", "Size", "Tables"]
