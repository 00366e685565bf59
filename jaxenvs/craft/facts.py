"""Craft for people: keys, facts for the panel, and a state in words."""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..core.controls import keyed
from ..core.facts import Fact, a, away, bar, count, drawn, listed, sentences
from .look import gear, sprites
from .sight import channels
from .state import CraftState, World
from .tables import VITALS, Block, Rules

if TYPE_CHECKING:
    from .env import CraftEnv

KEYS = keyed(  # in the order of `Action`: upstream's keys, and arrows
    ("noop", "q"),
    ("left", "a, left"),
    ("right", "d, right"),
    ("up", "w, up"),
    ("down", "s, down"),
    ("do", "space, e", "do: gather, hit, eat"),
    ("sleep", "tab"),
    ("place stone", "r"),
    ("place table", "t"),
    ("place furnace", "f"),
    ("place plant", "p"),
    ("make wood pickaxe", "1"),
    ("make stone pickaxe", "2"),
    ("make iron pickaxe", "3"),
    ("make wood sword", "4"),
    ("make stone sword", "5"),
    ("make iron sword", "6"),
)
COLOURS = {
    "health": (228, 72, 82),
    "food": (214, 132, 70),
    "drink": (84, 158, 240),
    "energy": (246, 208, 72),
}
NOON = 0.2  # share of the day at which it is lightest
WAYS = {1: (0, -1), 2: (0, 1), 3: (-1, 0), 4: (1, 0)}  # rows and columns, by `World.facing`
FACING = {1: "left", 2: "right", 3: "up", 4: "down"}
SIGNS = {
    Block.GRASS: ".",
    Block.SAND: ",",
    Block.PATH: "_",
    Block.WATER: "~",
    Block.STONE: "#",
    Block.TREE: "t",
    Block.COAL: "c",
    Block.IRON: "i",
    Block.DIAMOND: "d",
    Block.LAVA: "!",
    Block.CRAFTING_TABLE: "T",
    Block.FURNACE: "F",
    Block.PLANT: "p",
    Block.RIPE_PLANT: "P",
    Block.OUT_OF_BOUNDS: "x",
}
GROUND = (Block.GRASS, Block.SAND, Block.PATH, Block.OUT_OF_BOUNDS)  # told by the drawing alone
MASSES = {Block.WATER, Block.LAVA, Block.STONE, Block.COAL, Block.IRON, Block.GRASS, Block.SAND}
NAMES = {Block.OUT_OF_BOUNDS: "the edge of the world", Block.PLANT: "young plant"}


def facts(env: "CraftEnv", state: CraftState, params: Any) -> tuple[Fact, ...]:
    """The body, every item with its count, and the hour."""
    world, light, days, *_ = read(env, state, params)
    return _facts(env, world, light, days)


def _facts(env: "CraftEnv", world: World, light: float, days: float) -> tuple[Fact, ...]:
    body = [bar(v, int(world.vitals[v]), env.rules.best, v, COLOURS[v]) for v in VITALS]
    items = [count(i.replace("_", " "), int(world.items[i]), i) for i in env.rules.items]
    asleep = ", asleep" if world.sleeping else ""
    said = f"day {int(days) + 1}, {hour(days % 1, light)}{asleep}"
    clock = Fact("time", said, "clock", (days - NOON) % 1)
    return (*body, *items, clock, Fact("light", f"{light:.0%}"))


def describe(env: "CraftEnv", state: CraftState, params: Any) -> str:
    """Describe the body, the inventory, the time of day, the cell ahead, and draw the view."""
    world, light, days, blocks, mobs = read(env, state, params)
    row, column = blocks.shape[0] // 2, blocks.shape[1] // 2
    down, right = WAYS[int(world.facing)]
    signs = [[SIGNS.get(Block(block), "?") for block in line] for line in blocks]
    front = _block(Block(blocks[row + down, column + right]))
    for name, r, c in _mobs(env.rules, mobs):
        signs[r][c] = name[0].upper()
        front = a(name) if (r, c) == (row + down, column + right) else front
    signs[row][column] = "@"
    return "\n".join(
        [
            *sentences(_facts(env, world, light, days)),
            f"You face {FACING[int(world.facing)]}; in front of you: {front}.",
            *_sighted(env.rules, blocks, mobs),
            _legend(env.rules, signs),
            drawn(signs),
        ]
    )


