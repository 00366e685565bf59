"""The one place that says which ids the default tests run on; `full` adds the others.

Compiling is what tests cost, so what must be compiled runs on ids that differ in engine or kind.
Needs only jaxenvs: it runs beside the contract test on an installed wheel.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

import jaxenvs

IDS = jaxenvs.registry.list()
# One id of each class: the first by name.
CLASSES = {jaxenvs.spec(id).env_class: id for id in reversed(IDS)}
FIRST = sorted(CLASSES.values())
# Stands for its family where that is not the first id: cheap to compile, or with levels that may be
# rejected.
FOR_ITS_FAMILY = (
    "BabyAI-OpenRedDoor-v0",
    "Classic-CartPole-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Puzzle-SlidingTile-3x3-v0",
)
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)} | {
    jaxenvs.spec(id).family: id for id in FOR_ITS_FAMILY
}

# Against minigrid: each kind of object, each kind of end, each kind of instruction, levels that
# may be rejected, and balls that move by chance.
DIFFERENTIAL = (
    "BabyAI-GoToObjDoor-v0",  # go to things and doors; levels are often rejected
    "BabyAI-KeyInBox-v0",  # open; a key in a box
    "BabyAI-OpenRedBlueDoors-v0",  # one instruction after another
    "BabyAI-PickupDist-v0",  # pick up, and failures by what else is picked up
    "BabyAI-PutNextS4N1-v0",  # put next to
    "Grid-DoorKey-5x5-v0",  # a key and its locked door
    "Grid-Dynamic-Obstacles-5x5-v0",  # balls that move; collisions; three actions
    "Grid-Fetch-5x5-N2-v0",  # a mission of words; failures
    "Grid-GoToDoor-5x5-v0",  # `done` ends the episode
    "Grid-LavaCrossingS9N1-v0",  # lava and a goal
    "Grid-MemoryS7-v0",  # what was seen before; two ends
    "Grid-ObstructedMaze-1Dl-v0",  # a ball in front of a door
    "Grid-PutNear-6x6-N2-v0",  # drops that end the episode
    "Grid-RedBlueDoors-6x6-v0",  # opened doors in their order
)
# Golden traces are rollouts of the classes that are not compared by default with the game that they
# replicate, but for these: the others have levels and instructions of their kinds.
GOLDEN_FULL = (
    "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-FindObjS5-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-KeyCorridor-v0",
    "BabyAI-MoveTwoAcrossS5N2-v0",
    "BabyAI-OpenDoorsOrderN2-v0",
    "BabyAI-Pickup-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockToUnlock-v0",
)
COMPARED = {*DIFFERENTIAL, "Craft-Ids-v0"}
GOLDEN = [id for id in FIRST if id not in {*COMPARED, *GOLDEN_FULL}]

# The contract: an id of each family, one whose actions are real numbers, and puzzles of other kinds
# than the one for its family: with chance, and with dead ends and a mask.
CONTRACT = (
    *FAMILIES.values(),
    "Classic-MountainCarContinuous-v0",
    "Puzzle-2048-v0",
    "Puzzle-Sokoban-6x6-v0",
)
# With `full`: every puzzle, Craft's other game, and modules of the two grid families.
CONTRACT_FULL = (
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
# Checks with programs of their own (operation by operation, in parts, in batches).
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
# More programs of each id, and eager calls: Craft's alone would take as long as all of these.
NOT_CRAFT = [id for id in CONTRACT if not id.startswith("Craft-")]
EAGER = [id for id in FAMILIES.values() if not id.startswith("Craft-")]
# Rollouts in a process with 64 bits: floats, and a grid.
X64 = ("Classic-CartPole-v0", "Grid-GoToObject-6x6-N2-v0")

# Hostile play: floats, also as actions, a mask that counts, a grid whose levels may be rejected.
HOSTILE = (
    "Classic-CartPole-v0",
    "Classic-Pendulum-v0",
    "Puzzle-Hanoi-5-v0",
    "BabyAI-OpenRedDoor-v0",
)
HOSTILE_FULL = (
    *HOSTILE,
    "Classic-Acrobot-v0",
    "Classic-MountainCarContinuous-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Grid-RedBlueDoors-6x6-v0",
    *(f"Puzzle-{name}-v0" for name in ("2048", "Maze-10x10", "Pancake-10")),
    *(f"Puzzle-{name}-v0" for name in ("SlidingTile-3x3", "Sudoku-Guided", "TopSpin-10")),
)

# Every kind of tile is drawn in one of these: a lock, lava, boxes, balls, goals, doors.
DRAWN = (
    "BabyAI-UnlockPickup-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-DistShift1-v0",
    "Grid-ObstructedMaze-1Q-v0",
    "Grid-Playground-v0",
)

# Levels, as often as minigrid's and sound: a way to make them each, and those with rules of their
# own in the test.
LEVELS = (
    "Grid-DoorKey-6x6-v0",  # a quirk of the last row
    "Grid-LavaCrossingS9N3-v0",  # rivers
    "Grid-MultiRoom-N4-S5-v1",  # rooms drawn one after another, rejected
    "Grid-MemoryS13Random-v0",  # a corridor of any length
    "Grid-Fetch-6x6-N2-v0",  # things and a mission
    "Grid-RedBlueDoors-6x6-v0",  # doors in walls
    "Grid-KeyCorridorS3R3-v0",  # rooms of a row, locked
    "Grid-LockedRoom-v0",  # a goal in a room
    "BabyAI-PutNextLocalS6N4-v0",  # things of one room
)


def params(default: Collection[str], full: Collection[str], of: Iterable[str] = IDS) -> list[Any]:
    """Parameters of a test: ids of `of` by default, with `full`, and the rest as long proofs."""

    def marks(id: str) -> list[pytest.MarkDecorator]:
        return [] if id in default else [pytest.mark.full if id in full else pytest.mark.slow]

    return [pytest.param(id, marks=marks(id)) for id in of]


def with_full(*cases: Any) -> list[Any]:
    """Cases of a test that run with `full` alone: tuples of arguments, or single ones."""
    marked = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=pytest.mark.full) for case in marked]
