"""Pictures of the full game: the view with light, night and sleep, and the inventory below.

Layout and drawing order are Craftax's: blocks, items, player, melee, passive and ranged mobs, the
mobs' projectiles, the player's projectiles; then the light of each cell, night on floor 0, sleep.
Differences from Craftax: the sprites are new; darkness and the weight of the noise are computed at
a cell's middle and used for the whole cell; the noise is computed from the time step; if a cell has
several mobs or several projectiles, only the last one drawn is visible.

Each byte of the picture is a weighted sum of the sprite's byte, noise and the colour of night, with
weights per cell, see `Shade`. A gather copies the pixel rows of the cells' sprites from an array,
and one pass over these rows computes all bytes.
"""

import functools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8, UInt16

from ..boss import is_vulnerable
from ..ladders import CLEARED
from ..state import World
from ..tables import Block, Item, Rules
from .layers import KEY, MOST, PLACES, STATUS_ROWS, grounds, numbers, overlays
from .pictures import NIGHT, NOISE_CELLS, apart, gathered
from .tiles import flying, standing

WHOLE = 256  # integer that stands for a weight of 1 in fixed-point arithmetic


class Cells(NamedTuple):
    """Blocks, items and light of the cells in the view, without creatures and projectiles."""

    blocks: Int32[Array, "rows columns"]  # `Block` of each cell; OUT_OF_BOUNDS off the map
    items: Int32[Array, "rows columns"]  # `Item` on each cell
    light: Float32[Array, "rows columns"]  # light of each cell, 0 to 1; 0 beyond the map's border


def full_picture(
    rules: Rules,
    world: World,
    cells: Cells,
    daylight: Float32[Array, ""],
    time: Int32[Array, ""],
    tile_size: int = 10,
) -> UInt8[Array, "height width 3"]:
    """Draw the view of the player's floor at a time of day, and the inventory below it."""
    below, above = full_tiles(rules, world, cells)
    shade = shades(rules, world, cells.light, daylight, time)
    rows, columns = below.shape

    def draw(below: Array, above: Array, shade: Shade) -> Array:
        ground = _gathered(below, grounds(rules, tile_size))
        over = _gathered(above, overlays(rules, tile_size))
        return _lit(jnp.where(over == KEY, ground, over), shade)

    drawn = apart(draw, (rows, tile_size, columns, tile_size * 3), below, above, shade)
    return drawn.reshape(rows * tile_size, columns * tile_size, 3)


def full_tiles(
    rules: Rules, world: World, cells: Cells
) -> tuple[Int32[Array, "all_rows columns"], Int32[Array, "all_rows columns"]]:
    """Return the indices of two sprites for each cell: a ground and an overlay drawn above it.

    The picture shows the cells of the view and, below it, of the inventory. The first array has
    indices into `layers.grounds`, the second into `layers.overlays`, see `layers.Numbers`.
    """
    hurt = (cells.blocks == Block.NECROMANCER) & is_vulnerable(world)
    blocks = jnp.where(hurt, Block.NECROMANCER_VULNERABLE, cells.blocks)
    barred = (cells.items == Item.LADDER_DOWN) & (world.kills < CLEARED)
    items = jnp.where(barred, Item.LADDER_DOWN_BLOCKED, cells.items)
    given, nothing = numbers(rules), jnp.zeros(rules.view, jnp.int32)
    above = flying(rules, world, (*world.projectiles, *world.missiles), given.flying, nothing)
    creatures = standing(rules, world, given.standing) * given.flights + above
    icons, counts = inventory(rules, world)
    ground = blocks.astype(jnp.int32) * len(Item) + items.astype(jnp.int32)
    return jnp.concatenate([ground, icons]), jnp.concatenate([creatures, counts])


def inventory(
    rules: Rules, world: World
) -> tuple[Int32[Array, "4 columns"], Int32[Array, "4 columns"]]:
    """Return two sprite indices for each cell of the inventory: an icon, and a number above it.

    The first array has indices into `layers.grounds`, the second into `layers.overlays`.
    `layers.PLACES` says which cell shows which item.
    """
    given, (_, width) = numbers(rules), rules.view
    # Craftax shows a health of 1 even when the player is dead.
    health = jnp.maximum(jnp.floor(world.vitals["health"]), 1)
    counts = {**world.items, **world.vitals, **world.traits, **world.spells}
    counts |= {"health": health, "floor": world.floor}
    first = np.full(STATUS_ROWS * width, given.blank, np.int32)
    icons, numbered = np.zeros_like(first), np.zeros(first.shape, np.bool_)
    place = np.arange(first.size, dtype=np.int32)
    count, charm = jnp.zeros(first.shape, jnp.int32), jnp.zeros(first.shape, jnp.int32)
    for row, icon in zip(PLACES, given.icons, strict=True):
        at = row.row * width + row.column
        first[at], icons[at], numbered[at] = icon, len(row.icons), row.numbered
        # Each count is written by a `jnp.where` over all cells.
        # `jnp.stack` of the counts would cost one kernel per count on a GPU.
        count = jnp.where(place == at, counts[row.name].astype(jnp.int32), count)
        if row.charm is not None:
            charm = jnp.where(place == at, world.charms[row.charm], charm)
    ground = count.clip(0, icons) + charm * (icons + 1) + first
    written = numbered & ((count > 0) | (icons == 0))
    number = jnp.where(written, given.digits + count.clip(0, MOST), 0)
    return ground.reshape(STATUS_ROWS, width), number.reshape(STATUS_ROWS, width)


