"""Sprites drawn by code: shapes with a colour and an opacity, painted in layers over a picture.

A shape is a function of arrays x and y that returns the mask of the points inside the shape. The
points lie in the unit square; x runs to the right and y down. Each pixel has several sample points.
At the edge of a shape, a pixel blends the shape's colour with the colour below, in proportion to
the fraction of its sample points inside the shape.
"""

import functools
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

# (x, y) -> mask of the points inside the shape
Shape = Callable[[np.ndarray, np.ndarray], np.ndarray]
RGB = tuple[int, int, int]
Length = int | float  # a length or coordinate; the side of a tile is 1
Paint = str | RGB  # an RGB colour, or the name of a colour that the caller of `paint` resolves


class Layer(NamedTuple):
    """A shape with its colour and opacity."""

    shape: Shape
    paint: Paint
    cover: Length = 1.0  # opacity


def block(left: Length, top: Length, right: Length, bottom: Length, radius: Length = 0.0) -> Shape:
    """Return a rectangle, given by its sides; `radius` rounds its corners."""

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        over_x = np.abs(x - (left + right) / 2) - (right - left) / 2 + radius
        over_y = np.abs(y - (top + bottom) / 2) - (bottom - top) / 2 + radius
        # For radius 0, `hypot` and `maximum` give the same shape; `maximum` is ten times faster.
        away = np.hypot if radius else np.maximum
        return away(over_x.clip(0), over_y.clip(0)) <= radius

    return inside


def disc(centre_x: Length, centre_y: Length, radius: Length) -> Shape:
    """Return the disc with the given centre and radius."""
    return lambda x, y: np.hypot(x - centre_x, y - centre_y) <= radius


def polygon(*points: tuple[Length, Length]) -> Shape:
    """Return the polygon with the given corners; its inside is defined by the even-odd rule."""

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        crossings = np.zeros(np.broadcast(x, y).shape, bool)
        for (x0, y0), (x1, y1) in zip(points, points[1:] + points[:1], strict=True):
            if y0 != y1:
                at = x0 + (y - y0) * (x1 - x0) / (y1 - y0)
                crossings ^= ((y0 > y) != (y1 > y)) & (x < at)
        return crossings

    return inside


def wave(height: Length, swing: Length, width: Length) -> Shape:
    """Return a wavy line across the tile: one period of a sine, so that adjacent tiles connect.

    `height` is the line's mean y, `swing` its amplitude and `width` its thickness.
    """
    return lambda x, y: np.abs(y - height - swing * np.sin(2 * np.pi * x)) <= width / 2


def dots(radius: Length, *points: tuple[Length, Length]) -> Shape:
    """Return the union of discs with equal radius, centred at the points (x, y)."""
    return union(*(disc(x, y, radius) for x, y in points))


def line(x0: Length, y0: Length, x1: Length, y1: Length, width: Length) -> Shape:
    """Return a straight line from (x0, y0) to (x1, y1), `width` thick, with square ends."""
    length = np.hypot(x1 - x0, y1 - y0)
    across, down = (y0 - y1) * width / 2 / length, (x1 - x0) * width / 2 / length
    return polygon(
        (x0 + across, y0 + down),
        (x1 + across, y1 + down),
        (x1 - across, y1 - down),
        (x0 - across, y0 - down),
    )


def union(*shapes: Shape) -> Shape:
    """Return the shape of all points that lie in at least one of the shapes."""
    return lambda x, y: functools.reduce(np.logical_or, (s(x, y) for s in shapes), np.array(False))


def minus(shape: Shape, *holes: Shape) -> Shape:
    """Return the shape of the points of `shape` that lie in none of the holes."""
    return lambda x, y: shape(x, y) & ~union(*holes)(x, y)


def shrunk(shape: Shape, scale: Length, left: Length, top: Length) -> Shape:
    """Return a shape scaled by `scale` and moved, so that its corner (0, 0) is at (left, top)."""
    return lambda x, y: shape((x - left) / scale, (y - top) / scale)


def turned(shape: Shape, quarters: int) -> Shape:
    """Return a shape after `quarters` quarter turns clockwise about the centre of the tile."""
    if quarters == 0:
        return shape
    return turned(lambda x, y: shape(y, 1 - x), quarters - 1)


def mirrored(shape: Shape) -> Shape:
    """Return the mirror image of a shape, with left and right exchanged."""
    return lambda x, y: shape(1 - x, y)


def changed(layers: Iterable[Layer], change: Callable[[Shape], Shape]) -> tuple[Layer, ...]:
    """Return copies of layers with `change` applied to the shape of each."""
    return tuple(layer._replace(shape=change(layer.shape)) for layer in layers)


def paint(
    picture: np.ndarray, layers: Iterable[Layer], rgb: Callable[[Paint], np.ndarray] = np.asarray
) -> np.ndarray:
    """Paint layers over a picture, an array (size, size, 3) of floats; return the new picture.

    `rgb` turns the paint of a layer into RGB values; the default only accepts RGB colours.
    """
    for layer in layers:
        share = layer.cover * coverage(layer.shape, picture.shape[0])[..., None]
        picture = picture + share * (rgb(layer.paint) - picture)
    return picture


@functools.lru_cache(maxsize=128)  # cached, because many sprites contain the same shapes
def coverage(shape: Shape, size: int) -> np.ndarray:
    """Return the fraction of each pixel that a shape covers, a float array (size, size).

    The fraction is estimated: it is the share of the pixel's sample points that the shape contains.
    """
    fine = max(2, min(8, 64 // size))
    at = (np.arange(size * fine) + 0.5) / (size * fine)
    inside = np.broadcast_to(shape(at[None, :], at[:, None]), (size * fine, size * fine))
    share = inside.reshape(size, fine, size, fine).mean(axis=(1, 3))
    share.flags.writeable = False
    return share
