"""World generation of the full game with the distribution of Craftax 1.6.1: nine floors.

Six floors are hills made of noise, three are dungeons of rooms; each is a row of a table. One
uniform number a cell decides about ore and trees, where upstream draws one for each.
Replicated though surely not meant: the graveyard, which has no stone, gets one at (0, 0)
(`_hills`); both ladders may lie on one cell, and then the way down is missing (`_finished`); the
light of a ladder near the upper or left border falls at the opposite one (`_patch`).
"""

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core.bits import nth_bit
from ..core.random import Key, below, hashed, permutation
from ..core.struct import Struct, struct
from .chance import uniform
from .noise import noise
from .tables import Block, Item
from .terrain import lattices

SIZE = 48  # cells on a side
FLOORS = 9
ROOMS = 8  # of a dungeon
CHUNK = 16  # cells on a side; no two rooms begin in the same of 3 x 3
POTIONS = 6
MOSSY = 0.1  # share of a dungeon's walls with moss, and of its paths with something rare
_B = Block


@struct
class FullLevel(Struct):
    """Where an episode of the full game begins: the player stands in the middle of floor 0."""

    map: UInt8[Array, "floors size size"]  # blocks
    items: UInt8[Array, "floors size size"]  # `Item`
    light: Float32[Array, "floors size size"]  # 0 to 1
    down_ladders: Int32[Array, "floors 2"]  # row and column, also where there is no ladder
    up_ladders: Int32[Array, "floors 2"]
    potion_mapping: Int32[Array, " potions"]  # effect of each colour


class Ore(NamedTuple):
    """Something that lies here and there."""

    block: Block
    share: float  # of the cells that earlier ores left
    on: Block = _B.STONE  # or the trees of a floor


class Hills(NamedTuple):
    """A floor made of noise."""

    floor: int
    ground: Block
    sea: Block
    coast: Block
    tree: Block  # on the ground
    ores: tuple[Ore, ...]
    mountain: Block = _B.STONE
    hollow: Block = _B.STONE  # tunnels and caves
    lava: Block = _B.LAVA
    start: Block = _B.PATH  # in the middle
    ladder: Block = _B.PATH  # on which ladders stand
    light: float = 0.0
    wet: float = 0.7  # height of the water above which there is sea
    clear: float = 0.8  # share of the ground without a tree, in woods
    woods: float = 0.5  # noise above which there are woods
    plain: float = 5.0  # cells from the middle in which mountains rise by one
    peak: float = 1.0  # rise at most


class Dungeon(NamedTuple):
    """A floor of rooms."""

    floor: int
    special: Block  # in the first room
    fountain: Block = _B.FOUNTAIN  # in half of the rooms
    rare: Block = _B.PATH  # here and there on the way
    ladder: Block = _B.PATH  # on which ladders stand
    light: float = 1.0


