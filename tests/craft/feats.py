"""Start states of the full Craftax game: from each, one action earns one of the 67 achievements.

`_DONE` has the action for each achievement, and the edit that makes its start state. An edit is a
function that changes a `starts_full.Start`.
"""

import functools

import numpy as np
import starts_full as starts

from jaxenvs.craft.full_rows import FULL
from jaxenvs.craft.tables import Achievement, Action, Block

_A, _B, _C = Achievement, Block, Action


def facing(block, **items):
    """Return an edit that turns the player right, to a block, and sets the item counts `items`."""

    def edit(start):
        start.change["player_direction"] = _C.RIGHT
        start.map[ahead(start)] = block
        start.item[ahead(start)] = 0
        start.items |= items

    return edit


def ahead(start):
    """Return the cell to the right of the player."""
    row, column = start.position
    return int(row), int(column) + 1


def foe(role, type):
    """Return an edit that puts a mob, which dies at the first blow, to the player's right."""

    def edit(start):
        facing(_B.PATH)(start)
        start.mob(role, 0, ahead(start), type=type, health=np.float32(0.1))

    return edit


def bench(**items):
    """Return an edit that puts a table and a furnace near the player, and sets item counts."""

    def edit(start):
        facing(_B.PATH, **items)(start)
        for block, side in ((_B.CRAFTING_TABLE, [1, 1]), (_B.FURNACE, [-1, 1])):
            start.map[tuple(int(x) for x in start.position + side)] = block

    return edit


def changed(**change):
    """Return an edit that sets fields of the state, and puts a path to the player's right."""

    def edit(start):
        facing(_B.PATH)(start)
        start.change |= change

    return edit


def both(*edits):
    """Return an edit that applies all of `edits`, one after another."""

    def edit(start):
        for each in edits:
            each(start)

    return edit


def down(start):
    """Place the player on the floor's ladder down; set 8 kills on the floor, which open it."""
    start.position = np.array(start.theirs.down_ladders[start.floor])
    start.theirs.monsters_killed[start.floor] = 8


def _spells(*learned):
    return changed(learned_spells=np.array(learned), player_mana=9)


def _necromancer(progress):
    shown = changed(boss_progress=progress, boss_timesteps_to_spawn_this_round=0)
    return both(shown, facing(_B.NECROMANCER))


_BAG = {"wood": 9, "stone": 9, "coal": 9, "iron": 9, "diamond": 9}
_DONE = {  # achievement -> action that earns it, edit of the start, and the floor unless it is 1
    _A.COLLECT_WOOD: (_C.DO, facing(_B.TREE)),
    _A.COLLECT_SAPLING: (_C.DO, facing(_B.GRASS), 0),
    _A.COLLECT_DRINK: (_C.DO, facing(_B.FOUNTAIN)),
    _A.COLLECT_STONE: (_C.DO, facing(_B.STONE, pickaxe=1)),
    _A.COLLECT_COAL: (_C.DO, facing(_B.COAL, pickaxe=1)),
    _A.COLLECT_IRON: (_C.DO, facing(_B.IRON, pickaxe=2)),
    _A.COLLECT_DIAMOND: (_C.DO, facing(_B.DIAMOND, pickaxe=3)),
    _A.COLLECT_SAPPHIRE: (_C.DO, facing(_B.SAPPHIRE, pickaxe=4)),
    _A.COLLECT_RUBY: (_C.DO, facing(_B.RUBY, pickaxe=4)),
    _A.EAT_PLANT: (_C.DO, facing(_B.RIPE_PLANT), 0),
    _A.OPEN_CHEST: (_C.DO, facing(_B.CHEST)),
    _A.FIND_BOW: (_C.DO, facing(_B.CHEST)),
    _A.PLACE_TABLE: (_C.PLACE_TABLE, facing(_B.PATH, **_BAG)),
    _A.PLACE_FURNACE: (_C.PLACE_FURNACE, facing(_B.PATH, **_BAG)),
    _A.PLACE_STONE: (_C.PLACE_STONE, facing(_B.WATER, **_BAG)),
    _A.PLACE_PLANT: (_C.PLACE_PLANT, facing(_B.GRASS, sapling=1), 0),
    _A.PLACE_TORCH: (_C.PLACE_TORCH, facing(_B.PATH, torches=1)),
    _A.WAKE_UP: (_C.NOOP, changed(is_sleeping=True)),
    **{
        _A[f"MAKE_{material}_{tool}"]: (
            _C[f"MAKE_{material}_{tool}"],
            bench(**_BAG, **{tool.lower(): level}),
        )
        for level, material in enumerate(("WOOD", "STONE", "IRON", "DIAMOND"))
        for tool in ("PICKAXE", "SWORD")
    },
    _A.MAKE_IRON_ARMOUR: (_C.MAKE_IRON_ARMOUR, bench(**_BAG)),
    _A.MAKE_DIAMOND_ARMOUR: (_C.MAKE_DIAMOND_ARMOUR, bench(**_BAG)),
    _A.MAKE_ARROW: (_C.MAKE_ARROW, bench(**_BAG)),
    _A.MAKE_TORCH: (_C.MAKE_TORCH, bench(**_BAG)),
    _A.FIRE_BOW: (_C.SHOOT_ARROW, facing(_B.PATH, bow=1, arrows=1)),
    _A.LEARN_FIREBALL: (_C.READ_BOOK, both(_spells(False, True), facing(_B.PATH, books=1))),
    _A.LEARN_ICEBALL: (_C.READ_BOOK, both(_spells(True, False), facing(_B.PATH, books=1))),
    _A.CAST_FIREBALL: (_C.CAST_FIREBALL, _spells(True, False)),
    _A.CAST_ICEBALL: (_C.CAST_ICEBALL, _spells(False, True)),
    _A.DRINK_POTION: (_C.DRINK_POTION_PINK, facing(_B.PATH, potions=np.ones(6, int))),
    _A.ENCHANT_SWORD: (_C.ENCHANT_SWORD, facing(_B.ENCHANTMENT_TABLE_FIRE, sword=1, ruby=1)),
    _A.ENCHANT_ARMOUR: (
        _C.ENCHANT_ARMOUR,
        facing(_B.ENCHANTMENT_TABLE_ICE, sapphire=1, armour=np.ones(4, int)),
    ),
    _A.DAMAGE_NECROMANCER: (_C.DO, _necromancer(0), 8),
    _A.DEFEAT_NECROMANCER: (_C.DO, _necromancer(7), 8),
    **{
        row.achievement: (_C.DO, foe(role, type), 1)
        for role in ("melee", "passive", "ranged")
        for type, row in enumerate(FULL.types(role))
    },
    **{
        row.achievement: (_C.DESCEND, down, floor - 1)
        for floor, row in enumerate(FULL.floors)
        if floor
    },
}


def make(achievement):
    """Return the start from which one action earns an achievement, as a state of craftax."""
    _, edit, floor = (*_DONE[achievement], 1)[:3]
    start = starts.Start(0, floor, np.random.default_rng(int(achievement)))
    edit(start)
    return start.state()


@functools.cache
def batch(count):
    """Return `count` stacked starts, the achievement of each, and the action that earns it.

    The starts cycle through all achievements.
    """
    names = [_A(i % len(_A)) for i in range(count)]
    made = {name: make(name) for name in _A}
    actions = np.array([_DONE[name][0] for name in names], np.int32)
    return starts.stacked([made[name] for name in names]), np.array(names), actions
