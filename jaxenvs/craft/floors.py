"""World generation of the full game: nine floors, with the same distribution as in Craftax 1.6.1.

Six floors are hills made of noise (`HILLS`); three are dungeons with rooms (`DUNGEONS`). One
uniform draw per cell decides which ore or tree the cell gets; Craftax draws once per ore and tree.
Three bugs of Craftax are reproduced on purpose: the graveyard, which has no stone, gets a stone at
(0, 0) (`_finished`); if both ladders are drawn on the same cell, the floor has no ladder down
(`_finished`); the torch at a ladder up near the upper or left border lights cells at the opposite
border (`_patch`).
"""

import itertools
import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, UInt8, UInt32

from ..core.bits import cut, join, nth_bit, rank_of
from ..core.platforms import by_platform
from ..core.random import Key, hashed, permutation, uniform
from ..core.struct import Struct, struct
from . import dungeons, noise
from .compiler.barriers import materialised
from .dungeons import DUNGEONS, TORCH, Rooms
from .full_rows import COLOURS, FLOORS, SIZE
from .tables import Block, Item
from .terrain import lattices

_B = Block


@struct
class FullLevel(Struct):
    """Initial maps of an episode of the full game, and the kit with which the player starts."""

    map: UInt8[Array, "floors size size"]  # block of each cell
    items: UInt8[Array, "floors size size"]  # `Item` on each cell
    light: Float32[Array, "floors size size"]  # light of each cell, 0 to 1
    # Row and column of each floor's ladder down, and of its ladder up. A position is stored even
    # for a ladder that the floor does not have.
    down_ladders: Int32[Array, "floors 2"]
    up_ladders: Int32[Array, "floors 2"]
    potion_mapping: Int32[Array, " potions"]  # effect of each potion colour, see `magic.EFFECTS`
    kit: Any = np.int32(0)  # index into `kits.KITS`: floor and possessions at the start


class Ore(NamedTuple):
    """A block scattered at random over a floor."""

    block: Block
    share: float  # probability of the ore on each cell that still has the block `on`
    on: Block = _B.STONE  # block that the ore replaces: stone, or the floor's tree block


class Hills(NamedTuple):
    """Settings of a floor whose terrain is made from noise."""

    floor: int
    ground: Block
    sea: Block
    coast: Block
    tree: Block  # block that replaces ground in woods: a tree, stalagmite or grave
    ores: tuple[Ore, ...]
    mountain: Block = _B.STONE
    hollow: Block = _B.STONE  # block of the tunnels and caves in mountains
    lava: Block = _B.LAVA
    start: Block = _B.PATH  # block in the middle of the map
    ladder: Block = _B.PATH  # block on which the ladders stand
    light: float = 0.0
    wet: float = 0.7  # a cell is sea where the water noise exceeds this value
    clear: float = 0.8  # probability that a ground cell in woods has no tree
    woods: float = 0.5  # a cell belongs to the woods where the wood noise exceeds this value
    # Mountains are likelier far from the map's middle: `_traits` adds the distance from the middle
    # (in cells), divided by `plain`, to the mountain noise.
    plain: float = 5.0
    peak: float = 1.0  # upper limit of the rise of the mountain noise, see `plain`


def _ores(on: Block = _B.STONE, **shares: float) -> tuple[Ore, ...]:
    return tuple(Ore(_B[name], share, on) for name, share in shares.items())


def _row(floor: int, named: str, ores: tuple[Ore, ...], **more: Any) -> Hills:
    """Return a floor's settings; `named` has the names of its ground, sea, coast and tree block."""
    ground, sea, coast, tree = (_B[name] for name in named.split())
    return Hills(floor, ground, sea, coast, tree, ores, **more)


