"""Texts about grid worlds for players: action keys, facts, and descriptions of observations.

The facts are the mission and the carried object. A viewer shows them in a panel next to the grid.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Array

from ..core import surroundings
from ..core.checks import counted
from ..core.controls import ActionKeys, keyed
from ..core.facts import Fact, a
from ..core.surroundings import Palette, Thing, Writer
from ..core.texts import Memo, changes_of, pairs, row_bytes
from . import missions, tiles
from .sprites import SPRITES
from .state import GridState
from .tiles import Colour, Kind

if TYPE_CHECKING:
    from .env import GridEnv

KEYS: tuple[ActionKeys, ...] = keyed(  # keys that perform each action, in the order of `Action`
    ("left", "left, a"),
    ("right", "right, d"),
    ("forward", "up, w"),
    ("pick up", "tab"),
    ("drop", "q, left shift"),
    ("toggle", "space, e"),
    ("done", "return"),
)
HEADINGS = ("right", "down", "left", "up")
# Letter of each kind of tile in a text drawing; the letter of the tile's colour comes after it.
LETTERS = {
    Kind.FLOOR: "f",
    Kind.DOOR: "D",
    Kind.CLOSED_DOOR: "C",
    Kind.LOCKED_DOOR: "L",
    Kind.KEY: "k",
    Kind.BALL: "o",
    Kind.BOX: "x",
    Kind.KEY_BOX: "x",
}
PLAIN_SIGNS = {0: "?", tiles.EMPTY: ".", tiles.WALL: "#", tiles.GOAL: "G", tiles.LAVA: "~"}
NAMES = SPRITES.names  # names of tiles, indexed by tile byte


def observation_layout(size: int) -> tuple[tuple[str, str], ...]:
    """Return (index, meaning) pairs that explain the arrays of all observations.

    `size` is the number of cells per side of the view.
    """
    kinds = ", ".join(f"{kind.value} {kind.name.lower()}" for kind in tiles.Kind if kind <= 10)
    colours = ", ".join(f"{c.value} {c.name.lower()}" for c in tiles.Colour)
    return (
        ("`image[across, ahead]`", f"the agent at [{size // 2}, {size - 1}], looking to row 0"),
        ("`image[..., 0]`", kinds),
        ("`image[..., 1]`", colours),
        ("`image[..., 2]`", "of a door: 0 open, 1 closed, 2 locked"),
        ("`full[column, row]`", "as `image`; the agent is (10, 0, direction)"),
        ("`onehot[..., 0:11]`", "`image[..., 0]`; then 11 to 16 the colour, 17 to 19 the door"),
        ("`direction`", "0 right, 1 down, 2 left, 3 up"),
        ("`mission`", "word ids, see `jaxenvs.grid.missions.WORDS`; padded with 0"),
    )


def facts(env: "GridEnv", state: GridState) -> tuple[Fact, ...]:
    """Return the facts for the panel of the viewer: the mission and the carried object."""
    mission, carried = env.mission_text(state), int(state.carried)
    held = Fact("carries", _thing(carried) or "nothing", "icon", icon=NAMES[carried])
    return (Fact("mission", mission, "sentence"), held) if mission else (held,)


def text_inputs(env: "GridEnv", state: GridState) -> dict[str, Array]:
    """Return the arrays that `texts` turns into words: cells, agent, carried object, mission.

    The cells are the whole grid if the observation shows the whole grid, else the agent's view.
    """
    inputs = {
        **surroundings.inputs_of(env, state, _is_whole(env)),
        "mission": env.mission_words(state),
    }
    if env.obs == "dict":
        inputs["facing"] = state.facing
    return inputs


def texts(env: "GridEnv", inputs: dict[str, np.ndarray], detail: str) -> list[str]:
    """Describe observations in words; add a drawing made of characters if `detail` is "full".

    A text names the mission, the carried object and the objects in sight. The drawing shows the
    whole grid if the observation shows the whole grid, else the agent's view.
    """
    found = descriptions(env, inputs, is_drawn=detail == "full")
    if detail == "full":
        return ["\n".join(one.lines()) for one in found]
    return ["\n".join(one.short()) for one in found]


class Description(NamedTuple):
    """The sentences and the drawing that make up the text about one state."""

    mission: str  # sentence with the mission; "" if the environment has none
    carried: str
    faces: str  # sentence about the agent's direction; "" if it is not observed
    things: list[Thing]  # objects in sight
    ahead: str  # sentence about the first obstacle or object in each direction
    drawing: str

    def lines(self) -> list[str]:
        """Return the lines of the full text."""
        head = [line for line in (self.mission, self.carried, self.faces) if line]
        return [*head, surroundings.sighted(self.things), self.ahead, self.drawing]

    def short(self) -> list[str]:
        """Return the lines of the short text: at most three, without the drawing."""
        have = " ".join(filter(None, (self.carried, self.faces, surroundings.sighted(self.things))))
        return [line for line in (self.mission, have, self.ahead) if line]


def descriptions(
    env: "GridEnv", inputs: dict[str, np.ndarray], is_drawn: bool = True
) -> list[Description]:
    """Return a description of each state of a batch; its drawing is "" unless `is_drawn`."""
    count = len(inputs["cells"])
    found: list[Any] = [None] * count
    whole = _is_whole(env)
    cells = inputs["cells"].reshape(count, -1)
    words, carried = row_bytes(inputs["mission"]), inputs["carried"].tolist()
    facing = inputs["agent"][:, 2] if whole else inputs.get("facing")
    faces = (
        [""] * count if facing is None else [f"You face {HEADINGS[i]}." for i in facing.tolist()]
    )
    where = "The whole grid" if whole else "Your view, ahead is up"
    for pose, rows in surroundings.groups(inputs["agent"]):
        frame, some = surroundings.frame_of(inputs["cells"].shape[1:], *pose), cells[rows]
        if not whole:
            # A view shows the carried object in the agent's cell. Clear this cell, so that the text
            # does not say that the object lies in the room.
            some[:, frame.agent] = tiles.EMPTY
        drawings = WRITER.drawings(some, frame, pose[2], where) if is_drawn else [""] * len(rows)
        lines = WRITER.lines(some, frame, 4 if whole else 3)
        parts = zip(rows.tolist(), WRITER.things(some, frame), lines, drawings, strict=True)
        for i, things, ahead, drawing in parts:
            head = _MISSIONS[words[i]], _CARRIED[carried[i]], faces[i]
            found[i] = Description(*head, things, ahead, drawing)
    return found


def changes(env: "GridEnv", old: dict[str, np.ndarray], new: dict[str, np.ndarray]) -> list[str]:
    """Describe for each state what differs between its observations in `old` and in `new`."""
    return [_changes(*pair) for pair in pairs(descriptions(env, old), descriptions(env, new))]


def _changes(old: Description, new: Description) -> str:
    sentences = [new.mission] if new.mission != old.mission else []
    if new.carried != old.carried:
        sentences.append(new.carried.replace("You carry", "You now carry"))
    if new.faces != old.faces:
        sentences.append(new.faces.replace("You face", "You now face"))
    sentences += surroundings.sighting_changes(old.things, new.things)
    if new.ahead != old.ahead:
        sentences.append(new.ahead)
    return changes_of(sentences, old.drawing != new.drawing, surroundings.CELLS_CHANGED)


def _is_whole(env: "GridEnv") -> bool:
    return env.obs in ("full", "rgb_full")


def _sign(tile: int) -> str:
    """Return the characters that stand for a tile in a text drawing."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    colour = tiles.shown_colour(tile)
    return LETTERS[Kind(tile & 15)] + ("e" if colour == Colour.GREY else colour.name[0].lower())


