"""The panel next to the pictures of the environments in a viewer.

The panel shows the progress of the episode, facts of the environment, the agent's view and the
outputs of the policy.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import numpy as np
import pygame

from jaxenvs.core.spaces import Discrete

from . import facts, frames
from .canvas import ACCENT, BAD, CARD, CUT, DIM, GOOD, MUTED, RGB, TEXT, Canvas, surface_of
from .controls import Controller
from .pen import MARGIN, Pen
from .session import Session, action_name, board_moment, policy_output

# Width of a column of the panel, and maximum total height of the panel's blocks, in points.
WIDTH, TALLEST = 312, 1200
FOOTER = 48  # height of the hint at the bottom of the panel, in points
# Tolerance, in points, for the total height of the blocks in a column: their heights are rounded.
ROUNDING = 1
VIEW = 144  # maximum height of the agent's view, in points
MOST_ACTIONS = 8  # maximum number of actions whose probabilities are shown


def heights(controller: Controller) -> tuple[float, ...]:
    """Return the heights of the panel's blocks, in points.

    A block is a group of lines that stays in one column. The heights are computed once per
    controller, so that all frames of an animation have the same layout.
    """
    return _heights(controller, controller.is_wall)


@functools.lru_cache(maxsize=8)
def _heights(controller: Controller, is_wall: bool) -> tuple[float, ...]:
    """Compute the result of `heights`, and cache it for each pair of arguments.

    The heights depend on `is_wall`: the panel has other blocks if all environments are shown.
    """
    pygame.font.init()
    _, ends = _column(controller, 1.0)
    return tuple(end - start for start, end in itertools.pairwise(ends))


def columns(blocks: Sequence[float], room: float) -> tuple[tuple[int, float], ...]:
    """Return (column index, y in points) for each block, with blocks stacked in columns.

    blocks: heights of the blocks. room: height of a column. A block that does not fit below the
        previous block starts a new column.
    """
    places, column, top = [], 0, 0.0
    for block in blocks:
        if top and top + block > room + ROUNDING:
            column, top = column + 1, 0.0
        places.append((column, top))
        top += block
    return tuple(places)


def draw(surface: pygame.Surface, controller: Controller, rect: pygame.Rect, scale: float) -> None:
    """Draw the panel into `rect` (in pixels), with a hint or a notice at its bottom."""
    canvas = Canvas(surface, scale)
    pygame.draw.rect(surface, CARD, rect)
    tall, ends = _column(controller, scale)
    sizes = [end - start for start, end in itertools.pairwise(ends)]
    room = canvas.points(rect.height) - MARGIN - FOOTER
    surface.set_clip(rect.inflate(0, -canvas.pixels(FOOTER)).move(0, -canvas.pixels(FOOTER) // 2))
    for start, size, (column, top) in zip(ends, sizes, columns(sizes, room), strict=False):
        left, down = rect.left + canvas.pixels(column * WIDTH), canvas.pixels(MARGIN + top)
        area = (0, canvas.pixels(start), tall.get_width(), canvas.pixels(size))
        surface.blit(tall, (left, rect.top + down), area)
    surface.set_clip(None)
    words = controller.notice or _hint(controller)
    left, low = canvas.points(rect.left) + MARGIN, canvas.points(rect.bottom)
    lines = canvas.wrapped(words, 14, canvas.points(rect.width) - 2 * MARGIN)
    for i, line in enumerate(lines):
        at = (left, low - 6 - 18 * (len(lines) - i))
        canvas.write(line, at, ACCENT if controller.notice else MUTED, 14)


def _column(controller: Controller, scale: float) -> tuple[pygame.Surface, list[float]]:
    """Draw all blocks below each other in one long column.

    Returns the surface, and the vertical boundaries of the blocks in points.
    """
    canvas = Canvas(pygame.Surface((round(WIDTH * scale), round(TALLEST * scale))), scale)
    canvas.surface.fill(CARD)
    pen, ends = Pen(canvas, WIDTH), [0.0]
    for block in _WALL if controller.is_wall else _BOARD:
        block(pen, controller)
        if pen.top > ends[-1]:
            ends.append(pen.top)
    return canvas.surface, ends


def _hint(controller: Controller) -> str:
    if controller.mode == "watch":
        return "H keys \u00b7 Space pause \u00b7 Left, Right step"
    again = "R" if controller.is_wall else controller.new_level_key.upper()
    return f"H keys \u00b7 {again} new level \u00b7 Backspace undo"


def _wall(pen: Pen, controller: Controller) -> None:
    session, now = controller.session, controller.session.now
    finished, total = int(now.finished.sum()), float(now.total.sum())
    pen.paragraph(controller.title, TEXT, 19)
    pen.space(4)
    pen.chip(*_status(controller))
    pen.row("boards", f"{session.boards}")
    pen.row("actions by", session.pilot.name)
    pen.row("episodes finished", f"{finished}")
    pen.row("their mean return", f"{total / finished:.3f}" if finished else "-")
    pen.row("board", f"{controller.selected}")
    pen.space(6)
    pen.paragraph("Click a board, or Tab and Enter, to look at it.", MUTED, 15)


def _head(pen: Pen, controller: Controller) -> None:
    """Draw the title, the mission, the status, and the episode's step, reward and return."""
    session, now, board = controller.session, controller.session.now, controller.selected
    state = session.state(board)
    pen.paragraph(controller.title, TEXT, 19)
    facts.mission(pen, session.env.facts(state), session.effects(board).facts)
    pen.space(4)
    pen.chip(*_status(controller))
    limit = int(np.asarray(session.env.time_limit(state, session.env.default_params)))
    pen.row("episode", f"{int(now.episode[board]) + 1}")
    pen.row("step", f"{int(state.time)} / {limit}")
    pen.row("last action", action_name(session.env, board_moment(now, board)) or "-")
    pen.row("reward", f"{float(now.reward[board]):.3f}")
    pen.row("return", f"{float(now.score[board]):.3f}")
    pen.space(6)


