"""Drawings of the full game's blocks, and of the items that lie on them."""

from ...core.paint import RGB, Layer, Shape, block, disc, dots, line, minus, polygon, union
from ..tables import Block, Item
from . import blocks
from .blocks import INK, PATH, STONE, TUFTS, WHITE, WHOLE, both_sides, outline

# The following constants draw blocks of ground, walls and vegetation.

BRICKS = (
    *(block(x, 0.07, x + 0.44, 0.3) for x in (0.03, 0.53)),
    *(block(x, 0.4, x + 0.44, 0.63) for x in (-0.22, 0.28, 0.78)),
    *(block(x, 0.73, x + 0.44, 0.96) for x in (0.03, 0.53)),
)
WALL = (
    Layer(WHOLE, (44, 40, 56)),
    Layer(union(*BRICKS), (92, 86, 112)),
    Layer(
        union(
            block(0.03, 0.07, 0.47, 0.12), block(0.28, 0.4, 0.72, 0.45), block(0.53, 0.73, 1, 0.78)
        ),
        (122, 116, 142),
    ),
)
MOSS = (70, 132, 66)
WALL_MOSS = (
    *WALL,
    Layer(dots(0.19, (0.18, 0.12), (0.44, 0.04), (0.86, 0.62), (0.94, 0.84), (0.3, 0.78)), MOSS),
    Layer(union(block(0.1, 0.1, 0.22, 0.56, 0.05), block(0.8, 0.5, 0.9, 0.98, 0.05)), MOSS),
    Layer(dots(0.06, (0.2, 0.1), (0.86, 0.66), (0.3, 0.74), (0.14, 0.4)), (122, 180, 92)),
)
DARKNESS = (Layer(WHOLE, (0, 0, 0)),)
SPIKES = ((0.24, 0.24, 0.34, 0.9), (0.72, 0.34, 0.3, 0.96), (0.48, 0.04, 0.4, 0.86))


def _spike(middle: float, top: float, width: float, bottom: float, share: float = 1.0) -> Shape:
    """Return the shape of a spike that stands on the ground.

    `share` is the fraction of the spike's width, from the left, that the shape covers.
    """
    left = middle - width / 2
    return polygon((left, bottom), (middle, top), (left + width * share, bottom))


STALAGMITE = (
    *PATH,
    Layer(union(*(_spike(x, y - 0.06, w + 0.1, b + 0.02) for x, y, w, b in SPIKES)), INK),
    Layer(union(*(_spike(*one) for one in SPIKES)), (104, 98, 104)),
    Layer(union(*(_spike(*one, 0.4) for one in SPIKES)), (168, 160, 160)),
)
GRAVEL = (
    Layer(WHOLE, (112, 106, 102)),
    Layer(
        dots(0.13, (0.2, 0.2), (0.62, 0.16), (0.4, 0.5), (0.84, 0.5), (0.18, 0.8), (0.66, 0.84)),
        (80, 76, 76),
    ),
    Layer(
        dots(
            0.09, (0.18, 0.17), (0.6, 0.13), (0.38, 0.47), (0.82, 0.47), (0.16, 0.77), (0.64, 0.81)
        ),
        (156, 150, 146),
    ),
)
FIRE_GRASS = (
    Layer(WHOLE, (128, 52, 40)),
    Layer(dots(0.13, (0.2, 0.25), (0.72, 0.7), (0.85, 0.12)), (146, 62, 44), 0.6),
    Layer(
        union(
            polygon((0.1, 0.84), (0.13, 0.62), (0.18, 0.72), (0.22, 0.54), (0.3, 0.84)),
            polygon((0.54, 0.42), (0.57, 0.2), (0.62, 0.3), (0.67, 0.1), (0.74, 0.42)),
            polygon((0.72, 0.95), (0.76, 0.76), (0.8, 0.84), (0.85, 0.68), (0.92, 0.95)),
        ),
        (232, 128, 44),
    ),
)
ICE_GRASS = (
    Layer(WHOLE, (190, 216, 234)),
    Layer(dots(0.16, (0.22, 0.28), (0.74, 0.66), (0.9, 0.14)), (222, 238, 248), 0.9),
    Layer(TUFTS, (120, 164, 200)),
)
FIRE_TREE = (
    *FIRE_GRASS,
    Layer(block(0.42, 0.5, 0.58, 0.98, 0.03), (44, 28, 28)),
    Layer(union(line(0.5, 0.66, 0.2, 0.42, 0.08), line(0.5, 0.62, 0.8, 0.4, 0.08)), (44, 28, 28)),
    Layer(
        outline("10,50 6,24 22,32 32,6 44,22 54,0 64,20 78,8 82,30 95,26 88,54 66,64 34,64"),
        (226, 62, 30),
    ),
    Layer(outline("26,52 24,34 36,38 42,26 54,18 62,36 74,30 74,50 50,58"), (255, 176, 58)),
)
ICE_SHRUB = (
    *ICE_GRASS,
    Layer(
        both_sides(union(line(0.5, 0.9, 0.16, 0.48, 0.09), line(0.5, 0.9, 0.36, 0.24, 0.09))),
        (52, 110, 124),
    ),
    Layer(
        dots(0.13, (0.16, 0.46), (0.36, 0.24), (0.64, 0.24), (0.84, 0.46), (0.5, 0.54)),
        (74, 150, 160),
    ),
    Layer(dots(0.06, (0.14, 0.42), (0.34, 0.2), (0.62, 0.2), (0.82, 0.42), (0.48, 0.5)), WHITE),
)

