"""The interpreter: one compiled program plays all games that fit into a `Size`, also in a batch."""

from .packing import Packer
from .sizes import Size, Tables
from .state import Board
from .turns import NOTHING, START, TICK, Machine

__all__ = ["NOTHING", "START", "TICK", "Board", "Machine", "Packer", "Size", "Tables"]
