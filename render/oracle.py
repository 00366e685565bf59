"""The oracle of a viewer: a shortest plan from the state that is shown, and its number of steps.

If the latest action was the first one of the known plan, the rest of that plan is the answer, and
nothing is searched. This module needs no display.
"""

import hashlib
from typing import Any

import jax
import numpy as np

from jaxenvs.commands.parser import UsageError
from jaxenvs.core.env import Env
from jaxenvs.core.wrapper import Wrapper

from .plans import Answer, Planner, no_solver
from .session import NO_ACTION, Moment, Session, board_moment, board_state, taken


class Oracle:
    """Answers about the states of a session.

    waits: whether the answer comes at once, for pictures in files.
    """

    def __init__(
        self, session: Session, planner: Planner | None = None, waits: bool = False
    ) -> None:
        check(session.env)
        self._session, self.planner = session, planner or Planner(waits=waits)

    @property
    def busy(self) -> bool:
        """True while an answer is computed."""
        return self.planner.busy

    def tick(self) -> bool:
        """Move the search on; return whether an answer came."""
        return self.planner.tick()

    def answer(self, board: int) -> Answer | None:
        """Return the answer about the state of environment `board` that is shown.

        Returns None while it is computed, and after the end of an episode.
        """
        session = self._session
        if session.is_over(board):
            return None
        key = _key(session.now, board)
        found = self.planner.answer(key)
        if found is None and (found := self._follows(board)) is not None:
            self.planner.keep(key, found)
        if found is None:
            env, state = _inside(session.env, board_state(session.now, board))
            self.planner.ask(key, env, state)
            found = self.planner.answer(key)
        return found

    def status(self, board: int) -> str:
        """Return the number of steps in words, or the state of the search."""
        if self._session.is_over(board):
            return "episode over"
        found = self.answer(board)
        if found is None:
            return self.planner.status(_key(self._session.now, board))
        words = found.words.removeprefix("solvable in ")
        return words.removesuffix(", if solvable")

    def _follows(self, board: int) -> Answer | None:
        """Return the answer if the latest action was the first one of a known plan."""
        session = self._session
        if not session.cursor or session.now.action[board] == NO_ACTION:
            return None
        before = self.planner.answer(_key(session.history[session.cursor - 1], board))
        if before is None or not before.plan:
            return None
        return before.after() if taken(board_moment(session.now, board)) == before.plan[0] else None


def check(env: Env) -> None:
    """Raise `UsageError` if an environment has no oracle."""
    if problem := no_solver(env, states=True):
        raise UsageError(f"--oracle: {problem}")


def _key(moment: Moment, board: int) -> str:
    """Return a hash of the state of environment `board`, without its time."""
    state = jax.tree.map(lambda leaf: leaf[board], moment.state)
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if getattr(path[-1], "name", "") != "time":
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _inside(env: Env, state: Any) -> tuple[Env, Any]:
    """Return the environment without wrappers, and its state."""
    while isinstance(env, Wrapper):
        env, state = env.env, env.inner(state)
    return env, state
