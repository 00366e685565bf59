"""`LearnerPart`, a base class of `Env`: members that learners and evaluations use."""

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float32, Int32, PyTree

from ..facts import Features, identity
from ..transitions import Step
from ..vocabulary import Vocabulary, of_map
from .part import Part


class LearnerPart(Part):
    """Attributes and methods of an environment that learners and evaluations use.

    They say what networks take as input, whether the state is fully observed, which steps count as
    success, and from which sets tasks can be drawn.
    """

    # Allowed values of the constructor field `obs`; empty if there is no such field.
    observations: ClassVar[tuple[str, ...]] = ()
    # Whether one observation determines the state, except for `time`. If it does, a planner that
    # searches from the true state uses no information that the agent lacks.
    fully_observed: ClassVar[bool] = False
    reward_range: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))
    # Names of the flags in info["achievements"], in order; empty if the info has no such entry.
    achievements: ClassVar[tuple[str, ...]] = ()
    # Name in result tables for the event that `succeeded` reports.
    success_is: ClassVar[str] = "success"
    # Names of the numbers that `measure` returns, in order. A name may have parts, joined by `/`.
    measures: ClassVar[tuple[str, ...]] = ()
    # Names of the kinds of levels, see `level_kind`. Empty if all levels are of one kind, or if no
    # event counts as success.
    level_kinds: ClassVar[tuple[str, ...]] = ()
    # Allowed values of the constructor field `setup`; empty if there is no such field.
    setups: ClassVar[tuple[str, ...]] = ()
    # Names of the sets of tasks that `trials` can draw from.
    task_sets: ClassVar[tuple[str, ...]] = ()

    @property
    def uses_mask(self) -> bool:
        """True if learners use the action mask of an environment that forbids actions."""
        return True

    @property
    def skips_forced(self) -> bool:
        """True if learners skip forced steps, in which one action is legal."""
        return False

    @property
    def full_observations(self) -> tuple[str, ...]:
        """Values of the constructor field `obs` for which `fully_observed` is true."""
        change: Any = dataclasses.replace
        return tuple(n for n in self.observations if change(self, obs=n).fully_observed)

    @property
    def features(self) -> Features:
        """Network inputs: a function that computes them from an observation, and their space.

        By default the inputs are the observation itself.
        """
        return Features(self.observation_space, identity)

    @property
    def map_features(self) -> Features:
        """Inputs of networks with spatial layers: a function that computes them, and their space.

        An override returns a map of cells with integer categories. The default is `features`.
        """
        return self.features

    @property
    def vocabulary(self) -> Vocabulary | None:
        """Conversion of observations to categories, for models that predict observations.

        None if observations are not discrete. By default, an observation that is a map of small
        integers has a vocabulary.
        """
        return of_map(self.observation_space)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Return whether this step accomplished the task.

        An episode is a success if this function returns true for one of its steps. The default is
        None, for tasks in which the return is a score and no event counts as success.
        """
        return None

    def measure(self, before: Any, step: Step) -> Float32[Array, " measures"]:
        """Return numbers that describe the episode that `step` ended, such as the cause of death.

        `before` is the state before the step. The log of a training run has the mean of each number
        over the episodes that ended, under its name in `measures`. The default is no numbers.
        """
        return jnp.zeros(len(self.measures), jnp.float32)

    def level_kind(self, state: Any) -> Int32[Array, ""]:
        """Return the kind of the state's level, an index into `level_kinds`.

        The log of a training run has the share of successes among the episodes of each kind that
        ended, `success/KIND`, and their number, `episodes/KIND`. An episode counts as a success if
        `succeeded` returns true for its last step. The default is one kind.
        """
        return jnp.int32(0)

    def optimal_steps(self, level: PyTree[Array]) -> Int32[Array, ""] | None:
        """Return the number of steps of the shortest plan in a level; very large if none exists.

        Works inside `jit`. The default is None, for environments in which this computation is
        expensive; the command `jaxenvs solve` solves levels of such environments.
        """
        return None

    def optimal_return(self, level: PyTree[Array], params: Any) -> Float32[Array, ""] | None:
        """Return the largest undiscounted return that a plan can have in a level.

        The plan may use the whole level, although an agent may observe only a part of it. The
        default is None, for environments in which this computation is expensive.
        """
        return None

    def trials(self, tasks: str, part: tuple[float, float] = (0.0, 1.0), **lengths: int) -> Any:
        """Return an environment whose episodes are trials, for meta-learning.

        A trial consists of several episodes of one task. The task is drawn from the set called
        `tasks`, one of `task_sets`. `part` restricts the set, which has a fixed order, to the tasks
        between two fractions: (0.0, 0.5) is the first half. `lengths` may set `episodes` and
        `steps`, the maximum numbers of episodes and steps in a trial. Raises `ValueError` if there
        is no set of this name.
        """
        raise ValueError(f"{self.name} has no sets of tasks to draw trials from")


@functools.lru_cache(maxsize=512)
def defines_success(env: Any) -> bool:
    """Return whether `env.succeeded` returns an array; a step is traced, but not run."""

    def succeeded(key: Any, state: Any) -> Any:
        return env.succeeded(env.step(key, state, env.action_space.sample(key)))

    return jax.eval_shape(succeeded, jax.random.key(0), env.state_shape) is not None
