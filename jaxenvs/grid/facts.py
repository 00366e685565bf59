"""Text about grid worlds for people.

The module has the keys of the actions, the facts in the panel of the viewer, and descriptions of
observations and states in words.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..core.checks import counted
from ..core.controls import ActionKeys, keyed
from ..core.facts import Fact, a
from ..core.surroundings import Cells, cells_of, drawing, scene_of, sighted
from . import tiles
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
# Letter of each kind of tile in a text drawing. A letter for the tile's colour follows it.
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


def describe(env: "GridEnv", state: GridState) -> str:
    """Describe the observation in words, followed by a drawing made of characters.

    The text names the mission, the carried object and the objects in sight. The drawing shows the
    whole grid if the observation does, else the agent's view.
    """
    mission, scene = env.mission_text(state), scene_of(env, state)
    whole = env.obs in ("full", "rgb_full")
    cells = cells_of(scene, whole)
    if not whole:
        # In a view, the agent's cell shows the carried object, which does not lie on the floor.
        cells[0, 0] = tiles.EMPTY
    sentences = [f"Mission: {mission}."] if mission else []
    sentences.append(f"You carry {_thing(scene.carried) or 'nothing'}.")
    if whole or env.obs == "dict":  # only these observations contain the direction
        sentences.append(f"You face {HEADINGS[scene.facing]}.")
    objects = {at: tile for at, tile in cells.items() if _is_object(tile)}
    sentences += [sighted(objects, _thing), _lines_of_sight(cells, whole)]
    return "\n".join([*sentences, drawing(scene, whole, _sign, _meaning)])


def _sign(tile: int) -> str:
    """Return the characters that stand for a cell in a text drawing."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    colour = tiles.shown_colour(tile)
    return LETTERS[Kind(tile & 15)] + ("e" if colour == Colour.GREY else colour.name[0].lower())


def _meaning(tile: int) -> str:
    return {tiles.EMPTY: "free", Kind.UNSEEN: "not seen"}.get(tile, NAMES[tile])


def _is_object(tile: int) -> bool:
    return NAMES[tile] not in ("", "wall") and tile & 15 != Kind.FLOOR


def _thing(tile: int) -> str:
    """Return the name of a tile with an article, such as "a red key"; lava has no article."""
    name = NAMES[tile]
    return name if name in ("", "lava") else a(name)


def _lines_of_sight(cells: Cells, whole: bool) -> str:
    """Describe in words, for each direction, the number of free cells and the tile after them."""
    directions = {"Ahead": (1, 0), "to the left": (0, -1), "to the right": (0, 1)}
    if whole:
        directions["behind"] = (-1, 0)
    lines = (f"{name}: {_line(cells, *step)}" for name, step in directions.items())
    return "; ".join(lines) + "."


def _line(cells: Cells, ahead: int, right: int) -> str:
    free = 0
    for free, tile in enumerate(_along(cells, ahead, right)):
        if tile != tiles.EMPTY and tile & 15 != Kind.FLOOR:
            end = _thing(tile) or "what you cannot see"
            return f"{counted(free, 'free cell')}, then {end}" if free else end
    return f"{counted(free + 1, 'free cell')}, then the edge of your view"


def _along(cells: Cells, ahead: int, right: int) -> Iterator[int]:
    at = (ahead, right)
    while at in cells:
        yield cells[at]
        at = (at[0] + ahead, at[1] + right)