_GEMS = _ores(DIAMOND=0.005, SAPPHIRE=0.0025, RUBY=0.0025)
_RICH = _ores(DIAMOND=0.01, SAPPHIRE=0.01, RUBY=0.01)
_GRAVES = (*_ores(_B.WALL, WALL_MOSS=0.1), *_ores(_B.GRAVE, GRAVE2=0.333, GRAVE3=0.5))
_MINES = _row(2, "PATH WATER PATH STALAGMITE", (), plain=17.0, peak=1.5)
_FIRE, _ICE = _ores(COAL=0.05, RUBY=0.025), _ores(DIAMOND=0.005, SAPPHIRE=0.02)
_TOP = _row(0, "GRASS WATER SAND TREE", _ores(COAL=0.03, IRON=0.02, DIAMOND=0.001), light=1.0)
_REALM = {"wet": 0.5, "clear": 0.4, "plain": 17.0, "peak": 1.5}
_YARD = {"clear": 0.95, "woods": -1.0, "plain": 10.0, "peak": 10.0}
HILLS = (
    _TOP._replace(hollow=_B.PATH, start=_B.GRASS),
    _MINES._replace(ores=(*_ores(COAL=0.04, IRON=0.02), *_GEMS)),
    _MINES._replace(floor=5, ores=(*_ores(COAL=0.04, IRON=0.03), *_RICH)),
    _row(6, "FIRE_GRASS LAVA SAND FIRE_TREE", _FIRE, light=1.0, wet=0.5)._replace(
        start=_B.FIRE_GRASS, ladder=_B.FIRE_GRASS
    ),
    _row(7, "ICE_GRASS WATER ICE_GRASS ICE_SHRUB", _ICE, **_REALM)._replace(
        lava=_B.WATER, start=_B.ICE_GRASS, ladder=_B.ICE_GRASS
    ),
    _row(8, "PATH PATH PATH GRAVE", _GRAVES, **_YARD)._replace(
        start=_B.NECROMANCER, mountain=_B.WALL, hollow=_B.WALL, lava=_B.WALL
    ),
)
_ROWS = (*HILLS, *DUNGEONS)  # settings of all floors, in the order in which `build` makes them
_MOST_ORES = max(len(row.ores) for row in HILLS)


class FloorDraws(NamedTuple):
    """Random draws of a world. Uniform draws are in [0, 1); angles are in turns (full circles)."""

    # Angles of the gradients of the water, mountain, tunnel and wood noise.
    angles: tuple[Float32[Array, "hills rows columns"], ...]
    # Uniform draw of each cell. It decides whether a cell of the hills has an ore or a tree, and
    # whether a cell of a dungeon has moss or the block `Dungeon.rare`.
    # Floors are in the order of `_ROWS`.
    cells: Float32[Array, "floors size size"]
    # Uniform draws that choose three cells: stone that becomes a diamond, ladder down, ladder up.
    # The first draw is used on floor 0 only.
    choices: Float32[Array, "floors 3"]
    rooms: Rooms
    potions: Int32[Array, " potions"]  # effect of each potion colour, see `magic.EFFECTS`


def draw(key: Key, angles: Any = None) -> FloorDraws:
    """Draw the random numbers from which `build` builds the nine floors.

    If `angles` is not None, each noise angle in it that is not NaN replaces the drawn angle.
    """
    taken = 0

    def words(*shape: int) -> UInt32[Array, "..."]:
        nonlocal taken
        start, taken = taken, taken + math.prod(shape)
        return hashed(key, np.arange(start, taken, dtype=np.uint32).reshape(shape))

    drawn = tuple(uniform(words(len(HILLS), *shape)) for shape in lattices(SIZE))
    if angles is not None:
        given = zip(angles, drawn, strict=True)
        drawn = tuple(jnp.where(jnp.isnan(a), d, a) for a, d in given)
    rooms = dungeons.draw(words)
    return FloorDraws(
        angles=drawn,
        cells=uniform(words(FLOORS, SIZE, SIZE)),
        choices=uniform(words(FLOORS, 3)),
        rooms=rooms,
        potions=permutation(words(len(COLOURS))),
    )


def build(draws: FloorDraws, always_diamond: Any) -> FullLevel:
    """Build the nine floors. If `always_diamond`, one stone of floor 0 becomes a diamond."""
    cell_draws = draws.cells[: len(HILLS)]
    hills = by_platform(draws.angles, cell_draws, cpu=_hills_at_once, default=_hills_one_by_one)
    halls = jax.vmap(dungeons.make)(dungeons.COLUMNS, draws.rooms, draws.cells[len(HILLS) :])
    # Without the barrier XLA on a GPU would fuse world generation into the `stack` below, and would
    # compute the floors again.
    parts = materialised((hills, halls))
    built = [*parts[0], *(parts[1][i] for i in range(len(DUNGEONS)))]
    cells = jnp.stack([built[i] for i in np.argsort([row.floor for row in _ROWS])])
    # Without the barrier XLA would stack the floors again for each sum that `_finished` computes.
    cells = materialised(cells)
    finished = jax.vmap(_finished, (0, 0, 0, None))
    floors = finished(_FINISH_COLUMNS, cells, draws.choices, always_diamond)
    return FullLevel(**floors, potion_mapping=draws.potions, kit=jnp.int32(0))


