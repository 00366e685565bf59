"""Keyboard keys of Craft-Classic, facts for the play window's panel, and names of blocks and mobs.

A text description of a state uses the same facts and names.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from ..core.controls import ActionKeys
from ..core.facts import Fact, a, bar, count
from .look import gear, sprites
from .sight import channels
from .state import World
from .tables import VITALS, Action, Block, Rules, blocks


def keys_of(text: str, **does: str) -> tuple[ActionKeys, ...]:
    """Parse the keys of all actions, in the order of `Action`.

    Spaces separate actions, and `/` separates alternative keys of one action. `does` has the
    description to display for an action, by the action's name.
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


class Body(NamedTuple):
    """Numbers about the player that facts and texts show, for one state or a batch of states.

    The fields with a default occur in the full game only.
    """

    vitals: dict[str, Any]
    items: dict[str, Any]
    sleeping: Any
    traits: dict[str, Any] = {}  # noqa: RUF012  # never changed
    rest: tuple[Any, ...] = ()  # further numbers: the fields of `full_facts.Rest`, in order


def body_of(rules: Rules, world: World) -> Body:
    """Return the numbers about the player for facts and texts; traceable by JAX."""
    return Body({v: world.vitals[v] for v in VITALS}, dict(world.items), world.sleeping)


def bars(rules: Rules, body: Body) -> list[Fact]:
    """Return one fact per vital, which the play window shows as a bar."""
    return [bar(v, int(body.vitals[v]), rules.best, v, COLOURS[v]) for v in VITALS]


def counts(rules: Rules, body: Body) -> list[Fact]:
    """Return one fact per item, with the number of such items that the player has."""
    return [count(i.replace("_", " "), int(body.items[i]), i) for i in rules.items]


def others(rules: Rules, body: Body, light: float, days: float) -> list[Fact]:
    """Return the facts about the time of day and the daylight."""
    asleep = ", asleep" if body.sleeping else ""
    said = f"day {int(days) + 1}, {hour(days % 1, light)}{asleep}"
    return [Fact("time", said, "clock", (days - NOON) % 1), Fact("light", f"{light:.0%}")]


MOBS = 64  # first byte of mobs and projectiles in `cells`; smaller bytes are blocks


def cells(rules: Rules, view: tuple[Array, Array]) -> UInt8[Array, "rows columns"]:
    """Return the byte of the visible thing on each cell of the view; traceable by JAX.

    `sights` has the meaning of each byte. A mob or projectile hides the block. If a cell has
    several mobs or projectiles, the last in `channels` is visible.
    """
    blocks, mobs = view
    bit = 31 - jax.lax.clz(mobs.astype(jnp.int32))
    return jnp.where(mobs > 0, MOBS + bit, blocks.astype(jnp.int32)).astype(jnp.uint8)


def sights(rules: Rules) -> dict[int, "Sight"]:
    """Return a dict from each byte that `cells` can return to the byte's `Sight`."""
    mobs = enumerate(channels(rules), MOBS)
    known = {byte: Sight(name[0].upper(), name, "creature") for byte, name in mobs}
    return {**{int(block): sight_of(block) for block in Block}, **known}


class Sight(NamedTuple):
    """A cell of the view, as a text description shows it."""

    sign: str  # character that stands for the cell in the drawing of the view
    name: str
    kind: str  # `creature`, `thing` or `ground`; texts list the nearest cells of type `thing`
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
