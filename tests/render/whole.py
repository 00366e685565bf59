"""Helper of tests: check that a window shows everything at a sufficient size."""

from jaxenvs.render import panel, screen
from jaxenvs.render.controls import Controller
from jaxenvs.render.pen import MARGIN

NARROW = (500, 900)
SIZES = [(500, 900), (760, 520), (800, 600), (930, 640), (1400, 900), (2350, 1620), (3840, 2160)]


def assert_whole(controller: Controller, size: tuple[int, int]) -> screen.Layout:
    """Assert that a window of `size` shows everything, and return its layout.

    All blocks of the panel must fit; boards must not overlap the panel or the history bar. The
    boards together must be at least 0.35 times as wide and high as the window's shorter side.
    """
    where = screen.layout(controller, size)
    blocks, scale = panel.heights(controller), where.scale
    places = panel.columns(blocks, where.panel.height / scale - MARGIN - panel.FOOTER)
    low = max(top + block for (_, top), block in zip(places, blocks, strict=True))
    assert (MARGIN + low + panel.FOOTER) * scale <= where.panel.height + 1
    assert (places[-1][0] + 1) * panel.WIDTH * scale <= where.panel.width + 1
    window = where.panel.unionall([where.bar, *where.boards])
    assert window.left >= 0 <= window.top and window.right <= size[0] and window.bottom <= size[1]
    for rect in where.boards:
        assert not rect.colliderect(where.panel) and not rect.colliderect(where.bar)
    assert min(where.whole.size) >= 0.35 * min(size)
    return where
