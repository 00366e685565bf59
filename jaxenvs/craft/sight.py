"""Observations of Craft-Classic: `symbolic` as in Craftax, and the compact `ids`.

Both show the blocks, mobs and projectiles in the player's view, the inventory, the vitals, the
player's direction, whether the player sleeps, and the daylight.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Float32, Int32, Integer, UInt8

from ..core.platforms import by_platform
from ..core.settle import stored
from ..core.stacking import stacked
from . import spots
from .compiler.barriers import materialised
from .ground import Ground
from .state import World
from .tables import ROLES, VITALS, Block, Rules

# Number of values at the end of the symbolic observation: facing (4), daylight, sleeping.
NUMBERS = 6
FACINGS = 5  # number of values that `facing` can take: 1 to 4, and 0, which occurs in no state
BYTE = 256  # number of values that a byte can take
_WORD = 31  # number of flags that fit in an int32; the sign bit is not used
_TENTH = np.float32(np.float16(0.1))


class Layout(NamedTuple):
    """Position of each part in the compact observation `ids`, a uint8 vector."""

    blocks: slice  # block of each cell of the view, row by row
    # Mobs and projectiles on each cell, row by row: bit i is set if `channels(rules)[i]` is there.
    mobs: slice
    items: slice  # count of each item, in the order of `Rules.items`
    vitals: slice  # points of health, food, drink, energy
    facing: int  # direction that the player faces: 1 left, 2 right, 3 up, 4 down
    sleeping: int  # whether the player sleeps, 0 or 1
    light: int  # daylight, 0 (darkest) to 255 (brightest)
    size: int


def channels(rules: Rules) -> tuple[str, ...]:
    """Return the names of a cell's flags for mob types, by role, and then for projectile types."""
    mobs = [row.name for role in ROLES for row in rules.types(role)]
    return (*mobs, *(row.name for row in rules.projectiles))


def layout(rules: Rules) -> Layout:
    """Return the position of each part in the compact observation `ids`."""
    cells = rules.view[0] * rules.view[1]
    return laid_out(Layout, cells, cells, len(rules.items), len(VITALS), None, None, None)


