"""Rule tables of the full game, Craftax 1.6.1.

The tables list the items, everything that the player can collect, place and craft, 19 mobs, 8
projectiles and 9 floors. `PACKING` says how the state is packed into words.
"""

from typing import Any

from .packing import Field, Packing, fields_of, real
from .state import MOST_KILLS
from .tables import (
    BROKEN,
    MELEE,
    NEEDS,
    NEVER_PLACED,
    PASSIVE,
    RANGED,
    VITALS,
    Achievement,
    Action,
    Block,
    FloorRow,
    Harvest,
    MobRow,
    Placement,
    Possession,
    ProjectileRow,
    Recipe,
    Rules,
    Weapon,
    blocks,
)

SIZE, FLOORS = 48, 9  # side of each floor in cells, number of floors
BESIDE = 16  # positions of projectiles are stored up to this many cells beyond the map's border
# Number that a step adds to the counters of hunger, thirst and fatigue of a player who is awake and
# has dexterity 1. Each further point of dexterity subtracts an eighth of PACE. For hunger and
# thirst, sleep halves the result. With PACE = 16, all these numbers are integers.
PACE = 16
_COUNTS = "wood stone coal iron diamond sapling arrows torches ruby sapphire books"
COUNTS = tuple(_COUNTS.split())
COLOURS = ("red", "green", "blue", "pink", "cyan", "yellow")  # colours of the potions
POTIONS = tuple(f"{colour}_potion" for colour in COLOURS)
ARMOUR = ("helmet", "chestplate", "leggings", "boots")
TRAITS = ("xp", "dexterity", "strength", "intelligence")
SPELLS = ("fireball", "iceball")
CHARMS = ("sword", "bow", *ARMOUR)  # items that can be enchanted
STAIRS = ("down_row", "down_column", "up_row", "up_column")

_B, _A = Block, Achievement
_SOLID = blocks(
    "STONE TREE COAL IRON DIAMOND CRAFTING_TABLE FURNACE PLANT RIPE_PLANT WALL WALL_MOSS "
    "STALAGMITE SAPPHIRE RUBY CHEST FOUNTAIN FIRE_TREE ENCHANTMENT_TABLE_FIRE "
    "ENCHANTMENT_TABLE_ICE NECROMANCER GRAVE GRAVE2 GRAVE3"
)
_OPEN = (frozenset(Block) | NEVER_PLACED) - _SOLID
# Blocks on which mobs that do not swim appear, except on the boss floor.
GROUND = blocks("GRASS PATH FIRE_GRASS ICE_GRASS")
GRAVES = blocks("GRAVE GRAVE2 GRAVE3")  # blocks on which mobs appear on the boss floor
_LAND = blocks("WATER LAVA")  # blocks that most mobs avoid and that the player cannot enter
_SWIMS = _OPEN - {_B.WATER}  # blocks that swimming mobs avoid: all open blocks except water
_BARE = GROUND | {_B.SAND}  # blocks on which torches may lie

_COUNTERS = tuple(f"counters.{name}" for name in ("hunger", "thirst"))
PACKING = Packing(
    player=(
        (
            *fields_of(("row", "column"), 6),
            Field("facing", 3),
            *fields_of(("sleeping", "resting"), 1, flag=True),
            Field("floor", 4),
            Field("boss.progress", 4),
            Field("boss.timer", 3),
            *fields_of((f"spells.{name}" for name in SPELLS), 1, flag=True),
        ),
        (
            *fields_of((f"vitals.{name}" for name in ("food", "drink")), 5),
            # These fields store values from -8 to 55. A potion can move energy or mana out of its
            # range, and the value is clipped only at the end of the step.
            *fields_of((f"vitals.{name}" for name in ("energy", "mana")), 6, low=-8),
            Field("traits.xp", 5),
            Field("traits.dexterity", 4),
        ),
        (*fields_of(("traits.strength", "traits.intelligence"), 4), *fields_of(_COUNTERS, 9)),
        fields_of(("counters.fatigue", "counters.recover"), 10, low=-256),
        (
            *fields_of((f"charms.{name}" for name in CHARMS), 2),
            *fields_of((f"effects.{colour}" for colour in COLOURS), 3),
        ),
        (
            *fields_of((f"items.{name}" for name in (*COUNTS, *POTIONS)), 8),
            *fields_of(("items.pickaxe", "items.sword"), 3),
            Field("items.bow", 1),
            *fields_of((f"items.{name}" for name in ARMOUR), 2),
        ),
        (real("vitals.health"), real("mana_counter")),
    ),
    floor=(
        (
            *fields_of((f"stairs.{name}" for name in STAIRS), 6),
            Field("kills", MOST_KILLS.bit_length(), saturates=True),
            Field("opened", 1, flag=True),
        ),
    ),
    mob=(
        *fields_of(("row", "column"), 6),
        Field("cooldown", 3),
        Field("alive", 1, flag=True),
        real("health"),
    ),
    projectile=(
        *(Field(name, 7, low=-BESIDE, saturates=True) for name in ("row", "column")),
        *fields_of(("d_row", "d_column"), 2, low=-1),
        Field("alive", 1, flag=True),
    ),
    plant=(
        *fields_of(("row", "column"), 6),
        Field("age", 14, saturates=True),
        Field("planted", 1, flag=True),
    ),
)