# The following functions and constants draw blocks of ore. Each gem has a different shape.


def _hexagon(x: float, y: float, radius: float) -> Shape:
    return polygon(
        (x - radius, y - radius / 2),
        (x, y - radius),
        (x + radius, y - radius / 2),
        (x + radius, y + radius / 2),
        (x, y + radius),
        (x - radius, y + radius / 2),
    )


def _drop(x: float, y: float, radius: float) -> Shape:
    return polygon((x - radius, y - radius * 0.7), (x + radius, y - radius * 0.7), (x, y + radius))


SAPPHIRE = (
    *STONE,
    Layer(union(_hexagon(0.32, 0.34, 0.24), _hexagon(0.7, 0.68, 0.22)), (34, 52, 190)),
    Layer(union(_hexagon(0.28, 0.29, 0.11), _hexagon(0.66, 0.63, 0.1)), (120, 150, 255)),
)
RUBY = (
    *STONE,
    Layer(union(_drop(0.33, 0.34, 0.28), _drop(0.7, 0.7, 0.26)), (190, 22, 52)),
    Layer(union(_drop(0.3, 0.28, 0.13), _drop(0.67, 0.64, 0.12)), (255, 130, 140)),
)

# The following constants draw blocks that are objects on a path, such as a chest.

GOLD = (240, 194, 74)
CHEST = (
    *PATH,
    Layer(block(0.06, 0.2, 0.94, 0.92, 0.08), INK),
    Layer(block(0.1, 0.24, 0.9, 0.5, 0.06), (186, 112, 48)),
    Layer(block(0.1, 0.52, 0.9, 0.88, 0.04), (146, 84, 36)),
    Layer(both_sides(block(0.18, 0.24, 0.26, 0.88)), GOLD),
    Layer(block(0.4, 0.4, 0.6, 0.66, 0.04), INK),
    Layer(block(0.43, 0.43, 0.57, 0.62, 0.03), (255, 226, 120)),
)
FOUNTAIN = (
    *PATH,
    Layer(disc(0.5, 0.56, 0.44), INK),
    Layer(disc(0.5, 0.56, 0.4), (190, 192, 202)),
    Layer(disc(0.5, 0.56, 0.29), (46, 116, 214)),
    Layer(minus(disc(0.5, 0.56, 0.22), disc(0.5, 0.56, 0.17)), (120, 184, 250)),
    Layer(block(0.43, 0.3, 0.57, 0.62, 0.05), (226, 228, 236)),
    Layer(
        union(
            line(0.5, 0.12, 0.26, 0.36, 0.09),
            line(0.5, 0.12, 0.74, 0.36, 0.09),
            disc(0.5, 0.14, 0.11),
        ),
        (176, 222, 255),
    ),
)
FLAME = ((0.3, 0.5), (0.26, 0.26), (0.36, 0.32), (0.5, 0.02), (0.62, 0.3), (0.74, 0.22), (0.7, 0.5))
CRYSTAL = ((0.5, 0.0), (0.68, 0.24), (0.6, 0.5), (0.4, 0.5), (0.32, 0.24))


