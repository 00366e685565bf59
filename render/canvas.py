"""A surface measured in points, so that words and shapes grow with the window; boards do not."""

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
FACE = 1.35  # pixels of pygame's own face for each point
FINE = 8  # words are drawn at this multiple of their size, see `_written`
SMALLEST = 6  # pixels of the face


@functools.lru_cache(maxsize=64)
def _font(fine: int) -> pygame.font.Font:
    return pygame.font.Font(None, fine)


@functools.lru_cache(maxsize=1024)
def _written(words: str, fine: int, colour: RGB) -> pygame.Surface:
    """Return a line drawn `FINE` times as large and averaged down to its size.

    At its size, pygame would move each letter to a whole pixel, and small words would fall apart.
    The line below the letters is at a whole pixel.
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
    """Return a picture, uint8 (height, width, 3), as a surface."""
    height, width, _ = picture.shape
    return pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")


class Canvas:
    """Draws on a surface; a point, of positions and of the height of words, is `scale` pixels."""

    def __init__(self, surface: pygame.Surface, scale: float = 1.0) -> None:
        self.surface, self.scale = surface, scale

    def pixels(self, points: float) -> int:
        """Return the pixels of a length."""
        return round(points * self.scale)

    def points(self, pixels: float) -> float:
        """Return the points of a length."""
        return pixels / self.scale

    def rect(self, colour: RGB, rect: Rect, width: float = 0, radius: float = 0) -> None:
        """Draw a rectangle (left, top, width, height): its outline, or all of it with width 0."""
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
        """Draw lines from point to point."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.lines(self.surface, colour, False, at, max(1, self.pixels(width)))

    def polygon(self, colour: RGB, *points: Point) -> None:
        """Fill a polygon."""
        at = [(self.pixels(x), self.pixels(y)) for x, y in points]
        pygame.draw.polygon(self.surface, colour, at)

    def blit(self, picture: pygame.Surface, at: Point) -> None:
        """Put a picture, which has its size in pixels, at its top left corner."""
        self.surface.blit(picture, (self.pixels(at[0]), self.pixels(at[1])))

    def write(self, words: str, at: Point, colour: RGB, size: float, right: bool = False) -> float:
        """Write a line; `at` is its top left corner, or its top right one. Return its right end."""
        image = _written(words, self._fine(size), colour)
        left = self.pixels(at[0]) - (image.get_width() if right else 0)
        self.surface.blit(image, (left, self.pixels(at[1])))
        return self.points(left) + self.width(words, size)

    def width(self, words: str, size: float) -> float:
        """Return how wide a line is."""
        return self.points(_font(self._fine(size)).size(words)[0] / FINE)

    def wrapped(self, words: str, size: float, width: float) -> list[str]:
        """Break words into lines of at most a width."""
        lines = [""]
        for word in words.split():
            longer = f"{lines[-1]} {word}".strip()
            if not lines[-1] or self.width(longer, size) <= width:
                lines[-1] = longer
            else:
                lines.append(word)
        return lines

    def _fine(self, size: float) -> int:
        """Pixels of the face that words are drawn with, see `_written`."""
        return round(FINE * max(SMALLEST, size * FACE * self.scale))