_IRON = {"wood": 1, "stone": 1, "iron": 1, "coal": 1}
_STONE = {"wood": 1, "stone": 1}
# Each row: the material of a tool, the items that it costs, whether a furnace is required, and the
# level of the tool.
_TOOLS = (
    ("WOOD", {"wood": 1}, False, 1),
    ("STONE", _STONE, False, 2),
    ("IRON", _IRON, True, 3),
)
_RECIPES = (
    *(
        Recipe(Action[f"MAKE_{material}_{tool.upper()}"], tool, costs, furnace, None, level=level)
        for tool, diamonds in (("pickaxe", 3), ("sword", 2))
        for material, costs, furnace, level in (
            *_TOOLS,
            ("DIAMOND", {"wood": 1, "diamond": diamonds}, False, 4),
        )
    ),
    Recipe(
        Action.MAKE_IRON_ARMOUR, ARMOUR, {"iron": 3, "coal": 3}, True, _A.MAKE_IRON_ARMOUR, level=1
    ),
    Recipe(
        Action.MAKE_DIAMOND_ARMOUR, ARMOUR, {"diamond": 3}, False, _A.MAKE_DIAMOND_ARMOUR, level=2
    ),
    Recipe(Action.MAKE_ARROW, "arrows", _STONE, False, None, number=2, below=99),
    Recipe(Action.MAKE_TORCH, "torches", {"wood": 1, "coal": 1}, False, None, number=4, below=99),
)
_HARVESTS = (
    Harvest(_B.TREE, None, "wood", _B.GRASS, None),
    Harvest(_B.FIRE_TREE, None, "wood", _B.FIRE_GRASS, None),
    Harvest(_B.ICE_SHRUB, None, "wood", _B.ICE_GRASS, None),
    Harvest(_B.STONE, "pickaxe", "stone", _B.PATH, None),
    Harvest(_B.STALAGMITE, "pickaxe", "stone", _B.PATH, None),
    Harvest(_B.COAL, "pickaxe", "coal", _B.PATH, None),
    Harvest(_B.IRON, "pickaxe", "iron", _B.PATH, None, level=2),
    Harvest(_B.DIAMOND, "pickaxe", "diamond", _B.PATH, None, level=3),
    Harvest(_B.SAPPHIRE, "pickaxe", "sapphire", _B.PATH, None, level=4),
    Harvest(_B.RUBY, "pickaxe", "ruby", _B.PATH, None, level=4),
    Harvest(_B.CRAFTING_TABLE, None, None, _B.PATH, None),
    Harvest(_B.FURNACE, None, None, _B.PATH, None),
    Harvest(_B.GRASS, None, "sapling", _B.GRASS, None, chance=0.1),
    Harvest(_B.WATER, None, None, _B.WATER, _A.COLLECT_DRINK, drink=1),
    Harvest(_B.FOUNTAIN, None, None, _B.FOUNTAIN, _A.COLLECT_DRINK, drink=1),
    Harvest(_B.RIPE_PLANT, None, None, _B.PLANT, _A.EAT_PLANT, food=4),
    Harvest(_B.CHEST, None, None, _B.PATH, _A.OPEN_CHEST),  # `chests.open` gives the loot
)
_SOIL, _SEA = blocks("GRASS"), blocks("WATER")
_PLACEMENTS = (
    Placement(Action.PLACE_STONE, _B.STONE, "stone", 1, _OPEN - _SEA, _A.PLACE_STONE),
    Placement(Action.PLACE_STONE, _B.STONE, "stone", 1, _SEA, _A.PLACE_STONE, bare=False),
    Placement(Action.PLACE_TABLE, _B.CRAFTING_TABLE, "wood", 2, _OPEN, _A.PLACE_TABLE),
    Placement(Action.PLACE_FURNACE, _B.FURNACE, "stone", 1, _OPEN, _A.PLACE_FURNACE),
    Placement(Action.PLACE_PLANT, _B.PLANT, "sapling", 1, _SOIL, _A.PLACE_PLANT),
    Placement(Action.PLACE_TORCH, None, "torches", 1, _BARE, _A.PLACE_TORCH),
)
_POSSESSIONS = (
    *(
        Possession(item, 1, _A[f"COLLECT_{item.upper()}"])
        for item in ("wood", "stone", "coal", "iron", "diamond", "ruby", "sapphire", "sapling")
    ),
    Possession("bow", 1, _A.FIND_BOW),
    Possession("arrows", 1, _A.MAKE_ARROW),
    Possession("torches", 1, _A.MAKE_TORCH),
    *(
        Possession(tool, level, _A[f"MAKE_{material}_{tool.upper()}"])
        for tool in ("pickaxe", "sword")
        for level, material in enumerate(("WOOD", "STONE", "IRON", "DIAMOND"), 1)
    ),
)

