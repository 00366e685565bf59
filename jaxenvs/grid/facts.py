"""Grid worlds for people: keys, names of things, facts for the panel, and a state in words."""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..core.checks import counted
from ..core.controls import ActionKeys, keyed
from ..core.facts import Fact, a, away, drawn, listed
from . import missions, sprites, tiles
from .state import GridState
from .tiles import Colour, Kind

if TYPE_CHECKING:
    from .env import GridEnv

KEYS: tuple[ActionKeys, ...] = keyed(  # in the order of `Action`
    ("left", "left, a"),
    ("right", "right, d"),
    ("forward", "up, w"),
    ("pick up", "tab"),
    ("drop", "q, left shift"),
    ("toggle", "space, e"),
    ("done", "return"),
)
PLAIN = {tiles.GOAL: "goal", tiles.LAVA: "lava", tiles.WALL: "wall"}  # colours tell nothing
STATES = {Kind.DOOR: "open ", Kind.CLOSED_DOOR: "closed ", Kind.LOCKED_DOOR: "locked "}
NOUNS = {Kind.KEY_BOX: "box", **dict.fromkeys(STATES, "door")}
HEADINGS = ("right", "down", "left", "up")
AGENT = ">v<^"
# First letter of a cell in a drawing; the colour's follows.
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

Cells = dict[tuple[int, int], int]  # (steps ahead, steps to the right) of the agent -> tile


def _colour(kind: Kind, tile: int) -> Colour:
    """What is seen; the colour of a box with a key is that of the key in it."""
    return Colour.GREY if kind == Kind.KEY_BOX else Colour(tile >> 4)


def _name(tile: int) -> str:
    """Name what a cell shows, such as `locked red door`; "" for empty and unseen cells."""
    kind = Kind(tile & 15)
    if tile in PLAIN or kind in (Kind.UNSEEN, Kind.EMPTY):
        return PLAIN.get(tile, "")
    noun = NOUNS.get(kind, kind.name.lower())
    return f"{STATES.get(kind, '')}{_colour(kind, tile).name.lower()} {noun}"


def _sign(tile: int) -> str:
    """The letters of a cell in a drawing."""
    if tile in PLAIN_SIGNS:
        return PLAIN_SIGNS[tile]
    kind = Kind(tile & 15)
    colour = _colour(kind, tile)
    return LETTERS[kind] + ("e" if colour == Colour.GREY else colour.name[0].lower())


NAMES = {tile: _name(tile) for tile in sprites.VALID_CODES}
SIGNS = {**{_sign(tile): name for tile, name in NAMES.items()}, ".": "free", "?": "not seen"}


def facts(env: "GridEnv", state: GridState) -> tuple[Fact, ...]:
    """The mission, and what the agent carries."""
    mission, carried, *_ = _read(env, state)
    held = Fact("carries", _thing(carried) or "nothing", "icon", icon=NAMES[carried])
    return (Fact("mission", mission, "sentence"), held) if mission else (held,)


def icon(name: str, size: int) -> np.ndarray | None:
    """The sprite of a named thing, uint8 (size, size, 3); None where nothing has that name."""
    tile = next((tile for tile, other in NAMES.items() if name and other == name), None)
    return None if tile is None else sprites.atlas(size)[tile]


def describe(env: "GridEnv", state: GridState) -> str:
    """Describe the mission and what the agent carries and sees; draw its view or the grid."""
    mission, carried, direction, view, grid, row, column = _read(env, state)
    whole = env.obs in ("full", "rgb_full")
    cells = _around(grid, row, column, direction) if whole else _in_view(view)
    sentences = [f"Mission: {mission}."] if mission else []
    sentences.append(f"You carry {_thing(carried) or 'nothing'}.")
    if whole or env.obs == "dict":  # otherwise not in the observation
        sentences.append(f"You face {HEADINGS[direction]}.")
    sentences += [_sighted(cells), _lines_of_sight(cells, whole)]
    at, shown = ((row, column), grid) if whole else ((-1, len(view) // 2), view.T)
    picture = [[_sign(tile) for tile in line] for line in shown.tolist()]
    picture[at[0]][at[1]] = you = AGENT[direction] if whole else "^"
    where = "The whole grid" if whole else "Your view, ahead is up"
    others = sorted({sign for line in picture for sign in line} - {you})
    meanings = ", ".join(f"{sign} {SIGNS[sign]}" for sign in others)
    return "\n".join([*sentences, f"{where}; {you} is you, {meanings}:", drawn(picture)])


def _read(env: "GridEnv", state: GridState) -> tuple[Any, ...]:
    """Mission, tile carried, direction, view, grid, row and column, as text and on the host."""
    read = jax.device_get(_reader(env)(state))
    words, carried, direction, view, grid, row, column = read
    return missions.text(words), int(carried), int(direction), view, grid, int(row), int(column)


@functools.lru_cache(maxsize=64)
def _reader(env: "GridEnv") -> Callable[[GridState], tuple[Any, ...]]:
    def reader(state: GridState) -> tuple[Any, ...]:
        agent = state.carried, state.direction, env.view(state), state.grid, state.row, state.column
        return env.mission_words(state), *agent

    return jax.jit(reader)


def _in_view(view: np.ndarray) -> Cells:
    size = len(view)
    places = ((across, row) for across in range(size) for row in range(size))
    cells = {(size - 1 - row, across - size // 2): int(view[across, row]) for across, row in places}
    return {**cells, (0, 0): tiles.EMPTY}  # the agent's cell shows what it carries


def _around(grid: np.ndarray, row: int, column: int, direction: int) -> Cells:
    down, right = ((0, 1), (1, 0), (0, -1), (-1, 0))[direction]
    cells = {}
    for (r, c), tile in np.ndenumerate(grid):
        d_row, d_column = r - row, c - column
        ahead, aside = d_row * down + d_column * right, d_row * right - d_column * down
        cells[ahead, aside] = int(tile)
    return cells


def _thing(tile: int) -> str:
    """A tile with its article; lava has none."""
    name = NAMES[tile]
    return name if name in ("", "lava") else a(name)


def _sighted(cells: Cells) -> str:
    """Objects in sight, the nearest first."""
    found = [
        (abs(ahead) + abs(right), -ahead, right, tile)
        for (ahead, right), tile in cells.items()
        if NAMES[tile] and tile != tiles.WALL and tile & 15 != Kind.FLOOR
    ]
    places = (f"{_thing(t)} {away(-behind, right)}" for _, behind, right, t in sorted(found))
    return f"You see {listed(places)}." if found else "You see no objects."


def _lines_of_sight(cells: Cells, whole: bool) -> str:
    """Count the free cells in each direction, and name what comes after them."""
    ways = {"Ahead": (1, 0), "to the left": (0, -1), "to the right": (0, 1)}
    if whole:
        ways["behind"] = (-1, 0)
    return "; ".join(f"{way}: {_line(cells, *step)}" for way, step in ways.items()) + "."


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
