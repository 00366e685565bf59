"""Tests of the solver `jaxenvs.grid.oracle` with MiniGrid's levels, steps and rewards.

    pytest -m slow -s tests/grid/test_oracle_upstream.py

The test solves `LEVELS` levels of MiniGrid per id, and plays every plan in MiniGrid. A search with
MiniGrid's own steps, breadth-first, also finds the fewest steps if `STATES` states are enough. If
they are not, the test knows only a lower bound, so it would miss a plan that is too long.
"""

import collections
import random
from typing import Any

import numpy as np
import pytest
import upstream

import jaxenvs
from jaxenvs import levels

LEVELS = 20  # number of levels of an id, unless it is in `MORE`
MORE = {  # small ids, many of whose missions have two or more instructions
    "BabyAI-GoToSeqS5R2-v0": 100,
    "BabyAI-OpenDoorsOrderN2-v0": 60,
    "BabyAI-OpenDoorsOrderN4-v0": 60,
    "BabyAI-OpenRedBlueDoors-v0": 60,
    "BabyAI-OpenTwoDoors-v0": 60,
}
STATES = 20_000  # largest number of states of a breadth-first search in MiniGrid
# Ids in most of whose levels `STATES` states are not enough to compare any level.
LARGE = (
    "BabyAI-GoToImpUnlock-v0",
    "BabyAI-SynthSeq-v0",
    "BabyAI-Unlock-v0",
    "BabyAI-UnlockToUnlock-v0",
)
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
    "Grid-DoorKey-5x5-v0",
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


# Attributes that a step of MiniGrid may assign: of the environment, its grid, objects and mission.
ASSIGNED = ("agent_pos", "agent_dir", "carrying", "grid", "cur_pos", "is_open", "is_locked")
ASSIGNED += ("contains", "a_done", "b_done", "lastStepMatch", "preCarrying", "obj_set", "obj_poss")


class Branches:
    """Saves and restores states of a MiniGrid environment, much faster than with deep copies.

    A saved state is hashable and contains all that affects the rest of an episode, except the time.
    """

    def __init__(self, env):
        env.gen_obs = dict  # no observations: they would take most of the time
        self.env, self.parts = env, [env, env.grid, *_objects(env)]
        self.parts += _instructions(env.instrs) if hasattr(env, "instrs") else []
        self.slots = [
            (part, name)
            for part in self.parts
            for name in ASSIGNED
            if name in vars(part) and not (part is env and name == "grid")
        ]

    def save(self):
        return tuple([_frozen(getattr(part, name)) for part, name in self.slots])

    def restore(self, saved):
        for (part, name), value in zip(self.slots, saved, strict=True):
            is_list = isinstance(value, tuple) and name in ("grid", "obj_set", "obj_poss")
            setattr(part, name, list(value) if is_list else value)
        self.env.step_count = 0  # prevents truncation

    def rest(self):
        """Return all attributes that are not saved, except the time."""
        left_out = {(id(part), name) for part, name in self.slots} | {(id(self.env), "step_count")}
        return {
            (place, name): _comparable(value)
            for place, part in enumerate(self.parts)
            for name, value in vars(part).items()
            if (id(part), name) not in left_out
        }


def _objects(env):
    """Return the objects that can move or change: in cells, in boxes and in the agent's hands."""
    found = [thing for thing in (*env.grid.grid, env.carrying) if thing and thing.type != "wall"]
    inside = [thing.contains for thing in found if thing.contains]
    return list({id(thing): thing for thing in found + inside}.values())


def _instructions(instruction):
    """Return an instruction, its parts, and its descriptions of objects."""
    found = [instruction]
    for name in ("desc", "desc_move", "desc_fixed"):
        found += [getattr(instruction, name)] if hasattr(instruction, name) else []
    for name in ("instr_a", "instr_b"):
        found += _instructions(getattr(instruction, name)) if hasattr(instruction, name) else []
    return found