def _columns(rows: Any, *names: str) -> dict[str, np.ndarray]:
    """Return a dict from each attribute name to the array of its values, one for each of `rows`.

    An array is int32 if all values are integers, else float32.
    """
    values = {name: [getattr(row, name) for row in rows] for name in names}
    kind = {True: np.int32, False: np.float32}
    return {n: np.array(v, kind[all(isinstance(x, int) for x in v)]) for n, v in values.items()}


_HILL_COLUMNS = _columns(HILLS, *(name for name in Hills._fields if name != "ores"))
_FLOOR = np.arange(FLOORS, dtype=np.int32)
_FINISH_COLUMNS = _columns(sorted(_ROWS, key=lambda row: row.floor), "ladder", "light") | {
    "is_hills": np.isin(_FLOOR, [row.floor for row in HILLS]),
    "sparkles": _FLOOR == 0,
    "up": (_FLOOR > 0) & (_FLOOR < FLOORS - 1),
    "down": _FLOOR < FLOORS - 1,
}


def _ore_ranges(row: Hills) -> dict[str, np.ndarray]:
    """Return, for each ore of a floor, the range of uniform draws that gives the ore to a cell.

    The result has four arrays with one entry per ore: where `low` <= draw < `high`, the ore `block`
    replaces the block `on`. A cell in woods has a tree if its draw exceeds `clear`, so the ranges
    of ores that replace trees are above `clear`. The arrays are padded with empty ranges to
    _MOST_ORES entries.
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


_ORE_COLUMNS = jax.tree.map(lambda *x: np.stack(x), *map(_ore_ranges, HILLS))

_SPAN = np.arange(SIZE) - SIZE // 2
# Euclidean distance of each cell from the middle of the map, in cells.
_FAR = np.sqrt(_SPAN[:, None] ** 2 + _SPAN[None, :] ** 2).astype(np.float32)
_CELL = np.arange(SIZE * SIZE, dtype=np.int32).reshape(SIZE, SIZE)
# Bit that `_hill` sets in a cell's byte if the cell has lava that gives light. `_finished` reads
# the bit and clears it.
_GLOW = 64
# Number of cells per 32-bit word that `_words` returns, and the bit mask of a word's low half.
_BITS, _LOW = 16, (1 << 16) - 1


class _Traits(NamedTuple):
    """Terrain of a floor: six boolean maps (size, size), one per field."""

    coast: Array
    sea: Array
    high: Array  # whether the cell is in the mountains
    hollow: Array  # whether the cell is in a tunnel or a cave
    woods: Array
    lava: Array


def _hills_at_once(angles: Any, cell_draws: Array) -> list[UInt8[Array, "size size"]]:
    """Build the six floors of HILLS on a CPU, by one `vmap` over the floors and their settings."""

    def make(row: dict[str, Any], ores: dict[str, Any], angles: Any, cell_draws: Array) -> Array:
        water, mountain, tunnel, wood = noise.noises(angles, SIZE)
        tunnel = tunnel > 0.8
        traits = _traits(row, water, mountain, tunnel | tunnel.T, wood)
        return _hill(row, ores, traits, cell_draws)

    hills = jax.vmap(make)(_HILL_COLUMNS, _ORE_COLUMNS, angles, cell_draws)
    return [hills[i] for i in range(len(HILLS))]


def _hills_one_by_one(angles: Any, cell_draws: Array) -> list[UInt8[Array, "size size"]]:
    """Build the six floors of HILLS on a GPU, with separate code for each floor.

    The settings of a floor are constants in its code. With one `vmap` over floors, the thread of
    each cell would load every setting from a table. Before the floors are built, the `_Traits` of
    all floors are computed from noise and stored in one byte per cell.
    """

    def bytes_of(row: dict[str, Any], noises: tuple[Array, ...]) -> UInt8[Array, "size size"]:
        water, mountain, tunnel, wood, across = noises
        traits = _traits(row, water, mountain, (tunnel > 0.8) | (across > 0.8), wood)
        return join(*((trait, 1) for trait in traits)).astype(jnp.uint8)

    noises = jax.vmap(lambda angles: noise.each(angles, SIZE, turned=2))(angles)
    # Without the barrier XLA would write an array to memory for each field of `_Traits`, and for
    # each comparison of `cell_draws` with a probability.
    given = jax.vmap(bytes_of)(_HILL_COLUMNS, noises), cell_draws
    traits, cell_draws = materialised(given)
    hills = []
    for i, hill in enumerate(HILLS):
        row = {name: column[i] for name, column in _HILL_COLUMNS.items()}
        ores = {name: column[i, : len(hill.ores)] for name, column in _ORE_COLUMNS.items()}
        flags = (flag != 0 for flag in cut(traits[i].astype(jnp.int32), *(1,) * 6))
        hills.append(_hill(row, ores, _Traits(*flags), cell_draws[i]))
    return hills


def _traits(
    row: dict[str, Any], water: Array, mountain: Array, tunnel: Array, wood: Array
) -> _Traits:
    """Compute the `_Traits` of a floor from noise; `tunnel` says which cells belong to tunnels."""
    water = water + np.clip(_FAR / 5, 0, 1).astype(np.float32) - np.float32(1)
    rise = (_FAR / row["plain"]).clip(0, row["peak"])
    mountain = mountain + np.float32(0.05) + rise - np.float32(1)
    high, deep = mountain > 0.7, mountain > 0.85
    return _Traits(
        coast=water > 0.6,
        sea=water > row["wet"],
        high=high,
        hollow=(high & tunnel) | (deep & (water > 0.4)),
        woods=wood > row["woods"],
        lava=deep & (wood > 0.7),
    )


def _hill(
    row: dict[str, Any],
    ores: dict[str, Any],
    traits: _Traits,
    draws: Float32[Array, "size size"],
) -> UInt8[Array, "size size"]:
    """Return a floor's map: shore, mountains with tunnels and caves, woods, ores, then lava.

    A later block replaces the earlier ones. Lava that gives light also has the bit _GLOW.
    """
    map = jnp.where(traits.coast, row["coast"], row["ground"])
    map = jnp.where(traits.sea, row["sea"], map)
    map = jnp.where(traits.high, row["mountain"], map)
    map = jnp.where(traits.hollow, row["hollow"], map)
    tree = (map == row["ground"]) & traits.woods & (draws > row["clear"])
    map = jnp.where(tree, row["tree"], map)
    for i in range(ores["on"].shape[0]):
        on, block, low, high = (ores[name][i] for name in ("on", "block", "low", "high"))
        map = jnp.where((map == on) & (draws >= low) & (draws < high), block, map)
    map = jnp.where(traits.lava, row["lava"], map)
    map = jnp.where(_CELL[SIZE // 2, SIZE // 2] == _CELL, row["start"], map)
    glows = traits.lava & (row["lava"] == Block.LAVA)
    return (map | jnp.where(glows, _GLOW, 0)).astype(jnp.uint8)


def _finished(
    row: dict[str, Any],
    cells: UInt8[Array, "size size"],
    choices: Float32[Array, " 3"],
    always_diamond: Any,
) -> dict[str, Array]:
    """Choose the cells of a floor's diamond and ladders, and compute the floor's light.

    Return a dict from field names of `FullLevel`, such as `map`, to the floor's entry of the field.
    """
    map = (cells & (_GLOW - 1)).astype(jnp.int32)
    words = _words(map == Block.STONE, map == row["ladder"])
    no_stone = ((words & _LOW) == 0).all() & row["is_hills"]
    first = np.zeros(words.shape, bool)
    first[0, 0] = True
    words = jnp.where(first & no_stone, (words & ~(1 << _BITS)) | 1, words)
    map = jnp.where((_CELL == 0) & no_stone, Block.STONE, map)
    # Without the barrier the thread of every cell would repeat the choice of the cells for the
    # diamond and the two ladders.
    diamond, down, up = materialised(_chosen(words, choices))
    sparkles = (diamond == _CELL) & (map == Block.STONE) & row["sparkles"] & always_diamond
    items = jnp.where(cells >= TORCH, Item.TORCH, Item.NONE)
    items = jnp.where((down == _CELL) & row["down"], Item.LADDER_DOWN, items)
    items = jnp.where((up == _CELL) & row["up"], Item.LADDER_UP, items)
    return {
        "map": jnp.where(sparkles, Block.DIAMOND, map).astype(jnp.uint8),
        "items": items.astype(jnp.uint8),
        "light": _light(row["light"], (cells & _GLOW) != 0, up),
        "down_ladders": jnp.stack([down // SIZE, down % SIZE]),
        "up_ladders": jnp.stack([up // SIZE, up % SIZE]),
    }


def _light(
    dark: Any, glows: Bool[Array, "size size"], up: Int32[Array, ""]
) -> Float32[Array, "size size"]:
    """Return each cell's light: `dark`, plus the light of lava and of the torch at the ladder up.

    `dark` is the light without these sources. `glows` is True for cells of lava that gives light.
    `up` is the flat index of the ladder's cell.
    """
    down, right = _CELL // SIZE - _patch(up // SIZE), _CELL % SIZE - _patch(up % SIZE)
    distance = jnp.sqrt((down * down + right * right).astype(jnp.float32))
    torch = (1 - distance / np.float32(5)).clip(0, 1)
    lava = jnp.pad(glows, 1).astype(jnp.float32)
    shine = jnp.zeros((SIZE, SIZE), jnp.float32)
    for down, right in itertools.product(range(3), range(3)):
        share = np.float32((1, 0.7, 0.2)[abs(down - 1) + abs(right - 1)])
        shine = shine + share * lava[down : down + SIZE, right : right + SIZE]
    return (dark + (1 - dark) * torch + shine).clip(0, 1)


def _patch(place: Int32[Array, ""]) -> Int32[Array, ""]:
    """Return the middle of the nine map rows (or columns) that a torch in row `place` lights.

    Craftax lights a slice of nine rows that starts at `place` - 4, so the middle is `place`, except
    near a border. At the lower or right border, the slice is shifted onto the map. Craftax's quirk:
    near the upper or left border, the start is negative and counts from the end of the map, so the
    slice is at the opposite border.
    """
    most = SIZE - 5
    return jnp.where(place < 4, most, jnp.minimum(place, most))


def _words(
    first: Bool[Array, "size size"], second: Bool[Array, "size size"]
) -> Int32[Array, "size words"]:
    """Pack two masks of the map into 32-bit words, with 16 cells in each word.

    Flags of `first` are in the low half of a word, flags of `second` in the high half.
    """
    code = first.astype(jnp.int32) | (second.astype(jnp.int32) << _BITS)
    bit = np.arange(_BITS, dtype=np.int32)
    return (code.reshape(SIZE, -1, _BITS) << bit).sum(axis=2, dtype=jnp.int32)


def _chosen(
    words: Int32[Array, "size words"], uniforms: Float32[Array, " 3"]
) -> Int32[Array, " 3"]:
    """Draw one cell of the first mask that is packed in `words`, and two cells of the second mask.

    `words` is the output of `_words`. Return the flat index of each drawn cell; 0 if its mask is
    empty.
    """
    words = (words >> np.array([0, _BITS, _BITS], np.int32)[:, None, None]) & _LOW
    counts = [jax.lax.population_count(words[:, :, i]) for i in range(words.shape[2])]
    count = sum(counts[1:], counts[0])
    after = jnp.cumsum(count, axis=1, dtype=jnp.int32)
    before, total = after - count, after[:, -1]
    rank = rank_of(uniforms, total)[:, None]
    here = (before <= rank) & (rank < after)

    def of_row(values: Any) -> Int32[Array, " 3"]:
        return jnp.where(here, values, 0).sum(axis=1, dtype=jnp.int32)

    cell, rank = of_row(np.arange(SIZE, dtype=np.int32) * SIZE), of_row(rank - before)
    column = nth_bit([of_row(words[:, :, i]) for i in range(words.shape[2])], rank)
    return jnp.where(total > 0, cell + column, 0)
