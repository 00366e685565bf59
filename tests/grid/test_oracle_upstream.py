"""Tests of the solver `jaxenvs.grid.oracle` with MiniGrid's levels, steps and rewards.

    pytest -m slow -s tests/grid/test_oracle_upstream.py

The test solves `LEVELS` levels of MiniGrid per id, and plays every plan in MiniGrid. For small
levels, a breadth-first search with copies of MiniGrid's environment also finds the fewest steps.
"""

import collections
import copy
from typing import Any

import pytest
import upstream

import jaxenvs
from jaxenvs import levels

LEVELS = 17
STATES = 250  # largest number of states of a breadth-first search in MiniGrid
SEARCHED = 5  # number of levels of each id that are also searched breadth-first
# Ids, most of which have missions with two or more instructions.
SEVERAL = (
    "BabyAI-GoToRedBlueBall-v0",
    "BabyAI-GoToSeq-v0",
    "BabyAI-GoToSeqS5R2-v0",
    "BabyAI-MiniBossLevel-v0",
    "BabyAI-MoveTwoAcrossS5N2-v0",
    "BabyAI-OpenDoorsOrderN2-v0",
    "BabyAI-OpenDoorsOrderN4-v0",
    "BabyAI-OpenRedBlueDoors-v0",
    "BabyAI-OpenTwoDoors-v0",
    "BabyAI-Synth-v0",
    "BabyAI-SynthS5R2-v0",
    "BabyAI-SynthSeq-v0",
    "BabyAI-UnlockToUnlock-v0",
)
IDS = (
    *SEVERAL,
    "BabyAI-ActionObjDoor-v0",
    "BabyAI-BlockedUnlockPickup-v0",
    "BabyAI-FindObjS5-v0",
    "BabyAI-GoTo-v0",
    "BabyAI-GoToDoor-v0",
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-GoToLocal-v0",
    "BabyAI-GoToLocalS5N2-v0",
    "BabyAI-GoToObj-v0",
    "BabyAI-GoToObjDoor-v0",
    "BabyAI-GoToObjMazeS4R2-v0",
    "BabyAI-GoToRedBall-v0",
    "BabyAI-KeyCorridorS3R1-v0",
    "BabyAI-KeyInBox-v0",
    "BabyAI-OneRoomS8-v0",
    "BabyAI-Open-v0",
    "BabyAI-OpenDoor-v0",
    "BabyAI-OpenDoorLoc-v0",
    "BabyAI-OpenRedDoor-v0",
    "BabyAI-PickupAbove-v0",
    "BabyAI-PickupDist-v0",
    "BabyAI-PickupLoc-v0",
    "BabyAI-PutNextLocal-v0",
    "BabyAI-PutNextS4N1-v0",
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-UnblockPickup-v0",
    "BabyAI-Unlock-v0",
    "BabyAI-UnlockLocal-v0",
    "BabyAI-UnlockLocalDist-v0",
    "BabyAI-UnlockPickup-v0",
    "Grid-BlockedUnlockPickup-v0",
    "Grid-DistShift1-v0",
    "Grid-DoorKey-8x8-v0",
    "Grid-Empty-Random-6x6-v0",
    "Grid-Fetch-5x5-N2-v0",
    "Grid-FourRooms-v0",
    "Grid-GoToDoor-5x5-v0",
    "Grid-GoToObject-6x6-N2-v0",
    "Grid-KeyCorridorS3R1-v0",
    "Grid-LavaCrossingS9N1-v0",
    "Grid-LavaGapS5-v0",
    "Grid-LockedRoom-v0",
    "Grid-MemoryS7-v0",
    "Grid-MultiRoom-N2-S4-v0",
    "Grid-ObstructedMaze-1Dlh-v0",
    "Grid-PutNear-6x6-N2-v0",
    "Grid-RedBlueDoors-6x6-v0",
    "Grid-SimpleCrossingS9N1-v0",
    "Grid-Unlock-v0",
    "Grid-UnlockPickup-v0",
)


def key_of(env):
    """Return a hashable value of all that affects the rest of an episode, except the time."""
    held = env.carrying and (env.carrying.type, env.carrying.color)
    inside = tuple(
        place for place, thing in enumerate(env.grid.grid) if thing and thing.contains is not None
    )
    mission = _mission(env.instrs, env) if hasattr(env, "instrs") else ()
    pose = (*map(int, env.agent_pos), int(env.agent_dir))
    return env.grid.encode().tobytes(), pose, held, inside, mission


def _mission(instruction, env):
    found = [getattr(instruction, name, None) for name in ("a_done", "b_done", "lastStepMatch")]
    before = getattr(instruction, "preCarrying", None)
    found.append(before and (before.type, before.color, before is env.carrying))
    for name in ("desc", "desc_move", "desc_fixed"):
        if hasattr(instruction, name):
            about = getattr(instruction, name)
            found += [tuple(map(tuple, about.obj_poss))]
            found += [
                (
                    thing is env.carrying,
                    thing.cur_pos is not None and tuple(map(int, thing.cur_pos)),
                )
                for thing in about.obj_set
            ]
    for name in ("instr_a", "instr_b"):
        if hasattr(instruction, name):
            found.append(_mission(getattr(instruction, name), env))
    return tuple(found)


def blind(env):
    """Search breadth-first in MiniGrid; return (fewest steps, True) if the search succeeds.

    If the search does not succeed, return (n, False): no plan with up to n steps succeeds.
    """
    front, seen, depth = [env], {key_of(env)}, 0
    while front:
        after = []
        for state in front:
            for action in range(7):
                child = copy.deepcopy(state)
                child.step_count = 0  # prevents truncation
                _, reward, terminated, _, _ = child.step(action)
                if terminated and reward > 0:
                    return depth + 1, True
                if not terminated and (key := key_of(child)) not in seen:
                    seen.add(key)
                    after.append(child)
            if len(seen) > STATES:
                return depth, False
        front, depth = after, depth + 1
    return 1 << 30, False  # all states were visited without success


def played(env, plan):
    """Return the last reward of a plan in MiniGrid, and whether only its last step terminates."""
    reward, terminated, over = 0.0, False, False
    for action in plan:
        over = over or terminated
        _, reward, terminated, _, _ = env.step(action)
    return float(reward), bool(terminated) and not over


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_plans_succeed_and_are_shortest_in_minigrid(id):
    env = jaxenvs.make(id)
    theirs: Any = upstream.make(id)
    drawn = [upstream.record(theirs, [], seed=seed).level for seed in range(LEVELS)]
    solutions = levels.solve(env, drawn, node_budget=100_000 * LEVELS)
    counts = collections.Counter()
    for seed, found in enumerate(solutions):
        upstream.record(theirs, [], seed=seed)
        counts["levels"] += 1
        counts["proven"] += found.proven or found.unsolvable
        if seed < SEARCHED:
            steps, is_goal = blind(theirs)
            counts["searched"] += 1
            counts["compared"] += is_goal
            if is_goal:
                assert found.lower <= steps and (found.steps == steps or not found.proven)
            else:  # no plan with up to `steps` steps succeeds
                assert found.unsolvable or found.steps is None or found.steps > steps
            upstream.record(theirs, [], seed=seed)
        if found.steps is not None:
            reward, succeeds = played(theirs, found.plan)
            limit = theirs.max_steps
            assert succeeds and reward == pytest.approx(1 - 0.9 * found.steps / limit, abs=1e-6)
            assert not found.proven or reward == pytest.approx(found.optimal_return, abs=1e-6)
            counts["played"] += 1
    print(f"{id}: {dict(counts)}")