def _facts(pen: Pen, controller: Controller) -> None:
    env = controller.session.env
    facts.draw(pen, env, env.facts(controller.session.state(controller.selected)))


def _achievements(pen: Pen, controller: Controller) -> None:
    facts.achievements(pen, controller.session, controller.selected)


def _status(controller: Controller) -> tuple[str, RGB]:
    """Return a short text about the session's status, such as `paused`, and its colour."""
    session, board = controller.session, controller.selected
    if controller.zoomed and session.is_over(board):
        ended = "time limit" if session.now.truncated[board] else "terminated"
        key = controller.new_level_key.upper()
        again = f" - {key}: next level" if session.human else ""
        return ended + again, end_colour(session, board) or TEXT
    if session.human:
        return "your move" if controller.mode == "play" else "your move - Space: continue", ACCENT
    if session.paused:
        return "paused", CUT
    return f"{session.pilot.name}, {session.speed:g} steps/s", GOOD


def _view(pen: Pen, controller: Controller) -> None:
    """Draw the agent's view, if the environment's view consists of tiles."""
    session = controller.session
    shape = frames.view_shape(session.env)
    if shape is None:
        return
    paint = frames.view_painter(session.env, max(4, pen.canvas.pixels(VIEW) // shape[0]))
    assert paint is not None
    pen.space(6)
    pen.label("the agent sees")
    board = slice(controller.selected, controller.selected + 1)
    picture = paint(jax.tree.map(lambda leaf: leaf[board], session.now.state))[0]
    pen.canvas.blit(surface_of(picture), (pen.left, pen.top))
    # Reserve at least VIEW points, so that the layout is the same at every scale. The height of the
    # picture itself varies, because the side of a tile is a whole number of pixels.
    pen.space(max(VIEW, pen.canvas.points(picture.shape[0])) + 8)


def _policy(pen: Pen, controller: Controller) -> None:
    """Draw the value and the action probabilities of a trained policy."""
    if controller.session.pilot.is_random:
        return
    probabilities, value = policy_output(controller.session, controller.selected)
    pen.row("value", f"{value:.3f}" if math.isfinite(value) else "-")
    pen.label("next action")
    env = controller.session.env
    if not isinstance(env.action_space, Discrete):
        numbers = probabilities.ravel().tolist()
        for i, number in enumerate(numbers[:MOST_ACTIONS]):
            pen.row(env.action_names[i] if env.action_names else f"[{i}]", f"{number:.3f}")
        return
    likeliest = int(probabilities.argmax())
    shown = range(len(probabilities))
    if len(shown) > MOST_ACTIONS:
        shown = np.argsort(-probabilities, kind="stable")[:MOST_ACTIONS].tolist()
    for action in shown:
        colour = ACCENT if action == likeliest else DIM
        pen.bar(controller.actions[action].name, float(probabilities[action]), colour)


def _oracle(pen: Pen, controller: Controller) -> None:
    """Draw the plan of the oracle (a solver): number of steps to success, and next actions."""
    oracle, board = controller.oracle, controller.selected
    if oracle is None:
        return
    found = oracle.answer(board)
    names = [controller.actions[action].name for action in found.plan] if found else []
    pen.space(6)
    pen.label("oracle (full information)")
    for name, value in (("steps left", oracle.status(board)), ("next", ", ".join(names) or "-")):
        left = pen.canvas.write(name, (pen.left, pen.top), MUTED, 15) + 10
        value = _shortened(pen, value, pen.right - left)
        pen.canvas.write(value, (pen.right, pen.top), CUT if names else TEXT, 15, right=True)
        pen.space(21)


def _shortened(pen: Pen, words: str, width: float) -> str:
    """Return the text, or the first words that fit into `width` points, followed by ` ...`."""
    if pen.canvas.width(words, 15) <= width:
        return words
    while words and pen.canvas.width(f"{words} ...", 15) > width:
        words = words.rpartition(" ")[0]
    return f"{words} ..."


def end_colour(session: Session, board: int) -> RGB | None:
    """Return the colour of the frame around an environment whose episode has ended, else None.

    Yellow: truncation. Green: termination with success or a positive last reward. Red: any other
    termination.
    """
    if bool(session.now.truncated[board]):
        return CUT
    if bool(session.now.terminated[board]):
        return GOOD if session.now.reward[board] > 0 or session.now.succeeded[board] else BAD
    return None


_BOARD = (_head, _facts, _achievements, _view, _oracle, _policy)
_WALL = (_wall,)