def _altar(cloth: RGB, rune: RGB) -> tuple[Layer, ...]:
    return (
        *PATH,
        Layer(block(0.08, 0.44, 0.92, 0.96, 0.05), INK),
        Layer(block(0.12, 0.48, 0.88, 0.66, 0.04), cloth),
        Layer(block(0.18, 0.66, 0.82, 0.92, 0.02), (70, 54, 84)),
        Layer(dots(0.05, (0.32, 0.79), (0.5, 0.79), (0.68, 0.79)), rune),
    )


FIRE_TABLE = (
    *_altar((164, 36, 44), (255, 150, 60)),
    Layer(polygon(*FLAME), (236, 92, 28)),
    Layer(polygon((0.4, 0.5), (0.4, 0.36), (0.5, 0.2), (0.6, 0.38), (0.6, 0.5)), (255, 220, 96)),
)
ICE_TABLE = (
    *_altar((38, 84, 176), (130, 220, 255)),
    Layer(polygon(*CRYSTAL), (90, 190, 240)),
    Layer(polygon((0.5, 0.06), (0.5, 0.46), (0.42, 0.46), (0.37, 0.25)), (226, 250, 255)),
)
ROBE = polygon((0.5, 0.08), (0.72, 0.24), (0.86, 0.94), (0.14, 0.94), (0.28, 0.24))


def _necromancer(around: tuple[Layer, ...], robe: RGB, eyes: RGB) -> tuple[Layer, ...]:
    return (
        *PATH,
        *around,
        Layer(polygon((0.5, 0.03), (0.76, 0.22), (0.91, 0.98), (0.09, 0.98), (0.24, 0.22)), INK),
        Layer(ROBE, robe),
        Layer(disc(0.5, 0.34, 0.2), INK),
        Layer(union(disc(0.5, 0.32, 0.15), block(0.42, 0.4, 0.58, 0.52, 0.02)), (226, 222, 206)),
        Layer(dots(0.055, (0.43, 0.33), (0.57, 0.33)), eyes),
    )


STAFF = (
    Layer(block(0.84, 0.3, 0.91, 0.98), (96, 62, 38)),
    Layer(disc(0.875, 0.2, 0.11), (150, 240, 110)),
)
NECROMANCER = (
    *_necromancer(
        (Layer(disc(0.5, 0.52, 0.5), (142, 70, 226)), Layer(disc(0.5, 0.52, 0.4), (86, 36, 150))),
        (50, 32, 74),
        (150, 40, 220),
    ),
    *STAFF,
)
NECROMANCER_VULNERABLE = (
    *_necromancer((), (122, 92, 132), (226, 30, 40)),
    Layer(
        union(
            line(0.52, 0.56, 0.42, 0.7, 0.06),
            line(0.42, 0.7, 0.58, 0.78, 0.06),
            line(0.58, 0.78, 0.48, 0.92, 0.06),
        ),
        (255, 86, 70),
    ),
)
SLAB, SLAB_LIGHT = (150, 152, 160), (190, 192, 200)
EARTH = Layer(disc(0.5, 0.94, 0.36), (104, 78, 58))
GRAVE = (
    *PATH,
    EARTH,
    Layer(union(block(0.38, 0.02, 0.62, 0.92), block(0.12, 0.2, 0.88, 0.46)), INK),
    Layer(union(block(0.42, 0.06, 0.58, 0.88), block(0.16, 0.24, 0.84, 0.42)), SLAB_LIGHT),
)
GRAVE2 = (
    *PATH,
    EARTH,
    Layer(block(0.18, 0.06, 0.82, 1.2, 0.3), INK),
    Layer(block(0.22, 0.1, 0.78, 1.2, 0.27), SLAB),
    Layer(union(block(0.32, 0.38, 0.68, 0.45), block(0.32, 0.56, 0.68, 0.63)), (84, 84, 94)),
    Layer(block(0.14, 0.9, 0.86, 1), (104, 78, 58)),
)
GRAVE3 = (
    *PATH,
    EARTH,
    Layer(
        polygon((0.06, 0.96), (0.14, 0.4), (0.4, 0.56), (0.56, 0.3), (0.84, 0.56), (0.8, 0.96)), INK
    ),
    Layer(
        polygon((0.11, 0.92), (0.18, 0.48), (0.4, 0.63), (0.56, 0.38), (0.79, 0.58), (0.75, 0.92)),
        SLAB,
    ),
    Layer(polygon((0.62, 0.06), (0.96, 0.16), (0.9, 0.42), (0.66, 0.3)), INK),
    Layer(polygon((0.66, 0.11), (0.91, 0.19), (0.87, 0.36), (0.69, 0.27)), SLAB_LIGHT),
)
BLOCKS = {
    **blocks.BLOCKS,
    Block.WALL: WALL,
    Block.DARKNESS: DARKNESS,
    Block.WALL_MOSS: WALL_MOSS,
    Block.STALAGMITE: STALAGMITE,
    Block.SAPPHIRE: SAPPHIRE,
    Block.RUBY: RUBY,
    Block.CHEST: CHEST,
    Block.FOUNTAIN: FOUNTAIN,
    Block.FIRE_GRASS: FIRE_GRASS,
    Block.ICE_GRASS: ICE_GRASS,
    Block.GRAVEL: GRAVEL,
    Block.FIRE_TREE: FIRE_TREE,
    Block.ICE_SHRUB: ICE_SHRUB,
    Block.ENCHANTMENT_TABLE_FIRE: FIRE_TABLE,
    Block.ENCHANTMENT_TABLE_ICE: ICE_TABLE,
    Block.NECROMANCER: NECROMANCER,
    Block.GRAVE: GRAVE,
    Block.GRAVE2: GRAVE2,
    Block.GRAVE3: GRAVE3,
    Block.NECROMANCER_VULNERABLE: NECROMANCER_VULNERABLE,
}

