"""Wrapper for RL² trials: several episodes of one task that recurrent agents treat as one episode.

An agent keeps its recurrent state between the episodes of a trial, so it can learn the task.

Source: Duan et al. 2016, "RL²: Fast Reinforcement Learning via Slow Reinforcement Learning".
"""

import functools
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Bool, Int32, PyTree

from ..core import checks
from ..core.env import Reset, Step
from ..core.facts import Effects, Fact
from ..core.random import Key
from ..core.struct import Struct, struct
from ..core.wrapper import Wrapper
from . import sets
from .rulesets import PackedRuleset
from .sets import Benchmark


@struct
class TrialParams(Struct):
    """Params of `Trials`: the wrapped environment's params, and the tasks to draw from."""

    env: Any
    tasks: PackedRuleset  # tasks with leading axis (num_tasks,)

    @property
    def max_steps_in_episode(self) -> Any:
        """Time limit of the wrapped environment's episodes, not of a trial."""
        return self.env.max_steps_in_episode


@struct
class TrialLevel(Struct):
    """Start of a trial: the task, and the level of the first episode."""

    task: Int32[Array, ""]  # index into `TrialParams.tasks`
    level: Any  # level of the first episode


@struct
class TrialState(Struct):
    """State of `Trials`: the wrapped environment's state, the task and the trial's progress."""

    time: Int32[Array, ""]  # number of steps since the trial began
    env: Any
    task: Int32[Array, ""]
    episode: Int32[Array, ""]  # number of finished episodes


