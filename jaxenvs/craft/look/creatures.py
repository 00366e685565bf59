"""Drawings of the player, and of the mobs of both editions, as layers of coloured shapes.

Coordinates are fractions of the tile's side, from the upper left corner.
"""

from ...core.paint import Layer, block, changed, disc, dots, line, minus, mirrored, union
from . import monsters
from .blocks import INK, WHITE, both_sides
from .monsters import BONE

SKIN, HAIR, SHIRT, SHIRT_DARK, TROUSERS = (
    (242, 200, 162),
    (92, 56, 36),
    (222, 60, 72),
    (164, 36, 52),
    (46, 58, 116),
)
LEGS = Layer(both_sides(block(0.3, 0.74, 0.46, 0.97, 0.04)), TROUSERS)
TORSO = (
    Layer(block(0.2, 0.4, 0.8, 0.8, 0.12), INK),
    Layer(block(0.24, 0.42, 0.76, 0.78, 0.1), SHIRT),
)
HEAD = (Layer(disc(0.5, 0.28, 0.26), INK), Layer(disc(0.5, 0.28, 0.22), SKIN))
DOWN = (
    LEGS,
    *TORSO,
    Layer(dots(0.08, (0.22, 0.68), (0.78, 0.68)), SKIN),
    *HEAD,
    Layer(minus(disc(0.5, 0.28, 0.24), block(0, 0.22, 1, 1)), HAIR),
    Layer(dots(0.045, (0.41, 0.32), (0.59, 0.32)), INK),
)
UP = (
    LEGS,
    *TORSO,
    Layer(block(0.36, 0.5, 0.64, 0.74, 0.04), SHIRT_DARK),
    *HEAD,
    Layer(minus(disc(0.5, 0.28, 0.24), block(0, 0.46, 1, 1)), HAIR),
)
LEFT = (
    Layer(union(block(0.36, 0.74, 0.5, 0.97, 0.04), block(0.54, 0.74, 0.66, 0.97, 0.04)), TROUSERS),
    Layer(block(0.3, 0.4, 0.72, 0.8, 0.12), INK),
    Layer(block(0.34, 0.42, 0.68, 0.78, 0.1), SHIRT),
    Layer(block(0.06, 0.52, 0.5, 0.66, 0.05), SHIRT_DARK),
    Layer(disc(0.1, 0.59, 0.09), SKIN),
    *HEAD,
    Layer(minus(disc(0.5, 0.28, 0.24), block(0, 0.22, 0.5, 1), block(0.3, 0.34, 0.56, 1)), HAIR),
    Layer(disc(0.36, 0.3, 0.045), INK),
)
SLEEPER = (
    Layer(block(0.06, 0.26, 0.96, 0.86, 0.08), INK),
    Layer(block(0.1, 0.3, 0.92, 0.82, 0.06), (238, 232, 220)),
    Layer(block(0.44, 0.3, 0.92, 0.82, 0.06), SHIRT),
    Layer(block(0.44, 0.3, 0.52, 0.82), SHIRT_DARK),
    Layer(disc(0.28, 0.56, 0.17), SKIN),
    Layer(minus(disc(0.28, 0.56, 0.19), block(0.22, 0, 1, 1)), HAIR),
    Layer(line(0.33, 0.48, 0.33, 0.64, 0.04), INK),
    Layer(
        union(
            block(0.6, 0.02, 0.84, 0.07),
            line(0.81, 0.05, 0.63, 0.2, 0.06),
            block(0.6, 0.18, 0.84, 0.23),
        ),
        WHITE,
    ),
)
# Drawings of the player facing left, right, up and down (`facing` 1 to 4), and asleep.
PLAYER = (LEFT, changed(LEFT, mirrored), UP, DOWN, SLEEPER)
ROT, ROT_DARK = (104, 168, 88), (70, 122, 60)
ZOMBIE = (
    Layer(both_sides(block(0.3, 0.74, 0.46, 0.97)), (52, 46, 84)),
    Layer(block(0.2, 0.4, 0.8, 0.8, 0.08), INK),
    Layer(block(0.24, 0.42, 0.76, 0.78, 0.06), (44, 112, 132)),
    Layer(both_sides(block(0.1, 0.46, 0.26, 0.72, 0.05)), ROT_DARK),
    Layer(dots(0.09, (0.18, 0.72), (0.82, 0.72)), ROT),
    Layer(block(0.24, 0.03, 0.76, 0.5, 0.1), INK),
    Layer(block(0.28, 0.07, 0.72, 0.46, 0.07), ROT),
    Layer(block(0.28, 0.07, 0.72, 0.15, 0.05), ROT_DARK),
    Layer(both_sides(block(0.34, 0.22, 0.45, 0.31)), (196, 28, 36)),
    Layer(block(0.38, 0.37, 0.62, 0.42), INK),
)
COW = (
    Layer(union(*(block(x, 0.72, x + 0.12, 0.95) for x in (0.2, 0.38, 0.58, 0.76))), INK),
    Layer(block(0.14, 0.32, 0.94, 0.82, 0.14), INK),
    Layer(block(0.18, 0.36, 0.9, 0.78, 0.12), (240, 236, 230)),
    Layer(union(disc(0.58, 0.44, 0.14), disc(0.82, 0.66, 0.12)), (112, 70, 48)),
    Layer(
        union(block(0.02, 0.1, 0.12, 0.24, 0.04), block(0.42, 0.1, 0.52, 0.24, 0.04)),
        (240, 236, 230),
    ),
    Layer(block(0.06, 0.14, 0.48, 0.62, 0.1), INK),
    Layer(block(0.1, 0.18, 0.44, 0.58, 0.08), (112, 70, 48)),
    Layer(block(0.1, 0.44, 0.44, 0.58, 0.06), (244, 172, 172)),
    Layer(dots(0.045, (0.19, 0.32), (0.35, 0.32)), WHITE),
)
SKELETON = (
    Layer(union(block(0.32, 0.74, 0.42, 0.97), block(0.56, 0.74, 0.66, 0.97)), BONE),
    Layer(block(0.22, 0.44, 0.76, 0.8, 0.06), INK),
    Layer(block(0.46, 0.44, 0.52, 0.8), BONE),
    Layer(union(*(block(0.28, y, 0.7, y + 0.06) for y in (0.5, 0.61, 0.72))), BONE),
    Layer(block(0.24, 0.03, 0.74, 0.46, 0.14), INK),
    Layer(block(0.28, 0.07, 0.7, 0.36, 0.12), BONE),
    Layer(block(0.36, 0.32, 0.62, 0.44, 0.02), BONE),
    Layer(dots(0.065, (0.4, 0.23), (0.58, 0.23)), INK),
    Layer(
        minus(disc(0.74, 0.58, 0.25), disc(0.69, 0.58, 0.23), block(0, 0, 0.72, 1)), (196, 124, 58)
    ),
)
# Drawing of each mob of both editions, by the mob's name in `Rules.mobs`.
MOBS = {"zombie": ZOMBIE, "cow": COW, "skeleton": SKELETON, **monsters.MOBS}
