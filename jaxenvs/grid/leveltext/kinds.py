"""Kinds of objects that the levels of each class of MiniGrid and BabyAI can have."""

from typing import Any

from ..tiles import Kind

_GRID = __name__.removesuffix("leveltext.kinds")  # prefix of the names of modules in `jaxenvs.grid`
_DOORS = (Kind.CLOSED_DOOR, Kind.LOCKED_DOOR)
_THINGS = (Kind.KEY, Kind.BALL, Kind.BOX)
# Name of a class -> kinds of objects in its levels, besides walls and empty cells.
KINDS = {
    "AMaze": (Kind.GOAL,),
    "BabyEnv": (*_THINGS, *_DOORS),
    "Crossing": (Kind.GOAL, Kind.LAVA),
    "DistShift": (Kind.GOAL, Kind.LAVA),
    "DoorKey": (Kind.GOAL, Kind.KEY, *_DOORS),
    "DynamicObstacles": (Kind.GOAL, Kind.BALL),
    "Empty": (Kind.GOAL,),
    "Fetch": (Kind.KEY, Kind.BALL),
    "FourRooms": (Kind.GOAL,),
    "GoToDoor": _DOORS,
    "GoToObject": _THINGS,
    "KeyCorridor": (Kind.KEY, Kind.BALL, *_DOORS),
    "LavaGap": (Kind.GOAL, Kind.LAVA),
    "LockedRoom": (Kind.GOAL, Kind.KEY, *_DOORS),
    "Memory": (Kind.KEY, Kind.BALL),
    "MultiRoom": (Kind.GOAL, *_DOORS),
    "ObstructedWorld": (Kind.KEY, Kind.BALL, Kind.BOX, Kind.KEY_BOX, *_DOORS),
    "PerfectMaze": (Kind.GOAL,),
    "PutNear": _THINGS,
    "RedBlueDoors": _DOORS,
    "Unlock": (Kind.KEY, *_DOORS),
    "UnlockPickup": (*_THINGS, *_DOORS),
}


def of(env: Any) -> tuple[Kind, ...] | None:
    """Return the kinds of objects in levels of `env`; None if `KINDS` does not list its class."""
    return next((KINDS[name] for name in classes(env) if name in KINDS), None)


def classes(env: Any) -> list[str]:
    """Return the names of the classes of `jaxenvs.grid`, and `BabyEnv`, in the MRO of `env`.

    Classes of other modules are left out, because their names may equal keys of `KINDS`.
    """
    return [
        kind.__name__
        for kind in type(env).__mro__
        if kind.__module__.startswith(_GRID) or kind.__name__ == "BabyEnv"
    ]
