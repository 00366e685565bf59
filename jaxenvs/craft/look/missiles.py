"""Drawings of projectiles; each is drawn flying to the right, and turned for other directions."""

from ...core.paint import RGB, Layer, block, changed, disc, dots, minus, polygon, turned, union
from .blocks import INK, WHITE, outline

ARROW = (
    Layer(block(0.06, 0.42, 0.92, 0.58, 0.04), INK),
    Layer(block(0.1, 0.46, 0.8, 0.54), (188, 132, 74)),
    Layer(polygon((0.66, 0.28), (0.98, 0.5), (0.66, 0.72)), INK),
    Layer(polygon((0.72, 0.37), (0.91, 0.5), (0.72, 0.63)), (216, 222, 232)),
    Layer(
        union(
            polygon((0.04, 0.3), (0.2, 0.3), (0.32, 0.46), (0.14, 0.46)),
            polygon((0.04, 0.7), (0.2, 0.7), (0.32, 0.54), (0.14, 0.54)),
        ),
        (240, 236, 230),
    ),
)
ARROW2 = (
    Layer(block(0.02, 0.4, 0.9, 0.6, 0.04), INK),
    Layer(block(0.1, 0.45, 0.8, 0.55), (104, 66, 40)),
    Layer(polygon((0.58, 0.2), (1, 0.5), (0.58, 0.8), (0.68, 0.5)), INK),
    Layer(polygon((0.67, 0.31), (0.93, 0.5), (0.67, 0.69), (0.75, 0.5)), (255, 214, 86)),
    Layer(
        union(
            polygon((0, 0.24), (0.2, 0.24), (0.34, 0.46), (0.12, 0.46)),
            polygon((0, 0.76), (0.2, 0.76), (0.34, 0.54), (0.12, 0.54)),
        ),
        (222, 44, 52),
    ),
)
DAGGER = (
    Layer(polygon((0.4, 0.3), (0.76, 0.32), (1, 0.5), (0.76, 0.68), (0.4, 0.7)), INK),
    Layer(polygon((0.4, 0.37), (0.74, 0.38), (0.92, 0.5), (0.4, 0.5)), (246, 250, 255)),
    Layer(polygon((0.4, 0.5), (0.92, 0.5), (0.74, 0.62), (0.4, 0.63)), (164, 174, 192)),
    Layer(block(0, 0.38, 0.36, 0.62, 0.06), INK),
    Layer(block(0.04, 0.43, 0.36, 0.57, 0.04), (150, 62, 40)),
    Layer(block(0.3, 0.2, 0.42, 0.8, 0.04), (230, 178, 70)),
)


def _ball(rim: RGB, body: RGB, core: RGB, tail: Layer, radius: float = 0.28) -> tuple[Layer, ...]:
    """Return the drawing of a ball that flies to the right and has a tail."""
    middle = 0.96 - radius
    return (
        tail,
        Layer(disc(middle, 0.5, radius), rim),
        Layer(disc(middle, 0.5, radius - 0.07), body),
        Layer(disc(middle + 0.06, 0.46, radius - 0.17), core),
    )


TONGUES = union(
    polygon((0.66, 0.22), (0.24, 0.28), (0.4, 0.42)),
    polygon((0.66, 0.34), (0, 0.5), (0.66, 0.66)),
    polygon((0.66, 0.78), (0.24, 0.72), (0.4, 0.58)),
)
FIREBALL = _ball((222, 58, 22), (255, 150, 36), (255, 240, 150), Layer(TONGUES, (240, 104, 30)))
FIREBALL2 = _ball(
    (92, 12, 40),
    (226, 28, 60),
    (255, 190, 90),
    Layer(
        union(
            polygon((0.7, 0.12), (0.02, 0.1), (0.4, 0.36)),
            polygon((0.66, 0.3), (0.1, 0.5), (0.66, 0.7)),
            polygon((0.7, 0.88), (0.02, 0.9), (0.4, 0.64)),
        ),
        (150, 20, 60),
    ),
    0.37,
)
SHARDS = union(
    polygon((0.34, 0.5), (0.22, 0.42), (0.02, 0.5), (0.22, 0.58)),
    polygon((0.5, 0.26), (0.4, 0.18), (0.2, 0.22), (0.38, 0.3)),
    polygon((0.5, 0.74), (0.4, 0.7), (0.2, 0.78), (0.38, 0.82)),
)
ICEBALL = _ball((40, 110, 190), (140, 214, 250), WHITE, Layer(SHARDS, (96, 178, 236)))
ICEBALL2 = (
    Layer(SHARDS, (40, 60, 170)),
    Layer(
        outline("100,50 80,60 82,86 62,72 42,90 44,64 24,50 44,36 42,10 62,28 82,14 80,40"),
        (26, 40, 140),
    ),
    Layer(polygon((0.88, 0.5), (0.62, 0.72), (0.36, 0.5), (0.62, 0.28)), (92, 130, 255)),
    Layer(polygon((0.74, 0.46), (0.62, 0.56), (0.5, 0.46), (0.62, 0.36)), (226, 236, 255)),
)
SLIMEBALL = _ball(
    (28, 92, 30),
    (98, 200, 56),
    (214, 255, 150),
    Layer(
        union(
            minus(block(0.1, 0.38, 0.66, 0.62, 0.1), block(0, 0.47, 0.3, 0.53)),
            dots(0.07, (0.08, 0.34), (0.1, 0.68)),
        ),
        (60, 146, 44),
    ),
    0.31,
)

# Drawing of each projectile, by the projectile's name in `Rules.projectiles`.
PROJECTILES = {
    "arrow": ARROW,
    "dagger": DAGGER,
    "fireball": FIREBALL,
    "iceball": ICEBALL,
    "arrow2": ARROW2,
    "slimeball": SLIMEBALL,
    "fireball2": FIREBALL2,
    "iceball2": ICEBALL2,
}


def directions(name: str) -> list[tuple[Layer, ...]]:
    """Return the four drawings of a projectile that flies left, right, up and down."""
    layers = PROJECTILES[name]
    return [changed(layers, lambda shape, n=n: turned(shape, n)) for n in (2, 0, 3, 1)]
