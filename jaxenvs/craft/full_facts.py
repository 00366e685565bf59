"""The full game for people: keys, facts for the panel, and a state in words.

Keys are upstream's; where the window has its own use for one (g, h, n), with Shift.
"""

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..core.controls import ActionKeys
from ..core.facts import Fact, bar, count, drawn, listed, sentences
from . import facts, full_sight
from .body import most
from .boss import WAVES
from .full_rows import CHARMS, FULL, TRAITS
from .ladders import CLEARED
from .state import FullState, World
from .tables import ROLES, Action, Block, Item

if TYPE_CHECKING:
    from .full import CraftFull

_KEYS = (  # in the order of `Action`; a space between two keys
    "q a/left d/right w/up s/down space/return tab r t f p 1 2 3 5 6 7 e . , 4 8 y u i o G H j "
    "z x c v b N m k l [ ] - = ;"
)
KEYS = tuple(
    ActionKeys(action.name.lower().replace("_", " "), tuple(keys.split("/")))
    for action, keys in zip(Action, _KEYS.split(), strict=True)
)
COLOURS_OF = {**facts.COLOURS, "mana": (164, 92, 228)}
MAGIC = ("", " of fire", " of ice")
SIGNS = {
    **facts.SIGNS,
    Block.FIRE_GRASS: ".",
    Block.ICE_GRASS: ".",
    Block.FIRE_TREE: "t",
    Block.ICE_SHRUB: "t",
    Block.WALL: "W",
    Block.WALL_MOSS: "W",
    Block.DARKNESS: " ",
    Block.STALAGMITE: "#",
    Block.SAPPHIRE: "s",
    Block.RUBY: "r",
    Block.CHEST: "C",
    Block.FOUNTAIN: "o",
    Block.ENCHANTMENT_TABLE_FIRE: "E",
    Block.ENCHANTMENT_TABLE_ICE: "I",
    Block.NECROMANCER: "N",
    Block.GRAVE: "g",
    Block.GRAVE2: "g",
    Block.GRAVE3: "g",
}
LIES = {Item.TORCH: "*", Item.LADDER_DOWN: ">", Item.LADDER_UP: "<"}


def read(env: "CraftFull", state: FullState, params: Any) -> tuple[Any, ...]:
    """Return the world by name, the view, the daylight and the days since the beginning."""
    params = env.default_params if params is None else params
    world, view, light, time, day = jax.device_get(_reader(env)(state, params))
    return world, view, float(light), int(time) / max(1, int(day))


@functools.lru_cache(maxsize=8)
def _reader(env: "CraftFull") -> Callable[..., Any]:
    def reader(state: FullState, params: Any) -> tuple[Any, ...]:
        time = env.light(state, params), state.time, params.day_length
        return env.world(state), env.view(state), *time

    return jax.jit(reader)


def told(world: World, light: float, days: float) -> tuple[Fact, ...]:
    """The body, every item, attributes, magic, the floor and its ladder, and the hour."""
    body = [
        bar(v, int(np.ceil(world.vitals[v])), int(most(FULL, world, v)), v, COLOURS_OF[v])
        for v in FULL.vitals
    ]
    things = [count(i.replace("_", " "), int(world.items[i]), i) for i in FULL.items]
    traits = [count(trait, int(world.traits[trait]), trait) for trait in TRAITS]
    charms = [f"{c}{MAGIC[int(world.charms[c])]}" for c in CHARMS if world.charms[c]]
    spells = [spell for spell, known in world.spells.items() if known]
    floor, kills = FULL.floors[int(world.floor)].name, int(world.kills)
    ladder = "open" if kills >= CLEARED else f"blocked, {CLEARED - kills} more to defeat"
    state = "asleep" if world.sleeping else "resting" if world.resting else ""
    hour = f"day {int(days) + 1}, {facts.hour(days % 1, light)}"
    waves = Fact("boss", f"{int(world.boss['progress'])} of {WAVES} waves beaten")
    last = world.floor == len(FULL.floors) - 1
    return (
        *(*body, *things, *traits),
        Fact("enchanted", listed(charms) if charms else "nothing"),
        Fact("spells", listed(spells) if spells else "none"),
        Fact("floor", f"{int(world.floor)}, the {floor}"),
        waves if last else Fact("way down", ladder),
        Fact("time", ", ".join(filter(None, (hour, state))), "clock", (days - facts.NOON) % 1),
        Fact("light", f"{light:.0%}"),
    )


def describe(env: "CraftFull", state: FullState, params: Any) -> str:
    """Describe what the player has and knows, the cell ahead, and draw what is seen."""
    world, view, light, days = read(env, state, params)
    row, column = view.block.shape[0] // 2, view.block.shape[1] // 2
    down, right = facts.WAYS[int(world.facing)]
    ahead = _named(view, row + down, column + right)
    signs = [[_sign(view, r, c) for c in range(2 * column + 1)] for r in range(2 * row + 1)]
    signs[row][column] = "@"
    seen = sorted(
        {_named(view, r, c) for r, c in np.argwhere(view.lit).tolist() if (r, c) != (row, column)}
    )
    return "\n".join(
        [
            *sentences(told(world, light, days)),
            f"You face {facts.FACING[int(world.facing)]}; in front of you: {ahead}.",
            f"You see {listed(seen)}." if seen else "You see nothing: it is dark.",
            "Your view; @ is you, ? darkness, capitals are creatures and buildings:",
            drawn(signs),
        ]
    )


def _who(view: full_sight.View, row: int, column: int) -> str:
    """Name of the mob on a cell, "" for none."""
    number = int(view.mob[row, column]) - 1
    role, type = divmod(number, full_sight.TYPES)
    return FULL.types(ROLES[role])[type].name.replace("_", " ") if number >= 0 else ""


def _named(view: full_sight.View, row: int, column: int) -> str:
    """Name of who or what is on a cell."""
    if not view.lit[row, column]:
        return "darkness"
    item, block = Item(int(view.item[row, column])), Block(int(view.block[row, column]))
    name = block.name.rstrip("23") if item == Item.NONE else item.name
    return _who(view, row, column) or name.lower().replace("_", " ")


def _sign(view: full_sight.View, row: int, column: int) -> str:
    """Letter of who or what is on a cell."""
    if not view.lit[row, column]:
        return "?"
    who = _who(view, row, column)
    item = LIES.get(Item(int(view.item[row, column])))
    return who[0].upper() if who else item or SIGNS.get(Block(int(view.block[row, column])), "?")