def _meaning(tile: int) -> str:
    return {tiles.EMPTY: "free", Kind.UNSEEN: "not seen"}.get(tile, NAMES[tile])


def _is_object(tile: int) -> bool:
    return NAMES.get(tile, "") not in ("", "wall") and tile & 15 != Kind.FLOOR


def _thing(tile: int) -> str:
    """Return the name of a tile with an article, such as "a red key"; lava has no article."""
    name = NAMES[tile]
    return name if name in ("", "lava") else a(name)


def _line(line: bytes) -> str:
    """Describe a line of cells: the number of free cells, then the first tile that is not free."""
    free = 0
    for free, tile in enumerate(line):
        if tile != tiles.EMPTY and tile & 15 != Kind.FLOOR:
            end = _thing(tile) or "what you cannot see"
            return f"{counted(free, 'free cell')}, then {end}" if free else end
    return f"{counted(free + 1, 'free cell')}, then the edge of your view"


WRITER = Writer(Palette(_sign, _meaning, _thing, np.array([*map(_is_object, range(256))])), _line)
_CARRIED = Memo(lambda tile: f"You carry {_thing(tile) or 'nothing'}.")
_MISSIONS = Memo(lambda words: _mission(missions.text(np.frombuffer(words, np.uint8))))


def _mission(text: str) -> str:
    return f"Mission: {text}." if text else ""
