"""Drawing of an environment's facts (values such as health) and achievements in the panel."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import pygame

from jaxenvs.core.env import Env
from jaxenvs.core.facts import Fact

from .canvas import ACCENT, CARD, CUT, DIM, GOOD, INK, MUTED, RGB, TEXT, Canvas, surface_of
from .pen import Pen
from .session import NO_ACTION, Session

# Number of columns of facts in the panel: for bars, and for counts with icons.
BARS, COUNTS = 2, 6
DIAL = 21  # radius of the dial that shows the time of day, in points
# Width of a segment of a bar, in points, and maximum number of segments of a bar.
SEGMENT, MOST_SEGMENTS = 11, 9
SKY, DARK, SUN, MOON = (120, 186, 244), (38, 42, 84), (255, 214, 92), (224, 228, 240)


def draw(pen: Pen, env: Env, facts: Sequence[Fact]) -> None:
    """Draw facts in order, each in the style of its `kind`, such as a bar or a count.

    Consecutive facts of equal kind are drawn by a single call, so that they can share a line.
    """
    for kind, group in itertools.groupby(facts, lambda fact: fact.kind):
        _DRAW[kind](pen, env, list(group))


def mission(pen: Pen, facts: Sequence[Fact], lit: Sequence[int]) -> None:
    """Write the facts that are sentences, such as the mission, one paragraph each.

    Highlights the facts whose index in `facts` is in `lit`.
    """
    for i, fact in enumerate(facts):
        if fact.kind == "sentence":
            pen.paragraph(fact.value, CUT if i in lit else MUTED, 15)


def achievements(pen: Pen, session: Session, board: int) -> None:
    """Draw all achievements in two columns, in one of three colours.

    The colours mean: earned by the latest action, earned earlier, not earned yet.
    """
    earned = session.now.earned[board]
    if not earned.size:
        return
    before = session.history[max(0, session.cursor - 1)].earned[board]
    just = earned & ~before & (session.now.action[board] != NO_ACTION)
    pen.label(f"achievements {int(earned.sum())} of {len(earned)}")
    rows, width = -(-len(earned) // 2), (pen.right - pen.left) // 2
    for i, name in enumerate(session.env.achievements):
        left, top = pen.left + i // rows * width, pen.top + i % rows * 16
        colour = CUT if just[i] else GOOD if earned[i] else DIM
        _draw_tick(pen.canvas, (left, top + 1), colour, bool(earned[i]))
        words = name.replace("_", " ")
        pen.canvas.write(words, (left + 16, top), colour if earned[i] else MUTED, 12)
    pen.space(rows * 16 + 6)


@functools.lru_cache(maxsize=128)
def icon(env: Env, name: str, size: int, dim: bool = False) -> pygame.Surface | None:
    """Return the environment's icon `name`, `size` pixels on a side; None if there is no such icon.

    dim: whether to blend the icon with the background, to show a count of 0.
    """
    picture = env.icon(name, size, CARD) if name else None
    if picture is None:
        return None
    if dim:
        picture = picture // 4 + np.array(CARD, np.uint8) // 4 * 3
    return surface_of(picture)


def _symbol(
    pen: Pen, env: Env, fact: Fact, size: int, at: tuple[float, float], dim: bool = False
) -> float:
    """Draw the icon of a fact, or write its label if the fact has no icon.

    Returns the x coordinate, in points, of the text or bar that follows.
    """
    drawn = icon(env, fact.icon, pen.canvas.pixels(size), dim)
    if drawn is None:
        return pen.canvas.write(fact.label, at, DIM if dim else MUTED, 14) + 6
    pen.canvas.blit(drawn, at)
    return at[0] + size + 6


def _bars(pen: Pen, env: Env, facts: list[Fact]) -> None:
    """Draw each fact as a bar: one segment per unit, or `MOST_SEGMENTS` segments for more units."""
    width = (pen.right - pen.left) // BARS
    for i, fact in enumerate(facts):
        at = (pen.left + i % BARS * width, pen.top + i // BARS * 26)
        left = _symbol(pen, env, fact, 20, at)
        points = fact.most if 0 < fact.most <= MOST_SEGMENTS else MOST_SEGMENTS
        filled = points * fact.amount / max(1, fact.most)
        for point in range(points):
            rect = (left + point * SEGMENT, at[1] + 4, SEGMENT - 2, 12)
            colour = (fact.colour or ACCENT) if point + 1 <= filled + 1e-6 else INK
            pen.canvas.rect(colour, rect, radius=2)
    pen.space(-(-len(facts) // BARS) * 26 + 6)


def _counts(pen: Pen, env: Env, facts: list[Fact]) -> None:
    """Draw each fact as an icon or label with a count; a count of 0 is drawn dim."""
    bare = any(icon(env, fact.icon, 24) is None for fact in facts)
    across = BARS if bare else COUNTS
    width = (pen.right - pen.left) // across
    for i, fact in enumerate(facts):
        at = (pen.left + i % across * width, pen.top + i // across * 32)
        left = _symbol(pen, env, fact, 24, at, fact.amount == 0) - 3
        colour = TEXT if fact.amount else DIM
        pen.canvas.write(fact.value, (left, at[1] if bare else at[1] + 6), colour, 15)
    pen.space(-(-len(facts) // across) * 32 + 6)


def _clocks(pen: Pen, env: Env, facts: list[Fact]) -> None:
    """Draw the time of day in words and as a dial with a sun (at the top at noon) or a moon."""
    for fact in facts:
        middle = (pen.left + DIAL, pen.top + DIAL)
        pen.canvas.disc(DARK, middle, DIAL)
        pen.canvas.disc(SKY, middle, DIAL, upper_half=True)
        angle = 2 * math.pi * fact.amount
        at = (middle[0] + 13 * math.sin(angle), middle[1] - 13 * math.cos(angle))
        pen.canvas.disc(SUN if math.cos(angle) > 0 else MOON, at, 6)
        pen.canvas.write(fact.value, (pen.left + 2 * DIAL + 12, pen.top + 14), TEXT, 15)
        pen.space(2 * DIAL + 8)


def _icons(pen: Pen, env: Env, facts: list[Fact]) -> None:
    """Draw each fact as a line with a label, a value and the value's icon."""
    for fact in facts:
        drawn = icon(env, fact.icon, pen.canvas.pixels(20))
        if drawn is not None:
            pen.canvas.blit(drawn, (pen.right - 20, pen.top))
        pen.canvas.write(fact.label, (pen.left, pen.top + 2), MUTED, 15)
        right = pen.right - (26 if drawn is not None else 0)
        pen.canvas.write(fact.value, (right, pen.top + 2), TEXT, 15, right=True)
        pen.space(24)


def _rows(pen: Pen, env: Env, facts: list[Fact]) -> None:
    for fact in facts:
        pen.row(fact.label, fact.value)


_DRAW: dict[str, Callable[[Pen, Env, list[Fact]], None]] = {
    "text": _rows,
    # Draws nothing: `mission` writes the facts that are sentences.
    "sentence": lambda pen, env, facts: None,
    "bar": _bars,
    "count": _counts,
    "clock": _clocks,
    "icon": _icons,
}


def _draw_tick(canvas: Canvas, at: tuple[float, float], colour: RGB, done: bool) -> None:
    canvas.rect(colour, (*at, 11, 11), 0 if done else 1, 3)
    if done:
        x, y = at
        canvas.line(INK, (x + 2, y + 5), (x + 4, y + 8), (x + 8, y + 3), width=2)
