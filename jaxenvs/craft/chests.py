"""Opening chests of the full game, and taking their loot."""

import jax.numpy as jnp

from .chance import ORES
from .full_rows import POTIONS
from .state import one
from .step import Moment
from .tables import Action, Block

# On floor BOW_FLOOR, the first chest that the player opens also holds a bow.
# On each of BOOK_FLOORS, the first chest that the player opens also holds a book.
BOW_FLOOR, BOOK_FLOORS = 1, (3, 4)


def open(moment: Moment) -> Moment:
    """If the action is DO, add the loot of the chest ahead to the inventory.

    Craftax's quirk: if the player faces the upper or left border, Craftax takes the cell at the
    opposite border as the cell ahead. If this cell is a chest, DO gives no loot but sets
    `World.opened`. Then the next chest that the player opens on the floor is not treated as the
    first one, so it holds no bow or book.
    """
    world, loot = moment.world, moment.draws.loot
    seen = (moment.action == Action.DO) & (moment.front.block == Block.CHEST)
    opens = seen & moment.front.inside & ~moment.hit
    first = opens & ~world.opened
    has_book = (world.floor == BOOK_FLOORS[0]) | (world.floor == BOOK_FLOORS[1])
    found = {"torches": loot.torches, "arrows": loot.arrows, "books": one(first & has_book)}
    amounts = {"coal": loot.coal, "iron": loot.iron}
    for number, ore in enumerate(ORES):
        found[ore] = jnp.where(loot.ore == number, amounts.get(ore, 1), 0)
    for number, potion in enumerate(POTIONS):
        found[potion] = jnp.where(loot.potion == number, loot.potions, 0)
    items = dict(world.items)
    for item, count in found.items():
        items[item] = items[item] + jnp.where(opens, count, 0)
    for tool, level in (("pickaxe", loot.pickaxe), ("sword", loot.sword)):
        items[tool] = jnp.maximum(items[tool], jnp.where(opens, level, 0))
    items["bow"] = jnp.where(first & (world.floor == BOW_FLOOR), 1, items["bow"])
    world = world._replace(items=items, opened=world.opened | seen)
    return moment._replace(world=world)
