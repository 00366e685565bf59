"""BabyAI's levels with randomly generated missions of several instructions.

Source: MiniGrid 3.2 `envs/babyai/core/levelgen.py` and `envs/babyai/synth.py`. A mission names
objects by descriptions, such as "a red ball". Descriptions have MiniGrid's probabilities, but are
drawn only from those that fit an object. MiniGrid draws from all descriptions until one fits, and
rejects the level after 100 failures.
"""

from typing import ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32, UInt32

from ..core import checks
from ..core.random import below
from ..grid import tiles
from ..grid.plan import NUM_COLOURS, Plan, Thing
from ..grid.tiles import Kind
from . import mission as m
from .env import KINDS_OF_VERBS, TRIES, BabyEnv, level

VERBS = {"goto": m.GO_TO, "pickup": m.PICK_UP, "open": m.OPEN, "putnext": m.PUT_NEXT}
# Forms of missions: one instruction, two instructions joined by "and", or a sequence.
SHAPES = ("action", "and", "seq")
KINDS = np.array([Kind.BOX, Kind.BALL, Kind.KEY, Kind.DOOR], np.int32)
SEQUENCE, JOINED = "seq", "and"


@level("GoToSeq-v0", actions=("goto",), locked_prob=0.0, locations=False, unblocking=False)
@level(
    "GoToSeqS5R2-v0", actions=("goto",), locked_prob=0.0, locations=False, unblocking=False,
    room_size=5, num_rows=2, num_cols=2, num_dists=4,
)  # fmt: skip
@level(
    "PickupLoc-v0", actions=("pickup",), shapes=("action",), locked_prob=0.0, unblocking=False,
    num_rows=1, num_cols=1, num_dists=8,
)  # fmt: skip
@level("Synth-v0", shapes=("action",), locations=False, implicit_unlock=False)
@level(
    "SynthS5R2-v0", shapes=("action",), locations=False, implicit_unlock=False,
    room_size=5, num_rows=2,
)  # fmt: skip
@level("SynthLoc-v0", shapes=("action",), implicit_unlock=False)
@level("SynthSeq-v0", implicit_unlock=False)
@level("MiniBossLevel-v0", locked_prob=0.25, room_size=5, num_rows=2, num_cols=2, num_dists=7)
@level("BossLevel-v0")
@level("BossLevelNoUnlock-v0", locked_prob=0.0, implicit_unlock=False)
class LevelGen(BabyEnv):
    """Follow a mission of one to four instructions in a maze of rooms; one room may be locked."""

    num_dists: int = 18  # number of objects in the maze
    locked_prob: float = 0.5  # probability that one room is locked
    locations: bool = True  # whether descriptions may name a place, such as "on your left"
    unblocking: bool = True  # whether objects may block the way, so that the agent must move them
    # Whether the mission may name an object that exists only in the locked room. The agent then has
    # to unlock the room, although the mission does not say so.
    implicit_unlock: bool = True
    actions: tuple[str, ...] = tuple(VERBS)  # actions that an instruction can ask for
    # Forms of missions: "action" is one instruction, "and" joins two, "seq" is a sequence.
    shapes: tuple[str, ...] = SHAPES

    level_budget: ClassVar[int] = TRIES

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("LevelGen", "num_dists", self.num_dists, 1)
        if not 0.0 <= self.locked_prob <= 1.0:
            raise ValueError(f"LevelGen: locked_prob={self.locked_prob} must be between 0 and 1")
        if self.num_rows * self.num_cols == 1 and (self.locked_prob or "open" in self.actions):
            raise ValueError(
                "LevelGen: one room has no doors; give locked_prob=0.0 and actions without 'open'"
            )
        for name, allowed in (("actions", tuple(VERBS)), ("shapes", SHAPES)):
            given = getattr(self, name)
            if not given or not isinstance(given, tuple):
                raise ValueError(f"LevelGen: {name}={given!r} must be a tuple of {allowed}")
            for entry in given:
                checks.one_of("LevelGen", name, entry, allowed)

    @property
    def verbs(self) -> tuple[int, ...]:  # type: ignore[override]  # depends on the field `actions`
        """Verbs that the missions can have, as selected by the field `actions`."""
        return tuple(VERBS[action] for action in self.actions)

    @property
    def instructions(self) -> int:
        """Largest number of instructions of a mission."""
        return 4 if SEQUENCE in self.shapes else 2 if JOINED in self.shapes else 1

    @property
    def max_navigations(self) -> int:  # type: ignore[override]  # depends on `shapes` and `actions`
        """Largest number of places that a mission sends the agent to."""
        return self.instructions * (2 if "putnext" in self.actions else 1)

    @property
    def level_kinds(self) -> tuple[str, ...]:  # type: ignore[override]  # depends on two fields
        """Forms of missions, in which missions of one instruction are divided by their verbs."""
        alone = super().level_kinds or (KINDS_OF_VERBS[self.verbs[0]],)
        parts = {"action": alone, JOINED: ("and",), SEQUENCE: ("sequence",)}
        found = tuple(kind for shape in SHAPES if shape in self.shapes for kind in parts[shape])
        return found if len(found) > 1 else ()

    def draw(self, plan: Plan) -> UInt32[Array, " instructions"]:
        """Draw the doors, objects and agent into `plan`; then draw a mission and return it.

        As in MiniGrid, reject the level (set `plan.accepted` to False) if its mission is invalid.
        Without `unblocking`, reject it also if the agent cannot reach every object.
        """
        locked, colour = self._locked_room(plan)
        plan.connect_all()
        plan.add_distractors(self.num_dists, unique=False)
        plan.place_agent(avoid_room=locked)
        if not self.unblocking:
            plan.accepted = plan.accepted & plan.all_reachable()
        return self._mission(plan, locked, colour)

    def _locked_room(self, plan: Plan) -> tuple[Int32[Array, ""], Int32[Array, ""]]:
        """Lock a room with probability `locked_prob`, and place its key in another room.

        Returns the index of the locked room, or -1 if no room is locked, and the colour of its
        door.
        """
        if self.locked_prob == 0.0:
            return jnp.int32(-1), jnp.int32(0)
        threshold = jnp.uint32(min(round(self.locked_prob * 2**32), 2**32 - 1))
        present = plan.words(1)[0] < threshold
        wall = plan.pick(plan.has_neighbour)
        room, colour = wall // 4, plan.colour()
        plan.add_door(room, wall % 4, colour, locked=True, present=present)
        elsewhere = plan.pick(jnp.arange(plan.num_rooms, dtype=np.int32) != room)
        plan.place(elsewhere, tiles.tile(Kind.KEY, colour), present=present)
        return jnp.where(present, room, -1), colour

    def _mission(self, plan: Plan, locked: Array, colour: Array) -> UInt32[Array, " n"]:
        count = self.instructions
        exists, after = self._shape(plan)
        verbs = jnp.asarray(self.verbs, jnp.int32)[below(plan.words(count), len(self.verbs))]
        verbs = jnp.where(exists, verbs, m.NOTHING)
        needed = jnp.stack([exists, verbs == m.PUT_NEXT], axis=-1).reshape(-1)
        things = plan.all_objects()
        pose = m.Pose(plan.row, plan.column, plan.direction, self.room_size - 1)
        what = self._descriptions(plan, things, pose, verbs, needed, locked)
        meant = m.fits(what, things.tile, things.row, things.column, pose)
        plan.accepted = plan.accepted & ~_clashes(verbs, meant, things).any()
        # With `unblocking`, reject levels whose mission names the key of the locked door, as
        # MiniGrid does. The agent may need this key to open the door.
        if self.unblocking:
            key = jnp.asarray(m.description(Kind.KEY, colour)) & jnp.uint32(0x3F)
            of_door = needed & ((what & jnp.uint32(0x3F)) == key) & (locked >= 0)
            plan.accepted = plan.accepted & ~of_door.any()
        first, second = what[0::2], what[1::2]
        words = m.instruction(verbs, first, jnp.where(needed[1::2], second, jnp.uint32(0)))
        words = jnp.where(exists, words, jnp.uint32(0))
        return words if count < 4 else words.at[2].add(after.astype(jnp.uint32) << m.AFTER)

    def _shape(self, plan: Plan) -> tuple[Bool[Array, " n"], Bool[Array, ""]]:
        """Draw the number of instructions of the mission, and how they are joined.

        Returns a mask of the instructions that exist, and whether the mission has the form "left
        side after right side".
        """
        index = jnp.asarray([SHAPES.index(s) for s in self.shapes])[plan.below(len(self.shapes))]
        one, sequence = index == SHAPES.index("action"), index == SHAPES.index(SEQUENCE)
        left = jnp.where(sequence, plan.coin(), ~one)
        exists = jnp.stack([jnp.ones((), jnp.bool_), left, sequence, sequence & plan.coin()])
        return exists[: self.instructions], sequence & plan.coin()

    def _descriptions(
        self, plan: Plan, things: Thing, pose: m.Pose, verbs: Array, needed: Array, locked: Array
    ) -> UInt32[Array, " two_n"]:
        """Draw two descriptions per instruction, each from those that fit an object of the level.

        needed: mask of the descriptions that the mission uses. The level is rejected if one of
            these descriptions cannot be drawn, because no object in the level suits its
            instruction.
        """
        # A description names no place (`ANYWHERE`) with probability 1/2. Four copies of `ANYWHERE`
        # make it as probable as the four places together.
        places = [m.ANYWHERE] * 4 + [m.FRONT, m.BEHIND, m.ON_LEFT, m.ON_RIGHT]
        places = np.array(places if self.locations else places[:1], np.int32)
        kind, colour, place = np.meshgrid(
            KINDS, np.arange(NUM_COLOURS + 1, dtype=np.int32), places, indexing="ij"
        )
        all_of_them = m.description(kind.ravel(), colour.ravel(), place.ravel())
        fit = m.fits(all_of_them, things.tile, things.row, things.column, pose)
        if not self.implicit_unlock:
            fit = fit & ~plan.inside(locked, things)
        door = jnp.asarray(kind.ravel() == Kind.DOOR)
        verb = jnp.repeat(verbs, 2)[:, None]
        second = jnp.asarray(np.arange(2 * self.instructions, dtype=np.int32) % 2 == 1)[:, None]
        # `OPEN` needs a door. `PICK_UP` needs an object that is no door, and so does `PUT_NEXT` for
        # its first object.
        of_kind = jnp.where(verb == m.OPEN, door, ~door)
        of_kind = of_kind | (verb == m.GO_TO) | second
        allowed = of_kind & fit.any(axis=-1)
        plan.accepted = plan.accepted & (allowed.any(axis=-1) | ~needed).all()
        return all_of_them[plan.pick_each(allowed)]


def _clashes(
    verbs: Int32[Array, " n"], meant: Bool[Array, "two_n things"], things: Thing
) -> Bool[Array, " n"]:
    """Return a mask of the `PUT_NEXT` instructions that make the level invalid.

    An instruction makes the level invalid if an object fits both of its descriptions, or if an
    object that fits the first description lies next to an object that fits the second.
    """
    what, where = meant[0::2], meant[1::2]
    apart = abs(things.row[:, None] - things.row) + abs(things.column[:, None] - things.column)
    beside = (what[:, :, None] & where[:, None, :] & (apart == 1)).any(axis=(1, 2))
    return (verbs == m.PUT_NEXT) & (beside | (what & where).any(axis=1))