_GEMS = (Ore(_B.DIAMOND, 0.005), Ore(_B.SAPPHIRE, 0.0025), Ore(_B.RUBY, 0.0025))
_GNOMES = Hills(
    floor=2,
    ground=_B.PATH,
    sea=_B.WATER,
    coast=_B.PATH,
    tree=_B.STALAGMITE,
    ores=(Ore(_B.COAL, 0.04), Ore(_B.IRON, 0.02), *_GEMS),
    plain=17.0,
    peak=1.5,
)
_RICH = (Ore(_B.DIAMOND, 0.01), Ore(_B.SAPPHIRE, 0.01), Ore(_B.RUBY, 0.01))
HILLS = (
    Hills(
        floor=0,
        ground=_B.GRASS,
        sea=_B.WATER,
        coast=_B.SAND,
        tree=_B.TREE,
        ores=(Ore(_B.COAL, 0.03), Ore(_B.IRON, 0.02), Ore(_B.DIAMOND, 0.001)),
        hollow=_B.PATH,
        start=_B.GRASS,
        light=1.0,
    ),
    _GNOMES,
    _GNOMES._replace(floor=5, ores=(Ore(_B.COAL, 0.04), Ore(_B.IRON, 0.03), *_RICH)),
    Hills(
        floor=6,
        ground=_B.FIRE_GRASS,
        sea=_B.LAVA,
        coast=_B.SAND,
        tree=_B.FIRE_TREE,
        ores=(Ore(_B.COAL, 0.05), Ore(_B.RUBY, 0.025)),
        start=_B.FIRE_GRASS,
        ladder=_B.FIRE_GRASS,
        light=1.0,
        wet=0.5,
    ),
    Hills(
        floor=7,
        ground=_B.ICE_GRASS,
        sea=_B.WATER,
        coast=_B.ICE_GRASS,
        tree=_B.ICE_SHRUB,
        ores=(Ore(_B.DIAMOND, 0.005), Ore(_B.SAPPHIRE, 0.02)),
        lava=_B.WATER,
        start=_B.ICE_GRASS,
        ladder=_B.ICE_GRASS,
        wet=0.5,
        clear=0.4,
        plain=17.0,
        peak=1.5,
    ),
    Hills(
        floor=8,
        ground=_B.PATH,
        sea=_B.PATH,
        coast=_B.PATH,
        tree=_B.GRAVE,
        ores=(
            Ore(_B.WALL_MOSS, 0.1, _B.WALL),
            Ore(_B.GRAVE2, 0.333, _B.GRAVE),
            Ore(_B.GRAVE3, 0.5, _B.GRAVE),
        ),
        mountain=_B.WALL,
        hollow=_B.WALL,
        lava=_B.WALL,
        start=_B.NECROMANCER,
        clear=0.95,
        woods=-1.0,
        plain=10.0,
        peak=10.0,
    ),
)
DUNGEONS = (
    Dungeon(floor=1, special=_B.PATH),
    Dungeon(floor=3, special=_B.ENCHANTMENT_TABLE_ICE, fountain=_B.WATER, rare=_B.WATER),
    Dungeon(floor=4, special=_B.ENCHANTMENT_TABLE_FIRE),
)
_ROWS = (*HILLS, *DUNGEONS)  # in the order in which they are built
_MOST_ORES = max(len(row.ores) for row in HILLS)


class Rooms(NamedTuple):
    """All chance of a dungeon's rooms and corridors; a pair is of rows and columns."""

    size: Int32[Array, "*floors rooms 2"]  # 5 to 9 cells
    chunk: Int32[Array, "*floors rooms"]  # 0 to 8, each at most once
    offset: Int32[Array, "*floors rooms 2"]  # 0 to 10 cells into the chunk
    chest: Int32[Array, "*floors rooms 2"]  # cells from the room's corner, 1 to size - 2
    fountain: Int32[Array, "*floors rooms 2"]  # likewise
    has_fountain: Bool[Array, "*floors rooms"]
    # The room a corridor leads to, of those before it and the last one, which counts after them.
    joins: Int32[Array, "*floors rooms"]


class FloorDraws(NamedTuple):
    """All chance of a world. Uniform numbers in [0, 1); angles are shares of the full turn."""

    angles: tuple[Float32[Array, "hills rows columns"], ...]  # of water, mountains, tunnels, woods
    cells: Float32[Array, "floors size size"]  # what becomes of a cell; hills, then dungeons
    diamond: Float32[Array, ""]  # which stone of floor 0 is one, with `always_diamond`
    ladders: Float32[Array, "floors 2"]  # on which cell is the one down and the one up; likewise
    rooms: Rooms
    potions: Int32[Array, " potions"]  # effect of each colour


def draw(key: Key, angles: Any = None) -> FloorDraws:
    """Draw the chance of a world; `angles`: the lattices' own, NaN where they are to be drawn."""
    first = itertools.count()

    def words(*shape: int) -> UInt32[Array, "..."]:
        counter = list(itertools.islice(first, math.prod(shape)))
        return hashed(key, jnp.asarray(np.array(counter, np.uint32).reshape(shape)))

    drawn = tuple(uniform(words(len(HILLS), *shape)) for shape in lattices(SIZE))
    if angles is not None:
        given = zip(angles, drawn, strict=True)
        drawn = tuple(jnp.where(jnp.isnan(a), d, a) for a, d in given)
    each = (len(DUNGEONS), ROOMS)
    size = 5 + below(words(*each, 2), 5)
    rooms = Rooms(
        size=size,
        chunk=jax.vmap(permutation)(words(len(DUNGEONS), 9))[:, :ROOMS],
        offset=below(words(*each, 2), 11),
        chest=1 + below(words(*each, 2), size - 2),
        fountain=1 + below(words(*each, 2), size - 2),
        has_fountain=uniform(words(*each)) > 0.5,
        joins=below(words(*each), np.arange(1, ROOMS + 1)),
    )
    return FloorDraws(
        angles=drawn,
        cells=uniform(words(FLOORS, SIZE, SIZE)),
        diamond=uniform(words()),
        ladders=uniform(words(FLOORS, 2)),
        rooms=rooms,
        potions=permutation(words(POTIONS)),
    )


