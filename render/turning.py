"""Actions shown on their way, where an environment can draw that, such as the turn of a cube."""

import numpy as np
from jaxtyping import UInt8

from jaxenvs.core.drawing import unwrapped
from jaxenvs.core.env import Env

from .session import NO_ACTION, Session, board_moment, board_state, taken

SECONDS = 0.24  # that an action takes on the screen, or less where the session is faster
SHARES = (0.25, 0.5, 0.75)  # of an action, the pictures of a GIF between two moments


def is_turn(session: Session, board: int = 0) -> bool:
    """Tell whether an action that can be drawn on its way led to this moment."""
    drawn = is_drawn(session.env) and session.cursor > 0
    return drawn and int(session.now.action[board]) != NO_ACTION


def is_drawn(env: Env) -> bool:
    """Tell whether the environment can draw actions on their way."""
    return type(unwrapped(env)).picture_between is not Env.picture_between


def seconds(session: Session) -> float:
    """How long an action is shown on its way."""
    return SECONDS if session.human or session.paused else min(SECONDS, session.delay / 2)


def between(
    session: Session, board: int, share: float, tile_size: int
) -> UInt8[np.ndarray, "height width 3"] | None:
    """Draw a share of the action that led here, from 0 to 1; None where nothing is on its way."""
    if share >= 1 or not is_turn(session, board):
        return None
    state = board_state(session.history[session.cursor - 1], board)
    action = taken(board_moment(session.now, board))
    picture = session.env.picture_between(state, action, share, tile_size)
    return None if picture is None else np.asarray(picture)
