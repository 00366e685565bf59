"""BabyAI's levels with missions to open doors.

Source: MiniGrid 3.2 `envs/babyai/open.py`.
"""

from typing import ClassVar

import jax.numpy as jnp
from jaxtyping import Array, UInt32

from ..core import checks
from ..grid.plan import Plan
from ..grid.rooms import LEFT, RIGHT, Ranges
from ..grid.tiles import Colour, Kind
from . import mission as m
from .env import TRIES, BabyEnv, TwoRooms, level

COLOURS = tuple(colour.name.lower() for colour in Colour)


@level("Open-v0")
class Open(BabyEnv):
    """Open a door of the named colour somewhere in a maze of rooms."""

    num_dists: int = 18  # number of objects in the maze

    rooms_allowed: ClassVar[Ranges] = ((2, 8), (2, 8))
    level_budget: ClassVar[int] = TRIES
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add doors, objects and the agent; return the mission to open one of the doors.

        Reject the level if the agent cannot reach every object.
        """
        plan.place_agent()
        plan.connect_all()
        plan.add_distractors(self.num_dists, unique=False)
        plan.accepted = plan.accepted & plan.all_reachable()
        door = plan.doors[plan.pick(plan.doors != 0)]
        return m.single(m.open_door(m.like(door)))


@level("OpenRedDoor-v0")
class OpenRedDoor(TwoRooms):
    """Open the red door between two rooms."""

    room_size: int = 5

    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add the red door and the agent in the left room; return the mission to open this door."""
        door = plan.add_door(0, RIGHT, Colour.RED, locked=False)
        plan.place_agent(0)
        return m.single(m.open_door(m.like(door.tile)))


@level("OpenDoor-v0")
@level("OpenDoorDebug-v0", debug=True)
@level("OpenDoorColor-v0", select_by="color")
@level("OpenDoorLoc-v0", select_by="loc")
class OpenDoor(BabyEnv):
    """Open one of the four doors of a room; the mission names the door's colour or place."""

    # How the mission names the door: "color", or "loc" for its place, such as "on your left".
    # "any" is "color" or "loc" with equal probability.
    select_by: str = "any"
    # Whether the mission fails if the agent toggles a door that it does not have to open.
    debug: bool = False

    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.one_of("OpenDoor", "select_by", self.select_by, ("any", "color", "loc"))

    def draw(self, plan: Plan) -> UInt32[Array, "1"]:
        """Add four doors of different colours to the middle room, and place the agent there.

        Return the mission to open one of the doors; it names the door by colour or by place.
        """
        colours = plan.colours(4)
        doors = [plan.add_door(plan.middle, side, colours[side], locked=False) for side in range(4)]
        by_colour = m.like(doors[0].tile)
        by_place = m.description(Kind.DOOR, place=m.FRONT + plan.below(4))
        chosen = {"color": True, "loc": False}.get(self.select_by, plan.coin())
        plan.place_agent(plan.middle)
        what = jnp.where(chosen, by_colour, by_place)
        return m.single(m.open_door(what, strict=self.debug))


@level("OpenTwoDoors-v0")
@level("OpenRedBlueDoors-v0", first_color="red", second_color="blue")
@level("OpenRedBlueDoorsDebug-v0", first_color="red", second_color="blue", strict=True)
class OpenTwoDoors(BabyEnv):
    """Open the left door of a room, then the right door; the mission names their colours."""

    room_size: int = 6
    first_color: str = "any"  # colour of the left door; random if "any"
    second_color: str = "any"  # colour of the right door; random if "any"
    strict: bool = False  # whether the mission fails if the right door is toggled first

    steps_per_cell: ClassVar[int] = 20
    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        for name in ("first_color", "second_color"):
            checks.one_of("OpenTwoDoors", name, getattr(self, name), ("any", *COLOURS))

    def draw(self, plan: Plan) -> UInt32[Array, "3"]:
        """Add a door to the left and the right wall of the middle room; place the agent there.

        Return the mission to open the left door and then the right door.
        """
        drawn = plan.colours(2)
        doors = []
        names = (self.first_color, self.second_color)
        for name, side, colour in zip(names, (LEFT, RIGHT), drawn, strict=True):
            given = colour if name == "any" else COLOURS.index(name)
            doors.append(plan.add_door(plan.middle, side, given, locked=False))
        plan.place_agent(plan.middle)
        first, second = (m.like(door.tile) for door in doors)
        return m.sequence(m.open_door(first, strict=self.strict), m.open_door(second))


@level("OpenDoorsOrderN2-v0")
@level("OpenDoorsOrderN4-v0", num_doors=4, representative=True)
@level("OpenDoorsOrderN2Debug-v0", debug=True)
@level("OpenDoorsOrderN4Debug-v0", num_doors=4, debug=True)
class OpenDoorsOrder(BabyEnv):
    """Open one door of a room, or two doors in the order that the mission gives."""

    room_size: int = 6
    num_doors: int = 2  # number of doors of the room; their colours differ
    # Whether the mission fails if the agent toggles a door other than the one to open next.
    debug: bool = False

    steps_per_cell: ClassVar[int] = 20
    rooms_allowed: ClassVar[Ranges] = ((3, 8), (3, 8))
    bounds: ClassVar[dict[str, tuple[int, int]]] = {"num_doors": (2, 4)}
    verbs: ClassVar[tuple[int, ...]] = (m.OPEN,)

    def draw(self, plan: Plan) -> UInt32[Array, "3"]:
        """Add doors of different colours to the middle room; place the agent; return the mission.

        The mission is to open one door, or two doors in the order "door a, then door b" or "door a
        after door b", each with probability 1/3.
        """
        colours = plan.colours(self.num_doors)
        doors = [plan.add_door(plan.middle, None, colour, locked=False) for colour in colours]
        plan.place_agent(plan.middle)
        tile = jnp.stack([door.tile for door in doors])[plan.sample(self.num_doors, 2)]
        first, second = (m.open_door(m.like(x), strict=self.debug) for x in tile)
        mode = plan.below(3)
        both = m.sequence(first, second, after=mode == 2)
        return jnp.where(mode == 0, m.sequence(first, jnp.zeros_like(second)), both)
