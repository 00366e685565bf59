"""A session of play without a display: the history, a cursor in it, and the next action.

Random numbers depend only on the seed, the board and the index in the history (for a level: the
episode number). The same commands thus give the same history, and a branch that repeats earlier
actions repeats their outcomes.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float32, Int32, PRNGKeyArray

from jaxenvs.core import distributions, eager
from jaxenvs.core.env import Env
from jaxenvs.core.facts import Effects
from jaxenvs.core.spaces import Discrete
from jaxenvs.core.vector import over_rows

from .pilots import RANDOM, Pilot

BY_PILOT, NEW_LEVEL = -1, -2  # commands to a board other than the actions 0, 1, ...
NO_ACTION = -1  # action of the first state of an episode, to which no action led
UNNAMED = -2  # index of a pilot's action in an environment whose actions are not discrete
SPEEDS = (0.5, 1, 2, 4, 8, 15, 30, 60)  # speeds to choose from, in steps per second
END_PAUSE = 0.8  # seconds for which the last state of an episode is shown
MAX_MOMENTS, MAX_BYTES = 20_000, 64 * 2**20  # limits of the history; old steps are dropped


class Moment(NamedTuple):
    """One time step of the history, for every board (axis `boards`; under `vmap`, one board)."""

    state: Any
    # Index into `controls.actions` of the action that led here; NO_ACTION at the first state of an
    # episode.
    action: Int32[Array, "*boards"]
    taken: Any  # the action itself if the environment's actions are not discrete, else ()
    reward: Float32[Array, "*boards"]  # reward of that action
    terminated: Bool[Array, "*boards"]
    truncated: Bool[Array, "*boards"]
    succeeded: Bool[Array, "*boards"]  # whether that action accomplished the task
    score: Float32[Array, "*boards"]  # return of the episode so far
    episode: Int32[Array, "*boards"]  # episode number, from 0
    finished: Int32[Array, "*boards"]  # number of finished episodes
    total: Float32[Array, "*boards"]  # sum of the returns of finished episodes
    earned: Bool[Array, "*boards achievements"]  # achievements of the episode so far
    memory: Any  # recurrent state of the pilot before it observes this state

    @property
    def over(self) -> Bool[Array | np.ndarray, "*boards"]:
        """True if the episode ends at this time step."""
        return self.terminated | self.truncated


class Session:
    """A history of time steps (`Moment`) with a cursor; `now` is the one at the cursor.

    All boards of a wall share the history: an action on one board steps every board.
    """

    def __init__(
        self,
        env: Env,
        pilot: Pilot | None = None,
        boards: int = 1,
        seed: int = 0,
        speed: float = 8,
        level: Any = None,  # the level of every episode; None: random levels
    ) -> None:
        self.env, self.boards, self.speed = env, boards, float(speed)
        self.pilot = pilot or RANDOM
        self.human = pilot is None  # whether a person chooses the actions
        self.paused = False
        self.level = level
        self._start, self._advance = _compiled(env, self.pilot, boards)
        self._keys = jax.vmap(jax.random.fold_in, (None, 0))(
            jax.random.key(seed), np.arange(boards, dtype=np.uint32)
        )
        self.history = [_to_host(self._start(self._keys, np.zeros(boards, np.int32), level))]
        self.dropped = 0  # number of time steps removed from the beginning
        self.cursor = 0  # index into the history
        self.capacity = _capacity(self.history[0])
        self._waited = 0.0  # seconds since the last automatic step

    @property
    def now(self) -> Moment:
        """The time step at the cursor."""
        return self.history[self.cursor]

    @property
    def at_end(self) -> bool:
        """True if the cursor is at the newest time step."""
        return self.cursor == len(self.history) - 1

    def state(self, board: int = 0) -> Any:
        """Return the current state of a board, as the environment's functions take it."""
        return board_state(self.now, board)

    def is_over(self, board: int = 0) -> bool:
        """Return whether a board's episode has ended."""
        return bool(self.now.over[board])

    def effects(self, board: int = 0) -> Effects:
        """Return the facts and cells that the latest action on a board triggered."""
        if type(self.env).effects is Env.effects or not self.cursor:
            return Effects()
        action = taken(board_moment(self.now, board))
        if self.now.action[board] == NO_ACTION:
            return Effects()
        before = board_state(self.history[self.cursor - 1], board)
        return self.env.effects(before, action, self.state(board))

    # Moving in time.

    def seek(self, index: int) -> None:
        """Move the cursor to an index, clipped to the history, and pause."""
        self.cursor = max(0, min(index, len(self.history) - 1))
        self.paused = True
        self._waited = 0.0

    def forward(self) -> bool:
        """Go to the next time step; at the end of the history the pilot acts.

        Returns False if the session waits for a person.
        """
        if not self.at_end:
            self.cursor += 1
        elif not self.human:
            self._append(np.full(self.boards, BY_PILOT, np.int32))
        else:
            return False
        return True

    def tick(self, seconds: float) -> bool:
        """Advance automatic play by this much time; return whether the cursor moved."""
        if self.paused or self.human:
            return False
        self._waited += seconds
        moved = False
        while self._waited >= self.delay:
            self._waited -= self.delay
            self.forward()
            moved = True
            if self._waited > 1.0:  # a slow machine: do not catch up
                self._waited = 0.0
        return moved

    @property
    def delay(self) -> float:
        """Seconds for which the current time step is shown during automatic play."""
        ended = self.boards == 1 and self.is_over()
        return max(END_PAUSE if ended else 0.0, 1.0 / self.speed)

    # Actions and other commands.

    def act(self, action: int, board: int = 0) -> bool:
        """Take a person's action on a board; the history after the cursor is discarded.

        The pilot acts on the other boards. Returns False if the board's episode has ended.
        """
        if self.is_over(board):
            return False
        commands = np.full(self.boards, BY_PILOT, np.int32)
        commands[board] = action
        self.human = True
        self._append(commands)
        return True

    def new_level(self, board: int | None = None) -> None:
        """Start the next episode of all boards, or of one while the pilot acts on the others."""
        commands = np.full(self.boards, NEW_LEVEL if board is None else BY_PILOT, np.int32)
        commands[0 if board is None else board] = NEW_LEVEL
        self._append(commands)

    def toggle_pause(self) -> None:
        """Pause, or let the pilot continue from the cursor, also after a person took over."""
        self.paused = False if self.human else not self.paused
        self.human = False
        self._waited = 0.0

    def change_speed(self, faster: bool) -> None:
        """Change to the next higher or lower speed of `SPEEDS`."""
        if faster:
            self.speed = min((s for s in SPEEDS if s > self.speed), default=self.speed)
        else:
            self.speed = max((s for s in SPEEDS if s < self.speed), default=self.speed)

    def warm(self) -> None:
        """Compile the step function before the first action."""
        self._after(np.full(self.boards, BY_PILOT, np.int32))

    def _append(self, commands: np.ndarray) -> None:
        """Discard the history after the cursor and append the result of the commands."""
        del self.history[self.cursor + 1 :]
        self.history.append(self._after(commands))
        self.cursor += 1
        surplus = len(self.history) - self.capacity
        if surplus > 0:
            del self.history[:surplus]
            self.dropped += surplus
            self.cursor -= surplus

    def _after(self, commands: np.ndarray) -> Moment:
        """Return the next time step, given one command per board."""
        now, clock = self.now, np.int32(self.dropped + self.cursor)
        after = _to_host(self._advance(self._keys, now, clock, commands))
        again = now.over | (commands == NEW_LEVEL)
        if not again.any():
            return after
        fresh = _to_host(self._start(self._keys, now.episode + 1, self.level))
        fresh = fresh._replace(finished=now.finished, total=now.total)

        def chosen(new: np.ndarray, old: np.ndarray) -> np.ndarray:
            return np.where(again.reshape(-1, *[1] * (new.ndim - 1)), new, old)

        return jax.tree.map(chosen, fresh, after)


