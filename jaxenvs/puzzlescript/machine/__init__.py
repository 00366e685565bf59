"""The interpreter: one compiled program that plays all games of a size, alone or in a batch."""

from .packing import Packer
from .sizes import Size, Tables
from .state import Board
from .turns import NOTHING, START, TICK, Machine

__all__ = ["NOTHING", "START", "TICK", "Board", "Machine", "Packer", "Size", "Tables"]
