"""Keyboard keys of the full game, facts for the play window's panel, and the words of its texts.

The keys are Craftax's, except that g, h and n need Shift, because the play window itself uses the
keys without Shift.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, UInt8

from ..core.facts import Fact, bar, count, listed
from . import facts as words
from . import full_sight
from .body import most
from .boss import WAVES, is_vulnerable
from .full_rows import ARMOUR, CHARMS, FULL, TRAITS
from .ladders import CLEARED
from .state import World
from .tables import ROLES, Block, Item, Rules

KEYS = words.keys_of(
    "q a/left d/right w/up s/down space/return tab r t f p 1 2 3 5 6 7 e . , 4 8 y u i o G H j "
    "z x c v b N m k l [ ] - = ;"
)
COLOURS_OF = {**words.COLOURS, "mana": (164, 92, 228)}
_TOOLS = ("wood", "stone", "iron", "diamond")
GRADES = {"pickaxe": _TOOLS, "sword": _TOOLS, **dict.fromkeys(ARMOUR, _TOOLS[2:])}
MAGIC = ("", " of fire", " of ice")
LIES = {Item.TORCH: "*", Item.LADDER_DOWN: ">", Item.LADDER_UP: "<"}


class Rest(NamedTuple):
    """Numbers about the player that only the full game has."""

    best: dict[str, Any]  # maximum of each vital; the player's attributes raise it
    charms: dict[str, Any]
    spells: dict[str, Any]
    floor: Any
    kills: Any
    resting: Any
    waves: Any  # number of waves of the boss fight that the player has beaten
    is_vulnerable: Any  # whether the boss can be hit


def body_of(rules: Rules, world: World) -> words.Body:
    """Return the numbers about the player for facts and texts; traceable by JAX."""
    rest = Rest(
        {vital: most(rules, world, vital) for vital in rules.vitals},
        {charm: world.charms[charm] for charm in CHARMS},
        dict(world.spells),
        world.floor,
        world.kills,
        world.resting,
        world.boss["progress"],
        is_vulnerable(world),
    )
    vitals = {vital: world.vitals[vital] for vital in rules.vitals}
    traits = {trait: world.traits[trait] for trait in TRAITS}
    return words.Body(vitals, dict(world.items), world.sleeping, traits, rest)


def bars(rules: Rules, body: words.Body) -> list[Fact]:
    """Return one fact per vital, which the play window shows as a bar."""
    best = Rest(*body.rest).best
    return [
        bar(v, int(np.ceil(body.vitals[v])), int(best[v]), v, COLOURS_OF[v]) for v in rules.vitals
    ]


def counts(rules: Rules, body: words.Body) -> list[Fact]:
    """Return one fact per item (its count, or the material of a tool) and per attribute."""
    things = [_thing(name, int(body.items[name])) for name in rules.items]
    return [*things, *(count(trait, int(body.traits[trait]), trait) for trait in TRAITS)]


def others(rules: Rules, body: words.Body, light: float, days: float) -> list[Fact]:
    """Return the facts about magic, the floor, the time of day and the daylight.

    A further fact is about the boss fight if the player is on the boss floor, else about the ladder
    down.
    """
    rest = Rest(*body.rest)
    charms = [f"{c}{MAGIC[int(rest.charms[c])]}" for c in CHARMS if rest.charms[c]]
    spells = [spell for spell, known in rest.spells.items() if known]
    floor, kills = rules.floors[int(rest.floor)].name, int(rest.kills)
    ladder = "open" if kills >= CLEARED else f"blocked, {CLEARED - kills} more to defeat"
    state = "asleep" if body.sleeping else "resting" if rest.resting else ""
    hour = f"day {int(days) + 1}, {words.hour(days % 1, light)}"
    waves = f"{int(rest.waves)} of {WAVES} waves beaten"
    waves += ", open to a blow" if rest.is_vulnerable else ""
    return [
        Fact("enchanted", listed(charms) if charms else "nothing"),
        Fact("spells", listed(spells) if spells else "none"),
        Fact("floor", f"{int(rest.floor)}, the {floor}"),
        Fact("boss", waves) if rest.floor == rules.last_floor else Fact("way down", ladder),
        Fact("time", ", ".join(filter(None, (hour, state))), "clock", (days - words.NOON) % 1),
        Fact("light", f"{light:.0%}"),
    ]


def _thing(name: str, number: int) -> Fact:
    """Return the fact about one item: its count, or the material of a tool or piece of armour.

    If the player lacks a tool or piece of armour, the fact has the icon of the lowest material.
    """
    if name not in GRADES:
        return count(name.replace("_", " "), number, name)
    grade = GRADES[name][max(0, number - 1)]
    return count(f"{grade} {name}" if number else name, min(1, number), f"{grade}_{name}")


# Bytes that `cells` returns. MOBS, FLYING, MISSILES and ITEMS are the lowest bytes of mobs, mobs'
# projectiles, the player's projectiles and items. DARK is the byte of a dark cell. Bytes below MOBS
# are blocks.
MOBS, FLYING, MISSILES, ITEMS, DARK = 64, 96, 112, 128, 255


def cells(rules: Rules, view: full_sight.View) -> UInt8[Array, "rows columns"]:
    """Return the byte of the visible thing on each cell of the view; traceable by JAX.

    `sights` has the meaning of each byte. If a cell has several of the following, only the first is
    visible: darkness, mob, projectile, item, block.
    """
    lies = jnp.zeros(len(Item), jnp.bool_).at[np.array([*LIES], np.int32)].set(True)
    item = view.item.astype(jnp.int32)
    shown = jnp.where(lies[item], ITEMS + item, view.block.astype(jnp.int32))
    for first, flying in ((MISSILES, view.missiles), (FLYING, view.projectiles)):
        bit = 31 - jax.lax.clz(flying.astype(jnp.int32))
        shown = jnp.where(flying > 0, first + bit, shown)
    shown = jnp.where(view.mob > 0, MOBS + view.mob.astype(jnp.int32) - 1, shown)
    return jnp.where(view.lit, shown, DARK).astype(jnp.uint8)


def sights(rules: Rules) -> dict[int, words.Sight]:
    """Return a dict from each byte that `cells` can return to the byte's `Sight`."""
    found = {int(block): words.sight_of(block) for block in Block}
    found[DARK] = words.Sight("?", "darkness", "ground", mass=True)
    for number, role in enumerate(ROLES):
        for type, row in enumerate(FULL.types(role)):
            name = row.name.replace("_", " ")
            byte = MOBS + full_sight.TYPES * number + type
            found[byte] = words.Sight(_initials(name), name, "creature")
    for type, row in enumerate(FULL.projectiles):
        name = row.name.rstrip("2")
        found[FLYING + type] = words.Sight("^", name, "creature")
        found[MISSILES + type] = words.Sight("^", f"{name} of yours", "creature")
    for item, sign in LIES.items():
        found[ITEMS + item] = words.Sight(sign, item.name.lower().replace("_", " "), "thing")
    return found


def _initials(name: str) -> str:
    """Return two letters that stand for a mob in drawings: `Zo` for zombie, `OM` for orc mage."""
    first, _, second = name.partition(" ")
    return f"{first[0]}{second[0]}".upper() if second else name[:2].title()
