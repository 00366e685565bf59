"""Grid worlds with the rules of MiniGrid; importing the package registers every level."""

from . import crossing, distshift, doorkey, empty, fourrooms, lavagap
from .env import Action, GridEnv, GridState, Level
from .tiles import Colour, Kind

__all__ = [
    "Action",
    "Colour",
    "GridEnv",
    "GridState",
    "Kind",
    "Level",
    "crossing",
    "distshift",
    "doorkey",
    "empty",
    "fourrooms",
    "lavagap",
]
