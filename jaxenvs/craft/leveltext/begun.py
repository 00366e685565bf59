"""Levels in a Craft text: maps, and in the full game ladders, effects of potions and a kit.

A kit is the floor and the possessions with which the player starts, see `kits`.
"""

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from ...levels import cells
from ...levels.blocks import Block as Text
from ..env import CraftEnv
from ..floors import FullLevel
from ..full_rows import COLOURS, STAIRS
from ..ground import BLOCK, DARKEST, ITEM, LIT
from ..kits import KITS
from ..packing import Field
from ..state import Level
from ..tables import Item, Rules
from . import picture, values

LADDERS = {name: Field(name, 6) for name in STAIRS}
EFFECTS = {colour: Field(colour, 3) for colour in COLOURS}


def names(rules: Rules) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of a level's lines: those that occur once, and those that may repeat."""
    return (("kit", "effects"), ("floor", "light")) if rules.is_full else ((), ())


def _lying(stairs: Mapping[str, np.ndarray], grid: np.ndarray) -> np.ndarray:
    """Return the `Item` on each cell: a ladder, a torch or none.

    `grid` says only whether a cell has an item. At the position of a ladder in `stairs`, the item
    is this ladder; at any other position, it is a torch.
    """
    last = grid.shape[0] - 1
    items = np.where(grid & ITEM, int(Item.TORCH), int(Item.NONE)).astype(np.uint8)
    for floor in range(last + 1):
        ways = {"down": (Item.LADDER_DOWN, floor < last), "up": (Item.LADDER_UP, 0 < floor < last)}
        for way, (item, exists) in ways.items():
            row, column = stairs[f"{way}_row"][floor], stairs[f"{way}_column"][floor]
            if exists and items[floor, row, column]:
                items[floor, row, column] = item
    return items


def _stairs(level: FullLevel) -> dict[str, np.ndarray]:
    both = np.concatenate([level.down_ladders, level.up_ladders], axis=1).T
    return dict(zip(STAIRS, both, strict=True))


def grid(env: CraftEnv, level: Any) -> np.ndarray:
    """Return the bytes of a level's cells; raise `ValueError` if no text can describe them."""
    if not env.rules.is_full:
        return np.asarray(level.map)
    marks = np.where(level.items, ITEM, 0) | np.where(np.asarray(level.light) > DARKEST, LIT, 0)
    found = (np.asarray(level.map) | marks).astype(np.uint8)
    if (_lying(_stairs(level), found) != level.items).any():
        raise ValueError("levels.write: a ladder lies at no ladder's position of its floor")
    return found


def lines(env: CraftEnv, level: Any) -> list[tuple[str, str]]:
    """Return the lines of a level, as (name, value)."""
    if not env.rules.is_full:
        return []
    headers = [("kit", KITS[int(level.kit)].name)] if int(level.kit) else []
    effects = zip(COLOURS, np.asarray(level.potion_mapping).tolist(), strict=True)
    headers.append(("effects", ", ".join(f"{colour} {effect}" for colour, effect in effects)))
    stairs = _stairs(level)
    for floor in range(len(env.rules.floors)):
        ladders = ", ".join(f"{name} {int(stairs[name][floor])}" for name in STAIRS)
        headers.append(("floor", f"floor {floor}, {ladders}"))
    if env.obs == "pixels":
        headers += picture.light_lines(np.round(np.asarray(level.light) * 255).astype(np.uint8))
    return headers


def level(env: CraftEnv, block: Text, grid: np.ndarray, light: np.ndarray | None) -> Any:
    """Return the level that a text without the line `time` describes.

    `grid` has the bytes of all cells, `light` their light, both from the module `picture`. `light`
    is None in Classic.
    """
    if light is None:
        return Level(map=jnp.asarray(grid))
    floors, size = grid.shape[:2]
    stairs = {name: np.full(floors, size // 2, np.int32) for name in STAIRS}
    for floor, line in values.each_floor(env.rules, block.all("floor")).items():
        if floor is None:
            raise line[0].error(values.NO_FLOOR)
        found = values.pairs(line, LADDERS)
        values.check_on_map(line[0], found, size)
        for name, value in found.items():
            stairs[name][floor] = value
    kit, effects = block.get("kit"), block.get("effects")
    potions = values.pairs((effects, values.listed(effects)), EFFECTS) if effects else {}
    given = [potions.get(colour, number) for number, colour in enumerate(COLOURS)]
    known = {row.name: number for number, row in enumerate(KITS)}
    return FullLevel(
        map=jnp.asarray(grid & BLOCK),
        items=jnp.asarray(_lying(stairs, grid)),
        light=jnp.asarray(light, jnp.float32) / 255,
        down_ladders=jnp.asarray(np.stack([stairs[name] for name in STAIRS[:2]], axis=1)),
        up_ladders=jnp.asarray(np.stack([stairs[name] for name in STAIRS[2:]], axis=1)),
        potion_mapping=jnp.asarray(given, jnp.int32),
        kit=jnp.int32(cells.named(kit, kit.value, known, "kit") if kit else 0),
    )