class Shade(NamedTuple):
    """Weights with which each cell mixes sprites, noise and the colour of night.

    Weights are integers in units of 1 / WHOLE; the three weights of a cell sum to at most WHOLE.
    """

    seen: UInt16[Array, "all_rows columns"]  # weight of the sprites' colours
    noise: UInt16[Array, "all_rows columns"]  # weight of the grey noise
    night: UInt16[Array, "all_rows columns"]  # weight of the colour NIGHT
    # Number that is added to the noise bytes, so that the noise changes with time; not a weight.
    turn: UInt16[Array, "all_rows columns"]


def shades(
    rules: Rules,
    world: World,
    light: Float32[Array, "rows columns"],
    daylight: Float32[Array, ""],
    time: Int32[Array, ""],
) -> Shade:
    """Return the `Shade` of the picture: the view and, below it, the inventory.

    The inventory always has full brightness. `light` is the light of each cell of the view,
    `daylight` the daylight, both from 0 to 1.
    """
    dark = jnp.where(world.floor == 0, 1 - daylight, 0)
    noisy = jnp.maximum(2 * dark - 1, 0) * _distance(rules)
    awake = jnp.where(world.sleeping, np.float32(WHOLE / 2), np.float32(WHOLE))
    view = Shade(
        seen=light * (1 - dark * (1 + noisy) / 2) * awake,
        noise=dark * noisy / 2 * awake,
        night=jnp.broadcast_to(dark / 2 * awake, rules.view),
        turn=time.astype(jnp.uint32) * _turns(rules) >> 7 & 255,
    )
    bright, below = (WHOLE, 0, 0, 0), ((0, STATUS_ROWS), (0, 0))
    fields = zip(view, bright, strict=True)
    return Shade(*(jnp.pad(v.astype(jnp.uint16), below, constant_values=b) for v, b in fields))


@functools.cache
def _distance(rules: Rules) -> np.ndarray:
    """Return each view cell's distance from the player, as a fraction of a corner's distance."""
    height, width = rules.view
    row, column = np.mgrid[:height, :width]
    distance = np.hypot(row - height // 2, column - width // 2)
    return (distance / distance.max()).astype(np.float32)


def _lit(
    drawn: UInt8[Array, "rows size columns pixels"], shade: Shade
) -> UInt8[Array, "rows size columns pixels"]:
    """Mix the drawn sprites with noise and the colour of night, by the weights in `shade`."""
    rows, size, columns, _ = drawn.shape
    seen, noise, night, turn = (field[:, None, :, None] for field in shade)
    grey = (_grain(rows, columns, size) + turn.astype(jnp.uint8)) & np.uint8(95) | np.uint8(32)
    mixed = drawn.astype(jnp.uint16) * seen + grey.astype(jnp.uint16) * noise
    mixed += np.tile(np.array(NIGHT, np.uint16), size) * night
    return (mixed >> 8).astype(jnp.uint8)


@functools.cache
def _turns(rules: Rules) -> np.ndarray:
    """Return a random odd factor for each cell of the view.

    The product of the factor and the time step makes the cell's noise change with time.
    """
    return np.random.default_rng(0).integers(0, 2**31, rules.view, np.uint32) * np.uint32(2) + 1


@functools.lru_cache(maxsize=8)
def _grain(rows: int, columns: int, size: int) -> np.ndarray:
    """Return the noise of each pixel before `Shade.turn` is added.

    The array is uint8 (rows, size, columns, size * 3), equal for the three colours of a pixel.
    """
    side, at = min(size, NOISE_CELLS), np.arange(size) * min(size, NOISE_CELLS) // size
    grain = np.random.default_rng(1).integers(0, 256, (rows, side, columns, side), np.uint8)
    return grain[:, at][..., at].repeat(3, axis=-1)


def _gathered(shown: Int32[Array, "rows columns"], sheet: np.ndarray) -> Array:
    size = sheet.shape[1]
    return gathered(shown, sheet.reshape(-1, size * 3), size)
