"""Base classes of BabyAI's levels, and the check whether a mission is accomplished.

Source: MiniGrid 3.2 `envs/babyai/core`. A mission names objects by descriptions, such as "the red
ball" or "a box on your left". At the start of an episode, each object gets a mark for each
description that fits it. A mark is a bit that moves with the object. When an object is picked up or
a box is opened, its cell keeps a copy of the marks until the next drop action, as in MiniGrid.
"""

from abc import abstractmethod
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, UInt8, UInt32

from ..core.env import Ending, Params, Transition
from ..core.gridworld import direction_vector
from ..core.random import Key
from ..core.registry import register
from ..core.struct import struct
from ..grid import tiles
from ..grid.aims import Aim
from ..grid.placement import lines
from ..grid.plan import Plan, Thing
from ..grid.rooms import Ranges, RoomGrid
from ..grid.rules import act
from ..grid.state import Action, GridState, Level
from ..grid.tiles import Colour, Kind
from . import mission as m
from .aims import mission_aims

# Value of `level_budget`: largest number of levels that a reset draws until one is accepted. 200
# draws are ample, because a class rejects at most three quarters of its levels.
TRIES = 200
# Bit masks of the instructions on the two sides of a mission such as "a, then b".
LEFT_SIDE, RIGHT_SIDE = 0b0011, 0b1100
# Names of the kinds of levels whose mission has one instruction, by its verb.
KINDS_OF_VERBS = {m.GO_TO: "go_to", m.OPEN: "open", m.PICK_UP: "pick_up", m.PUT_NEXT: "put_next"}


@struct
class BabyLevel(Level):
    """Level whose field `task` is a mission, in the encoding of the module `mission`."""

    # Bit mask per cell: bit d is set if description d of the mission, such as "the red ball", fits
    # the object in the cell.
    marks: UInt8[Array, "height width"]


@struct
class BabyState(GridState):
    """State of a BabyAI level: the grid, the agent, and the progress of the mission."""

    # Bit mask per cell: bit d is set if description d of the mission fits the object in the cell.
    # The bits of an object that was picked up remain in its old cell until the next drop action.
    marks: UInt8[Array, "height width"]
    # Bits 0-3: which instructions are accomplished. Bits 4-7: which instructions a step has already
    # checked. Bits 8-15: marks of the carried object.
    progress: Int32[Array, ""]