_RANGED = {**RANGED, "chase": 6}
_AGAINST_FIRE, _AGAINST_ICE, _ARMOURED = (0.9, 1.0, 0.0), (0.9, 0.0, 1.0), (0.5, 0.0, 0.0)
_SWIMMING = {**_RANGED, "shuns": _SWIMS, "appears_on": frozenset({_B.WATER})}
_BURNING = {**_RANGED, "shuns": frozenset(), "resists": _AGAINST_FIRE}
_FREEZING = {**_RANGED, "shuns": frozenset(), "resists": _AGAINST_ICE}


def _mob(role: dict[str, Any], name: str, health: int, of: Achievement, **more: Any) -> MobRow:
    given = {"appears_on": GROUND, "shuns": _LAND, **role, **more}
    return MobRow(name=name, health=health, achievement=of, **given)


_MOBS = (
    _mob(MELEE, "zombie", 5, _A.DEFEAT_ZOMBIE, damage=2),
    _mob(MELEE, "gnome_warrior", 7, _A.DEFEAT_GNOME_WARRIOR, damage=4),
    _mob(MELEE, "orc_soldier", 9, _A.DEFEAT_ORC_SOLIDER, damage=3),
    _mob(MELEE, "lizard", 11, _A.DEFEAT_LIZARD, damage=5, shuns=frozenset({_B.LAVA})),
    _mob(MELEE, "knight", 12, _A.DEFEAT_KNIGHT, damage=6, resists=_ARMOURED),
    _mob(MELEE, "troll", 20, _A.DEFEAT_TROLL, damage=6, fire=1, ice=1, resists=(0.2, 0.0, 0.0)),
    _mob(MELEE, "pigman", 20, _A.DEFEAT_PIGMAN, damage=3, fire=5, resists=_AGAINST_FIRE),
    _mob(MELEE, "frost_troll", 24, _A.DEFEAT_FROST_TROLL, damage=4, ice=5, resists=_AGAINST_ICE),
    _mob(PASSIVE, "cow", 3, _A.EAT_COW),
    _mob(PASSIVE, "bat", 4, _A.EAT_BAT, shuns=frozenset()),
    _mob(PASSIVE, "snail", 6, _A.EAT_SNAIL),
    _mob(_RANGED, "skeleton", 3, _A.DEFEAT_SKELETON, projectile="arrow"),
    _mob(_RANGED, "gnome_archer", 5, _A.DEFEAT_GNOME_ARCHER, projectile="arrow"),
    _mob(_RANGED, "orc_mage", 6, _A.DEFEAT_ORC_MAGE, projectile="fireball"),
    _mob(_RANGED, "kobold", 8, _A.DEFEAT_KOBOLD, projectile="dagger"),
    _mob(_RANGED, "knight_archer", 12, _A.DEFEAT_ARCHER, projectile="arrow2", resists=_ARMOURED),
    _mob(_SWIMMING, "deep_thing", 4, _A.DEFEAT_DEEP_THING, projectile="slimeball"),
    _mob(_BURNING, "fire_elemental", 14, _A.DEFEAT_FIRE_ELEMENTAL, projectile="fireball2"),
    _mob(_FREEZING, "ice_elemental", 16, _A.DEFEAT_ICE_ELEMENTAL, projectile="iceball2"),
)
_PROJECTILES = (
    ProjectileRow("arrow", 2),
    ProjectileRow("dagger", 4),
    ProjectileRow("fireball", 0, fire=3),
    ProjectileRow("iceball", 0, ice=3),
    ProjectileRow("arrow2", 5),
    ProjectileRow("slimeball", 4, fire=3, ice=3),
    ProjectileRow("fireball2", 3, fire=5),
    ProjectileRow("iceball2", 4, ice=5),
)


