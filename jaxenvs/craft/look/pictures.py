"""Pictures of Classic: the view by day and by night, and the inventory below it.

The layout is Craftax's: 7 x 9 cells around the player, then two rows of nine items with counts. The
sprites differ from Craftax's. Each cell has one of `LEVELS` levels of darkness; at dusk, the edge
of the view darkens before the middle. Noise that changes with time covers dark cells. Craftax
shades every pixel. This module shades the sprites of small tiles in advance, so that a picture is
one gather from an array.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ...core.platforms import by_platform
from ..compiler.barriers import unknown
from ..state import World
from ..tables import Rules
from .sprites import atlas, numbers
from .tiles import tiles

SMALL = 8  # largest side, in pixels, of tiles with precomputed shades (0.6 MB for side 7)
LEVELS = 16  # number of darkness levels of a cell; 0 is full daylight, LEVELS - 1 the darkest
NOISY = LEVELS // 2  # lowest level of darkness at which noise is drawn
VARIANTS = 4  # number of different noise patterns for a tile
# Number of shades of a sprite for a player who is awake: one per darkness level without noise, and
# VARIANTS per level with noise.
AWAKE_SHADES = NOISY + (LEVELS - NOISY) * VARIANTS
SHADES = AWAKE_SHADES + LEVELS  # number of all shades; a sleeping player sees LEVELS more
# Highest number of noise cells (squares of one grey value) along a tile's side.
# In tiles with more pixels per side, a noise cell covers several pixels.
NOISE_CELLS = 16
NIGHT, DREAM = (0, 16, 64), (0, 0, 16)  # colours (RGB) that are mixed in at night and during sleep
NEAR = 0.55  # darkness of the player's cell, as a fraction of the darkness at the edge of the view


def picture(
    rules: Rules,
    world: World,
    blocks: UInt8[Array, "rows columns"],
    light: Float32[Array, ""],
    time: Int32[Array, ""],
    tile_size: int = 7,
) -> UInt8[Array, "height width 3"]:
    """Draw the view at a time of day, and the inventory below it.

    For small tiles, the picture is copied from an array that has every sprite in every shade.
    Larger tiles are shaded pixel by pixel.
    """
    shown, blank = tiles(rules, world, blocks), numbers(rules).blank
    level, variant = darkness(rules, light, time)
    rows, _ = rules.view
    day, things = shown[:rows], shown[rows:]
    if tile_size <= SMALL:
        noisy = NOISY + (level - NOISY) * VARIANTS + variant
        awake = jnp.where(level < NOISY, level, noisy)
        shade = jnp.where(world.sleeping, AWAKE_SHADES + level, awake)
        below = blank * (SHADES - 1) + things
        table = _rows(rules, tile_size)
        every, (height, width) = jnp.concatenate([day * SHADES + shade, below]), shown.shape
        shape = height, tile_size, width, tile_size * 3
        drawn = apart(lambda every: gathered(every, table, tile_size), shape, every)
        return drawn.reshape(height * tile_size, width * tile_size, 3)
    sheet = jnp.asarray(atlas(rules, tile_size))
    variant = jnp.where(world.sleeping, 0, variant)
    noise = jnp.asarray(_noise(tile_size)).at[variant].get(mode="clip")[..., None]
    lit = shaded(sheet[day].astype(jnp.int32), level[..., None, None, None], noise)
    lit = jnp.where(world.sleeping, dreamt(lit), lit)
    drawn = jnp.concatenate([lit.astype(jnp.uint8), sheet[things]])
    height, width = shown.shape
    return drawn.transpose(0, 2, 1, 3, 4).reshape(height * tile_size, width * tile_size, 3)


def darkness(
    rules: Rules, light: Float32[Array, ""], time: Int32[Array, ""]
) -> tuple[Int32[Array, "rows columns"], Int32[Array, "rows columns"]]:
    """Return each cell's level of darkness, 0 to LEVELS - 1, and the index of its noise pattern.

    The pattern changes with the time step `time`.
    """
    height, width = rules.view
    y = np.linspace(-1, 1, height, dtype=np.float32)[:, None]
    x = np.linspace(-1, 1, width, dtype=np.float32)[None, :]
    reach = NEAR + (1 - NEAR) * (1 - np.exp(-2 * (x * x + y * y)))
    level = ((1 - light) * np.float32(LEVELS - 1) * reach + np.float32(0.5)).astype(jnp.int32)
    odd = np.random.default_rng(0).integers(0, 2**31, (height, width), np.uint32) * 2 + 1
    variant = ((time.astype(jnp.uint32) * odd) >> 7) % VARIANTS
    return level, variant.astype(jnp.int32)


def shaded(rgb: Any, level: Any, noise: Any) -> Any:
    """Return the colours `rgb` at a level of darkness.

    With each level, more of the colour NIGHT is mixed in; levels from NOISY also have grey `noise`.
    Colours are integers; their last axis is RGB.
    """
    top = LEVELS - 1
    share = (2 * level - top).clip(0)
    seen = ((top - share) * rgb + share * noise) // top
    night = (2 * seen + 3 * _luminance(seen) + 5 * np.array(NIGHT, np.int32)) // 10
    return ((top - level) * rgb + level * night) // top


def dreamt(rgb: Any) -> Any:
    """Return colours as a sleeping player sees them: grey, and mixed with DREAM."""
    return (_luminance(rgb) + np.array(DREAM, np.int32)) // 2


def _luminance(rgb: Any) -> Any:
    return (rgb[..., 0:1] * 77 + rgb[..., 1:2] * 150 + rgb[..., 2:3] * 29) // 256


def _noise(size: int) -> np.ndarray:
    """Return the noise patterns of a tile as grey values, int32 (VARIANTS, size, size)."""
    side = min(size, NOISE_CELLS)
    grey = np.random.default_rng(1).integers(32, 128, (VARIANTS, side, side), np.int32)
    at = np.arange(size) * side // size
    return grey[:, at[:, None], at]


@functools.lru_cache(maxsize=4)
def _rows(rules: Rules, size: int) -> np.ndarray:
    """Return the pixel rows of all sprites in all shades, uint8 (sprites * size, size * 3).

    First come the sprites of the view, each in every shade: blocks alone, and blocks with a mob, a
    projectile or the player. The blank tile and the icons of the inventory follow, in one shade.
    """
    sheet, blank = atlas(rules, size).astype(np.int32), numbers(rules).blank
    seen, things = sheet[:blank], sheet[blank:]
    noise = _noise(size)[..., None]
    level = np.arange(LEVELS, dtype=np.int32)
    awake = [(at, 0) for at in range(NOISY)]
    awake += [(at, variant) for at in range(NOISY, LEVELS) for variant in range(VARIANTS)]
    shades = [shaded(seen, level[at], noise[variant]) for at, variant in awake]
    shades += [dreamt(shaded(seen, at, noise[0])) for at in level]
    every = np.concatenate([np.stack(shades, axis=1).reshape(-1, size, size, 3), things])
    rows = every.astype(np.uint8).reshape(-1, size * 3)
    rows.flags.writeable = False
    return rows


def gathered(
    shown: Int32[Array, "rows columns"], rows_of_pixels: np.ndarray, size: int
) -> UInt8[Array, "rows size columns pixels"]:
    """Return the pixels of a picture whose cells show the sprites with the indices `shown`.

    `rows_of_pixels` (sprites * size, size * 3) has the pixel rows of one sprite after another.
    Entry [row, i, column] of the result is the i-th pixel row of the cell (row, column).
    """
    line = np.arange(size, dtype=np.int32)[None, :, None]
    # Use unsigned indices. For signed indices, XLA adds instructions that let negative indices
    # count from the end.
    index = ((shown * size)[:, None, :] + line).astype(jnp.uint32)
    return jnp.asarray(rows_of_pixels).at[index].get(mode="promise_in_bounds")


def apart(draw: Callable[..., Array], shape: tuple[int, ...], *given: Any) -> UInt8[Array, "..."]:
    """Return `draw(*given)`, a uint8 array of the given shape, without fusing it with later code.

    On a CPU, XLA would fuse `draw` with the reshape after it and write the picture pixel by pixel,
    which takes four times as long. XLA does not fuse a branch of a `cond` with code after the
    `cond`. Therefore `draw` is put into a branch, where it writes whole rows of a tile. The other
    branch is never taken, but the compiler cannot know this. On other platforms, `draw` is called
    directly.
    """

    def branch(*given: Any) -> Array:
        always = unknown(jnp.ones((), jnp.bool_))
        nothing = lambda *given: jnp.broadcast_to(_zero(given), shape)  # noqa: E731
        return jax.lax.cond(always, draw, nothing, *given)

    return by_platform(*given, cpu=branch, default=draw)


def _zero(given: Any) -> UInt8[Array, ""]:
    """Return a zero that JAX treats as computed from the inputs `given`.

    The branch that `apart` never takes returns this zero. Both branches of a `cond` must return the
    same shape. Under `vmap`, the result of `draw` has a batch axis. The zero gets a batch axis too,
    because it depends on the inputs.
    """
    return (jax.tree.leaves(given)[0].reshape(-1)[0] * 0).astype(jnp.uint8)
