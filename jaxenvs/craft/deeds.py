"""Deeds of the player: collecting from blocks, placing blocks or torches, and crafting items.

Each deed is an entry of the tables in `Rules`: a `Harvest`, a `Placement` or a `Recipe`. `choose`
finds the deed that the action performs, and `do` applies its costs and gains.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Int32

from ..core.bits import any_of
from . import plants
from .body import fed
from .ground import BLOCK_BITS, ITEM, LIT, is_in
from .packing import Field, of_word, split
from .state import NO_ACHIEVEMENT, World, unlock_number
from .step import Front, Moment
from .tables import Action, Block, Harvest, Placement, Recipe, Rules


def choose(moment: Moment) -> Moment:
    """Find the deed (harvest, placement or recipe) that the action performs.

    `Moment.deed` becomes the deed's index in `_deeds`, plus 1; 0 means that there is no deed.
    """
    rules, world, front, action = moment.rules, moment.world, moment.front, moment.action
    does = (action == Action.DO) & ~moment.hit & front.inside
    number = jnp.int32(0)
    for i, row in enumerate(_deeds(rules), 1):
        match row:
            case Harvest():
                able = does & (front.block == row.block)
                if row.chance < 1:
                    able = able & (moment.draws.sapling < row.chance)
            case _:
                able = (action == row.action) & is_place(rules, world, front, row)
        number = jnp.where(able & has(world, _needs(row)), i, number)
    return moment._replace(deed=number)


def able(rules: Rules, world: World, front: Front) -> dict[int, Any]:
    """Return, for each action that places or crafts something, whether it is possible now."""
    can: dict[int, Any] = {}
    for row in (*rules.placements, *rules.recipes):
        this = is_place(rules, world, front, row) & has(world, _needs(row))
        can[row.action] = can[row.action] | this if row.action in can else this
    return can


def is_place(rules: Rules, world: World, front: Front, row: Placement | Recipe) -> Any:
    """Return whether a placement or recipe is possible, apart from the items that it costs.

    A placement needs a suitable free cell ahead. A recipe needs a table (some recipes also a
    furnace) near the player, and a product that is below the recipe's highest count or level.
    """
    match row:
        case Placement():
            free = front.inside & ~front.taken & is_in(front.block, row.on)
            return free & ((front.marks & 1) == 0) if row.bare and rules.is_full else free
        case Recipe():
            near = front.table & _lacks(world, row)
            return near & front.furnace if row.at_furnace else near


def do(moment: Moment) -> Moment:
    """Carry out the chosen deed (harvest, placement or recipe), `Moment.deed`.

    Costs and gains are looked up in a table with one row per deed and one column per effect.
    """
    rules, world, front, deed = moment.rules, moment.world, moment.front, moment.deed
    rows, kinds = _deeds(rules), dict.fromkeys(_makes(r) for r in rules.recipes if r.level)
    columns: dict[Any, list[int]] = {item: [_change(r, item) for r in rows] for item in rules.items}
    columns |= {kind: [_level(row, kind) for row in rows] for kind in kinds}
    columns |= {vital: [getattr(row, vital, 0) for row in rows] for vital in ("food", "drink")}
    columns["earns"] = earns = [_earns(row) for row in rows]
    # Block that each deed leaves on the cell ahead; 0 means that the cell keeps its block.
    columns["leaves"] = [_leaves(row) for row in rows]
    columns["eats"] = [int(isinstance(r, Harvest) and r.block == Block.RIPE_PLANT) for r in rows]
    columns["sows"] = [int(isinstance(r, Placement) and r.block == Block.PLANT) for r in rows]
    columns["lays"] = [int(isinstance(r, Placement) and r.block is None) for r in rows]
    of = _looked_up(deed, columns)
    items = {item: world.items[item] + of[item] for item in rules.items}
    for kind in kinds:
        items |= improved(items, kind, of[kind])
    world = unlock_number(world._replace(items=items), earns, of["earns"], deed != 0)
    world = fed(rules, world, "food", "hunger", of["food"])
    world = fed(rules, world, "drink", "thirst", of["drink"])
    world = world._replace(plants=plants.regrown(world, front, of["eats"] != 0))
    world, left = plants.planted(world, front, of["sows"] != 0), of["leaves"]
    if not rules.is_full:
        ground = moment.ground.put(front.row, front.column, left, left != 0)
        return moment._replace(ground=ground, world=world)
    lays = of["lays"] != 0
    marks = (front.marks << BLOCK_BITS) | jnp.where(lays, ITEM | LIT, 0)
    cell = jnp.where(left != 0, left, front.block) | marks
    ground = moment.ground.put(front.row, front.column, cell, (left != 0) | lays)
    return moment._replace(ground=ground, world=world, torch=lays)


def has(world: World, needs: dict[str, int]) -> Bool[Array, ""]:
    """Return whether the player has at least the given count or level of each item in `needs`."""
    enough = jnp.ones((), jnp.bool_)
    for item, count in needs.items():
        enough = enough & (world.items[item] >= count)
    return enough


def improved(items: dict[str, Any], kind: tuple[str, ...], level: Array) -> dict[str, Any]:
    """Raise one item to `level`: the first item in `kind` whose level is lower.

    `kind` has the names of items, such as the four pieces of armour. Return a dict from each name
    in `kind` to the item's level after the change.
    """
    better, missing = {}, jnp.ones((), jnp.bool_)
    for item in kind:
        lower = items[item] < level
        better[item] = jnp.where(missing & lower, level, items[item])
        missing = missing & ~lower
    return better


def _lacks(world: World, row: Recipe) -> Any:
    """Return whether an item that a recipe makes is still below the recipe's limit.

    The limit is the recipe's `below` (a count), else its `level`. If the recipe has no limit,
    return True.
    """
    limit = row.below or row.level
    if limit is None:
        return True
    return any_of(world.items[item] < limit for item in _makes(row))


def _makes(row: Recipe) -> tuple[str, ...]:
    """Return the names of the items that a recipe can make; each use makes only one of them."""
    return (row.makes,) if isinstance(row.makes, str) else row.makes


def _level(row: Harvest | Placement | Recipe, kind: tuple[str, ...]) -> int:
    """Return the level that a deed gives to one of the items `kind`; 0 if it makes none of them."""
    return (row.level or 0) if isinstance(row, Recipe) and _makes(row) == kind else 0


def _earns(row: Harvest | Placement | Recipe) -> int:
    """Return the index of the achievement that a deed earns; NO_ACHIEVEMENT if it earns none."""
    return NO_ACHIEVEMENT if row.achievement is None else int(row.achievement)


def _deeds(rules: Rules) -> tuple[Harvest | Placement | Recipe, ...]:
    """Return all harvests, placements and recipes; `Moment.deed` is an index into them, plus 1."""
    return (*rules.harvests, *rules.placements, *rules.recipes)


def _needs(row: Harvest | Placement | Recipe) -> dict[str, int]:
    """Return the minimum count or level that a deed requires of each item, by the item's name."""
    match row:
        case Harvest():
            return {} if row.tool is None else {row.tool: row.level}
        case Placement():
            return {row.item: row.cost}
        case Recipe():
            return row.costs