def categories(rules: Rules) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the number of values that each byte of `ids` can take.

    The first tuple is for the bytes of one cell of the view, the second for all other bytes.
    """
    counts = (rules.best + 1,) * (len(rules.items) + len(VITALS))
    return (len(rules.blocks), 1 << len(channels(rules))), (*counts, FACINGS, 2, BYTE)


def laid_out(kind: Callable[..., Any], *sizes: int | None) -> Any:
    """Return the position of each part of a vector, as an instance of the NamedTuple `kind`.

    `sizes` has the number of entries of each part, in the order of the vector and of the fields of
    `kind`. The position of a part with a size is a slice. A part of size None has one entry, and
    its position is an index. The field `size` is the length of the vector.
    """
    parts, end = [], 0
    for size in sizes:
        parts.append(end if size is None else slice(end, end + size))
        end += size or 1
    return kind(*parts, size=end)


def observation_layout(rules: Rules) -> tuple[tuple[str, str], ...]:
    """Return pairs (index or range, meaning) that describe the entries of `ids` and `symbolic`."""
    where, flags = layout(rules), len(rules.blocks) + len(channels(rules))
    cells = where.blocks.stop
    body = cells * flags  # index of the first item count in the symbolic observation
    names = (*rules.items, *VITALS)
    mobs = ", ".join(f"{1 << i} {name}" for i, name in enumerate(channels(rules)))
    blocks = ", ".join(f"{block.value} {block.name.lower()}" for block in rules.blocks)
    counts = enumerate(names)
    return (
        (f"`ids[0:{cells}]`", f"blocks of the view, row by row: {blocks}"),
        (f"`ids[{cells}:{where.mobs.stop}]`", f"mobs there, the sum of {mobs}"),
        *((f"`ids[{where.items.start + i}]`", name.replace("_", " ")) for i, name in counts),
        (f"`ids[{where.facing}]`", "1 left, 2 right, 3 up, 4 down"),
        (f"`ids[{where.sleeping}]`", "1 while asleep"),
        (f"`ids[{where.light}]`", "daylight, 255 at noon"),
        (f"`symbolic[0:{body}]`", f"{flags} flags a cell: the block, then the mobs"),
        (f"`symbolic[{body}:{body + len(names)}]`", "the items and the body, in tenths"),
        (f"`symbolic[{body + len(names)}:]`", "left, right, up, down; daylight; asleep"),
    )


def light(time: Array, day_length: ArrayLike) -> Float32[Array, ""]:
    """Return the daylight at a time step, 0 to 1; every episode begins in the morning."""
    day = time.astype(jnp.float32) / jnp.maximum(jnp.asarray(day_length, jnp.float32), 1)
    height = jnp.abs(jnp.cos(np.float32(np.pi) * (day % 1 + np.float32(0.3))))
    return 1 - height * height * height


def view(
    rules: Rules, cells: UInt8[Array, "size size"], world: World
) -> tuple[UInt8[Array, "rows columns"], UInt8[Array, "rows columns"]]:
    """Return, for each cell of the view, its block and a bit mask of its mobs and projectiles.

    Bit i of the mask stands for `channels(rules)[i]`, see `who`.
    """
    cells, inside = around(rules, Ground(cells), world)
    mobs = who(rules, world, _groups(rules, world))
    blocks = jnp.where(inside, cells, Block.OUT_OF_BOUNDS)
    return blocks.astype(jnp.uint8), mobs.astype(jnp.uint8)


def by_cell(
    rules: Rules, cells: UInt8[Array, "size size"], world: World
) -> tuple[Int32[Array, " cells"], Int32[Array, " cells"]]:
    """Do the work of `view` on a GPU.

    Return two flat arrays over the cells of the view: the block of each cell, and the bit mask of
    the mobs and projectiles on it. The last entries may belong to no cell, see `spots.padded`.
    """
    # Without the barrier, XLA would fuse the corner and the masks into the kernel over cells.
    # The thread of each cell would then compute the positions of all mobs and projectiles.
    given = spots.corner(rules, world), spots.masks(rules, world, _groups(rules, world))
    corner, masks = materialised(given)
    seen, inside, _, _ = spots.cells_in_row(rules, cells, corner)
    return jnp.where(inside, seen, Block.OUT_OF_BOUNDS), spots.unmasked(rules, masks)


def _groups(rules: Rules, world: World) -> spots.Groups:
    """Return the slots of all mobs and projectiles, as the argument `groups` of `who`.

    The result has one pair (slots, number of types) for each mob role, then one pair for the
    projectiles. It is also the argument `groups` of `spots.masks`.
    """
    groups = [(world.mobs[role], len(rules.types(role))) for role in ROLES]
    return [*groups, (world.projectiles, len(rules.projectiles))]


def places(rules: Rules, world: World) -> tuple[Int32[Array, "rows 1"], Int32[Array, "1 columns"]]:
    """Return the map rows and the map columns that the view shows; some may be off the map."""
    height, width = rules.view
    row = world.row - height // 2 + np.arange(height, dtype=np.int32)[:, None]
    return row, world.column - width // 2 + np.arange(width, dtype=np.int32)[None, :]


def around(
    rules: Rules, ground: Ground, world: World
) -> tuple[Int32[Array, "rows columns"], Bool[Array, "rows columns"]]:
    """Return the byte that the map stores for each cell of the view, and whether it is on the map.

    A cell beyond the map's border gets the byte of the nearest cell on the map. The module `ground`
    describes the bytes.
    """
    row, column = places(rules, world)
    return ground.nearest(row, column), ground.inside(row, column)


def who(
    rules: Rules, world: World, groups: Sequence[tuple[Sequence[Any], int]]
) -> Int32[Array, "rows columns"]:
    """Return a bit mask of the mobs and projectiles on each cell of the view.

    `groups` are pairs (slots, number of types). A group has one bit per type; later groups have
    higher bits.

    Craftax's quirks: slots are written one after another, and a slot that is dead or out of view
    clears the bit that an earlier slot of its type has set. A dead slot in view clears the bit on
    its own cell. A slot at most one view height above the view clears the bit on the cell one view
    height lower. A slot at most one view width left of the view clears the bit on the cell one view
    width farther right.
    """
    height, width = rules.view
    rows = np.arange(height, dtype=np.int32)[:, None]
    columns = np.arange(width, dtype=np.int32)[None, :]
    top, left = world.row - height // 2, world.column - width // 2
    shown, first = jnp.zeros((height, width), jnp.int32), 0
    for slots, types in groups:
        group = jnp.zeros((height, width), jnp.int32)
        for slot in slots:
            r, c = slot.row - top, slot.column - left
            seen = slot.alive & (r >= 0) & (r < height) & (c >= 0) & (c < width)
            at_row = rows == jnp.where(r < 0, r + height, r)
            at_column = columns == jnp.where(c < 0, c + width, c)
            bit = 1 if types == 1 else jnp.int32(1) << slot.type
            others = 0 if types == 1 else group & ~bit
            group = jnp.where(at_row & at_column, others | jnp.where(seen, bit, 0), group)
        shown, first = shown | (group << first), first + types
    return shown


def ids(
    rules: Rules, cells: UInt8[Array, "size size"], world: World, light: Array
) -> UInt8[Array, " ids"]:
    """Return the compact observation `ids`; `layout` returns the position of its parts."""
    count = rules.view[0] * rules.view[1]

    def from_view(cells: Array, world: World, light: Array) -> Array:
        blocks, mobs = view(rules, cells, world)
        return jnp.concatenate(
            [blocks.reshape(-1), mobs.reshape(-1), jnp.stack(_bytes(rules, world, light))]
        )

    def from_words(cells: Array, world: World, light: Array) -> Array:
        block, mobs = by_cell(rules, cells, world)
        # `word` has two bytes per cell: the block, and the bit mask of mobs and projectiles.
        # Without the barrier, the GPU thread that writes one of these bytes would compute both
        # again.
        word = materialised((block | (mobs << 8)).astype(jnp.uint16))
        seen = jax.lax.bitcast_convert_type(word, jnp.uint8)[:count].T.reshape(-1)
        return jnp.concatenate([seen, side_by_side(_bytes(rules, world, light), -1)])

    return by_platform(cells, world, light, cpu=from_view, default=from_words)


def side_by_side(numbers: Sequence[Array], light: int) -> Array:
    """Stack `numbers` into one vector, in a way that is fast on a GPU.

    `numbers` are the values of an observation that do not belong to cells of the view, such as item
    counts. `light` is the index of the daylight in `numbers`.
    """
    # Without the barrier, XLA would unpack the state in the kernel that writes the stacked vector.
    # Neighbouring threads would then read words of different environments, far apart in memory.
    # The daylight does not go through the barrier, since that would cost a separate kernel.
    kept = [*materialised([n for n in numbers if n is not numbers[light]])]
    kept.insert(light % len(numbers), numbers[light])
    return stacked(kept)


def _bytes(rules: Rules, world: World, light: Array) -> list[UInt8[Array, ""]]:
    """Return the bytes of the observation `ids` that do not belong to cells of the view.

    They are item counts, vitals, the player's direction, whether the player sleeps, and the
    daylight, each as a uint8 scalar.
    """
    shine = jnp.round(light * 255)
    numbers = (*_counts(rules, world), world.facing, world.sleeping, shine)
    return [n.astype(jnp.uint8) for n in numbers]


def ahead(
    cells: Float32[Array, "rows columns flags"], facing: UInt8[Array, ""]
) -> Float32[Array, " flags"]:
    """Return the flags of the cell that the player faces.

    If `facing` is 0, return the flags of the player's own cell.
    """
    rows, columns, flags = cells.shape
    own = rows // 2 * columns + columns // 2
    beside = own + np.array([0, -1, 1, -columns, columns], np.int32)
    return cells.reshape(-1, flags)[jnp.asarray(beside)[facing]]


def symbolic(
    rules: Rules, cells: UInt8[Array, "size size"], world: World, light: Array
) -> Float32[Array, " floats"]:
    """Return Craftax's symbolic observation: flags of each cell, then values about the player."""

    def from_view(cells: Array, world: World, light: Array) -> Array:
        blocks, mobs = view(rules, cells, world)
        numbers = jnp.stack(_counts(rules, world))
        return _floats(rules, blocks, mobs, numbers, world.facing, light, world.sleeping)

    def from_words(cells: Array, world: World, light: Array) -> Array:
        count = rules.view[0] * rules.view[1]
        flags = _channels(rules, *by_cell(rules, cells, world))[:count].reshape(-1)
        tenths = [_tenth(count) for count in _counts(rules, world)]
        turned = [world.facing == way for way in range(1, FACINGS)]
        last = [n.astype(jnp.float32) for n in (*turned, light, world.sleeping)]
        return jnp.concatenate([flags.astype(jnp.float32), side_by_side([*tenths, *last], -2)])

    return by_platform(cells, world, light, cpu=from_view, default=from_words)


