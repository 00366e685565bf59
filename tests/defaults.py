"""Ids of the default tests; `full` adds the others.

Compilation dominates the cost of tests, so compiled tests run on ids that differ in engine or kind.
Needs only jaxenvs: the contract test also uses it on an installed wheel.
"""

from collections.abc import Collection, Iterable
from typing import Any

import pytest

import jaxenvs

IDS = jaxenvs.registry.list()
# One id per class: the first by name.
CLASSES = {jaxenvs.spec(id).env_class: id for id in reversed(IDS)}
FIRST = sorted(CLASSES.values())
# Representative of its family if that is not the first id: cheap to compile, or with levels that
# may be rejected.
FOR_ITS_FAMILY = (
    "BabyAI-OpenRedDoor-v0",
    "Classic-CartPole-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Puzzle-SlidingTile-3x3-v0",
)
FAMILIES = {jaxenvs.spec(id).family: id for id in reversed(IDS)} | {
    jaxenvs.spec(id).family: id for id in FOR_ITS_FAMILY
}

# Compared with minigrid: each kind of object, ending and instruction, levels that may be rejected,
# and randomly moving balls.
DIFFERENTIAL = (
    "BabyAI-GoToObjDoor-v0",  # go to things and doors; levels are often rejected
    "BabyAI-KeyInBox-v0",  # open; a key in a box
    "BabyAI-OpenRedBlueDoors-v0",  # one instruction after another
    "BabyAI-PickupDist-v0",  # pick up; failure if another object is picked up
    "BabyAI-PutNextS4N1-v0",  # put next to
    "Grid-DoorKey-5x5-v0",  # a key and its locked door
    "Grid-Dynamic-Obstacles-5x5-v0",  # moving balls; collisions; three actions
    "Grid-Fetch-5x5-N2-v0",  # a text mission; failures
    "Grid-GoToDoor-5x5-v0",  # `done` ends the episode
    "Grid-LavaCrossingS9N1-v0",  # lava and a goal
    "Grid-MemoryS7-v0",  # memory of an earlier object; two ends
    "Grid-ObstructedMaze-1Dl-v0",  # a ball in front of a door
    "Grid-PutNear-6x6-N2-v0",  # drops that end the episode
    "Grid-RedBlueDoors-6x6-v0",  # doors opened in order
)
# Classes without a golden trace by default, in addition to those compared with their original by
# default: other ids have levels and instructions of the same kinds.
GOLDEN_FULL = (
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-BlockedUnlockPickup-v0",
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
)
COMPARED = {*DIFFERENTIAL, "Craft-Ids-v0"}
GOLDEN = [id for id in FIRST if id not in {*COMPARED, *GOLDEN_FULL}]

# The contract: an id of each family, one with continuous actions, and puzzles of kinds that differ
# from their family's id: with random steps, and with dead ends and a mask.
CONTRACT = (
    *FAMILIES.values(),
    "Classic-MountainCarContinuous-v0",
    "Puzzle-2048-v0",
    "Puzzle-Sokoban-6x6-v0",
)
# With `full`: every puzzle, Craft's other edition, and modules of the two grid families.
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
# Checks that compile separate programs (op by op, in parts, in batches).
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
# Further programs of each id, and eager calls: Craft alone would take as long as all of these.
NOT_CRAFT = [id for id in CONTRACT if not id.startswith("Craft-")]
EAGER = [id for id in FAMILIES.values() if not id.startswith("Craft-")]
# Rollouts in a process with 64 bits: floats, and a grid.
X64 = ("Classic-CartPole-v0", "Grid-GoToObject-6x6-N2-v0")

# Hostile play: floats, also as actions, a state-dependent mask, a grid with rejected levels.
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

# Together these draw every kind of tile: a lock, lava, boxes, balls, goals, doors.
DRAWN = (
    "BabyAI-UnlockPickup-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-DistShift1-v0",
    "Grid-ObstructedMaze-1Q-v0",
    "Grid-Playground-v0",
)

# Levels, compared with minigrid's distribution and checked: one id per generator, and those with
# separate rules in the test.
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
    """Return pytest parameters: ids of `of` by default, ids with `full`, and the rest as slow."""

    def marks(id: str) -> list[pytest.MarkDecorator]:
        return [] if id in default else [pytest.mark.full if id in full else pytest.mark.slow]

    return [pytest.param(id, marks=marks(id)) for id in of]


def with_full(*cases: Any) -> list[Any]:
    """Return cases of a test that run only with `full`: tuples of arguments, or single ones."""
    marked = [case if isinstance(case, tuple) else (case,) for case in cases]
    return [pytest.param(*case, marks=pytest.mark.full) for case in marked]
