"""Keys, panel facts and text descriptions of the full game.

The keys are Craftax's, except that g, h and n need Shift, because the window uses the plain keys.
"""

import numpy as np

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


def known(rules: Rules, world: World, light: float, days: float) -> tuple[Fact, ...]:
    """Return the facts for the window's panel.

    The facts are vitals, items, attributes, magic, floor, ladder down or boss, and the time.
    """
    body = [
        bar(v, int(np.ceil(world.vitals[v])), int(most(rules, world, v)), v, COLOURS_OF[v])
        for v in rules.vitals
    ]
    things = [_thing(name, int(world.items[name])) for name in rules.items]
    traits = [count(trait, int(world.traits[trait]), trait) for trait in TRAITS]
    charms = [f"{c}{MAGIC[int(world.charms[c])]}" for c in CHARMS if world.charms[c]]
    spells = [spell for spell, known in world.spells.items() if known]
    floor, kills = rules.floors[int(world.floor)].name, int(world.kills)
    ladder = "open" if kills >= CLEARED else f"blocked, {CLEARED - kills} more to defeat"
    state = "asleep" if world.sleeping else "resting" if world.resting else ""
    hour = f"day {int(days) + 1}, {words.hour(days % 1, light)}"
    waves = f"{int(world.boss['progress'])} of {WAVES} waves beaten"
    waves += ", open to a blow" if is_vulnerable(world) else ""
    last = world.floor == rules.last_floor
    return (
        *(*body, *things, *traits),
        Fact("enchanted", listed(charms) if charms else "nothing"),
        Fact("spells", listed(spells) if spells else "none"),
        Fact("floor", f"{int(world.floor)}, the {floor}"),
        Fact("boss", waves) if last else Fact("way down", ladder),
        Fact("time", ", ".join(filter(None, (hour, state))), "clock", (days - words.NOON) % 1),
        Fact("light", f"{light:.0%}"),
    )


def _thing(name: str, number: int) -> Fact:
    """Return the fact about one item: its count, or the material of a tool or piece of armour.

    A tool or piece of armour that the player lacks is shown with the icon of its lowest material.
    """
    if name not in GRADES:
        return count(name.replace("_", " "), number, name)
    grade = GRADES[name][max(0, number - 1)]
    return count(f"{grade} {name}" if number else name, min(1, number), f"{grade}_{name}")


def sights(rules: Rules, view: full_sight.View) -> list[list[words.Sight]]:
    """Convert the view to rows of `Sight`s, one per cell."""
    height, width = rules.view
    return [[sight(view, row, column) for column in range(width)] for row in range(height)]


def sight(view: full_sight.View, row: int, column: int) -> words.Sight:
    """Return how a cell appears in a text description.

    The first of these that is present decides: darkness, mob, projectile, item, block.
    """
    number, flying = int(view.mob[row, column]) - 1, int(view.projectiles[row, column])
    item = Item(int(view.item[row, column]))
    if not view.lit[row, column]:
        return words.Sight("?", "darkness", "ground", mass=True)
    if number >= 0:
        role, type = divmod(number, full_sight.TYPES)
        name = FULL.types(ROLES[role])[type].name.replace("_", " ")
        return words.Sight(_initials(name), name, "creature")
    if flying or view.missiles[row, column]:
        bits = flying or int(view.missiles[row, column])
        name = FULL.projectiles[bits.bit_length() - 1].name.rstrip("2")
        return words.Sight("^", name if flying else f"{name} of yours", "creature")
    if item in LIES:
        return words.Sight(LIES[item], item.name.lower().replace("_", " "), "thing")
    return words.sight_of(Block(int(view.block[row, column])))


def _initials(name: str) -> str:
    """Return two letters that stand for a mob in drawings: `Zo` for zombie, `OM` for orc mage."""
    first, _, second = name.partition(" ")
    return f"{first[0]}{second[0]}".upper() if second else name[:2].title()