# The following constants draw items, such as torches, which can lie on any block.

TORCH = (
    Layer(block(0.4, 0.36, 0.6, 0.98, 0.03), INK),
    Layer(block(0.44, 0.4, 0.56, 0.94), (150, 98, 54)),
    Layer(polygon((0.3, 0.44), (0.26, 0.22), (0.5, 0), (0.74, 0.22), (0.7, 0.44)), (240, 110, 30)),
    Layer(
        polygon((0.38, 0.42), (0.38, 0.28), (0.5, 0.1), (0.62, 0.28), (0.62, 0.42)), (255, 232, 120)
    ),
)
RUNGS = (0.2, 0.42, 0.64)
HOLE = (
    Layer(block(0.04, 0.08, 0.96, 0.96, 0.06), (92, 74, 62)),
    Layer(block(0.11, 0.15, 0.89, 0.92, 0.03), (14, 12, 18)),
)
LADDER_DOWN = (
    *HOLE,
    Layer(both_sides(block(0.28, 0.15, 0.37, 0.82)), (206, 150, 84)),
    Layer(union(*(block(0.28, y + 0.04, 0.72, y + 0.12) for y in RUNGS)), (206, 150, 84)),
)
LADDER_DOWN_BLOCKED = (
    *LADDER_DOWN,
    Layer(
        union(*(block(x, 0.1, x + 0.1, 0.94) for x in (0.14, 0.34, 0.56, 0.76))), (126, 130, 142)
    ),
    Layer(both_sides(line(0.12, 0.18, 0.88, 0.88, 0.15)), (206, 44, 48)),
)
LADDER_UP = (
    Layer(both_sides(block(0.14, 0.02, 0.34, 0.98)), INK),
    Layer(union(*(block(0.2, y - 0.03, 0.8, y + 0.13) for y in (0.12, 0.38, 0.64))), INK),
    Layer(union(*(block(0.2, y, 0.8, y + 0.1) for y in (0.12, 0.38, 0.64))), (240, 196, 120)),
    Layer(both_sides(block(0.18, 0.04, 0.3, 0.96)), (216, 164, 92)),
)
ITEMS = {
    Item.TORCH: TORCH,
    Item.LADDER_DOWN: LADDER_DOWN,
    Item.LADDER_UP: LADDER_UP,
    Item.LADDER_DOWN_BLOCKED: LADDER_DOWN_BLOCKED,
}