class Trials(Wrapper):
    """Trials of `episodes` episodes or `steps` steps with one task; each episode has a new level.

    To a learner, a trial is one episode: `done` is true only at the end of a trial. A recurrent
    agent has to clear its state only then. Recurrent learners thus maximise the return of a whole
    trial. A trial terminates when its last episode is done (terminated or truncated), and is
    truncated after `steps` steps. The next reset draws another task. Within a trial, the step that
    ends an episode returns the first observation of the next episode.

    `info["trial"]` contains `episode`, the index of the episode in the trial, from 0; `finished`,
    whether this step ended the episode; and `solved`, whether this step reached the goal.
    """

    episodes: int = 10  # number of episodes per trial; 0: no limit
    steps: int = 0  # number of steps per trial; 0: no limit
    num_tasks: int = 1  # number of tasks in the params
    task_set: str = ""  # name of the task set to draw from; "": always the default task
    # Start and end, as fractions, of the part of the task set to draw from; see `sets.part`.
    part: tuple[float, float] = (0.0, 1.0)

    # Names of the task sets that the method `trials` accepts: none, because this environment
    # already has trials.
    task_sets = ()

    def __post_init__(self) -> None:
        """Raise an error if a field has an invalid value."""
        super().__post_init__()
        checks.integer_field("Trials", "episodes", self.episodes, 0)
        checks.integer_field("Trials", "steps", self.steps, 0)
        if not self.episodes and not self.steps:
            raise ValueError("Trials: episodes=0 and steps=0 never end; give one of them")
        checks.integer_field("Trials", "num_tasks", self.num_tasks, 1)
        if not hasattr(self.env.default_params, "ruleset"):
            raise TypeError(f"Trials: needs an environment with rulesets, got {self.env.name}")

    @property
    def episode_is(self) -> str:
        """Name of an episode of this wrapper in reports, such as `trial of 10 episodes`."""
        unit = f"{self.episodes} episodes" if self.episodes else f"{self.steps} steps"
        return f"trial of {unit}"

    @classmethod
    def of(
        cls, env: Any, tasks: Benchmark, episodes: int = 10, steps: int = 0
    ) -> tuple["Trials", TrialParams]:
        """Return a `Trials` wrapper that draws tasks uniformly from `tasks`, and its params.

        Raises `ValueError` if the tasks have more rules or tiles than the environment holds.
        """
        trials = cls(env=env, episodes=episodes, steps=steps, num_tasks=tasks.num_rulesets)
        inner: Any = env.default_params
        return trials, TrialParams(env=inner, tasks=_fitted(tasks.rulesets, inner.ruleset))

    @property
    def default_params(self) -> TrialParams:
        """Params with the tasks of `task_set`, or else `num_tasks` copies of the default task."""
        inner: Any = self.env.default_params
        if self.task_set:
            return TrialParams(env=inner, tasks=_tasks(self.task_set, self.part, inner.ruleset))
        tasks = jax.tree.map(
            lambda leaf: np.broadcast_to(np.asarray(leaf), (self.num_tasks, *np.shape(leaf))),
            inner.ruleset,
        )
        return TrialParams(env=inner, tasks=tasks)

    @property
    def fully_observed(self) -> bool:  # type: ignore[override]
        """Always False: no observation has the episode's index, and most do not have the task."""
        return False

    def inner(self, state: TrialState) -> Any:
        """Return the state of the wrapped environment."""
        return state.env

    def inner_params(self, params: TrialParams | None) -> Any:
        """Return the wrapped environment's params with task 0; `params_of` takes any task."""
        return None if params is None else self.params_of(jnp.int32(0), params)

    def params_of(self, task: ArrayLike, params: TrialParams | None) -> Any:
        """Return the wrapped environment's params with the task whose index is `task`."""
        given = self.default_params if params is None else params
        ruleset = jax.tree.map(lambda leaf: jnp.asarray(leaf)[task], given.tasks)
        return given.env.replace(ruleset=ruleset)

    def draw_level(self, key: Key, params: TrialParams) -> TrialLevel:
        """Draw a task and the level of the first episode."""
        key_task, key_level = jax.random.split(key)
        task = jax.random.randint(key_task, (), 0, self.num_tasks, jnp.int32)
        return self.level_of(key_level, task, params)

    def level_of(self, key: Key, task: ArrayLike, params: TrialParams | None = None) -> TrialLevel:
        """Draw the first level of a trial whose task has the index `task` in the params."""
        index = jnp.asarray(task, jnp.int32)
        given = self.params_of(index, params)
        return TrialLevel(task=index, level=self.env.draw_level(key, given))

    def ending(self, level: TrialLevel) -> None:
        """Return None: no known sequence of actions ends a whole trial."""

    def late(self, state: TrialState, share: ArrayLike) -> TrialState:
        """Return `state` with `time` and `episode` set to the fraction `share` of their limits.

        Learners start each environment of a batch with a different fraction. The trials of the
        batch then do not all end in the same step.
        """
        share = jnp.asarray(share, jnp.float32)
        time, episode = ((share * n).astype(jnp.int32) for n in (self.steps, self.episodes))
        return state.replace(time=time, episode=episode)

    def reset_to(self, key: Key, level: PyTree[Array], params: Any = None) -> Reset:
        """Start a trial in `level`; return its first observation and state."""
        checks.level_like(level, lambda: self.level_shape, "Trials.reset_to")
        params = self.checked_params(params, "reset_to")
        obs, state = self.env.reset_to(key, level.level, self.params_of(level.task, params))
        zero = jnp.zeros_like(level.task)
        return Reset(obs, TrialState(time=zero, env=state, task=level.task, episode=zero))

    def step(self, key: Key, state: TrialState, action: Any, params: Any = None) -> Step:
        """Advance by one action; start the next episode if one ends before the end of the trial."""
        if not isinstance(state, TrialState):
            kind = type(state).__name__
            raise TypeError(f"step: Trials needs a state from its reset or step, got {kind}")
        inner = self.params_of(state.task, self.checked_params(params, "step"))
        key_step, key_reset = jax.random.split(checks.single_key(key, "step"))
        stepped = self.env.step(key_step, state.env, action, inner)
        finished = stepped.done
        episode = state.episode + finished.astype(jnp.int32)
        time = state.time + jnp.int32(1)
        is_last = finished & (episode >= self.episodes) & (self.episodes > 0)
        is_truncated = (time >= self.steps) & (self.steps > 0) & ~is_last
        is_over = is_last | is_truncated
        begun = self.env.restart(key_reset, stepped.state, inner)
        obs, env_state = jax.tree.map(
            lambda new, old: jnp.where(finished & ~is_over, new, old),
            tuple(begun),
            (stepped.obs, stepped.state),
        )
        after = TrialState(time=time, env=env_state, task=state.task, episode=episode)
        trial = {"episode": state.episode, "finished": finished, "solved": stepped.terminated}
        return stepped._replace(
            obs=obs,
            state=after,
            terminated=is_last,
            truncated=is_truncated,
            info={**stepped.info, "trial": trial},
        )

    def time_limit(self, state: TrialState, params: TrialParams) -> ArrayLike:
        """Return the largest number of steps that a trial can have."""
        if self.steps:
            return np.int32(self.steps)
        inner = self.params_of(state.task, params)
        return self.env.time_limit(state.env, inner) * np.int32(self.episodes)

    def shortest_limit(self, params: TrialParams) -> int:
        """Return the number of steps that truncates a trial; the largest int32 if `steps` is 0."""
        return self.steps or np.iinfo(np.int32).max

    def observe(self, state: TrialState, params: Any = None) -> PyTree[Array]:
        """Return the observation of the wrapped environment."""
        return self.env.observe(state.env, self.params_of(state.task, params))

    def succeeded(self, step: Step) -> Bool[Array, ""]:
        """Return whether this step reached the goal of the task.

        A trial is a success if the goal is reached at least once.
        """
        return step.info["trial"]["solved"]

    def facts(self, state: TrialState, params: Any = None) -> tuple[Fact, ...]:
        """Return the wrapped environment's facts, then the episode's number, such as `3 of 10`."""
        inside = self.env.facts(state.env, self.params_of(state.task, params))
        number = int(state.episode) + 1
        if not self.episodes:
            return (*inside, Fact("episode", str(number)))
        return (*inside, Fact("episode", f"{min(number, self.episodes)} of {self.episodes}"))

    def effects(
        self, before: TrialState, action: int, after: TrialState, params: Any = None
    ) -> Effects:
        """Return the effects of a step in the wrapped environment, with the trial's task."""
        inner = self.params_of(before.task, params)
        return self.env.effects(before.env, action, after.env, inner)

    def text_inputs(self, state: TrialState, params: Any = None) -> Any:
        """Return the wrapped environment's arrays for `texts`, with the trial's task."""
        return self.env.text_inputs(state.env, self.params_of(state.task, params))


