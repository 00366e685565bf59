"""Drawings of those mobs of the full game that do not walk upright: beasts and elementals."""

from ...core.paint import Layer, block, disc, dots, line, minus, polygon, union
from .blocks import INK, WHITE, both_sides, outline

SCALES = (88, 176, 120)
LIZARD = (
    Layer(
        union(
            line(0.6, 0.62, 0.98, 0.3, 0.2),
            *(block(x, 0.68, x + 0.16, 0.96, 0.03) for x in (0.3, 0.6)),
        ),
        INK,
    ),
    Layer(
        union(
            line(0.6, 0.62, 0.95, 0.33, 0.11),
            *(block(x, 0.7, x + 0.08, 0.92) for x in (0.34, 0.64)),
        ),
        SCALES,
    ),
    Layer(union(block(0.22, 0.44, 0.84, 0.82, 0.18), block(0.02, 0.24, 0.46, 0.66, 0.12)), INK),
    Layer(union(block(0.26, 0.48, 0.8, 0.78, 0.14), block(0.06, 0.28, 0.42, 0.62, 0.1)), SCALES),
    Layer(block(0.3, 0.66, 0.76, 0.78, 0.06), (222, 226, 140)),
    Layer(
        union(*(polygon((x, 0.48), (x + 0.06, 0.3), (x + 0.14, 0.48)) for x in (0.42, 0.56, 0.7))),
        (226, 132, 52),
    ),
    Layer(disc(0.24, 0.38, 0.08), (250, 226, 70)),
    Layer(block(0.22, 0.32, 0.26, 0.44), INK),
    Layer(block(0.06, 0.52, 0.3, 0.56), INK),
)
DEEP = (70, 40, 118)
DEEP_THING = (
    Layer(
        both_sides(union(line(0.3, 0.56, 0.08, 0.98, 0.17), line(0.44, 0.56, 0.36, 0.98, 0.17))),
        INK,
    ),
    Layer(
        both_sides(union(line(0.3, 0.54, 0.09, 0.95, 0.1), line(0.44, 0.54, 0.37, 0.95, 0.1))),
        (150, 84, 190),
    ),
    Layer(disc(0.5, 0.4, 0.38), INK),
    Layer(disc(0.5, 0.4, 0.34), DEEP),
    Layer(dots(0.06, (0.26, 0.28), (0.74, 0.28), (0.5, 0.14)), (150, 84, 190)),
    Layer(disc(0.5, 0.42, 0.18), (248, 232, 92)),
    Layer(block(0.45, 0.28, 0.55, 0.56, 0.05), INK),
)
FIRE_ELEMENTAL = (
    Layer(
        outline("10,66 4,28 22,40 30,8 44,26 54,-2 64,24 80,10 80,40 97,30 90,68 72,96 28,96"),
        (116, 10, 26),
    ),
    Layer(
        outline("15,66 11,39 25,48 33,17 45,34 55,8 65,32 76,20 77,47 91,40 85,67 70,92 30,92"),
        (226, 50, 20),
    ),
    Layer(
        outline("20,66 22,48 32,50 38,26 48,40 56,18 64,42 74,32 80,66 66,90 34,90"), (255, 142, 30)
    ),
    Layer(disc(0.5, 0.68, 0.19), (255, 232, 110)),
    Layer(both_sides(polygon((0.28, 0.5), (0.45, 0.6), (0.3, 0.66))), INK),
)
ICE_ELEMENTAL = (
    Layer(
        union(
            polygon((0.5, -0.02), (0.8, 0.3), (0.72, 0.98), (0.28, 0.98), (0.2, 0.3)),
            both_sides(polygon((0.02, 0.3), (0.24, 0.44), (0.22, 0.84), (0.06, 0.66))),
        ),
        (22, 74, 150),
    ),
    Layer(
        union(
            polygon((0.5, 0.06), (0.74, 0.33), (0.67, 0.92), (0.33, 0.92), (0.26, 0.33)),
            both_sides(polygon((0.06, 0.38), (0.18, 0.47), (0.17, 0.72), (0.1, 0.64))),
        ),
        (96, 190, 244),
    ),
    Layer(polygon((0.5, 0.06), (0.5, 0.92), (0.33, 0.92), (0.26, 0.33)), (190, 236, 255)),
    Layer(both_sides(polygon((0.3, 0.36), (0.46, 0.46), (0.32, 0.52))), (14, 30, 90)),
)
BAT = (
    Layer(
        outline(
            "50,50 30,22 0,14 6,40 2,70 20,60 32,74 50,62 68,74 80,60 98,70 94,40 100,14 70,22"
        ),
        (60, 42, 76),
    ),
    Layer(
        both_sides(union(line(0.34, 0.32, 0.1, 0.22, 0.05), line(0.34, 0.4, 0.2, 0.56, 0.04))),
        (130, 92, 150),
    ),
    Layer(both_sides(polygon((0.34, 0.36), (0.36, 0.1), (0.5, 0.28))), INK),
    Layer(union(disc(0.5, 0.42, 0.19), disc(0.5, 0.62, 0.15)), INK),
    Layer(union(disc(0.5, 0.42, 0.15), disc(0.5, 0.62, 0.11)), (112, 78, 92)),
    Layer(dots(0.05, (0.43, 0.4), (0.57, 0.4)), (255, 74, 66)),
    Layer(both_sides(polygon((0.43, 0.5), (0.49, 0.5), (0.46, 0.6))), WHITE),
)
SNAIL = (
    Layer(union(block(0.04, 0.68, 0.98, 0.92, 0.1), block(0.04, 0.36, 0.26, 0.9, 0.08)), INK),
    Layer(
        union(block(0.08, 0.72, 0.94, 0.88, 0.07), block(0.08, 0.4, 0.22, 0.86, 0.06)),
        (232, 206, 140),
    ),
    Layer(union(line(0.1, 0.42, 0.04, 0.2, 0.05), line(0.19, 0.42, 0.26, 0.2, 0.05)), INK),
    Layer(dots(0.06, (0.05, 0.18), (0.26, 0.18)), WHITE),
    Layer(dots(0.03, (0.05, 0.18), (0.26, 0.18)), INK),
    Layer(disc(0.6, 0.5, 0.36), INK),
    Layer(disc(0.6, 0.5, 0.32), (206, 104, 96)),
    Layer(minus(disc(0.6, 0.52, 0.23), disc(0.6, 0.52, 0.17)), (132, 52, 62)),
    Layer(disc(0.6, 0.52, 0.09), (132, 52, 62)),
    Layer(disc(0.5, 0.36, 0.07), (246, 172, 150)),
)
