"""What the panel shows of a Craft world: body, belongings, the hour, what was achieved."""

import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pygame

from ..craft import CraftClassic, World, sprites
from .pen import CARD, CUT, DIM, GOOD, INK, MUTED, RGB, TEXT, Pen, surface_of, write
from .session import NO_ACTION, Session

HEIGHT = 390  # pixels
ICON, CELL = 20, 47  # pixels of an icon, and from one thing of the inventory to the next
VITAL_COLOURS = {
    "health": (228, 72, 82),
    "food": (214, 132, 70),
    "drink": (84, 158, 240),
    "energy": (246, 208, 72),
}
NOON, DIAL = 0.2, 21  # share of the day at which it is lightest; pixels, radius of the clock
SKY, DARK, SUN, MOON = (120, 186, 244), (38, 42, 84), (255, 214, 92), (224, 228, 240)


def draw(pen: Pen, session: Session, board: int) -> None:
    """Draw the part of the panel that is about Craft."""
    env, state = session.env, session.state(board)
    assert isinstance(env, CraftClassic)
    world, light = _reader(env)(state)
    pen.space(6)
    _draw_vitals(pen, env, world)
    _draw_inventory(pen, env, world)
    day = float(np.asarray(env.default_params.day_length))
    _draw_clock(pen, int(state.time) / day, float(light), bool(world.sleeping))
    _draw_achievements(pen, session, board)


@functools.lru_cache(maxsize=8)
def _reader(env: CraftClassic) -> Callable[[Any], tuple[World, jax.Array]]:
    read = jax.jit(lambda state: (env.world(state), env.light(state)))
    return lambda state: jax.device_get(read(state))


@functools.lru_cache(maxsize=128)
def _icon(name: str, size: int, dim: bool) -> pygame.Surface:
    picture = sprites.icon(name, size, CARD)
    if dim:
        picture = picture // 4 + np.array(CARD, np.uint8) // 4 * 3
    return surface_of(picture)


def _draw_vitals(pen: Pen, env: CraftClassic, world: World) -> None:
    """Four bars, two in a row, a segment for each point."""
    best, width = env.rules.best, (pen.right - pen.left) // 2
    for i, (name, colour) in enumerate(VITAL_COLOURS.items()):
        left, top = pen.left + i % 2 * width, pen.top + i // 2 * 26
        pen.surface.blit(_icon(name, ICON, False), (left, top))
        value = int(world.vitals[name])
        for point in range(best):
            rect = pygame.Rect(left + 26 + point * 11, top + 4, 9, 12)
            filled = colour if point < value else INK
            pygame.draw.rect(pen.surface, filled, rect, border_radius=2)
    pen.space(58)


def _draw_inventory(pen: Pen, env: CraftClassic, world: World) -> None:
    """Every thing with its count; what there is none of is dim."""
    for i, name in enumerate(env.rules.items):
        left, top = pen.left + i % 6 * CELL, pen.top + i // 6 * 32
        count = int(world.items[name])
        pen.surface.blit(_icon(name, 24, count == 0), (left, top))
        colour = TEXT if count else DIM
        write(pen.surface, f"{count}", (left + 27, top + 6), colour, 15)
    pen.space(70)


def _draw_clock(pen: Pen, days: float, light: float, sleeping: bool) -> None:
    """A dial whose hand points up at noon, and the hour in words."""
    middle = (pen.left + DIAL, pen.top + DIAL)
    pygame.draw.circle(pen.surface, DARK, middle, DIAL)
    pygame.draw.circle(pen.surface, SKY, middle, DIAL, draw_top_left=True, draw_top_right=True)
    angle = 2 * math.pi * (days % 1 - NOON)
    at = (middle[0] + 13 * math.sin(angle), middle[1] - 13 * math.cos(angle))
    pygame.draw.circle(pen.surface, SUN if math.cos(angle) > 0 else MOON, at, 6)
    name = f"day {int(days) + 1}, {_hour(days % 1, light)}" + (", asleep" if sleeping else "")
    write(pen.surface, name, (pen.left + 2 * DIAL + 12, pen.top + 5), TEXT, 15)
    write(pen.surface, f"light {light:.0%}", (pen.left + 2 * DIAL + 12, pen.top + 24), MUTED, 14)
    pen.space(2 * DIAL + 10)


def _hour(share: float, light: float) -> str:
    """Name the hour of a day."""
    falls = NOON < share < NOON + 0.5
    if light > 0.75:
        return "afternoon" if falls else "morning"
    if light < 0.3:
        return "night"
    return "dusk" if falls else "dawn"


def _draw_achievements(pen: Pen, session: Session, board: int) -> None:
    """All achievements in two columns: done, done just now, or not yet."""
    earned = session.now.earned[board]
    before = session.history[max(0, session.cursor - 1)].earned[board]
    just = earned & ~before & (session.now.action[board] != NO_ACTION)
    pen.label(f"achievements {int(earned.sum())} of {len(earned)}")
    rows, width = -(-len(earned) // 2), (pen.right - pen.left) // 2
    for i, name in enumerate(session.achievements):
        left, top = pen.left + i // rows * width, pen.top + i % rows * 16
        colour = CUT if just[i] else GOOD if earned[i] else DIM
        _draw_tick(pen.surface, (left, top + 1), colour, bool(earned[i]))
        write(
            pen.surface,
            name.replace("_", " "),
            (left + 16, top),
            colour if earned[i] else MUTED,
            12,
        )
    pen.space(rows * 16 + 6)


def _draw_tick(surface: pygame.Surface, at: tuple[int, int], colour: RGB, done: bool) -> None:
    box = pygame.Rect(*at, 11, 11)
    pygame.draw.rect(surface, colour, box, 0 if done else 1, 3)
    if done:
        points = [(at[0] + 2, at[1] + 5), (at[0] + 4, at[1] + 8), (at[0] + 8, at[1] + 3)]
        pygame.draw.lines(surface, INK, False, points, 2)