def expand(rules: Rules, ids: UInt8[Array, " ids"]) -> Float32[Array, " floats"]:
    """Compute the symbolic observation from the compact observation `ids` of the same state.

    The daylight is less exact than in the observation `symbolic`, because `ids` has only 8 bits for
    it. All other values are equal.
    """
    where = layout(rules)
    shine = ids[where.light].astype(jnp.float32) / 255
    facing, asleep = ids[where.facing].astype(jnp.int32), ids[where.sleeping] != 0
    numbers = counts(rules, ids).astype(jnp.int32)
    return _floats(rules, ids[where.blocks], ids[where.mobs], numbers, facing, shine, asleep)


def counts(rules: Rules, ids: UInt8[Array, " ids"]) -> UInt8[Array, " counts"]:
    """Return the item counts and the vitals that an observation `ids` contains."""
    where = layout(rules)
    return jnp.concatenate([ids[where.items], ids[where.vitals]])


def flags(rules: Rules) -> int:
    """Return the number of flags that a cell has in the symbolic observation."""
    return len(rules.blocks) + len(channels(rules))


def floats(rules: Rules) -> int:
    """Return the length of the symbolic observation."""
    cells = rules.view[0] * rules.view[1]
    return cells * flags(rules) + len(rules.items) + len(VITALS) + NUMBERS


