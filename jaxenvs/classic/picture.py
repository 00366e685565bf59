"""Pictures of classic control: anti-aliased shapes over a background of tiles.

Coordinates are in metres from the origin of a `Place`: x to the right, y up.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float32, Int32, UInt8

from ..core.paint import Layer, block, paint

SKY, GROUND, EDGE = (24, 27, 37), (44, 48, 60), (96, 104, 122)
BODY, WHEEL, POLE, BOLT = (92, 150, 250), (132, 140, 158), (236, 178, 96), (250, 247, 238)
LINK, FLAG, MARK = (92, 196, 180), (240, 96, 96), (190, 170, 90)

Pixels = UInt8[Array, "height width 3"]
Number = Float32[Array, ""]
Distance = Float32[Array, "height width"]  # distance from each pixel's centre to a shape, m
# A shape to draw: the distance (m) of each pixel from a line, point or box; the largest distance
# (m) at which a pixel is filled; and the colour (RGB).
Shape = tuple[Distance, float, tuple[int, int, int]]


class Place(NamedTuple):
    """Background of a picture, with its scale and the position of its origin."""

    rows: int  # number of rows of tiles
    columns: int  # number of columns of tiles
    tile: float  # side of a tile, m
    left: float  # distance from the left edge of the picture to the origin, m
    top: float  # distance from the top edge of the picture to the origin, m
    floor: bool = False  # whether there is ground below the origin; if not, every tile is sky


# Backgrounds of the pictures, one per environment. Acrobot's links and Pendulum's rod are drawn
# with a length of 1 m.
TRACK = Place(rows=5, columns=14, tile=0.4, left=2.8, top=1.6, floor=True)  # CartPole's background
ROOM = Place(rows=8, columns=8, tile=0.6, left=2.4, top=2.4)  # Acrobot's background
STAND = Place(rows=8, columns=8, tile=0.35, left=1.4, top=1.4)  # Pendulum's background
HILLS = Place(rows=9, columns=12, tile=0.15, left=1.2, top=1.3)  # MountainCar's background

AXLE = 0.27  # height of the axle of CartPole's pole above the track, m
REACH = 1.0  # length at which CartPole's pole, Pendulum's rod and each link of Acrobot are drawn, m


def ground(place: Place) -> Int32[Array, "rows columns"]:
    """Return the tile indices of a background: 0 is sky, 1 is ground."""
    below = np.arange(place.rows, dtype=np.int32)[:, None] >= round(place.top / place.tile)
    tiles = np.broadcast_to(below & place.floor, (place.rows, place.columns))
    return jnp.asarray(tiles.astype(np.int32))


def sprites(tile_size: int) -> np.ndarray:
    """Return the images of the two tiles, sky and ground, uint8 (2, tile_size, tile_size, 3)."""
    sky = (Layer(block(0, 0, 1, 1), SKY),)
    floor = (Layer(block(0, 0, 1, 1), GROUND), Layer(block(0, 0, 1, 1 / 8), EDGE))
    blank = np.zeros((tile_size, tile_size, 3))
    return np.stack([paint(blank, layers) for layers in (sky, floor)]).round().astype(np.uint8)


def cart_and_pole(background: Pixels, position: Number, angle: Number, tile_size: int) -> Pixels:
    """Draw a cart `position` m to the right of the middle, and its pole at `angle`.

    `angle` is the pole's angle from upright (rad clockwise).
    """
    x, y = points(background, TRACK, tile_size)
    x, rise = x - position, y - np.float32(AXLE)
    wheel = jnp.hypot(abs(x) - np.float32(0.16), y - np.float32(0.07))
    over_x, over_y = abs(x) - np.float32(0.26), abs(y - np.float32(0.19)) - np.float32(0.07)
    body = jnp.hypot(jnp.maximum(over_x, 0.0), jnp.maximum(over_y, 0.0))
    shapes: tuple[Shape, ...] = (
        (wheel, 0.07, WHEEL),
        (body, 0.04, BODY),
        (from_stick(x, rise, jnp.sin(angle), jnp.cos(angle)), 0.04, POLE),
        (jnp.hypot(x, rise), 0.025, BOLT),
    )
    return drawn(background, shapes, TRACK, tile_size)


def rod(background: Pixels, angle: Number, tile_size: int) -> Pixels:
    """Draw Pendulum's rod at `angle`, counter-clockwise from upright (rad)."""
    x, y = points(background, STAND, tile_size)
    stick = from_stick(x, y, -jnp.sin(angle), jnp.cos(angle))
    shapes: tuple[Shape, ...] = ((stick, 0.12, POLE), (jnp.hypot(x, y), 0.05, BOLT))
    return drawn(background, shapes, STAND, tile_size)


