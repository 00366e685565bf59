"""Craftax-Classic: gather, build, fight and survive in an open world, by Craftax 1.6.1's rules."""

from . import absent
from .chance import Draws, Whims
from .classic import CLASSIC, CraftClassic, CraftParams
from .env import CraftEnv
from .sight import Layout
from .state import CraftState, Level, Mob, Plants, Projectile, Slots, World
from .tables import Achievement, Action, Block, Rules

__all__ = [
    "CLASSIC",
    "Achievement",
    "Action",
    "Block",
    "CraftClassic",
    "CraftEnv",
    "CraftParams",
    "CraftState",
    "Draws",
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
