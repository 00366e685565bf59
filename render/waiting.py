"""The busy screen of the window: a word, such as "compiling", and a spinner of rotating dots."""

import functools
import math
import time

import pygame

from .canvas import ACCENT, CARD, INK, LINE, TEXT, Canvas

DOTS = 10  # number of dots of the spinner
TURN = 1.2  # time of one turn of the spinner, in seconds
ICON = 64  # side of the window's icon, in pixels


def draw(surface: pygame.Surface, picture: pygame.Surface | None, word: str) -> None:
    """Draw `word` and a spinner on `surface`.

    They appear over a corner of `picture`, or in the centre of the surface if `picture` is None.
    """
    width, height = surface.get_size()
    canvas = Canvas(surface, max(0.7, min(width / 880, height / 620)))
    if picture is None:
        surface.fill(INK)
        middle = (canvas.points(width / 2), canvas.points(height / 2))
        _draw_spinner(canvas, middle, 26)
        canvas.write(word, (middle[0] - canvas.width(word, 19) / 2, middle[1] + 48), TEXT, 19)
        return
    surface.blit(stretched(picture, surface.get_size()), (0, 0))
    chip = (10, 10, canvas.width(word, 15) + 52, 32)
    canvas.rect(CARD, chip, radius=16)
    canvas.rect(LINE, chip, 1, 16)
    _draw_spinner(canvas, (28, 26), 8)
    canvas.write(word, (46, 18), TEXT, 15)


def stretched(picture: pygame.Surface, size: tuple[int, int]) -> pygame.Surface:
    """Return a picture scaled to `size` (width, height), the size of the window."""
    return picture if picture.get_size() == size else pygame.transform.smoothscale(picture, size)


def _draw_spinner(canvas: Canvas, middle: tuple[float, float], radius: float) -> None:
    """Draw dots on a circle; the brightest dot moves around the circle with time."""
    ahead = time.monotonic() / TURN % 1
    for dot in range(DOTS):
        angle = 2 * math.pi * dot / DOTS
        at = (middle[0] + radius * math.sin(angle), middle[1] - radius * math.cos(angle))
        age = (ahead - dot / DOTS) % 1
        red, green, blue, _ = pygame.Color(*ACCENT).lerp(pygame.Color(*LINE), age)
        canvas.disc((red, green, blue), at, max(1.5, radius / 5))


@functools.cache
def icon() -> pygame.Surface:
    """Return the icon of the window: the agent of a grid world in front of a goal."""
    big = pygame.Surface((4 * ICON, 4 * ICON), pygame.SRCALPHA)
    # Draw the icon at four times its size, and then scale it down. The unit of length, in pixels,
    # is an eighth of the large icon's side.
    unit = ICON // 2
    pygame.draw.rect(big, INK, big.get_rect(), border_radius=unit)
    for row in range(3):
        for column in range(3):
            cell = pygame.Rect(unit + 2 * column * unit, unit + 2 * row * unit, 2 * unit, 2 * unit)
            is_goal = (row, column) == (1, 2)
            pygame.draw.rect(big, (86, 196, 118) if is_goal else CARD, cell.inflate(-6, -6), 0, 8)
    body = [(1.4, 2.5), (1.4, 5.5), (5, 4)]
    pygame.draw.polygon(big, (236, 92, 84), [(x * unit, y * unit) for x, y in body])
    return pygame.transform.smoothscale(big, (ICON, ICON))