def _capacity(moment: Moment) -> int:
    """Return the maximum number of time steps in the history."""
    size = sum(leaf.nbytes + 128 for leaf in jax.tree.leaves(moment))
    return int(max(100, min(MAX_MOMENTS, MAX_BYTES // size)))


def board_moment(moment: Moment, board: int) -> Moment:
    """Select one board of a moment."""
    return jax.tree.map(lambda leaf: leaf[board], moment)


def taken(moment: Moment) -> Any:
    """Return the action that led to a moment of one board, as the environment takes it.

    `NO_ACTION` at the start of an episode.
    """
    is_number = moment.action == NO_ACTION or not jax.tree.leaves(moment.taken)
    return int(moment.action) if is_number else moment.taken


def action_name(env: Env, moment: Moment) -> str:
    """Return the name of the action that led to a moment; empty at the start of an episode."""
    action = taken(moment)
    if moment.action == NO_ACTION:
        return ""
    if isinstance(action, int):
        return env.controls.names[action]
    numbers = np.ravel(action).tolist()
    pairs = zip(env.action_names or [""] * len(numbers), numbers, strict=True)
    return ", ".join(f"{name} {number:.4g}".strip() for name, number in pairs)


def board_state(moment: Moment, board: int) -> Any:
    """Return the state of a board, as the environment's functions take it.

    `jnp.asarray` would compile a program for each shape, `device_put` does not.
    """
    return jax.device_put(jax.tree.map(lambda leaf: leaf[board], moment.state))


def _to_host(moment: Moment) -> Moment:
    return jax.tree.map(np.asarray, jax.device_get(moment))


@functools.lru_cache(maxsize=16)
def _compiled(
    env: Env, pilot: Pilot, boards: int
) -> tuple[Callable[..., Moment], Callable[..., Moment]]:
    """Return compiled functions that make the first and the next `Moment` of all boards."""
    params = env.default_params

    def first(key: PRNGKeyArray, episode: Array, level: Any) -> Moment:
        key_levels, _ = jax.random.split(key)
        key_level = jax.random.fold_in(key_levels, episode)
        if level is None:
            state = eager.shared(env.reset)(key_level).state
        else:
            state = env.reset_to(key_level, level, params).state
        zero, no = jnp.float32(0), jnp.zeros((), jnp.bool_)
        none = jnp.int32(0)
        drawn = env.action_space.sample(key_level)
        _, taken = _commanded(env, drawn, jnp.int32(BY_PILOT))
        return Moment(
            state=state,
            action=jnp.int32(NO_ACTION),
            taken=jax.tree.map(jnp.zeros_like, taken),
            reward=zero,
            terminated=no,
            truncated=no,
            succeeded=no,
            score=zero,
            episode=episode,
            finished=none,
            total=zero,
            earned=jnp.zeros((len(env.achievements),), jnp.bool_),
            memory=pilot.begin(),
        )

    def stepped(key: PRNGKeyArray, moment: Moment, command: Array) -> Moment:
        key_choice, key_step = jax.random.split(key)
        memory, drawn = pilot.choose(key_choice, env, moment.state, params, moment.memory)
        action, taken = _commanded(env, drawn, command)
        given = taken if jax.tree.leaves(taken) else action.clip(0)
        step = env.step(key_step, moment.state, given, params)
        _, state, reward, terminated, truncated, info = step
        succeeded = env.succeeded(step)
        score, done = moment.score + reward, terminated | truncated
        return moment._replace(
            state=state,
            action=action,
            taken=taken,
            reward=reward,
            terminated=terminated,
            truncated=truncated,
            succeeded=jnp.zeros((), jnp.bool_) if succeeded is None else succeeded,
            score=score,
            finished=moment.finished + done.astype(jnp.int32),
            total=moment.total + jnp.where(done, score, 0.0),
            earned=info.get("achievements", moment.earned),
            memory=memory,
        )

    def advance(key: PRNGKeyArray, moment: Moment, clock: Array, command: Array) -> Moment:
        _, key_steps = jax.random.split(key)
        return stepped(jax.random.fold_in(key_steps, clock), moment, command)

    begun = over_rows(first, (0, 0, None), boards)
    return jax.jit(begun), jax.jit(over_rows(advance, (0, 0, None, 0), boards))


def _commanded(env: Env, drawn: Any, command: Array) -> tuple[Int32[Array, ""], Any]:
    """Return the index of the commanded action, and the action itself if it is not discrete.

    `drawn` is the pilot's action.
    """
    by_pilot = command == BY_PILOT
    if isinstance(env.action_space, Discrete):
        return jnp.where(by_pilot, drawn, command), ()
    number = jnp.where(by_pilot, jnp.int32(UNNAMED), command)
    if not env.controls.values:
        return number, drawn
    values = jnp.asarray(np.array(env.controls.values, env.action_space.dtype))
    return number, jnp.where(by_pilot, drawn, values[command.clip(0)])


@functools.lru_cache(maxsize=16)
def _predict(env: Env, pilot: Pilot) -> Callable[[Any, Any], tuple[Array, Array]]:
    params = env.default_params

    policy = distributions.of(env.action_space)

    def predict(state: Any, memory: Any) -> tuple[Array, Array]:
        _, outputs, value = pilot.predict(env, state, params, memory)
        if isinstance(policy, distributions.Categorical):
            return jax.nn.softmax(outputs), value
        return policy.action(policy.best(outputs)), value

    return jax.jit(predict)


def policy_output(session: Session, board: int) -> tuple[np.ndarray, float]:
    """Return the pilot's action probabilities and value in the current state of a board.

    If actions are not discrete, return the mode of the policy instead of probabilities.
    """
    memory = jax.tree.map(lambda leaf: leaf[board], session.now.memory)
    predict = _predict(session.env, session.pilot)
    output, value = predict(session.state(board), memory)
    return np.asarray(output), float(np.asarray(value).reshape(()))