def _block(block: Block) -> str:
    """Name a block with its article."""
    name = NAMES.get(block, block.name.lower().replace("_", " "))
    return name if block in MASSES or block == Block.OUT_OF_BOUNDS else a(name)


def _mobs(rules: Rules, mobs: np.ndarray) -> list[tuple[str, int, int]]:
    """Name, row and column of each mob in the view."""
    bits = enumerate(channels(rules))
    return [(name, int(r), int(c)) for i, name in bits for r, c in np.argwhere(mobs >> i & 1)]


def _sighted(rules: Rules, blocks: np.ndarray, mobs: np.ndarray) -> list[str]:
    """All mobs, and the nearest block of each kind but open ground."""
    row, column = blocks.shape[0] // 2, blocks.shape[1] // 2
    animals = [
        (abs(r - row) + abs(c - column), r - row, c - column, a(m))
        for m, r, c in _mobs(rules, mobs)
    ]
    nearest = []
    for block in {Block(b) for b in np.unique(blocks)} - set(GROUND):
        cells = (np.argwhere(blocks == block) - (row, column)).tolist()
        nearest.append(min((abs(r) + abs(c), r, c, _block(block)) for r, c in cells))
    sentences = [f"You see {_places(animals) or 'no creatures'}."]
    return sentences + ([f"The nearest blocks: {_places(nearest)}."] if nearest else [])


def _places(found: list[tuple[int, int, int, str]]) -> str:
    """List things (steps away, rows down, columns to the right, name), the nearest first."""
    places = [f"{name} {away(-r, c, ('up', 'down'))}" for _, r, c, name in sorted(found)]
    return listed(places) if places else ""


def _legend(rules: Rules, signs: list[list[str]]) -> str:
    """What the signs of a drawing mean."""
    shown = {sign for line in signs for sign in line}
    blocks = (f"{s} {NAMES.get(b, b.name.lower().replace('_', ' '))}" for b, s in SIGNS.items())
    mobs = (f"{name[0].upper()} {name}" for name in channels(rules))
    used = [entry for entry in (*blocks, *mobs) if entry[0] in shown]
    return f"Your view; @ is you, {', '.join(used)}:"


def read(env: "CraftEnv", state: CraftState, params: Any) -> tuple[Any, ...]:
    """Return the world by name, the daylight (0 to 1), the days since the beginning, and blocks and
    mobs of the view, all on the host."""
    params = env.default_params if params is None else params
    world, light, time, day, blocks, mobs = jax.device_get(_reader(env)(state, params))
    return world, float(light), int(time) / max(1, int(day)), blocks, mobs


@functools.lru_cache(maxsize=8)
def _reader(env: "CraftEnv") -> Callable[..., Any]:
    def reader(state: CraftState, params: Any) -> tuple[Any, ...]:
        hour = env.light(state, params), state.time, params.day_length
        return env.world(state), *hour, *env.view(state)

    return jax.jit(reader)


def hour(share: float, light: float) -> str:
    """Name the hour of a day: a share of it and the daylight, both 0 to 1."""
    falls = NOON < share < NOON + 0.5
    if light > 0.75:
        return "afternoon" if falls else "morning"
    if light < 0.3:
        return "night"
    return "dusk" if falls else "dawn"


def icon(name: str, size: int, background: tuple[int, int, int]) -> np.ndarray | None:
    """The icon of a vital or an item, uint8 (size, size, 3); None where nothing has that name."""
    return sprites.icon(name, size, background) if name in gear.ICONS else None
