"""Keyboard keys of Craft-Classic, facts for the window's panel, and text descriptions of states."""

import functools
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from ..core.controls import ActionKeys
from ..core.facts import Fact, a, away, bar, count, drawn, listed
from .look import gear, sprites
from .sight import channels
from .state import CraftState, World
from .tables import VITALS, Action, Block, Rules, blocks

if TYPE_CHECKING:
    from .env import CraftEnv


def keys_of(text: str, **does: str) -> tuple[ActionKeys, ...]:
    """Parse the keys of all actions, in the order of `Action`.

    Spaces separate actions, and `/` separates alternative keys of one action. `does` replaces the
    displayed description of the actions that it names.
    """
    named = zip((action.name.lower() for action in Action), text.split(), strict=False)
    return tuple(
        ActionKeys(name.replace("_", " "), tuple(keys.split("/")), does.get(name, ""))
        for name, keys in named
    )


KEYS = keys_of(  # Craftax's keys, with arrow keys as alternatives
    "q a/left d/right w/up s/down space/e tab r t f p 1 2 3 4 5 6", do="do: gather, hit, eat"
)
_COLOURS = ((228, 72, 82), (214, 132, 70), (84, 158, 240), (246, 208, 72))
COLOURS = dict(zip(VITALS, _COLOURS, strict=True))
NOON = 0.2  # time of day when daylight is highest, as a fraction of the day
# Cell offset (rows down, columns right) for each value of `World.facing`.
WAYS = {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}
FACING = {1: "left", 2: "right", 3: "up", 4: "down"}
_SIGNS = """
. GRASS   , SAND    _ PATH        ~ WATER     # STONE     t TREE     c COAL     i IRON
d DIAMOND ! LAVA    T CRAFTING_TABLE          F FURNACE   p PLANT    P RIPE_PLANT
; FIRE_GRASS        : ICE_GRASS   f FIRE_TREE h ICE_SHRUB W WALL     M WALL_MOSS
- DARKNESS          l STALAGMITE  s SAPPHIRE  r RUBY      C CHEST    o FOUNTAIN
E ENCHANTMENT_TABLE_FIRE          I ENCHANTMENT_TABLE_ICE N NECROMANCER
g GRAVE   g GRAVE2  g GRAVE3      x OUT_OF_BOUNDS
"""
_PAIRS = zip(*[iter(_SIGNS.split())] * 2, strict=True)
SIGNS = {Block[name]: sign for sign, name in _PAIRS}
GROUND = blocks("OUT_OF_BOUNDS GRASS SAND PATH FIRE_GRASS ICE_GRASS")
MASSES = blocks("OUT_OF_BOUNDS WATER LAVA STONE COAL IRON GRASS SAND FIRE_GRASS ICE_GRASS DARKNESS")
NAMES = {
    Block.OUT_OF_BOUNDS: "the edge of the world",
    Block.PLANT: "young plant",
    **dict.fromkeys((Block.GRAVE2, Block.GRAVE3), "grave"),
}


def known(rules: Rules, world: World, light: float, days: float) -> tuple[Fact, ...]:
    """Return the facts for the window's panel: vitals, item counts, the time of day, daylight."""
    body = [bar(v, int(world.vitals[v]), rules.best, v, COLOURS[v]) for v in VITALS]
    items = [count(i.replace("_", " "), int(world.items[i]), i) for i in rules.items]
    asleep = ", asleep" if world.sleeping else ""
    said = f"day {int(days) + 1}, {hour(days % 1, light)}{asleep}"
    clock = Fact("time", said, "clock", (days - NOON) % 1)
    return (*body, *items, clock, Fact("light", f"{light:.0%}"))


def sights(rules: Rules, view: tuple[np.ndarray, np.ndarray]) -> list[list["Sight"]]:
    """Convert the view to rows of `Sight`s, one per cell; a mob or projectile hides the block."""
    seen, mobs = view
    cells = [[sight_of(Block(block)) for block in line] for line in seen.tolist()]
    for bit, name in enumerate(channels(rules)):
        for row, column in np.argwhere(mobs >> bit & 1):
            cells[row][column] = Sight(name[0].upper(), name, "creature")
    return cells


