"""Solver in a background thread that finds shortest plans (actions to success) for viewers.

A question is a level or state to solve. While the solver works, at most one question waits: a new
question replaces the waiting one. Answers are stored under the key that the caller gives
to a question, such as a hash of the level.
"""

import collections
import functools
import warnings
from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from jaxenvs import levels
from jaxenvs.core.background import Background
from jaxenvs.core.checks import counted
from jaxenvs.core.env import Env

NODES = 200_000  # largest number of states that a search stores
BATCH = 128  # number of states that a search expands together
KEPT = 4096  # maximum number of stored answers
COMPILING, SOLVING = "compiling", "solving"


class Answer(NamedTuple):
    """The answer of the solver about a level or state."""

    steps: int | None = None  # steps of the shortest known plan; None if no plan is known
    plan: tuple[int, ...] = ()
    lower: int = 0  # proven lower bound on the number of steps
    proven: bool = False
    unsolvable: bool = False
    problem: str = ""  # why there is no answer

    @property
    def words(self) -> str:
        """The answer in words, such as `solvable in 12 steps`."""
        if self.problem:
            return self.problem
        if self.unsolvable:
            return "unsolvable"
        if self.steps is None:
            return f"at least {counted(self.lower, 'step')}, if solvable"
        if self.proven:
            return f"solvable in {counted(self.steps, 'step')}"
        return f"solvable in {self.lower} to {counted(self.steps, 'step')}"

    def after(self) -> "Answer":
        """Return the answer for the state after the first action of the plan."""
        assert self.steps
        rest = (self.steps - 1, self.plan[1:], max(0, self.lower - 1))
        return self._replace(steps=rest[0], plan=rest[1], lower=rest[2])


@functools.lru_cache(maxsize=64)
def no_solver(env: Env, states: bool = False) -> str:
    """Return why the solver cannot find shortest plans in an environment; "" if it can.

    states: True if plans are needed from any state; False if only from the starts of levels.
    """
    try:
        levels.check_solver(env, states)
    except (NotImplementedError, TypeError) as error:
        return _sentence(error)
    return ""


def _sentence(error: Exception) -> str:
    return str(error).partition(": ")[2] or str(error)


def solved(env: Env, level: Any) -> Answer:
    """Solve a level or a state. If the solver cannot do this, `problem` contains the reason."""
    if problem := no_solver(env):
        return Answer(problem=problem)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (found,) = levels.solve(env, level, node_budget=NODES, batch_size=BATCH, shared=True)
    except (NotImplementedError, TypeError, ValueError) as error:
        return Answer(problem=_sentence(error))
    return Answer(found.steps, found.plan, found.lower, found.proven, found.unsolvable)


class Planner:
    """Solves levels in a background thread; `tick` fetches answers without waiting.

    waits: False by default. True if `ask` must solve the level before it returns, without the
        thread; needed for pictures that are written to files.
    """

    def __init__(self, solve: Callable[[Env, Any], Answer] = solved, waits: bool = False) -> None:
        self._solve, self._waits = solve, waits
        self._answers: collections.OrderedDict[Hashable, Answer] = collections.OrderedDict()
        self._wanted: tuple[Hashable, Env, Any] | None = None
        self._running: tuple[Hashable, Env] | None = None
        # Environments in which a search has finished. Searches in them need no more compilation.
        self._compiled: set[Env] = set()
        self._background: Background[Answer] = Background()

    @property
    def busy(self) -> bool:
        """True if a level is being solved or waits to be solved."""
        return self._running is not None or self._wanted is not None

    def ask(self, key: Hashable, env: Env, level: Any) -> None:
        """Request the solution of `level`, to be stored under `key`; replace a waiting request."""
        if key in self._answers or (self._running and self._running[0] == key):
            self._wanted = None
            return
        self._wanted = (key, env, level)
        if self._waits:
            self.keep(key, self._solve(env, level))
            self._wanted = None

    def keep(self, key: Hashable, answer: Answer) -> None:
        """Store the answer for the level or state with this key."""
        self._answers[key] = answer
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def answer(self, key: Hashable) -> Answer | None:
        """Return the answer for the level or state with this key; None if it is not known yet."""
        return self._answers.get(key)

    def status(self, key: Hashable) -> str:
        """Return the answer for `key` in words; if unknown, "solving", "compiling" or "" (idle)."""
        found = self._answers.get(key)
        if found is not None:
            return found.words
        pending = self._wanted or self._running
        if pending is None:
            return ""
        return SOLVING if pending[1] in self._compiled else COMPILING

    def tick(self) -> bool:
        """Fetch a finished answer and start the next search; return whether an answer was ready."""
        came = False
        if self._running is not None and self._background.done():
            key, env = self._running
            self.keep(key, self._taken())
            self._compiled.add(env)
            self._running, came = None, True
        if self._running is None and self._wanted is not None:
            key, env, level = self._wanted
            self._running, self._wanted = (key, env), None
            self._background.begin(functools.partial(self._solve, env, level))
        return came

    def _taken(self) -> Answer:
        """Return the finished answer; an exception of the solver becomes the answer's `problem`."""
        try:
            return self._background.take()
        except Exception as error:  # such as too little memory for the search
            return Answer(problem=f"the solver failed: {type(error).__name__}")

    def close(self) -> None:
        """End the thread without waiting for a search."""
        self._wanted = None
        self._background.close()
