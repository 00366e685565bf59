"""Writing on surfaces: colours, lines of text, and a panel from top to bottom."""

import functools

import numpy as np
import pygame

from . import frames

RGB = tuple[int, int, int]
INK, CARD, LINE = frames.BACKGROUND, (26, 28, 38), (48, 52, 66)
TEXT, MUTED, DIM, ACCENT = (236, 234, 226), (146, 152, 168), (92, 99, 120), (110, 170, 255)
GOOD, BAD, CUT = (86, 196, 118), (236, 92, 84), (246, 190, 62)
MARGIN = 14  # pixels around what is in a panel


@functools.lru_cache(maxsize=16)
def font(size: int) -> pygame.font.Font:
    """Return pygame's own face at a size in pixels."""
    return pygame.font.Font(None, round(size * 1.35))


def write(
    surface: pygame.Surface,
    words: str,
    at: tuple[int, int],
    colour: RGB,
    size: int,
    right: bool = False,
) -> int:
    """Write one line; `at` is its top left corner, or its top right one. Return its right end."""
    image = font(size).render(words, True, colour)
    left = at[0] - image.get_width() if right else at[0]
    surface.blit(image, (left, at[1]))
    return left + image.get_width()


def wrapped(words: str, face: pygame.font.Font, width: int) -> list[str]:
    """Break words into lines."""
    lines = [""]
    for word in words.split():
        longer = f"{lines[-1]} {word}".strip()
        if face.size(longer)[0] <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def surface_of(picture: np.ndarray) -> pygame.Surface:
    """Return a picture, uint8 (height, width, 3), as a surface."""
    height, width, _ = picture.shape
    return pygame.image.frombuffer(np.ascontiguousarray(picture).tobytes(), (width, height), "RGB")


class Pen:
    """Writes down a panel from top to bottom."""

    def __init__(self, surface: pygame.Surface, rect: pygame.Rect) -> None:
        self.surface, self.rect = surface, rect
        self.left, self.right = rect.left + MARGIN, rect.right - MARGIN
        self.top = rect.top + MARGIN

    def space(self, height: int) -> None:
        self.top += height

    def label(self, text: str) -> None:
        write(self.surface, text, (self.left, self.top), MUTED, 14)
        self.top += 20

    def row(self, name: str, value: str) -> None:
        write(self.surface, name, (self.left, self.top), MUTED, 15)
        write(self.surface, value, (self.right, self.top), TEXT, 15, right=True)
        self.top += 21

    def paragraph(self, text: str, colour: RGB, size: int) -> None:
        for line in wrapped(text, font(size), self.right - self.left):
            write(self.surface, line, (self.left, self.top), colour, size)
            self.top += size + 4
        self.top += 2

    def chip(self, text: str, colour: RGB) -> None:
        width = font(14).size(text)[0]
        rect = pygame.Rect(self.left, self.top, width + 18, 22)
        pygame.draw.rect(self.surface, colour, rect, border_radius=11)
        write(self.surface, text, (rect.left + 9, rect.top + 4), INK, 14)
        self.top += 32

    def bar(self, name: str, share: float, colour: RGB) -> None:
        write(self.surface, name, (self.left, self.top), TEXT, 14)
        track = pygame.Rect(self.left + 72, self.top + 1, self.right - self.left - 116, 12)
        pygame.draw.rect(self.surface, INK, track, border_radius=3)
        filled = track.copy()
        filled.width = round(track.width * share)
        pygame.draw.rect(self.surface, colour, filled, border_radius=3)
        write(self.surface, f"{share:.0%}", (self.right, self.top), MUTED, 14, right=True)
        self.top += 19

    def footer(self, text: str, colour: RGB) -> None:
        lines = wrapped(text, font(14), self.right - self.left)
        top = self.rect.bottom - 18 * len(lines) - 6
        for i, line in enumerate(lines):
            write(self.surface, line, (self.left, top + 18 * i), colour, 14)
