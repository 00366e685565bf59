"""Kits: the floor and the possessions with which the player starts an episode of the full game.

The possessions of a kit are typical of a player who reaches the kit's floor. For example,
`make("Craft-Ids-v0", kit=5)` starts every episode on floor 5. With `kit=-1`, each level has a
random kit. `reset_to` uses the kit that the given level stores. If a kit includes the item or floor
of an achievement, the achievement counts as earned from the start and gives no reward.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from .full_rows import ARMOUR, FULL
from .growth import possessions_counted
from .state import World, unlock
from .tables import of_type


class Kit(NamedTuple):
    """Start of an episode: the player's floor, items, attributes, spells and enchantments."""

    name: str
    floor: int
    items: dict[str, int] = {}  # noqa: RUF012
    traits: dict[str, int] = {}  # noqa: RUF012
    spells: tuple[str, ...] = ()
    charms: dict[str, int] = {}  # noqa: RUF012
    waves: int = 0  # number of the necromancer's waves that count as already beaten
    cleared: bool = False  # whether the current wave is over, so that the necromancer can be hit


_BAG = {"wood": 9, "stone": 20, "coal": 5, "iron": 3, "sapling": 1, "torches": 8, "arrows": 4}
_BOW = {**_BAG, "pickaxe": 3, "sword": 3, "bow": 1, "arrows": 12}
_IRON = {**_BOW, **dict.fromkeys(ARMOUR, 1), "red_potion": 1, "blue_potion": 1}
_DIAMOND = {**_IRON, **dict.fromkeys(ARMOUR, 2), "pickaxe": 4, "sword": 4, "ruby": 2, "sapphire": 2}
_STRONG = {"strength": 3, "dexterity": 2, "intelligence": 2}
_FIRE: dict[str, int] = dict.fromkeys(("sword", "helmet", "chestplate"), 1)
_BOTH = {**_FIRE, "leggings": 2, "boots": 2, "bow": 2}
_SPELLS = ("fireball", "iceball")

KITS = (
    Kit("nothing", 0),
    Kit("dungeon", 1, {**_BAG, "pickaxe": 2, "sword": 2}),
    Kit("gnomish mines", 2, _BOW, {"strength": 2}),
    Kit("sewers", 3, _IRON, {"strength": 3}),
    Kit("vaults", 4, _IRON, {"strength": 3, "dexterity": 2}, ("fireball",)),
    Kit("troll mines", 5, {**_DIAMOND, "books": 1}, _STRONG, ("fireball",), {"sword": 1}),
    Kit("fire realm", 6, _DIAMOND, _STRONG | {"dexterity": 3}, _SPELLS, _FIRE),
    Kit("ice realm", 7, _DIAMOND, _STRONG | {"intelligence": 4}, _SPELLS, _BOTH),
    Kit("graveyard", 8, _DIAMOND, dict.fromkeys(_STRONG, 3) | {"strength": 4}, _SPELLS, _BOTH),
    Kit("last wave", 8, _DIAMOND, dict.fromkeys(_STRONG, 3), _SPELLS, _BOTH, 7, cleared=True),
)


def equipped(world: World, kit: Any) -> World:
    """Return the world after putting the player on the floor of KITS[kit], with its possessions."""

    def of(values: list[Any]) -> Array:
        return jnp.asarray(of_type(values, kit), jnp.int32)

    floor = of([row.floor for row in KITS])
    world = world._replace(
        floor=floor,
        items={name: of([row.items.get(name, 0) for row in KITS]) for name in world.items},
        traits={
            name: of([row.traits.get(name, int(name != "xp")) for row in KITS])
            for name in world.traits
        },
        spells={name: of([name in row.spells for row in KITS]) != 0 for name in world.spells},
        charms={name: of([row.charms.get(name, 0) for row in KITS]) for name in world.charms},
        boss={
            "progress": of([row.waves for row in KITS]),
            "timer": jnp.where(of([row.cleared for row in KITS]) != 0, 0, world.boss["timer"]),
        },
    )
    world = possessions_counted(FULL, world)
    for number, entered in enumerate(FULL.floors):
        if entered.achievement is not None:
            world = unlock(world, entered.achievement, floor >= number)
    return world
