"""`Episode`: an environment played by an agent that reads text and names its actions.

The agent may also ask for a picture of the state.
"""

import dataclasses
import functools
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxenvs.render import frames
from jaxenvs.render.session import Session, board_state
from jaxenvs.render.text import legal

from .. import render
from ..commands.parser import UsageError
from ..core import drawing, png
from ..core.checks import counted
from ..core.env import Env
from ..core.parts.learner import defines_success
from ..text import ActionError, described
from ..text.actions import choose
from ..text.measures import Played, Progress

DETAILS = ("full", "short", "changes")
MAX_SEED = 2**31 - 1
# Maximum size of the states that an episode keeps for `undo`, in bytes; at least
# `render.session.MIN_MOMENTS` states are kept.
HISTORY_BYTES = 8 * 2**20
MAX_ACTIONS = 500  # maximum number of actions in one call of `act`
NAMES_SHOWN = 40  # maximum number of legal actions that a text lists


class Taken(NamedTuple):
    """Result of one call of `act`."""

    actions: tuple[str, ...]  # names of the actions that this call took
    reward: float  # sum of the rewards of these actions
    problem: str  # reason why the next action was not taken; "" if all actions were taken


class Score(NamedTuple):
    """Score of an episode so far: steps, return, success, and whether the episode has ended."""

    steps: int
    limit: int  # number of steps after which the episode is truncated
    total: float  # return: the sum of rewards so far
    terminated: bool
    truncated: bool
    success: bool | None  # whether a step succeeded; None if success is not defined
    progress: float | None  # progress from 0 to 1, see `jaxenvs.text.Progress`
    achievements: tuple[str, ...]  # names of the achievements earned so far

    @property
    def over(self) -> bool:
        """True if the episode has ended."""
        return self.terminated or self.truncated


@dataclasses.dataclass
class Programs:
    """Compilation state that all episodes of equal environments share.

    A thread holds `lock` while it compiles functions of the environment.
    """

    lock: threading.Lock = dataclasses.field(default_factory=threading.Lock)
    stepped: bool = False  # whether the step function is compiled


@functools.lru_cache(maxsize=64)
def _made(env: Env) -> Programs:
    return Programs()


# Lock that prevents two threads from making two `Programs` for one environment.
_making = threading.Lock()


def programs_of(env: Env) -> Programs:
    """Return the `Programs` that all episodes of equal environments share."""
    with _making:
        return _made(env)


