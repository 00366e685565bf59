"""Drawings of the mobs that only the full game has; they face the viewer or the left.

Module `beasts` draws the mobs that do not walk upright. `MOBS` has the drawings of both modules.
"""

from ...core.paint import RGB, Layer, block, disc, dots, line, minus, polygon, union
from .beasts import BAT, DEEP_THING, FIRE_ELEMENTAL, ICE_ELEMENTAL, LIZARD, SNAIL
from .blocks import INK, WHITE, both_sides

BONE = (232, 228, 212)
STEEL, STEEL_DARK, WOODEN = (196, 204, 218), (120, 128, 146), (132, 88, 50)
RED_EYE = (226, 34, 40)
Layers = tuple[Layer, ...]


def _body(coat: RGB, legs: RGB, arms: RGB, top: float = 0.44) -> Layers:
    """Return the drawing of legs, arms with hands, and a coat whose upper end is at `top`."""
    return (
        Layer(both_sides(block(0.26, 0.76, 0.46, 0.99)), INK),
        Layer(both_sides(block(0.3, 0.76, 0.44, 0.96)), legs),
        Layer(block(0.12, top, 0.88, 0.8, 0.1), INK),
        Layer(block(0.16, top + 0.04, 0.84, 0.74, 0.08), arms),
        Layer(block(0.28, top, 0.72, 0.84, 0.06), INK),
        Layer(block(0.31, top + 0.03, 0.69, 0.81, 0.05), coat),
    )


def _head(skin: RGB, eyes: RGB, middle: float = 0.32, radius: float = 0.22) -> Layers:
    return (
        Layer(disc(0.5, middle, radius + 0.04), INK),
        Layer(disc(0.5, middle, radius), skin),
        Layer(dots(0.05, (0.41, middle), (0.59, middle)), eyes),
    )


BOW = (
    Layer(minus(disc(0.36, 0.62, 0.37), disc(0.4, 0.62, 0.25), block(0.23, 0, 1, 1)), INK),
    Layer(
        minus(disc(0.36, 0.62, 0.33), disc(0.38, 0.62, 0.27), block(0.21, 0, 1, 1)), (232, 154, 70)
    ),
    Layer(block(0.19, 0.3, 0.23, 0.94), WHITE),
)
SWORD = (
    Layer(block(0.79, 0.12, 1, 0.72, 0.02), INK),
    Layer(block(0.83, 0.16, 0.96, 0.62), (236, 242, 250)),
    Layer(union(block(0.76, 0.6, 1, 0.68), block(0.86, 0.6, 0.94, 0.82)), (214, 164, 66)),
)
CLUB = (
    Layer(polygon((0.78, 0.14), (1, 0.14), (0.96, 0.84), (0.82, 0.84)), INK),
    Layer(polygon((0.82, 0.18), (0.96, 0.18), (0.92, 0.8), (0.86, 0.8)), (150, 98, 52)),
    Layer(dots(0.035, (0.86, 0.26), (0.93, 0.34), (0.86, 0.42)), BONE),
)


def _gnome(hat: RGB, coat: RGB, arm: Layers) -> Layers:
    """Return the drawing of a bearded gnome in a pointed hat, who holds `arm` (a weapon)."""
    return (
        *_body(coat, (74, 54, 40), coat, 0.56),
        *_head((238, 190, 150), INK, 0.42, 0.2),
        Layer(
            polygon((0.27, 0.48), (0.73, 0.48), (0.66, 0.72), (0.5, 0.84), (0.34, 0.72)),
            (238, 236, 230),
        ),
        Layer(disc(0.5, 0.48, 0.06), (226, 140, 116)),
        Layer(polygon((0.2, 0.4), (0.5, -0.04), (0.8, 0.4)), INK),
        Layer(polygon((0.26, 0.36), (0.5, 0.02), (0.74, 0.36)), hat),
        *arm,
    )


GNOME_WARRIOR = _gnome((206, 40, 50), (52, 76, 160), SWORD)
GNOME_ARCHER = _gnome((40, 150, 66), (134, 96, 52), BOW)
ORC_SKIN = (120, 150, 58)
TUSKS = Layer(
    both_sides(polygon((0.38, 0.5), (0.44, 0.5), (0.4, 0.38))),
    WHITE,
)
ORC_SOLDIER = (
    *_body((120, 82, 50), (64, 50, 44), ORC_SKIN),
    *_head(ORC_SKIN, (250, 220, 70), 0.32, 0.23),
    TUSKS,
    Layer(minus(disc(0.5, 0.28, 0.28), block(0, 0.22, 1, 1)), STEEL_DARK),
    Layer(block(0.2, 0.18, 0.8, 0.24), STEEL),
    *CLUB,
)
ORC_MAGE = (
    Layer(polygon((0.5, 0.3), (0.8, 0.5), (0.88, 0.99), (0.12, 0.99), (0.2, 0.5)), INK),
    Layer(
        polygon((0.5, 0.34), (0.76, 0.53), (0.83, 0.95), (0.17, 0.95), (0.24, 0.53)), (122, 46, 150)
    ),
    Layer(block(0.44, 0.5, 0.56, 0.95), (226, 170, 60)),
    Layer(polygon((0.5, -0.02), (0.82, 0.3), (0.76, 0.56), (0.24, 0.56), (0.18, 0.3)), INK),
    Layer(
        polygon((0.5, 0.03), (0.77, 0.31), (0.72, 0.52), (0.28, 0.52), (0.23, 0.31)), (122, 46, 150)
    ),
    Layer(disc(0.5, 0.35, 0.17), ORC_SKIN),
    Layer(dots(0.045, (0.43, 0.33), (0.57, 0.33)), (250, 220, 70)),
    TUSKS._replace(shape=lambda x, y: TUSKS.shape(x, y + 0.02)),
    Layer(block(0.86, 0.34, 0.93, 0.99), (110, 72, 44)),
    Layer(disc(0.89, 0.26, 0.11), (255, 150, 50)),
)