def build(draws: FloorDraws, always_diamond: Any) -> FullLevel:
    """Build the nine floors; `always_diamond`: whether one stone of floor 0 is a diamond."""
    hills = jax.vmap(_hills)(_HILL_COLUMNS, _ORE_COLUMNS, draws.angles, draws.cells[: len(HILLS)])
    dungeons = jax.vmap(_dungeon)(_DUNGEON_COLUMNS, draws.rooms, draws.cells[len(HILLS) :])
    cells = jnp.concatenate([hills, dungeons])
    finished = jax.vmap(_finished, (0, 0, 0, None, None))
    floors = finished(_FINISH_COLUMNS, cells, draws.ladders, draws.diamond, always_diamond)
    order = np.argsort([row.floor for row in _ROWS])
    return FullLevel(
        **jax.tree.map(lambda x: jnp.stack([x[i] for i in order]), floors),
        potion_mapping=draws.potions,
    )


def _columns(rows: Any, *names: str) -> dict[str, np.ndarray]:
    """Numbers of the rows by name."""
    values = {name: [getattr(row, name) for row in rows] for name in names}
    kind = {True: np.int32, False: np.float32}
    return {n: np.array(v, kind[all(isinstance(x, int) for x in v)]) for n, v in values.items()}


_HILL_COLUMNS = _columns(HILLS, *(name for name in Hills._fields if name != "ores"))
_DUNGEON_COLUMNS = _columns(DUNGEONS, "special", "fountain", "rare")
_FINISH_COLUMNS = _columns(_ROWS, "floor", "ladder", "light")


def _lots(row: Hills) -> dict[str, np.ndarray]:
    """Which numbers of a cell make it an ore: from `low`, below `high`, of a block `on`.

    The numbers of trees, as high as they must be, are shared out among the ores on trees.
    """
    left: dict[Block, tuple[float, float]] = {row.tree: (row.clear, 1 - row.clear)}
    columns: dict[str, list] = {"on": [], "block": [], "low": [], "high": []}
    for ore in row.ores:
        low, rest = left.get(ore.on, (0.0, 1.0))
        high = low + rest * ore.share
        left[ore.on] = (high, rest * (1 - ore.share))
        for name, value in zip(columns, (ore.on, ore.block, low, high), strict=True):
            columns[name].append(value)
    kinds = {"on": np.int32, "block": np.int32, "low": np.float32, "high": np.float32}
    none = _MOST_ORES - len(row.ores)
    return {name: np.array([*v, *[0] * none], kinds[name]) for name, v in columns.items()}


_ORE_COLUMNS = jax.tree.map(lambda *x: np.stack(x), *map(_lots, HILLS))

