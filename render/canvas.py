"""A drawing surface with lengths in points, so that text and shapes scale with the window."""

import functools

import numpy as np
import pygame

from . import frames

RGB = tuple[int, int, int]
Point = tuple[float, float]
Rect = pygame.Rect | tuple[float, float, float, float]  # left, top, width, height
INK, CARD, LINE = frames.BACKGROUND, (26, 28, 38), (48, 52, 66)
TEXT, MUTED, DIM, ACCENT = (236, 234, 226), (146, 152, 168), (92, 99, 120), (110, 170, 255)
GOOD, BAD, CUT = (86, 196, 118), (236, 92, 84), (246, 190, 62)
FACE = 1.35  # size of pygame's default font, in pixels per point of text height
FINE = 8  # text is rendered at this multiple of its size, see `_written`
SMALLEST = 6  # smallest font size, in pixels


@functools.lru_cache(maxsize=64)
def _font(fine: int) -> pygame.font.Font:
    return pygame.font.Font(None, fine)


@functools.lru_cache(maxsize=1024)
def _written(words: str, fine: int, colour: RGB) -> pygame.Surface:
    """Render a line of text at `FINE` times its size and scale it down.

    At its final size pygame would round each letter to a whole pixel, which spaces small text
    unevenly. The baseline stays on a whole pixel.
    """
    font = _font(fine)
    width, height = font.size(words)
    low = -font.get_ascent() % FINE
    size = (-(-max(1, width) // FINE), -(-(height + low) // FINE))
    large = pygame.Surface((size[0] * FINE, size[1] * FINE), pygame.SRCALPHA)
    large.fill((*colour, 0))
    large.blit(font.render(words, True, colour), (0, low))
    return pygame.transform.smoothscale(large, size)


def surface_of(picture: np.ndarray) -> pygame.Surface:
    """Convert a picture, uint8 (height, width, 3), to a surface."""
    height, width, _ = picture.shape
    return pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")


class Canvas:
    """Draws on a surface; positions and text heights are in points of `scale` pixels."""

    def __init__(self, surface: pygame.Surface, scale: float = 1.0) -> None:
        self.surface, self.scale = surface, scale

    def pixels(self, points: float) -> int:
        """Convert a length from points to pixels."""
        return round(points * self.scale)

    def points(self, pixels: float) -> float:
        """Convert a length from pixels to points."""
        return pixels / self.scale

    def rect(self, colour: RGB, rect: Rect, width: float = 0, radius: float = 0) -> None:
        """Draw the outline of a rectangle (left, top, width, height); `width` 0 fills it."""
        left, top = self.pixels(rect[0]), self.pixels(rect[1])
        right, bottom = self.pixels(rect[0] + rect[2]), self.pixels(rect[1] + rect[3])
        shape = pygame.Rect(left, top, right - left, bottom - top)
        line = max(1, self.pixels(width)) if width else 0
        pygame.draw.rect(self.surface, colour, shape, line, self.pixels(radius))

    def disc(self, colour: RGB, at: Point, radius: float, upper_half: bool = False) -> None:
        """Draw a disc, or its upper half."""
        middle = (self.pixels(at[0]), self.pixels(at[1]))
        half = {"draw_top_left": True, "draw_top_right": True} if upper_half else {}
        pygame.draw.circle(self.surface, colour, middle, self.pixels(radius), **half)

    def line(self, colour: RGB, *points: Point, width: float = 1) -> None:
        """Connect points by lines."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.lines(self.surface, colour, False, at, max(1, self.pixels(width)))

    def polygon(self, colour: RGB, *points: Point) -> None:
        """Fill a polygon."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.polygon(self.surface, colour, at)

    def blit(self, picture: pygame.Surface, at: Point) -> None:
        """Copy a picture; `at` (points) is its top left corner. The picture is not scaled."""
        self.surface.blit(picture, (self.pixels(at[0]), self.pixels(at[1])))

    def write(self, words: str, at: Point, colour: RGB, size: float, right: bool = False) -> float:
        """Write a line with its top left (or right) corner at `at`; return its right end."""
        image = _written(words, self._fine(size), colour)
        left = self.pixels(at[0]) - (image.get_width() if right else 0)
        self.surface.blit(image, (left, self.pixels(at[1])))
        return self.points(left) + self.width(words, size)

    def width(self, words: str, size: float) -> float:
        """Return the width of a line in points."""
        return self.points(_font(self._fine(size)).size(words)[0] / FINE)

    def wrapped(self, words: str, size: float, width: float) -> list[str]:
        """Break text into lines of at most `width` points."""
        lines = [""]
        for word in words.split():
            longer = f"{lines[-1]} {word}".strip()
            if not lines[-1] or self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def _fine(self, size: float) -> int:
        """Return the font size in pixels at which text is rendered, see `_written`."""
        return round(FINE * max(SMALLEST, size * FACE * self.scale))
