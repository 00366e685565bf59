"""What the window shows while nothing else can be drawn: a word, a spinner, the last picture."""

import functools
import math
import time

import pygame

from .pen import ACCENT, CARD, INK, LINE, TEXT, font, write

DOTS = 10  # of the spinner
TURN = 1.2  # seconds of a turn of it
ICON = 64  # pixels


def draw(surface: pygame.Surface, picture: pygame.Surface | None, word: str) -> None:
    """Draw the word with a spinner: over the picture in a corner, or alone in the middle."""
    if picture is None:
        surface.fill(INK)
        middle = surface.get_rect().center
        _draw_spinner(surface, middle, 26)
        write(surface, word, (middle[0] - font(19).size(word)[0] // 2, middle[1] + 48), TEXT, 19)
        return
    surface.blit(stretched(picture, surface.get_size()), (0, 0))
    chip = pygame.Rect(10, 10, font(15).size(word)[0] + 52, 32)
    pygame.draw.rect(surface, CARD, chip, border_radius=16)
    pygame.draw.rect(surface, LINE, chip, 1, 16)
    _draw_spinner(surface, (chip.left + 18, chip.centery), 8)
    write(surface, word, (chip.left + 36, chip.top + 8), TEXT, 15)


def stretched(picture: pygame.Surface, size: tuple[int, int]) -> pygame.Surface:
    """Return a picture at the size of the window."""
    return picture if picture.get_size() == size else pygame.transform.smoothscale(picture, size)


def _draw_spinner(surface: pygame.Surface, middle: tuple[int, int], radius: int) -> None:
    """Dots on a circle; the brightest goes around."""
    ahead = time.monotonic() / TURN % 1
    for dot in range(DOTS):
        angle = 2 * math.pi * dot / DOTS
        at = (middle[0] + radius * math.sin(angle), middle[1] - radius * math.cos(angle))
        age = (ahead - dot / DOTS) % 1
        colour = pygame.Color(*ACCENT).lerp(pygame.Color(*LINE), age)
        pygame.draw.circle(surface, colour, at, max(2, radius // 5))


@functools.cache
def icon() -> pygame.Surface:
    """Return the icon of the window: the agent of a grid, before its goal."""
    big = pygame.Surface((4 * ICON, 4 * ICON), pygame.SRCALPHA)
    unit = ICON // 2  # an eighth of a side
    pygame.draw.rect(big, INK, big.get_rect(), border_radius=unit)
    for row in range(3):
        for column in range(3):
            cell = pygame.Rect(unit + 2 * column * unit, unit + 2 * row * unit, 2 * unit, 2 * unit)
            is_goal = (row, column) == (1, 2)
            pygame.draw.rect(big, (86, 196, 118) if is_goal else CARD, cell.inflate(-6, -6), 0, 8)
    body = [(1.4, 2.5), (1.4, 5.5), (5, 4)]
    pygame.draw.polygon(big, (236, 92, 84), [(x * unit, y * unit) for x, y in body])
    return pygame.transform.smoothscale(big, (ICON, ICON))
