"""Icons of Classic's inventory, and the digits that show counts."""

import functools

from ...core.paint import RGB, Layer, Shape, block, disc, dots, line, minus, polygon, union
from .blocks import SPROUT, outline
from .monsters import BONE

HEART = (
    Layer(
        union(
            disc(0.3, 0.34, 0.23),
            disc(0.7, 0.34, 0.23),
            polygon((0.09, 0.44), (0.91, 0.44), (0.5, 0.94)),
            block(0.3, 0.3, 0.7, 0.5),
        ),
        (228, 52, 66),
    ),
    Layer(disc(0.28, 0.3, 0.09), (255, 168, 172)),
)
DRUMSTICK = (
    Layer(line(0.12, 0.88, 0.5, 0.5, 0.14), BONE),
    Layer(dots(0.1, (0.1, 0.78), (0.22, 0.9)), BONE),
    Layer(disc(0.6, 0.38, 0.32), (176, 96, 44)),
    Layer(disc(0.52, 0.28, 0.1), (226, 158, 92)),
)
DROP = (
    Layer(
        union(disc(0.5, 0.62, 0.32), polygon((0.5, 0.02), (0.79, 0.5), (0.21, 0.5))), (64, 148, 240)
    ),
    Layer(disc(0.38, 0.6, 0.1), (196, 228, 255)),
)
BOLT = (
    Layer(
        polygon((0.58, 0.02), (0.14, 0.58), (0.44, 0.58), (0.34, 0.98), (0.86, 0.38), (0.54, 0.38)),
        (250, 212, 64),
    ),
)
LOG = (
    Layer(block(0.08, 0.28, 0.8, 0.76, 0.12), (134, 88, 50)),
    Layer(union(block(0.2, 0.38, 0.62, 0.43), block(0.14, 0.56, 0.6, 0.61)), (98, 62, 34)),
    Layer(disc(0.76, 0.52, 0.24), (224, 178, 116)),
    Layer(minus(disc(0.76, 0.52, 0.14), disc(0.76, 0.52, 0.08)), (158, 110, 62)),
)


def _lump(colour: RGB, light: RGB) -> tuple[Layer, ...]:
    lump = outline("10,62 24,26 56,12 88,36 90,74 60,92 26,88")
    facet = polygon((0.24, 0.5), (0.34, 0.3), (0.56, 0.22), (0.7, 0.36), (0.48, 0.5))
    return (Layer(lump, colour), Layer(facet, light))


INGOT = (
    Layer(polygon((0.22, 0.3), (0.78, 0.3), (0.94, 0.76), (0.06, 0.76)), (186, 112, 72)),
    Layer(polygon((0.28, 0.3), (0.72, 0.3), (0.78, 0.48), (0.22, 0.48)), (250, 206, 166)),
)
JEWEL = (
    Layer(
        polygon((0.26, 0.14), (0.74, 0.14), (0.96, 0.42), (0.5, 0.94), (0.04, 0.42)), (56, 196, 228)
    ),
    Layer(polygon((0.32, 0.22), (0.68, 0.22), (0.62, 0.42), (0.38, 0.42)), (224, 252, 255)),
    Layer(polygon((0.62, 0.42), (0.9, 0.42), (0.5, 0.88)), (30, 146, 190)),
)
MATERIALS = {"wood": (176, 120, 64), "stone": (158, 162, 172), "iron": (244, 208, 176)}
HANDLE = (120, 80, 48)


def pickaxe(colour: RGB) -> tuple[Layer, ...]:
    """Return the drawing of a pickaxe whose head has the given colour."""
    head = minus(
        disc(0.42, 0.58, 0.56),
        disc(0.34, 0.66, 0.46),
        block(-1, 0.66, 2, 2),
        block(-1, -1, 0.28, 2),
    )
    return (Layer(line(0.1, 0.9, 0.76, 0.24, 0.13), HANDLE), Layer(head, colour))


def sword(colour: RGB) -> tuple[Layer, ...]:
    """Return the drawing of a sword whose blade has the given colour."""
    return (
        Layer(line(0.08, 0.92, 0.34, 0.66, 0.13), HANDLE),
        Layer(polygon((0.3, 0.58), (0.84, 0.04), (0.96, 0.04), (0.96, 0.16), (0.42, 0.7)), colour),
        Layer(line(0.18, 0.5, 0.5, 0.82, 0.12), (236, 190, 70)),
    )


ICONS: dict[str, tuple[Layer, ...]] = {
    "health": HEART,
    "food": DRUMSTICK,
    "drink": DROP,
    "energy": BOLT,
    "sapling": SPROUT,
    "wood": LOG,
    "stone": _lump((132, 134, 142), (182, 184, 192)),
    "coal": _lump((58, 58, 66), (112, 112, 124)),
    "iron": INGOT,
    "diamond": JEWEL,
    **{f"{name}_pickaxe": pickaxe(colour) for name, colour in MATERIALS.items()},
    **{f"{name}_sword": sword(colour) for name, colour in MATERIALS.items()},
}
_DIGITS = (  # digits 0 to 9, each with 3 columns and 5 rows of pixels, listed row by row
    "111101101101111",
    "010110010010111",
    "111001111100111",
    "111001111001111",
    "101101111001001",
    "111100111001111",
    "111100111101111",
    "111001001010010",
    "111101111101111",
    "111101111001111",
)


@functools.cache
def digit(number: int, grow: float = 0.0) -> Shape:
    """Return the shape of a digit in the lower right corner of a tile.

    `grow` widens the strokes on each side, as a fraction of the tile's side.
    """
    cells = [divmod(i, 3) for i, mark in enumerate(_DIGITS[number]) if mark == "1"]
    return union(
        *(
            block((4 + c) / 7 - grow, (2 + r) / 7 - grow, (5 + c) / 7 + grow, (3 + r) / 7 + grow)
            for r, c in cells
        )
    )
