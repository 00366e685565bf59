"""Environment ids on which tests run by default, and those that the marker `full` adds.

Most of the tests' time is compilation. By default, tests that compile therefore run only on a few
ids, which cover different environment classes and kinds of levels. This module imports only jaxenvs
and pytest, because it is also used to test an installed wheel.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

import jaxenvs

IDS = jaxenvs.registry.list()
# One id for each environment class: the first one by name.
CLASSES = {jaxenvs.spec(id).env_class: id for id in reversed(IDS)}
FIRST = sorted(CLASSES.values())
# Ids that represent their families. They replace the family's first id, because they are cheaper to
# compile or have levels that may be rejected.
FOR_ITS_FAMILY = (
    "BabyAI-OpenRedDoor-v0",
    "Classic-CartPole-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Puzzle-SlidingTile-3x3-v0",
)
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)} | {
    jaxenvs.spec(id).family: id for id in FOR_ITS_FAMILY
}

# Ids that are compared with MiniGrid step by step. Together they have every kind of object, of
# episode end and of instruction, randomly moving balls, and levels that may be rejected.
DIFFERENTIAL = (
    "BabyAI-GoToObjDoor-v0",  # instructions to go to objects and doors; many levels are rejected
    "BabyAI-KeyInBox-v0",  # instruction to open a door; a key in a box
    "BabyAI-OpenRedBlueDoors-v0",  # two instructions, one after the other
    "BabyAI-PickupDist-v0",  # instruction to pick up an object; failure if another one is picked up
    "BabyAI-PutNextS4N1-v0",  # instruction to put an object next to another
    "Grid-DoorKey-5x5-v0",  # a key and a locked door
    "Grid-Dynamic-Obstacles-5x5-v0",  # moving balls, collisions with them, only three actions
    "Grid-Fetch-5x5-N2-v0",  # text missions, and episodes that end in failure
    "Grid-GoToDoor-5x5-v0",  # action `done` ends the episode
    "Grid-LavaCrossingS9N1-v0",  # lava, and a goal cell
    "Grid-MemoryS7-v0",  # an object to remember, and a right and a wrong way to end
    "Grid-ObstructedMaze-1Dl-v0",  # a ball that blocks a door
    "Grid-PutNear-6x6-N2-v0",  # dropping an object ends the episode
    "Grid-RedBlueDoors-6x6-v0",  # doors that must be opened in order
)
# Ids whose golden traces are checked only with `full`, because other ids have the same kinds of
# levels and instructions. The golden traces of ids in `COMPARED` are not checked by default either.
GOLDEN_FULL = (
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-BossLevel-v0",
    "BabyAI-FindObjS5-v0",
    "BabyAI-GoTo-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-KeyCorridor-v0",
    "BabyAI-MoveTwoAcrossS5N2-v0",
    "BabyAI-OneRoomS8-v0",
    "BabyAI-Open-v0",
    "BabyAI-OpenDoor-v0",
    "BabyAI-OpenDoorsOrderN2-v0",
    "BabyAI-Pickup-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-Unlock-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockToUnlock-v0",
    "Grid-AMaze-13x13-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-FourRooms-v0",
    "Grid-KeyCorridorS3R1-v0",
    "Grid-LavaGapS5-v0",
    "Grid-ObstructedMaze-1Q-v0",
    "Grid-PerfectMaze-101x101-v0",
    "Grid-PerfectMaze-13x13-v0",
    "Grid-PerfectMaze-19x19-v0",
    "Grid-Unlock-v0",
)
COMPARED = {*DIFFERENTIAL, "Craft-Ids-v0"}
GOLDEN = [id for id in FIRST if id not in {*COMPARED, *GOLDEN_FULL}]

# One id of each family except Craft and PuzzleScript. Their programs take as long to compile as
# those of all other families together.
QUICK = [id for id in FAMILIES.values() if not id.startswith(("Craft-", "PuzzleScript-"))]
# Ids for `test_contract.py`: those in `QUICK`, a further one with continuous actions, a puzzle with
# random steps, and a puzzle with dead ends and an action mask.
CONTRACT = (
    *QUICK,
    "Classic-MountainCarContinuous-v0",
    "Puzzle-2048-v0",
    "Puzzle-Sokoban-6x6-v0",
)
# Ids for `test_contract.py` with `full`: every puzzle class except the cube, the full game of Craft
# besides Classic, and further classes of Grid, BabyAI and Classic control.
CONTRACT_FULL = (
    *FAMILIES.values(),
    *CONTRACT,
    "BabyAI-OneRoomS8-v0",
    "Classic-Acrobot-v0",
    "Classic-MountainCar-v0",
    "Classic-Pendulum-v0",
    "Craft-Ids-v0",
    "Grid-Dynamic-Obstacles-5x5-v0",
    "Grid-MemoryS7-v0",
    "Grid-RedBlueDoors-6x6-v0",
    *(id for id in FIRST if id.startswith("Puzzle-") and "-Cube-" not in id),
)
# Ids for those checks of `test_contract.py` that compile further programs (op by op, in parts, in
# batches).
COSTLY = ("Classic-CartPole-v0",)
COSTLY_FULL = (
    *COSTLY,
    "Classic-Acrobot-v0",
    "Classic-MountainCarContinuous-v0",
    "Classic-Pendulum-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Puzzle-2048-v0",
    "Puzzle-Maze-10x10-v0",
    "Puzzle-SlidingTile-3x3-v0",
    "Puzzle-TopSpin-10-v0",
)
# Ids for rollouts in a process where JAX has 64-bit types enabled: one with floats, one grid.
X64 = ("Classic-CartPole-v0", "Grid-GoToObject-6x6-N2-v0")

# Ids for fuzzing: one by default. The ids for `full` include environments with float observations,
# float actions or state-dependent action masks, and grids whose levels may be rejected.
HOSTILE = ("Classic-CartPole-v0",)
HOSTILE_FULL = (
    *HOSTILE,
    "Classic-Pendulum-v0",
    "Puzzle-Hanoi-5-v0",
    "BabyAI-OpenRedDoor-v0",
    "Classic-Acrobot-v0",
    "Classic-MountainCarContinuous-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Grid-RedBlueDoors-6x6-v0",
    *(f"Puzzle-{name}-v0" for name in ("2048", "Maze-10x10", "Pancake-10")),
    *(f"Puzzle-{name}-v0" for name in ("SlidingTile-3x3", "Sudoku-Guided", "TopSpin-10")),
)

# Together the pictures of these ids show every kind of tile: a lock, lava, boxes, balls, goals,
# doors.
DRAWN = (
    "BabyAI-UnlockPickup-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-DistShift1-v0",
    "Grid-ObstructedMaze-1Q-v0",
    "Grid-Playground-v0",
)

# Ids on which `grid/test_levels.py`, by default, checks levels and compares their distribution with
# MiniGrid's: nine level generators. For DoorKey and MultiRoom, the test has additional checks.
LEVELS = (
    "Grid-DoorKey-6x6-v0",  # a quirk of MiniGrid in the last row of the grid
    "Grid-LavaCrossingS9N3-v0",  # rivers of lava across the room
    "Grid-MultiRoom-N4-S5-v1",  # rooms are drawn one after another and may be rejected
    "Grid-MemoryS13Random-v0",  # a corridor of random length
    "Grid-Fetch-6x6-N2-v0",  # random objects, and a mission that names one
    "Grid-RedBlueDoors-6x6-v0",  # doors in random cells of walls
    "Grid-KeyCorridorS3R3-v0",  # a grid of rooms, one of them locked
    "Grid-LockedRoom-v0",  # a goal inside a locked room
    "BabyAI-PutNextLocalS6N4-v0",  # objects in a single room
)


def params(default: Collection[str], full: Collection[str], of: Iterable[str] = IDS) -> list[Any]:
    """Return pytest parameters for the ids `of`, with markers.

    Ids in `default` have no marker, other ids in `full` the marker `full`, and all others the
    marker `slow`.
    """

    def marks(id: str) -> list[pytest.MarkDecorator]:
        return [] if id in default else [pytest.mark.full if id in full else pytest.mark.slow]

    return [pytest.param(id, marks=marks(id)) for id in of]


def with_full(*cases: Any) -> list[Any]:
    """Return pytest parameters with the marker `full`.

    Each case is a tuple of arguments, or a single argument.
    """
    marked = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=pytest.mark.full) for case in marked]
