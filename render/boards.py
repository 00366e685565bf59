"""Pictures of a session's boards (environments) at the displayed time step.

Cells that the latest action affected are highlighted. If the environment defines a trail, such as
the route so far in the travelling salesman problem, the trail is drawn as a line.
"""

import itertools
from collections.abc import Iterable, Iterator

import jax
import numpy as np
from jaxtyping import Float, UInt8

from jaxenvs.core import drawing
from jaxenvs.core.env import Env

from . import frames
from .session import NO_ACTION, Moment, Session, board_moment, taken

COLOUR = np.array((110, 170, 255), np.float32)  # colour of a trail, RGB
LIT = np.array((246, 190, 62), np.uint8)  # colour of frames around highlighted cells, RGB
# Width of the line of a trail, and of the frame around a highlighted cell, in tiles.
WIDTH, FRAME = 0.16, 0.08

# (x, y) of points in a picture: (0, 0) is its upper left corner, (1, 1) its lower right corner.
Points = list[tuple[float, float]]


def pictures(session: Session, tile_size: int, board: int | None = None) -> frames.Frames:
    """Draw the environments of a session at the time step that is shown.

    Returns the pictures of all environments, or of only environment `board`.
    """
    chosen = slice(None) if board is None else slice(board, board + 1)
    states = jax.tree.map(lambda leaf: leaf[chosen], session.now.state)
    drawn = frames.board_painter(session.env, tile_size)(states)
    shown = range(session.boards)[chosen]
    lit = [(place, *cell) for place, i in enumerate(shown) for cell in session.effects(i).cells]
    drawn = drawn.copy() if lit else drawn
    for place, row, column in lit:
        _frame(drawn[place, row * tile_size :, column * tile_size :][:tile_size, :tile_size])
    if type(session.env).trail is Env.trail or not drawing.has_tiles(session.env):
        return drawn
    ground = session.env.atlas(tile_size)[0, 0, 0]
    trails = [trail(session.env, episode(session, i)) for i in shown]
    return np.stack([over(*both, ground, tile_size) for both in zip(drawn, trails, strict=True)])


def _frame(cell: UInt8[np.ndarray, "height width 3"]) -> None:
    """Highlight a cell: draw a frame along the inside of its edges, in the array `cell`."""
    wide = max(1, round(FRAME * len(cell)))
    for edge in (cell[:wide], cell[-wide:], cell[:, :wide], cell[:, -wide:]):
        edge[...] = LIT


def episode(session: Session, board: int) -> Iterator[Moment]:
    """Yield the time steps of the displayed episode of environment `board`.

    The first one is the start of the episode; the last one is the displayed time step.
    """
    start = session.cursor
    while start and session.history[start].action[board] != NO_ACTION:
        start -= 1
    for moment in session.history[start : session.cursor + 1]:
        yield board_moment(moment, board)


def trail(env: Env, moments: Iterable[Moment]) -> Points:
    """Return the points of an episode's trail, in order.

    The trail is a line that the environment defines, such as the route of a traveller. `moments`
    are the time steps of the episode.
    """
    steps = (env.trail(moment.state, taken(moment)) for moment in moments)
    return [point for step in steps for point in step or ()]


def over(
    picture: UInt8[np.ndarray, "height width 3"],
    points: Points,
    ground: UInt8[np.ndarray, "3"],
    tile_size: int,
) -> UInt8[np.ndarray, "height width 3"]:
    """Return the picture with a line through the points, drawn behind all objects.

    The line changes only pixels of the background colour `ground`.
    """
    height, width, _ = picture.shape
    ends = np.array(points, np.float32).reshape(-1, 2) * (width, height)
    alpha = np.zeros((height, width), np.float32)
    for start, end in itertools.pairwise(ends):
        _stroke(alpha, start, end, max(1.0, WIDTH * tile_size / 2))
    alpha *= (picture == ground).all(axis=-1)
    mixed = picture + alpha[..., None] * (COLOUR - picture)
    return np.round(mixed).astype(np.uint8)


def _stroke(
    alpha: Float[np.ndarray, "height width"],
    start: Float[np.ndarray, "2"],
    end: Float[np.ndarray, "2"],
    radius: float,
) -> None:
    """Draw an anti-aliased line, in place, into `alpha`, an array of opacities from 0 to 1."""
    low = np.floor(np.minimum(start, end) - radius - 1).astype(int).clip(0)
    high = np.ceil(np.maximum(start, end) + radius + 1).astype(int)
    part = alpha[low[1] : high[1], low[0] : high[0]]
    down, right = np.indices(part.shape) + 0.5
    x, y = right + low[0] - start[0], down + low[1] - start[1]
    along, across = end - start
    length = max(float(along * along + across * across), 1e-9)
    at = ((x * along + y * across) / length).clip(0, 1)
    away = np.hypot(x - at * along, y - at * across)
    np.maximum(part, (radius + 0.5 - away).clip(0, 1), out=part, casting="same_kind")