def _change(row: Harvest | Placement | Recipe, item: str) -> int:
    """Return the number that a deed adds to the count of an item; negative if it costs the item."""
    match row:
        case Harvest():
            return int(row.item == item)
        case Placement():
            return -row.cost * (row.item == item)
        case Recipe():
            return row.number * (row.makes == item and not row.level) - row.costs.get(item, 0)


def _leaves(row: Harvest | Placement | Recipe) -> int:
    """Return the block that a deed puts on the cell ahead; 0 if the cell keeps its block."""
    match row:
        case Harvest():
            return 0 if row.leaves == row.block else int(row.leaves)
        case Placement():
            return int(row.block or 0)
        case Recipe():
            return 0


def _looked_up(deed: Array, columns: dict[Any, list[int]]) -> dict[Any, Int32[Array, ""]]:
    """Look up the value of each column for `deed`, and return a dict by column name.

    `columns` has lists with one value per deed. If `deed` is 0, all results are 0. Several columns
    are packed into one array of 32-bit words, because each array lookup splits the kernel that XLA
    makes on a GPU.
    """
    fields = []
    for name, values in columns.items():
        low = min(0, *values)
        fields.append(Field(name, (max(0, *values) - low).bit_length(), low))
    found: dict[Any, Any] = {}
    for word in split([fields]):
        table, offset = np.zeros(len(columns["leaves"]) + 1, np.uint32), 0
        for field in word:
            stored = np.array([0, *columns[field.name]]) - field.low
            table |= stored.astype(np.uint32) << np.uint32(offset)
            offset += field.bits
        row = jnp.asarray(table.astype(np.int32)).at[deed].get(mode="promise_in_bounds")
        found |= of_word(word, row)
    return found
