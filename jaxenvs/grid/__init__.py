"""Grid worlds with the rules of MiniGrid; importing the package registers every level."""

from . import (
    crossing,
    distshift,
    doorkey,
    dynamicobstacles,
    empty,
    fetch,
    fourrooms,
    gotodoor,
    gotoobject,
    keycorridor,
    lavagap,
    lockedroom,
    memory,
    multiroom,
    obstructedmaze,
    playground,
    putnear,
    redbluedoors,
    unlock,
)
from .env import GridEnv
from .state import Action, GridState, Level
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
    "dynamicobstacles",
    "empty",
    "fetch",
    "fourrooms",
    "gotodoor",
    "gotoobject",
    "keycorridor",
    "lavagap",
    "lockedroom",
    "memory",
    "multiroom",
    "obstructedmaze",
    "playground",
    "putnear",
    "redbluedoors",
    "unlock",
]
