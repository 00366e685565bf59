"""Icons of the full game's inventory: tools, armour, potions, spells and attributes."""

import numpy as np

from ...core.paint import RGB, Layer, Shape, block, changed, disc, dots, line, minus, polygon, union
from . import icons, missiles, realms
from .blocks import WHITE, both_sides, outline

Layers = tuple[Layer, ...]
MATERIALS = {**icons.MATERIALS, "diamond": (96, 222, 240)}
ELEMENTS = {"fire": (255, 116, 36), "ice": (84, 112, 255)}  # colours of an enchantment's sparks
POTIONS: dict[str, RGB] = {
    "red": (226, 44, 54),
    "green": (52, 186, 70),
    "blue": (52, 92, 226),
    "pink": (255, 130, 200),
    "cyan": (60, 220, 226),
    "yellow": (250, 220, 60),
}


def _diagonal(shape: Shape) -> Shape:
    """Turn the shape of a projectile that points to the right, so that it points up and right."""
    half = 0.5**0.5

    def inside(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return shape(half * (x - y) + 0.5, half * (x + y - 1) + 0.5)

    return inside


SAPPHIRE = (
    Layer(
        polygon((0.1, 0.28), (0.5, 0.06), (0.9, 0.28), (0.9, 0.72), (0.5, 0.94), (0.1, 0.72)),
        (36, 58, 204),
    ),
    Layer(
        polygon((0.26, 0.36), (0.5, 0.22), (0.74, 0.36), (0.74, 0.62), (0.5, 0.76), (0.26, 0.62)),
        (92, 124, 255),
    ),
    Layer(polygon((0.26, 0.36), (0.5, 0.22), (0.74, 0.36), (0.5, 0.46)), (190, 206, 255)),
)
RUBY = (
    Layer(polygon((0.04, 0.16), (0.96, 0.16), (0.5, 0.92)), (196, 22, 54)),
    Layer(polygon((0.26, 0.16), (0.74, 0.16), (0.5, 0.62)), (246, 70, 92)),
    Layer(polygon((0.26, 0.16), (0.5, 0.16), (0.42, 0.38)), (255, 190, 196)),
)
BOOK = (
    Layer(block(0.1, 0.08, 0.9, 0.94, 0.06), (110, 30, 96)),
    Layer(block(0.2, 0.78, 0.9, 0.9, 0.02), (244, 238, 220)),
    Layer(block(0.1, 0.08, 0.22, 0.94, 0.05), (72, 18, 64)),
    Layer(polygon((0.56, 0.2), (0.74, 0.43), (0.56, 0.66), (0.38, 0.43)), (250, 206, 84)),
)
BOW = (
    Layer(
        minus(
            disc(0.34, 0.66, 0.6),
            disc(0.28, 0.72, 0.54),
            polygon((0, 0), (0.04, 0), (1, 0.96), (1, 1), (0, 1)),
        ),
        (214, 140, 66),
    ),
    Layer(line(0.06, 0.12, 0.88, 0.94, 0.06), (236, 232, 224)),
)
QUIVER = changed(missiles.ARROW2, _diagonal)


def _star(x: float, y: float, radius: float, waist: float) -> Shape:
    """Return the shape of a star with four points, which are `radius` away from its centre (x, y).

    Each inner corner, between two points, is at the distance `waist` from the star's two axes.
    """
    points = ((0, -radius), (waist, -waist), (radius, 0), (waist, waist))
    both = (*points, *((-across, -down) for across, down in points))
    return polygon(*((x + across, y + down) for across, down in both))


MANA = (
    Layer(disc(0.5, 0.5, 0.42), (46, 66, 190)),
    Layer(_star(0.5, 0.5, 0.46, 0.1), (168, 214, 255)),
)
XP = (
    Layer(polygon((0.5, 0.02), (0.98, 0.5), (0.5, 0.98), (0.02, 0.5)), (56, 150, 40)),
    Layer(polygon((0.5, 0.14), (0.86, 0.5), (0.5, 0.86), (0.14, 0.5)), (150, 236, 70)),
    Layer(polygon((0.5, 0.24), (0.5, 0.5), (0.24, 0.5)), (236, 255, 190)),
)
DEXTERITY = (  # the icon of dexterity is a winged boot
    Layer(block(0.34, 0.1, 0.66, 0.72, 0.04), (176, 112, 60)),
    Layer(block(0.34, 0.58, 0.96, 0.84, 0.12), (176, 112, 60)),
    Layer(block(0.34, 0.82, 0.96, 0.92, 0.02), (96, 58, 34)),
    Layer(
        union(
            polygon((0.44, 0.5), (0, 0.06), (0.1, 0.44)),
            polygon((0.44, 0.6), (0.02, 0.4), (0.16, 0.68)),
        ),
        (240, 244, 250),
    ),
)
STRENGTH = (  # the icon of strength is a fist
    Layer(block(0.12, 0.2, 0.88, 0.72, 0.16), (240, 190, 148)),
    Layer(union(*(block(x, 0.18, x + 0.04, 0.5) for x in (0.32, 0.5, 0.68))), (160, 102, 70)),
    Layer(block(0.04, 0.46, 0.62, 0.62, 0.08), (250, 210, 172)),
    Layer(block(0.24, 0.72, 0.76, 0.96, 0.04), (206, 44, 52)),
)
INTELLIGENCE = (  # the icon of intelligence is a light bulb
    Layer(disc(0.5, 0.4, 0.36), (255, 226, 110)),
    Layer(block(0.36, 0.66, 0.64, 0.78), (255, 226, 110)),
    Layer(disc(0.4, 0.3, 0.1), (255, 252, 220)),
    Layer(block(0.36, 0.76, 0.64, 0.96, 0.05), (150, 156, 170)),
    Layer(line(0.38, 0.42, 0.5, 0.56, 0.06), (196, 130, 30)),
    Layer(line(0.62, 0.42, 0.5, 0.56, 0.06), (196, 130, 30)),
)


def _potion(liquid: RGB) -> Layers:
    return (
        Layer(union(disc(0.5, 0.62, 0.36), block(0.36, 0.14, 0.64, 0.5)), (206, 224, 236)),
        Layer(disc(0.5, 0.62, 0.29), liquid),
        Layer(block(0.34, 0.02, 0.66, 0.18, 0.03), (150, 98, 54)),
        Layer(disc(0.4, 0.54, 0.08), WHITE),
    )


HELMET = minus(
    union(disc(0.5, 0.5, 0.44), block(0.06, 0.5, 0.94, 0.92, 0.04)), block(0.28, 0.5, 0.72, 1)
)
CHESTPLATE = outline("2,10 34,6 50,22 66,6 98,10 98,46 80,46 80,94 20,94 20,46 2,46")
LEGGINGS = outline("14,6 86,6 92,94 58,94 50,44 42,94 8,94")
BOOTS = both_sides(union(block(0.1, 0.14, 0.38, 0.88, 0.03), block(0.02, 0.6, 0.38, 0.88, 0.08)))
ARMOUR = {"helmet": HELMET, "chestplate": CHESTPLATE, "leggings": LEGGINGS, "boots": BOOTS}
SHINE = {
    "helmet": line(0.2, 0.44, 0.44, 0.16, 0.07),
    "chestplate": union(block(0.3, 0.34, 0.37, 0.8), block(0.47, 0.4, 0.53, 0.86)),
    "leggings": union(block(0.16, 0.06, 0.84, 0.16), block(0.2, 0.3, 0.26, 0.84)),
    "boots": both_sides(block(0.1, 0.14, 0.38, 0.24)),
}
METALS: dict[str, tuple[RGB, RGB]] = {  # colours of each metal and its highlights
    "iron": ((206, 196, 190), (255, 248, 240)),
    "diamond": ((56, 190, 220), (214, 250, 255)),
}


def _armour(piece: str, metal: str) -> Layers:
    plain, shine = METALS[metal]
    return (Layer(ARMOUR[piece], plain), Layer(SHINE[piece], shine))


def enchanted(layers: Layers, element: str) -> Layers:
    """Return an icon with sparks of fire or ice around it, which show an enchantment."""
    colour = ELEMENTS[element]
    if element == "fire":
        sparks = union(
            polygon((0.02, 1), (0.04, 0.66), (0.14, 0.8), (0.2, 0.56), (0.34, 0.86), (0.36, 1)),
            polygon((0.6, 1), (0.66, 0.76), (0.74, 0.86), (0.84, 0.6), (0.94, 0.8), (0.98, 1)),
        )
        core = union(
            polygon((0.1, 1), (0.18, 0.78), (0.28, 1)), polygon((0.72, 1), (0.82, 0.8), (0.9, 1))
        )
        return (*layers, Layer(sparks, colour), Layer(core, (255, 232, 120)))
    stars = ((0.17, 0.82, 0.2), (0.84, 0.8, 0.18), (0.84, 0.16, 0.15))
    return (
        *layers,
        Layer(union(*(_star(*star, waist=star[2] * 0.3) for star in stars)), colour),
        Layer(dots(0.05, *((x, y) for x, y, _ in stars)), WHITE),
    )


ICONS: dict[str, Layers] = {
    **icons.ICONS,
    "mana": MANA,
    "xp": XP,
    "dexterity": DEXTERITY,
    "strength": STRENGTH,
    "intelligence": INTELLIGENCE,
    "sapphire": SAPPHIRE,
    "ruby": RUBY,
    "torches": realms.TORCH,
    "arrows": QUIVER,
    "books": BOOK,
    "bow": BOW,
    "diamond_pickaxe": icons.pickaxe(MATERIALS["diamond"]),
    "diamond_sword": icons.sword(MATERIALS["diamond"]),
    "fireball": missiles.FIREBALL,
    "iceball": missiles.ICEBALL,
    **{f"{metal}_{piece}": _armour(piece, metal) for metal in METALS for piece in ARMOUR},
    **{f"{colour}_potion": _potion(liquid) for colour, liquid in POTIONS.items()},
}
