"""Shortest plans for viewers: a solver that runs in its own thread, so that no window waits for it.

Only the newest question matters: a question that waits is replaced by the next one. Answers are
kept by the key of their question.
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
KEPT = 4096  # number of answers that are kept
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
    """Return why an environment has no shortest plans; "" if it has.

    states: whether the plans have to begin in any state, not only in levels.
    """
    try:
        levels.check_solver(env, states)
    except (NotImplementedError, TypeError) as error:
        return _sentence(error)
    return ""


def _sentence(error: Exception) -> str:
    return str(error).partition(": ")[2] or str(error)


def solved(env: Env, level: Any) -> Answer:
    """Solve a level or a state; the answer has the reason if that is impossible."""
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
    """Answers questions in its own thread; `tick` moves the work on and never waits.

    waits: whether `ask` answers at once, for pictures in files.
    """

    def __init__(self, solve: Callable[[Env, Any], Answer] = solved, waits: bool = False) -> None:
        self._solve, self._waits = solve, waits
        self._answers: collections.OrderedDict[Hashable, Answer] = collections.OrderedDict()
        self._wanted: tuple[Hashable, Env, Any] | None = None
        self._running: tuple[Hashable, Env] | None = None
        self._compiled: set[Env] = set()  # environments with a first answer
        self._background: Background[Answer] = Background()

    @property
    def busy(self) -> bool:
        """True if a question is being answered or waits."""
        return self._running is not None or self._wanted is not None

    def ask(self, key: Hashable, env: Env, level: Any) -> None:
        """Ask about a level; `key` identifies the question. Replaces the question that waits."""
        if key in self._answers or (self._running and self._running[0] == key):
            self._wanted = None
            return
        self._wanted = (key, env, level)
        if self._waits:
            self.keep(key, self._solve(env, level))
            self._wanted = None

    def keep(self, key: Hashable, answer: Answer) -> None:
        """Store the answer of a question."""
        self._answers[key] = answer
        while len(self._answers) > KEPT:
            self._answers.popitem(last=False)

    def answer(self, key: Hashable) -> Answer | None:
        """Return the answer of a question; None if there is none yet."""
        return self._answers.get(key)

    def status(self, key: Hashable) -> str:
        """Return the answer in words, or the state of the search."""
        found = self._answers.get(key)
        if found is not None:
            return found.words
        pending = self._wanted or self._running
        if pending is None:
            return ""
        return SOLVING if pending[1] in self._compiled else COMPILING

    def tick(self) -> bool:
        """Fetch a finished answer and begin with the next question; return whether one came."""
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
        """Return the answer that came; the viewer outlives an error of the solver."""
        try:
            return self._background.take()
        except Exception as error:  # such as too little memory for the search
            return Answer(problem=f"the solver failed: {type(error).__name__}")

    def close(self) -> None:
        """End the thread without waiting for a search."""
        self._wanted = None
        self._background.close()
