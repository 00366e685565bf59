"""The history bar at the bottom of the viewer, whose length stands for all stored time steps.

A disc marks the displayed time step; everything before it is coloured.
If a single environment is shown, grey lines mark the time steps where its episodes begin, and
yellow triangles mark the time steps where it earned achievements.
"""

import numpy as np
import pygame

from .canvas import ACCENT, CUT, INK, LINE, MUTED, TEXT, Canvas
from .controls import Controller
from .session import NO_ACTION, Session

# An achievement's label is shown if the mouse is within this distance of its mark, in points.
NEAR = 7


def draw(canvas: Canvas, controller: Controller, bar: pygame.Rect) -> None:
    """Draw the history bar with its marks into the rectangle `bar`, in points."""
    session = controller.session
    canvas.rect(LINE, bar, radius=4)
    here = _place(session, bar, session.cursor)
    canvas.rect(ACCENT, (bar.left, bar.top, here - bar.left, bar.height), radius=4)
    if controller.zoomed:
        for i, moment in enumerate(session.history):
            if moment.action[controller.selected] == NO_ACTION:
                x = _place(session, bar, i)
                canvas.line(MUTED, (x, bar.top - 3), (x, bar.bottom + 2))
    canvas.disc(TEXT, (here, bar.centery), 8)
    first = session.dropped
    words = f"moment {first + session.cursor} of {first + len(session.history) - 1}"
    canvas.write(words, (bar.left, bar.top - 22), MUTED, 14)
    if controller.zoomed:
        _draw_achievements(canvas, controller, bar)


def marks(session: Session, board: int) -> dict[int, list[str]]:
    """Return the achievements newly earned in environment `board`, by index into the history.

    An achievement is listed at the time step after the action that earned it for the first time in
    the episode.
    """
    names = session.env.achievements
    if not names:
        return {}
    earned = np.stack([moment.earned[board] for moment in session.history])
    new = earned[1:] & ~earned[:-1]
    found: dict[int, list[str]] = {}
    for index, number in np.argwhere(new):
        found.setdefault(int(index) + 1, []).append(names[number].replace("_", " "))
    return found


def _draw_achievements(canvas: Canvas, controller: Controller, bar: pygame.Rect) -> None:
    """Mark the time steps where achievements were earned, and label at most one of them.

    `_labelled` selects the time step. Its label lists the achievements that were earned there.
    """
    session = controller.session
    found = marks(session, controller.selected)
    for index in found:
        x = _place(session, bar, index)
        canvas.polygon(CUT, (x - 4, bar.top - 7), (x + 4, bar.top - 7), (x, bar.top))
        canvas.line(CUT, (x, bar.top), (x, bar.bottom))
    labelled = _labelled(session, controller.pointed, bar, found)
    if labelled is not None:
        _draw_label(canvas, bar, _place(session, bar, labelled), ", ".join(found[labelled]))


def _labelled(
    session: Session, pointed: float | None, bar: pygame.Rect, found: dict[int, list[str]]
) -> int | None:
    """Return the index of the time step whose achievements are written above the bar, or None.

    First choice: the marked time step nearest to the mouse, within `NEAR` points. Second choice:
    the displayed time step, if it is marked. `found`: achievements of each marked time step.
    """
    if pointed is not None and found:
        x = bar.left + pointed * bar.width
        nearest = min(found, key=lambda index: abs(_place(session, bar, index) - x))
        if abs(_place(session, bar, nearest) - x) <= NEAR:
            return nearest
    return session.cursor if session.cursor in found else None


def _draw_label(canvas: Canvas, bar: pygame.Rect, x: float, words: str) -> None:
    width = canvas.width(words, 14) + 14
    left = max(bar.left, min(x - width / 2, bar.right - width))
    canvas.rect(CUT, (left, bar.top - 30, width, 20), radius=6)
    canvas.write(words, (left + 7, bar.top - 27), INK, 14)


def _place(session: Session, bar: pygame.Rect, index: int) -> int:
    """Return the x coordinate, in points, of the time step with index `index` in the history."""
    return bar.left + round(bar.width * index / max(1, len(session.history) - 1))
