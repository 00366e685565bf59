"""In-between pictures of an action, such as a half-finished turn of a cube's face.

Only environments that define `picture_between` have in-between pictures.
"""

import numpy as np
from jaxtyping import UInt8

from jaxenvs.core.drawing import unwrapped
from jaxenvs.core.env import Env

from .session import NO_ACTION, Session, board_moment, board_state, taken

# Maximum duration, in seconds, of the animation of an action; fast automatic play shortens it.
SECONDS = 0.24
# An animation file shows one in-between picture at each of these fractions of an action.
FRACTIONS = (0.25, 0.5, 0.75)


def is_turn(session: Session, board: int = 0) -> bool:
    """Return whether the action that led to the displayed state has in-between pictures.

    False at the start of an episode, or if the environment does not draw in-between pictures.
    """
    drawn = is_drawn(session.env) and session.cursor > 0
    return drawn and int(session.now.action[board]) != NO_ACTION


def is_drawn(env: Env) -> bool:
    """Return whether the environment draws in-between pictures."""
    return type(unwrapped(env)).picture_between is not Env.picture_between


def seconds(session: Session) -> float:
    """Return the time, in seconds, in which an action is animated in this session."""
    return SECONDS if session.human or session.paused else min(SECONDS, session.delay / 2)


def between(
    session: Session, board: int, fraction: float, tile_size: int
) -> UInt8[np.ndarray, "height width 3"] | None:
    """Return the picture of the latest action when a fraction (0 to 1) of it is completed.

    Returns None if `fraction` is 1, or if the action has no in-between pictures.
    """
    if fraction >= 1 or not is_turn(session, board):
        return None
    state = board_state(session.history[session.cursor - 1], board)
    action = taken(board_moment(session.now, board))
    picture = session.env.picture_between(state, action, fraction, tile_size)
    return None if picture is None else np.asarray(picture)
