"""Drawing of text and shapes with lengths in points, so that they scale with the window."""

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
# Ratio of the font size that is requested from pygame to the desired height of the text.
FACE = 1.35
# Supersampling factor: text is rendered at FINE times its size and then scaled down, so that its
# letters are evenly spaced.
FINE = 8
SMALLEST = 6  # smallest font size, in pixels


@functools.lru_cache(maxsize=64)
def _font(fine: int) -> pygame.font.Font:
    return pygame.font.Font(None, fine)


@functools.lru_cache(maxsize=1024)
def _written(words: str, fine: int, colour: RGB) -> pygame.Surface:
    """Return a line of text, rendered at `FINE` times its final size and scaled down.

    Rendering at the final size would space the letters unevenly, because pygame rounds the width
    of each letter to whole pixels. Padding at the top puts the baseline on a whole pixel.

    fine: font size in pixels before scaling down.
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
    """Return a pygame surface with an RGB picture, uint8 (height, width, 3)."""
    height, width, _ = picture.shape
    return pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")


class Canvas:
    """Draws on a surface, given positions and sizes in points; a point is `scale` pixels."""

    def __init__(self, surface: pygame.Surface, scale: float = 1.0) -> None:
        self.surface, self.scale = surface, scale

    def pixels(self, points: float) -> int:
        """Convert a length from points to pixels."""
        return round(points * self.scale)

    def points(self, pixels: float) -> float:
        """Convert a length from pixels to points."""
        return pixels / self.scale

    def rect(self, colour: RGB, rect: Rect, width: float = 0, radius: float = 0) -> None:
        """Draw a rectangle: its outline, `width` points wide, or filled if `width` is 0."""
        left, top = self.pixels(rect[0]), self.pixels(rect[1])
        right, bottom = self.pixels(rect[0] + rect[2]), self.pixels(rect[1] + rect[3])
        shape = pygame.Rect(left, top, right - left, bottom - top)
        line = max(1, self.pixels(width)) if width else 0
        pygame.draw.rect(self.surface, colour, shape, line, self.pixels(radius))

    def disc(self, colour: RGB, at: Point, radius: float, upper_half: bool = False) -> None:
        """Draw a filled circle, or only its upper half, around the point `at`."""
        middle = (self.pixels(at[0]), self.pixels(at[1]))
        half = {"draw_top_left": True, "draw_top_right": True} if upper_half else {}
        pygame.draw.circle(self.surface, colour, middle, self.pixels(radius), **half)

    def line(self, colour: RGB, *points: Point, width: float = 1) -> None:
        """Draw straight lines from each point to the next one."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.lines(self.surface, colour, False, at, max(1, self.pixels(width)))

    def polygon(self, colour: RGB, *points: Point) -> None:
        """Draw a filled polygon with the given corners."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.polygon(self.surface, colour, at)

    def blit(self, picture: pygame.Surface, at: Point) -> None:
        """Copy a picture without scaling, with its top left corner at `at` (points)."""
        self.surface.blit(picture, (self.pixels(at[0]), self.pixels(at[1])))

    def write(self, words: str, at: Point, colour: RGB, size: float, right: bool = False) -> float:
        """Write a line of text, and return the x coordinate of its right end, in points.

        `at` is the top left corner of the text, or its top right corner if `right` is True.
        """
        image = _written(words, self._fine(size), colour)
        left = self.pixels(at[0]) - (image.get_width() if right else 0)
        self.surface.blit(image, (left, self.pixels(at[1])))
        return self.points(left) + self.width(words, size)

    def width(self, words: str, size: float) -> float:
        """Return the width of a line of text, in points."""
        return self.points(_font(self._fine(size)).size(words)[0] / FINE)

    def wrapped(self, words: str, size: float, width: float) -> list[str]:
        """Return text broken into lines, each at most `width` points wide."""
        lines = [""]
        for word in words.split():
            longer = f"{lines[-1]} {word}".strip()
            if not lines[-1] or self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def _fine(self, size: float) -> int:
        """Return the font size, in pixels, at which `_written` renders text before scaling down."""
        return round(FINE * max(SMALLEST, size * FACE * self.scale))