def _frozen(value):
    """Return a hashable copy of a value; objects are compared by identity."""
    if isinstance(value, np.ndarray):
        return tuple(value.tolist())
    return tuple(value) if isinstance(value, list) else value


def _comparable(value):
    if isinstance(value, list):
        return [id(it) for it in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value if isinstance(value, (bool, int, float, str, tuple)) else id(value)


def blind(env, limit=STATES):
    """Search breadth-first in MiniGrid; return (n, True) if the search ends within `limit` states.

    Then n is the fewest steps to success, or None if no state has success. Otherwise return
    (n, False): no plan with up to n steps succeeds.
    """
    branches = Branches(env)
    front, depth = [branches.save()], 0
    seen = set(front)
    while front:
        after = []
        for state in front:
            for action in range(7):
                branches.restore(state)
                _, reward, terminated, _, _ = env.step(action)
                if terminated and reward > 0:
                    return depth + 1, True
                if not terminated and (child := branches.save()) not in seen:
                    seen.add(child)
                    after.append(child)
            if len(seen) > limit:
                return depth, False
        front, depth = after, depth + 1
    return None, True


def played(env, plan):
    """Return the last reward of a plan in MiniGrid, and whether only its last step terminates."""
    reward, terminated, over = 0.0, False, False
    for action in plan:
        over = over or terminated
        _, reward, terminated, _, _ = env.step(action)
    return float(reward), bool(terminated) and not over


def test_branches_save_all_that_a_step_changes():
    """After random steps, only saved attributes differ, and a restored state continues equally."""
    draws = random.Random(0)
    for id in (*SEVERAL, "BabyAI-KeyInBox-v0", "BabyAI-PutNextLocal-v0", "Grid-PutNear-6x6-N2-v0"):
        env: Any = upstream.make(id)
        upstream.record(env, [], seed=0)
        branches = Branches(env)
        start, rest = branches.save(), branches.rest()
        actions = draws.choices(range(7), weights=[2, 2, 5, 3, 1, 3, 1], k=300)
        tracks = []
        for _ in range(2):
            branches.restore(start)
            tracks.append([(env.step(action)[1:3], branches.save()) for action in actions])
        assert tracks[0] == tracks[1] and len({saved for _, saved in tracks[0]}) > 20
        assert branches.rest() == rest


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_plans_succeed_and_are_shortest_in_minigrid(id):
    env = jaxenvs.make(id)
    theirs: Any = upstream.make(id)
    seeds = range(MORE.get(id, LEVELS))
    drawn = [upstream.record(theirs, [], seed=seed).level for seed in seeds]
    solutions = levels.solve(env, drawn, node_budget=100_000 * len(drawn))
    counts = collections.Counter(levels=len(drawn))
    for seed, found in enumerate(solutions):
        upstream.record(theirs, [], seed=seed)
        counts["proven"] += found.proven or found.unsolvable
        has_several = hasattr(getattr(theirs, "instrs", None), "instr_a")
        steps, is_complete = blind(theirs)
        del theirs.gen_obs
        counts["compared"] += is_complete
        counts["compared, two or more instructions"] += is_complete and has_several
        if not is_complete:  # no plan with up to `steps` steps succeeds
            assert found.unsolvable or found.steps is None or found.steps > steps
        elif steps is None:
            assert found.steps is None
        else:
            assert found.lower <= steps and not found.unsolvable
            assert found.steps == steps or not found.proven
            counts["equal"] += found.proven
        upstream.record(theirs, [], seed=seed)
        if found.steps is not None:
            reward, succeeds = played(theirs, found.plan)
            assert succeeds
            assert reward == pytest.approx(1 - 0.9 * found.steps / theirs.max_steps, abs=1e-6)
            assert not found.proven or reward == pytest.approx(found.optimal_return, abs=1e-6)
            counts["played"] += 1
    print(f"{id}: {dict(counts)}")
    assert counts["equal"] >= 3 or id in LARGE