def links(background: Pixels, upper: Number, lower: Number, bar: float, tile_size: int) -> Pixels:
    """Draw Acrobot's two links, and the bar above which the free end must swing.

    `upper` is the angle of the upper link from hanging, `lower` the angle of the lower link
    relative to the upper link (rad counter-clockwise), `bar` the height of the bar above the upper
    joint (m). A drawn link is `REACH` = 1 m long; the bar is drawn as a horizontal line.
    """
    x, y = points(background, ROOM, tile_size)
    joint_x, joint_y = jnp.sin(upper), -jnp.cos(upper)
    bend = upper + lower
    below = from_stick(x - joint_x, y - joint_y, jnp.sin(bend), -jnp.cos(bend))
    line = jnp.broadcast_to(abs(y - np.float32(bar)), below.shape)
    shapes: tuple[Shape, ...] = (
        (line, 0.02, MARK),
        (from_stick(x, y, joint_x, joint_y), 0.1, LINK),
        (below, 0.1, BODY),
        (jnp.hypot(x, y), 0.05, BOLT),
        (jnp.hypot(x - joint_x, y - joint_y), 0.05, BOLT),
    )
    return drawn(background, shapes, ROOM, tile_size)


def car(background: Pixels, position: Number, goal: Number, tile_size: int) -> Pixels:
    """Draw MountainCar's road, a car on it at `position`, and a flag at `goal`."""
    x, y = points(background, HILLS, tile_size)
    slope = np.float32(1.35) * jnp.cos(np.float32(3) * x)
    # Approximate signed distance of each pixel from the road, m: positive above, negative below.
    under = (y - altitude(x)) / jnp.sqrt(1 + slope * slope)
    hill = jnp.maximum(under, 0.0)
    edge = abs(under)
    pole = jnp.hypot(x - goal, y - jnp.clip(y, altitude(goal), altitude(goal) + 0.25))
    high = altitude(goal) + np.float32(0.21)
    cloth_x, cloth_y = abs(x - goal - 0.05) - np.float32(0.05), abs(y - high) - np.float32(0.03)
    cloth = jnp.hypot(jnp.maximum(cloth_x, 0.0), jnp.maximum(cloth_y, 0.0))
    steep = jnp.arctan(np.float32(1.35) * jnp.cos(np.float32(3) * position))
    off_x, off_y = x - position, y - altitude(position)
    along = off_x * jnp.cos(steep) + off_y * jnp.sin(steep)
    above = off_y * jnp.cos(steep) - off_x * jnp.sin(steep)
    wheel = jnp.hypot(abs(along) - np.float32(0.04), above - np.float32(0.025))
    over_x, over_y = abs(along) - np.float32(0.06), abs(above - np.float32(0.06)) - 0.015
    body = jnp.hypot(jnp.maximum(over_x, 0.0), jnp.maximum(over_y, 0.0))
    shapes: tuple[Shape, ...] = (
        (hill, 0.0, GROUND),
        (edge, 0.008, EDGE),
        (pole, 0.008, WHEEL),
        (cloth, 0.004, FLAG),
        (body, 0.015, BODY),
        (wheel, 0.025, WHEEL),
    )
    return drawn(background, shapes, HILLS, tile_size)


def altitude(x: Array) -> Array:
    """Return the height in m of MountainCar's road at the horizontal position `x` in m."""
    return np.float32(0.45) * jnp.sin(np.float32(3) * x) + np.float32(0.55)


def points(
    background: Pixels, place: Place, tile_size: int
) -> tuple[Float32[Array, "1 width"], Float32[Array, "height 1"]]:
    """Return the coordinates x and y of the pixels' centres, in metres from the origin."""
    rows, columns = (np.arange(n, dtype=np.float32) + np.float32(0.5) for n in background.shape[:2])
    pixel = np.float32(place.tile / tile_size)
    x, y = columns * pixel - np.float32(place.left), np.float32(place.top) - rows * pixel
    return jnp.asarray(x)[None, :], jnp.asarray(y)[:, None]


def from_stick(x: Array, y: Array, right: Number, up: Number) -> Distance:
    """Return the distance of each point (x, y) from a stick with one end at the origin.

    The stick is `REACH` m long and points in the direction of the unit vector (right, up).
    """
    along = jnp.clip(x * right + y * up, 0.0, REACH)
    return jnp.hypot(x - along * right, y - along * up)


def drawn(background: Pixels, shapes: tuple[Shape, ...], place: Place, tile_size: int) -> Pixels:
    """Return the background with shapes painted over it, the last shape on top.

    The edges of the shapes are anti-aliased.
    """
    metre = np.float32(tile_size / place.tile)  # number of pixels per metre
    picture = background.astype(jnp.float32)
    for distance, radius, colour in shapes:
        # Estimate the covered fraction of a pixel from the pixel's distance to the shape's edge.
        alpha = jnp.clip((np.float32(radius) - distance) * metre + np.float32(0.5), 0, 1)
        picture = picture + alpha[..., None] * (np.array(colour, np.float32) - picture)
    return jnp.round(picture).astype(jnp.uint8)