_SPAN = np.arange(SIZE) - SIZE // 2
_FAR = np.sqrt(_SPAN[:, None] ** 2 + _SPAN[None, :] ** 2).astype(np.float32)  # from the middle
_FIRST, _MIDDLE = np.zeros((2, SIZE, SIZE), bool)
_FIRST[0, 0] = _MIDDLE[SIZE // 2, SIZE // 2] = True
# Beside a block a cell has these bits until it is finished.
_GLOW, _TORCH = 64, 128


def _hills(
    row: dict[str, Any], ores: dict[str, Any], angles: Any, lot: Float32[Array, "size size"]
) -> UInt8[Array, "size size"]:
    """Make water and shore, mountains with tunnels and caves, woods, ores and lava."""
    water, mountain, tunnel, wood = (noise(lattice, SIZE) for lattice in angles)
    water = water + np.clip(_FAR / 5, 0, 1).astype(np.float32) - np.float32(1)
    rise = (_FAR / row["plain"]).clip(0, row["peak"])
    mountain = mountain + np.float32(0.05) + rise - np.float32(1)
    high, deep = mountain > 0.7, mountain > 0.85
    tunnel = tunnel > 0.8

    map = jnp.where(water > 0.6, row["coast"], row["ground"])
    map = jnp.where(water > row["wet"], row["sea"], map)
    map = jnp.where(high, row["mountain"], map)
    map = jnp.where((high & (tunnel | tunnel.T)) | (deep & (water > 0.4)), row["hollow"], map)
    tree = (map == row["ground"]) & (wood > row["woods"]) & (lot > row["clear"])
    map = jnp.where(tree, row["tree"], map)
    for i in range(_MOST_ORES):
        on, block, low, high = (ores[name][i] for name in ("on", "block", "low", "high"))
        map = jnp.where((map == on) & (lot >= low) & (lot < high), block, map)
    lava = deep & (wood > 0.7)
    map = jnp.where(lava, row["lava"], map)
    map = jnp.where(_FIRST & ~(map == Block.STONE).any(), Block.STONE, map)
    map = jnp.where(_MIDDLE, row["start"], map)
    glows = lava & (row["lava"] == Block.LAVA)
    return (map | jnp.where(glows, _GLOW, 0)).astype(jnp.uint8)


def _dungeon(
    row: dict[str, Any], rooms: Rooms, lot: Float32[Array, "size size"]
) -> UInt8[Array, "size size"]:
    """Make rooms with torches, chests and fountains, and corridors between them.

    What a cell is follows from the rooms' bits in its row's words and in its column's.
    """
    rows, columns = (jnp.pad(words, ((0, 0), (1, 1))) for words in _plan(rooms))

    def at(down: int, right: int) -> Array:
        across = columns[:, None, right : right + SIZE]
        return rows[:, down : down + SIZE, None] & across

    room, way = at(1, 1)
    beside = at(0, 1) | at(1, 0) | at(1, 2) | at(2, 1)
    is_open = (room | way) != 0
    is_near = (beside[0] | beside[1]) != 0
    covers, corner, chest, fountain = ((room >> np.uint32(8 * i)) & 0xFF for i in range(4))
    # What the last room that covers a cell puts there: its bit is the highest.
    map = jnp.where(chest > (covers ^ chest), Block.CHEST, Block.PATH)
    map = jnp.where(fountain > (covers ^ fountain), row["fountain"], map)
    map = jnp.where((way >> np.uint32(16)) != 0, row["special"], map)
    rare, torch = lot < MOSSY, corner != 0
    map = jnp.where((map == Block.PATH) & rare & ~torch, row["rare"], map)
    wall = jnp.where(rare, Block.WALL_MOSS, Block.WALL)
    map = jnp.where(is_open, map, jnp.where(is_near, wall, Block.DARKNESS))
    return (map | jnp.where(torch, _TORCH, 0)).astype(jnp.uint8)


def _plan(rooms: Rooms) -> tuple[UInt32[Array, "2 size"], UInt32[Array, "2 size"]]:
    """Words of every row and of every column; a bit of both is a bit of the cell.

    Of the first word a byte each, a bit a room: the room, its corners, chest and fountain. Of the
    second: the corridor from it along a row, that along a column, and once the special block.
    """
    grid = (rooms.chunk % 3, rooms.chunk // 3)
    last = jnp.where(rooms.joins < np.arange(ROOMS), rooms.joins, ROOMS - 1)
    line, words = np.arange(SIZE)[:, None], []
    for axis, chunk in enumerate(grid):
        corner = CHUNK * chunk + rooms.offset[:, axis]
        far = corner + rooms.size[:, axis] - 1
        goal = corner[last]
        between = (line >= jnp.minimum(corner, goal)) & (line <= jnp.maximum(corner, goal))
        fountain = (line == corner + rooms.fountain[:, axis]) & rooms.has_fountain
        turns = (line == corner, between) if axis == 0 else (between, line == goal)
        inside = (line >= corner) & (line <= far)
        edge = (line == corner) | (line == far)
        chest = line == corner + rooms.chest[:, axis]
        special = (line == corner + 2) & (np.arange(ROOMS) == 0)
        words.append(jnp.stack([_word(inside, edge, chest, fountain), _word(*turns, special)]))
    return words[0], words[1]


def _word(*flags: Bool[Array, "size rooms"]) -> UInt32[Array, " size"]:
    """A bit for each flag of each room."""
    bit = np.arange(ROOMS, dtype=np.uint32)
    bits = [
        jnp.where(flag, np.uint32(1) << (bit + np.uint32(8 * i)), 0) for i, flag in enumerate(flags)
    ]
    return sum(bits[1:], bits[0]).sum(axis=1, dtype=jnp.uint32)


def _finished(
    row: dict[str, Any],
    cells: UInt8[Array, "size size"],
    ladders: Float32[Array, " 2"],
    diamond: Float32[Array, ""],
    always_diamond: Any,
) -> dict[str, Array]:
    """Choose the diamond and the ladders, and light the floor."""
    map = (cells & (_GLOW - 1)).astype(jnp.int32)
    stone, ladder = map == Block.STONE, map == row["ladder"]
    down, up = ladders
    rows, columns = _chosen(stone, ladder, jnp.stack([diamond, down, up]))
    line = np.arange(SIZE)

    def here(which: int) -> Array:
        return (line[:, None] == rows[which]) & (line[None, :] == columns[which])

    sparkles = here(0) & stone & (row["floor"] == 0) & always_diamond
    items = jnp.where(cells >= _TORCH, Item.TORCH, Item.NONE)
    items = jnp.where(here(1) & (row["floor"] < FLOORS - 1), Item.LADDER_DOWN, items)
    leads_up = (row["floor"] > 0) & (row["floor"] < FLOORS - 1)
    items = jnp.where(here(2) & leads_up, Item.LADDER_UP, items)
    return {
        "map": jnp.where(sparkles, Block.DIAMOND, map).astype(jnp.uint8),
        "items": items.astype(jnp.uint8),
        "light": _light(row["light"], (cells & _GLOW) != 0, rows[2], columns[2]),
        "down_ladders": jnp.stack([rows[1], columns[1]]),
        "up_ladders": jnp.stack([rows[2], columns[2]]),
    }


def _light(
    dark: Any, glows: Bool[Array, "size size"], row: Array, column: Array
) -> Float32[Array, "size size"]:
    """Light of a floor: its own, a torch's around the ladder up, and that of lava."""
    line = np.arange(SIZE, dtype=np.float32)
    down, right = line[:, None] - _patch(row), line[None, :] - _patch(column)
    torch = (1 - jnp.sqrt(down * down + right * right) / np.float32(5)).clip(0, 1)
    lava = jnp.pad(glows, 1).astype(jnp.float32)
    shine = jnp.zeros((SIZE, SIZE), jnp.float32)
    for down, right in itertools.product(range(3), range(3)):
        share = np.float32((1, 0.7, 0.2)[abs(down - 1) + abs(right - 1)])
        shine = shine + share * lava[down : down + SIZE, right : right + SIZE]
    return (dark + (1 - dark) * torch + shine).clip(0, 1)


def _patch(place: Array) -> Array:
    """Middle of the nine rows, or columns, that a ladder lights; upstream's start wraps round."""
    most = SIZE - 9
    start = jnp.where(place < 4, most, jnp.minimum(place - 4, most))
    return (start + 4).astype(jnp.float32)


_BITS = 16  # cells in a word


def _chosen(
    first: Bool[Array, "size size"],
    second: Bool[Array, "size size"],
    uniforms: Float32[Array, " 3"],
) -> tuple[Int32[Array, " 3"], Int32[Array, " 3"]]:
    """Rows and columns of one cell of the first and two of the second; (0, 0) where none is.

    The cells of both are counted, and found, in words of 16 cells.
    """
    code = first.astype(jnp.uint32) | (second.astype(jnp.uint32) << np.uint32(_BITS))
    bits = code.reshape(SIZE, -1, _BITS) << np.arange(_BITS, dtype=np.uint32)
    words = bits.sum(axis=2, dtype=jnp.uint32).astype(jnp.int32)
    low, high = words & 0xFFFF, (words >> _BITS) & 0xFFFF
    words = jnp.stack([low, high, high])
    count = jax.lax.population_count(words).sum(axis=2, dtype=jnp.int32)
    before = (np.tri(SIZE, k=-1, dtype=np.int32) * count[:, None, :]).sum(axis=2, dtype=jnp.int32)
    total = before[:, -1] + count[:, -1]
    rank = jnp.ceil(total.astype(jnp.float32) * (1 - uniforms)).astype(jnp.int32) - 1
    rank = rank.clip(0, jnp.maximum(total - 1, 0))[:, None]
    here = (before <= rank) & (rank < before + count)
    row = jnp.where(here, np.arange(SIZE, dtype=np.int32), 0).sum(axis=1, dtype=jnp.int32)
    rank = jnp.where(here, rank - before, 0).sum(axis=1, dtype=jnp.int32)
    words = jnp.where(here[:, :, None], words, 0).sum(axis=1, dtype=jnp.int32)
    column, word = jnp.zeros_like(rank), words[:, 0]
    for i in range(1, words.shape[1]):
        seen = jax.lax.population_count(word)
        later = (column == (i - 1) * _BITS) & (rank >= seen)
        rank = jnp.where(later, rank - seen, rank)
        column, word = jnp.where(later, i * _BITS, column), jnp.where(later, words[:, i], word)
    return row, jnp.where(total > 0, column + nth_bit(word, rank), 0)