def _floor(name: str, mobs: str, entry: Achievement | None, **chances: float) -> FloorRow:
    roles = ("passive", "melee", "ranged")
    usual = {"passive": 0.1, "melee": 0.06, "ranged": 0.05, **chances}
    return FloorRow(name, dict(zip(roles, mobs.split(), strict=True)), usual, 0.0, entry)


_FLOORS = (
    _floor("overworld", "cow zombie skeleton", None, melee=0.02)._replace(night=0.1),
    _floor("dungeon", "snail orc_soldier orc_mage", _A.ENTER_DUNGEON),
    _floor("gnomish mines", "bat gnome_warrior gnome_archer", _A.ENTER_GNOMISH_MINES),
    _floor("sewers", "snail lizard kobold", _A.ENTER_SEWERS),
    _floor("vaults", "snail knight knight_archer", _A.ENTER_VAULT),
    _floor("troll mines", "bat troll deep_thing", _A.ENTER_TROLL_MINES),
    _floor("fire realm", "bat pigman fire_elemental", _A.ENTER_FIRE_REALM),
    _floor("ice realm", "bat frost_troll ice_elemental", _A.ENTER_ICE_REALM, passive=0.0),
    _floor("graveyard", "cow zombie skeleton", _A.ENTER_GRAVEYARD, passive=0.0),
)
_WEIGHED = {
    8: (33, 34, 35, 44, 45, 46, 47, 48, 49),
    5: (30, 31, 32, 40, 41, 42, 43, 55, 56, 57, 58, 63, 64, 65, 66),
    3: (25, 26, 27, 28, 29, 36, 37, 38, 39, 50, 51, 52, 53, 54, 59, 60, 61, 62),
}
_WEIGHTS = {number: weight for weight, numbers in _WEIGHED.items() for number in numbers}

FULL = Rules(
    packing=PACKING,
    view=(9, 11),
    blocks=tuple(Block),
    actions=tuple(Action),
    achievements=tuple(Achievement),
    items=(*COUNTS[:6], "pickaxe", "sword", "bow", *COUNTS[6:], *ARMOUR, *POTIONS),
    most=99,
    best=9,
    solid=_SOLID,
    overflown=frozenset(),
    broken=BROKEN,
    recipes=_RECIPES,
    harvests=_HARVESTS,
    placements=_PLACEMENTS,
    needs=NEEDS,
    pace=PACE,
    # Damage of a blow for each level of the sword, from 0 (bare hand) to 4 (diamond sword).
    weapons=tuple(Weapon("sword", damage) for damage in (1, 2, 3, 5, 8)),
    mobs=_MOBS,
    projectiles=_PROJECTILES,
    floors=_FLOORS,
    weights=tuple(_WEIGHTS.get(achievement, 1) for achievement in Achievement),
    barred=_LAND,
    graves=GRAVES,
    possessions=_POSSESSIONS,
    vitals=(*VITALS, "mana"),
)