@functools.lru_cache(maxsize=8)
def _tasks(name: str, part: tuple[float, float], like: PackedRuleset) -> PackedRuleset:
    rows = sets.part(name, *part)
    # Load the tasks in a separate thread. If the calling thread is tracing a function, JAX would
    # add the jitted functions of `sets.rulesets` to the trace instead of running them.
    with ThreadPoolExecutor(1) as outside:
        rulesets = outside.submit(sets.rulesets, name).result()
    return _fitted(jax.tree.map(lambda leaf: leaf[rows], rulesets), like)


def _fitted(tasks: PackedRuleset, like: PackedRuleset) -> PackedRuleset:
    """Pad tasks with empty rules and tiles to the array sizes of the ruleset `like`."""

    def padded(name: str, field: str) -> Any:
        leaf, size = getattr(tasks, name), getattr(like, name).shape[-1]
        count = leaf.shape[-1]
        if count > size:
            raise ValueError(
                f"Trials.of: the tasks have up to {count} {name}, this environment holds {size}; "
                f"make it with {field}={count}"
            )
        module = jnp if isinstance(leaf, jax.Array) else np
        return module.pad(leaf, ((0, 0), (0, size - count)))

    return tasks.replace(
        rules=padded("rules", "num_rules"), init_tiles=padded("init_tiles", "num_tiles")
    )


def episode_returns(trial: dict[str, Any], reward: Any, episodes: int) -> Array:
    """Return the undiscounted return of each episode of a trial, float32 (episodes, ...).

    trial: `info["trial"]` of each step, with leading axis (steps,).
    reward: float32 (steps, ...), up to the end of the trial.
    """
    numbers = np.arange(episodes, dtype=np.int32).reshape(-1, *[1] * reward.ndim)
    return jnp.where(trial["episode"] == numbers, reward, jnp.float32(0)).sum(axis=1)
