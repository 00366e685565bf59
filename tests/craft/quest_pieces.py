"""Behaviours of `quest_player`: each plays a piece of `AHEAD` steps, to move, fight or craft.

A function returns True if it played a piece. `shot` and `near_table` return other values.
"""

import itertools

import numpy as np
from quest_clones import AHEAD, CLONES, FAR, IS_WALKED
from quest_game import cell, cells

from jaxenvs.craft.full_rows import ARMOUR
from jaxenvs.craft.tables import Action, Block

LAST = 8  # index of the floor with the boss, the last one
STEPS_ASIDE = [way for n in range(4) for way in itertools.product(range(1, 5), repeat=n)]


def seek(game, *blocks, what=None, **more):
    """Go to the nearest of the given blocks, if any is reachable, and use this block."""
    use = game.blocks(*blocks)
    field = game.field(use)
    if not use.any() or field[game.at] >= FAR:
        return False
    game.play(what or blocks[0].name.lower(), field, use, shot=shot(game), **more)
    return True


def reach(game, mobs, what, **more):
    """Go to the nearest of `mobs`, if any is reachable, and fight this mob."""
    targets = cells(mobs)
    field = game.field(targets)
    if not targets.any() or field[game.at] >= FAR:
        return False
    game.play(what, field, shot=shot(game), **more)
    return True


def go(game, place, what, **more):
    """Go to the cell `place`; `more` may have `arrive`, an action to take there."""
    game.play(what, game.field(cell(place)), shot=shot(game), **more)
    return True


def wander(game, what):
    """Go to the nearest of some random cells."""
    places = np.random.default_rng(game.rolls).random((48, 48)) < 0.02
    game.play(what, game.field(places & IS_WALKED[game.block]), shot=shot(game))
    return True


def do(game, *actions):
    """Take the given actions, one per step."""
    game.play(Action(actions[0]).name.lower(), forced=np.array(actions))
    return True


def aside(game, *actions, score):
    """Take zero to three steps aside, then the given actions.

    The chosen steps maximise `score` of the world after the actions, minus 0.5 per step aside.
    """
    forced = np.zeros((CLONES, AHEAD), np.int32)
    steps = [STEPS_ASIDE[number % len(STEPS_ASIDE)] for number in range(CLONES)]
    for row, before in zip(forced, steps, strict=True):
        row[: len(before) + len(actions)] = [*before, *actions]
    cost = np.array([len(before) for before in steps]) / 2
    name = Action(actions[-1]).name.lower()
    game.play(name, forced=forced, score=lambda world: score(world) - cost)
    return True


def shot(game):
    """Return the action of a shot: a spell to which the floor's mobs are weak, or an arrow."""
    fire, ice = (bool(game.world.spells[spell]) for spell in ("fireball", "iceball"))
    kind = min(game.waves, 7) if game.floor == LAST else game.floor
    arrows = game.has("arrows") and game.has("bow")
    if game.vital("mana") < 2 or (kind < 6 and arrows) or not (fire or ice):
        return Action.SHOOT_ARROW
    if kind == 7 or not ice:
        return Action.CAST_FIREBALL if fire else Action.CAST_ICEBALL
    return Action.CAST_ICEBALL if kind == 6 or not fire else Action.CAST_FIREBALL


# The following functions craft, collect or place items.


def make(game, action, *items, furnace=False):
    """Craft an item. First place a table, and a furnace if `furnace` is True, if none is near."""
    if not near_table(game):
        return False
    count = lambda world: sum(world.items[item] for item in items)  # noqa: E731
    before, rolls = int(count(game.world)), game.rolls
    needs_furnace = furnace and not game.near(Block.FURNACE)
    actions = (Action.PLACE_FURNACE, action) if needs_furnace else (action,)
    aside(game, *actions, score=lambda world: 100.0 * (count(world) > before))
    if int(count(game.world)) <= before and game.rolls > rolls:
        wander(game, "another place")
    return True


def near_table(game):
    """Place a table unless a table is near; return whether a table is near afterwards."""
    if game.near(Block.CRAFTING_TABLE):
        return True
    wood = game.has("wood")
    if wood < 2:
        return False
    aside(game, Action.PLACE_TABLE, score=lambda world: 100.0 * (world.items["wood"] <= wood - 2))
    return game.near(Block.CRAFTING_TABLE)


def gather(game, item, count, *blocks):
    """Collect an item from `blocks` if the player has fewer than `count`.

    Return False if the player has enough, or if no such block is reachable.
    """
    return game.has(item) < count and seek(game, *blocks)


def iron_armour(game):
    """Craft a piece of iron armour, after collecting iron and coal for it."""
    if all(game.has(piece) for piece in ARMOUR):
        return False
    if gather(game, "iron", 3, Block.IRON) or gather(game, "coal", 3, Block.COAL):
        return True
    if min(game.has("iron"), game.has("coal")) < 3 or not game.has("stone"):
        return False
    return make(game, Action.MAKE_IRON_ARMOUR, *ARMOUR, furnace=True)


def of_diamond(game):
    """Craft from diamonds: first the pickaxe, then the sword, then armour."""
    diamonds, wood = game.has("diamond"), game.has("wood")
    if game.has("pickaxe") < 4:
        return diamonds >= 3 and wood >= 3 and make(game, Action.MAKE_DIAMOND_PICKAXE, "pickaxe")
    if game.has("sword") < 4:
        return diamonds >= 2 and wood >= 3 and make(game, Action.MAKE_DIAMOND_SWORD, "sword")
    if diamonds < 3 or game.armour() == 8:
        return False
    if wood < 2 and not game.near(Block.CRAFTING_TABLE):
        return seek(game, Block.FIRE_TREE, Block.TREE, Block.ICE_SHRUB)
    return make(game, Action.MAKE_DIAMOND_ARMOUR, *ARMOUR)


def arrows(game):
    """Craft arrows if few are left, and wood and stone are plentiful."""
    able = game.has("bow") and game.has("arrows") < 6 and game.has("wood") >= 16
    return able and game.has("stone") >= 8 and make(game, Action.MAKE_ARROW, "arrows")


def garden(game):
    """Plant a sapling, and eat the plant when it is ripe."""
    if not game.misses("EAT_PLANT"):
        return False
    if game.has("sapling") and game.misses("PLACE_PLANT"):
        return aside(game, Action.PLACE_PLANT, score=lambda world: -20 * world.items["sapling"])
    return seek(game, Block.RIPE_PLANT)


def torch(game):
    """Place a torch if none has been placed in this game."""
    if not game.has("torches") or not game.misses("PLACE_TORCH"):
        return False
    return aside(game, Action.PLACE_TORCH, score=lambda world: -20 * world.items["torches"])