class Sight(NamedTuple):
    """A cell of the view, as a text description shows it."""

    sign: str  # character that stands for the cell in the drawing of the view
    name: str
    kind: str  # `creature`, `thing` or `ground`; the list "The nearest things" contains only things
    mass: bool = False  # whether the name is a mass noun such as `water`, which takes no article

    @property
    def said(self) -> str:
        """Name of the cell's content, with an article unless it is a mass noun."""
        return self.name if self.mass else a(self.name)


def sight_of(block: Block) -> Sight:
    """Return the `Sight` of a cell on which nothing but its block is visible."""
    name = NAMES.get(block, block.name.lower().replace("_", " "))
    kind = "ground" if block in GROUND else "thing"
    return Sight(SIGNS.get(block, "?"), name, kind, block in MASSES)


def described(view: list[list[Sight]], facing: Any) -> list[str]:
    """Return the lines that describe a view in text.

    The lines name the cell ahead, the creatures in view and the nearest things, then draw the view.
    The player stands in the middle of the view.
    """
    row, column = len(view) // 2, len(view[0]) // 2
    down, right = WAYS[int(facing)]
    cells = {
        (r - row, c - column): sight for r, line in enumerate(view) for c, sight in enumerate(line)
    }
    del cells[0, 0]
    nearest: dict[str, tuple[int, int]] = {}
    for place in sorted(cells, key=_steps):
        if cells[place].kind == "thing":
            nearest.setdefault(cells[place].name, place)
    creatures = [place for place, sight in cells.items() if sight.kind == "creature"]
    lines = [
        f"You face {FACING[int(facing)]}; in front of you: {cells[down, right].said}.",
        f"You see {_places(creatures, cells) or 'no creatures'}.",
    ]
    if nearest:
        lines.append(f"The nearest things: {_places(nearest.values(), cells)}.")
    signs = [[sight.sign for sight in line] for line in view]
    signs[row][column] = "@"
    return [*lines, _legend(cells.values()), drawn(signs)]


def _steps(place: tuple[int, int]) -> tuple[int, int, int]:
    return abs(place[0]) + abs(place[1]), *place


def _places(places: Iterable[tuple[int, int]], cells: dict[tuple[int, int], Sight]) -> str:
    """Return text that lists the visible contents of the cells `places`, the nearest cell first.

    Cells are given relative to the player, as (rows down, columns right).
    """
    order = sorted(places, key=_steps)
    said = [f"{cells[r, c].said} {away(-r, c, ('up', 'down'))}" for r, c in order]
    return listed(said) if said else ""


def _legend(sights: Iterable[Sight]) -> str:
    """Return the text that explains the drawing's characters, in the order of `SIGNS`.

    Characters that are not in `SIGNS`, such as mobs, come last.
    """
    order = [*SIGNS.values()]
    names: dict[str, set[str]] = {}
    for sight in sights:
        names.setdefault(sight.sign, set()).add(sight.name)
    shown = sorted(names, key=lambda s: (order.index(s) if s in order else len(order), s))
    return f"Your view; @ is you, {', '.join(f'{s} {listed(sorted(names[s]))}' for s in shown)}:"


def read(env: "CraftEnv", state: CraftState, params: Any) -> tuple[Any, ...]:
    """Return a state's world, view, daylight (0 to 1) and days since the start.

    All values are copied to the host.
    """
    params = env.default_params if params is None else params
    world, view, light, time, day = jax.device_get(_reader(env)(state, params))
    return world, view, float(light), int(time) / max(1, int(day))


@functools.lru_cache(maxsize=8)
def _reader(env: "CraftEnv") -> Callable[..., Any]:
    def reader(state: CraftState, params: Any) -> tuple[Any, ...]:
        hour = env.light(state, params), state.time, params.day_length
        return env.world(state), env.view(state), *hour

    return jax.jit(reader)


def hour(share: float, light: float) -> str:
    """Return the name of the time of day, such as `dusk`.

    `share` is the fraction of the day that has passed, `light` the daylight, 0 to 1.
    """
    falls = NOON < share < NOON + 0.5
    if light > 0.75:
        return "afternoon" if falls else "morning"
    if light < 0.3:
        return "night"
    return "dusk" if falls else "dawn"


def icon(name: str, size: int, background: tuple[int, int, int]) -> np.ndarray | None:
    """Return the icon of a vital or an item, uint8 (size, size, 3); None for any other name."""
    return sprites.icon(name, size, background) if name in gear.ICONS else None
