"""Craftax and Craftax-Classic: open worlds to gather, build, fight and survive in.

`CraftClassic` and `CraftFull` are the two environments; they follow the rules of Craftax 1.6.1.
"""

from . import absent
from .chance import Draws, Whims
from .classic import CLASSIC, CraftClassic, CraftParams
from .env import CraftEnv
from .floors import FullLevel
from .full import CraftFull, FullParams
from .full_rows import FULL
from .kits import KITS, Kit
from .sight import Layout
from .state import CraftState, FullState, Level, Mob, Plants, Projectile, Slots, World
from .tables import Achievement, Action, Block, Rules

__all__ = [
    "CLASSIC",
    "FULL",
    "KITS",
    "Achievement",
    "Action",
    "Block",
    "CraftClassic",
    "CraftEnv",
    "CraftFull",
    "CraftParams",
    "CraftState",
    "Draws",
    "FullLevel",
    "FullParams",
    "FullState",
    "Kit",
    "Layout",
    "Level",
    "Mob",
    "Plants",
    "Projectile",
    "Rules",
    "Slots",
    "Whims",
    "World",
    "absent",
]
