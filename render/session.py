"""A session of play: a history of time steps that can be rewound and continued.

A session runs one or more environments, called boards, and needs no display. Equal commands always
give equal histories. In particular, a person who goes back and repeats the actions gets the same
outcomes. This holds because a step's random key depends only on the seed, the board and the step's
index in the history; a level's random key depends only on the seed, the board and the episode
number.
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

# A command to an environment is the index of an action or one of these numbers: BY_PILOT lets the
# policy choose the action; NEW_LEVEL starts the next episode.
BY_PILOT, NEW_LEVEL = -1, -2
NO_ACTION = -1  # value of `Moment.action` at the first state of an episode
# Value of `Moment.action` for an action of the policy that has no index, because the action space
# is not discrete. `Moment.taken` contains the action.
UNNAMED = -2
SPEEDS = (0.5, 1, 2, 4, 8, 15, 30, 60)  # speeds that a person can choose, in steps per second
END_PAUSE = 0.8  # minimum time for which the last state of an episode is shown, in seconds
# Limits of the history. If it has more than MAX_MOMENTS time steps or MAX_BYTES bytes, its oldest
# time steps are dropped, but MIN_MOMENTS time steps are always kept.
MIN_MOMENTS, MAX_MOMENTS, MAX_BYTES = 100, 20_000, 64 * 2**20


class Moment(NamedTuple):
    """One time step of a session's history.

    Arrays have a leading axis of boards (the session's environments). This axis is missing inside
    `vmap`, and in the result of `board_moment`.
    """

    state: Any
    # Index into `controls.actions` of the action that led to this state.
    # NO_ACTION at the first state of an episode.
    action: Int32[Array, "*boards"]
    # The action that led to this state, as an element of the action space. () if actions are
    # discrete, because `action` then contains the action.
    taken: Any
    reward: Float32[Array, "*boards"]  # reward of the action that led to this state
    terminated: Bool[Array, "*boards"]
    truncated: Bool[Array, "*boards"]
    # Whether the action that led to this state accomplished the environment's task.
    succeeded: Bool[Array, "*boards"]
    score: Float32[Array, "*boards"]  # return of the episode so far
    episode: Int32[Array, "*boards"]  # episode number, from 0
    finished: Int32[Array, "*boards"]  # number of finished episodes
    # Sum of the returns of the finished episodes; the current episode is not included.
    total: Float32[Array, "*boards"]
    earned: Bool[Array, "*boards achievements"]  # mask of achievements earned this episode
    # Recurrent state of the policy before it observes this state.
    memory: Any

    @property
    def over(self) -> Bool[Array | np.ndarray, "*boards"]:
        """True for the environments whose episode ends at this time step."""
        return self.terminated | self.truncated


class Session:
    """One or more environments (boards), shown side by side, and the history of their time steps.

    Every entry of the history is a time step of all boards: an action on one board steps all of
    them. `cursor` is the index of the displayed time step, `now`.
    """

    def __init__(
        self,
        env: Env,
        pilot: Pilot | None = None,
        boards: int = 1,
        seed: int = 0,
        speed: float = 8,
        level: Any = None,  # level in which every episode starts; None: random levels
        # Maximum size of the history in bytes; MIN_MOMENTS time steps are always kept.
        history_bytes: int = MAX_BYTES,
    ) -> None:
        self.env, self.boards, self.speed = env, boards, float(speed)
        self.pilot = pilot or RANDOM
        self.human = pilot is None  # True: a person chooses the actions; False: the policy does
        self.paused = False
        self.level = level
        self._start, self._advance = _compiled(env, self.pilot, boards)
        self._keys = jax.vmap(jax.random.fold_in, (None, 0))(
            jax.random.key(seed), np.arange(boards, dtype=np.uint32)
        )
        self.history = [_to_host(self._start(self._keys, np.zeros(boards, np.int32), level))]
        self.dropped = 0  # number of old time steps removed because the history was full
        self.cursor = 0  # index into the history of the time step that is shown
        self.capacity = _capacity(self.history[0], history_bytes)
        self._waited = 0.0  # seconds since the last automatic step

    @property
    def now(self) -> Moment:
        """The time step that is shown: the one at the cursor."""
        return self.history[self.cursor]

    @property
    def at_end(self) -> bool:
        """True if the displayed time step is the newest one of the history."""
        return self.cursor == len(self.history) - 1

    def state(self, board: int = 0) -> Any:
        """Return the state of environment `board` at the time step that is shown, as JAX arrays."""
        return board_state(self.now, board)

    def is_over(self, board: int = 0) -> bool:
        """Return whether the episode of environment `board` ends at the time step that is shown."""
        return bool(self.now.over[board])

    def effects(self, board: int = 0) -> Effects:
        """Return the facts and cells to highlight after the latest action on board `board`."""
        if type(self.env).effects is Env.effects or not self.cursor:
            return Effects()
        action = taken(board_moment(self.now, board))
        if self.now.action[board] == NO_ACTION:
            return Effects()
        before = board_state(self.history[self.cursor - 1], board)
        return self.env.effects(before, action, self.state(board))

    # Methods that move the cursor through the history.

    def seek(self, index: int) -> None:
        """Move the cursor to an index into the history (clipped to its length), and pause."""
        self.cursor = max(0, min(index, len(self.history) - 1))
        self.paused = True
        self._waited = 0.0

    def forward(self) -> bool:
        """Show the next time step; at the end of the history, let the policy act to create it.

        If a person chooses the actions, the policy does not act: at the end of the history, nothing
        happens and False is returned.
        """
        if not self.at_end:
            self.cursor += 1
        elif not self.human:
            self._append(np.full(self.boards, BY_PILOT, np.int32))
        else:
            return False
        return True

    def tick(self, seconds: float) -> bool:
        """Advance automatic play by `seconds`; return whether another time step is shown now."""
        if self.paused or self.human:
            return False
        self._waited += seconds
        moved = False
        while self._waited >= self.delay:
            self._waited -= self.delay
            self.forward()
            moved = True
            if self._waited > 1.0:  # more than a second late: skip the missed steps
                self._waited = 0.0
        return moved

    @property
    def delay(self) -> float:
        """Seconds for which the current time step is shown during automatic play."""
        ended = self.boards == 1 and self.is_over()
        return max(END_PAUSE if ended else 0.0, 1.0 / self.speed)

    # Methods for actions and other commands.

    def act(self, action: int, board: int = 0) -> bool:
        """Take a person's action in environment `board`; in all others, the policy acts.

        Discards the history after the displayed time step. If the episode of `board` has ended,
        does nothing and returns False.
        """
        if self.is_over(board):
            return False
        commands = np.full(self.boards, BY_PILOT, np.int32)
        commands[board] = action
        self.human = True
        self._append(commands)
        return True

    def new_level(self, board: int | None = None) -> None:
        """Start the next episode in all environments, or only in environment `board`.

        If only `board` starts an episode, the policy acts in the other environments.
        """
        commands = np.full(self.boards, NEW_LEVEL if board is None else BY_PILOT, np.int32)
        commands[0 if board is None else board] = NEW_LEVEL
        self._append(commands)

    def toggle_pause(self) -> None:
        """Pause or continue automatic play; if a person chose the actions, let the policy act."""
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
        """Compile the step function, so that the first action does not have to wait."""
        self._after(np.full(self.boards, BY_PILOT, np.int32))

    def _append(self, commands: np.ndarray) -> None:
        """Step all environments from `now`, and append the new time step to the history.

        Discards the history after `now`. commands: int32 (boards,); an action, `BY_PILOT` or
        `NEW_LEVEL` for each environment.
        """
        del self.history[self.cursor + 1 :]
        self.history.append(self._after(commands))
        self.cursor += 1
        surplus = len(self.history) - self.capacity
        if surplus > 0:
            del self.history[:surplus]
            self.dropped += surplus
            self.cursor -= surplus

    def _after(self, commands: np.ndarray) -> Moment:
        """Return the time step that follows `now`, given one command for each environment."""
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


def _capacity(moment: Moment, history_bytes: int) -> int:
    """Return the maximum number of time steps in the history, if each is as large as `moment`."""
    size = sum(leaf.nbytes + 128 for leaf in jax.tree.leaves(moment))
    return int(max(MIN_MOMENTS, min(MAX_MOMENTS, history_bytes // size)))


def board_moment(moment: Moment, board: int) -> Moment:
    """Return the time step of environment `board`, given a time step of all environments."""
    return jax.tree.map(lambda leaf: leaf[board], moment)


def taken(moment: Moment) -> Any:
    """Return the action that led to a time step of a single environment, as `env.step` takes it.

    Returns `NO_ACTION` at the start of an episode.
    """
    is_number = moment.action == NO_ACTION or not jax.tree.leaves(moment.taken)
    return int(moment.action) if is_number else moment.taken


def action_name(env: Env, moment: Moment) -> str:
    """Return the name of the action that led to a time step; "" at the start of an episode."""
    action = taken(moment)
    if moment.action == NO_ACTION:
        return ""
    if isinstance(action, int):
        return env.controls.names[action]
    numbers = np.ravel(action).tolist()
    pairs = zip(env.action_names or [""] * len(numbers), numbers, strict=True)
    return ", ".join(f"{name} {number:.4g}".strip() for name, number in pairs)


def board_state(moment: Moment, board: int) -> Any:
    """Return the state of environment `board`, as JAX arrays, from a time step of all environments.

    Uses `device_put`, because `jnp.asarray` would compile a program for each shape.
    """
    return jax.device_put(jax.tree.map(lambda leaf: leaf[board], moment.state))


def _to_host(moment: Moment) -> Moment:
    # Copy the arrays: views would keep the buffers of JAX alive, which take ten times more memory.
    return jax.tree.map(np.array, jax.device_get(moment))


@functools.lru_cache(maxsize=16)
def _compiled(
    env: Env, pilot: Pilot, boards: int
) -> tuple[Callable[..., Moment], Callable[..., Moment]]:
    """Return two compiled functions: `first` resets all environments, `advance` steps them.

    `first` takes (keys, episode numbers, level). `advance` takes (keys, time step, index of this
    time step in the history, commands). Each returns a time step of all environments.
    """
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

    def advance(key: PRNGKeyArray, moment: Moment, clock: Array, command: Array) -> Moment:
        _, key_steps = jax.random.split(key)
        key_choice, key_step = jax.random.split(jax.random.fold_in(key_steps, clock))
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

    begun = over_rows(first, (0, 0, None), boards)
    return jax.jit(begun), jax.jit(over_rows(advance, (0, 0, None, 0), boards))


def _commanded(env: Env, drawn: Any, command: Array) -> tuple[Int32[Array, ""], Any]:
    """Return the action to take, as values of `Moment.action` and `Moment.taken`.

    command: index of the action, or `BY_PILOT` to take `drawn`, the action of the policy.
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
    """Return the policy's action probabilities and value in the displayed state of `board`.

    If actions are not discrete, returns the most likely action instead of probabilities.
    """
    memory = jax.tree.map(lambda leaf: leaf[board], session.now.memory)
    predict = _predict(session.env, session.pilot)
    output, value = predict(session.state(board), memory)
    return np.asarray(output), float(np.asarray(value).reshape(()))
