"""Shapes of the numbers on sprites.

A digit is drawn as vector graphics: a few strokes (polylines) with round ends. Numbers are
therefore sharp at every size.
"""

import functools
import itertools

import numpy as np

from ..core.paint import Length, Shape, union

Points = tuple[tuple[float, float], ...]

# Width of a digit, gap between two digits and width of a stroke; the height of a digit is 1.
WIDTH, GAP, STROKE = 0.6, 0.3, 0.19


def number(value: int, height: Length, centre_y: Length = 0.5, most_width: Length = 0.76) -> Shape:
    """Return the shape of a number, centred horizontally in the unit square.

    `height` is the height of the digits. A number that would be wider than `most_width` is drawn
    smaller.
    """
    figures = [int(figure) for figure in str(value)]
    wide = len(figures) * (WIDTH + GAP) - GAP
    scale = min(height, most_width / (wide + STROKE))
    left, top = 0.5 - scale * wide / 2, centre_y - scale / 2
    return union(
        *(
            _stroke(_placed(points, scale, left + i * scale * (WIDTH + GAP), top), scale * STROKE)
            for i, figure in enumerate(figures)
            for points in _strokes()[figure]
        )
    )


def _placed(points: Points, scale: float, left: float, top: float) -> Points:
    return tuple((left + scale * x, top + scale * y) for x, y in points)


def _stroke(points: Points, width: float) -> Shape:
    """Return a shape that contains the points within `width / 2` of the polyline `points`."""

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        near = np.zeros(np.broadcast(x, y).shape, bool)
        for (x0, y0), (x1, y1) in itertools.pairwise(points):
            dx, dy = x1 - x0, y1 - y0
            along = ((x - x0) * dx + (y - y0) * dy) / (dx * dx + dy * dy)
            along = along.clip(0, 1)
            near |= np.hypot(x - x0 - along * dx, y - y0 - along * dy) <= width / 2
        return near

    return inside


def _arc(x: float, y: float, half_width: float, half_height: float, start: int, end: int) -> Points:
    """Return points on an arc of the ellipse with centre (x, y).

    The angles `start` and `end` are in degrees, clockwise from the right.
    """
    angles = np.radians(np.linspace(start, end, 1 + abs(end - start) // 20))
    return tuple(
        (float(x + half_width * np.cos(a)), float(y + half_height * np.sin(a))) for a in angles
    )


@functools.cache
def _strokes() -> tuple[tuple[Points, ...], ...]:
    """Return the strokes (polylines) of the digits 0 to 9, each in a box of `WIDTH` x 1."""
    six = (
        _arc(0.3, 0.68, 0.29, 0.32, 0, 360),
        _arc(0.48, 0.68, 0.47, 0.68, -90, -180),
    )
    nine = tuple(tuple((WIDTH - x, 1 - y) for x, y in points) for points in six)
    return (
        (_arc(0.3, 0.5, 0.29, 0.5, 0, 360),),
        (((0.1, 0.2), (0.36, 0.0), (0.36, 1.0)),),
        ((*_arc(0.3, 0.29, 0.28, 0.29, -170, 35), (0.02, 1.0), (0.6, 1.0)),),
        ((*_arc(0.28, 0.25, 0.27, 0.25, -155, 90), *_arc(0.28, 0.75, 0.31, 0.25, -85, 155)),),
        (((0.46, 1.0), (0.46, 0.0), (0.0, 0.7), (0.62, 0.7)),),
        (((0.55, 0.0), (0.09, 0.0), (0.05, 0.44), *_arc(0.28, 0.67, 0.31, 0.33, -125, 145)),),
        six,
        (((0.0, 0.0), (0.6, 0.0), (0.2, 1.0)),),
        (_arc(0.3, 0.25, 0.25, 0.25, 0, 360), _arc(0.3, 0.74, 0.3, 0.26, 0, 360)),
        nine,
    )
