"""Pictures of twisty puzzles.

A map has a label for every point of a picture: the index of the sticker that is visible there, or
background. Painting replaces each label by a colour. Each pixel is the average of several points,
so that slanted edges look smooth.
"""

import functools
import itertools

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Integer, UInt8

from . import permutations
from .sprites import CUBE, INK

# Labels of points: background, plastic between stickers, first sticker (sticker i is FIRST + i).
BACK, PLASTIC, FIRST = range(3)
FINE = 2  # number of points along each side of a pixel
BLACK = (6, 7, 10)
# Brightness of each face in the picture of a solid cube.
SHADE = np.array([1.0, 0.92, 0.8, 0.92, 0.8, 0.86], np.float32)
# Directions from the cube to two viewpoints.
# The first one sees the faces U, F and R, the second one the faces D, B and L.
EYES = ((0.62, 0.62, 0.85), (-0.62, -0.62, -0.85))
REACH = 1.72  # half the width of the picture of a solid cube whose edges have length 2
# Outward, right and down direction of each face.
FACES = np.array(list(permutations.FACES.values()), np.float64)


def painted(
    labels: np.ndarray | Array,
    stickers: Integer[Array, " stickers"],
    shades: np.ndarray | None = None,
) -> UInt8[Array, "height width 3"]:
    """Paint a picture from the label of each point, with FINE x FINE points per pixel.

    `labels` (height * FINE, width * FINE) are `BACK`, `PLASTIC`, or `FIRST` plus the index of a
    sticker. `stickers` has the colour of each sticker as an index into `CUBE`. `shades` is the
    brightness of each sticker, 1 if not given.
    """
    colours = jnp.asarray(np.array(CUBE, np.float32))[stickers.astype(jnp.int32)]
    if shades is not None:
        colours = colours * shades[:, None]
    palette = jnp.concatenate([np.array([INK, BLACK], np.float32), colours])
    points = palette[jnp.asarray(labels).astype(jnp.int32)]
    height, width = labels.shape[0] // FINE, labels.shape[1] // FINE
    mean = points.reshape(height, FINE, width, FINE, 3).mean(axis=(1, 3))
    return jnp.round(mean).astype(jnp.uint8)