def _counts(rules: Rules, world: World) -> list[Any]:
    return [*(world.items[i] for i in rules.items), *(world.vitals[v] for v in VITALS)]


def _floats(
    rules: Rules,
    blocks: Array,
    mobs: Array,
    counts: Array,
    facing: Array,
    light: Array,
    sleeping: Array,
) -> Float32[Array, " floats"]:
    around = _channels(rules, blocks.reshape(-1), mobs.reshape(-1)).reshape(-1)
    turned = facing == np.arange(1, FACINGS, dtype=np.int32)
    last = jnp.stack([light, sleeping.astype(jnp.float32)])
    parts = [around.astype(jnp.float32), _tenth(counts), turned.astype(jnp.float32), last]
    return jnp.concatenate(parts)


def _tenth(counts: Array) -> Float32[Array, "*counts"]:
    """Return counts / 10 as a float32 that equals Craftax's float16 result.

    XLA turns Craftax's float16 division by 10 into a product with 0.1, so this function multiplies
    too, and rounds the product to float16.
    """
    return jax.lax.reduce_precision(counts.astype(jnp.float32) * _TENTH, 5, 10)


def _channels(
    rules: Rules, blocks: Integer[Array, " cells"], mobs: Integer[Array, " cells"]
) -> Int32[Array, "cells channels"]:
    """Return the flags of each cell: one for each block, then one for each mob or projectile type.

    If one 32-bit word has room for all flags of a cell, the word is computed once per cell, and
    each flag is read from its bit. Otherwise each flag is computed from the block and the bit mask
    of the cell.
    """
    kinds, block = len(rules.blocks), blocks.astype(jnp.int32)
    flags = np.arange(kinds + len(channels(rules)), dtype=np.int32)
    if len(flags) <= _WORD:
        bits = (1 << block) | (mobs.astype(jnp.int32) << kinds)
        return (stored(bits)[:, None] >> flags) & 1
    both = stored(block | (mobs.astype(jnp.int32) << 8))[:, None]
    is_block = (both & 255) == flags[:kinds]
    is_mob = (both >> (8 + flags[kinds:] - kinds)) & 1
    return jnp.concatenate([is_block.astype(jnp.int32), is_mob], axis=1)