def _knight(plume: RGB, arm: Layers) -> Layers:
    return (
        *_body(plume, STEEL_DARK, STEEL),
        Layer(block(0.36, 0.5, 0.64, 0.6), GILT),
        Layer(block(0.24, 0.1, 0.76, 0.52, 0.1), INK),
        Layer(block(0.28, 0.14, 0.72, 0.48, 0.08), STEEL),
        Layer(union(block(0.32, 0.24, 0.68, 0.34), block(0.47, 0.24, 0.53, 0.48)), INK),
        Layer(union(disc(0.5, 0.08, 0.1), disc(0.62, 0.1, 0.1), disc(0.74, 0.16, 0.08)), plume),
        *arm,
    )


GILT = (240, 196, 76)
KNIGHT = _knight((206, 38, 48), SWORD)
KNIGHT_ARCHER = _knight((38, 84, 206), BOW)


def _troll(skin: RGB, dark: RGB, cloth: RGB) -> Layers:
    """Return the drawing of a hunched giant with a long nose, whose arms reach the ground."""
    return (
        Layer(both_sides(block(0.22, 0.76, 0.46, 1)), INK),
        Layer(both_sides(block(0.26, 0.76, 0.43, 0.97)), dark),
        Layer(both_sides(block(0.0, 0.36, 0.22, 0.92, 0.1)), INK),
        Layer(both_sides(block(0.04, 0.4, 0.19, 0.88, 0.08)), skin),
        Layer(block(0.12, 0.28, 0.88, 0.84, 0.18), INK),
        Layer(block(0.16, 0.32, 0.84, 0.8, 0.16), skin),
        Layer(block(0.2, 0.66, 0.8, 0.84, 0.05), cloth),
        Layer(block(0.26, 0.02, 0.74, 0.52, 0.16), INK),
        Layer(block(0.3, 0.06, 0.7, 0.48, 0.13), skin),
        Layer(block(0.3, 0.14, 0.7, 0.2), dark),
        Layer(dots(0.05, (0.4, 0.25), (0.6, 0.25)), (255, 226, 80)),
        Layer(block(0.44, 0.26, 0.56, 0.44, 0.05), dark),
    )


TROLL = (*_troll((116, 130, 104), (78, 90, 72), (110, 70, 44)), *CLUB)
FROST_TROLL = (
    *_troll((214, 232, 244), (110, 160, 206), (58, 92, 158)),
    Layer(
        union(
            polygon((0.3, 0.14), (0.1, 0.02), (0.26, 0.28)),
            polygon((0.7, 0.14), (0.9, 0.02), (0.74, 0.28)),
        ),
        (76, 130, 196),
    ),
    Layer(
        union(*(polygon((x, 0.5), (x + 0.12, 0.5), (x + 0.06, 0.66)) for x in (0.28, 0.44, 0.6))),
        WHITE,
    ),
)
PIG = (240, 156, 160)
PIGMAN = (
    *_body((150, 40, 34), (92, 30, 30), PIG),
    Layer(both_sides(polygon((0.2, 0.3), (0.18, 0.02), (0.44, 0.12))), INK),
    Layer(both_sides(polygon((0.24, 0.26), (0.22, 0.07), (0.42, 0.14))), (206, 108, 116)),
    *_head(PIG, RED_EYE, 0.3, 0.24),
    Layer(block(0.36, 0.34, 0.64, 0.5, 0.07), (206, 108, 116)),
    Layer(dots(0.035, (0.44, 0.42), (0.56, 0.42)), INK),
    Layer(line(0.86, 0.3, 0.92, 0.94, 0.05), WOODEN),
    Layer(polygon((0.72, 0.06), (0.98, 0.1), (0.92, 0.4), (0.84, 0.3)), INK),
    Layer(polygon((0.77, 0.1), (0.93, 0.13), (0.9, 0.31)), (255, 190, 80)),
)
FUR = (196, 92, 48)
KOBOLD = (
    *_body((92, 72, 60), FUR, FUR, 0.5),
    Layer(both_sides(polygon((0.22, 0.36), (0.1, 0.02), (0.46, 0.2))), INK),
    Layer(both_sides(polygon((0.26, 0.32), (0.17, 0.09), (0.42, 0.22))), FUR),
    *_head(FUR, (255, 236, 90), 0.36, 0.2),
    Layer(polygon((0.38, 0.4), (0.62, 0.4), (0.5, 0.62)), (240, 206, 160)),
    Layer(disc(0.5, 0.55, 0.06), INK),
    Layer(union(block(0.02, 0.58, 0.08, 0.76), block(0, 0.74, 0.22, 0.8)), (110, 72, 44)),
    Layer(polygon((0.03, 0.56), (0.08, 0.2), (0.17, 0.56)), (236, 240, 246)),
)

# Drawing of each mob that only the full game has, by the mob's name in `Rules.mobs`.
MOBS = {
    "gnome_warrior": GNOME_WARRIOR,
    "orc_soldier": ORC_SOLDIER,
    "lizard": LIZARD,
    "knight": KNIGHT,
    "troll": TROLL,
    "pigman": PIGMAN,
    "frost_troll": FROST_TROLL,
    "bat": BAT,
    "snail": SNAIL,
    "gnome_archer": GNOME_ARCHER,
    "orc_mage": ORC_MAGE,
    "kobold": KOBOLD,
    "knight_archer": KNIGHT_ARCHER,
    "deep_thing": DEEP_THING,
    "fire_elemental": FIRE_ELEMENTAL,
    "ice_elemental": ICE_ELEMENTAL,
}
