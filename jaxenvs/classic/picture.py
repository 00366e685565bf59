"""Picture of a cart and its pole: smooth shapes over a track of tiles."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ..core.paint import Layer, block, paint

ROWS, COLUMNS = 5, 14  # tiles
TILE = 0.4  # m on a side: all of the track and a little more
FLOOR = 1.6  # from the top of the picture to the track, m
AXLE = 0.27  # of the pole, above the track
REACH = 1.0  # length of the pole that is drawn, m
SKY, GROUND, EDGE = (24, 27, 37), (44, 48, 60), (96, 104, 122)
BODY, WHEEL, POLE, BOLT = (92, 150, 250), (132, 140, 158), (236, 178, 96), (250, 247, 238)


def ground() -> Int32[Array, "rows columns"]:
    """Tiles of the background: 0 sky, 1 track."""
    rows = np.arange(ROWS, dtype=np.int32)[:, None] >= round(FLOOR / TILE)
    return jnp.asarray(np.broadcast_to(rows, (ROWS, COLUMNS)).astype(np.int32))


def sprites(tile_size: int) -> np.ndarray:
    """Sky and track, uint8 (2, tile_size, tile_size, 3)."""
    sky = (Layer(block(0, 0, 1, 1), SKY),)
    track = (Layer(block(0, 0, 1, 1), GROUND), Layer(block(0, 0, 1, 1 / 8), EDGE))
    blank = np.zeros((tile_size, tile_size, 3))
    return np.stack([paint(blank, layers) for layers in (sky, track)]).round().astype(np.uint8)


def cart_and_pole(
    place: UInt8[Array, "height width 3"],
    position: Float32[Array, ""],
    angle: Float32[Array, ""],
    tile_size: int,
) -> UInt8[Array, "height width 3"]:
    """Draw over `place` a cart `position` m from the middle whose pole leans by `angle`."""
    metre = tile_size / TILE  # in pixels
    rows, columns = (np.arange(n, dtype=np.float32) + np.float32(0.5) for n in place.shape[:2])
    x = (columns / np.float32(metre) - np.float32(COLUMNS * TILE / 2))[None, :] - position
    y = np.float32(FLOOR) - (rows / np.float32(metre))[:, None]  # above the track
    rise = y - np.float32(AXLE)
    along = jnp.clip(x * jnp.sin(angle) + rise * jnp.cos(angle), 0.0, REACH)
    pole = jnp.hypot(x - along * jnp.sin(angle), rise - along * jnp.cos(angle))
    wheel = jnp.hypot(abs(x) - np.float32(0.16), y - np.float32(0.07))
    over_x, over_y = abs(x) - np.float32(0.26), abs(y - np.float32(0.19)) - np.float32(0.07)
    body = jnp.hypot(jnp.maximum(over_x, 0.0), jnp.maximum(over_y, 0.0))
    picture = place.astype(jnp.float32)
    for away, radius, colour in (
        (wheel, 0.07, WHEEL),
        (body, 0.04, BODY),
        (pole, 0.04, POLE),
        (jnp.hypot(x, rise), 0.025, BOLT),
    ):
        # Each pixel takes its share inside the shape, estimated from its distance to the edge.
        share = jnp.clip((np.float32(radius) - away) * np.float32(metre) + np.float32(0.5), 0, 1)
        picture = picture + share[..., None] * (np.array(colour, np.float32) - picture)
    return jnp.round(picture).astype(jnp.uint8)