class Episode:
    """One episode of an environment, with a bounded history for `undo`.

    Environment, seed and actions determine the episode, as in `jaxenvs play --seed`. Actions that
    are undone and then repeated therefore have the same outcomes. All episodes of equal
    environments share the compiled functions. If several threads use an episode, each must hold
    `lock` while it calls a method.
    """

    def __init__(self, env: Env, seed: int = 0, id: str = "") -> None:
        """Start the episode that `seed` determines.

        Raises `UsageError` for actions without names.
        """
        if not env.controls.actions:
            raise UsageError(
                f"{id or env.name} has actions without names, so it cannot be played in words; "
                "choose an environment with discrete actions"
            )
        self.env, self.seed, self.id = env, seed, id or env.name
        self.lock = threading.RLock()
        with programs_of(env).lock:
            self._session = Session(env, seed=seed, history_bytes=HISTORY_BYTES)
        # Number of steps at the first success; None: no success yet.
        self._solved_at: int | None = None

    @property
    def state(self) -> Any:
        """The current state of the environment."""
        return self._session.state()

    @property
    def is_over(self) -> bool:
        """True if the episode has ended."""
        return self._session.is_over()

    @property
    def undoable(self) -> int:
        """Number of steps that `undo` can take back."""
        return self._session.cursor

    def legal(self) -> list[str]:
        """Return the names of the actions that are legal now; [] after the end of the episode."""
        names = self.env.controls.names
        return [] if self.is_over else [names[i] for i in legal(self._session)]

    def act(self, names: Sequence[str]) -> Taken:
        """Take actions in order, until one is not legal or the episode ends.

        An action is given by its name, its number, or the beginning of its name if no other legal
        action fits. Raises `UsageError` if `names` is empty or longer than `MAX_ACTIONS`.
        """
        if not 0 < len(names) <= MAX_ACTIONS:
            given = counted(len(names), "action")
            raise UsageError(f"{given} given; give 1 to {MAX_ACTIONS} names of legal actions")
        taken, reward, problem = [], 0.0, ""
        for name in names:
            problem = self._step(name)
            if problem:
                break
            reward += float(self._session.now.reward[0])
            taken.append(self.env.controls.names[int(self._session.now.action[0])])
        return Taken(tuple(taken), reward, problem)

    def _step(self, name: str) -> str:
        """Take one action; return "", or the reason why it was not taken."""
        if self.is_over:
            return "the episode has ended; reset starts another, undo goes back."
        controls, session = self.env.controls, self._session
        others = () if controls.values else self.env.action_names
        try:
            action = choose(name, controls.names, legal(session), others)
        except ActionError as error:
            return str(error)
        programs = programs_of(self.env)
        if programs.stepped:
            session.act(action)
        else:
            with programs.lock:
                session.act(action)
                programs.stepped = True
        if session.now.succeeded[0] and self._solved_at is None:
            self._solved_at = self._index
        return ""

    @property
    def _index(self) -> int:
        """Number of steps from the start of the episode to the current state.

        Steps whose states were dropped, because they are too old for `undo`, are counted too.
        """
        return self._session.dropped + self._session.cursor

    def undo(self, steps: int = 1) -> None:
        """Take back the last `steps` actions; raise `UsageError` for more than `undoable`."""
        if not 0 < steps <= self.undoable:
            given, dropped = counted(steps, "step"), counted(self._session.dropped, "step")
            kept = f" (the oldest {dropped} cannot)" if self._session.dropped else ""
            allowed = f"give 1 to {self.undoable}" if self.undoable else "no step was taken yet"
            raise UsageError(f"{given} cannot be taken back{kept}: {allowed}")
        self._session.seek(self._session.cursor - steps)
        if self._solved_at is not None and self._index < self._solved_at:
            self._solved_at = None

    def describe(self, detail: str = "full", steps: int = 1) -> str:
        """Return a description of the agent's knowledge of the current state.

        detail: `full`, `short` (one to three lines), or `changes` (only changes in the last
            `steps` steps).
        """
        if detail not in DETAILS:
            raise UsageError(f"detail={detail!r} is not one of {', '.join(DETAILS)}")
        if detail != "changes":
            return described(self.env, self.state, detail)
        history, cursor = self._session.history, self._session.cursor
        if not cursor:
            return "No step before this state is known."
        before = board_state(history[max(0, cursor - steps)], 0)
        return self.env.describe_changes(before, self.state)

    def score(self) -> Score:
        """Return the `Score` of the episode so far."""
        now, env, state = self._session.now, self.env, self.state
        earned = np.asarray(now.earned[0])
        success = self._solved_at is not None if defines_success(env) else None
        steps, total = int(state.time), float(now.score[0])
        progress = Progress(env)
        progress.played = Played(env, steps, total, success, earned if earned.size else None, state)
        return Score(
            steps=steps,
            limit=int(np.asarray(env.time_limit(state, env.default_params))),
            total=total,
            terminated=bool(now.terminated[0]),
            truncated=bool(now.truncated[0]),
            success=success,
            progress=progress.value,
            achievements=tuple(n for n, got in zip(env.achievements, earned, strict=True) if got),
        )

    def picture(self) -> bytes:
        """Return a picture of the agent's view as the content of a PNG file.

        If the environment has no view made of tiles, return the picture that `jaxenvs.render`
        draws. Raises `UsageError` for an environment without pictures.
        """
        shape = frames.view_shape(self.env)
        if shape is not None:
            side = frames.ANIMATION_SIZE
            tile_size = drawing.fitting_tile_size(shape, side, side, largest=32)
            # `view_painter` returns None only if `view_shape` does.
            paint: Any = frames.view_painter(self.env, tile_size)
            return png.encoded(paint(self._session.now.state)[0])
        if not drawing.is_drawn(self.env):
            raise UsageError(f"{self.id} {drawing.UNDRAWN}; observe it as text")
        return png.encoded(np.asarray(render(self.env, self.state)))
