"""Part of `Env` for learners and evaluations."""

import dataclasses
from typing import Any, ClassVar

from jaxtyping import Array, Bool

from ..facts import Features, identity
from ..transitions import Step
from ..vocabulary import Vocabulary, of_map
from .part import Part


class LearnerPart(Part):
    """Network inputs, observability, success and task sets."""

    observations: ClassVar[tuple[str, ...]] = ()  # allowed values of the field `obs`, if any
    # Whether one observation determines the state, except for `time`. A planner that steps the
    # true state then uses nothing that the agent cannot observe.
    fully_observed: ClassVar[bool] = False
    reward_range: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))
    achievements: ClassVar[tuple[str, ...]] = ()  # names of the flags in info["achievements"]
    success_is: ClassVar[str] = "success"  # how tables name the outcome that `succeeded` reports
    task_sets: ClassVar[tuple[str, ...]] = ()  # names of the task sets that `trials` accepts

    @property
    def full_observations(self) -> tuple[str, ...]:
        """Values of the field `obs` that make the environment fully observed."""
        change: Any = dataclasses.replace
        return tuple(n for n in self.observations if change(self, obs=n).fully_observed)

    @property
    def features(self) -> Features:
        """Network inputs: by default the observation itself."""
        return Features(self.observation_space, identity)

    @property
    def map_features(self) -> Features:
        """Inputs of spatial networks: cells as a map, integers as categories.

        By default the same as `features`.
        """
        return self.features

    @property
    def vocabulary(self) -> Vocabulary | None:
        """The observation as categories, for models that predict it; None if it is not discrete.

        By default a two-dimensional observation of small integers is a map of categories.
        """
        return of_map(self.observation_space)

    def succeeded(self, step: Step) -> Bool[Array, ""] | None:
        """Tell whether this step accomplished the task; an episode with such a step is a success.

        None, the default, if the return is a score and nothing counts as success.
        """
        return None

    def trials(self, tasks: str, part: tuple[float, float] = (0.0, 1.0), **lengths: int) -> Any:
        """Return an environment whose episodes are trials: several episodes of one task of a set.

        tasks: one of `task_sets`. part: start and end of the part of the set that the default
        params hold, as fractions of its fixed order. lengths: the fields `episodes` and `steps` of
        a trial.
        Raises `ValueError` if the environment has no such tasks.
        """
        raise ValueError(f"{self.name} has no sets of tasks to draw trials from")
