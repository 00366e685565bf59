"""Drawings of Classic's blocks, as layers of coloured shapes.

Coordinates are fractions of the tile's side, from the upper left corner.
"""

from ...core.paint import (
    RGB,
    Layer,
    Shape,
    block,
    disc,
    dots,
    line,
    mirrored,
    polygon,
    shrunk,
    union,
    wave,
)
from ..tables import Block

Layers = tuple[Layer, ...]
INK, WHITE = (22, 20, 28), (250, 247, 238)
WHOLE = block(0, 0, 1, 1)


def both_sides(shape: Shape) -> Shape:
    """Return the union of a shape and its left-right mirror image."""
    return union(shape, mirrored(shape))


def outline(points: str) -> Shape:
    """Return a polygon from its corners, written as in SVG: "x,y x,y ...".

    Coordinates are hundredths of the tile's side.
    """
    corners = [point.split(",") for point in points.split()]
    return polygon(*((int(x) / 100, int(y) / 100) for x, y in corners))


TUFTS = union(
    polygon((0.12, 0.58), (0.18, 0.78), (0.25, 0.56), (0.27, 0.82), (0.13, 0.82)),
    polygon((0.56, 0.16), (0.62, 0.36), (0.69, 0.14), (0.71, 0.4), (0.57, 0.4)),
    polygon((0.76, 0.74), (0.81, 0.9), (0.87, 0.72), (0.89, 0.94), (0.77, 0.94)),
)
GRASS = (
    Layer(WHOLE, (100, 166, 74)),
    Layer(dots(0.13, (0.2, 0.25), (0.72, 0.7), (0.85, 0.12)), (112, 180, 82), 0.35),
    Layer(TUFTS, (72, 132, 54)),
)
SAND = (
    Layer(WHOLE, (226, 206, 146)),
    Layer(
        dots(0.045, (0.2, 0.3), (0.55, 0.15), (0.8, 0.42), (0.36, 0.64), (0.68, 0.82), (0.1, 0.88)),
        (190, 166, 106),
    ),
    Layer(dots(0.04, (0.42, 0.38), (0.86, 0.74), (0.18, 0.56), (0.78, 0.14)), (244, 230, 180)),
)
WATER = (
    Layer(WHOLE, (58, 120, 206)),
    Layer(union(wave(0.3, 0.06, 0.09), wave(0.8, 0.06, 0.09)), (104, 164, 236)),
    Layer(shrunk(wave(0.5, 0.06, 0.08), 1, 0.3, 0.05), (42, 96, 176)),
)
STONE = (
    Layer(WHOLE, (132, 134, 142)),
    Layer(union(block(0, 0, 1, 0.07), block(0, 0, 0.07, 1)), (158, 160, 168)),
    Layer(union(block(0, 0.93, 1, 1), block(0.93, 0, 1, 1)), (100, 102, 112)),
    Layer(
        union(
            line(0.2, 0.3, 0.48, 0.24, 0.06),
            line(0.48, 0.24, 0.6, 0.4, 0.06),
            line(0.34, 0.74, 0.62, 0.66, 0.06),
            line(0.74, 0.78, 0.86, 0.62, 0.06),
        ),
        (104, 106, 116),
    ),
)
PATH = (
    Layer(WHOLE, (164, 138, 112)),
    Layer(dots(0.09, (0.24, 0.28), (0.7, 0.2), (0.48, 0.62), (0.84, 0.76)), (146, 120, 96)),
    Layer(dots(0.055, (0.14, 0.7), (0.62, 0.42), (0.3, 0.9), (0.92, 0.42)), (184, 160, 134)),
)
TREE = (
    *GRASS,
    Layer(disc(0.52, 0.54, 0.46), (48, 98, 44), 0.8),
    Layer(block(0.42, 0.6, 0.58, 0.98, 0.03), (112, 76, 46)),
    Layer(dots(0.27, (0.31, 0.46), (0.69, 0.46), (0.5, 0.3), (0.5, 0.54)), (38, 110, 52)),
    Layer(dots(0.12, (0.3, 0.36), (0.52, 0.22), (0.66, 0.42)), (72, 152, 72)),
    Layer(dots(0.05, (0.4, 0.56), (0.62, 0.6), (0.22, 0.5)), (26, 82, 40)),
)


def _lumps(colour: RGB, light: RGB, radius: float) -> Layers:
    """Return the drawing of stone with four lumps of ore.

    Each lump has a highlight, a dot with the given radius and the colour `light`.
    """
    places = ((0.3, 0.3), (0.68, 0.4), (0.4, 0.7), (0.76, 0.76))
    lit = dots(radius, *((x - 0.05, y - 0.05) for x, y in places))
    lumps = union(dots(0.15, *places[:2]), dots(0.13, *places[2:]))
    return (*STONE, Layer(lumps, colour), Layer(lit, light))


COAL = _lumps((34, 34, 40), (92, 92, 104), 0.045)
IRON = _lumps((206, 132, 88), (252, 214, 176), 0.055)


def _gem(x: float, y: float, radius: float) -> Shape:
    return polygon((x - radius, y), (x, y - radius), (x + radius, y), (x, y + radius))


