"""The panel beside the boards: what happens, what the agent has, what the policy thinks."""

import functools
import math
from typing import Any

import jax
import numpy as np
import pygame

from ..core.env import Env
from . import facts, frames
from .controls import Controller
from .pen import ACCENT, BAD, CARD, CUT, DIM, GOOD, MUTED, RGB, TEXT, Pen, surface_of
from .session import NO_ACTION, Session, opinion

WIDTH, TALLEST, FOOTER = 312, 1200, 60  # pixels, of the panel
MOST_ACTIONS = 8  # whose probabilities are shown


def height(controller: Controller) -> int:
    """Pixels that the panel of a single board needs."""
    if not controller.zoomed:
        return 420
    return _board_height(controller)


@functools.lru_cache(maxsize=1)
def _board_height(controller: Controller) -> int:
    """Measure what is shown of a board when it is first asked for: a film has one size."""
    pygame.font.init()
    rect = pygame.Rect(0, 0, WIDTH, TALLEST)
    pen = Pen(pygame.Surface(rect.size), rect)
    pen.paragraph(controller.title, TEXT, 19)
    _board_panel(pen, controller)
    return min(TALLEST, pen.top + FOOTER)


def draw(surface: pygame.Surface, controller: Controller, rect: pygame.Rect) -> None:
    pygame.draw.rect(surface, CARD, rect)
    pen = Pen(surface, rect)
    surface.set_clip(rect.inflate(0, -48).move(0, -24))  # in a low window the footer stays legible
    pen.paragraph(controller.title, TEXT, 19)
    if controller.is_wall:
        _wall_panel(pen, controller)
    else:
        _board_panel(pen, controller)
    surface.set_clip(None)
    pen.footer(controller.notice or _hint(controller), ACCENT if controller.notice else MUTED)


def _hint(controller: Controller) -> str:
    if controller.mode == "watch":
        return "H keys \u00b7 Space pause \u00b7 Left, Right step"
    again = "R" if controller.is_wall else controller.new_level_key.upper()
    return f"H keys \u00b7 {again} new level \u00b7 Backspace undo"


def _wall_panel(pen: Pen, controller: Controller) -> None:
    session, now = controller.session, controller.session.now
    finished, total = int(now.finished.sum()), float(now.total.sum())
    pen.space(4)
    pen.chip(*_status(controller))
    pen.row("boards", f"{session.boards}")
    pen.row("actions by", session.pilot.name)
    pen.row("episodes finished", f"{finished}")
    pen.row("their mean return", f"{total / finished:.3f}" if finished else "-")
    pen.row("board", f"{controller.selected}")
    pen.space(6)
    pen.paragraph("Click a board, or Tab and Enter, to look at it.", MUTED, 15)


def _board_panel(pen: Pen, controller: Controller) -> None:
    session, now, board = controller.session, controller.session.now, controller.selected
    state = session.state(board)
    known = session.env.facts(state)
    facts.mission(pen, known)
    pen.space(4)
    pen.chip(*_status(controller))
    limit = int(np.asarray(session.env.time_limit(state, session.env.default_params)))
    action = int(now.action[board])
    pen.row("episode", f"{int(now.episode[board]) + 1}")
    pen.row("step", f"{int(state.time)} / {limit}")
    pen.row("last action", "-" if action == NO_ACTION else controller.actions[action].name)
    pen.row("reward", f"{float(now.reward[board]):.3f}")
    pen.row("return", f"{float(now.score[board]):.3f}")
    pen.space(6)
    facts.draw(pen, session.env, known)
    facts.achievements(pen, session, board)
    _draw_eyes(pen, session, board)
    if not session.pilot.is_random:
        _draw_opinion(pen, controller)


def _status(controller: Controller) -> tuple[str, RGB]:
    """What is going on, in one or two words, and its colour."""
    session, board = controller.session, controller.selected
    if controller.zoomed and session.is_over(board):
        ended = "time limit" if session.now.truncated[board] else "terminated"
        key = controller.new_level_key.upper()
        again = f" - {key}: next level" if session.human else ""
        return ended + again, end_colour(session, board) or TEXT
    if session.human:
        return "your move" if controller.mode == "play" else "your move - Space: go on", ACCENT
    if session.paused:
        return "paused", CUT
    return f"{session.pilot.name}, {session.speed:g} steps/s", GOOD


def _draw_eyes(pen: Pen, session: Session, board: int) -> None:
    """What the agent sees."""
    size = _view_tile_size(session.env)
    paint = frames.view_painter(session.env, size) if size else None
    if paint is None:
        return
    pen.space(6)
    pen.label("the agent sees")
    picture = paint(one_board(session, board))[0]
    pen.surface.blit(surface_of(picture), (pen.left, pen.top))
    pen.space(picture.shape[0] + 8)


@functools.lru_cache(maxsize=16)
def _view_tile_size(env: Env) -> int:
    """Tile size that makes the view about 140 pixels high; 0 where there is no view of tiles."""
    view_tiles = getattr(env, "view_tiles", None)
    if view_tiles is None:
        return 0
    return max(4, 144 // jax.eval_shape(view_tiles, env.state_shape).shape[0])


def _draw_opinion(pen: Pen, controller: Controller) -> None:
    """Bars of the action probabilities, and the value."""
    probabilities, value = opinion(controller.session, controller.selected)
    pen.row("value", f"{value:.3f}" if math.isfinite(value) else "-")
    pen.label("next action")
    likeliest = int(probabilities.argmax())
    shown = range(len(probabilities))
    if len(shown) > MOST_ACTIONS:
        shown = np.argsort(-probabilities, kind="stable")[:MOST_ACTIONS].tolist()
    for action in shown:
        colour = ACCENT if action == likeliest else DIM
        pen.bar(controller.actions[action].name, float(probabilities[action]), colour)


def end_colour(session: Session, board: int) -> RGB | None:
    """Green for a good end (a reward or a success), red for a bad one, yellow for the limit."""
    if bool(session.now.truncated[board]):
        return CUT
    if bool(session.now.terminated[board]):
        return GOOD if session.now.reward[board] > 0 or session.now.succeeded[board] else BAD
    return None


def one_board(session: Session, board: int) -> Any:
    """Return the state of one board, as a batch of one."""
    return jax.tree.map(lambda leaf: leaf[board : board + 1], session.now.state)