class BabyEnv(RoomGrid):
    """Base class of BabyAI's levels: rooms, objects and a mission; subclasses define `draw`.

    Actions: 0 turn left, 1 turn right, 2 forward, 3 pick up, 4 drop, 5 toggle, 6 done (no effect).
    Observation (field `obs`): as in every grid world (`GridEnv`). In `dict`, `mission` is uint8
        (76,), the word ids of the mission. Each part of the sentence has fixed positions in this
        array, with word id 0 if the part is absent.
    Reward: 1 - 0.9 * steps / limit when the mission is accomplished, else 0. Episode ends: on
    success, in some levels on the wrong action, or at the time limit. Some levels have a fixed time
    limit. In other levels, the limit is room_size**2 * rooms steps for each place to which the
    mission sends the agent. The param `max_steps_in_episode` is then the limit of missions with the
    most places; missions with fewer places have a proportionally lower limit.
    """

    room_size: int = 8
    obs: str = "dict"

    mission_length: ClassVar[int] = m.LENGTH
    # How a batch makes levels for resets. "exact" generates levels only for environments whose
    # episode has ended, because a level costs more than a step and some levels are rejected.
    reset_source: ClassVar[str] = "exact"
    level_format: ClassVar[str] = "jaxenvs.babyai.leveltext.form"
    min_room_size: ClassVar[int] = 4
    verbs: ClassVar[tuple[int, ...]] = (m.GO_TO,)  # verbs that the missions can have
    # Largest number of places to which a mission sends the agent.
    # With 1, all missions have the same time limit.
    max_navigations: ClassVar[int] = 1
    # If not 0, the time limit is steps_per_cell * room_size**2 steps. If 0, the time limit is
    # proportional to the number of places to which the mission sends the agent.
    steps_per_cell: ClassVar[int] = 0

    # Method that subclasses define.

    @abstractmethod
    def draw(self, plan: Plan) -> UInt32[Array, " instructions"]:
        """Draw a level: add doors, objects and the agent to `plan`, and return the mission.

        The mission is in the encoding of the module `mission`. To reject the level, set
        `plan.accepted` to False.
        """
        raise NotImplementedError

    # Code that the base class defines for all levels.

    @property
    def max_steps(self) -> int:
        """Default time limit in steps, for missions that send the agent to the most places."""
        by_mission = self.max_navigations * self.num_rows * self.num_cols
        return (self.steps_per_cell or by_mission) * self.room_size**2

    def time_limit(self, state: Any, params: Params) -> ArrayLike:
        """Return the time limit in steps for the mission of a state.

        The limit is proportional to the number of places to which the mission sends the agent.
        """
        limit = params.max_steps_in_episode
        if self.max_navigations <= 1:
            return limit
        share, rest = limit // self.max_navigations, limit % self.max_navigations
        places = m.navigations(state.task)
        return share * places + rest * places // self.max_navigations

    def shortest_limit(self, params: Params) -> int:
        """Return the time limit of a mission that sends the agent to only one place."""
        return int(np.min(params.max_steps_in_episode)) // self.max_navigations

    def generate(self, key: Key) -> Level:
        """Draw the rooms, objects and mission of a level; `accepted` is False if it is rejected."""
        plan = Plan(self, key)
        mission = self.draw(plan)
        accepted = plan.accepted if self.level_budget > 1 else None
        return self.marked(plan.level(task=mission, accepted=accepted))

    def marked(self, level: Level) -> BabyLevel:
        """Return the level with the field `marks`, and with the bits `UNIQUE` in its mission.

        Bit d of a cell's marks is set if description d of the mission fits the object in the cell.
        The bit `UNIQUE` of a description is set if the description fits exactly one object.
        """
        # The barrier makes XLA generate the level only once. Without it, XLA would fuse level
        # generation into the code below, and generate the level again for each description.
        level = jax.lax.optimization_barrier(level)
        row, column, direction = (level.pose[i].astype(jnp.int32) for i in range(3))
        pose = m.Pose(row, column, direction, self.room_size - 1)
        # An instruction has two descriptions, and only `PUT_NEXT` uses the second one. Step 2 skips
        # the second descriptions.
        step = 1 if m.PUT_NEXT in self.verbs else 2
        what = m.descriptions(level.task)[::step]
        meant = m.fits(what, level.grid, *lines(*level.grid.shape), pose)
        bit = np.arange(0, step * len(what), step, dtype=np.uint8)[:, None, None]
        unique = meant.sum(axis=(1, 2), dtype=jnp.int32) == 1
        task = m.with_articles(level.task, jnp.repeat(unique, step))
        marks = (meant.astype(jnp.uint8) << bit).sum(axis=0, dtype=jnp.uint8)
        return BabyLevel(**vars(level.replace(task=task)), marks=marks)

    def reset_state(self, key: Key, level: Level, params: Params) -> BabyState:
        """Return the initial state; a level without marks, such as a handmade one, gets marks."""
        level = level if isinstance(level, BabyLevel) else self.marked(level)
        base = super().reset_state(key, level, params)
        return BabyState(**vars(base), marks=level.marks, progress=jnp.int32(0))

    def step_state(self, key: Key, state: Any, action: Array, params: Params) -> Transition:
        """Apply the action; then check whether the mission is accomplished or has failed.

        The marks of an object show which descriptions fit it; they move with the object.
        """
        after, _ = act(state, action, self.contents(state))
        after, scene = _moved_marks(state, after, action)
        after, success, failure = self._check(after, scene, action)
        reward = jnp.where(success, self.prize(after, params), 0.0)
        return Transition(after, reward, success | failure, self.info(after))

    @property
    def level_kinds(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on `verbs`
        """Verbs of the mission, if levels differ in it."""
        found = tuple(dict.fromkeys(KINDS_OF_VERBS[verb] for verb in self.verbs))
        return found if len(found) > 1 else ()

    def level_kind(self, state: Any) -> Int32[Array, ""]:
        """Return the kind of the state's mission; see `level_kinds`."""
        place = {kind: i for i, kind in enumerate(self.level_kinds)}
        of_verb = np.zeros(max(KINDS_OF_VERBS) + 1, np.int32)
        for verb, kind in KINDS_OF_VERBS.items():
            of_verb[verb] = place.get(kind, 0)
        verbs = m.verb(state.task).astype(jnp.int32)
        found = jnp.asarray(of_verb)[verbs[0]]
        for instruction, kind in ((1, "and"), (2, "sequence")):
            if kind in place and instruction < len(verbs):
                found = jnp.where(verbs[instruction] != m.NOTHING, place[kind], found)
        return found

    def aims(self, state: Any) -> tuple[Aim, ...]:
        """Return the necessary conditions of success, up to two for each instruction.

        The exact solver `jaxenvs.grid.oracle` computes lower bounds on the steps from them.
        """
        return mission_aims(state, m.PUT_NEXT in self.verbs)

    def ending(self, level: Level) -> Ending:
        """Return a level and the actions that accomplish its mission, for `jaxenvs check`.

        The level is a room with only the objects of its mission, which has one instruction.
        """
        ball, box, door = m.description(6, 0), m.description(7, 2), m.description(4, 0)
        red_ball, red_door = int(Kind.BALL), int(Kind.CLOSED_DOOR)
        blue_box = Kind.BOX | Colour.BLUE << 4
        word, things, actions = {
            m.GO_TO: (m.go_to(ball), (red_ball,), (Action.DONE,)),
            m.OPEN: (m.open_door(door), (red_door,), (Action.TOGGLE,)),
            m.PICK_UP: (m.pick_up(ball), (red_ball,), (Action.PICKUP,)),
            m.PUT_NEXT: (
                m.put_next(ball, box),
                (red_ball, blue_box),
                (Action.PICKUP, Action.DROP),
            ),
        }[self.verbs[0]]
        bare = jnp.full_like(level.grid, tiles.WALL).at[1:-1, 1:-1].set(tiles.EMPTY)
        task = jnp.zeros_like(level.task).at[0].set(word)
        # A `Level` has no field `marks`, unlike a `BabyLevel`; `reset_state` computes the marks.
        plain = Level(grid=bare, pose=level.pose, task=task, accepted=level.accepted)
        return Ending(plain.facing(*things), actions)

    def mission_words(self, state: Any) -> UInt8[Array, "76"]:
        """Return the text of the state's mission as word ids."""
        return m.words(state.task)

    def _check(
        self, state: BabyState, scene: "_Scene", action: Array
    ) -> tuple[BabyState, Bool[Array, ""], Bool[Array, ""]]:
        """Check which instructions of the mission the step accomplishes.

        A mission such as "a, then b" has two sides. The instructions of the side that has to be
        accomplished second are checked only once the other side is accomplished. Returns the state
        with new progress, whether the mission is accomplished, and whether it has failed.
        """
        mission = state.task
        exists, good, bad = 0, jnp.int32(0), jnp.int32(0)
        for i, word in enumerate(mission):
            begun = (state.progress >> (4 + i) & 1) != 0
            fine, wrong = self._check_one(word, i, begun, scene, action)
            exists = exists | ((m.verb(word) != m.NOTHING).astype(jnp.int32) << i)
            good = good | (fine.astype(jnp.int32) << i)
            bad = bad | (wrong.astype(jnp.int32) << i)
        first = exists & jnp.where(m.comes_after(mission), RIGHT_SIDE, LEFT_SIDE)
        second = exists & ~first
        done = state.progress & 15
        looked = first & ~done
        done = done | (looked & good)
        first_done = (first & ~done) == 0
        also = jnp.where(first_done, second & ~done, 0)
        done = done | (also & good)
        looked = looked | also
        success = first_done & ((second & ~done) == 0)
        # Bit mask of the instructions that "and" joins to another instruction. Such an
        # instruction cannot fail.
        joined = ((exists >> 1) & 0b0101) | ((exists & 0b0101) << 1)
        failure = (looked & bad & ~joined) != 0
        progress = (state.progress & ~15) | done | (looked << 4)
        return state.replace(progress=progress), success, failure

    def _check_one(
        self, word: Array, number: int, begun: Array, scene: "_Scene", action: Array
    ) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
        """Return whether this step accomplishes an instruction, and whether the instruction fails.

        word, number: the packed instruction, and its index in the mission.
        begun: whether an earlier step has already checked the instruction.
        """
        first, second = np.uint8(1 << 2 * number), np.uint8(1 << (2 * number + 1) % 8)
        good, bad = jnp.zeros((), jnp.bool_), jnp.zeros((), jnp.bool_)
        verb = m.verb(word)
        if m.GO_TO in self.verbs:
            good = good | ((verb == m.GO_TO) & ((scene.marks & first) != 0))
        if m.OPEN in self.verbs:
            toggled = (verb == m.OPEN) & (action == Action.TOGGLE)
            opened = toggled & (scene.kind == Kind.DOOR) & ((scene.marks & first) != 0)
            good, bad = good | opened, bad | (toggled & scene.faces_door & ~opened)
        if m.PICK_UP in self.verbs:
            holds = (verb == m.PICK_UP) & (action == Action.PICKUP) & scene.holds
            new = ~(begun & scene.held)
            taken = holds & new & ((scene.marks_held & first) != 0)
            good, bad = good | taken, bad | (holds & ~taken)
        if m.PUT_NEXT in self.verbs:
            put = (verb == m.PUT_NEXT) & (action == Action.DROP) & scene.dropped & begun
            what = (scene.marks_before & first) != 0
            good = good | (put & what & ((scene.marks_beside & second) != 0))
        return good, bad & m.is_strict(word)


class OneRoom(BabyEnv):
    """Base class of BabyAI's levels that consist of one room."""

    num_rows: int = 1
    num_cols: int = 1

    rooms_allowed: ClassVar[Ranges] = ((1, 1), (1, 1))


class TwoRooms(BabyEnv):
    """Base class of BabyAI's levels that consist of two rooms side by side."""

    num_rows: int = 1
    num_cols: int = 2

    rooms_allowed: ClassVar[Ranges] = ((1, 1), (2, 2))


def any_of(plan: Plan, *things: Thing) -> UInt8[Array, ""]:
    """Return the tile of an object that is drawn uniformly from `things`."""
    found = jnp.concatenate([jnp.atleast_1d(thing.tile) for thing in things])
    return found[plan.below(len(found))]


@struct
class _Scene:
    """Facts about one step that decide whether an instruction is accomplished or fails.

    Marks are bit masks as in `BabyState.marks`: bit d is set if description d fits the object.
    """

    # Bit d is set if description d of the mission fits the object in front of the agent.
    marks: UInt8[Array, ""]
    # Bit d is set if description d fits the object that the agent carries.
    marks_held: UInt8[Array, ""]
    # Bit d is set if description d fits the object that the agent carried before the action.
    marks_before: UInt8[Array, ""]
    # Bit d is set if description d fits an object next to the cell in front of the agent.
    marks_beside: UInt8[Array, ""]
    kind: UInt8[Array, ""]  # kind of the tile in front of the agent
    faces_door: Bool[Array, ""]  # whether a door is in front of the agent
    holds: Bool[Array, ""]  # whether the agent carries something
    held: Bool[Array, ""]  # whether the agent carried something before the action
    dropped: Bool[Array, ""]  # whether the action dropped an object


def _moved_marks(before: BabyState, after: Any, action: Array) -> tuple[BabyState, _Scene]:
    """Move the marks of an object with the object when the action picks it up or drops it.

    Returns the state with the new marks, and a `_Scene` with facts about the step for `_check_one`.
    """
    height, width = after.grid.shape
    d_row, d_column = direction_vector(after.direction)
    row = (after.row + d_row).clip(0, height - 1)
    column = (after.column + d_column).clip(0, width - 1)
    # Index of the cell in front of the agent, where an object is picked up or dropped.
    here = row * width + column
    marks, grid = before.marks.reshape(-1), after.grid.reshape(-1)
    held, holds = before.carried != 0, after.carried != 0
    dropped, taken = held & ~holds, holds & ~held
    marks_before = ((before.progress >> 8) & 0xFF).astype(jnp.uint8)
    old = marks.at[here].get(mode="promise_in_bounds")
    marks_held = jnp.where(taken, old, jnp.where(dropped, jnp.uint8(0), marks_before))
    # An empty cell may still have the marks of an object that was picked up there. A drop action
    # removes the marks of all empty cells, even if the agent carries nothing, as in MiniGrid.
    gone = (action == Action.DROP) & (grid == tiles.EMPTY)
    put = dropped & (np.arange(marks.size, dtype=np.int32) == here)
    marks = jnp.where(gone, jnp.uint8(0), jnp.where(put, marks_before, marks))
    front = grid.at[here].get(mode="promise_in_bounds")
    around = jnp.stack([here - width, here + width, here - 1, here + 1])
    beside = marks.at[around.clip(0, marks.size - 1)].get(mode="promise_in_bounds")
    kind = tiles.kind(front)
    cleared = (action == Action.DROP) & (front == tiles.EMPTY)
    scene = _Scene(
        marks=jnp.where(dropped, marks_before, jnp.where(cleared, jnp.uint8(0), old)),
        marks_held=marks_held,
        marks_before=marks_before,
        marks_beside=beside[0] | beside[1] | beside[2] | beside[3],
        kind=kind,
        faces_door=(kind == Kind.DOOR) | (kind == Kind.CLOSED_DOOR) | (kind == Kind.LOCKED_DOOR),
        holds=holds,
        held=held,
        dropped=dropped,
    )
    progress = (before.progress & 0xFF) | (marks_held.astype(jnp.int32) << 8)
    return after.replace(marks=marks.reshape(after.grid.shape), progress=progress), scene


def level(name: str, **fields: Any):  # type: ignore[no-untyped-def]
    """Return a class decorator that registers a level as `BabyAI-<name>`, MiniGrid's id."""
    return register(f"BabyAI-{name}", **fields)