DIAMOND = (
    *STONE,
    Layer(union(_gem(0.34, 0.34, 0.25), _gem(0.7, 0.68, 0.25)), (64, 206, 232)),
    Layer(union(_gem(0.3, 0.3, 0.12), _gem(0.66, 0.64, 0.12)), (226, 252, 255)),
)
LAVA = (
    Layer(WHOLE, (226, 88, 28)),
    *(Layer(wave(y + 1 / 16, 1 / 16, 1 / 8), (168, 48, 20)) for y in (1 / 8, 7 / 16, 3 / 4)),
    *(Layer(wave(y, 1 / 16, 1 / 10), (255, 198, 72)) for y in (1 / 8, 7 / 16, 3 / 4)),
)
WOOD = (
    Layer(WHOLE, (150, 106, 62)),
    Layer(union(*(block(0, y, 1, y + 0.06) for y in (0.22, 0.47, 0.72, 0.94))), (112, 76, 42)),
    Layer(union(block(0.3, 0, 0.35, 0.22), block(0.66, 0.47, 0.71, 0.72)), (112, 76, 42)),
)
TABLE = (
    Layer(WHOLE, (104, 66, 36)),
    Layer(block(0.08, 0.08, 0.92, 0.7, 0.04), (196, 142, 86)),
    Layer(union(block(0.08, 0.28, 0.92, 0.32), block(0.08, 0.48, 0.92, 0.52)), (160, 110, 62)),
    Layer(line(0.22, 0.58, 0.52, 0.24, 0.09), (92, 60, 36)),
    Layer(line(0.36, 0.18, 0.64, 0.4, 0.13), (196, 200, 210)),
    Layer(block(0.7, 0.2, 0.82, 0.6), (228, 92, 74)),
    Layer(both_sides(block(0.12, 0.74, 0.26, 1)), (148, 100, 56)),
)
FURNACE = (
    Layer(WHOLE, (84, 86, 96)),
    Layer(union(block(0, 0, 1, 0.08), block(0, 0.3, 1, 0.34)), (116, 118, 130)),
    Layer(both_sides(block(0.3, 0.08, 0.34, 0.3)), (58, 60, 68)),
    Layer(union(block(0.18, 0.42, 0.82, 1, 0.1), block(0.18, 0.7, 0.82, 1)), (30, 26, 30)),
    Layer(
        polygon(
            (0.26, 1), (0.28, 0.72), (0.4, 0.82), (0.5, 0.52), (0.62, 0.8), (0.72, 0.68), (0.74, 1)
        ),
        (240, 112, 34),
    ),
    Layer(polygon((0.38, 1), (0.42, 0.86), (0.5, 0.74), (0.6, 0.88), (0.62, 1)), (255, 214, 90)),
)
SPROUT = (
    Layer(block(0.46, 0.44, 0.54, 0.88), (46, 104, 40)),
    Layer(
        union(
            polygon((0.5, 0.62), (0.2, 0.56), (0.14, 0.32), (0.4, 0.38)),
            polygon((0.5, 0.54), (0.8, 0.46), (0.86, 0.22), (0.6, 0.28)),
        ),
        (34, 118, 50),
    ),
    Layer(
        union(line(0.22, 0.4, 0.46, 0.58, 0.05), line(0.78, 0.3, 0.54, 0.5, 0.05)), (140, 216, 110)
    ),
)
PLANT = (*GRASS, Layer(disc(0.5, 0.86, 0.2), (126, 92, 58)), *SPROUT)
RIPE = (
    *GRASS,
    Layer(disc(0.5, 0.86, 0.22), (126, 92, 58)),
    Layer(block(0.46, 0.4, 0.54, 0.88), (46, 104, 40)),
    Layer(dots(0.24, (0.3, 0.46), (0.7, 0.46), (0.5, 0.28)), (34, 118, 50)),
    Layer(dots(0.11, (0.28, 0.5), (0.7, 0.54), (0.5, 0.24)), (226, 52, 70)),
    Layer(dots(0.04, (0.25, 0.46), (0.67, 0.5), (0.47, 0.2)), WHITE),
)
BEYOND = (
    Layer(WHOLE, (44, 46, 56)),
    Layer(union(line(-0.1, 0.6, 0.6, -0.1, 0.09), line(0.4, 1.1, 1.1, 0.4, 0.09)), (54, 57, 68)),
)
UNKNOWN = (
    Layer(WHOLE, (255, 0, 255)),
    Layer(union(block(0, 0, 1 / 2, 1 / 2), block(1 / 2, 1 / 2, 1, 1)), (0, 0, 0)),
)
BLOCKS = {
    Block.INVALID: UNKNOWN,
    Block.OUT_OF_BOUNDS: BEYOND,
    Block.GRASS: GRASS,
    Block.WATER: WATER,
    Block.STONE: STONE,
    Block.TREE: TREE,
    Block.WOOD: WOOD,
    Block.PATH: PATH,
    Block.COAL: COAL,
    Block.IRON: IRON,
    Block.DIAMOND: DIAMOND,
    Block.CRAFTING_TABLE: TABLE,
    Block.FURNACE: FURNACE,
    Block.SAND: SAND,
    Block.LAVA: LAVA,
    Block.PLANT: PLANT,
    Block.RIPE_PLANT: RIPE,
}
