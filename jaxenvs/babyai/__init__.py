"""BabyAI worlds with the rules of MiniGrid; importing the package registers all ids."""

from . import goto, levelgen, mission, opening, other, pickup, putnext, unlock
from .env import BabyEnv, BabyState

__all__ = [
    "BabyEnv",
    "BabyState",
    "goto",
    "levelgen",
    "mission",
    "opening",
    "other",
    "pickup",
    "putnext",
    "unlock",
]
