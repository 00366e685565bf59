"""The oracle of a viewer: finds a plan, the fewest actions from the displayed state to success.

If the latest action was the first one of a known plan, the oracle returns the rest of this plan
without a search. This module needs no display.
"""

import functools
import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from jaxenvs.commands.parser import UsageError
from jaxenvs.core.env import Env
from jaxenvs.core.transitions import Step
from jaxenvs.core.wrapper import Wrapper

from .plans import Answer, Planner, no_solver
from .session import NO_ACTION, Moment, Session, board_moment, board_state, taken


class Oracle:
    """Finds a shortest plan from the displayed state of a session, in a background thread.

    waits: whether `answer` waits until the plan is found. Needed for pictures that are written to
        files, which no later answer can change.
    """

    def __init__(
        self, session: Session, planner: Planner | None = None, waits: bool = False
    ) -> None:
        check(session.env)
        self._session, self.planner = session, planner or Planner(waits=waits)

    @property
    def busy(self) -> bool:
        """True while the solver works or a state waits to be solved."""
        return self.planner.busy

    def tick(self) -> bool:
        """Fetch the solver's answer if it is ready; return whether it was ready."""
        return self.planner.tick()

    def answer(self, board: int) -> Answer | None:
        """Return the solver's answer about the displayed state of environment `board`.

        Returns None while the solver works, and at the end of an episode.
        """
        session = self._session
        if session.is_over(board):
            return None
        key = self._key(session.now, board)
        found = self.planner.answer(key)
        if found is None and (found := self._follows(board)) is not None:
            self.planner.keep(key, found)
        if found is None:
            env, state = _inside(session.env, board_state(session.now, board))
            self.planner.ask(key, env, state)
            found = self.planner.answer(key)
        return found

    def status(self, board: int) -> str:
        """Return the number of steps to success in words, or the state of the search."""
        if self._session.is_over(board):
            return "episode over"
        found = self.answer(board)
        if found is None:
            return self.planner.status(self._key(self._session.now, board))
        words = found.words.removeprefix("solvable in ")
        return words.removesuffix(", if solvable")

    def _follows(self, board: int) -> Answer | None:
        """Return the previous state's plan without its first action, or None.

        None if the previous state has no known plan, or if the latest step did not follow the plan.
        """
        session = self._session
        if not session.cursor or session.now.action[board] == NO_ACTION:
            return None
        earlier = session.history[session.cursor - 1]
        before = self.planner.answer(self._key(earlier, board))
        if before is None or not before.plan:
            return None
        action = taken(board_moment(session.now, board))
        return before.after() if action == before.plan[0] and self._obeyed(earlier, board) else None

    def _obeyed(self, earlier: Moment, board: int) -> bool:
        """Return whether the latest action had the effect that it has in the unwrapped environment.

        False, for example, if a wrapper replaced the action or took several steps.
        """
        now = self._session.now
        if not isinstance(self._session.env, Wrapper):
            return True
        env, state = _inside(self._session.env, board_state(earlier, board))
        after = _step(env)(jax.random.key(0), state, taken(board_moment(now, board))).state
        return _digest(after) == self._key(now, board)

    def _key(self, moment: Moment, board: int) -> str:
        """Return a hash of the unwrapped state of environment `board`, without its time."""
        return _digest(_inside(self._session.env, board_state(moment, board))[1])


def check(env: Env) -> None:
    """Raise `UsageError` if the solver cannot plan from the states of an environment."""
    if problem := no_solver(env, states=True):
        raise UsageError(f"--oracle: {problem}")


@functools.lru_cache(maxsize=64)
def _step(env: Env) -> Callable[..., Step]:
    return jax.jit(env.step)


def _digest(state: Any) -> str:
    """Return a hash of a state without its time, because plans do not depend on the time."""
    digest = hashlib.sha256()
    for path, leaf in jax.tree_util.tree_leaves_with_path(state):
        if getattr(path[-1], "name", "") != "time":
            digest.update(np.ascontiguousarray(leaf).tobytes())
    return digest.hexdigest()


def _inside(env: Env, state: Any) -> tuple[Env, Any]:
    """Return the environment inside all wrappers, and its state."""
    while isinstance(env, Wrapper):
        env, state = env.env, env.inner(state)
    return env, state