def _grid(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the x and y coordinates, in pixels, of the points of a map.

    The map is for a picture of height x width pixels, and has FINE x FINE points per pixel.
    """
    y, x = ((np.arange(n * FINE) + 0.5) / FINE for n in (height, width))
    return x[None, :], y[:, None]


# Map of the unfolded Skewb: the net of a cube, in which the centre of each face is a diamond.


@functools.lru_cache(maxsize=4)
def skewb(tile_size: int) -> np.ndarray:
    """Return the label of each point in a picture of the unfolded Skewb, 9 x 12 tiles.

    Face U is above, the faces L F R B are in a row, and D is below.
    """
    side = 3 * tile_size
    x, y = _grid(3 * side, 4 * side)
    row, column = (y // side).astype(np.int32), (x // side).astype(np.int32)
    face = np.array([[-1, 0, -1, -1], [4, 1, 2, 3], [-1, 5, -1, -1]])[row, column]
    right, down = x / side % 1 * 2 - 1, y / side % 1 * 2 - 1
    distance = abs(right) + abs(down)  # distance from the face's centre in the 1-norm
    sticker = np.where(distance < 1, 0, 1 + (right > 0) + 2 * (down > 0))
    joint = (abs(distance - 1) < 0.07) | (np.maximum(abs(right), abs(down)) > 0.94)
    shown = np.where(joint, PLASTIC, FIRST + 5 * face + sticker)
    return np.where(face < 0, BACK, shown).astype(np.uint8)


# Map of the unfolded Pyraminx: the face opposite vertex B, with the other faces around it.


@functools.lru_cache(maxsize=4)
def pyraminx(tile_size: int) -> np.ndarray:
    """Return the label of each point in a picture of the unfolded Pyraminx, 4 x 6 tiles.

    A tip is drawn in the colour of the piece below it.
    """
    height, width = 4 * tile_size, 6 * tile_size
    x, y = _grid(height, width)
    # Side of the large triangle that the four faces form, in pixels.
    edge = 0.96 * height / 3**0.5 * 2
    top, left = 0.02 * height, (width - edge) / 2
    low, middle = top + 0.96 * height, top + 0.48 * height
    corner = {
        "U": (width / 2, top),
        "L": (left + edge / 4, middle),
        "R": (left + 3 * edge / 4, middle),
        "left": (left, top),
        "right": (left + edge, top),
        "low": (width / 2, low),
    }
    labels = np.full((height * FINE, width * FINE), BACK, np.uint8)
    # (index of a face, names of its corners in the picture) for each face. The corners are in the
    # order of the vertices U L R B. In the unfolded picture, vertex B is at three corners: low,
    # right and left.
    for face, names in (
        (3, ("U", "L", "R")),
        (0, ("L", "R", "low")),
        (1, ("U", "R", "right")),
        (2, ("U", "L", "left")),
    ):
        weights = _barycentric(x, y, [corner[name] for name in names])
        inside = np.all([weight >= 0 for weight in weights], axis=0)
        labels = np.where(inside, _triangle(face, weights), labels)
    return labels.astype(np.uint8)


def _barycentric(
    x: np.ndarray, y: np.ndarray, corners: list[tuple[float, float]]
) -> list[np.ndarray]:
    """Return three times the barycentric coordinates of points in a triangle.

    A coordinate is 3 at its corner, and 0 on the opposite side of the triangle.
    """
    (x0, y0), (x1, y1), (x2, y2) = corners
    area = (y1 - y2) * (x0 - x2) + (x2 - x1) * (y0 - y2)
    first = 3 * ((y1 - y2) * (x - x2) + (x2 - x1) * (y - y2)) / area
    second = 3 * ((y2 - y0) * (x - x2) + (x0 - x2) * (y - y2)) / area
    return [first, second, 3 - first - second]


def _triangle(face: int, weights: list[np.ndarray]) -> np.ndarray:
    """Return the labels of all points of a picture that shows only the face with index `face`.

    The face of a Pyraminx consists of nine triangles: three tips, three axial stickers and three
    edge stickers. A label is black plastic or one of the six stickers. A tip gets the label of the
    axial sticker below it. Labels of points outside of the face are meaningless. `weights` are the
    results of `_barycentric` for the corners of the face.
    """
    whole = [np.floor(weight).clip(0, 2) for weight in weights]
    between = np.minimum.reduce([np.minimum(w % 1, 1 - w % 1) for w in weights])
    # For points in a tip or in an axial sticker: index of the nearest corner of the face.
    nearest = np.argmax(whole, axis=0)
    # For points in an edge sticker: index of the corner opposite the edge on which the sticker is.
    edge = np.argmin(whole, axis=0)
    is_edge = (sum(whole) == 2) & (np.maximum.reduce(whole) == 1)
    sticker = np.where(is_edge, 3 + edge, nearest)
    return np.where(between < 0.055, PLASTIC, FIRST + 6 * face + sticker)


# Maps of the solid cube, seen from two opposite corners, possibly with a partly turned face.


@functools.lru_cache(maxsize=8)
def solid(size: int, pixels: int, eye: int, face: int = 0, quarters: float = 0.0) -> np.ndarray:
    """Return the map of a solid cube, seen from `EYES[eye]`, as labels for `painted`.

    The picture has `pixels` pixels per side. The layer of `face` is turned clockwise by `quarters`
    quarter turns.
    """
    labels = np.full((pixels * FINE, pixels * FINE), BACK, np.uint8)
    normal = FACES[face, 0]
    cut = 1 - 2 / size
    corners = _facelets(size)
    turns = corners.mean(axis=1) @ normal > cut
    caps = _cap(face, cut)
    layer = [(corners[turns], np.flatnonzero(turns)), (caps[:, ::-1], None)]
    rest = [(corners[~turns], np.flatnonzero(~turns)), (caps, None)]
    parts = [(rest, 0.0), (layer, quarters)]
    towards = np.array(EYES[eye]) @ normal > 0
    for quads, turned in parts if towards else parts[::-1]:
        for shapes, stickers in quads:
            seen = _projected(_rotated(shapes, normal, turned), eye, pixels)
            for i, quad in enumerate(seen):
                _fill(labels, quad, PLASTIC)
                if stickers is not None:
                    middle = quad.mean(axis=0)
                    _fill(labels, middle + 0.84 * (quad - middle), FIRST + int(stickers[i]))
    return labels


def _facelets(size: int) -> np.ndarray:
    """Return the four corners of every sticker in space, (stickers, 4, 3).

    Corners are listed counter-clockwise as seen from outside the cube.
    """
    quads = []
    for normal, right, down in FACES:
        for row, column in itertools.product(range(size), repeat=2):
            ends = ((row, column), (row + 1, column), (row + 1, column + 1), (row, column + 1))
            at = [(2 * r / size - 1, 2 * c / size - 1) for r, c in ends]
            quads.append([normal + r * down + c * right for r, c in at])
    return np.array(quads)


def _cap(face: int, height: float) -> np.ndarray:
    """Return the corners of the square between a turning layer and the rest of the cube, (1, 4, 3).

    `height` is the square's distance from the centre of the cube. Corners are listed
    counter-clockwise as seen from `face`.
    """
    normal, right, down = FACES[face]
    corners = (-right - down, -right + down, right + down, right - down)
    return np.array([[height * normal + corner for corner in corners]])


def _rotated(points: np.ndarray, axis: np.ndarray, quarters: float) -> np.ndarray:
    """Rotate points about an axis by `quarters` quarter turns.

    The rotation is clockwise as seen from the tip of the axis.
    """
    angle = -quarters * np.pi / 2
    along = (points @ axis)[..., None] * axis
    return along + np.cos(angle) * (points - along) + np.sin(angle) * np.cross(axis, points)


def _projected(quads: np.ndarray, eye: int, pixels: int) -> list[np.ndarray]:
    """Return the corners of quads in map coordinates, as seen from the viewpoint `EYES[eye]`.

    The projection is orthographic.
    """
    towards = np.array(EYES[eye]) / np.linalg.norm(EYES[eye])
    right = np.cross((0.0, 1.0, 0.0), towards)
    right /= np.linalg.norm(right)
    flat = np.stack([quads @ right, quads @ -np.cross(towards, right)], axis=-1)
    return list((flat / REACH + 1) / 2 * pixels * FINE)


def _fill(labels: np.ndarray, quad: np.ndarray, label: int) -> None:
    """Write `label` into the points of a map that lie in a convex quad; changes `labels` in place.

    A quad that faces away from the viewer is not drawn.
    """
    left, top = np.floor(quad.min(axis=0)).astype(int).clip(0)
    right, low = np.ceil(quad.max(axis=0)).astype(int)
    y, x = np.mgrid[top:low, left:right] + 0.5
    inside = np.ones(x.shape, bool)
    for (x0, y0), (x1, y1) in zip(quad, np.roll(quad, -1, axis=0), strict=True):
        inside &= (x1 - x0) * (y - y0) - (y1 - y0) * (x - x0) < 0
    window = labels[top:low, left:right]
    window[inside[: window.shape[0], : window.shape[1]]] = label


def solids(
    size: int, tile_size: int, face: int = 0, quarters: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels of two pictures of a solid cube, one for each viewpoint in `EYES`.

    The layer of `face` is turned clockwise by `quarters` quarter turns.
    """
    pixels = size * tile_size
    return solid(size, pixels, 0, face, quarters), solid(size, pixels, 1, face, quarters)


def cube(
    net: UInt8[Array, "height width 3"],
    board: UInt8[Array, " stickers"],
    maps: tuple[np.ndarray, np.ndarray],
) -> UInt8[Array, "height width 3"]:
    """Paint both views of the solid cube into `net`, the picture of the unfolded cube.

    `maps` are the labels of the two views, see `solids`. The views are painted into the upper right
    and lower right corners of `net`, which are empty.
    """
    shades = np.repeat(SHADE, board.shape[0] // 6)
    height, width, _ = net.shape
    for labels, is_low in zip(maps, (False, True), strict=True):
        solid_cube = painted(labels, board, shades)
        side = solid_cube.shape[0]
        top, left = height - side if is_low else 0, width * 3 // 4 - side // 2
        net = net.at[top : top + side, left : left + side].set(solid_cube)
    return net
